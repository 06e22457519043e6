//! The input of a search (its arguments) and its results, as data.

use std::cmp::Ordering;
use std::path::PathBuf;

use prony_analysis::crash;
use prony_analysis::search::{Constraint, GrowSettings, Growth, Range};
use prony_experiment::design::Blocks;
use prony_model::catalog::Overrides;
use prony_model::metric::MetricName;
use prony_model::record::TrialRecord;
use prony_model::units::Nanos;
use serde::{Deserialize, Serialize};

use super::constraints::{ConstraintResults, Met};
use prony_analysis::verdicts::Verdicts;
use prony_results::RunData;
use prony_runner::run::Summary;
use prony_stats::Verdict;

/// How far one combination of the other factors went.
#[derive(Clone, Debug, PartialEq)]
pub struct Grown {
    /// The other factors, `(name, label)`.
    pub other_levels: Vec<(String, String)>,
    /// What was found.
    pub growth: Growth,
    /// The trials of the largest value that succeeds.
    pub succeeded: Vec<TrialRecord>,
    /// The failed trials of the smallest value that fails.
    pub failed: Vec<TrialRecord>,
    /// The phase in which the load generator may have been the limit of the value that was given up.
    pub by_generator: Option<String>,
    /// The value that the file does not allow, where the search came to one, and why.
    pub refused: Option<String>,
}

/// The arguments of `grow`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowWanted {
    /// The experiment's file, as typed.
    pub file: PathBuf,
    /// What the command line changes in it.
    pub overrides: Overrides,
    /// What is raised, and how finely.
    pub settings: GrowSettings,
}

/// The arguments of `tune`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneWanted {
    /// The experiment's file, as typed.
    pub file: PathBuf,
    /// What the command line changes in it.
    pub overrides: Overrides,
    /// What is varied.
    pub ranges: Vec<Range>,
    /// The metric to minimize or maximize.
    pub objective: MetricName,
    /// Whether the metric is maximized.
    pub maximize: bool,
    /// The constraints on each trial.
    pub constraints: Vec<Constraint>,
    /// Default values, `(name, value)`, in place of the file's.
    pub defaults: Vec<(String, String)>,
    /// Values on each axis of the first grid.
    pub grid: Option<u32>,
    /// As a share of each range.
    pub resolution: f64,
    /// Time for all trials, the confirmation's among them.
    pub budget: Option<Nanos>,
    /// Trials of the search at most.
    pub max_trials: Option<u32>,
    /// Blocks of the confirmation; `None` for the file's if these are more than 6, else 6 to 30.
    pub confirm: Option<Blocks>,
}

/// A setting that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// `chunk=50, pause=3 ms`.
    pub text: String,
    /// Its number among the variants of the search's run, once it ran.
    pub variant: Option<usize>,
}

/// A setting that a search left out, since a guard refuses to compare it with the default or the file does not allow it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// Its number in the search.
    pub candidate: usize,
    /// What the guard says, or the first fault of the file.
    pub why: String,
}

/// The comparison of the winner with the default in fresh trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmed {
    /// The run of the comparison: the default is its variant 0, the winner its variant 1.
    pub data: RunData,
    /// The verdicts of that run.
    pub verdicts: Verdicts,
    /// The winner against the default, in the direction of the search; `None` where it is not known which is better.
    pub order: Option<Ordering>,
    /// Whether the winner's trials satisfy the constraints.
    pub constraints: ConstraintResults,
    /// Whether the default's trials satisfy them.
    pub of_default: ConstraintResults,
    /// How the run ended.
    pub summary: Summary,
}

/// What follows from the fresh blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The best setting of the search is better than the default.
    Better,
    /// The default violates the constraint at this place, which the best setting of the search satisfies.
    DefaultViolates(usize),
    /// The two do not differ by as much as the margin.
    Alike,
    /// Neither is known; the reason.
    None(String),
}

impl Confirmed {
    /// What follows from them.
    pub fn conclusion(&self) -> Conclusion {
        if let Some(why) = self.refusal() {
            return Conclusion::None(why.to_owned());
        }
        let how = match (self.constraints.is_met(), self.order) {
            (Met::No, _) if self.constraints.failed > 0 => "the best setting did not finish in every trial",
            (Met::No, _) => "the best setting violates a constraint",
            _ if self.summary.interrupted => "which were interrupted, nothing was shown yet",
            _ if self.crash_fault().is_some() => self.crash_fault().unwrap_or_default(),
            (Met::Unknown, _) => "it is not known whether the constraints hold",
            (Met::Yes, order) => match (self.of_default.violated(), order) {
                (_, Some(Ordering::Less)) => return Conclusion::Better,
                (Some(constraint), _) => return Conclusion::DefaultViolates(constraint),
                (None, Some(Ordering::Equal)) => return Conclusion::Alike,
                (None, Some(Ordering::Greater)) => "the best setting is worse than the default",
                (None, None) => "the best setting was not shown to be better than the default",
            },
        };
        Conclusion::None(format!("in fresh blocks{} {how}", if self.summary.interrupted { "," } else { "" }))
    }

    /// What is wrong with the crash trials of the fresh blocks.
    fn crash_fault(&self) -> Option<&'static str> {
        crash::fault(&self.data.experiment, &self.data.cuts)
    }

    /// Why the winner is not compared with the default, where it is not.
    pub fn refusal(&self) -> Option<&str> {
        let refused = self.verdicts.lines.iter().find_map(|line| match &line.comparison.verdict {
            Verdict::Refused { why, .. } => Some(why.as_str()),
            _ => None,
        });
        refused.or(self.verdicts.silent.as_deref())
    }
}
