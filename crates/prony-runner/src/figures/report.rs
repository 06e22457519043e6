//! Derives findings from the reports of a store's worker about phases.

use std::path::Path;

use prony_analysis::guard::disturbances::{BUSY, STALLED};
use prony_analysis::guard::{self, Finding, Severity};
use prony_boundaries::phase_state::WorkerPart;
use prony_model::metric::{Metric, MetricKey};
use prony_model::number::count;
use prony_model::protocol::{PhaseReport, RequestsReport, Unchanged, Verified};
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::spec::BACKGROUND;
use prony_model::units::{Bytes, Nanos};
use serde_json::json;

use crate::preflight;
use crate::watched::Watched;
use crate::watched::report::Report;

/// The worker's notes about a phase, as findings.
pub fn notes(phase: &str, report: &PhaseReport) -> Vec<Finding> {
    let checked = report.verified.as_ref().and_then(|checked| verified_in_part(phase, checked));
    let hint = "no action needed; consider this note when reading the measurements";
    let note = |message: String| Finding::of("note_of_the_worker", Severity::Note, message, hint).in_phase(phase);
    let plan = report.plan.iter().map(|plan| {
        let finding = Finding::of(
            "query_plan",
            Severity::Note,
            plan.clone(),
            "no action needed; a plan that reads more than it returns takes time",
        );
        finding.in_phase(phase).with(json!({ "plan": plan }))
    });
    let dangling = report.dangling.iter().map(|found| {
        let hint = "write with `references = \"check\"` in every phase that stores these documents or removes what they refer to";
        Finding::of("dangling_references", Severity::Warning, found.clone(), hint).in_phase(phase)
    });
    let own = report
        .notes
        .iter()
        .cloned()
        .map(note)
        .chain(checked)
        .chain(plan)
        .chain(dangling)
        .chain(report.requests.iter().flat_map(|requests| of_load(phase, requests)))
        .chain(unchanged(phase, report))
        .chain(query_found_nothing(phase, report));
    let beside = report.background.iter().flat_map(|background| {
        let theirs = notes(phase, background).into_iter();
        theirs.map(|finding| Finding { message: format!("{BACKGROUND}: {}", finding.message), ..finding })
    });
    own.chain(beside).collect()
}

/// What the load generator found: it may have been the limit, or did not run for a while, so that what is measured is not only the
/// servers; or more came than answers, so that it is not known which answer is that of which request.
fn of_load(phase: &str, requests: &RequestsReport) -> impl Iterator<Item = Finding> {
    let busy = "do not quote the latencies and rates of this phase as those of the servers, nor a verdict on them: give the \
                load more `threads` or processors of its own (`processors` in `http` and in `[[service]]`), or use a machine with more";
    let stalled = "do not quote the latencies and rates of this trial; repeat it without stopping prony (Ctrl-Z) or its machine, and with \
                   fewer other programs on the processors of the load (`processors`)";
    let found = [
        (BUSY, Severity::Warning, &requests.busy, busy),
        (STALLED, Severity::Warning, &requests.stalled, stalled),
        ("more_than_answers", Severity::Refusal, &requests.surplus, "see what the server sends to one request"),
    ];
    found.into_iter().filter_map(move |(guard, severity, message, hint)| {
        Some(Finding::of(guard, severity, message.clone()?, hint).in_phase(phase))
    })
}

