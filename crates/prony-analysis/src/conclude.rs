//! Decides how a trial ended and which of its phases are complete, by the same rules for stores and programs (METHOD
//! 1.3, 8.1, 8.2).
//!
//! An observer reports how far each phase came ([`Reached`]). Whether a phase counts as complete also depends on how
//! the whole trial ended and on how many operations failed. Programs once had a rule of their own: a phase that ends
//! with the program was complete whatever the outcome, so that a crash was the fastest way to end.

use prony_experiment::design::AllowedErrors;
use prony_model::metric::{Metric, MetricKey};
use prony_model::number;
use prony_model::outcome::{Ending, Outcome};
use prony_model::record::{Completion, PhaseRecord};
use prony_model::spec::{Action, BACKGROUND, PhaseSpec};
use prony_model::units::Nanos;

/// How far a phase came, as its observer reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The phase never began.
    Nothing,
    /// The phase began, and the trial ended before the phase's own end.
    Begin,
    /// The phase reached its own end: the worker reported it, or the program wrote the line or the mark, returned from
    /// the function, or became quiet.
    OwnEnd,
    /// The phase ended with the subject: with the program, its replicas, or the last possible call of a function.
    SubjectEnd,
}

/// A phase as it was observed: its completion is not decided yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// What was measured.
    pub phase: PhaseRecord,
    /// How far it came.
    pub reached: Reached,
    /// Operations that failed because the disk was full.
    pub disk_full: u64,
}

impl Observed {
    /// A phase without operations that failed because the disk was full.
    pub const fn new(phase: PhaseRecord, reached: Reached) -> Self {
        Self { phase, reached, disk_full: 0 }
    }
}

/// How the trial ended, and its phases with their completion. `stated` is how many operations the experiment allows to
/// fail. Where it does not say, no operation may fail, except that calls of a function may throw: their caller decides
/// whether that is a failure.
pub fn conclude(
    specs: &[PhaseSpec],
    stated: Option<AllowedErrors>,
    ending: Ending,
    observed: Vec<Observed>,
) -> (Ending, Vec<PhaseRecord>) {
    let allowed = stated.unwrap_or_default();
    let spec = |one: &Observed| specs.iter().find(|spec| spec.name == one.phase.name);
    let is_judged = |one: &Observed| stated.is_some() || !spec(one).is_some_and(is_of_calls);
    let without = ending.clone();
    let too_many = |one: &Observed| is_judged(one) && failing(one, allowed, &without).next().is_some();
    // Phases of a program may overlap, and stand in the file in any order.
    let first = observed.iter().filter(|one| too_many(one)).min_by_key(|one| one.phase.begin);
    let Some(first) = first else {
        let outcome = ending.outcome;
        let completed = observed.into_iter().map(|one| completed_as(completion(one.reached, outcome), one, specs));
        return (ending, after_uncounted(completed.collect()));
    };
    let (since, failed) = (first.phase.begin, first.phase.name.clone());
    let before = ending.outcome;
    let ending = with_errors(ending, first, allowed);
    let completed = observed.into_iter().map(|one| {
        let itself = too_many(&one);
        let is_first = one.phase.name == failed;
        // The end of the subject ends the phases that failed too; the completion of every other such phase follows from
        // the trial's outcome.
        let completion = match completion(one.reached, if itself { before } else { ending.outcome }) {
            Completion::Complete if is_first && spec(&one).is_some_and(|spec| spec.action.is_bounded_by_time()) => {
                Completion::Complete
            }
            Completion::Complete if itself => Completion::Failed,
            Completion::Complete if one.phase.end > since => Completion::AfterFailure,
            completion => completion,
        };
        completed_as(completion, one, specs)
    });
    let completed = after_uncounted(completed.collect());
    (ending, completed)
}

