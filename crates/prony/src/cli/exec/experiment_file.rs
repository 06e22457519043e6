//! Makes the text of an experiment file that repeats a `prony exec` command line.

use std::collections::BTreeSet;

use prony_analysis::verdicts::names::COMMAND;
use prony_experiment::design::{Experiment, Variant};
use prony_model::program::{Care, CopyOf, ProgramSpec, Runtime};
use toml::{Table, Value};

use super::parameters::{Parameter, filled, replaced};

/// What was typed, as far as the file is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// The commands; the first is the baseline of the others.
    pub commands: Vec<Command>,
    /// What `{name}` stands for in the commands.
    pub parameters: Vec<Parameter>,
    /// Minimum and maximum number of trials of each command; `None` means 10 trials of one command, or 6 to 30 blocks
    /// of several.
    pub runs: Option<(u32, u32)>,
    /// The time that the run has, as typed: as many trials as it holds.
    pub budget: Option<String>,
    /// Metrics in which the commands are compared beside their time.
    pub metrics: Vec<String>,
    /// Runs before the first trial of each.
    pub warmup: u32,
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
    /// The shell that runs the commands: its program and the arguments before `-c`; empty for none.
    pub shell: Vec<String>,
    /// Gives a terminal for output.
    pub pty: bool,
    /// Exit codes that are no failure; `None` is 0, and an empty list is any.
    pub success: Option<Vec<u8>>,
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
    /// Whether system calls such as `fsync` are counted.
    pub syncs: bool,
}

/// One command, and what is done beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// As typed: words, or one text that is cut into words. For a shell always one text.
    pub words: Vec<String>,
    /// What it is called in tables.
    pub name: Option<String>,
    /// Before its first trial.
    pub setup: Option<String>,
    /// Before each trial.
    pub prepare: Option<String>,
    /// After each trial.
    pub conclude: Option<String>,
    /// After its last trial.
    pub cleanup: Option<String>,
    /// Where its output goes.
    pub output: Output,
}

/// Where the output of a command goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Its beginning and end are kept.
    #[default]
    Capture,
    /// It is thrown away, or shown, by the file's word for it.
    Word(&'static str),
    /// It goes to this file.
    File(String),
}

impl Command {
    /// What it is called where nothing else was said: its words, quoted as a shell needs them.
    pub fn label(&self) -> String {
        let quoted = |word: &String| {
            let special = |c: char| c.is_whitespace() || "'\"\\;|&<>()$`*?".contains(c);
            let is_special = word.is_empty() || word.contains(special);
            if is_special { shell_words::quote(word).into_owned() } else { word.clone() }
        };
        let words = || self.words.iter().map(quoted).collect::<Vec<_>>().join(" ");
        self.name.clone().unwrap_or_else(|| if self.is_text() { self.words.concat() } else { words() })
    }

    /// One word with blanks in it is a text, as in `prony exec 'sleep 1'`.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.words.as_slice(), [only] if only.contains(char::is_whitespace))
    }
}

impl Typed {
    /// The file.
    pub(crate) fn to_toml(&self) -> String {
        let labels = self.labels();
        let mut file = Table::new();
        let mut put = |name: &str, table: Table| {
            if !table.is_empty() {
                file.insert(name.to_owned(), table.into());
            }
        };
        put("experiment", table([("title", some(labels.join(" and ")))]));
        put("factors", self.factors(&labels));
        if labels.len() > 1 {
            put("subject", table([("program", some("{command}"))]));
        }
        put("design", self.design(&labels));
        put("compare", self.compare(&labels));
        put("observe", self.observe());
        put("limits", self.limits());
        let programs = self.commands.iter().enumerate();
        put("program", programs.map(|(at, command)| (program(at), self.program(command).into())).collect());
        file.to_string()
    }