/// Operations stored what was stored already, and the engine wrote nothing. Below a hundredth of them that hardly shows.
fn unchanged(phase: &str, report: &PhaseReport) -> Option<Finding> {
    let all = count(report.operations, "operation");
    let what = "stored what the record held already, of which this engine writes nothing: no page and, in a transaction of its own, no sync";
    let (message, writes) = match report.unchanged.as_ref()? {
        Unchanged::Known(writes) if *writes == 0 || writes.saturating_mul(100) < report.operations => return None,
        Unchanged::Known(writes) => (format!("{writes} of {all} {what}"), Some(writes)),
        Unchanged::NotKnown(why) => (format!("it is not known how many of {all} {what} ({why})"), None),
    };
    let hint = "do not take the figures of this phase for those of changes: let one client update, or let `update` come to no record twice \
                (`order = \"shuffled\"`, `count` up to `records`); replace a second `put` by `update`";
    let found = Finding::of("unchanged_writes", Severity::Warning, message, hint).in_phase(phase);
    Some(found.with(json!({ "unchanged": writes, "operations": report.operations })))
}

/// Some queries of a phase found nothing in any operation, while others did: the rows of all together hide that.
fn query_found_nothing(phase: &str, report: &PhaseReport) -> Option<Finding> {
    let queries = report.queries.filter(|_| report.operations > 0)?;
    let without: Vec<String> = queries.without().map(|number| number.to_string()).collect();
    if without.is_empty() || report.rows == Some(0) {
        return None;
    }
    let (which, verb) = if without.len() == 1 { ("query", "finds") } else { ("queries", "find") };
    let message = format!(
        "{which} {} of {} {verb} nothing in any of {}",
        without.join(", "),
        queries.asked,
        count(report.operations, "operation")
    );
    let hint = "check its `where`: the phase measures how fast nothing is found";
    Some(Finding::of("nothing_found", Severity::Warning, message, hint).in_phase(phase))
}

/// Not each record has only one content that the phases so far may have left: what is stored may be wrong all the same.
fn verified_in_part(phase: &str, checked: &Verified) -> Option<Finding> {
    if checked.one_of_several + checked.may_be_absent == 0 {
        return None;
    }
    let message = format!(
        "`verify` did not check everything: {} had one content only, of {} any of several versions was accepted, and {} might be \
         missing or not",
        count(checked.exact, "record"),
        count(checked.one_of_several, "record"),
        count(checked.may_be_absent, "record")
    );
    let hint = "of operations that failed, and of several threads that update and remove records in one `mix`, it is not known what \
                they left";
    let data = json!({ "exact": checked.exact, "one_of_several": checked.one_of_several, "may_be_absent": checked.may_be_absent });
    Some(Finding::of("verified_in_part", Severity::Warning, message, hint).in_phase(phase).with(data))
}

/// Findings of a store's trial beside those of guards: notes of the worker, a disk that is nearly full, and work at the
/// close that belongs to no phase.
pub(crate) fn remarks(near: &Path, record: &TrialRecord, watched: &Watched, worker: &Report) -> Vec<Finding> {
    let reports = || record.phases.iter().zip(&watched.tracker.phases);
    let notes = reports().filter_map(|(phase, tracked)| Some(notes(&phase.name, tracked.report.as_ref()?)));
    let closing = worker.asked_to_stop.map(|asked| watched.ended.at.since(asked));
    let closing = closing.and_then(|closing| close_without_phase(record, closing));
    let apart = reports().filter_map(|(phase, tracked)| {
        let found = guard::replicas::released_apart(record, &phase.name, begun_within(&tracked.parts));
        found.map(|found| found.in_phase(&phase.name))
    });
    let beside = reports().filter_map(|(phase, tracked)| {
        let (own, background) = (tracked.report.as_ref()?, tracked.report.as_ref()?.background.as_ref()?);
        guard::background::apart(&phase.name, own, background)
    });
    notes.flatten().chain(beside).chain(apart).chain(nearly_full(near, record)).chain(closing).collect()
}

/// The time from the first begin of a worker's part to the last begin.
fn begun_within(parts: &[WorkerPart]) -> Option<Nanos> {
    let begun = || parts.iter().map(|part| part.began);
    Some(begun().max()?.since(begun().min()?))
}

