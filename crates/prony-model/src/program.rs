//! The specification of a program: its command and replicas, the copy in which it works, and the changes of that.

mod observe;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use observe::{
    AtEndSpec, Care, DIGEST_GROUP, GroupMeaning, ObserveSpec, ProfileOf, ROLES, Trigger, Weak, group_meaning,
};

/// Variables that every program gets: the runner's own values, where it has any. Nothing else is inherited. `TMPDIR` is
/// always a directory of the trial's own, which is removed with it.
pub const BASE_ENV: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TZ"];

/// The phase of a program that declares none.
pub const WHOLE: &str = "run";

/// A command to measure, with its complete environment: arguments, variables, directory, streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// Its name in the file, which is also its role in metric names.
    pub name: String,
    /// What is executed.
    pub command: CommandLine,
    /// The directory it works in, or the one that is copied; `None` is an empty one.
    pub directory: Option<String>,
    /// Which copy of `directory` it works in.
    pub copy: CopyOf,
    /// How symbolic links in `directory` whose target lies outside are handled when the directory is copied.
    pub links: OutwardLinks,
    /// Where it stores its data: a file or a directory, relative to its working directory; [`DIR`] and [`TMP`] stand
    /// for paths. Its size is read at begin and end of phases.
    pub store: Option<String>,
    /// Variables beside those of [`BASE_ENV`].
    pub env: BTreeMap<String, String>,
    /// Names of further variables that are taken from the runner.
    pub inherit: Vec<String>,
    /// What it reads.
    pub input: InputSpec,
    /// How its output is handled.
    pub output: OutputTo,
    /// Gives it a terminal for its output: a program may buffer what it writes to a pipe.
    pub pty: bool,
    /// The language runtime whose heap is read.
    pub runtime: Option<Runtime>,
    /// Exit codes that count as success; empty for all.
    pub success: Vec<i32>,
    /// Runs once for each variant, after its changes.
    pub build: Option<CommandLine>,
    /// Runs before each trial, untimed.
    pub prepare: Option<CommandLine>,
    /// Runs after each trial, untimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conclude: Option<CommandLine>,
    /// Runs once for each variant, after its last trial of the session.
    pub cleanup: Option<CommandLine>,
    /// Number of warm-up runs before a variant's first trial; their measurements are discarded.
    pub warmup: u32,
    /// What is changed in its copy, in order.
    pub changes: Vec<Change>,
    /// Further copies of it that start at one of its phases; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicasSpec>,
}

impl ProgramSpec {
    /// All its texts that may have placeholders for values of services.
    pub fn texts(&self) -> Vec<String> {
        let replicas = self.replicas.as_ref();
        let of_replicas = replicas.and_then(|replicas| replicas.command.as_ref());
        let lines = [Some(&self.command), self.prepare.as_ref(), self.conclude.as_ref(), of_replicas];
        let variables = self.env.values().chain(replicas.iter().flat_map(|replicas| replicas.env.values()));
        lines.into_iter().flatten().flat_map(CommandLine::words).chain(variables.cloned()).collect()
    }

    /// What prony executes for it, but for replicas.
    pub fn lines(&self) -> impl Iterator<Item = &CommandLine> {
        let steps = [&self.build, &self.prepare, &self.conclude, &self.cleanup];
        [&self.command].into_iter().chain(steps.into_iter().flatten())
    }

    /// The program as it is started for its replica of this number, from 1 on.
    pub fn replica(&self, replicas: &ReplicasSpec, number: u32) -> Self {
        let numbered = |text: &String| text.replace(INSTANCE, &number.to_string());
        let mut copy = Self { name: replica_instance(number), replicas: None, ..self.clone() };
        copy.env.extend(replicas.env.iter().map(|(name, value)| (name.clone(), numbered(value))));
        copy.command = match replicas.command.as_ref().unwrap_or(&self.command) {
            CommandLine::Words(words) => CommandLine::Words(words.iter().map(numbered).collect()),
            CommandLine::Shell { shell, script } => {
                CommandLine::Shell { shell: shell.clone(), script: numbered(script) }
            }
        };
        copy
    }
}

/// Further copies of a program, which start together when one of its phases begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicasSpec {
    /// How many; at least 1.
    pub count: u32,
    /// The phase.
    pub phase: String,
    /// Variables on top of the program's own; [`INSTANCE`] stands for the number.
    pub env: BTreeMap<String, String>,
    /// What each executes; `None` is the program's own command.
    pub command: Option<CommandLine>,
    /// A pattern for each one's own output; `None` is that of the phase.
    pub read: Option<String>,
}

/// What is executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// A program and its arguments; at least one text.
    Words(Vec<String>),
    /// A text for a shell.
    Shell {
        /// The shell's program.
        shell: String,
        /// What it runs, after `-c`.
        script: String,
    },
}

/// Programs that read a text after `-c` as commands.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

