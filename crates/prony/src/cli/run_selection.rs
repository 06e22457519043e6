//! The options of the command line that choose a results database and a run.

use std::path::PathBuf;
use std::str::FromStr;

use prony_analysis::verdicts::declared;
use prony_model::metric::MetricName;
use prony_model::record::MetricKeyText;

use crate::error::Error;
use prony_results::{Database, RunData, RunHead, RunId};

/// Names the results database where `--database` does not.
const VARIABLE: &str = "PRONY_DATABASE";

/// The default results database.
const USUAL: &str = "prony.db";

/// Where the results are.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct DatabaseArg {
    /// Results database
    #[arg(long, value_name = "PATH", default_value = USUAL, env = VARIABLE)]
    pub database: PathBuf,
}

impl DatabaseArg {
    /// What another command line needs to find the same results, such as ` --database x.db`: a run has its number in each
    /// database. Empty where it finds them without.
    pub fn option(&self) -> String {
        let found = std::env::var_os(VARIABLE).unwrap_or_else(|| USUAL.into());
        match self.database.as_os_str() == found {
            true => String::new(),
            false => format!(" --database {}", shell_words::quote(&self.database.to_string_lossy())),
        }
    }
}

/// Who may see what a run makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct SharedArg {
    /// Let other users read a new results database and enter scratch directories; a program that switches to another
    /// user needs this
    #[arg(long, env = "PRONY_SHARED", value_parser = clap::builder::FalseyValueParser::new())]
    shared: bool,
}

impl SharedArg {
    /// Holds from now on.
    pub(crate) fn apply(self) {
        if self.shared {
            prony_os::file_modes::open_to_other_users();
        }
    }
}

/// A run by number, or counted back from the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunChoice {
    /// The latest.
    #[default]
    Latest,
    /// `-1` is the latest, `-2` the one before.
    Back(usize),
    /// By its number.
    Number(i64),
}

impl FromStr for RunChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<i64>() {
            Ok(n) if n > 0 => Ok(Self::Number(n)),
            Ok(n) if n < 0 => Ok(Self::Back(usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX))),
            _ if text == "latest" => Ok(Self::Latest),
            _ => {
                Err("write the number of a run from `prony ls`, `latest`, or `-2` for the run before the latest"
                    .to_owned())
            }
        }
    }
}

impl RunChoice {
    /// The run that is meant.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn find(self, database: &Database) -> Result<RunId, Error> {
        let runs = database.runs()?;
        let found = match self {
            Self::Latest => runs.last(),
            Self::Back(n) => runs.len().checked_sub(n).and_then(|at| runs.get(at)),
            Self::Number(n) => runs.iter().find(|head| head.id.0 == n),
        };
        found.map(|head: &RunHead| head.id).ok_or_else(|| self.not_found(&runs, database))
    }

    /// The run that `--resume` names; `None` for the latest that is not done.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(crate) fn to_resume(self, database: &Database) -> Result<Option<RunId>, Error> {
        match self {
            Self::Latest => Ok(None),
            Self::Back(_) | Self::Number(_) => self.find(database).map(Some),
        }
    }

    fn not_found(self, runs: &[RunHead], database: &Database) -> Error {
        let path = database.path().to_owned();
        if runs.is_empty() {
            return prony_results::Error::NoRuns { path }.into();
        }
        let run = match self {
            Self::Latest => "latest".to_owned(),
            Self::Back(n) => format!("-{n}"),
            Self::Number(n) => n.to_string(),
        };
        prony_results::Error::NoRun { run, path }.into()
    }
}

/// Refuses a metric of a phase that the run does not have, and a counter that no service has: a column of dashes would look like a metric that could not
/// be measured.
///
/// # Errors
/// [`Error::Arguments`] with the phases that there are.
pub(crate) fn known_metric(metric: &MetricName, data: &RunData) -> Result<(), Error> {
    known_phase(&metric.phase, data)?;
    let Some(counter) = metric.key.metric.counter() else { return Ok(()) };
    let services = data.experiment.variants().iter().flat_map(|variant| &variant.spec.services);
    if services.filter_map(|service| service.counters.as_ref()).any(|all| all.has(counter, metric.key.stat.is_none())) {
        return Ok(());
    }
    Err(Error::arguments(
        format!("`{metric}`: `{counter}` is neither a metric nor a counter of a service"),
        format!("`prony show {} --all-metrics` shows all metrics of the run", data.head.id),
    ))
}

/// Refuses a metric that no run declares and of which no trial has a reading, not even why there is none.
///
/// # Errors
/// [`Error::Arguments`].
pub(crate) fn measured_metric(metric: &MetricName, data: &RunData, other: Option<&RunData>) -> Result<(), Error> {
    let runs = || [Some(data), other].into_iter().flatten();
    let phases = runs().flat_map(|data| &data.trials).flat_map(|trial| &trial.phases);
    let of_phase = phases.filter(|phase| phase.name == metric.phase && !phase.readings.is_empty());
    let readings: Vec<_> = of_phase.map(|phase| &phase.readings).collect();
    let instance = metric.instance.as_deref().unwrap_or_default();
    let has = readings.iter().any(|of| of.get(instance).is_some_and(|of| of.contains_key(&MetricKeyText(metric.key))));
    if has || readings.is_empty() || runs().any(|data| declared(&data.experiment).contains(metric)) {
        return Ok(());
    }
    Err(Error::arguments(
        format!("no trial has a value of `{metric}`"),
        format!("`prony show {} --all-metrics` shows all metrics of the run", data.head.id),
    ))
}

/// Whether a run has a phase: a typing error would show a table of nothing.
///
/// # Errors
/// As [`known_metric`].
pub(crate) fn known_phase(phase: &str, data: &RunData) -> Result<(), Error> {
    let planned = data.experiment.variants().iter().flat_map(|variant| &variant.spec.phases).map(|phase| &phase.name);
    let recorded = data.trials.iter().flat_map(|trial| &trial.phases).map(|phase| &phase.name);
    let mut names: Vec<&str> = planned.chain(recorded).map(String::as_str).collect();
    if names.contains(&phase) {
        return Ok(());
    }
    names.sort_unstable();
    names.dedup();
    let phases = format!("the phases of this run: `{}`", names.join("`, `"));
    let run = data.head.id;
    let mut crashes = data.experiment.variants().iter().flat_map(|variant| &variant.spec.crashes);
    Err(match crashes.any(|crash| crash.name == phase) {
        true => Error::arguments(
            format!("phase `{phase}` of run {run} has crash trials, which have no metrics"),
            format!("`prony show {run}` shows what they lost, in the table *Crash trials*; {phases}"),
        ),
        false => Error::arguments(format!("run {run} has no phase `{phase}`"), phases),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_number_or_from_the_end() {
        assert_eq!("3".parse(), Ok(RunChoice::Number(3)));
        assert_eq!("-2".parse(), Ok(RunChoice::Back(2)));
        assert_eq!("latest".parse(), Ok(RunChoice::Latest));
        for wrong in ["0", "x", "", "1.5"] {
            assert!(wrong.parse::<RunChoice>().is_err(), "{wrong}");
        }
    }
}