/// Work at the close of a trial that went well and has no phase for it.
fn close_without_phase(record: &TrialRecord, closing: Nanos) -> Option<Finding> {
    let closed = record.phases.last().is_some_and(|phase| phase.action == "close");
    let wall = |phase: &PhaseRecord| Some(phase.end?.since(phase.begin?).as_nanos());
    let phases = record.phases.iter().filter(|phase| phase.timed).filter_map(wall).sum();
    let well = record.ending.outcome.is_ok() && !closed;
    // Ending a process takes some milliseconds, however little it has to free.
    let long = closing >= Nanos::from_millis(100);
    (well && long).then(|| guard::trial::untimed_close(closing, Nanos::from_nanos(phases)))?
}

/// Whether the next trial's store may not fit.
fn nearly_full(near: &Path, record: &TrialRecord) -> Option<Finding> {
    let stat = rustix::fs::statvfs(near).ok()?;
    let bytes = |blocks: u64| Bytes::from_bytes(blocks.saturating_mul(stat.f_frsize));
    let of = |phase: &PhaseRecord| phase.reading(MetricKey::amount(Metric::Disk))?.measured().copied();
    let store = record.phases.iter().filter_map(of).fold(0.0, f64::max);
    let free = Bytes::from_bytes(preflight::free(&stat));
    guard::trial::disk_nearly_full(free, bytes(stat.f_blocks), Bytes::from_bytes(store as u64))
}

#[cfg(test)]
mod tests {
    use prony_analysis::conclude::{Observed, Reached};
    use prony_boundaries::tracker::Tracker;
    use prony_model::latency::{COMMIT, Recorder};
    use prony_model::outcome::{Ending, Outcome};
    use prony_model::protocol::QueriesFound;
    use prony_model::reading::{Reading, Why};
    use prony_model::record::{Conditions, LatencyKind};
    use prony_model::spec::{Action, Amount, Grouping, Ops, Order, PhaseSpec, References, Sampling, Sharing};
    use prony_model::trial::{Label, PlannedTrial};

    use super::*;
    use crate::figures;
    use crate::figures::span::tests::{ms, snapshot, watched};