/// A phase of which it is not known how many operations failed is one in which too many may have.
fn after_uncounted(mut phases: Vec<PhaseRecord>) -> Vec<PhaseRecord> {
    let uncounted = phases.iter().filter(|phase| phase.completion == Completion::Uncounted);
    let since = uncounted.filter_map(|phase| phase.begin).min();
    let is_after = |phase: &PhaseRecord| phase.completion == Completion::Complete && phase.end > since;
    if since.is_some() {
        phases.iter_mut().filter(|phase| is_after(phase)).for_each(|phase| phase.completion = Completion::AfterFailure);
    }
    phases
}

/// The phase with its completion. If its program should have reported how many operations succeeded and how many
/// failed, and one of the two could not be read, it is not known whether the phase did the required work.
fn completed_as(completion: Completion, one: Observed, specs: &[PhaseSpec]) -> PhaseRecord {
    let reports = specs.iter().find(|spec| spec.name == one.phase.name).is_some_and(reports_operations);
    let completion = match completion {
        Completion::Complete if reports && one.phase.uncounted().is_some() => Completion::Uncounted,
        completion => completion,
    };
    PhaseRecord { completion, ..one.phase }
}

/// A phase is complete where its own end was reached, and where that end is the subject's, only if the outcome is ok.
fn completion(reached: Reached, outcome: Outcome) -> Completion {
    match reached {
        Reached::Nothing => Completion::NotReached,
        Reached::Begin => Completion::Partial,
        Reached::OwnEnd => Completion::Complete,
        Reached::SubjectEnd if outcome.is_ok() => Completion::Complete,
        Reached::SubjectEnd => Completion::Partial,
    }
}

/// Whether its operations are those that its program reports: calls of a function are as many as the program makes.
pub(crate) fn reports_operations(spec: &PhaseSpec) -> bool {
    matches!(spec.action, Action::Observe(_)) && !is_of_calls(spec)
}

/// Whether its operations are calls of a function.
pub(crate) fn is_of_calls(spec: &PhaseSpec) -> bool {
    matches!(&spec.action, Action::Observe(observe) if observe.call().is_some())
}

/// A number of operations of an instance; `None` where it was not measured, or where a program reported a value that cannot be a
/// count.
fn count(phase: &PhaseRecord, instance: &str, metric: Metric) -> Option<u64> {
    let number = phase.amount_of(instance, metric)?;
    (number.is_finite() && number >= 0.0).then_some(number as u64)
}

/// Operations of a phase that succeeded, and those that failed; `None` unless both numbers were counted. Where nothing is to
/// report errors, there are none.
pub(crate) fn counted(phase: &PhaseRecord) -> Option<(u64, u64)> {
    let errors = phase.reading(MetricKey::amount(Metric::Errors)).map_or(Some(0), |_| count(phase, "", Metric::Errors));
    Some((count(phase, "", Metric::Operations)?, errors?))
}

/// Operations that a phase attempted: those that succeeded and those that failed; `None` unless both numbers were
/// counted.
pub fn offered(phase: &PhaseRecord) -> Option<u64> {
    counted(phase).map(|(done, failed)| done.saturating_add(failed))
}

/// Requests of an open loop that were never started got no answer either. Where many of a phase were not, its rate was not
/// sustained, which is the trial's ending `without` them already.
fn unstarted(phase: &PhaseRecord, without: &Ending) -> u64 {
    let is_known = !without.outcome.is_ok() && without.phase.as_ref().is_none_or(|name| *name == phase.name);
    let counts = phase.action == "http" && !is_known;
    if counts { count(phase, "", Metric::Skipped).unwrap_or(0) } else { 0 }
}

