//! Guards that compare a variant with its stratum's baseline.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::program::{ONE_STREAM, ORDER_NOT_KNOWN};
use super::reads::{WORK, noise};
pub use super::variant_trials::{Compared, VariantTrials};
use super::variant_trials::{InPhase, in_one, same_work, typical};
use super::{Finding, NOT_COLD, STILL_CACHED, Severity};
use super::{copies, fitted, idle_services, percent, questions, reads, recorded, refusals, requests, statuses, stored};
use crate::conclude::{counted, is_of_calls, reports_operations};
use prony_model::http::kind_of;
use prony_model::metric::{Metric, MetricName};
use prony_model::number;
use prony_model::record::{Answer, Completion, EffectiveProgram, PhaseRecord, TrialRecord};
use prony_model::service::ALL;
use prony_model::spec::{Action, PhaseSpec, TrialSpec};
use prony_model::units::Unit;

/// Syncs and bytes written vary by nature; they may differ by this share.
const SYNCS: f64 = 0.10;

/// The finding that an engine wrote nothing for writes of what was stored already.
const UNCHANGED: &str = "unchanged_writes";

/// The action of a phase of a program.
const OBSERVE: &str = "observe";

/// Every guard that needs a variant and its baseline.
pub fn check(both: Compared<'_>) -> Vec<Finding> {
    let mut findings = answers_unordered(both);
    findings.extend(answers_differ(both));
    findings.extend(queries_differ(both));
    findings.extend(work_differs(both));
    findings.extend(commit_apart(both));
    findings.extend(durability_differs(both));
    findings.extend(copies::build_reused_in_one(both));
    findings
}

/// The reason why a comparison of the two is refused, if a finding refuses it.
pub fn refusal(findings: &[Finding]) -> Option<String> {
    findings.iter().find(|f| f.severity == Severity::Refusal).map(|f| f.message.clone())
}

/// Why a metric of two variants is not compared by what they did: a guard refuses their answers, or they did not attempt the same work.
/// A search asks this of each setting beside the default, as a run does of its variants.
pub fn other_answers_or_work(both: Compared<'_>, name: &MetricName) -> Option<String> {
    refusal(&check(both)).or_else(|| unequal_offer(both, name))
}

/// Answers that should be equal and are not: in one block both variants do the same work on the same data (METHOD 1.5).
pub fn answers_differ(both: Compared<'_>) -> Vec<Finding> {
    disagreements(both).into_iter().map(|(phase, a, b)| disagreement(both, phase, a, b)).collect()
}

/// The first two answers of each phase that should agree and do not.
pub fn disagreements<'a>(both: [&VariantTrials<'a>; 2]) -> Vec<(&'a str, &'a Answer, &'a Answer)> {
    let (mut checked, mut found) = (BTreeSet::new(), Vec::new());
    for (trials, [phase, other]) in completed(both) {
        // Of an answer that was lost it is not known whether it differs.
        if lost_answer(trials[0], phase) || lost_answer(trials[1], other) {
            continue;
        }
        let Some((a, b)) = differing(phase, other) else { continue };
        if should_agree(both, trials, &phase.name) && checked.insert(&phase.name) {
            found.push((phase.name.as_str(), a, b));
        }
    }
    found
}

/// The phases that both of two trials with the same work completed, with the trials.
fn completed<'a>(both: [&VariantTrials<'a>; 2]) -> impl Iterator<Item = ([&'a TrialRecord; 2], [&'a PhaseRecord; 2])> {
    let complete = |trial: &'a TrialRecord| trial.phases.iter().filter(|p| p.completion == Completion::Complete);
    same_work(both).into_iter().flat_map(move |(ours, theirs)| {
        complete(ours).filter_map(move |phase| {
            let other = complete(theirs).find(|other| other.name == phase.name)?;
            Some(([ours, theirs], [phase, other]))
        })
    })
}

