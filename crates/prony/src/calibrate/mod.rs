//! Checks prony's measurements on this machine with fixtures, which are programs whose true values are known (METHOD
//! 7).

mod activity;
pub mod bench;
pub mod check_line;
mod false_verdicts;
mod heap;
mod memory;
mod out_of_memory;
mod power_failure;

use clap::ValueEnum as _;
use serde_json::{Value, json};

use crate::error::Error;
use bench::Bench;
use check_line::{Judgement, Line};

/// A subject of known truth; they run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fixture {
    /// A child that allocates 300 MB and one that allocates 2 MB, in both orders, from a parent of 200 MB
    Allocation,
    /// Readers of a mapped file of 200 MB, one and four at once
    MappedReader,
    /// Caches in Node behind strong and weak references, read after a forced garbage collection
    WeakCache,
    /// A trial that runs out of memory in the second of its three phases
    OutOfMemory,
    /// A burst of CPU time after the response, then an idle process
    BurstThenIdle,
    /// Sync calls such as `fsync` by two threads and a child process
    FsyncCount,
    /// Stores with a planted fault each, and the same without it, on a disk whose power is cut
    PowerFailure,
    /// The same work under two names, one of them run twice as often: there is no difference to find
    SameCommand,
    /// The same work, made slower by the minimum detectable effect of a comparison: the difference must be found
    SmallestEffect,
}

impl Fixture {
    /// Its name on the command line, in tables and in machine output.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Runs it and compares what is read with what it did.
    pub fn run(self, bench: &Bench) -> Calibration {
        let ran = match self {
            Self::Allocation => memory::allocation(bench),
            Self::MappedReader => memory::mapped_reader(bench),
            Self::WeakCache => heap::weak_cache(bench),
            Self::OutOfMemory => out_of_memory::in_second_phase(bench),
            Self::BurstThenIdle => activity::burst_then_idle(bench),
            Self::FsyncCount => activity::fsync_count(bench),
            Self::PowerFailure => power_failure::planted_faults(bench),
            Self::SameCommand => false_verdicts::same_command(bench),
            Self::SmallestEffect => false_verdicts::smallest_effect(bench),
        };
        Calibration { fixture: self, ran }
    }
}

/// What a fixture that was started came to.
#[derive(Debug)]
pub enum Ran {
    /// Truth beside reading.
    Lines(Vec<Line>),
    /// It cannot run here: why.
    NotRun(String),
}

/// A fixture and what it came to.
#[derive(Debug)]
pub struct Calibration {
    /// Which.
    pub fixture: Fixture,
    /// Its lines, or the error that it ended with.
    pub ran: Result<Ran, Error>,
}

impl Calibration {
    /// Fails where one of its lines does; not run where nothing failed and something could not be read.
    pub(crate) fn judge(&self) -> Judgement {
        let lines = match &self.ran {
            Err(_) => return Judgement::Fail,
            Ok(Ran::NotRun(why)) => return Judgement::NotRun(why.clone()),
            Ok(Ran::Lines(lines)) => lines,
        };
        let judged: Vec<Judgement> = lines.iter().map(Line::judge).collect();
        if judged.is_empty() || judged.contains(&Judgement::Fail) {
            return Judgement::Fail;
        }
        let not_run = |judgement: &Judgement| matches!(judgement, Judgement::NotRun(_));
        judged.into_iter().find(not_run).unwrap_or(Judgement::Pass)
    }

    /// Its lines; none where it did not run.
    pub(crate) fn lines(&self) -> &[Line] {
        match &self.ran {
            Ok(Ran::Lines(lines)) => lines,
            _ => &[],
        }
    }

    /// Why it did not run, or what went wrong.
    pub(crate) fn why(&self) -> Option<String> {
        match (&self.ran, self.judge()) {
            (Err(error), _) => Some(error.text().trim_end().to_owned()),
            (_, Judgement::NotRun(why)) => Some(why),
            _ => None,
        }
    }

    /// For machines.
    pub(crate) fn json(&self) -> Value {
        json!({
            "fixture": self.fixture.name(),
            "result": self.judge().name().to_lowercase(),
            "why": self.why(),
            "lines": self.lines().iter().map(Line::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use prony_model::reading::{Reading, Why};

    use super::check_line::Unit;
    use super::*;

    fn calibration(readings: &[Reading<f64>]) -> Calibration {
        let line = |reading: &Reading<f64>| Line::figure("x", Unit::Calls, 1.0, reading.clone(), 0.0);
        Calibration { fixture: Fixture::FsyncCount, ran: Ok(Ran::Lines(readings.iter().map(line).collect())) }
    }

    #[test]
    fn one_wrong_line_fails_the_fixture_whatever_could_not_be_read() {
        let (right, wrong) = (Reading::Measured(1.0), Reading::Measured(2.0));
        let refused = Reading::Missing(Why::NotPermitted("root".into()));
        assert_eq!(calibration(&[right.clone(), right.clone()]).judge(), Judgement::Pass);
        assert_eq!(calibration(&[refused.clone(), right.clone(), wrong]).judge(), Judgement::Fail);
        assert!(matches!(calibration(&[right, refused]).judge(), Judgement::NotRun(_)));
        assert_eq!(calibration(&[]).judge(), Judgement::Fail, "nothing compared is nothing shown");
    }

    #[test]
    fn an_error_is_a_failure_with_its_cause() {
        let source = std::io::Error::other("full");
        let error = Error::Setup { doing: "start the sampler", source };
        let calibration = Calibration { fixture: Fixture::Allocation, ran: Err(error) };
        assert_eq!(calibration.judge(), Judgement::Fail);
        assert_eq!(calibration.json()["why"], "error: cannot start the sampler: full");
        assert_eq!(calibration.json()["result"], "fail");
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        let names: Vec<String> = Fixture::value_variants().iter().map(|fixture| fixture.name()).collect();
        let all = "allocation mapped-reader weak-cache out-of-memory burst-then-idle fsync-count power-failure \
                   same-command smallest-effect";
        assert_eq!(names.join(" "), all);
    }
}
