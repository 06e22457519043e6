//! Whether the winner's fresh trials satisfy the constraints of a search. A trial without a usable reading breaks no
//! constraint.

use prony_analysis::guard::disturbances::limited_by_generator;
use prony_analysis::search::{Constraint, TrialEnd};
use prony_model::finding::Severity;
use prony_model::metric::MetricName;
use prony_model::number;
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;

/// Metrics of a constraint whose errors are combined at most.
const ERRORS: usize = 8;

/// How the trials of one setting satisfy the constraints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConstraintResults {
    /// The results for each constraint, in their order.
    pub bounds: Vec<Bound>,
    /// Number of trials.
    pub trials: u32,
    /// How many of the trials failed by themselves; these satisfy no constraint.
    pub failed: u32,
}

/// How trials satisfy one constraint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bound {
    /// Trials that satisfied the constraint.
    pub satisfied: u32,
    /// Trials that violated the constraint or failed by themselves.
    pub broke: u32,
    /// Trials without a usable reading: ended from outside, without the metrics of the constraint, or refused by a
    /// guard.
    pub silent: u32,
    /// The first reason why a trial has no usable reading.
    pub why: Option<String>,
    /// The measured value nearest to violating the constraint, or furthest beyond its bound.
    pub worst: Option<f64>,
}

/// Whether a constraint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// No trial violated it, and more trials satisfied it than have no usable reading.
    Yes,
    /// A trial violated it.
    No,
    /// No trial violated it, but at least as many trials have no usable reading as satisfied it.
    Unknown,
}

impl Bound {
    /// Whether the constraint holds.
    pub const fn is_met(&self) -> Met {
        match (self.broke, self.satisfied > self.silent) {
            (1.., _) => Met::No,
            (0, true) => Met::Yes,
            (0, false) => Met::Unknown,
        }
    }

    fn see(&mut self, constraint: &Constraint, trial: &TrialRecord) {
        let value = match (TrialEnd::of_trial(trial), refusal(trial)) {
            (Some(TrialEnd::Failed), _) => return self.broke += 1,
            (Some(TrialEnd::Disturbed) | None, _) => Err(match limited_by_generator(trial) {
                Some(phase) => format!("in phase `{phase}` the load generator may have been the limit"),
                None => format!("ended from outside: {}", trial.ending.outcome),
            }),
            (Some(TrialEnd::Succeeded), Some(refusal)) => Err(refusal),
            (Some(TrialEnd::Succeeded), None) => match known_value(constraint, trial) {
                Reading::Measured(value) => Ok(value),
                Reading::Missing(why) => Err(why.to_string()),
            },
        };
        match value {
            Ok(value) => {
                if constraint.is_met(value) {
                    self.satisfied += 1;
                } else {
                    self.broke += 1;
                }
                self.worst = Some(self.worst.map_or(value, |worst| constraint.worse(worst, value)));
            }
            Err(why) => {
                self.silent += 1;
                self.why.get_or_insert(why);
            }
        }
    }
}

impl ConstraintResults {
    /// Counts these trials.
    pub(crate) fn of<'t>(constraints: &[Constraint], trials: impl Iterator<Item = &'t TrialRecord>) -> Self {
        let mut results = Self { bounds: vec![Bound::default(); constraints.len()], ..Self::default() };
        for trial in trials {
            results.trials += 1;
            results.failed += u32::from(TrialEnd::of_trial(trial) == Some(TrialEnd::Failed));
            results.bounds.iter_mut().zip(constraints).for_each(|(bound, constraint)| bound.see(constraint, trial));
        }
        results
    }

    /// The first constraint of which at least as many trials measured a violation as satisfied it, by its place: a single violation
    /// may be chance.
    pub(crate) fn violated(&self) -> Option<usize> {
        self.bounds.iter().position(|bound| bound.broke - self.failed >= bound.satisfied.max(1))
    }

    /// Whether no trial failed by itself and every constraint holds.
    pub(crate) fn is_met(&self) -> Met {
        let any = |wanted| self.bounds.iter().any(|bound| bound.is_met() == wanted);
        match (self.failed > 0 || any(Met::No), any(Met::Unknown)) {
            (true, _) => Met::No,
            (false, true) => Met::Unknown,
            (false, false) => Met::Yes,
        }
    }
}

