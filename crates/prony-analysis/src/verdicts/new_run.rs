//! What it takes to decide a comparison that this run leaves open: blocks, and the time that they would take.

use std::collections::BTreeMap;
use std::fmt;

use prony_model::number::{count, span, thousands, time};
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::units::Nanos;
use prony_stats::{Comparison, Verdict};

/// Above this number, more blocks are not recommended.
const MANY: u32 = 500;

/// The run that could decide a comparison, if all its blocks came out like those of this run. A run that is done does not go
/// on, so that this is a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// All its blocks.
    pub blocks: u32,
    /// How long they would take; `None` where the time of a block is not known.
    pub takes: Option<Nanos>,
    /// How much longer that is than the same time of this run's blocks.
    pub longer: Option<Nanos>,
}

impl NewRun {
    /// For the comparison, at the time per block of this run; `None` where more blocks would not decide it, or where it is
    /// not known how many would.
    pub(super) fn of(comparison: &Comparison, per_block: Option<Nanos>) -> Option<Self> {
        let Verdict::CantTell { more_blocks: Reading::Measured(more) } = &comparison.verdict else { return None };
        // Before the first analysis the sentence says where that is.
        let is_early = comparison.blocks == 0 || matches!(comparison.p, Reading::Missing(Why::TooFew { .. }));
        if is_early { None } else { Self::with(*more, comparison.complete, per_block) }
    }

    /// Of so many blocks more than the complete ones; `None` if nobody would run them.
    pub(super) fn with(more: u32, complete: u32, per_block: Option<Nanos>) -> Option<Self> {
        let blocks = more.saturating_add(complete);
        let time = |blocks: u32| Some(Nanos::from_nanos(per_block?.as_nanos().saturating_mul(blocks.into())));
        (more <= MANY).then(|| Self { blocks, takes: time(blocks), longer: time(more) })
    }
}

impl fmt::Display for NewRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a new run of about {}", count(self.blocks, "block"))?;
        let text = |of: Nanos| if of < Nanos::from_secs(1) { time(of) } else { span(of) };
        match (self.takes, self.longer) {
            (Some(takes), Some(longer)) => write!(f, " (about {}, {} more than this run)", text(takes), text(longer)),
            _ => Ok(()),
        }
    }
}

/// Why more blocks than anyone would run are not recommended.
pub(super) fn too_many(more: u32, complete: u32) -> Option<String> {
    (more > MANY).then(|| {
        let all = thousands(&more.saturating_add(complete).to_string());
        format!("even if all blocks came out like these, it would take about {all} blocks to tell, which is hardly practical")
    })
}

/// The time that a whole block took in this run, from the begin of its first trial to that of the next block, with all that
/// runs between trials; `None` where no time passed. Blocks that a resumed run cut in parts count by their trials.
pub(super) fn time_per_block(trials: &[TrialRecord]) -> Option<Nanos> {
    let mut sessions: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut blocks: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for trial in trials {
        let (begin, took) = (trial.started_unix_ms.saturating_mul(1_000_000), trial.took.as_nanos());
        let ended = begin.saturating_add(took);
        let session = sessions.entry(trial.conditions.session).or_insert((begin, ended));
        *session = (session.0.min(begin), session.1.max(ended));
        *blocks.entry((trial.conditions.session, trial.trial.block)).or_default() += 1;
    }
    let whole = u128::from(blocks.values().copied().max()?);
    let elapsed: u128 = sessions.values().map(|(begin, end)| u128::from(end - begin)).sum();
    let time = u64::try_from(elapsed * whole / trials.len() as u128).ok()?;
    (time > 0).then(|| Nanos::from_nanos(time))
}

#[cfg(test)]
mod tests {
    use prony_model::outcome::Outcome;
    use prony_model::record::Conditions;
    use serde_json::json;

    use super::*;

    /// A trial of a block and session, which begins at a second and takes half of one.
    fn trial(block: u32, session: u32, second: u64) -> TrialRecord {
        let conditions = Conditions { session, ..Conditions::default() };
        serde_json::from_value(json!({
            "trial": { "block": block, "sub_block": 0, "position": 0, "variant": 0, "label": "a", "seed": 1 },
            "started_unix_ms": second * 1000, "took": 500_000_000,
            "ending": { "outcome": Outcome::Ok, "phase": null, "after": 1, "evidence": [] },
            "phases": [], "effective": null, "conditions": conditions, "series": [],
            "sampler_cpu": { "measured": 0 }, "findings": []
        }))
        .unwrap()
    }

    #[test]
    fn time_of_a_block_includes_the_pauses_between_trials() {
        // Two blocks of three trials, one every 2 s: from 100 s to 110.5 s.
        let trials: Vec<TrialRecord> = (0..6).map(|n| trial(n / 3, 0, 100 + 2 * u64::from(n))).collect();
        assert_eq!(time_per_block(&trials), Some(Nanos::from_millis(5250)));
        assert_eq!(time_per_block(&[]), None);
    }

    #[test]
    fn time_between_the_sessions_of_a_resumed_run_is_no_time_of_its_blocks() {
        let mut trials: Vec<TrialRecord> = (0..6).map(|n| trial(n / 3, 0, 100 + 2 * u64::from(n))).collect();
        let resumed = (0..6).map(|n| trial(2 + n / 3, 1, 10_000 + 2 * u64::from(n)));
        trials.extend(resumed);
        assert_eq!(time_per_block(&trials), Some(Nanos::from_millis(5250)));
    }

    #[test]
    fn new_runs_say_how_long_they_would_take() {
        let run = NewRun { blocks: 42, takes: Some(Nanos::from_secs(1260)), longer: Some(Nanos::from_secs(360)) };
        assert_eq!(run.to_string(), "a new run of about 42 blocks (about 21 min, 6 min more than this run)");
        let unknown = NewRun { takes: None, longer: None, ..run };
        assert_eq!(unknown.to_string(), "a new run of about 42 blocks");
    }
}
