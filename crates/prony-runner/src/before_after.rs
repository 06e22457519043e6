//! Brings the machine to a quiet state before each trial, and records its state before and after.

use prony_model::program::Care;
use prony_model::reading::Reading;
use prony_model::record::{Machine, Moment, Quiesced, ReferenceTimes};
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
    pub(crate) fn before(context: &RunContext<'_>) -> Self {
        if context.experiment.observe().care == Care::Light {
            return Self(None);
        }
        let quiet = quiesce(&context.near, QUIET_CAP, &SystemClock);
        let reference = context.reference_before();
        Self(Some((quiet, moment(None), reference)))
    }

    /// The machine before and after the trial, which has just ended.
    pub(crate) fn after(self, context: &RunContext<'_>) -> Reading<Machine> {
        match self.0 {
            None => Reading::not_supported(LIGHT),
            Some((quiet, before, reference)) => {
                let after = (moment(None), context.reference_after());
                Reading::Measured(Machine::between(quiet, (before, reference), after))
            }
        }
    }
}
