//! The options of `prony exec`, as typed.

use std::path::PathBuf;

use prony_model::metric::MetricName;
use prony_model::program::Runtime;

use crate::cli::gates::GateArguments;
use crate::cli::run_selection::{DatabaseArg, SharedArg};

/// Trials of a command: at least one, and no more than a file may ask for.
fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

/// What to run and how.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony exec 'sleep 0.1' 'sleep 0.2'
  prony exec -r 20 -- node build.js -n --vs node build-new.js -n
  prony exec -S sh -p 'rm -f out' 'sort -u in > out' 'sort in | uniq > out'
  prony exec -P threads 1 8 'make -j {threads}'

Commands:
  Options come before the first command. Where its first word contains a blank, every argument is one command:
    prony exec 'sleep 0.1' 'sleep 0.2'
  Otherwise words form one command up to `--vs`. After `--`, options of prony, except `--vs`, are words of
  the command:
    prony exec -r 20 -- node build.js -n --vs node build-new.js -n
  All commands are compared with the first, or with that of `--reference`. Without `-S`, no shell runs the commands.

Variables:
  Commands get the environment variables PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_ALL, TERM, TZ and a TMPDIR of their
  own. `--env` adds variables; `--env-all` passes all on, which makes a run harder to repeat.")]
pub struct Arguments {
    /// Number of trials of each command; the command that the others are compared with gets twice as many [default: 10
    /// of one command; 6 to 30 of several, until every comparison is decided]
    #[arg(long, short, visible_alias = "blocks", value_name = "N", value_parser = count(), conflicts_with_all = ["min_runs", "max_runs"], help_heading = "Runs")]
    pub runs: Option<u32>,
    /// Minimum number of trials of each command [default: 10 of one command, 6 of several]
    #[arg(long, short = 'm', value_name = "N", value_parser = count(), help_heading = "Runs")]
    pub min_runs: Option<u32>,
    /// Maximum number of trials of each command [default: 10 of one command, 30 of several]
    #[arg(long, short = 'M', value_name = "N", value_parser = count(), help_heading = "Runs")]
    pub max_runs: Option<u32>,
    /// Run as many trials of each command as fit into this time, such as `4 min`; stop earlier once every comparison is
    /// decided
    #[arg(long, value_name = "TIME", conflicts_with_all = ["runs", "min_runs", "max_runs"], help_heading = "Runs")]
    pub budget: Option<String>,
    /// Further metric in which the commands are compared, such as `run.cpu`, `run.rss.peak` or `run.written`; may be given
    /// several times. All verdicts hold together: each metric more makes each interval wider
    #[arg(long, value_name = "PHASE.METRIC", help_heading = "Runs")]
    pub metric: Vec<MetricName>,
    /// Number of unmeasured executions of each command before its first trial
    #[arg(long, short, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000), help_heading = "Runs")]
    pub warmup: u32,
    /// Command with which the others are compared; default: the first command
    #[arg(long, value_name = "CMD", help_heading = "Runs")]
    pub reference: Option<String>,
    /// Name of the reference command in tables
    #[arg(long, value_name = "NAME", requires = "reference", help_heading = "Runs")]
    pub reference_name: Option<String>,
    /// Command, such as `make`, that the shell runs once for each command, all before the first trial; what several of them
    /// write to one file is that of the last; give it once for all commands, or once for each
    #[arg(long, short, value_name = "CMD", help_heading = "Steps around the trials")]
    pub setup: Vec<String>,
    /// Command that the shell (`sh`, or that of `-S`) runs before each trial, untimed; give it once for all commands,
    /// or once for each
    #[arg(long, short, value_name = "CMD", help_heading = "Steps around the trials")]
    pub prepare: Vec<String>,
    /// Command that the shell runs after each trial, untimed; give it once for all commands, or once for each
    #[arg(long, short = 'C', value_name = "CMD", help_heading = "Steps around the trials")]
    pub conclude: Vec<String>,
    /// Command that the shell runs after the last trial of each command; give it once for all commands, or once for
    /// each
    #[arg(long, short, value_name = "CMD", help_heading = "Steps around the trials")]
    pub cleanup: Vec<String>,
    /// Run the commands with each of these values in place of `{VAR}`: `-L compiler gcc,clang '{compiler} main.c'`.
    /// `\,` is a comma in a value. If given several times, every combination of the values runs
    #[arg(long, short = 'L', value_names = ["VAR", "VALUES"], num_args = 2, allow_hyphen_values = true,
          action = clap::ArgAction::Append, conflicts_with = "parameter_scan", help_heading = "Parameters")]
    pub parameter_list: Vec<String>,
    /// Run the commands with each number from MIN to MAX in place of `{VAR}`: `-P threads 1 8 'make -j {threads}'`
    #[arg(long, short = 'P', value_names = ["VAR", "MIN", "MAX"], num_args = 3, allow_hyphen_values = true, help_heading = "Parameters")]
    pub parameter_scan: Vec<String>,
    /// Step of `--parameter-scan`: `-P delay 0.3 0.7 -D 0.2 'sleep {delay}'` [default: 1 if MIN and MAX are whole
    /// numbers]
    #[arg(long, short = 'D', value_name = "DELTA", requires = "parameter_scan", help_heading = "Parameters")]
    pub parameter_step_size: Option<String>,
    /// Memory limit of the whole process tree, as `512 MB`
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub memory: Option<String>,
    /// Limit of CPU time, in processors
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub cpus: Option<f64>,
    /// Maximum number of processes and threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_194_304), help_heading = "Limits")]
    pub pids: Option<u32>,
    /// Time limit of each trial, as `30 s`
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub time: Option<String>,
    /// Standard input of each command: `null`, or a file [default: null]
    #[arg(long, value_name = "null|FILE", help_heading = "Input, output, environment")]
    pub input: Option<PathBuf>,
    /// Where the output goes: `pipe` keeps its beginning and end, `null` discards it, `inherit` shows it, a FILE (with
    /// a `/`, such as `./out.txt`) gets the output of the last trial; give it once for all commands, or once for each
    /// [default: pipe]
    #[arg(long, value_name = "WHERE", conflicts_with = "show_output", help_heading = "Input, output, environment")]
    pub output: Vec<String>,
    /// Show the output of the commands; the same as `--output inherit`
    #[arg(long, conflicts_with = "style", help_heading = "Input, output, environment")]
    pub show_output: bool,
    /// Discard the output; the same as `--output null`
    #[arg(long, conflicts_with_all = ["output", "show_output"], help_heading = "Input, output, environment")]
    pub discard_output: bool,
    /// Set an environment variable for the commands; without `=VALUE`, pass on the variable of prony's own environment
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = "Input, output, environment")]
    pub env: Vec<String>,
    /// Pass all environment variables on to the commands, as other benchmark runners do
    #[arg(long, help_heading = "Input, output, environment")]
    pub env_all: bool,
    /// Run the commands in this shell: `sh`, `bash`, `'bash --norc'`; `default` is `sh`. Measurements include the shell
    #[arg(
        long,
        short = 'S',
        value_name = "SHELL",
        overrides_with = "shell",
        help_heading = "Input, output, environment"
    )]
    pub shell: Option<String>,
    /// Run the commands without a shell, which is the default; the same as `--shell none`
    #[arg(short = 'N', conflicts_with = "shell", help_heading = "Input, output, environment")]
    pub no_shell: bool,
    /// Do not count exit codes other than 0 as failures: all codes, or only the listed ones, as `-i=1,2`
    #[arg(long, short, value_name = "all-non-zero|CODES", num_args = 0..=1, default_missing_value = "all-non-zero",
          require_equals = true, help_heading = "Input, output, environment")]
    pub ignore_failure: Option<String>,
    /// Connect the output of the commands to a terminal
    #[arg(long, help_heading = "Input, output, environment")]
    pub pty: bool,
    /// Language runtime of the commands, `node` or `python`; prony loads a probe into the runtime that measures its
    /// heap
    #[arg(long, value_parser = runtime, help_heading = "Observation")]
    pub runtime: Option<Runtime>,
    /// Name of a command in tables; if given several times, the names are those of the commands in their order
    #[arg(long, short = 'n', value_name = "NAME", visible_alias = "command-name", help_heading = "Runs")]
    pub name: Vec<String>,
    /// Samples per second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Observation")]
    pub hertz: u32,
    /// Profile one more run of each command, which is not included in the results; the profiler is that of V8 with
    /// `--runtime node`, else `perf`
    #[arg(long, help_heading = "Observation")]
    pub profile: bool,
    /// Keep command lines and variables out of the results database; a command without --name is called `a`, `b` ...
    #[arg(long, help_heading = "Observation")]
    pub omit_commands: bool,
    /// Count system calls such as `fsync`; each system call on the machine then takes some 40 ns longer
    #[arg(long, help_heading = "Observation")]
    pub syncs: bool,
    /// Order of the commands in the table: as typed (`auto`, `command`), or by time
    #[arg(long, value_enum, value_name = "METHOD", default_value_t, help_heading = "Report")]
    pub sort: Sort,
    /// Unit of times in the table [default: a unit that fits each column]
    #[arg(long, short = 'u', value_enum, value_name = "UNIT", help_heading = "Report")]
    pub time_unit: Option<TimeUnit>,
    /// Use of colour and of a progress line: both on a terminal (`auto`), neither (`basic`), both anywhere (`full`),
    /// progress only (`nocolor`), colour only (`color`); `none` prints no results, but still failed trials, warnings
    /// and errors
    #[arg(long, value_enum, value_name = "TYPE", default_value_t, help_heading = "Report")]
    pub style: Style,
    /// Show all default tables, how the verdicts were reached, and every note
    #[arg(long, help_heading = "Report")]
    pub all: bool,
    /// Write an experiment file that repeats this command line; with --force, also over an existing file
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub save: Option<PathBuf>,
    /// Let --save overwrite an existing file
    #[arg(long, requires = "save", help_heading = "Files")]
    pub force: bool,
    /// What fails the command.
    #[command(flatten, next_help_heading = "Report")]
    pub(crate) gates: GateArguments,
    /// Files for results.
    #[command(flatten)]
    pub exports: ExportArguments,
    /// Print only warnings and failed trials while running
    #[arg(long, short, help_heading = "Report")]
    pub quiet: bool,
    /// Where the results are.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Who may see them.
    #[command(flatten)]
    pub shared: SharedArg,
    /// Known as an option only so that it can be refused with the right words.
    #[arg(long, hide = true)]
    pub vs: bool,
    /// Commands to measure
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}

