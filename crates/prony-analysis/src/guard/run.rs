//! Guards that check a whole run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;

use super::{Finding, Severity, percent};
use prony_experiment::design::{Experiment, Variant};
use prony_model::outcome::counted;
use prony_model::record::TrialRecord;
use prony_stats::{InterimAnalyses, autocorrelation, drift};

/// Variants with failed trials that are named; further ones are counted.
const FAILING: usize = 6;

/// A trend with a lower probability by chance is reported.
const TREND: f64 = 0.01;

/// The baseline moved over the run. `values` are the baseline's figures of the primary metric in the order in which
/// they ran; `margin` is that of the comparison.
///
/// Blocks remove it from the verdicts; medians over the run, and growth, contain it.
pub fn drifting(values: &[f64], margin: f64) -> Option<Finding> {
    let found = drift(values)?;
    if found.p > TREND || found.ratio.ln().abs() <= margin.ln_1p() {
        return None;
    }
    let (word, change) = if found.ratio > 1.0 { ("rose", found.ratio - 1.0) } else { ("fell", 1.0 - found.ratio) };
    let message = format!("the baseline {word} by {} over the run", percent(change));
    let hint = "comparisons within blocks remain valid; figures over the whole run mix early and late trials: look for thermal throttling, \
                a filling disk or other work on the machine";
    let data = json!({ "ratio": found.ratio, "tau": found.tau, "p": found.p, "lag_1": autocorrelation(values) });
    Some(Finding::of("drift", Severity::Note, message, hint).with(data))
}

/// Trials that did not end well, each variant's apart: `30 of 120 trials failed: 30 crashed (signal 11) of `variant``.
pub fn failures(experiment: &Experiment, trials: &[TrialRecord]) -> Option<String> {
    let failed = |t: &&TrialRecord| !t.ending.outcome.is_ok();
    let count = trials.iter().filter(failed).count();
    let of_variant = |variant: &Variant| {
        let own = trials.iter().filter(failed).filter(|t| t.trial.variant == variant.id);
        let how = counted(own.map(|t| t.ending.outcome));
        let whose = match experiment.variants().len() {
            0 | 1 => String::new(),
            _ => format!(" of `{}`", experiment.labels(variant)),
        };
        (!how.is_empty()).then(|| format!("{how}{whose}"))
    };
    let each: Vec<String> = experiment.variants().iter().filter_map(of_variant).collect();
    let rest = each.len().saturating_sub(FAILING);
    let more = if rest > 0 { format!("; and more of {rest} other variants") } else { String::new() };
    let each = each[..each.len() - rest].join("; ");
    (count > 0).then(|| format!("{count} of {} trials failed: {each}{more}", trials.len()))
}

/// The same as a finding.
pub fn trials_failed(experiment: &Experiment, trials: &[TrialRecord]) -> Option<Finding> {
    let hint = "their figures do not count: a phase that was not completed has none; see the evidence in the tables";
    let message = failures(experiment, trials)?;
    let failed = trials.iter().filter(|t| !t.ending.outcome.is_ok()).count();
    let data = json!({ "failed": failed, "trials": trials.len() });
    Some(Finding::of("trials_failed", Severity::Warning, message, hint).with(data))
}

/// The plan has fewer blocks than any verdict needs, or fewer have been completed so far. `needed` are the blocks for a
/// verdict at the closing analysis of a run with a time budget that is `done`.
pub fn too_few_blocks(
    complete: u32,
    planned: u32,
    analyses: &InterimAnalyses,
    needed: u32,
    done: bool,
) -> Option<Finding> {
    let data = json!({ "complete": complete, "planned": planned, "analyses": analyses.at() });
    let resume = "go on with `prony run --resume`";
    let (message, hint) = match analyses.at().first() {
        None => (
            format!("{} planned, and a verdict needs at least {}", blocks(planned), prony_stats::MIN_BLOCKS),
            "set `blocks` to 6 or more; until then figures stand without a verdict",
        ),
        Some(_) if analyses.is_timed() && done && complete < needed => (
            format!("{} complete within the time budget and a verdict takes at least {needed}", blocks(complete)),
            "give the run a longer budget; until then figures stand without a verdict",
        ),
        Some(first) if analyses.is_timed() && !done && complete < *first => (
            format!("{} complete and the first analysis comes at {first}, or where the time ends", blocks(complete)),
            resume,
        ),
        Some(first) if !analyses.is_timed() && complete < *first => {
            (format!("{} complete and the first verdict comes at {first}", blocks(complete)), resume)
        }
        _ => return None,
    };
    Some(Finding::of("too_few_blocks", Severity::Note, message, hint).with(data))
}

/// `1 block is`, `3 blocks are`.
fn blocks(n: u32) -> String {
    if n == 1 { "1 block is".to_owned() } else { format!("{n} blocks are") }
}

/// The directory of a program differed between copies of it, as can happen when a run is resumed.
pub fn sources_differ(trials: &[TrialRecord]) -> Option<Finding> {
    let mut states: BTreeMap<&Path, BTreeSet<&str>> = BTreeMap::new();
    for source in trials.iter().filter_map(|trial| trial.program()?.source.as_ref()) {
        states.entry(&source.directory).or_default().extend(source.state.as_deref());
    }
    let (directory, states) = states.into_iter().find(|(_, states)| states.len() > 1)?;
    let message = format!(
        "the program's directory `{}` changed while the run was made: {} states of it were copied",
        directory.display(),
        states.len()
    );
    let hint = "trials of different copies are trials of different programs: begin a new run";
    let data = json!({ "directory": directory, "states": states });
    Some(Finding::of("sources_differ", Severity::Warning, message, hint).with(data))
}