/// The value of a constraint in a trial, if the known errors of its metrics leave no doubt of whether it is met: a maximum of samples
/// may have been missed.
pub(super) fn known_value(constraint: &Constraint, trial: &TrialRecord) -> Reading<f64> {
    let at = |shift: &dyn Fn(&MetricName) -> f64| {
        constraint.value(&mut |name| match trial.figure(name) {
            Reading::Measured(value) => Reading::Measured(value + shift(name)),
            missing => missing,
        })
    };
    let value = at(&|_| 0.0);
    let Reading::Measured(measured) = value else { return value };
    let mut names = constraint.metrics();
    names.retain(|name| trial.uncertainty(name) != (0.0, 0.0));
    names.sort();
    names.dedup();
    names.truncate(ERRORS);
    let (mut least, mut most) = (measured, measured);
    for corner in 0..1u32 << names.len() {
        let shift = |name: &MetricName| {
            let Some(at) = names.iter().position(|known| *known == name) else { return 0.0 };
            let (less, more) = trial.uncertainty(name);
            if corner & (1 << at) == 0 { -less } else { more }
        };
        if let Reading::Measured(value) = at(&shift) {
            (least, most) = (least.min(value), most.max(value));
        }
    }
    if constraint.is_met(least) == constraint.is_met(most) {
        return value;
    }
    let [least, most] = [least, most].map(|value| number::quantity(value, constraint.unit()));
    Reading::failed(format!("its true value lies between {least} and {most}, on both sides of the bound"))
}

/// Why a guard refuses the measurements of a trial.
pub(super) fn refusal(trial: &TrialRecord) -> Option<String> {
    let found = trial.findings.iter().find(|finding| finding.severity == Severity::Refusal);
    found.map(|finding| finding.message.clone())
}

#[cfg(test)]
mod tests {
    use prony_model::outcome::{OutOfMemory, Outcome};
    use prony_model::reading::Why;
    use prony_model::record::Conditions;
    use serde_json::json;

    use super::*;

    /// A trial that ended so, with this much disk in its one phase.
    fn trial(outcome: Outcome, disk: Reading<f64>) -> TrialRecord {
        serde_json::from_value(json!({
            "trial": { "block": 0, "sub_block": 0, "position": 0, "variant": 1, "label": "a", "seed": 1 },
            "started_unix_ms": 0, "took": 1, "ending": { "outcome": outcome, "phase": null, "after": 1, "evidence": [] },
            "phases": [{
                "name": "work", "action": "run", "timed": true, "completion": "complete", "begin": 0, "end": 1,
                "readings": { "": { "disk": disk } }, "histograms": [], "groups": null, "throughput": null,
                "answer": null, "errors": {}
            }],
            "effective": null, "conditions": Conditions::default(), "series": [],
            "sampler_cpu": { "measured": 0 }, "findings": []
        }))
        .unwrap()
    }

    fn results(trials: &[TrialRecord]) -> ConstraintResults {
        ConstraintResults::of(&["work.disk < 100 MB".parse().unwrap()], trials.iter())
    }

    const HOST: Outcome = Outcome::OutOfMemory { by: OutOfMemory::Host };

