//! Brings the machine to a quiet state before each trial, and records its state before and after.

use prony_model::program::Care;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Machine, Moment, Quiesced, ReferenceTimes};
use prony_model::spec::TrialSpec;
use prony_model::units::Nanos;
use prony_os::clock::SystemClock;
use prony_os::host::{moment, quiesce};

use crate::run_context::RunContext;

/// The longest wait for a quiet disk before a trial: other processes may write to it all the time.
const QUIET_CAP: Nanos = Nanos::from_secs(10);

/// Why the state of the machine is missing with light care.
const LIGHT: &str = "with light care, prony neither runs reference workloads nor reads the machine's state";

/// What was done and read before a trial.
#[derive(Debug)]
pub(crate) struct BeforeAfter(Option<(Quiesced, Moment, ReferenceTimes)>);

impl BeforeAfter {
    /// Flushes dirty pages and reads the state of the machine, where the experiment asks for full care.
    pub(crate) fn before(context: &RunContext) -> Self {
        if context.experiment.observe().care == Care::Light {
            return Self(None);
        }
        let quiet = quiesce(&context.near, QUIET_CAP, &SystemClock);
        let reference = context.reference_before();
        Self(Some((quiet, moment(), reference)))
    }

    /// The same when its services are ready: what was written until then, by copies of data, `prepare` and `setup`, is no work of a
    /// phase.
    pub(crate) fn with_services(self, context: &RunContext) -> Self {
        Self(self.0.map(|(_, before, reference)| (quiesce(&context.near, QUIET_CAP, &SystemClock), before, reference)))
    }

    /// The machine before and after the trial, which has just ended.
    pub(crate) fn after(self, context: &RunContext, spec: &TrialSpec) -> Reading<Machine> {
        match self.0 {
            None => Reading::not_supported(LIGHT),
            Some((quiet, before, reference)) => {
                let after = (moment(), context.reference_after());
                let machine = Machine::between(quiet, (before, reference), after);
                Reading::Measured(if limits_memory(spec) { without_own_pressure(machine) } else { machine })
            }
        }
    }
}

/// Why a trial under a limit on memory says nothing of the machine's.
const OWN_LIMIT: &str =
    "processes that reach the trial's own limit on memory wait for it too, and the machine counts them";

/// Whether a limit on memory makes processes of the trial wait for memory, whatever the machine has.
fn limits_memory(spec: &TrialSpec) -> bool {
    let services = spec.services.iter().map(|service| &service.limits);
    std::iter::once(&spec.limits).chain(services).any(|limits| limits.memory.is_some())
}

/// The machine without what may be the trial's own doing: such a trial is not disturbed.
fn without_own_pressure(mut machine: Machine) -> Machine {
    machine.change.pressure_memory = Reading::Missing(Why::DoesNotCount(OWN_LIMIT.into()));
    machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::record::Change;

    #[test]
    fn waits_for_memory_under_an_own_limit_are_no_disturbance() {
        let change = Change {
            pressure_memory: Reading::Measured(0.2),
            swapped: Reading::Measured(7),
            steal: Reading::Measured(0.3),
            ..Change::default()
        };
        let Change { pressure_memory, swapped, steal, .. } =
            without_own_pressure(Machine { change, ..Machine::default() }).change;
        assert!(matches!(pressure_memory, Reading::Missing(Why::DoesNotCount(_))), "{pressure_memory:?}");
        // The group of the trial may not swap.
        assert_eq!(swapped, Reading::Measured(7));
        assert_eq!(steal, Reading::Measured(0.3), "no limit of the trial causes it");
    }
}
