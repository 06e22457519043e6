//! The experiment file that repeats what was typed. Pure.

use prony_model::program::Runtime;
use toml::{Table, Value};

/// What was typed, as far as the file is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// The commands; the first is the baseline of the others.
    pub commands: Vec<Command>,
    /// Stands above the tables.
    pub title: Option<String>,
    /// So many trials of each; without it 10 of one command, and 6 to 30 blocks of several.
    pub runs: Option<u32>,
    /// The time that the run has, as typed: as many trials as it holds.
    pub budget: Option<String>,
    /// Runs before the first trial of each.
    pub warmup: u32,
    /// Before each trial.
    pub prepare: Option<String>,
    /// After the last trial of each.
    pub cleanup: Option<String>,
    /// Limits, as typed.
    pub memory: Option<String>,
    /// See `memory`.
    pub cpus: Option<f64>,
    /// See `memory`.
    pub pids: Option<u32>,
    /// Time of a trial.
    pub time: Option<String>,
    /// A file to read.
    pub input: Option<String>,
    /// Variables with their values.
    pub env: Vec<(String, String)>,
    /// Variables taken over.
    pub inherit: Vec<String>,
    /// The shell that runs the commands.
    pub shell: Option<String>,
    /// Throws the output away.
    pub discard: bool,
    /// Gives a terminal for output.
    pub pty: bool,
    /// Any exit code will do.
    pub any_exit: bool,
    /// Whose heap a probe reads.
    pub runtime: Option<Runtime>,
    /// Where the commands run.
    pub directory: String,
    /// Samples a second.
    pub hertz: u32,
    /// One more trial of each command is profiled.
    pub profile: bool,
    /// Command lines are kept out of the record, and commands without a name are called `a`, `b` ...
    pub omit: bool,
    /// Calls such as `fsync` are counted.
    pub syncs: bool,
}

/// One command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// As typed: words, or one text that is cut into words or goes to the shell.
    pub words: Vec<String>,
    /// What it is called in tables.
    pub name: Option<String>,
}

impl Command {
    /// What it is called where nothing else was said.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.words.join(" "))
    }

    /// One word with blanks in it is a text, as in `prony exec 'sleep 1'`.
    fn is_text(&self) -> bool {
        matches!(self.words.as_slice(), [only] if only.contains(char::is_whitespace))
    }
}

impl Typed {
    /// The file.
    pub fn to_toml(&self) -> String {
        let labels = self.labels();
        let title = self.title.clone().unwrap_or_else(|| labels.join(" against "));
        let mut file = Table::new();
        let mut put = |name: &str, table: Table| {
            if !table.is_empty() {
                file.insert(name.to_owned(), table.into());
            }
        };
        put("experiment", table([("title", some(title))]));
        if labels.len() > 1 {
            let levels = labels.iter().enumerate().map(|(at, label)| (label.clone(), program(at).into()));
            put("factors", table([("command", some(levels.collect::<Table>()))]));
            put("subject", table([("program", some("{command}"))]));
        }
        put("compare", self.compare(&labels));
        put("observe", self.observe());
        put("limits", self.limits());
        let programs = self.commands.iter().enumerate();
        put("program", programs.map(|(at, command)| (program(at), self.program(command).into())).collect());
        file.to_string()
    }

