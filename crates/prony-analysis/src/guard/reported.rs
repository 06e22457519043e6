//! Compares what a program reported of itself with what was measured.

use prony_model::metric::Metric;
use prony_model::record::TrialRecord;
use prony_model::units::Nanos;
use serde_json::json;

use super::{Finding, Severity, amount};

/// A time that a program reports may exceed its phase's by so much: the clocks are read at different instants.
const EXCESS: f64 = 0.1;

/// Phases that took less by the clock than the program reported as their time: it reported another time, in another unit, or
/// the sum of several threads. Calls are timed by the probe, and replicas have times of their own.
pub fn too_long(record: &TrialRecord) -> Vec<Finding> {
    let Some(program) = record.program() else { return Vec::new() };
    let watched = record.phases.iter().filter(|phase| phase.action == "observe" && phase.timed);
    let own = watched.filter(|phase| !program.calls.contains_key(&phase.name) && program.replicas.is_none());
    let found = own.filter_map(|phase| {
        let (time, wall) = (amount(phase, Metric::Time)?, amount(phase, Metric::Wall)?);
        // If the lateness of its boundaries is not known, it is not known either that the time is too long.
        let lag = amount(phase, Metric::Lag)?;
        let [reported, took] = [time, wall].map(|nanos| Nanos::from_nanos(nanos as u64));
        let message = format!("the program reported a time of {reported}, and the phase took {took}");
        let hint = "compare `wall`; let the pattern name the unit, as `time_ms`; where it is the sum of several threads, report it \
                    as another metric";
        let finding = Finding::of("reported_time_exceeds_wall", Severity::Warning, message, hint).in_phase(&phase.name);
        (time > (wall + lag) * (1.0 + EXCESS)).then(|| finding.with(json!({ "time_ns": time, "wall_ns": wall })))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use prony_model::metric::MetricKey;
    use prony_model::outcome::Outcome;
    use prony_model::reading::Reading;
    use prony_model::record::{Completion, EffectiveProgram, MetricKeyText};

    use super::super::program::tests::{phase, record};
    use super::*;

    #[test]
    fn reported_time_that_exceeds_its_phase_is_a_warning() {
        let found = |time: f64, wall: f64| {
            let amounts = [(Metric::Time, time), (Metric::Wall, wall), (Metric::Lag, 1e6)];
            let readings =
                amounts.map(|(metric, value)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(value)));
            let mut trial = record(Outcome::Ok, EffectiveProgram::default());
            trial.phases = vec![phase("run", Completion::Complete)];
            trial.phases[0].readings.insert(String::new(), readings.into());
            too_long(&trial)
        };
        assert_eq!([found(0.9e9, 1e9), found(1.05e9, 1e9)], [vec![], vec![]]);
        let found = found(100e9, 0.16e9);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].message.contains("160.00 ms"), "{}", found[0].message);
    }
}