    #[test]
    fn what_says_nothing_breaks_nothing() {
        let good = || trial(Outcome::Ok, Reading::Measured(5e7));
        let unread = || trial(Outcome::Ok, Reading::Missing(Why::NotApplicable));
        let disturbed = || trial(HOST, Reading::Missing(Why::NotReached));
        let mostly = results(&[good(), good(), disturbed(), good(), unread(), good()]);
        let bound = &mostly.bounds[0];
        assert_eq!((bound.satisfied, bound.broke, bound.silent, bound.worst), (4, 0, 2, Some(5e7)));
        assert!(bound.why.as_ref().unwrap().starts_with("ended from outside: "), "{bound:?}");
        assert_eq!((mostly.is_met(), mostly.failed), (Met::Yes, 0));
        assert_eq!(results(&[good(), disturbed(), good(), unread()]).is_met(), Met::Unknown);
        assert_eq!(results(&[]).is_met(), Met::Unknown, "no trial, no word");
        let none = ConstraintResults::of(&[], [disturbed()].iter());
        assert_eq!(none.is_met(), Met::Yes, "no constraint, no death");
    }

    #[test]
    fn violated_bound_and_failed_trial_break_it() {
        let good = || trial(Outcome::Ok, Reading::Measured(5e7));
        let over = results(&[good(), trial(Outcome::Ok, Reading::Measured(1.5e8)), good()]);
        assert_eq!((over.is_met(), over.bounds[0].worst, over.failed), (Met::No, Some(1.5e8), 0));
        // One trial of a default that was over made any setting a winner whose few trials were not.
        let of = |bounds: &[f64]| {
            let trials: Vec<_> = bounds.iter().map(|disk| trial(Outcome::Ok, Reading::Measured(*disk))).collect();
            results(&[&trials[..], &[trial(Outcome::TimedOut, Reading::Measured(5e7))]].concat()).violated()
        };
        assert_eq!([of(&[5e7, 2e8, 5e7]), of(&[5e7, 2e8]), of(&[2e8]), of(&[5e7])], [None, Some(0), Some(0), None]);
        let dead = results(&[good(), trial(Outcome::TimedOut, Reading::Measured(5e7))]);
        assert_eq!((dead.is_met(), dead.bounds[0].broke, dead.failed), (Met::No, 1, 1));
        let unconstrained = [trial(Outcome::WrongAnswer, Reading::Measured(5e7))];
        assert_eq!(ConstraintResults::of(&[], unconstrained.iter()).is_met(), Met::No);
    }

    /// Samples of 47.8 MB satisfied a bound of 50 MB, though the kernel's own peak shows that they missed 5 MB.
    #[test]
    fn a_sampled_maximum_that_may_lie_beyond_the_bound_says_nothing() {
        let trial = |peak: f64| -> TrialRecord {
            let mut trial = trial(Outcome::Ok, Reading::Measured(0.0));
            let all = json!({ "anon.max": { "measured": 4.78e7 }, "rss.max": { "measured": 5.5e7 }, "rss.peak": { "measured": peak } });
            trial.phases[0].readings = serde_json::from_value(json!({ "": all })).unwrap();
            trial
        };
        let bound = |text: &str, peak: f64| {
            ConstraintResults::of(&[text.parse().unwrap()], [trial(peak)].iter()).bounds.remove(0)
        };
        let missed = bound("work.anon.max < 50 MB", 6e7);
        let why = "its true value lies between 47.8 MB and 52.8 MB, on both sides of the bound";
        assert_eq!((missed.silent, missed.why.as_deref()), (1, Some(why)));
        assert_eq!(bound("work.anon.max < 50 MB", 5.6e7).satisfied, 1, "at most 48.8 MB");
        assert_eq!(bound("work.anon.max < 47 MB", 6e7).broke, 1, "more is worse still");
        assert_eq!(bound("work.anon.max / work.rss.max < 0.9", 6e7).silent, 1, "each end of both");
    }

    #[test]
    fn a_refused_trial_says_nothing() {
        let mut refused = trial(Outcome::Ok, Reading::Measured(5e9));
        refused.findings = serde_json::from_value(json!([
            { "guard": "g", "severity": "refusal", "phase": null, "message": "the clock went back", "hint": "", "data": null }
        ]))
        .unwrap();
        let bound = &results(&[refused]).bounds[0];
        assert_eq!((bound.silent, bound.why.as_deref()), (1, Some("the clock went back")));
    }
}