    /// Each command's name, no two alike.
    pub(crate) fn labels(&self) -> Vec<String> {
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

    fn factors(&self, labels: &[String]) -> Table {
        let levels = labels.iter().enumerate().map(|(at, label)| (label.clone(), program(at).into()));
        let commands = (labels.len() > 1).then(|| some(levels.collect::<Table>())).flatten();
        let mut factors = table([(COMMAND, commands)]);
        factors.extend(self.parameters.iter().map(|parameter| (parameter.name.clone(), parameter.levels())));
        factors
    }

    /// Whether the first of several commands is the same whatever the parameters are: it runs once a block, and all are
    /// compared with it.
    fn is_fixed_baseline(&self) -> bool {
        let [first, _, ..] = self.commands.as_slice() else { return false };
        let beside = [&first.setup, &first.prepare, &first.conclude, &first.cleanup];
        let mut texts =
            first.words.iter().chain(beside.into_iter().flatten()).chain(self.env.iter().map(|(_, text)| text));
        !self.parameters.is_empty() && !texts.any(|text| filled(text, &self.parameters) != filled(text, &[]))
    }

    /// Without the levels in which a fixed baseline would run again.
    fn design(&self, labels: &[String]) -> Table {
        let varied = self.parameters.iter().filter(|parameter| self.is_fixed_baseline() && parameter.varies());
        let skip = |parameter: &Parameter| {
            let mut one = table([(COMMAND, labels.first().map(|label| label.as_str().into()))]);
            one.insert(parameter.name.clone(), parameter.values[1..].to_vec().into());
            Value::from(one)
        };
        let skipped: Vec<Value> = varied.map(skip).collect();
        table([("skip", (!skipped.is_empty()).then(|| skipped.into()))])
    }

    fn compare(&self, labels: &[String]) -> Table {
        let compared = labels.len() > 1 || self.parameters.iter().any(Parameter::varies);
        let blocks = match (&self.budget, self.runs, compared) {
            (Some(_), ..) => None,
            (None, Some((min, max)), _) if min == max => some(min),
            (None, Some((min, max)), _) => some(table([("min", some(min)), ("max", some(max))])),
            (None, None, false) => some(10),
            (None, None, true) => some(table([("min", some(6)), ("max", some(30))])),
        };
        let mut baseline = Table::new();
        if let [first, _, ..] = labels {
            baseline.insert(COMMAND.to_owned(), first.as_str().into());
        }
        // Several commands are compared at the same values of the parameters.
        if compared && (labels.len() == 1 || self.is_fixed_baseline()) {
            let first = |parameter: &Parameter| Some((parameter.name.clone(), parameter.values.first()?.clone()));
            baseline.extend(self.parameters.iter().filter_map(first));
        }
        let baseline = (!baseline.is_empty()).then(|| baseline.into());
        let metrics = (!self.metrics.is_empty()).then(|| self.metrics.clone().into());
        table([
            ("budget", self.budget.clone().map(Value::from)),
            ("blocks", blocks),
            ("metrics", metrics),
            ("baseline", baseline),
        ])
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
            ("cpus", self.cpus.map(as_typed)),
            ("pids", self.pids.map(Value::from)),
            ("time", self.time.clone().map(Value::from)),
        ])
    }

    fn program(&self, command: &Command) -> Table {
        let varied = |text: &str| filled(text, &self.parameters);
        let (line, shell): (Value, Option<Value>) = match self.shell.as_slice() {
            [] if command.is_text() => (varied(&command.words[0]).into(), None),
            [] => (command.words.iter().map(|word| varied(word)).collect::<Vec<_>>().into(), None),
            [shell] => {
                let shell = if shell == "sh" { true.into() } else { filled(shell, &[]).into() };
                (varied(&command.words[0]).into(), Some(shell))
            }
            _ => (self.by_shell(&command.words[0]), None),
        };
        // A step runs in `sh` unless the file says otherwise.
        let is_sh = self.shell.is_empty() || self.shell == ["sh"];
        let step = |text: &Option<String>| {
            text.as_deref().map(|text| if is_sh { varied(text).into() } else { self.by_shell(text) })
        };
        let env: Table = self.env.iter().map(|(name, value)| (name.clone(), varied(value).into())).collect();
        let success = self.success.as_ref().map(|codes| match codes.as_slice() {
            [] => "any".into(),
            codes => codes.iter().map(|code| i64::from(*code)).collect::<Vec<_>>().into(),
        });
        let output = match &command.output {
            Output::Capture => None,
            Output::Word(word) => some(*word),
            Output::File(path) => some(table([("file", some(filled(path, &[])))])),
        };
        table([
            ("command", Some(line)),
            ("shell", shell),
            ("directory", some(filled(&self.directory, &[]))),
            ("copy", some("none")),
            ("inherit", (!self.inherit.is_empty()).then(|| self.inherit.clone().into())),
            ("input", self.input.as_deref().map(|path| filled(path, &[]).into())),
            ("output", output),
            ("pty", self.pty.then(|| true.into())),
            ("success", success),
            ("runtime", self.runtime.map(|runtime| runtime.name().into())),
            ("build", step(&command.setup)),
            ("prepare", step(&command.prepare)),
            ("conclude", step(&command.conclude)),
            ("cleanup", step(&command.cleanup)),
            ("warmup", (self.warmup > 0).then(|| self.warmup.into())),
            ("env", (!env.is_empty()).then(|| env.into())),
        ])
    }

    /// A text as words, of which the first are those of the shell that reads it.
    fn by_shell(&self, script: &str) -> Value {
        let shell = self.shell.iter().map(|word| filled(word, &[]));
        let script = ["-c".to_owned(), filled(script, &self.parameters)];
        shell.chain(script).collect::<Vec<_>>().into()
    }
}

