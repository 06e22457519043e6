//! Guards that check the background of a phase.

use serde_json::json;

use super::{Finding, Severity, percent};
use prony_model::metric::{Metric, MetricKey};
use prony_model::record::{MetricKeyText, PhaseRecord};
use prony_model::spec::BACKGROUND;
use prony_model::units::Nanos;

/// Share of their time that a phase and its background must be in timed sections together, below which it is reported.
const TOGETHER: f64 = 0.9;

/// No operation of the background found a record, where it reads.
pub(crate) fn nothing_found(phase: &PhaseRecord) -> Option<Finding> {
    let of =
        |metric| phase.readings.get(BACKGROUND)?.get(&MetricKeyText(MetricKey::amount(metric)))?.measured().copied();
    let (rows, done) = (of(Metric::Rows)?, of(Metric::Operations)?);
    if rows > 0.0 || done == 0.0 {
        return None;
    }
    let hint = "check whether an earlier phase stores the records that the background reads";
    let message = format!("{done:.0} operations of the background found no row at all");
    Some(Finding::of("nothing_found", Severity::Warning, message, hint).in_phase(&phase.name))
}

/// A phase and its background were not at work at the same time for long: the operations of each are prepared outside timed
/// sections, when those of the other have the store for themselves. `times` are those in timed sections.
pub fn apart(phase: &str, (own, background): (Nanos, Nanos), both: Nanos) -> Option<Finding> {
    let share =
        |of: Nanos| if of == Nanos::ZERO { 0.0 } else { (both.as_nanos() as f64 / of.as_nanos() as f64).min(1.0) };
    let (own, beside) = (share(own), share(background));
    if own.min(beside) >= TOGETHER {
        return None;
    }
    let message = format!(
        "the background was in timed sections for {} of the time of the phase's own operations, and these for {} of the \
         background's time; in the rest, operations of the other were being prepared",
        percent(own),
        percent(beside)
    );
    let hint = "make values smaller or less compressible so that preparing them is cheap, or give the background more \
                `threads`";
    let found = Finding::of("background_apart", Severity::Note, message, hint).in_phase(phase);
    Some(found.with(json!({ "of_phase": own, "of_background": beside })))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use prony_model::reading::Reading;
    use prony_model::record::Completion;

    fn record() -> PhaseRecord {
        PhaseRecord {
            name: "write".into(),
            action: "put".into(),
            timed: true,
            completion: Completion::Complete,
            begin: Some(Nanos::ZERO),
            end: Some(Nanos::from_secs(1)),
            readings: BTreeMap::new(),
            histograms: Vec::new(),
            groups: None,
            throughput: None,
            answer: None,
            errors: BTreeMap::new(),
        }
    }

    #[test]
    fn background_that_reads_nothing_is_named() {
        let of = |rows: f64, done: f64| {
            let mut phase = record();
            let readings = [(Metric::Rows, rows), (Metric::Operations, done)];
            let readings = readings.map(|(m, v)| (MetricKeyText(MetricKey::amount(m)), Reading::Measured(v)));
            phase.readings.insert("background".into(), readings.into());
            nothing_found(&phase).map(|found| found.message)
        };
        assert_eq!(of(0.0, 7.0).as_deref(), Some("7 operations of the background found no row at all"));
        assert_eq!((of(1.0, 7.0), of(0.0, 0.0)), (None, None));
    }

    #[test]
    fn background_that_seldom_ran_beside_the_phase_is_named() {
        let ms = Nanos::from_millis;
        let of = |own, background, both| apart("write", (ms(own), ms(background)), ms(both));
        assert_eq!(of(100, 95, 92), None);
        let message = of(100, 200, 80).unwrap().message;
        assert!(
            message.contains("for 80 % of the time of the phase's own operations, and these for 40 %"),
            "{message}"
        );
        assert!(of(100, 0, 0).is_some(), "it did nothing");
    }
}
