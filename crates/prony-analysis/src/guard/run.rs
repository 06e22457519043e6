//! Guards that check a whole run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Finding, Severity, percent};
use prony_experiment::design::{Experiment, Variant};
use prony_model::number::{count, first_few};
use prony_model::outcome::counted;
use prony_model::record::{Completion, Effective, EffectiveProgram, TrialRecord};
use prony_stats::{InterimAnalyses, autocorrelation, drift};

/// At most so many variants are named in a finding; the others are counted.
const NAMED: usize = 6;

/// A trend is reported if its p-value is below this.
const TREND: f64 = 0.01;

/// The baseline drifted over the run. `values` are the baseline's values of the primary metric in the order in which
/// its trials ran; `margin` is that of the comparison.
///
/// Verdicts compare within blocks, and a drift of the machine does not affect them; it does affect medians over the run, and growth.
pub(crate) fn drifting(values: &[f64], margin: f64) -> Option<Finding> {
    let found = drift(values)?;
    if found.p > TREND || found.ratio.ln().abs() <= margin.ln_1p() {
        return None;
    }
    let (word, change) = if found.ratio > 1.0 { ("rose", found.ratio - 1.0) } else { ("fell", 1.0 - found.ratio) };
    let message = format!("the baseline's primary metric {word} by {} over the run", percent(change));
    let hint = "medians over the whole run mix early and late trials: look for thermal throttling, a disk that fills up or other work \
        on the machine, against which comparisons within blocks are safe; or for what trials leave behind for later ones, against which \
        they are not";
    let data = json!({ "ratio": found.ratio, "tau": found.tau, "p": found.p, "lag_1": autocorrelation(values) });
    Some(Finding::of("drift", Severity::Note, message, hint).with(data))
}

/// Trials that did not end well, each variant's apart: `30 of 120 trials failed: `variant`: 30 crashed (signal 11)`.
pub fn failures(experiment: &Experiment, trials: &[TrialRecord]) -> Option<String> {
    let failed = |t: &&TrialRecord| !t.ending.outcome.is_ok();
    let ended = trials.iter().filter(failed).count();
    let of_variant = |variant: &Variant| {
        let own = trials.iter().filter(failed).filter(|t| t.trial.variant == variant.id);
        let how = counted(own.map(|t| t.ending.outcome));
        let whose = match experiment.variants().len() {
            0 | 1 => String::new(),
            _ => format!("`{}`: ", experiment.labels(variant)),
        };
        (!how.is_empty()).then(|| format!("{whose}{how}"))
    };
    let each = of_variants(experiment.variants().iter().filter_map(of_variant).collect());
    (ended > 0).then(|| format!("{ended} of {} failed: {each}", count(trials.len(), "trial")))
}

/// The text of [`failures`] as a finding.
pub fn trials_failed(experiment: &Experiment, trials: &[TrialRecord]) -> Option<Finding> {
    let hint = "the tables and the notes below them say how the trials of each variant ended; a phase that was not completed has \
        no value";
    let message = failures(experiment, trials)?;
    let failed = trials.iter().filter(|t| !t.ending.outcome.is_ok()).count();
    let data = json!({ "failed": failed, "trials": trials.len() });
    Some(Finding::of("trials_failed", Severity::Warning, message, hint).with(data))
}

/// Some variants are not compared in all metrics that get verdicts, or in none of them, while other variants are: no
/// verdict mentions them there.
pub fn uncompared(experiment: &Experiment) -> Option<Finding> {
    let phases: BTreeSet<&str> = experiment.compare().figures().iter().map(|metric| metric.phase.as_str()).collect();
    let variants: Vec<&Variant> = experiment.variants().iter().filter(|variant| !variant.baseline).collect();
    let mut without: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut compared, several) = (false, phases.len() > 1);
    for (phase, variant) in phases.into_iter().flat_map(|phase| variants.iter().map(move |variant| (phase, *variant))) {
        match experiment.compared_with(variant, phase) {
            Ok(_) => compared = true,
            Err(why) => without.entry(experiment.labels(variant)).or_default().extend([why]),
        }
    }
    if !compared || without.is_empty() {
        return None;
    }
    let reasons = |whys: &BTreeSet<String>| whys.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let each = of_variants(without.iter().map(|(name, whys)| format!("`{name}`: {}", reasons(whys))).collect());
    // Of several phases, others may be compared.
    let which = if several { "some verdicts" } else { "the verdicts" };
    let message = format!("{which} leave out {} of {}: {each}", without.len(), count(variants.len(), "variant"));
    let hint = "a gate (`--fail-if`) does not judge these comparisons; let the baseline run in each stratum, with \
        every phase that is compared";
    Some(Finding::of("uncompared", Severity::Note, message, hint).with(json!({ "variants": without })))
}