    /// Each command's name, no two alike.
    pub fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for (at, command) in self.commands.iter().enumerate() {
            let unnamed = self.omit && command.name.is_none();
            let label = if unnamed { program(at) } else { command.label() };
            let mut numbered = std::iter::once(label.clone()).chain((2..).map(|n| format!("{label} ({n})")));
            let free = numbered.find(|label| !labels.contains(label));
            labels.extend(free);
        }
        labels
    }

    fn compare(&self, labels: &[String]) -> Table {
        let blocks = match (&self.budget, self.runs, labels.len()) {
            (Some(_), ..) => None,
            (None, Some(runs), _) => some(runs),
            (None, None, 0 | 1) => some(10),
            (None, None, _) => some(table([("min", some(6)), ("max", some(30))])),
        };
        let baseline = match labels {
            [baseline, _, ..] => some(table([("command", some(baseline.as_str()))])),
            _ => None,
        };
        table([("budget", self.budget.clone().map(Value::from)), ("blocks", blocks), ("baseline", baseline)])
    }

    fn observe(&self) -> Table {
        table([
            ("hertz", some(self.hertz)),
            ("care", some("light")),
            ("profile", self.profile.then(|| "cpu".into())),
            ("record_commands", self.omit.then(|| false.into())),
            ("syncs", self.syncs.then(|| true.into())),
        ])
    }

    fn limits(&self) -> Table {
        table([
            ("memory", self.memory.clone().map(Value::from)),
            ("cpus", self.cpus.map(Value::from)),
            ("pids", self.pids.map(Value::from)),
            ("time", self.time.clone().map(Value::from)),
        ])
    }

    fn program(&self, command: &Command) -> Table {
        let line = match self.shell.is_some() || command.is_text() {
            true => some(filled(&command.words.join(" "))),
            false => some(command.words.iter().map(|word| filled(word)).collect::<Vec<_>>()),
        };
        let shell = self.shell.as_deref().map(|shell| if shell == "sh" { true.into() } else { shell.into() });
        let text = |text: &Option<String>| text.as_deref().map(|text| filled(text).into());
        let env: Table = self.env.iter().map(|(name, value)| (name.clone(), filled(value).into())).collect();
        table([
            ("command", line),
            ("shell", shell),
            ("directory", some(filled(&self.directory))),
            ("copy", some("none")),
            ("inherit", (!self.inherit.is_empty()).then(|| self.inherit.clone().into())),
            ("input", text(&self.input)),
            ("output", self.discard.then(|| "null".into())),
            ("pty", self.pty.then(|| true.into())),
            ("success", self.any_exit.then(|| "any".into())),
            ("runtime", self.runtime.map(|runtime| runtime.name().into())),
            ("prepare", text(&self.prepare)),
            ("cleanup", text(&self.cleanup)),
            ("warmup", (self.warmup > 0).then(|| self.warmup.into())),
            ("env", (!env.is_empty()).then(|| env.into())),
        ])
    }
}