/// Comparisons of stores in which no answer was checked: nothing was read back, so that a store which loses or corrupts
/// its data looks like any other (METHOD 1.5).
pub fn answers_unchecked(experiment: &Experiment, trials: &[TrialRecord]) -> Option<Finding> {
    let compared = !experiment.compare().baseline.is_empty() && experiment.variants().len() > 1;
    let ended_well = |t: &&TrialRecord| t.ending.outcome.is_ok();
    let store = |t: &TrialRecord| experiment.variants()[t.trial.variant].spec.subject.store().is_some();
    let checked = |t: &TrialRecord| t.phases.iter().any(|p| p.answer.as_ref().is_some_and(|a| a.comparable));
    let ran: Vec<&TrialRecord> = trials.iter().filter(ended_well).filter(|t| store(t)).collect();
    let unchecked = ran.iter().filter(|t| !checked(t)).count();
    if !compared || unchecked == 0 {
        return None;
    }
    let message = format!("in {unchecked} of {} successful trials nothing that was read was checked", ran.len());
    let hint = "end with a phase `verify = {}`, or read what was written in a pass over all records: a store that loses \
                writes is fast";
    let data = json!({ "unchecked": unchecked, "trials": ran.len() });
    Some(Finding::of("answers_unchecked", Severity::Note, message, hint).with(data))
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::record;
    use super::*;
    use prony_model::outcome::Outcome;
    use prony_model::record::EffectiveProgram;
    use prony_model::record::effective::Source;

    #[test]
    fn warming_baseline_is_reported() {
        let rising: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i) * 2.0 + f64::from(i % 3)).collect();
        let found = drifting(&rising, 0.03).unwrap();
        assert_eq!((found.guard.as_str(), found.severity), ("drift", Severity::Note));
        assert!(found.message.starts_with("the baseline rose by 3"), "{}", found.message);
        assert!(found.data["lag_1"].as_f64().unwrap() > 0.5);
        let falling: Vec<f64> = rising.into_iter().rev().collect();
        assert!(drifting(&falling, 0.03).unwrap().message.contains("fell"));
    }

    #[test]
    fn noise_and_trends_below_the_margin_are_not_drift() {
        let noise: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i * 7 % 11)).collect();
        assert_eq!(drifting(&noise, 0.03), None);
        let small: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i) * 0.01).collect();
        assert_eq!(drifting(&small, 0.03), None);
        assert_eq!(drifting(&[1.0, 2.0], 0.03), None);
    }

    #[test]
    fn sources_differ_where_one_directory_was_copied_in_two_states() {
        let trial = |directory: &str, state: &str| {
            let source = Some(Source { directory: directory.into(), state: Some(state.to_owned()) });
            record(Outcome::Ok, EffectiveProgram { source, ..EffectiveProgram::default() })
        };
        let none = record(Outcome::Ok, EffectiveProgram::default());
        assert_eq!(sources_differ(&[trial("/a", "1"), trial("/b", "2"), trial("/a", "1"), none]), None);
        let found = sources_differ(&[trial("/a", "1"), trial("/b", "2"), trial("/b", "3")]).unwrap();
        assert!(found.message.contains("`/b`") && found.message.contains("2 states"), "{}", found.message);
    }

    #[test]
    fn too_few_blocks_say_what_is_missing() {
        let few = |complete, planned, analyses| too_few_blocks(complete, planned, &analyses, 6, false);
        assert!(few(3, 3, InterimAnalyses::new(1, 3)).unwrap().message.contains("needs at least 6"));
        assert!(few(4, 30, InterimAnalyses::new(6, 30)).unwrap().message.contains("first verdict comes at 6"));
        assert_eq!(few(6, 30, InterimAnalyses::new(6, 30)), None);
        assert!(few(1, 1, InterimAnalyses::new(1, 1)).unwrap().message.starts_with("1 block is planned, and"));
        assert!(few(1, 30, InterimAnalyses::new(6, 30)).unwrap().message.starts_with("1 block is complete and"));
    }

    #[test]
    fn too_few_blocks_of_a_time_budget_are_fewer_than_its_closing_analysis_needs() {
        let few = |complete, done| too_few_blocks(complete, 50, &InterimAnalyses::timed(20, 50), 7, done);
        assert_eq!(few(10, true), None, "the closing analysis may give a verdict");
        let ended = few(6, true).unwrap();
        assert_eq!(ended.message, "6 blocks are complete within the time budget and a verdict takes at least 7");
        assert!(ended.hint.contains("longer budget"), "{}", ended.hint);
        let interrupted = few(10, false).unwrap();
        let expected = "10 blocks are complete and the first analysis comes at 20, or where the time ends";
        assert_eq!((interrupted.message.as_str(), interrupted.hint.contains("--resume")), (expected, true));
        assert_eq!(few(20, false), None);
    }
}