/// The first few texts about variants, and how many more there are.
fn of_variants(each: Vec<String>) -> String {
    first_few(each, NAMED, ("; ", "; and "), "more variant")
}

/// The plan has fewer blocks than any verdict needs, or too few have been completed so far. `needed` is the number of
/// blocks that a verdict needs at the closing analysis of a run with a time budget; that analysis takes place once the
/// run is `done`.
pub fn too_few_blocks(
    complete: u32,
    planned: u32,
    analyses: &InterimAnalyses,
    needed: u32,
    done: bool,
) -> Option<Finding> {
    let data = json!({ "complete": complete, "planned": planned, "analyses": analyses.at() });
    let resume = "continue the run with `prony run --resume`";
    let (message, hint) = match analyses.at().first() {
        None => (
            format!("{} planned, but a verdict needs at least {} blocks", blocks(planned), prony_stats::MIN_BLOCKS),
            "set more: `prony run --blocks 6`, `prony exec --runs 6`, or `blocks` in the file; with fewer blocks, results are \
             shown without a verdict",
        ),
        Some(_) if analyses.is_timed() && done && complete < needed => (
            format!("{} complete within the time budget, but a verdict needs at least {needed}", blocks(complete)),
            "give the run a longer budget; with fewer blocks, results are shown without a verdict",
        ),
        Some(first) if analyses.is_timed() && !done && complete < *first => (
            format!(
                "{} complete, but the first interim analysis comes after {first} blocks, or when the time budget ends",
                blocks(complete)
            ),
            resume,
        ),
        Some(first) if !analyses.is_timed() && complete < *first => {
            (format!("{} complete, but the first verdict comes after {first} blocks", blocks(complete)), resume)
        }
        _ => return None,
    };
    Some(Finding::of("too_few_blocks", Severity::Note, message, hint).with(data))
}

/// `1 block is`, `3 blocks are`.
fn blocks(n: u32) -> String {
    if n == 1 { "1 block is".to_owned() } else { format!("{n} blocks are") }
}

/// What ran in a trial, by name: the version and library of an engine, or what each change did to a program's copy and
/// the state of its executable and input files; the same of services. Nothing is known of a trial that ended before all of its
/// services were ready.
pub fn identity(trial: &TrialRecord) -> BTreeMap<String, String> {
    let services = services(trial);
    if !services.is_empty() && trial.phases.iter().all(|phase| phase.completion == Completion::NotReached) {
        return BTreeMap::new();
    }
    let store = trial.store().map(|store| {
        let version = format!("{}, by {}", store.engine_and_version(), store.library);
        BTreeMap::from([("the engine".to_owned(), version)])
    });
    let mut identity = store.or_else(|| Some(of_program(trial.program()?))).unwrap_or_default();
    for service in services {
        let own = of_program(service).into_iter();
        identity.extend(own.map(|(what, state)| (format!("{what} of service `{}`", service.program), state)));
    }
    identity
}

/// What must be the same in all trials of a variant, by name: its identity, and where that lies of which its trials have copies.
pub fn of_variant(trial: &TrialRecord) -> BTreeMap<String, String> {
    let of_directory = |program: &EffectiveProgram| Some(program.source.as_ref()?.directory.display().to_string());
    let own = trial.program().and_then(of_directory).map(|path| (format!("{COPIED} directory"), path));
    let of_services = services(trial).iter().flat_map(|service| {
        let data = service.data.as_ref().map(|data| data.directory.display().to_string());
        let each = [("directory", of_directory(service)), ("data", data)];
        each.map(|(what, path)| Some((format!("{COPIED} {what} of service `{}`", service.program), path?)))
    });
    identity(trial).into_iter().chain(own).chain(of_services.flatten()).collect()
}

/// The begin of the names of what copies were made of: its states are paths.
const COPIED: &str = "the copied";

fn of_program(program: &EffectiveProgram) -> BTreeMap<String, String> {
    let changes = program.changes.iter().zip(1..).map(|(did, nth)| (format!("change {nth}"), did.clone()));
    let files = program.files.iter().map(|(file, state)| (format!("`{file}`"), state.clone()));
    changes.chain(files).collect()
}

fn services(trial: &TrialRecord) -> &[EffectiveProgram] {
    trial.effective.as_ref().map(Effective::services).unwrap_or_default()
}