    fn spec() -> PhaseSpec {
        let ops = Ops {
            amount: Amount::Records,
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
        let background = Some(Action::Get(Ops { amount: Amount::Background, ..ops.clone() }));
        PhaseSpec { name: "write".to_owned(), timed: true, action: Action::Put(ops), background, limit: None }
    }

    /// A phase from 10 s to 13 s, as a trial observed it; without a report, its worker ended before the phase did.
    fn observed(report: Option<PhaseReport>) -> Observed {
        let snapshots =
            vec![snapshot(0, 0, &[7]), snapshot(9_999, 10, &[7]), snapshot(13_001, 50, &[7]), snapshot(13_100, 0, &[])];
        let mut watched = watched(snapshots, vec![]);
        watched.tracker = Tracker::new(&[spec()]);
        watched.tracker.lead(0, ms(10_000));
        watched.begin = vec![Some(1)];
        watched.end = vec![None];
        watched.ended.at = ms(13_000);
        if let Some(report) = report {
            watched.tracker.ended(0, ms(13_000));
            watched.tracker.phases[0].report = Some(Box::new(report));
            watched.end = vec![Some(2)];
        }
        figures::observed(&[spec()], &watched, &[], &Why::NotApplicable).remove(0)
    }

    fn of(record: &PhaseRecord, metric: Metric) -> Option<Reading<f64>> {
        record.reading(MetricKey::amount(metric)).cloned()
    }

    fn report(operations: u64, latencies: &[u64]) -> PhaseReport {
        let mut recorder = Recorder::new();
        latencies.iter().for_each(|n| recorder.record(Nanos::from_nanos(*n)));
        PhaseReport {
            time: Nanos::from_secs(2),
            gap: Some(Nanos::from_secs(1)),
            operations,
            histograms: vec![recorder.to_record("put", LatencyKind::Service).unwrap()],
            ..PhaseReport::default()
        }
    }

    #[test]
    fn refused_operations_and_conflicts_are_recorded_where_they_are_counted() {
        let checked = PhaseReport { refused: Some(3), conflicts: Some(0), ..report(1000, &[500; 1000]) };
        let phase = observed(Some(checked)).phase;
        assert_eq!(of(&phase, Metric::Refused), Some(Reading::Measured(3.0)));
        assert_eq!(of(&phase, Metric::Conflicts), Some(Reading::Measured(0.0)));
    }

    #[test]
    fn metrics_from_inside_and_from_the_clock_are_both_recorded() {
        let Observed { phase: record, reached, .. } = observed(Some(report(1000, &[500; 1000])));
        assert_eq!(reached, Reached::OwnEnd);
        assert_eq!(of(&record, Metric::Wall), Some(Reading::Measured(3e9)));
        assert_eq!(of(&record, Metric::Time), Some(Reading::Measured(2e9)));
        assert_eq!(of(&record, Metric::Rate), Some(Reading::Measured(500.0)));
        assert_eq!(of(&record, Metric::Cpu), Some(Reading::Measured(40e6)), "between the phase's two snapshots");
        let p50 = of(&record, Metric::LatencyP50).unwrap();
        assert!(p50.measured().is_some_and(|p50| (499.0..=501.0).contains(p50)), "{p50:?}");
        assert!(matches!(of(&record, Metric::LatencyP999), Some(Reading::Missing(Why::TooFew { .. }))));
        assert_eq!(of(&record, Metric::Rows), None, "a phase that reads nothing has no rows, not none of them");
        assert_eq!(of(&record, Metric::Refused), None, "nothing is checked");
        assert_eq!(of(&record, Metric::Conflicts), None);
        assert_eq!(of(&record, Metric::Lag), None, "both the runner and the worker know when it began and ended");
    }

    #[test]
    fn background_has_metrics_and_errors_of_its_own() {
        let texts = |text: &str| [(text.to_owned(), 1)].into();
        let beside = PhaseReport {
            time: Nanos::from_secs(1),
            error_texts: texts("busy"),
            disk_full: 2,
            plan: Some("plan: all".to_owned()),
            ..report(30, &[200; 30])
        };
        let both =
            PhaseReport { error_texts: texts("no"), background: Some(Box::new(beside)), ..report(1000, &[500; 1000]) };
        let notes = notes("write", &both);
        let Observed { phase: record, disk_full, .. } = observed(Some(both));
        assert_eq!(of(&record, Metric::Rate), Some(Reading::Measured(500.0)));
        let beside = &record.readings["background"];
        let beside = |metric| beside.get(&prony_model::record::MetricKeyText(MetricKey::amount(metric))).cloned();
        assert_eq!(beside(Metric::Rate), Some(Reading::Measured(30.0)));
        assert!(beside(Metric::LatencyP50).unwrap().measured().is_some_and(|p50| *p50 < 300.0));
        assert_eq!(beside(Metric::Cpu), None, "the CPU time of the process is of both");
        assert_eq!(record.errors.keys().collect::<Vec<_>>(), ["background: busy", "no"]);
        assert_eq!(
            record.histograms.iter().map(|h| h.operation.as_str()).collect::<Vec<_>>(),
            ["put", "background put"]
        );
        assert_eq!((disk_full, notes[0].message.as_str()), (2, "background: plan: all"));
    }

    #[test]
    fn phase_without_a_report_has_its_wall_time_and_no_time() {
        let Observed { phase: record, reached, .. } = observed(None);
        assert_eq!(reached, Reached::Begin);
        assert_eq!(of(&record, Metric::Wall), Some(Reading::Measured(3e9)));
        assert_eq!((of(&record, Metric::Time), of(&record, Metric::Rate)), (None, None));
    }

    #[test]
    fn rate_over_no_time_is_missing() {
        let record = observed(Some(PhaseReport { time: Nanos::ZERO, ..report(5, &[1]) })).phase;
        assert!(matches!(of(&record, Metric::Rate), Some(Reading::Missing(Why::Failed(_)))));
    }

    #[test]
    fn commits_are_none_of_the_operations_of_which_percentiles_are_taken() {
        let mut commits = Recorder::new();
        (0..100).for_each(|_| commits.record(Nanos::from_millis(7)));
        commits.record_many_failed(100);
        let mut asked = report(190, &[500; 190]);
        asked.errors = 10;
        let mut puts = Recorder::from_record(&asked.histograms[0]).unwrap();
        puts.record_many_failed(10);
        asked.histograms = vec![
            puts.to_record("put", LatencyKind::Service).unwrap(),
            commits.to_record(COMMIT, LatencyKind::Service).unwrap(),
        ];
        let record = observed(Some(asked)).phase;
        let largest = Reading::Missing(Why::Infinite { failed: 10, of: 200 });
        assert_eq!(of(&record, Metric::LatencyMax), Some(largest));
        let p90 = of(&record, Metric::LatencyP90).unwrap();
        assert!(p90.measured().is_some_and(|p90| (499.0..=501.0).contains(p90)), "{p90:?}");
    }

    #[test]
    fn what_makes_a_load_doubtful_is_found() {
        let busy = Some("the load generator, not the server, may be the limit".to_owned());
        let stalled = Some("the load generator did not run for 1.0 s".to_owned());
        let surplus = Some("more came on 1 connection".to_owned());
        let requests = RequestsReport {
            busy: busy.clone(),
            stalled: stalled.clone(),
            surplus: surplus.clone(),
            ..RequestsReport::default()
        };
        let found = notes("load", &PhaseReport { requests: Some(requests), ..PhaseReport::default() });
        let of = |finding: &Finding| (finding.guard.to_string(), finding.severity, Some(finding.message.clone()));
        let all: Vec<_> = found.iter().map(of).collect();
        let expected = [
            ("generator_busy", Severity::Warning, busy),
            ("generator_stalled", Severity::Warning, stalled),
            ("more_than_answers", Severity::Refusal, surplus),
        ];
        assert_eq!(all, expected.map(|(guard, severity, text)| (guard.to_owned(), severity, text)));
        let runs = PhaseReport { requests: Some(RequestsReport::default()), ..PhaseReport::default() };
        assert_eq!(notes("load", &runs), []);
    }

    #[test]
    fn notes_of_a_worker_become_findings() {
        let mut asked = report(5, &[1]);
        asked.notes = vec!["groups were thinned".to_owned()];
        asked.verified = Some(Verified { exact: 3, ..Verified::default() });
        assert_eq!(notes("write", &asked).len(), 1, "an exact check needs no words");
        asked.verified = Some(Verified { exact: 3, one_of_several: 2, ..Verified::default() });
        let found = notes("write", &asked);
        let levels: Vec<(&str, Severity)> = found.iter().map(|found| (found.guard.as_str(), found.severity)).collect();
        let wanted = [("note_of_the_worker", Severity::Note), ("verified_in_part", Severity::Warning)];
        assert_eq!(levels, wanted, "a table of figures does not show that records were not checked");
    }

    #[test]
    fn writes_of_what_is_stored_are_named_where_they_are_a_hundredth() {
        let of = |unchanged| notes("run", &PhaseReport { unchanged: Some(unchanged), ..report(300, &[1]) });
        let found = of(Unchanged::Known(3)).remove(0);
        assert_eq!((found.guard.as_str(), found.severity), ("unchanged_writes", Severity::Warning));
        assert!(
            found.message.starts_with("3 of 300 operations stored what the record held already"),
            "{}",
            found.message
        );
        assert_eq!((of(Unchanged::Known(2)), of(Unchanged::Known(0))), (vec![], vec![]));
        assert_eq!(notes("run", &report(300, &[1])), vec![]);
        let found = of(Unchanged::NotKnown("some operations failed".to_owned())).remove(0);
        assert_eq!(found.guard, "unchanged_writes");
        assert!(
            found.message.starts_with("it is not known how many of 300 operations stored what the record held already")
        );
        assert!(found.message.ends_with("(some operations failed)"), "{}", found.message);
    }

    #[test]
    fn queries_that_found_nothing_are_named_where_another_found_something() {
        let of = |asked, found, rows| {
            let queries = Some(QueriesFound { asked, found });
            let found = notes("q", &PhaseReport { queries, rows: Some(rows), ..report(5, &[1]) });
            found.into_iter().map(|found| (found.guard, found.message)).collect::<Vec<_>>()
        };
        let named = |text: &str| vec![("nothing_found".to_owned(), text.to_owned())];
        assert_eq!(of(3, 0b101, 20), named("query 2 of 3 finds nothing in any of 5 operations"));
        assert_eq!(of(3, 0b010, 20), named("queries 1, 3 of 3 find nothing in any of 5 operations"));
        assert_eq!((of(3, 0b111, 20), of(2, 0, 0)), (vec![], vec![]), "a guard says that no row was found at all");
    }

    /// A trial that went well with one phase of a second, whose store needed so many bytes.
    fn trial(action: &str, disk: f64) -> TrialRecord {
        let mut readings = figures::readings::Readings::new();
        figures::readings::set(&mut readings, Metric::Disk, Reading::Measured(disk));
        figures::readings::set(&mut readings, Metric::Makespan, Reading::Measured(1e9));
        let phase = PhaseRecord {
            name: "write".into(),
            action: action.into(),
            timed: true,
            begin: Some(ms(0)),
            end: Some(ms(1_000)),
            readings: [(String::new(), readings)].into(),
            ..PhaseRecord::default()
        };
        TrialRecord {
            trial: PlannedTrial { block: 0, sub_block: 0, position: 0, variant: 0, label: Label::A, seed: 1 },
            started_unix_ms: 0,
            took: Nanos::ZERO,
            ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: vec![] },
            phases: vec![phase],
            effective: None,
            conditions: Conditions::default(),
            series: vec![],
            sampler_cpu: Reading::Measured(Nanos::ZERO),
            findings: vec![],
        }
    }

