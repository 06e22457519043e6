//! A guard that checks whether a phase and its background ran at the same time.

use serde_json::json;

use super::{Finding, Severity, percent};
use prony_model::protocol::PhaseReport;
use prony_model::units::Nanos;

/// Share of their time that a phase and its background must be in timed sections together, below which it is reported.
const TOGETHER: f64 = 0.9;

/// Share of the background's time that may lie after the phase's own operations.
const AFTER: f64 = 0.05;

/// A phase and its background did not run at the same time for long: the operations of each are prepared outside timed sections,
/// when those of the other have the store for themselves, and operations of the background may end after the phase's own.
pub fn apart(phase: &str, own: &PhaseReport, background: &PhaseReport) -> Option<Finding> {
    let (overlap, tail) = (background.overlap?, background.tail?);
    let share = |part: Nanos, of: Nanos| match of {
        Nanos::ZERO => 0.0,
        of => (part.as_nanos() as f64 / of.as_nanos() as f64).min(1.0),
    };
    let (of_own, of_background) = (share(overlap, own.time), share(overlap, background.time));
    let after = share(tail, background.time);
    // An open loop waits between its operations.
    let together = background.lag.is_some() || of_own.min(of_background + after) >= TOGETHER;
    if together && after <= AFTER {
        return None;
    }
    let (message, hint) = if after > AFTER {
        let message = format!(
            "the background went on for {} of its time after the phase's own operations had ended",
            percent(after)
        );
        (message, "give the phase more operations, or the background shorter ones: its metrics include that time")
    } else {
        let message = format!(
            "the background was in timed sections for {} of the time of the phase's own operations, and these for {} of the \
             background's time; in the rest, operations of the other were being prepared",
            percent(of_own),
            percent(of_background)
        );
        let hint = "make values smaller or less compressible so that preparing them is cheap, or give the background more \
                    `threads`";
        (message, hint)
    };
    let found = Finding::of("background_apart", Severity::Note, message, hint).in_phase(phase);
    Some(found.with(json!({ "of_phase": of_own, "of_background": of_background, "after": after })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::tests::{ops, phase, spec, variant_trials, worked};
    use crate::guard::{trial, variants};
    use prony_model::metric::{Metric, MetricKey};
    use prony_model::reading::Reading;
    use prony_model::record::MetricKeyText;
    use prony_model::spec::{Action, Amount, ScanSpec};

    fn message(own: u64, background: u64, both: u64, tail: u64, open_loop: bool) -> Option<String> {
        let ms = Nanos::from_millis;
        let phase = PhaseReport { time: ms(own), ..PhaseReport::default() };
        let lag = open_loop.then_some(Nanos::ZERO);
        let (time, overlap, tail) = (ms(background), Some(ms(both)), Some(ms(tail)));
        let background = PhaseReport { time, overlap, tail, lag, ..PhaseReport::default() };
        apart("write", &phase, &background).map(|found| found.message)
    }

    #[test]
    fn background_that_seldom_ran_beside_the_phase_is_named() {
        assert_eq!(message(100, 95, 92, 0, false), None);
        let apart = message(100, 200, 80, 0, false).unwrap();
        assert!(apart.contains("for 80 % of the time of the phase's own operations, and these for 40 %"), "{apart}");
        assert!(message(100, 0, 0, 0, false).is_some(), "it did nothing");
        assert_eq!(message(100, 200, 80, 0, true), None, "an open loop waits between its operations");
    }

    #[test]
    fn background_that_goes_on_after_the_phase_is_named() {
        let after = message(100, 200, 100, 100, false).unwrap();
        assert_eq!(after, "the background went on for 50 % of its time after the phase's own operations had ended");
        assert_eq!(message(100, 200, 100, 100, true).as_deref(), Some(after.as_str()));
        assert_eq!(message(100, 103, 99, 4, false), None);
    }

    /// Readers beside a writer of new records found 4 % of them in one variant and 35 % in the other: "4.47 times slower".
    #[test]
    fn reads_of_a_background_are_compared_where_as_many_of_them_found_a_record() {
        let mut readers = spec("lmdb");
        readers.phases[0].background = Some(Action::Get(ops(Amount::Background)));
        let of = |name: &str, misses: [f64; 2]| {
            let [a, b] = misses.map(|misses| {
                let mut record = worked(&[]);
                let counts = [(Metric::Operations, 1000.0), (Metric::Misses, misses)];
                let counts = counts.map(|(metric, n)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n)));
                record.phases[0].readings.insert("background".into(), counts.into());
                record
            });
            let name = name.parse().unwrap();
            variants::unequal_offer([&variant_trials("x", &readers, &a), &variant_trials("y", &readers, &b)], &name)
        };
        let why = "the background of `write`: 96 % of the operations of `x` found no record, but 65 % of those of `y`";
        assert_eq!(of("write.background.rate", [960.0, 650.0]).as_deref(), Some(why));
        assert!(of("write.background.latency.p99", [0.0, 11.0]).is_some());
        assert_eq!(of("write.background.latency.p99", [0.0, 9.0]), None);
        assert_eq!(of("write.rate", [960.0, 650.0]), None, "the phase itself reads nothing");
        assert!(of("write.fdatasync", [0.0, 0.0]).is_none() && of("write.wall", [0.0, 0.0]).is_some());
    }

    /// They were called removals beside a phase that removes.
    #[test]
    fn background_that_finds_nothing_is_named_by_its_own_action() {
        let said = |own: &str, background: Action| -> Vec<String> {
            let mut spec = spec("lmdb");
            spec.phases[0].background = Some(background);
            let mut record = worked(&[]);
            record.phases[0].action = own.to_owned();
            let counts = [(Metric::Operations, 50.0), (Metric::Rows, 0.0), (Metric::Misses, 50.0)];
            let counts = counts.map(|(metric, n)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n)));
            record.phases[0].readings.insert("background".into(), counts.into());
            let found = super::super::trial::check(&spec, &record, Nanos::ZERO);
            found
                .into_iter()
                .filter(|finding| finding.guard == "nothing_found")
                .map(|finding| finding.message)
                .collect()
        };
        for own in ["delete", "put"] {
            let message = said(own, Action::Get(ops(Amount::Background)));
            assert_eq!(message, ["50 reads of the background found no row at all"], "beside `{own}`");
        }
    }

    /// fjall removed 145,000 times from 20,000 records, and was "40 times faster" than LMDB, which found most of them.
    #[test]
    fn removals_that_last_a_time_are_compared_where_it_is_known_how_many_found_a_record() {
        let mut removing = spec("lmdb");
        removing.phases[0].background = Some(Action::Delete(ops(Amount::Background)));
        let of = |misses: [Option<f64>; 2]| {
            let [a, b] = misses.map(|misses| {
                let mut record = worked(&[]);
                let counts = [(Metric::Operations, Some(1000.0)), (Metric::Misses, misses)];
                let known = counts.into_iter().filter_map(|(metric, n)| Some((metric, n?)));
                let known = known.map(|(metric, n)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n)));
                record.phases[0].readings.insert("background".into(), known.collect());
                record
            });
            let name = "write.background.rate".parse().unwrap();
            variants::unequal_offer([&variant_trials("x", &removing, &a), &variant_trials("y", &removing, &b)], &name)
        };
        let why = "the background of `write`: how many removals of `y` found a record is not known, and they lasted a given time: bound \
                   them by `count`";
        assert_eq!(of([Some(0.0), None]).as_deref(), Some(why));
        assert!(of([None, None]).is_some() && of([Some(0.0), Some(5.0)]).is_none());
    }

    #[test]
    fn scans_of_a_background_are_compared_where_they_found_as_many_rows() {
        let mut readers = spec("lmdb");
        let scan = ScanSpec { ops: ops(Amount::Background), length: None };
        readers.phases[0].background = Some(Action::Scan(scan));
        let of = |rows: [f64; 2]| {
            let [a, b] = rows.map(|rows| {
                let mut record = worked(&[]);
                let counts = [(Metric::Operations, 10.0), (Metric::Rows, rows)];
                let counts = counts.map(|(metric, n)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n)));
                record.phases[0].readings.insert("background".into(), counts.into());
                record
            });
            let name = "write.background.rate".parse().unwrap();
            variants::unequal_offer([&variant_trials("x", &readers, &a), &variant_trials("y", &readers, &b)], &name)
        };
        let why = "the background of `write`: an operation of `x` found 4.0 rows, but one of `y` 9.0";
        assert_eq!(of([40.0, 90.0]).as_deref(), Some(why));
        assert_eq!((of([95.0, 90.0]), of([0.0, 0.0])), (None, None));
    }

    #[test]
    fn errors_of_a_phase_and_of_its_background_are_named_apart() {
        let mut both = phase("write", &[(Metric::Errors, 1.0), (Metric::Operations, 7.0)]);
        both.errors = [("locked", 1), ("background: busy", 4)].map(|(text, times)| (text.to_owned(), times)).into();
        let counts = [(Metric::Errors, 4.0), (Metric::Operations, 9.0)];
        let counts = counts.map(|(metric, n)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n)));
        both.readings.insert("background".into(), counts.into());
        let message = |instance| trial::errors_present(&both, instance, None).unwrap().message;
        assert_eq!(message(""), "1 operation failed and 7 succeeded, most often: `locked`");
        assert_eq!(message("background"), "4 operations of the background failed and 9 succeeded, most often: `busy`");
    }
}