/// The entries that have a value.
fn table<const N: usize>(entries: [(&str, Option<Value>); N]) -> Table {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn some(value: impl Into<Value>) -> Option<Value> {
    Some(value.into())
}

/// The name of a command's table: `a`, `b` ... `a1` after `z`.
fn program(at: usize) -> String {
    let letter = char::from(b'a' + (at % 26) as u8);
    if at < 26 { letter.to_string() } else { format!("{letter}{}", at / 26) }
}

/// A text whose braces are no placeholders.
fn filled(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    use prony_engines::catalog::Catalog;
    use prony_experiment::design::Experiment;
    use prony_experiment::{check, parse, render};
    use prony_model::catalog::Overrides;
    use prony_model::program::{CommandLine, ProgramSpec};
    use prony_model::units::Nanos;

    use super::*;

    fn command(words: &[&str]) -> Command {
        Command { words: words.iter().map(|word| (*word).to_owned()).collect(), name: None }
    }

    fn typed(commands: &[&[&str]]) -> Typed {
        let commands = commands.iter().map(|words| command(words)).collect();
        Typed { commands, directory: ".".into(), hertz: 100, ..Typed::default() }
    }

    fn checked(typed: &Typed) -> Experiment {
        let text = typed.to_toml();
        let raw = parse(&text, "experiment.toml").unwrap_or_else(|p| panic!("{}\n{text}", p[0].message));
        check(&raw, &Catalog, &Overrides::default())
            .unwrap_or_else(|problems| panic!("{}", render(&problems[0], "experiment.toml", &text)))
    }

    fn programs(experiment: &Experiment) -> Vec<&ProgramSpec> {
        experiment.variants().iter().filter_map(|variant| variant.spec.subject.program()).collect()
    }

    #[test]
    fn one_command_is_the_least_file() {
        assert_eq!(
            typed(&[&["node", "a b.js"]]).to_toml(),
            "[experiment]\ntitle = \"node a b.js\"\n\n[compare]\nblocks = 10\n\n[observe]\nhertz = 100\ncare = \"light\"\n\n\
             [program.a]\ncommand = [\"node\", \"a b.js\"]\ndirectory = \".\"\ncopy = \"none\"\n"
        );
    }

    #[test]
    fn command_words_round_trip() {
        let odd = ["a b", "{x}", "\"'\\", "\u{7f}\n\t", "é", ""];
        let experiment = checked(&typed(&[&["prog", odd[0], odd[1], odd[2], odd[3], odd[4], odd[5]]]));
        let CommandLine::Words(words) = &programs(&experiment)[0].command else { panic!("a shell") };
        assert_eq!(words[1..], odd);
    }

    #[test]
    fn several_commands_are_compared_with_the_first() {
        let experiment = checked(&typed(&[&["sleep 0.1"], &["sleep", "0.2"], &["sleep 0.1"]]));
        let labels: Vec<&str> = experiment.factors()[0].levels.iter().map(|level| level.label.as_str()).collect();
        assert_eq!(labels, ["sleep 0.1", "sleep 0.2", "sleep 0.1 (2)"]);
        assert_eq!(experiment.compare().baseline["command"], "sleep 0.1");
        assert_eq!((experiment.compare().blocks.min, experiment.compare().blocks.max), (6, 30));
        assert_eq!(programs(&experiment)[0].command.words(), ["sleep", "0.1"], "a text is cut into words");
    }

    #[test]
    fn labels_never_collide() {
        let labels = typed(&[&["a (2)"], &["a"], &["a"], &["a"]]).labels();
        assert_eq!(labels, ["a (2)", "a", "a (3)", "a (4)"]);
    }

    #[test]
    fn a_budget_stands_in_the_file_in_place_of_a_number_of_blocks() {
        let mut two = typed(&[&["true"], &["false"]]);
        two.budget = Some("4 min".into());
        let experiment = checked(&two);
        let analyses = experiment.compare().analyses(experiment.variants()[1].blocks);
        assert_eq!(experiment.compare().budget, Some(Nanos::from_secs(240)));
        assert_eq!(analyses.at()[..3], [6, 10, 17], "interim analyses that depend on no estimate");
        assert!(!two.to_toml().contains("blocks"));
    }

    #[test]
    fn every_option_reaches_the_program() {
        let mut all = typed(&[&["sort {x}"]]);
        all.runs = Some(7);
        (all.warmup, all.hertz, all.discard, all.any_exit) = (3, 50, true, true);
        (all.prepare, all.cleanup) = (Some("echo {p}".into()), Some("rm x".into()));
        all.profile = true;
        (all.memory, all.cpus, all.pids, all.time) = (Some("64 MB".into()), Some(2.0), Some(9), Some("3 s".into()));
        (all.input, all.shell, all.runtime) = (Some("in".into()), Some("bash".into()), Some(Runtime::Node));
        (all.env, all.inherit) = (vec![("K".into(), "{v}".into())], vec!["HTTP_PROXY".into()]);
        let experiment = checked(&all);
        let (program, limits) = (programs(&experiment)[0], &experiment.variants()[0].spec.limits);
        assert_eq!(program.command.words(), ["bash", "-c", "sort {x}"]);
        assert_eq!((program.env["K"].as_str(), program.warmup, program.success.len()), ("{v}", 3, 0));
        assert_eq!(program.prepare.as_ref().unwrap().words(), ["sh", "-c", "echo {p}"]);
        assert_eq!(
            (limits.cpus, limits.pids, limits.trial.is_some(), limits.memory.is_some()),
            (Some(2.0), Some(9), true, true)
        );
        assert_eq!((experiment.variants()[0].blocks.max, experiment.observe().hertz), (7, 50));
        assert!(experiment.observe().profile.is_some());
    }
}