/// Whether a phase does the same work in two trials, on the same data after all phases before it.
fn should_agree([baseline, variant]: Compared<'_>, [ours, theirs]: [&TrialRecord; 2], phase: &str) -> bool {
    questions::same(baseline.spec, variant.spec, phase)
        && refusals::same_before((baseline.spec, ours), (variant.spec, theirs), phase)
}

/// Whether the answer that the lines of a phase reported is missing because their order is not known.
fn lost_answer(trial: &TrialRecord, phase: &PhaseRecord) -> bool {
    let is_unordered = |program: &EffectiveProgram| program.unordered.get(&phase.name) == Some(&true);
    phase.answer.is_none() && trial.program().is_some_and(is_unordered)
}

/// Answers that should be equal, of which one or both are missing because the order of the lines that report them is not known.
fn answers_unordered(both: Compared<'_>) -> Vec<Finding> {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (trials, phases) in completed(both) {
        let each = both.into_iter().zip(trials.into_iter().zip(phases));
        let without = each.filter(|(_, (trial, phase))| lost_answer(trial, phase));
        let names: Vec<&str> = without.map(|(of, _)| of.name.as_str()).collect();
        let [phase, _] = phases;
        if !names.is_empty() && should_agree(both, trials, &phase.name) {
            missing.entry(&phase.name).or_default().extend(names);
        }
    }
    let finding = |(phase, names): (&str, BTreeSet<&str>)| {
        let names: Vec<&str> = names.into_iter().collect();
        let message = format!(
            "whether the answers agree is not known: in trials of `{}` they are missing, because {ORDER_NOT_KNOWN}",
            names.join("` and `")
        );
        let found = Finding::of("answers_unordered", Severity::Refusal, message, ONE_STREAM).in_phase(phase);
        found.with(json!({ "variants": names }))
    };
    missing.into_iter().map(finding).collect()
}

/// Why times and rates of a phase are not compared that was declared cold, where the store of one variant was still in the page cache in most of
/// its trials, and that of the other in few: reads from memory beside reads from the disk. The same is true of the phases after it, until the
/// stores of both are in the cache to the same part.
pub(crate) fn unequal_cache(both @ [baseline, variant]: Compared<'_>, name: &MetricName) -> Option<String> {
    if !matches!(name.key.metric.unit(), Unit::Nanos | Unit::PerSecond) {
        return None;
    }
    let phase = name.phase.as_str();
    let cold = declared_cold(variant.spec, phase).or_else(|| declared_cold(baseline.spec, phase))?;
    let warm = |of: &VariantTrials<'_>| {
        let is_warm = |finding: &Finding| finding.guard == NOT_COLD && finding.phase.as_deref() == Some(cold);
        let reached = of.trials.iter().filter(|trial| trial.phases.iter().any(|p| p.name == cold));
        let warm = of.trials.iter().filter(|trial| trial.findings.iter().any(is_warm));
        (warm.count(), reached.count())
    };
    let [(a, of_a), (b, of_b)] = both.map(warm);
    let share = |warm: usize, of: usize| warm as f64 / of.max(1) as f64;
    if (share(a, of_a) - share(b, of_b)).abs() <= 0.5 {
        return None;
    }
    let since = if phase == cold { String::new() } else { still_unequal(both, phase)? };
    let [of_a, of_b] = [of_a, of_b].map(|trials| number::count(trials, "trial"));
    Some(format!(
        "declared cold, but the store was in the page cache at the begin of `{cold}` in {b} of {of_b} of `{variant}` and in {a} of \
         {of_a} of `{baseline}`{since}"
    ))
}

