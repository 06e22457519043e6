//! `prony show`: prints the tables of a run.

use prony_model::metric::MetricName;

use super::Output;
use super::exec::experiment_file;
use super::print_report;
use super::run_selection::{DatabaseArg, RunChoice, known_metric, known_phase};
use crate::error::Error;
use crate::search::journal;
use prony_report::Options;
use prony_results::{Database, RunId};

/// Show a run's tables
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  prony show
  prony show 3 --all
  prony show -2 --metric run.time --metric run.rss.peak")]
pub struct ShowArgs {
    /// Number of the run; `-2` is the run before the latest
    #[arg(value_name = "RUN", default_value = "latest", allow_negative_numbers = true)]
    pub run: RunChoice,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Show this metric, such as `write.time`, in place of the default ones; may be given several times
    #[arg(long, value_name = "PHASE.METRIC")]
    pub metric: Vec<MetricName>,
    /// Show the default metrics of this phase
    #[arg(long, value_name = "PHASE", conflicts_with_all = ["metric", "all_metrics"])]
    pub phase: Option<String>,
    /// Show all default tables, how the verdicts were reached, and every note
    #[arg(long)]
    pub all: bool,
    /// Show every metric that was measured
    #[arg(long, conflicts_with = "metric")]
    pub all_metrics: bool,
    /// Show the CPU time and memory of each process as well
    #[arg(long)]
    pub processes: bool,
    /// Width of the tables in characters; default: the terminal's width
    #[arg(long, value_name = "N")]
    pub width: Option<usize>,
}

impl ShowArgs {
    /// The default options for showing this run.
    pub const fn of_run(run: RunId, database: DatabaseArg) -> Self {
        let run = RunChoice::Number(run.0);
        Self {
            run,
            database,
            metric: Vec::new(),
            phase: None,
            all: false,
            all_metrics: false,
            processes: false,
            width: None,
        }
    }
}

/// Shows a run; `--width` goes before the output's own.
///
/// # Errors
/// Those of the database, and [`Error::Write`], which may be a broken pipe.
pub fn show(args: &ShowArgs, output: &mut Output<'_>) -> Result<(), Error> {
    let database = Database::open(&args.database.database)?;
    let data = database.load_run(args.run.find(&database)?)?;
    args.metric.iter().try_for_each(|metric| known_metric(metric, &data))?;
    // What a search said at its end; nothing for other runs.
    let concluded = journal::concluded(&database, data.head.id)?.map(|said| format!("\n{said}"));
    if let Some(phase) = &args.phase {
        known_phase(phase, &data)?;
    }
    let commands = experiment_file::names(&data.experiment);
    // Commands of `prony exec` are in no file.
    let file = commands.is_empty().then_some("FILE");
    let options = Options {
        metrics: args.metric.clone(),
        phase: args.phase.clone(),
        all_metrics: args.all_metrics,
        processes: args.processes,
        brief: !args.all,
        programs: args.all,
        resume: print_report::resume(&database, &data, &args.database.option(), file)?,
        commands,
        database: args.database.option(),
        ..Options::default()
    };
    let profiles = match database.profiled_variants(data.head.id)?.len() {
        0 => String::new(),
        _ => format!("\nwhere the time goes: `prony profile {}{}`\n", data.head.id, args.database.option()),
    };
    print_report::print(&database, &data, &options, args.width, output)?;
    output.print(&concluded.unwrap_or_default())?;
    output.print(&profiles)
}