prony_model::words! {
    /// A unit in which every time is shown, whatever its size.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
    pub enum TimeUnit {
        /// us, with three significant digits at least.
        #[value(alias = "us")]
        Microsecond = "us";
        /// ms, with three significant digits at least.
        #[value(alias = "ms")]
        Millisecond = "ms";
        /// s, with three significant digits at least.
        #[value(alias = "s")]
        Second = "s";
        /// min, with three significant digits at least.
        #[value(alias = "min")]
        Minute = "min";
        /// h, with three significant digits at least.
        #[value(alias = "h")]
        Hour = "h";
    }
}

/// Files for results; `-` is standard output.
#[derive(Debug, clap::Args)]
pub struct ExportArguments {
    /// Write the results as JSON; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub export_json: Option<PathBuf>,
    /// Write the results as CSV
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub export_csv: Option<PathBuf>,
    /// Write the results as Markdown
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub export_markdown: Option<PathBuf>,
    /// Write the results as AsciiDoc
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub export_asciidoc: Option<PathBuf>,
    /// Write the results for Emacs' org-mode
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub export_orgmode: Option<PathBuf>,
    /// Write the times as `hyperfine --export-json` does, for scripts that read them; `prony import` shows such a file
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub export_hyperfine_json: Option<PathBuf>,
}