/// Why CPU time and memory of a store that is a server are not compared with those of one that works inside its client: the one is
/// measured without its client and the other with it.
pub(crate) fn client_in_one(both: Compared<'_>, name: &MetricName) -> Option<String> {
    use Metric::{CpuWait, MajorFaults, MinorFaults, SwitchesForced, SwitchesVoluntary};
    let metric = name.key.metric;
    let has_client = metric.is_gauge()
        || metric.is_cpu_time()
        || matches!(metric, CpuWait | MajorFaults | MinorFaults | SwitchesVoluntary | SwitchesForced);
    let is_server = both.map(|of| of.spec.measures_servers());
    let (server, inside) = in_one(both, is_server)?;
    // Without services nothing of the server is measured, which its readings say.
    (has_client && name.instance.is_none() && !server.spec.services.is_empty()).then(|| {
        let together = MetricName { instance: Some(ALL.to_owned()), ..name.clone() };
        let instead = if inside.spec.services.is_empty() {
            format!("compare `{together}`, which has both")
        } else {
            "no metric of these trials has both of the one and nothing else of the other".to_owned()
        };
        format!(
            "`{name}` of `{server}` is that of a server without its client, and `{inside}` works inside its client: {instead}"
        )
    })
}

/// Why what a phase costs is not compared, where the engine of one variant wrote nothing for writes of what was stored already, of the
/// phase or of earlier ones whose work it finishes, and that of the other wrote these like any others. What is stored in the end is the same, and so are answers.
pub(crate) fn skipped_in_one(both: Compared<'_>, name: &MetricName) -> Option<String> {
    if name.key.metric.is_gauge() {
        return None;
    }
    let found = |of: &VariantTrials<'_>| {
        let phases = questions::costing(of.spec, &name.phase);
        let is_one = |finding: &&Finding| {
            finding.guard == UNCHANGED && finding.phase.as_deref().is_some_and(|phase| phases.contains(&phase))
        };
        of.trials.iter().flat_map(|trial| &trial.findings).find(is_one).cloned()
    };
    let [ours, theirs] = both.map(found);
    let (skipping, _) = in_one(both, [ours.is_some(), theirs.is_some()])?;
    let finding = ours.or(theirs)?;
    let phase = finding.phase.filter(|phase| *phase != name.phase);
    let phase = phase.map(|phase| format!("`{phase}` of ")).unwrap_or_default();
    Some(format!("in {phase}`{skipping}`, {}", finding.message))
}

/// The phase after the last `evict` before this one, or this one.
fn declared_cold<'a>(spec: &'a TrialSpec, phase: &str) -> Option<&'a str> {
    let at = spec.phases.iter().position(|of| of.name == phase)?;
    let evict = spec.phases[..at].iter().rposition(|of| matches!(of.action, Action::Evict))?;
    Some(&spec.phases[evict + 1].name)
}

/// How the stores are in the page cache at the begin of a later phase; `None` where that is known to be equal.
fn still_unequal(both: Compared<'_>, phase: &str) -> Option<String> {
    let [baseline, variant] = both.map(|of| typical(of, (phase, ""), Metric::Cached));
    match variant.zip(baseline) {
        Some((b, a)) if (a - b).abs() <= STILL_CACHED => None,
        Some((b, a)) => Some(format!(", and {} and {} of it are at that of `{phase}`", percent(b), percent(a))),
        None => Some(format!(", and how much of it is at that of `{phase}` is not known")),
    }
}

/// Variants that ask different queries of the same data, and get different numbers of rows: no answer of the one says whether that
/// of the other is right, and a part of the difference in time is that of the rows.
fn queries_differ([baseline, variant]: Compared<'_>) -> Vec<Finding> {
    let phases = variant.spec.phases.iter().filter(|phase| phase.timed);
    let asked = phases.filter(|phase| questions::differ_in_query(baseline.spec, variant.spec, &phase.name));
    let found = asked.filter_map(|phase| {
        let [ours, theirs] = [baseline, variant].map(|of| typical(of, (&phase.name, ""), Metric::Rows));
        let (ours, theirs) = ours.zip(theirs)?;
        if ours == theirs || phase.action.is_bounded_by_time() {
            return None;
        }
        let [returned, other] = [ours, theirs].map(|rows| number::count(rows as u64, "row"));
        let message = format!(
            "the queries differ, so that their answers cannot be checked against each other: `{baseline}` returned {returned}, but \
             `{variant}` returned {other}"
        );
        let hint = "read the comparison as that of two different amounts of work; queries that mean the same must return as many rows";
        let found = Finding::of("queries_differ", Severity::Warning, message, hint).in_phase(&phase.name);
        Some(found.with(json!({ "baseline": ours, "variant": theirs })))
    });
    found.collect()
}

