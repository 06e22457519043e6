//! The joint report of all workers that share a phase. Pure functions.

use std::collections::BTreeSet;

use prony_boundaries::phase_state::WorkerPart;
use prony_boundaries::suspensions::merged;
use prony_model::latency::Recorder;
use prony_model::protocol::PhaseReport;
use prony_model::record::{Answer, HistogramRecord, LatencyKind, Throughput};
use prony_model::spec::{Action, Order};
use prony_model::units::Nanos;

/// The note where sections were too many to be listed.
const NOT_LISTED: &str =
    "the timed sections were too many to be listed: `time` is from the first begin to the last end";

/// What all workers measured together. Amounts add up. `time` is the time in which at least one client of any worker
/// was inside a timed section, as with several clients of one worker; an open loop's is from the first begin to the last
/// end, since its schedule never pauses.
pub(crate) fn joined(action: &Action, parts: &[WorkerPart]) -> PhaseReport {
    let reports = || parts.iter().map(|part| &*part.report);
    let mut all = reports().fold(PhaseReport::default(), added);
    let whole = WorkerPart::makespan(parts);
    let is_open = action.ops().is_some_and(|ops| ops.rate.is_some());
    let listed = reports().all(|report| report.operations + report.errors == 0 || !report.sections.is_empty());
    let sections: Vec<(Nanos, Nanos)> = reports().flat_map(|report| report.sections.iter().copied()).collect();
    // An open loop may go on after its last section, which is no gap.
    let begin = sections.iter().map(|section| section.0).min().unwrap_or_default();
    let end = sections.iter().map(|section| section.1).max().unwrap_or_default();
    let inside = covered(sections);
    all.time = if is_open || !listed { whole } else { inside };
    match parts {
        // The only one knows its own.
        [only] => (all.time, all.gap) = (only.report.time, only.report.gap),
        _ if listed => all.gap = Some(end.since(begin).since(inside)),
        _ => all.notes.push(NOT_LISTED.to_owned()),
    }
    all.distinct = distinct(action, parts);
    all.histograms = histograms(reports());
    all.throughput = throughput(reports());
    all.answer = answer(reports());
    let plans: BTreeSet<&String> = reports().filter_map(|report| report.plan.as_ref()).collect();
    all.plan = (!plans.is_empty()).then(|| plans.into_iter().cloned().collect::<Vec<_>>().join("; another replica: "));
    all
}

/// Adds everything of which there are amounts, and collects texts.
fn added(all: PhaseReport, one: &PhaseReport) -> PhaseReport {
    fn sum<T: std::ops::Add<Output = T> + Copy>(all: Option<T>, one: Option<T>) -> Option<T> {
        all.zip(one).map(|(all, one)| all + one).or(all).or(one)
    }
    let mut error_texts = all.error_texts;
    one.error_texts.iter().for_each(|(text, count)| *error_texts.entry(text.clone()).or_default() += count);
    let notes: BTreeSet<String> = all.notes.into_iter().chain(one.notes.iter().cloned()).collect();
    PhaseReport {
        gap_cpu: all.gap_cpu + one.gap_cpu,
        encode: sum(all.encode, one.encode),
        decode: sum(all.decode, one.decode),
        examined: sum(all.examined, one.examined),
        entries: sum(all.entries, one.entries),
        entries_written: sum(all.entries_written, one.entries_written),
        operations: all.operations + one.operations,
        errors: all.errors + one.errors,
        disk_full: all.disk_full + one.disk_full,
        transactions: all.transactions + one.transactions,
        rows: sum(all.rows, one.rows),
        queries: all.queries.zip(one.queries).map(|(all, one)| all.and(one)).or(all.queries).or(one.queries),
        misses: sum(all.misses, one.misses),
        user_bytes: all.user_bytes + one.user_bytes,
        skipped: all.skipped + one.skipped,
        lag: all.lag.max(one.lag),
        no_latency: all.no_latency.or_else(|| one.no_latency.clone()),
        saturated: all.saturated || one.saturated,
        error_texts,
        notes: notes.into_iter().collect(),
        ..PhaseReport::default()
    }
}

/// The time that at least one of these sections covers.
fn covered(sections: Vec<(Nanos, Nanos)>) -> Nanos {
    merged(sections).into_iter().fold(Nanos::ZERO, |sum, (from, to)| sum + to.since(from))
}