/// Which operations of a phase failed too often, its own and those of its background, as evidence. `without` is how the trial ended
/// without them.
fn failing(one: &Observed, allowed: AllowedErrors, without: &Ending) -> impl Iterator<Item = String> {
    let phase = &one.phase;
    let never_started = unstarted(phase, without);
    [("", "phase"), (BACKGROUND, "the background of phase")].into_iter().filter_map(move |(instance, whose)| {
        let [counted, done] = [Metric::Errors, Metric::Operations].map(|metric| count(phase, instance, metric));
        let unstarted = if instance.is_empty() { never_started } else { 0 };
        let errors = counted.unwrap_or(0) + unstarted;
        let offered = counted.and(done).map(|done| done.saturating_add(errors));
        if allowed.allows(errors, offered.unwrap_or(errors)) {
            return None;
        }
        let of = match offered {
            Some(offered) => format!("{errors} of {}", number::count(offered, "operation")),
            None => number::count(errors, "operation"),
        };
        let of_the_disk = |text: &(&str, u64)| one.disk_full > 0 && text.0.contains("disk full");
        let unstarted = (unstarted > 0).then_some(("not started in time", unstarted));
        let most = phase.errors_of(instance).chain(unstarted).max_by_key(|(_, times)| *times);
        let text = phase.errors_of(instance).find(of_the_disk).or(most);
        let cause = text.map(|(text, _)| format!(", most often: {text}")).unwrap_or_default();
        Some(format!("{of} of {whose} `{}` failed, and {allowed} may fail{cause}", phase.name))
    })
}