    #[test]
    fn remarks_are_of_notes_the_disk_the_begins_and_the_close() {
        let mut watched = watched(vec![snapshot(0, 0, &[7]), snapshot(2_000, 0, &[])], vec![]);
        watched.tracker = Tracker::new(&[spec()]);
        let mut noted = report(5, &[1]);
        noted.notes = vec!["groups were thinned".to_owned()];
        watched.tracker.phases[0].report = Some(Box::new(noted));
        let part = |at| WorkerPart { began: ms(at), ended: ms(900), report: Box::new(report(5, &[1])) };
        watched.tracker.phases[0].parts = vec![part(100), part(500), part(300)];
        let of = |record: &TrialRecord, closing: u64| {
            let worker = Report { asked_to_stop: Some(ms(2_000 - closing)), ..Report::default() };
            let found = remarks(Path::new("/"), record, &watched, &worker);
            found.into_iter().map(|finding| finding.guard).collect::<Vec<_>>()
        };
        // No disk has room for an exabyte.
        let all = ["note_of_the_worker", "replicas_released_apart", "disk_nearly_full", "untimed_close"];
        assert_eq!(of(&trial("put", 1e18), 400), all);
        assert!(!of(&trial("put", 1e18), 99).contains(&all[3].to_owned()), "every process takes some time to end");
        assert!(!of(&trial("close", 1e18), 400).contains(&all[3].to_owned()), "a phase measures it");
        let mut failed = trial("put", 1e18);
        failed.ending.outcome = Outcome::Killed;
        assert!(!of(&failed, 400).contains(&all[3].to_owned()));
    }
}
