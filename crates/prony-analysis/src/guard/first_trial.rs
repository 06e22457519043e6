//! Guard of programs that keep work for later trials in a directory that they share: what `make` built or a cache holds leaves
//! nothing to do from the second trial on.

use std::collections::BTreeMap;

use serde_json::json;

use super::variant_trials::VariantTrials;
use super::{Finding, Severity, amount};
use prony_model::metric::Metric;
use prony_model::number::{first_few, short};
use prony_model::program::CopyOf;
use prony_model::record::{Completion, PhaseRecord, TrialRecord};
use prony_model::units::Nanos;
use prony_stats::summary;

/// The first trial took at least so many times the median of the later ones.
const TIMES: f64 = 3.0;

/// And so many times the largest of them: in noise that is large at times, the first trial may be the largest by chance.
const LARGEST: f64 = 1.5;

/// At least so many later trials.
const LATER: usize = 3;

/// In user time, at least so much more: below that it may be what loading the program for the first time takes.
const LEAST: Nanos = Nanos::from_millis(20);

/// At most so many variants are named.
const NAMED: usize = 4;

/// How many times as long the first trial took, in wall time and in user time.
type Ratios = [f64; 2];

/// A finding for each phase that only the first trial in each directory had to do in full.
pub(crate) fn check(variants: &[VariantTrials<'_>]) -> Vec<Finding> {
    let mut found: BTreeMap<&str, Vec<(&str, Ratios)>> = BTreeMap::new();
    for variant in variants {
        let copies = copies(variant);
        let timed = variant.spec.phases.iter().filter(|phase| phase.timed);
        for phase in timed.map(|phase| phase.name.as_str()) {
            let of_copies: Option<Vec<Ratios>> = copies.iter().map(|trials| ratios(trials, phase)).collect();
            // Of several copies, the one that shows it least.
            let least = of_copies.into_iter().flatten().min_by(|a, b| a[0].total_cmp(&b[0]));
            found.entry(phase).or_default().extend(least.map(|least| (variant.name.as_str(), least)));
        }
    }
    found.into_iter().filter(|(_, variants)| !variants.is_empty()).map(|(phase, of)| finding(phase, &of)).collect()
}

fn finding(phase: &str, variants: &[(&str, Ratios)]) -> Finding {
    let each = variants.iter().map(|(name, [wall, cpu])| {
        let whose = if name.is_empty() { String::new() } else { format!("`{name}`: ") };
        format!("{whose}{} times the time and {} times the user time", short(*wall), short(*cpu))
    });
    let each = first_few(each.collect(), NAMED, ("; ", "; and "), "more variant");
    let message = format!(
        "the first trial in a directory took far longer than the median of the later ones ({each}): the program keeps work there \
         for its next execution, or elsewhere"
    );
    let hint = "if the work itself is to be measured, give each trial a copy of its own (`copy = \"trial\"`), or remove what is kept in \
        `prepare` (`--prepare`); if not, execute the program before its first trial by `warmup = 1` (`--warmup 1`)";
    let found = Finding::of("first_trial_slower", Severity::Warning, message, hint).in_phase(phase);
    let data: BTreeMap<&str, Ratios> = variants.iter().copied().collect();
    found.with(json!({ "variants": data }))
}

/// The trials of a variant in each directory that several of them share, in their order. A baseline that runs twice in a block has two
/// copies, which its trials use alternately; each session of a run makes its own.
fn copies<'a>(variant: &VariantTrials<'a>) -> Vec<Vec<&'a TrialRecord>> {
    let shared = |copy: CopyOf| variant.spec.programs().any(|p| p.directory.is_some() && p.copy == copy);
    let mut trials = variant.trials.clone();
    trials.sort_by_key(|trial| (trial.conditions.session, trial.trial.position));
    match (shared(CopyOf::Variant), shared(CopyOf::None)) {
        (false, false) => Vec::new(),
        (false, true) => vec![trials],
        (true, _) => {
            let mut copies: BTreeMap<(u32, usize), Vec<&TrialRecord>> = BTreeMap::new();
            for block in trials.chunk_by(|a, b| place(a) == place(b)) {
                for (nth, trial) in block.iter().enumerate() {
                    copies.entry((trial.conditions.session, nth)).or_default().push(trial);
                }
            }
            copies.into_values().filter(|trials| trials.len() > LATER).collect()
        }
    }
}

fn place(trial: &TrialRecord) -> (u32, u32) {
    (trial.conditions.session, trial.trial.block)
}

/// How many times as long the first trial took as the later ones; `None` where that is not far longer.
///
/// User time alone: the first trial also reads files from the disk that later ones find in the page cache, which costs system time.
fn ratios(trials: &[&TrialRecord], phase: &str) -> Option<Ratios> {
    // Of a trial with nothing left to do, the CPU time is too short to tell user from system: it is at most all of it.
    let user = |phase: &PhaseRecord| amount(phase, Metric::CpuUser).or_else(|| amount(phase, Metric::Cpu));
    let [wall, _] = beside(trials, phase, |phase| amount(phase, Metric::Wall))?;
    let [cpu, more] = beside(trials, phase, user)?;
    (more >= LEAST.as_nanos() as f64).then_some([wall, cpu])
}

/// How many times the median of the later trials the first one had, and how much more.
fn beside(trials: &[&TrialRecord], phase: &str, amount: impl Fn(&PhaseRecord) -> Option<f64>) -> Option<[f64; 2]> {
    let of = |trial: &TrialRecord| {
        let mut complete = trial.phases.iter().filter(|p| p.name == phase && p.completion == Completion::Complete);
        amount(complete.next()?)
    };
    let (first, later) = trials.split_first()?;
    let values: Vec<f64> = later.iter().filter_map(|trial| of(trial)).collect();
    let (first, usual) = (of(first)?, summary(&values).filter(|_| values.len() >= LATER)?.median);
    let largest = values.iter().copied().fold(0.0, f64::max);
    let is_far = first >= TIMES * usual && first >= LARGEST * largest;
    // A time of zero is below what is counted.
    is_far.then(|| [first / usual.max(1e5), first - usual])
}