impl CommandLine {
    /// Program and arguments.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Words(words) => words.clone(),
            Self::Shell { shell, script } => vec![shell.clone(), "-c".to_owned(), script.clone()],
        }
    }

    /// The text that a shell reads, also where the words name the shell themselves: `["bash", "-c", TEXT]`.
    pub fn shell_text(&self) -> Option<&str> {
        let words = match self {
            Self::Shell { script, .. } => return Some(script),
            Self::Words(words) => words,
        };
        let mut words = words.iter();
        let name = words.next()?.rsplit('/').next()?;
        let mut asked = false;
        while let Some(word) = words.next().filter(|_| SHELLS.contains(&name)) {
            let Some(option) = word.strip_prefix('-') else { return asked.then_some(word) };
            let is_short = !option.starts_with('-');
            asked |= is_short && option.contains('c');
            // Its value, as in `-o pipefail`, is not the text.
            if is_short && option.ends_with(['o', 'O']) {
                words.next();
            }
        }
        None
    }
}

crate::words! {
    /// Which copy of its directory a program works in.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CopyOf {
        /// One for each variant, shared by its trials; of a baseline one for each of its trials in a block.
        #[default]
        Variant = "variant",
            "one copy of `directory` for each variant, which its trials share; of a baseline, one for each of its trials \
            in a block";
        /// One for each trial.
        Trial = "trial", "a new copy for each trial";
        /// None: it works in the directory itself.
        None = "none", "the program works in `directory` itself, and what it writes there stays";
    }

    /// How symbolic links whose target lies outside a copied directory are handled.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum OutwardLinks {
        /// The run is refused.
        #[default]
        Refuse = "refuse",
            "the run is refused, since a step that writes through such a link would change files outside the copy";
        /// The target is copied in place of the link.
        Copy = "copy",
            "the target is copied in place of the link; a link whose target does not exist, is a device or a socket is \
            left out";
        /// The link is copied and keeps its target.
        Keep = "keep",
            "the link leads to the same target from the copy, so that the program can change the target; not allowed with \
            `change`, `build` or `prepare`";
    }
}

/// What a program reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSpec {
    /// Nothing.
    Null,
    /// A file.
    File(String),
    /// This text.
    Text(String),
}

impl InputSpec {
    /// The file, where it is one.
    pub fn file(&self) -> Option<&Path> {
        if let Self::File(path) = self { Some(Path::new(path)) } else { None }
    }
}

/// How a program's output is handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputTo {
    /// Beginning and end are stored, the rest is counted.
    Capture,
    /// It is thrown away.
    Null,
    /// It goes to the same place as prony's own output.
    Inherit,
    /// Standard output goes to this file, which each trial overwrites; standard error is captured.
    File(String),
}

crate::words! {
    /// A program's language runtime, into which prony can load a probe. Other programs are measured as plain processes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Runtime {
        /// Node.js, version 8.10 and later; functions in ES modules from 18.19.
        Node = "node", "Node.js";
        /// CPython, version 3.9 and later.
        Python = "python", "CPython";
    }
}

impl Runtime {
    /// The form of a function to be timed: the sign between its module and its name, and the whole form.
    pub const fn call_form(self) -> (char, &'static str) {
        match self {
            Self::Node => ('#', "FILE#EXPORT"),
            Self::Python => (':', "PACKAGE.MODULE:FUNCTION"),
        }
    }

    /// Whether a text names a function of this runtime.
    pub fn is_call(self, text: &str) -> bool {
        let named = |name: &str| {
            !name.is_empty()
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
        };
        let parts = text.rsplit_once(self.call_form().0);
        parts.is_some_and(|(module, names)| !module.is_empty() && names.split('.').all(named))
    }
}

/// A change of a program's copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// One piece of text in a file is replaced by another.
    Replace {
        /// The file, from the copy's top.
        file: String,
        /// The exact text to replace.
        find: String,
        /// The text that replaces it.
        with: String,
        /// How often it must be found.
        count: u64,
    },
    /// A patch as `diff -u` or `git diff` writes it.
    Patch {
        /// The patch's file.
        file: String,
    },
    /// A package that is installed in the copy.
    Dependency {
        /// The package.
        name: String,
        /// Which version of it, as its manager understands it.
        version: String,
        /// The package manager; `None` if it follows from the copy.
        manager: Option<Manager>,
    },
    /// Another revision of the git repository that holds the directory.
    Revision {
        /// A tag, a branch, a commit: whatever git understands.
        of: String,
    },
}

crate::words! {
    /// A package manager.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Manager {
        /// npm, into the copy's `node_modules`.
        Npm = "npm", "into `node_modules`";
        /// pip, into a directory of the copy that stands first in `PYTHONPATH`.
        Pip = "pip", "into a directory that stands first in PYTHONPATH";
    }
}

/// Placeholder for `{dir}` in a command or a variable until the trial's directory is known: no argument and no variable
/// can hold a zero byte.
pub const DIR: &str = "\0dir\0";

