//! `prony show`: a run's tables on the terminal.

use std::io::Write;

use prony_core::metric::MetricName;

use super::choice::{DatabaseArg, RunChoice};
use crate::error::Error;
use crate::report::render::Render;
use crate::report::render::terminal::Terminal;
use crate::report::{Options, build};
use crate::results::{Database, RunData, RunId};

/// Show a run's tables
#[derive(Clone, Debug, clap::Args)]
pub struct ShowArgs {
    /// Run by number; `-2` is the one before the latest
    #[arg(value_name = "RUN", default_value = "latest", allow_negative_numbers = true)]
    pub run: RunChoice,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Show this figure instead of the usual ones, such as `write.time`; may be given several times
    #[arg(long, value_name = "PHASE.METRIC")]
    pub metric: Vec<MetricName>,
    /// Show every figure that was measured
    #[arg(long, conflicts_with = "metric")]
    pub all_metrics: bool,
    /// Show the CPU time and memory of each process as well
    #[arg(long)]
    pub processes: bool,
    /// Width of the tables in characters; the terminal's unless told
    #[arg(long, value_name = "N")]
    pub width: Option<usize>,
}

impl ShowArgs {
    /// To show this run as it is shown unless told otherwise.
    pub const fn of_run(run: RunId, database: DatabaseArg) -> Self {
        let run = RunChoice::Number(run.0);
        Self { run, database, metric: Vec::new(), all_metrics: false, processes: false, width: None }
    }
}

/// Shows a run. `terminal` says what the output can take; `--width` goes before its width.
///
/// # Errors
/// Those of the database, [`Error::NoRun`], and [`Error::Write`], which may be a broken pipe.
pub fn show(args: &ShowArgs, terminal: Terminal, out: &mut dyn Write) -> Result<(), Error> {
    let database = Database::open(&args.database.database)?;
    let data = database.load_run(args.run.find(&database)?)?;
    args.metric.iter().try_for_each(|metric| known(metric, &data))?;
    let concluded = concluded(&database, data.head.id)?;
    let (metrics, all_metrics, processes) = (args.metric.clone(), args.all_metrics, args.processes);
    let report = build(&data, &Options { metrics, all_metrics, processes });
    let profiles = match database.profiled_variants(data.head.id)?.len() {
        0 => String::new(),
        _ => format!("\nwhere the time goes: `prony profile {}`\n", data.head.id),
    };
    Terminal { width: args.width.or(terminal.width), ..terminal }
        .render(&report, out)
        .and_then(|()| out.write_all(concluded.as_bytes()))
        .and_then(|()| out.write_all(profiles.as_bytes()))
        .and_then(|()| out.flush())
        .map_err(|source| Error::Write { what: "the tables".to_owned(), source })
}

/// What a search said at its end, below its tables; nothing for other runs.
fn concluded(database: &Database, run: RunId) -> Result<String, Error> {
    let journal = database.journal(run)?;
    let said = journal.iter().rev().find_map(|entry| entry["said"].as_str());
    Ok(said.map(|said| format!("\n{said}")).unwrap_or_default())
}

/// A column of dashes would look like a figure that could not be measured.
fn known(metric: &MetricName, data: &RunData) -> Result<(), Error> {
    let planned = data.experiment.variants().iter().flat_map(|variant| &variant.spec.phases).map(|phase| &phase.name);
    let recorded = data.trials.iter().flat_map(|trial| &trial.phases).map(|phase| &phase.name);
    let mut names: Vec<&str> = planned.chain(recorded).map(String::as_str).collect();
    if names.contains(&metric.phase.as_str()) {
        return Ok(());
    }
    names.sort_unstable();
    names.dedup();
    Err(Error::Arguments {
        message: format!("`{metric}`: run {} has no phase `{}`", data.head.id, metric.phase),
        hint: format!("its phases: `{}`", names.join("`, `")),
    })
}