/// The command of a variant, and its values of parameters by their names. A baseline that is the same for all values has
/// none: the levels under which it runs say nothing of it.
pub fn levels<'e>(experiment: &'e Experiment, variant: &Variant) -> (&'e str, Vec<(&'e str, &'e str)>) {
    let levels = experiment.factors().iter().zip(&variant.levels);
    let levels = levels.map(|(factor, at)| (factor.name.as_str(), factor.levels[*at].label.as_str()));
    let (commands, mut parameters): (Vec<_>, Vec<_>) = levels.partition(|(name, _)| *name == COMMAND);
    let Some((_, command)) = commands.first() else { return (experiment.title(), parameters) };
    let baseline = &experiment.compare().baseline;
    if variant.baseline && parameters.iter().all(|(name, _)| baseline.contains_key(*name)) {
        parameters.clear();
    }
    (command, parameters)
}

/// What a variant is called: its command with the values of its parameters, and those that stand nowhere in it.
pub fn label(experiment: &Experiment, variant: &Variant) -> String {
    let (command, parameters) = levels(experiment, variant);
    let mut used = BTreeSet::new();
    let value = |name: &str| {
        let (name, value) = parameters.iter().find(|(known, _)| *known == name)?;
        used.insert(*name);
        Some((*value).to_owned())
    };
    let label = replaced(command, value, str::to_owned);
    let unused = parameters.iter().filter(|(name, _)| !used.contains(*name));
    let unused: Vec<String> = unused.map(|(name, value)| format!("{name}={value}")).collect();
    if unused.is_empty() { label } else { format!("{label} ({})", unused.join(", ")) }
}

/// What each variant is called, where commands are a factor or one command was typed; empty elsewhere.
pub fn names(experiment: &Experiment) -> Vec<String> {
    let variants = experiment.variants();
    let are_commands = is_one_command(experiment) || experiment.factors().iter().any(|factor| factor.name == COMMAND);
    variants.iter().filter(|_| are_commands).map(|variant| label(experiment, variant)).collect()
}

/// Whether the experiment is as [`Typed::to_toml`] writes it of one command, whose title is the command.
fn is_one_command(experiment: &Experiment) -> bool {
    let [variant] = experiment.variants() else { return false };
    let typed = |of: &ProgramSpec| of.name == program(0) && of.copy == CopyOf::None;
    experiment.observe().care == Care::Light && variant.spec.subject.program().is_some_and(typed)
}