/// Placeholder for `{tmp}` until the trial's `TMPDIR` is known.
pub const TMP: &str = "\0tmp\0";

/// Placeholder for `{instance}` until a replica is started.
pub const INSTANCE: &str = "\0instance\0";

/// The instance of metrics of all replicas together.
pub const REPLICAS: &str = "replicas";

/// The instance of a replica's metrics: `replica.1`.
pub fn replica_instance(number: u32) -> String {
    format!("replica.{number}")
}

/// Which replicas an instance stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfReplicas {
    /// All of them together.
    All,
    /// The one with this number, from 1 on, or a role in it.
    One(u32),
}

/// Which replicas a text names: all of them, one, or, where they have a runtime, a role in one; `None` where it names none.
pub fn of_replicas(instance: &str, runtime: bool) -> Option<OfReplicas> {
    let Some(rest) = instance.strip_prefix("replica.") else {
        return (instance == REPLICAS).then_some(OfReplicas::All);
    };
    let (text, role) = rest.split_once('.').map_or((rest, None), |(number, role)| (number, Some(role)));
    let known = role.is_none_or(|role| runtime && ROLES.contains(&role));
    let number = text.parse::<u32>().ok().filter(|number| known && *number > 0 && number.to_string() == text)?;
    Some(OfReplicas::One(number))
}

/// A package and its version as written: `lmdb@3.1.2`, `@scope/name@^1`; `None` where one of them is missing.
pub fn package(text: &str) -> Option<(&str, &str)> {
    let at = text.rfind('@').filter(|at| *at > 0)?;
    let (name, version) = (&text[..at], &text[at + 1..]);
    let plain = |text: &str| !text.is_empty() && !text.starts_with('-') && !text.contains(char::is_whitespace);
    (plain(name) && plain(version)).then_some((name, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_have_instances_of_their_own() {
        use OfReplicas::{All, One};
        for (good, of) in [("replicas", All), ("replica.1", One(1)), ("replica.12", One(12))] {
            assert_eq!(of_replicas(good, false), Some(of), "{good}");
        }
        assert_eq!(of_replicas("replica.2.worker", true), Some(One(2)));
        assert_eq!(of_replicas("replica.2.worker", false), None);
        for bad in ["", "replica", "replica.", "replica.0", "replica.01", "replica.+1", "replica.x", "replica.1.x", "1"]
        {
            assert_eq!(of_replicas(bad, true), None, "{bad}");
        }
    }

    #[test]
    fn a_replica_is_the_program_with_its_own_number() {
        let text = r#"{"name":"x","command":{"words":["run","a"]},"directory":null,"copy":"none","links":"refuse",
            "store":null,"env":{"A":"1","B":"2"},"inherit":[],"input":"null","output":"capture","pty":false,
            "runtime":null,"success":[0],"build":null,"prepare":null,"cleanup":null,"warmup":0,"changes":[]}"#;
        let program: ProgramSpec = serde_json::from_str(text).unwrap();
        let env = BTreeMap::from([("B".to_owned(), format!("<{INSTANCE}>"))]);
        let mut replicas = ReplicasSpec { count: 2, phase: "p".into(), env, command: None, read: None };
        let second = program.replica(&replicas, 2);
        assert_eq!((second.name.as_str(), &second.command), ("replica.2", &program.command));
        assert_eq!(second.env, [("A", "1"), ("B", "<2>")].map(|(n, v)| (n.to_owned(), v.to_owned())).into());
        replicas.command = Some(CommandLine::Shell { shell: "sh".into(), script: format!("w {INSTANCE}") });
        assert_eq!(program.replica(&replicas, 1).command.words(), ["sh", "-c", "w 1"]);
    }

    #[test]
    fn calls_are_written_as_their_runtime_needs_them() {
        for good in ["a/b.js#default", "@scope/pkg#Store.prototype.put", "x#$"] {
            assert!(Runtime::Node.is_call(good) && !Runtime::Python.is_call(good), "{good}");
        }
        assert!(Runtime::Python.is_call("pkg.module:Class.method"));
        for bad in
            ["", "file.js", "#default", "file.js#", "file.js#a..b", "file.js#a b", "a.js#1x", ":f", "m:", "m:a:b."]
        {
            assert!(Runtime::ALL.into_iter().all(|runtime| !runtime.is_call(bad)), "{bad}");
        }
    }

    #[test]
    fn packages_have_a_name_and_a_version() {
        assert_eq!(package("lmdb@3.1.2"), Some(("lmdb", "3.1.2")));
        assert_eq!(package("@scope/name@^1"), Some(("@scope/name", "^1")));
        for wrong in ["lmdb", "lmdb@", "@scope/name", "@1.2", "", "--save@1", "a b@1", "a@-1"] {
            assert_eq!(package(wrong), None, "{wrong}");
        }
    }
}