/// A transaction that one variant ends in a later phase, and the other in the phase itself: the times of the one are without its commit.
fn commit_apart(both @ [baseline, variant]: Compared<'_>) -> Vec<Finding> {
    let stays_open = |spec: &TrialSpec, phase: &str| {
        let phase = questions::named(spec, phase).filter(|phase| phase.action.writes())?;
        Some(questions::stays_open(phase))
    };
    let finding = |phase: &PhaseSpec| {
        let name = phase.name.as_str();
        let (ours, theirs) = stays_open(baseline.spec, name).zip(stays_open(variant.spec, name))?;
        let (open, _) = in_one(both, [ours, theirs])?;
        let message = format!(
            "the transaction of `{open}` stays open at the end of the phase: times, bytes written and syncs of its commit belong to a \
             later phase, and those of the other variant to this one"
        );
        let hint =
            "add up the phase and the one that commits, or read the difference as that of the work before the commit";
        Some(Finding::of("commit_apart", Severity::Warning, message, hint).in_phase(name))
    };
    variant.spec.phases.iter().filter(|phase| phase.timed).filter_map(finding).collect()
}

/// Why times and rates of a phase are not compared, where the two variants did not attempt the same work (METHOD 8.2).
/// In one block both should attempt the same number of operations, whether these succeed or fail. A phase that is
/// bounded by time does as much as it can, so that its time says nothing. For a program that reports its failed
/// operations, the rate is per operation, and only its time needs equal work. For calls of a function, equally many
/// must have thrown, or for a rate an equal share, since a call that throws does other work.
pub(crate) fn unequal_offer(both @ [baseline, variant]: Compared<'_>, name: &MetricName) -> Option<String> {
    let (a, b) = (questions::named(baseline.spec, &name.phase)?, questions::named(variant.spec, &name.phase)?);
    let prescribed = [a, b].into_iter().find_map(|phase| phase.prescribes(name.instance.as_deref(), name.key.metric));
    let prescribed = prescribed
        .map(|given| format!("{} {}: compare {}", a.subject_of(name.instance.as_deref()), given.why, given.instead));
    prescribed
        .or_else(|| both.into_iter().find_map(|of| requests::of_another_program(of, name)))
        .or_else(|| idle_services::unequal(both, name))
        .or_else(|| OF_PHASE.into_iter().find_map(|guard| guard([(a, baseline), (b, variant)], name)))
}