/// Order of commands in the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// As typed.
    #[default]
    Auto,
    /// As typed.
    Command,
    /// By the median time, which the table shows: the fastest first.
    MeanTime,
}

/// What the output may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// Colour and progress where a terminal shows them.
    #[default]
    Auto,
    /// Neither.
    Basic,
    /// Both.
    Full,
    /// Progress.
    Nocolor,
    /// Colour.
    Color,
    /// No output.
    None,
}

impl Style {
    /// Whether a line of progress is rewritten, where `auto` would or would not.
    pub(crate) const fn is_live(self, auto: bool) -> bool {
        match self {
            Self::Auto => auto,
            Self::Full | Self::Nocolor => true,
            Self::Basic | Self::Color | Self::None => false,
        }
    }

    /// Whether there is colour; `None` as for any other command.
    pub(crate) const fn colour(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Full | Self::Color => Some(true),
            Self::Basic | Self::Nocolor | Self::None => Some(false),
        }
    }
}

fn runtime(name: &str) -> Result<Runtime, String> {
    Runtime::named(name).ok_or_else(|| {
        let known = Runtime::ALL.map(|runtime| format!("`{}`", runtime.name())).join(" and ");
        format!("known runtimes: {known}; leave `--runtime` out for programs of other languages")
    })
}