/// Distinct records add up where no two workers touch the same one; estimates of sets that may overlap do not.
fn distinct(action: &Action, parts: &[WorkerPart]) -> Option<u64> {
    let passes = matches!(action.ops()?.order, Order::Record | Order::Key | Order::Shuffled);
    let apart = passes && matches!(action, Action::Get(_));
    let sum: Option<u64> = parts.iter().map(|part| part.report.distinct).sum();
    sum.filter(|_| apart || parts.len() == 1)
}

/// The histograms of each kind of operation, of all workers.
fn histograms<'a>(reports: impl Iterator<Item = &'a PhaseReport>) -> Vec<HistogramRecord> {
    let mut kinds: Vec<(&str, LatencyKind, Vec<&HistogramRecord>)> = Vec::new();
    for one in reports.flat_map(|report| &report.histograms) {
        match kinds.iter_mut().find(|(operation, kind, _)| *operation == one.operation && *kind == one.kind) {
            Some((.., all)) => all.push(one),
            None => kinds.push((&one.operation, one.kind, vec![one])),
        }
    }
    let mut found = Vec::new();
    for (operation, kind, all) in kinds {
        let recorders: Result<Vec<Recorder>, _> = all.iter().map(|one| Recorder::from_record(one)).collect();
        let merged = recorders.and_then(|recorders| {
            let mut sum = Recorder::new();
            recorders.iter().for_each(|one| sum.merge(one));
            sum.to_record(operation, kind)
        });
        match merged {
            Ok(record) => found.push(record),
            // Each of them is recorded, so that reading them reports which one is faulty.
            Err(_) => found.extend(all.into_iter().cloned()),
        }
    }
    found
}

/// Operations of all in each interval: all begin at the same time. A worker that runs longer may have longer intervals, which
/// are multiples of the others'.
fn throughput<'a>(reports: impl Iterator<Item = &'a PhaseReport>) -> Option<Throughput> {
    let each: Vec<&Throughput> = reports.filter_map(|report| report.throughput.as_ref()).collect();
    let interval = each.iter().map(|one| one.interval).max()?;
    let mut operations: Vec<u64> = Vec::new();
    for one in each {
        let joined = (interval.as_nanos() / one.interval.as_nanos().max(1)).max(1) as usize;
        for (at, counts) in one.operations.chunks(joined).enumerate() {
            operations.resize(operations.len().max(at + 1), 0);
            operations[at] += counts.iter().sum::<u64>();
        }
    }
    Some(Throughput { interval, operations })
}

/// Digests are sums over rows, whoever read them.
fn answer<'a>(reports: impl Iterator<Item = &'a PhaseReport>) -> Option<Answer> {
    let parsed = |answer: &Answer| {
        let (kind, digest) = answer.digest.split_once(':')?;
        Some((kind.to_owned(), u64::from_str_radix(digest, 16).ok()?))
    };
    reports.map(|report| report.answer.clone()).reduce(|all, one| {
        let (all, one) = (all?, one?);
        let ((kind, sum), (same, more)) = (parsed(&all)?, parsed(&one)?);
        (kind == same).then(|| Answer {
            rows: all.rows.zip(one.rows).map(|(all, one)| all + one),
            digest: format!("{kind}:{:016x}", sum.wrapping_add(more)),
            comparable: all.comparable && one.comparable,
        })
    })?
}

#[cfg(test)]
mod tests {
    use prony_model::spec::{Amount, Arrivals, Grouping, Ops, References, Sampling, Sharing};
    use prony_model::units::PerSecond;

    use super::*;
    use crate::figures::span::tests::ms;

    fn get(ops: impl FnOnce(&mut Ops)) -> Action {
        let mut all = Ops {
            amount: Amount::Records,
            transaction: Grouping::Each,
            order: Order::Shuffled,
            replicas: Some(2),
            threads: 1,
            share: Sharing::Equal,
            pause: None,
            rate: None,
            sample: Sampling::Every,
            touch: true,
            collection: None,
            references: References::Ignored,
        };
        ops(&mut all);
        Action::Get(all)
    }