/// A guard of what the two variants did in a phase.
type OfPhase = fn([InPhase<'_>; 2], &MetricName) -> Option<String>;

/// The first reason counts.
const OF_PHASE: [OfPhase; 7] = [
    statuses::unequal,
    refusals::unequal,
    reads::unequal,
    stored::unequal,
    unequal_mix,
    fitted::unequal,
    unequal_attempts,
];

/// Not as many operations were attempted, or not as many calls threw.
fn unequal_attempts([(a, baseline), (b, variant)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let metric = name.key.metric;
    let are = |kind: fn(&PhaseSpec) -> bool| kind(a) && kind(b);
    let records = |of: &VariantTrials<'_>, ops| of.spec.collection(ops).map(|collection| collection.records);
    let stored = a.action.ops().zip(b.action.ops());
    let stored = stored.map(|(a, b)| a.amount == b.amount && records(baseline, a) == records(variant, b));
    let requested = a.action.http().zip(b.action.http());
    let requested = requested.map(|(a, b)| a.amount == b.amount && baseline.spec.data == variant.spec.data);
    let stored = stored.or(requested);
    let (is_time, is_rate) = (metric.is_time_of_phase(), metric.unit() == Unit::PerSecond);
    let needs = match stored {
        // A rate is one for each operation, also where the file asks for other amounts.
        Some(as_many) => (is_time || is_rate && as_many) && !are(|phase| phase.action.is_bounded_by_time()),
        None => are(is_of_calls) && (is_time || is_rate) || are(reports_operations) && is_time,
    };
    if !needs {
        return None;
    }
    let mut counts = completed([baseline, variant])
        .filter(|(_, [phase, _])| phase.name == name.phase)
        .filter_map(|(_, [ours, theirs])| counted(ours).zip(counted(theirs)));
    if are(is_of_calls) {
        // Of a rate: whether as large a part of them threw.
        let product = |(done, _): (u64, u64), (_, threw): (u64, u64)| u128::from(done) * u128::from(threw);
        let differ = |a: (u64, u64), b: (u64, u64)| if is_time { a != b } else { product(a, b) != product(b, a) };
        let ((done, thrown), (other, threw)) = counts.find(|(a, b)| differ(*a, *b))?;
        let done = number::count(done, "call");
        return Some(format!(
            "in `{baseline}` {done} returned and {thrown} threw, but in `{variant}` {other} returned and {threw} threw"
        ));
    }
    let offered = |(done, failed): (u64, u64)| done.saturating_add(failed);
    let (a, b) = counts.map(|(a, b)| (offered(a), offered(b))).find(|(a, b)| a != b)?;
    Some(format!("`{baseline}` attempted {}, but `{variant}` attempted {b}", number::count(a, "operation")))
}

/// Why times and rates are not compared where two phases send other mixes or sessions of requests: those of all requests are of other work, and
/// the rate of a kind is its share of them. The latencies of a kind are its own.
fn unequal_mix([(a, _), (b, _)]: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    let unit = name.key.metric.unit();
    let is_of_mix =
        unit == Unit::PerSecond || unit == Unit::Nanos && name.instance.as_deref().and_then(kind_of).is_none();
    (is_of_mix && !questions::same_mix(a, b)).then(|| {
        format!(
            "in `{}` they send other mixes of requests: compare the latencies of one kind, such as `{}.kind.NAME.latency.p50`",
            a.name, a.name
        )
    })
}

/// Two answers that differ.
fn differing<'a>(a: &'a PhaseRecord, b: &'a PhaseRecord) -> Option<(&'a Answer, &'a Answer)> {
    const NONE: &Answer = &Answer { rows: None, digest: String::new(), comparable: true };
    let (x, y) = match (&a.answer, &b.answer) {
        // Of two programs that are asked for the same, one gave none.
        (None, Some(answer)) if a.action == OBSERVE && b.action == OBSERVE => return Some((NONE, answer)),
        (Some(answer), None) if a.action == OBSERVE && b.action == OBSERVE => return Some((answer, NONE)),
        (x, y) => (x.as_ref()?, y.as_ref()?),
    };
    let kind = kind_of_digest;
    let comparable = x.comparable && y.comparable && a.action == b.action;
    let rows = x.rows.zip(y.rows).map(|(x, y)| x == y);
    let digests = (kind(x) == kind(y)).then(|| x.digest == y.digest);
    // One of two programs that are asked for the same leaves out its digest. Replicas that each have their own leave out none.
    let in_part =
        a.action == OBSERVE && kind(x) != kind(y) && ![x, y].iter().any(|answer| kind(answer) == Some("parts"));
    // Answers without a common part cannot be compared.
    let agree = !in_part && [rows, digests].into_iter().flatten().reduce(|a, b| a && b).unwrap_or(false);
    (comparable && !agree).then_some((x, y))
}

fn kind_of_digest(answer: &Answer) -> Option<&str> {
    answer.digest.split_once(':').map(|(kind, _)| kind)
}

/// Whether a program gave no answer.
fn is_none(answer: &Answer) -> bool {
    answer.rows.is_none() && answer.digest.is_empty()
}

/// What to do about answers that differ; `itself` says that those of two trials of the baseline do.
fn hint_on_answers(both: [(&VariantTrials<'_>, &Answer); 2], itself: bool) -> String {
    let is_of_program = |(_, answer): &(&VariantTrials<'_>, &Answer)| {
        ["reported:", "rows:", "bodies:"].iter().any(|kind| answer.digest.starts_with(kind))
    };
    if itself {
        return "two trials of the baseline differ too: what is random in answers, such as ids and times, has to be left out (`without` of \
                an `answer`), and what they depend on has to be the same"
            .to_owned();
    }
    if let Some((of, _)) = both.iter().find(|(_, answer)| is_none(answer)) {
        return format!(
            "make `{of}` print `rows` or `digest` in a form that `read` matches, or check whether it does the same work"
        );
    }
    // `verify` works on a store only.
    let instead = if both.iter().any(is_of_program) {
        "do not compare speeds until their `digest` and `rows` agree"
    } else {
        "add a `verify` phase, and do not compare speeds until their answers agree"
    };
    format!("one of the two variants is wrong, or they do different work: {instead}")
}

fn disagreement([left, right]: Compared<'_>, phase: &str, a: &Answer, b: &Answer) -> Finding {
    let reported = |answer: &'_ Answer| answer.digest.strip_prefix("reported:").map(str::to_owned);
    let refused = |answer: &Answer| answer.digest.starts_with("refused:");
    let no_answer = |of: &VariantTrials<'_>, other: &VariantTrials<'_>| {
        format!("`{of}` reported no answer (`rows` or `digest`), but `{other}` did")
    };
    let message = match (a.rows.zip(b.rows), reported(a).zip(reported(b))) {
        _ if is_none(a) => no_answer(left, right),
        _ if is_none(b) => no_answer(right, left),
        (None, _) if refused(a) && refused(b) => format!("`{left}` and `{right}` refused different operations"),
        _ if reported(a).is_some() && reported(b).is_none() => {
            format!("`{left}` reported a digest, and `{right}` none")
        }
        _ if reported(b).is_some() && reported(a).is_none() => {
            format!("`{right}` reported a digest, and `{left}` none")
        }
        (Some((rows, other_rows)), _) if rows != other_rows => {
            format!("`{left}` returned {}, but `{right}` returned {other_rows}", number::count(rows, "row"))
        }
        (_, Some((x, y))) => format!("`{left}` and `{right}` reported different answers: `{x}` and `{y}`"),
        (Some((rows, _)), None) => {
            format!("`{left}` and `{right}` returned {} each, but not the same rows", number::count(rows, "row"))
        }
        (None, None) if kind_of_digest(a) == kind_of_digest(b) => {
            format!("`{left}` and `{right}` answered the same requests with other bodies")
        }
        (None, None) => {
            let [kind, other] = [a, b].map(|answer| kind_of_digest(answer).unwrap_or("none"));
            format!(
                "the answers of `{left}` and `{right}` are of different kinds ({kind}, {other}) and cannot be compared"
            )
        }
    };
    let itself = same_work([left, left]).into_iter().any(|(one, other)| {
        let of = |trial| recorded(trial, phase);
        of(one).zip(of(other)).is_some_and(|(one, other)| differing(one, other).is_some())
    });
    let hint = hint_on_answers([(left, a), (right, b)], itself);
    let data =
        json!({ "baseline": { "variant": left.name, "answer": a }, "variant": { "variant": right.name, "answer": b } });
    Finding::of("answers_differ", Severity::Refusal, message, &hint).in_phase(phase).with(data)
}

/// Work per operation differs although nothing in the two specifications explains the difference (METHOD 1.6).
///
/// Operations, transactions, bytes handed over and distinct keys follow from data and phases only; syncs and bytes
/// written also from the store and its settings, so these are compared only where the stores are the same.
pub(crate) fn work_differs(both @ [baseline, variant]: Compared<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let same_subject = baseline.spec.subject == variant.spec.subject;
    for phase in &variant.spec.phases {
        let used = questions::used(variant.spec, phase);
        let same = |p: &PhaseSpec| p.actions().eq(phase.actions()) && questions::used(baseline.spec, p) == used;
        if !phase.timed || !questions::named(baseline.spec, &phase.name).is_some_and(same) {
            continue;
        }
        // A background writes as much as it can: how much that is, and how much of it is read, depends on speed.
        let writes_by_speed = phase.background.as_ref().is_some_and(Action::changes_data);
        let given = [Metric::Operations, Metric::Transactions, Metric::Distinct, Metric::UserBytes];
        let metrics = given.into_iter().filter(|metric| *metric != Metric::UserBytes || !writes_by_speed);
        let metrics = metrics.map(|metric| (metric, WORK));
        let stored = [Metric::Fsyncs, Metric::Written].into_iter().map(|metric| (metric, SYNCS));
        for (metric, most) in metrics.chain(stored.filter(|_| same_subject && !writes_by_speed)) {
            findings.extend(unexplained(both, &phase.name, metric, most));
        }
    }
    findings
}

fn unexplained(both @ [baseline, variant]: Compared<'_>, phase: &str, metric: Metric, most: f64) -> Option<Finding> {
    let [a, b] = both.map(|of| typical(of, (phase, ""), metric));
    let (a, b) = a.zip(b)?;
    // Phases bounded by time do as much as they can: then work is compared per operation.
    let by_time = questions::named(baseline.spec, phase).is_some_and(|phase| phase.action.is_bounded_by_time());
    let [x, y] = both.map(|of| typical(of, (phase, ""), Metric::Operations).filter(|operations| *operations > 0.0));
    let (a, b, noise) = match (metric, by_time, x, y) {
        (Metric::Operations | Metric::Distinct, true, ..) => return None,
        (Metric::UserBytes | Metric::Written, true, Some(x), Some(y)) => (a / x, b / y, noise(x, y)),
        (_, true, Some(x), Some(y)) => (a / x, b / y, 0.0),
        _ => (a, b, 0.0),
    };
    let difference = (a - b).abs() / a.abs().max(b.abs()).max(f64::MIN_POSITIVE);
    if difference <= most + noise {
        return None;
    }
    let name = metric.name();
    let [ours, theirs] = [a, b].map(|value| number::quantity(value, metric.unit()));
    let difference = percent(difference);
    let message =
        format!("`{name}` is {ours} of `{baseline}`, but {theirs} of `{variant}`: a difference of {difference}");
    let hint = "the two variants do not do the same work: compare their effective settings, and how many of their \
                operations failed or were refused";
    let found = Finding::of("work_differs", Severity::Warning, message, hint).in_phase(phase);
    Some(found.with(json!({ "metric": name, "baseline": a, "variant": b })))
}

/// The two variants give different durability guarantees: a slower one may just be safer (METHOD 5.2).
pub(crate) fn durability_differs([baseline, variant]: Compared<'_>) -> Option<Finding> {
    let class = |of: &VariantTrials<'_>| of.trials.iter().find_map(|t| Some(t.store()?.durability.name()));
    let (a, b) = (class(baseline)?, class(variant)?);
    if a == b {
        return None;
    }
    let message = format!("`{baseline}` is {a} and `{variant}` is {b}: their durability guarantees differ");
    let hint = "set the same `durability` for both, or read the difference as the cost of durability";
    let data: Value = json!({ "baseline": a, "variant": b });
    Some(Finding::of("durability_differs", Severity::Note, message, hint).with(data))
}