/// The directories of which copies of a program and of services, and the data of services, were made, and their states, where
/// both are known.
pub fn sources(trial: &TrialRecord) -> Vec<(String, &str)> {
    fn of_directory(program: &EffectiveProgram) -> Option<(String, &str)> {
        let source = program.source.as_ref()?;
        Some((format!("the directory `{}`", source.directory.display()), source.state.as_deref()?))
    }
    let data = services(trial).iter().filter_map(|service| service.data.as_ref());
    let of_data = data.map(|data| (format!("the data `{}`", data.directory.display()), data.state.as_str()));
    trial.program().into_iter().chain(services(trial)).filter_map(of_directory).chain(of_data).collect()
}

/// States of one thing by the variants in whose trials it was found.
type States = BTreeMap<String, BTreeSet<usize>>;

/// What ran was not the same in all trials of a variant, or in all trials that copied one directory. This happens where
/// a run is resumed after the files have changed, or a link leads elsewhere.
pub fn sources_differ(experiment: &Experiment, trials: &[TrialRecord]) -> Option<Finding> {
    // A directory is the same for all variants; what steps before the trials make at one place may be another for each.
    let mut found: BTreeMap<(String, Option<usize>), States> = BTreeMap::new();
    let mut add = |what: String, of: Option<usize>, state: &str, variant: usize| {
        found.entry((what, of)).or_default().entry(state.to_owned()).or_default().insert(variant);
    };
    for trial in trials {
        let variant = trial.trial.variant;
        sources(trial).into_iter().for_each(|(what, state)| add(what, None, state, variant));
        of_variant(trial).into_iter().for_each(|(what, state)| add(what, Some(variant), &state, variant));
    }
    let mut differ: BTreeMap<(String, Vec<String>), BTreeSet<usize>> = BTreeMap::new();
    for ((what, _), states) in found.into_iter().filter(|(_, states)| states.len() > 1) {
        let variants: BTreeSet<usize> = states.values().flatten().copied().collect();
        differ.entry((what, states.into_keys().collect())).or_default().extend(variants);
    }
    let text = |((what, states), variants): (&(String, Vec<String>), &BTreeSet<usize>)| {
        // Changes say in words what they did, and paths say where; of all else there are digests.
        let how = if what.starts_with("change ") || what.starts_with(COPIED) || what == "the engine" {
            states.join("; ")
        } else {
            format!("{} different states", states.len())
        };
        format!("{what}{} ({how})", whose(experiment, variants))
    };
    let each: Vec<String> = differ.iter().map(text).collect();
    let each = first_few(each, NAMED, (", ", ", and "), "more difference");
    let message = format!("not all trials of a variant ran the same program or engine: {each}");
    let hint = "trials of one variant must all run the same program or engine: start a new run";
    let datum = |((what, states), variants): (&(String, Vec<String>), &BTreeSet<usize>)| json!({ "what": what, "states": states, "variants": variants });
    let data = json!(differ.iter().map(datum).collect::<Vec<_>>());
    (!differ.is_empty()).then(|| Finding::of("sources_differ", Severity::Warning, message, hint).with(data))
}

/// ` of `a`, `b` and 3 other variants`; nothing where there is one.
fn whose(experiment: &Experiment, variants: &BTreeSet<usize>) -> String {
    let named = variants.iter().filter_map(|variant| experiment.variants().get(*variant));
    let names = named.map(|variant| format!("`{}`", experiment.labels(variant))).collect();
    match experiment.variants().len() {
        0 | 1 => String::new(),
        _ => format!(" of {}", first_few(names, NAMED, (", ", " and "), "other variant")),
    }
}