/// The entries that have a value.
fn table<const N: usize>(entries: [(&str, Option<Value>); N]) -> Table {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn some(value: impl Into<Value>) -> Option<Value> {
    Some(value.into())
}

/// The name of a command's table: `a`, `b` ... `a1` after `z`.
pub(super) fn program(at: usize) -> String {
    let letter = char::from(b'a' + (at % 26) as u8);
    if at < 26 { letter.to_string() } else { format!("{letter}{}", at / 26) }
}

/// A number as people write it: texts and messages show the file's notation.
fn as_typed(number: f64) -> Value {
    let whole = number as i64;
    if whole as f64 == number { whole.into() } else { number.into() }
}

#[cfg(test)]
mod tests {
    use prony_engines::catalog::Catalog;
    use prony_experiment::{check, parse, render};
    use prony_model::catalog::Overrides;
    use prony_model::program::{CommandLine, OutputTo};
    use prony_model::units::Nanos;

    use super::*;

    fn command(words: &[&str]) -> Command {
        Command { words: words.iter().map(|word| (*word).to_owned()).collect(), ..Command::default() }
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
            "[experiment]\ntitle = \"node 'a b.js'\"\n\n[compare]\nblocks = 10\n\n[observe]\nhertz = 100\ncare = \"light\"\n\n\
             [program.a]\ncommand = [\"node\", \"a b.js\"]\ndirectory = \".\"\ncopy = \"none\"\n"
        );
    }

    #[test]
    fn only_commands_that_were_typed_are_names_of_variants() {
        let one = typed(&[&["node", "a b.js"]]);
        assert_eq!(names(&checked(&one)), ["node 'a b.js'"]);
        let text = one.to_toml().replace("program.a", "program.site");
        let raw = parse(&text, "experiment.toml").unwrap_or_else(|p| panic!("{}", p[0].message));
        let file = check(&raw, &Catalog, &Overrides::default()).unwrap_or_else(|p| panic!("{}", p[0].message));
        assert!(names(&file).is_empty());
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

    /// `echo '' a` was called `echo  a`, which a shell reads as another command.
    #[test]
    fn label_quotes_words_that_a_shell_would_lose() {
        let labels = typed(&[&["echo", "", "a"], &["echo", "a b", "it's"], &["echo '' a"]]).labels();
        assert_eq!(labels, ["echo '' a", "echo 'a b' 'it'\\''s'", "echo '' a (2)"]);
    }

    #[test]
    fn a_budget_replaces_the_number_of_blocks_in_the_file() {
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
        all.runs = Some((7, 7));
        (all.warmup, all.hertz, all.success) = (3, 50, Some(Vec::new()));
        let text = |text: &str| Some(text.to_owned());
        let one = &mut all.commands[0];
        (one.setup, one.prepare, one.conclude, one.cleanup) =
            (text("make {m}"), text("echo {p}"), text("kill 1"), text("rm x"));
        one.output = Output::File("/tmp/{o}".into());
        all.profile = true;
        (all.memory, all.cpus, all.pids, all.time) = (Some("64 MB".into()), Some(2.0), Some(9), Some("3 s".into()));
        (all.input, all.shell, all.runtime) = (Some("in".into()), vec!["bash".into()], Some(Runtime::Node));
        (all.env, all.inherit) = (vec![("K".into(), "{v}".into())], vec!["HTTP_PROXY".into()]);
        let experiment = checked(&all);
        let (program, limits) = (programs(&experiment)[0], &experiment.variants()[0].spec.limits);
        assert_eq!(program.command.words(), ["bash", "-c", "sort {x}"]);
        assert_eq!((program.env["K"].as_str(), program.warmup, program.success.len()), ("{v}", 3, 0));
        let steps = [&program.build, &program.prepare, &program.conclude, &program.cleanup];
        let scripts = steps.map(|step| step.as_ref().unwrap().words().join(" "));
        assert_eq!(scripts, ["bash -c make {m}", "bash -c echo {p}", "bash -c kill 1", "bash -c rm x"]);
        assert_eq!(program.output, OutputTo::File("/tmp/{o}".into()));
        assert_eq!(
            (limits.cpus, limits.pids, limits.trial.is_some(), limits.memory.is_some()),
            (Some(2.0), Some(9), true, true)
        );
        assert_eq!((experiment.variants()[0].blocks.max, experiment.observe().hertz), (7, 50));
        assert!(experiment.observe().profile.is_some());
    }

    fn with_parameters(commands: &[&[&str]], parameters: &[(&str, &[i64])]) -> Typed {
        let parameter = |(name, values): &(&str, &[i64])| Parameter {
            name: (*name).to_owned(),
            values: values.iter().map(|value| Value::from(*value)).collect(),
        };
        Typed { parameters: parameters.iter().map(parameter).collect(), ..typed(commands) }
    }

    fn lines(typed: &Typed) -> Vec<String> {
        programs(&checked(typed)).iter().map(|program| program.command.words().join(" ")).collect()
    }

    #[test]
    fn parameters_are_factors_and_are_replaced_in_texts_and_words() {
        let two: &[(&str, &[i64])] = &[("x", &[1, 2]), ("y", &[7])];
        let one = with_parameters(&[&["echo {x} {y} {z}"]], two);
        assert_eq!(lines(&one), ["echo 1 7 {z}", "echo 2 7 {z}"]);
        assert_eq!(lines(&with_parameters(&[&["echo", "-{x}{", "{y}"]], two)), ["echo -1{ 7", "echo -2{ 7"]);
        let experiment = checked(&one);
        assert_eq!(
            (experiment.compare().baseline["x"].as_str(), experiment.compare().baseline["y"].as_str()),
            ("1", "7")
        );
        assert_eq!((experiment.compare().blocks.min, experiment.compare().blocks.max), (6, 30));
        let single = checked(&with_parameters(&[&["echo {x}"]], &[("x", &[1])]));
        assert!(single.compare().baseline.is_empty(), "one value is one command, compared with nothing");
        assert_eq!((single.compare().blocks.min, single.compare().blocks.max), (10, 10));
        let mut beside = with_parameters(&[&["true"]], &[("x", &[1, 2])]);
        beside.commands[0].prepare = Some("echo {x}".into());
        let experiment = checked(&beside);
        assert_eq!(programs(&experiment)[1].prepare.as_ref().unwrap().words(), ["sh", "-c", "echo 2"]);
    }

    #[test]
    fn braces_of_a_value_are_in_the_command_and_in_its_label_as_typed() {
        let text = |name: &str, values: &[&str]| Parameter {
            name: name.to_owned(),
            values: values.iter().map(|value| Value::from(*value)).collect(),
        };
        let mut typed = typed(&[&["echo {a} {b}"], &["cat {z} {a}"]]);
        typed.parameters = vec![text("a", &["{b}", "y}"]), text("b", &["1", "2"])];
        typed.commands[1].prepare = Some("echo {b}".to_owned());
        let experiment = checked(&typed);
        let labels: Vec<String> = experiment.variants().iter().map(|variant| label(&experiment, variant)).collect();
        let unshown = |line: &String| line.split(" (").next().map(str::to_owned).unwrap_or_default();
        assert_eq!(labels.iter().map(unshown).collect::<Vec<_>>(), lines(&typed));
        for label in ["echo {b} 1", "echo y} 2", "cat {z} {b} (b=1)", "cat {z} y} (b=2)"] {
            assert!(labels.iter().any(|known| known == label), "{label}: {labels:?}");
        }
        typed.commands.truncate(1);
        assert_eq!(checked(&typed).compare().baseline["a"], "{b}");
    }

    #[test]
    fn commands_are_compared_at_the_same_values_and_with_a_baseline_without_parameters_at_all() {
        let both = checked(&with_parameters(&[&["a", "{x}"], &["b", "{x}"]], &[("x", &[1, 2])]));
        assert_eq!(both.compare().baseline.len(), 1);
        assert_eq!(both.variants().iter().filter(|variant| variant.baseline).count(), 2);
        let fixed = with_parameters(&[&["r"], &["a", "{x}", "{y}"]], &[("x", &[1, 2]), ("y", &[3, 4])]);
        assert_eq!(lines(&fixed), ["r", "a 1 3", "a 1 4", "a 2 3", "a 2 4"]);
        let fixed = checked(&fixed);
        assert_eq!(fixed.variants().iter().filter(|variant| variant.baseline).count(), 1);
        let labels = |of: &Experiment| of.variants().iter().map(|variant| label(of, variant)).collect::<Vec<_>>();
        assert_eq!(labels(&fixed)[..2], ["r", "a 1 3"], "the baseline has no value of a parameter");
        assert_eq!(labels(&both)[0], "a 1", "a baseline at each value has it");
    }

    #[test]
    fn shell_with_arguments_reads_commands_and_steps() {
        let mut one = typed(&[&["echo {x} y"]]);
        one.shell = vec!["bash".into(), "--norc".into()];
        one.commands[0].prepare = Some("p".into());
        let experiment = checked(&one);
        assert_eq!(programs(&experiment)[0].command.words(), ["bash", "--norc", "-c", "echo {x} y"]);
        assert_eq!(programs(&experiment)[0].prepare.as_ref().unwrap().words(), ["bash", "--norc", "-c", "p"]);
    }
}