/// Fails a trial that otherwise ended well because of its operations.
fn with_errors(ending: Ending, one: &Observed, allowed: AllowedErrors) -> Ending {
    let phase = &one.phase;
    let failing: Vec<String> = failing(one, allowed, &ending).collect();
    let mut evidence = ending.evidence;
    if !matches!(ending.outcome, Outcome::Ok | Outcome::Saturated) {
        evidence.extend(failing);
        return Ending { evidence, ..ending };
    }
    evidence.splice(0..0, failing);
    let lasted = phase.begin.zip(phase.end).map_or(Nanos::ZERO, |(begin, end)| end.since(begin));
    let outcome = if one.disk_full > 0 { Outcome::DiskFull } else { Outcome::Failed { code: None } };
    Ending { outcome, phase: Some(phase.name.clone()), after: lasted, evidence }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use prony_model::outcome::OutOfMemory;
    use prony_model::program::{ObserveSpec, Trigger};
    use prony_model::reading::Reading;
    use prony_model::record::MetricKeyText;
    use prony_model::spec::{Amount, Grouping, Ops, Order, References, Sampling, Sharing};
    use prony_model::units::Fraction;

    const FAILURES: [Outcome; 8] = [
        Outcome::OutOfMemory { by: OutOfMemory::Limit },
        Outcome::OutOfMemory { by: OutOfMemory::Host },
        Outcome::TimedOut,
        Outcome::Crashed { signal: 11 },
        Outcome::Failed { code: Some(1) },
        Outcome::DiskFull,
        Outcome::WrongAnswer,
        Outcome::Killed,
    ];

    fn spec(name: &str, amount: Amount) -> PhaseSpec {
        let ops = Ops {
            amount,
            transaction: Grouping::Each,
            order: Order::Record,
            replicas: None,
            threads: 1,
            share: Sharing::Equal,
            pause: None,
            rate: None,
            sample: Sampling::Every,
            touch: true,
            collection: None,
            references: References::Ignored,
        };
        PhaseSpec { name: name.to_owned(), timed: true, action: Action::Put(ops), background: None, limit: None }
    }

    fn observed(name: &str, reached: Reached, counts: Option<(u64, u64)>) -> Observed {
        let figure = |metric, n: u64| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n as f64));
        let counts = counts.into_iter();
        let readings = counts.flat_map(|(ok, errors)| [figure(Metric::Operations, ok), figure(Metric::Errors, errors)]);
        let phase = PhaseRecord {
            name: name.to_owned(),
            action: "put".to_owned(),
            timed: true,
            completion: Completion::NotReached,
            begin: Some(Nanos::from_secs(1)),
            end: Some(Nanos::from_secs(4)),
            readings: BTreeMap::from([(String::new(), readings.collect())]),
            histograms: Vec::new(),
            groups: None,
            throughput: None,
            answer: None,
            errors: BTreeMap::from([("no space".to_owned(), 3)]),
        };
        Observed::new(phase, reached)
    }

    /// From one second to another.
    fn at(seconds: (u64, u64), one: Observed) -> Observed {
        let (begin, end) = (Some(Nanos::from_secs(seconds.0)), Some(Nanos::from_secs(seconds.1)));
        Observed { phase: PhaseRecord { begin, end, ..one.phase }, ..one }
    }

    fn ending(outcome: Outcome) -> Ending {
        Ending { outcome, phase: None, after: Nanos::ZERO, evidence: Vec::new() }
    }

    fn completions(phases: &[PhaseRecord]) -> Vec<Completion> {
        phases.iter().map(|phase| phase.completion).collect()
    }

    #[test]
    fn errors_of_a_background_fail_the_trial_like_those_of_the_phase() {
        let background = |errors: u64| {
            let mut one = observed("write", Reached::OwnEnd, Some((100, 0)));
            let other = observed("write", Reached::OwnEnd, Some((7, errors)));
            one.phase.readings.extend(other.phase.readings.into_values().map(|found| (BACKGROUND.to_owned(), found)));
            conclude(&[spec("write", Amount::Records)], None, ending(Outcome::Ok), vec![one])
        };
        let (failed, phases) = background(3);
        assert_eq!((failed.outcome, phases[0].completion), (Outcome::Failed { code: None }, Completion::Failed));
        let shown = "3 of 10 operations of the background of phase `write` failed, and none may fail";
        assert!(failed.evidence[0].starts_with(shown), "{:?}", failed.evidence);
        assert_eq!(background(0).0.outcome, Outcome::Ok);
    }

    #[test]
    fn phase_that_ends_with_its_subject_is_complete_only_where_the_trial_ended_well() {
        let all = [Reached::OwnEnd, Reached::SubjectEnd, Reached::Begin, Reached::Nothing];
        let of = |outcome| {
            let phases = all.map(|reached| observed("p", reached, None)).into();
            completions(&conclude(&[], None, ending(outcome), phases).1)
        };
        use Completion::{Complete, NotReached, Partial};
        assert_eq!(of(Outcome::Ok), [Complete, Complete, Partial, NotReached]);
        for outcome in FAILURES {
            assert_eq!(of(outcome), [Complete, Partial, Partial, NotReached], "{outcome}");
        }
    }

    #[test]
    fn operations_that_failed_are_not_work_and_what_follows_is_not_the_work_asked_for() {
        let specs = ["load", "write", "read"].map(|name| spec(name, Amount::Records));
        let of = |allowed, failed| {
            let phases = vec![
                at((0, 1), observed("load", Reached::OwnEnd, Some((100, 0)))),
                at((1, 4), observed("write", Reached::OwnEnd, Some((100 - failed, failed)))),
                at((4, 5), observed("read", Reached::OwnEnd, Some((100, 0)))),
            ];
            let (ending, phases) = conclude(&specs, Some(allowed), ending(Outcome::Ok), phases);
            (ending, completions(&phases))
        };
        use Completion::{AfterFailure, Complete, Failed};
        let none = AllowedErrors::default();
        assert_eq!(of(none, 0), (ending(Outcome::Ok), vec![Complete; 3]));
        let (how, completed) = of(none, 1);
        assert_eq!((how.outcome, how.phase.as_deref()), (Outcome::Failed { code: None }, Some("write")));
        assert_eq!(how.after, Nanos::from_secs(3));
        assert_eq!(
            how.evidence,
            ["1 of 100 operations of phase `write` failed, and none may fail, most often: no space"]
        );
        assert_eq!(completed, [Complete, Failed, AfterFailure]);
        assert_eq!(of(AllowedErrors::Count(1), 1).1, [Complete; 3]);
        assert_eq!(of(AllowedErrors::Count(1), 2).1, [Complete, Failed, AfterFailure]);
        let share = AllowedErrors::Share(Fraction::new(0.05).unwrap());
        assert_eq!((of(share, 5).1, of(share, 6).1), (vec![Complete; 3], vec![Complete, Failed, AfterFailure]));
    }

    #[test]
    fn phases_that_contain_or_follow_failed_operations_do_not_count_whatever_their_order_in_the_file() {
        let before = || at((0, 1), observed("before", Reached::OwnEnd, None));
        let work = || at((1, 3), observed("work", Reached::OwnEnd, Some((90, 10))));
        let enclosing = || at((0, 4), observed("around", Reached::OwnEnd, None));
        let run = || at((0, 5), observed("run", Reached::SubjectEnd, None));
        let of = |phases: Vec<Observed>| {
            let (how, phases) = conclude(&[], None, ending(Outcome::Ok), phases);
            assert_eq!(how.outcome, Outcome::Failed { code: None });
            phases.into_iter().map(|phase| (phase.name, phase.completion)).collect::<BTreeMap<String, Completion>>()
        };
        let found = of(vec![before(), work(), enclosing(), run()]);
        use Completion::{AfterFailure, Complete, Failed, Partial};
        let completions = ["before", "work", "around", "run"].map(|name| found[name]);
        assert_eq!(completions, [Complete, Failed, AfterFailure, Partial]);
        assert_eq!(of(vec![run(), enclosing(), work(), before()]), found);
        let by_the_end = || at((1, 5), observed("work", Reached::SubjectEnd, Some((90, 10))));
        let found = of(vec![by_the_end(), run()]);
        assert_eq!([found["work"], found["run"]], [Failed, Partial], "its counts are counts of what it did");
    }

    /// 7 of 1000 requests never got a connection, and the trial was `ok`.
    #[test]
    fn requests_that_never_started_fail_the_trial_unless_its_rate_was_not_sustained() {
        let ended = |action: &str, allowed, without| {
            let mut one = observed("open", Reached::OwnEnd, Some((993, 0)));
            let skipped = (MetricKeyText(MetricKey::amount(Metric::Skipped)), Reading::Measured(7.0));
            one.phase.readings.get_mut("").unwrap().extend([skipped]);
            (one.phase.action, one.phase.errors) = (action.to_owned(), BTreeMap::new());
            let (how, phases) = conclude(&[spec("open", Amount::Records)], allowed, without, vec![one]);
            (how, phases[0].completion)
        };
        let of = |action: &str, allowed, outcome| ended(action, allowed, ending(outcome));
        let (how, completion) = of("http", None, Outcome::Ok);
        assert_eq!((how.outcome, how.phase.as_deref()), (Outcome::Failed { code: None }, Some("open")));
        assert_eq!(completion, Completion::Failed);
        let said = "7 of 1000 operations of phase `open` failed, and none may fail, most often: not started in time";
        assert_eq!(how.evidence, [said]);
        let share = Some(AllowedErrors::Share(Fraction::new(0.01).unwrap()));
        assert_eq!(of("http", share, Outcome::Ok), (ending(Outcome::Ok), Completion::Complete));
        assert_eq!(of("http", None, Outcome::Saturated), (ending(Outcome::Saturated), Completion::Complete));
        let other = Ending { phase: Some("other".into()), ..ending(Outcome::Saturated) };
        let (how, completion) = ended("http", None, other);
        assert_eq!(
            (how.outcome, completion),
            (Outcome::Failed { code: None }, Completion::Failed),
            "its own rate was sustained"
        );
        assert_eq!(
            of("get", None, Outcome::Ok),
            (ending(Outcome::Ok), Completion::Complete),
            "of a store it is a count"
        );
    }

    /// The second was `Partial` or `AfterFailure` before, of which not even the number of failures counts.
    #[test]
    fn every_phase_that_failed_keeps_its_counts() {
        let failing = |name, reached, seconds| at(seconds, observed(name, reached, Some((90, 10))));
        for (reached, outcome) in [(Reached::OwnEnd, Outcome::TimedOut), (Reached::SubjectEnd, Outcome::Ok)] {
            let phases = vec![
                failing("first", Reached::OwnEnd, (0, 2)),
                failing("second", reached, (2, 4)),
                at((2, 4), observed("after", reached, Some((100, 0)))),
            ];
            let (how, phases) = conclude(&[], None, ending(outcome), phases);
            let after = if reached == Reached::OwnEnd { Completion::AfterFailure } else { Completion::Partial };
            assert_eq!(completions(&phases), [Completion::Failed, Completion::Failed, after]);
            assert_eq!(how.phase.as_deref(), outcome.is_ok().then_some("first"), "the trial failed by the first");
        }
        let crashed = vec![failing("first", Reached::OwnEnd, (0, 2)), failing("second", Reached::SubjectEnd, (2, 4))];
        let (_, phases) = conclude(&[], None, ending(Outcome::Crashed { signal: 11 }), crashed);
        assert_eq!(completions(&phases), [Completion::Failed, Completion::Partial], "a crash is no end");
    }

    #[test]
    fn what_a_program_wrote_as_numbers_of_operations_is_taken_for_what_it_is() {
        let phase = |ok: f64, errors: f64| {
            let figure = |metric, n| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n));
            let mut one = observed("work", Reached::OwnEnd, None);
            let readings = [figure(Metric::Operations, ok), figure(Metric::Errors, errors)];
            one.phase.readings = BTreeMap::from([(String::new(), BTreeMap::from(readings))]);
            one.phase
        };
        assert_eq!(offered(&phase(1e30, 5.0)), Some(u64::MAX));
        assert_eq!([offered(&phase(1.0, -5.0)), offered(&phase(f64::NAN, 0.0))], [None, None]);
    }

    /// Errors that could not be read counted as none, and operations as equal work.
    #[test]
    fn phase_whose_reported_counts_are_unknown_has_no_time_or_rate() {
        let of = |action: Action, [ok, errors]: [Result<f64, &str>; 2]| {
            let reading = |n: Result<f64, &str>| n.map_or_else(Reading::failed, Reading::Measured);
            let mut one = observed("work", Reached::OwnEnd, None);
            let key = |metric| MetricKeyText(MetricKey::amount(metric));
            let readings = [(key(Metric::Operations), reading(ok)), (key(Metric::Errors), reading(errors))];
            one.phase.readings = BTreeMap::from([(String::new(), BTreeMap::from(readings))]);
            let specs = [PhaseSpec { action, ..spec("work", Amount::Records) }];
            let (how, mut phases) = conclude(&specs, None, ending(Outcome::Ok), vec![one]);
            let why = phases[0].uncounted().map(|why| why.to_string());
            (how.outcome, phases.remove(0).completion, why.unwrap_or_default())
        };
        let lines = || Action::Observe(ObserveSpec::WHOLE);
        let unread = "does not count: `errors` of the phase is unknown: the program reported the invalid value `12k`";
        let errors = of(lines(), [Ok(5.0), Err("the program reported the invalid value `12k`")]);
        assert_eq!(errors, (Outcome::Ok, Completion::Uncounted, unread.to_owned()));
        assert_eq!(of(lines(), [Err("why"), Ok(0.0)]).1, Completion::Uncounted);
        assert_eq!(of(lines(), [Ok(5.0), Ok(0.0)]).1, Completion::Complete);
        assert_eq!(of(lines(), [Err("why"), Ok(2.0)]).1, Completion::Failed, "some failed, of however many");
        let call = || Some(Trigger::Call("a.js#f".into()));
        let calls = Action::Observe(ObserveSpec { begin: call(), end: call(), ..ObserveSpec::WHOLE });
        assert_eq!(of(calls, [Err("why"), Ok(0.0)]).1, Completion::Complete, "they are no failures");
        assert!(!Completion::Uncounted.counts(Metric::Time) && Completion::Uncounted.counts(Metric::Errors));
    }

    /// `errors = 0` said nothing of calls: one that threw at once was the fastest.
    #[test]
    fn calls_that_throw_fail_a_trial_where_the_experiment_says_how_many_may() {
        let call = || Some(Trigger::Call("a.js#f".into()));
        let action = Action::Observe(ObserveSpec { begin: call(), end: call(), ..ObserveSpec::WHOLE });
        let specs = [PhaseSpec { action, ..spec("work", Amount::Records) }];
        let of = |stated| {
            let observed = observed("work", Reached::SubjectEnd, Some((9, 1)));
            let (how, phases) = conclude(&specs, stated, ending(Outcome::Ok), vec![observed]);
            (how.outcome, phases[0].completion)
        };
        assert_eq!(of(None), (Outcome::Ok, Completion::Complete));
        assert_eq!(of(Some(AllowedErrors::Count(1))), (Outcome::Ok, Completion::Complete));
        assert_eq!(of(Some(AllowedErrors::Count(0))), (Outcome::Failed { code: None }, Completion::Failed));
    }

    #[test]
    fn phase_bounded_by_time_keeps_its_rate_of_what_succeeded() {
        let specs = [spec("mix", Amount::Duration(Nanos::from_secs(1))), spec("read", Amount::Records)];
        let phases = vec![
            at((0, 1), observed("mix", Reached::OwnEnd, Some((90, 10)))),
            at((1, 2), observed("read", Reached::OwnEnd, Some((100, 0)))),
        ];
        let (how, phases) = conclude(&specs, None, ending(Outcome::Ok), phases);
        assert_eq!(how.outcome, Outcome::Failed { code: None });
        assert_eq!(completions(&phases), [Completion::Complete, Completion::AfterFailure]);
    }

    /// A gate on the second phase passed, though the first may have done nothing.
    #[test]
    fn phases_after_one_whose_failures_are_not_known_do_not_count() {
        let mut work = at((1, 3), observed("work", Reached::OwnEnd, Some((95, 0))));
        let readings = work.phase.readings.entry(String::new()).or_default();
        readings.insert(MetricKeyText(MetricKey::amount(Metric::Errors)), Reading::failed("`x` is no number"));
        let specs = [PhaseSpec { action: Action::Observe(ObserveSpec::WHOLE), ..spec("work", Amount::Records) }];
        let before = at((0, 1), observed("before", Reached::OwnEnd, None));
        let after = at((3, 4), observed("after", Reached::OwnEnd, None));
        let (how, phases) = conclude(&specs, None, ending(Outcome::Ok), vec![before, work, after]);
        assert_eq!(how.outcome, Outcome::Ok);
        use Completion::{AfterFailure, Complete, Uncounted};
        assert_eq!(completions(&phases), [Complete, Uncounted, AfterFailure]);
    }

    #[test]
    fn full_disk_is_named_and_an_earlier_outcome_takes_precedence() {
        let specs = [spec("write", Amount::Records)];
        let full = || vec![Observed { disk_full: 3, ..observed("write", Reached::OwnEnd, Some((97, 3))) }];
        let of = |outcome| conclude(&specs, None, ending(outcome), full()).0;
        assert_eq!(of(Outcome::Ok).outcome, Outcome::DiskFull);
        assert_eq!(of(Outcome::TimedOut).outcome, Outcome::TimedOut);
        assert!(of(Outcome::TimedOut).evidence[0].starts_with("3 of 100 operations of phase `write` failed"));
    }

    #[test]
    fn failed_phase_has_counts_and_percentiles_and_no_time_or_rate() {
        assert!(!Completion::AfterFailure.counts(Metric::LatencyP50), "what was not stored is found fast");
        let counts = |metric| Completion::Failed.counts(metric);
        assert!([Metric::Errors, Metric::Operations, Metric::LatencyP50, Metric::LatencyP999].into_iter().all(counts));
        let none =
            [Metric::Time, Metric::Wall, Metric::Rate, Metric::Cpu, Metric::Anon, Metric::Written, Metric::LatencyMax];
        assert!(!none.into_iter().any(counts));
    }
}