/// Stores were compared without verifying what they return: a store that loses or corrupts its data then looks like any
/// other (METHOD 1.5).
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
    let message = format!("{unchecked} of {} successful trials did not verify any of the data they read", ran.len());
    let hint = "end with a phase `verify = {}`, or read all records back in one pass: a store that loses writes would \
        look fast";
    let data = json!({ "unchecked": unchecked, "trials": ran.len() });
    Some(Finding::of("answers_unchecked", Severity::Note, message, hint).with(data))
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::record;
    use super::super::tests::Engines;
    use super::*;
    use prony_model::outcome::Outcome;
    use prony_model::record::effective::{CopiedData, EffectiveServices, Source};
    use prony_model::units::Bytes;

    #[test]
    fn warming_baseline_is_reported() {
        let rising: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i) * 2.0 + f64::from(i % 3)).collect();
        let found = drifting(&rising, 0.03).unwrap();
        assert_eq!((found.guard.as_str(), found.severity), ("drift", Severity::Note));
        assert!(found.message.starts_with("the baseline's primary metric rose by 3"), "{}", found.message);
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
        let differ = |trials: &[TrialRecord]| sources_differ(&experiment(), trials);
        assert_eq!(differ(&[trial("/a", "1"), in_variant(1, trial("/b", "2")), trial("/a", "1"), none]), None);
        let found = differ(&[trial("/b", "2"), in_variant(1, trial("/b", "3"))]);
        let expected = "not all trials of a variant ran the same program or engine: the directory `/b` of `x`, `y` (2 \
            different states)";
        assert_eq!(found.unwrap().message, expected);
    }

    /// A directory was only compared with itself, so that a variant could copy another one halfway through.
    #[test]
    fn sources_differ_where_a_variant_copied_two_directories() {
        let of = |directory: &str| Source { directory: directory.into(), state: Some("1".to_owned()) };
        let program = |directory: &str| EffectiveProgram { source: Some(of(directory)), ..EffectiveProgram::default() };
        let trial = |variant, directory: &str| in_variant(variant, record(Outcome::Ok, program(directory)));
        let differ = |trials: &[TrialRecord]| sources_differ(&experiment(), trials).map(|found| found.message);
        assert_eq!(differ(&[trial(0, "/a"), trial(1, "/b"), trial(0, "/a")]), None);
        let begin = "not all trials of a variant ran the same program or engine: ";
        let found = differ(&[trial(0, "/a"), trial(1, "/b"), trial(0, "/b")]);
        assert_eq!(found, Some(format!("{begin}the copied directory of `x` (/a; /b)")));
        let served = |directory: &str, data: &str| {
            let data =
                CopiedData { directory: data.into(), state: "1".to_owned(), files: 1, bytes: Bytes::from_bytes(0) };
            let service = EffectiveProgram { program: "api".to_owned(), data: Some(data), ..program(directory) };
            let (services, left_behind) = (vec![service], BTreeMap::new());
            let effective = Some(Effective::Services(EffectiveServices { services, left_behind }.into()));
            TrialRecord { effective, ..record(Outcome::Ok, EffectiveProgram::default()) }
        };
        let found = differ(&[served("/a", "/d"), served("/b", "/e")]);
        let text =
            "the copied data of service `api` of `x` (/d; /e), the copied directory of service `api` of `x` (/a; /b)";
        assert_eq!(found, Some(format!("{begin}{text}")));
    }

    #[test]
    fn sources_differ_where_a_variant_ran_something_else_and_not_where_another_variant_did() {
        let changed = |did: &str| EffectiveProgram { changes: vec![did.to_owned()], ..EffectiveProgram::default() };
        let executed = |state: &str| {
            let files = BTreeMap::from([("./app".to_owned(), state.to_owned())]);
            EffectiveProgram { files, ..EffectiveProgram::default() }
        };
        let differ = |programs: Vec<(usize, EffectiveProgram)>| {
            let trial = |(variant, program)| in_variant(variant, record(Outcome::Ok, program));
            let trials: Vec<TrialRecord> = programs.into_iter().map(trial).collect();
            let found = sources_differ(&experiment(), &trials).map(|found| found.message);
            found.map(|text| {
                text.strip_prefix("not all trials of a variant ran the same program or engine: ").unwrap().to_owned()
            })
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(differ(vec![(0, changed("a")), (1, changed("b")), (0, changed("a"))]), None);
        assert_eq!(differ(vec![(0, executed("1")), (1, executed("2"))]), None);
        let moved = differ(vec![(0, changed("is 1")), (1, changed("b")), (0, changed("is 2"))]);
        assert_eq!(moved, is("change 1 of `x` (is 1; is 2)"));
        let rebuilt = vec![(0, executed("1")), (0, executed("2")), (1, executed("1")), (1, executed("2"))];
        assert_eq!(differ(rebuilt), is("`./app` of `x`, `y` (2 different states)"));
        let remark = EffectiveProgram { remarks: vec!["its build was made before".to_owned()], ..changed("a") };
        assert_eq!(differ(vec![(0, changed("a")), (0, remark)]), None, "what may differ where the copy is the same");
    }

    #[test]
    fn sources_differ_where_a_service_ran_something_else() {
        let trial = |executable: &str, directory: &str, data: &str| {
            let service = EffectiveProgram {
                program: "api".to_owned(),
                files: BTreeMap::from([("./server".to_owned(), executable.to_owned())]),
                source: Some(Source { directory: "/a".into(), state: Some(directory.to_owned()) }),
                data: Some(CopiedData {
                    directory: "/d".into(),
                    state: data.to_owned(),
                    files: 1,
                    bytes: Bytes::from_bytes(0),
                }),
                ..EffectiveProgram::default()
            };
            let (services, left_behind) = (vec![service], BTreeMap::new());
            let effective = Some(Effective::Services(EffectiveServices { services, left_behind }.into()));
            TrialRecord { effective, ..record(Outcome::Ok, EffectiveProgram::default()) }
        };
        let differ = |trials: &[TrialRecord]| sources_differ(&experiment(), trials).map(|found| found.message);
        let begin = "not all trials of a variant ran the same program or engine: ";
        assert_eq!(differ(&[trial("1", "1", "1"), trial("1", "1", "1")]), None);
        let found = differ(&[trial("1", "1", "1"), trial("2", "1", "1")]);
        let text = "`./server` of service `api` of `x` (2 different states)";
        assert_eq!(found, Some(format!("{begin}{text}")));
        for (other, what) in [(trial("1", "2", "1"), "the directory `/a`"), (trial("1", "1", "2"), "the data `/d`")] {
            let found = differ(&[trial("1", "1", "1"), other]);
            assert_eq!(found, Some(format!("{begin}{what} of `x` (2 different states)")));
        }
        let mut not_begun = trial("2", "1", "1");
        not_begun.phases.iter_mut().for_each(|phase| phase.completion = Completion::NotReached);
        assert_eq!(differ(&[trial("1", "1", "1"), not_begun]), None, "not all of its services are known");
    }

    fn experiment() -> Experiment {
        let text = "[factors]\nn = [\"x\", \"y\"]\n[program.p]\ncommand = [\"p\", \"{n}\"]\n";
        let raw = prony_experiment::parse(text, "p.toml").unwrap();
        prony_experiment::check(&raw, &Engines, &Default::default()).unwrap()
    }

    fn in_variant(variant: usize, mut record: TrialRecord) -> TrialRecord {
        record.trial.variant = variant;
        record
    }

    #[test]
    fn failed_trials_are_counted_by_variant() {
        let ended = |variant, outcome| in_variant(variant, record(outcome, EffectiveProgram::default()));
        let mut trials = vec![ended(0, Outcome::Ok), ended(1, Outcome::Ok)];
        assert_eq!((failures(&experiment(), &trials), trials_failed(&experiment(), &trials)), (None, None));
        trials.push(ended(1, Outcome::TimedOut));
        let text = failures(&experiment(), &trials).unwrap();
        assert!(text.starts_with("1 of 3 trials failed: ") && text.contains(": `y`: 1 "), "{text}");
        let found = trials_failed(&experiment(), &trials).unwrap();
        assert_eq!((found.severity, found.data["failed"].as_u64(), found.message), (Severity::Warning, Some(1), text));
    }

    #[test]
    fn too_few_blocks_say_what_is_missing() {
        let few = |complete, planned, analyses| too_few_blocks(complete, planned, &analyses, 6, false);
        assert!(few(3, 3, InterimAnalyses::new(1, 3)).unwrap().message.contains("needs at least 6"));
        assert!(
            few(4, 30, InterimAnalyses::new(6, 30)).unwrap().message.contains("first verdict comes after 6 blocks")
        );
        assert_eq!(few(6, 30, InterimAnalyses::new(6, 30)), None);
        assert!(few(1, 1, InterimAnalyses::new(1, 1)).unwrap().message.starts_with("1 block is planned, but"));
        assert!(few(1, 30, InterimAnalyses::new(6, 30)).unwrap().message.starts_with("1 block is complete, but"));
    }

    #[test]
    fn too_few_blocks_of_a_time_budget_are_fewer_than_its_closing_analysis_needs() {
        let few = |complete, done| too_few_blocks(complete, 50, &InterimAnalyses::timed(20, 50), 7, done);
        assert_eq!(few(10, true), None, "the closing analysis may give a verdict");
        let ended = few(6, true).unwrap();
        assert_eq!(ended.message, "6 blocks are complete within the time budget, but a verdict needs at least 7");
        assert!(ended.hint.contains("longer budget"), "{}", ended.hint);
        let interrupted = few(10, false).unwrap();
        let expected = "10 blocks are complete, but the first interim analysis comes after 20 blocks, or when the time \
            budget ends";
        assert_eq!((interrupted.message.as_str(), interrupted.hint.contains("--resume")), (expected, true));
        assert_eq!(few(20, false), None);
    }
}