    /// A part with these sections, in milliseconds, and a latency of an operation, in microseconds.
    fn part(sections: &[(u64, u64)], latency: u64, digest: &str) -> WorkerPart {
        let mut recorder = Recorder::new();
        recorder.record(Nanos::from_nanos(latency * 1000));
        let answer = Answer { rows: Some(1), digest: digest.to_owned(), comparable: true };
        let report = PhaseReport {
            time: sections.iter().fold(Nanos::ZERO, |sum, (from, to)| sum + ms(*to).since(ms(*from))),
            sections: sections.iter().map(|(from, to)| (ms(*from), ms(*to))).collect(),
            operations: 1,
            rows: Some(1),
            distinct: Some(1),
            histograms: vec![recorder.to_record("get", LatencyKind::Service).unwrap()],
            throughput: Some(Throughput { interval: ms(100), operations: vec![latency; latency as usize] }),
            answer: Some(answer),
            notes: vec!["the same of each".to_owned()],
            ..PhaseReport::default()
        };
        let ends = |of: fn(&(u64, u64)) -> u64| sections.iter().map(of);
        let (began, ended) = (ends(|(from, _)| *from).min().unwrap(), ends(|(_, to)| *to).max().unwrap());
        WorkerPart { began: ms(began), ended: ms(ended), report: Box::new(report) }
    }

    fn two() -> [WorkerPart; 2] {
        [part(&[(10, 20), (30, 40)], 2, "lines:ffffffffffffffff"), part(&[(15, 25), (41, 45)], 5, "lines:3")]
    }

    #[test]
    fn time_is_that_in_which_any_worker_is_in_a_section() {
        let all = joined(&get(|_| ()), &two());
        assert_eq!((all.time, all.gap), (ms(15 + 10 + 4), Some(ms(35 - 29))));
        let rate = Some(Arrivals { rate: PerSecond::new(1.0).unwrap(), poisson: false });
        let open = joined(&get(|ops| ops.rate = rate), &two());
        assert_eq!((open.time, open.gap), (ms(35), Some(ms(6))), "a schedule never pauses");
        assert_eq!(covered(vec![(ms(5), ms(9)), (ms(1), ms(20))]), ms(19), "one inside another");
        let [one, mut other] = two();
        other.report.sections.clear();
        let unlisted = joined(&get(|_| ()), &[one, other]);
        assert_eq!((unlisted.time, unlisted.gap, unlisted.notes.len()), (ms(35), None, 2));
        let mut only = two()[..1].to_vec();
        only[0].report.sections.clear();
        let single = joined(&get(|_| ()), &only);
        assert_eq!((single.time, single.notes.len()), (ms(20), 1), "one knows its own time");
    }

    #[test]
    fn amounts_answers_histograms_and_series_are_joined() {
        let all = joined(&get(|_| ()), &two());
        assert_eq!((all.operations, all.rows, all.distinct, all.notes.len()), (2, Some(2), Some(2), 1));
        let answer = Answer { rows: Some(2), digest: "lines:0000000000000002".to_owned(), comparable: true };
        assert_eq!(all.answer, Some(answer), "digests are added, and wrap");
        assert_eq!(all.throughput.unwrap().operations, [7, 7, 5, 5, 5]);
        let [one, mut other] = two();
        other.report.throughput.as_mut().unwrap().interval = ms(200);
        let coarser = joined(&get(|_| ()), &[one, other]).throughput.unwrap();
        assert_eq!((coarser.interval, coarser.operations), (ms(200), vec![2 + 2 + 5, 5, 5, 5, 5]));
        let [histogram] = &all.histograms[..] else { panic!("{:?}", all.histograms) };
        assert_eq!((histogram.operation.as_str(), Recorder::from_record(histogram).unwrap().succeeded()), ("get", 2));
    }

    #[test]
    fn what_cannot_be_added_is_missing() {
        let uniform = get(|ops| ops.order = Order::Uniform);
        assert_eq!(joined(&uniform, &two()).distinct, None);
        assert_eq!(joined(&uniform, &two()[..1]).distinct, Some(1), "of one alone it is known");
        let [one, mut other] = two();
        other.report.answer.as_mut().unwrap().digest = "lengths:3".to_owned();
        assert_eq!(joined(&get(|_| ()), &[one, other]).answer, None);
    }
}
