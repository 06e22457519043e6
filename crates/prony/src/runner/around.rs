//! What is done around each trial so that it finds the machine at rest, and what the machine was like.

use prony_model::program::Care;
use prony_model::units::Nanos;
use prony_os::clock::SystemClock;
use prony_os::host::{Canary, Conditions, Moment, Quiesced, quiesce};
use serde_json::{Value, json};

use super::lab::Lab;

/// Others may write to the disk without end: so long a trial waits for quiet.
const QUIET_CAP: Nanos = Nanos::from_secs(10);

/// What was done and seen before a trial.
#[derive(Debug)]
pub struct Around(Option<(Quiesced, Moment, Canary)>);

impl Around {
    /// Brings the disk to rest and looks at the machine, where the experiment asks for full care.
    pub fn before(lab: &Lab<'_>) -> Self {
        if lab.experiment.observe().care == Care::Light {
            return Self(None);
        }
        let quiet = quiesce(&lab.near, QUIET_CAP, &SystemClock);
        let canary = lab.canary_before();
        Self(Some((quiet, Moment::now(None), canary)))
    }

    /// Everything known of the machine around the trial, with `more`, as one object.
    pub fn after(self, lab: &Lab<'_>, more: Value) -> Value {
        let mut all = match self.0 {
            None => json!({ "skipped": "canaries, quiet and the machine's state: the experiment asks for light care" }),
            Some((quiet, moment, canary)) => {
                let conditions = Conditions::between(moment, canary, Moment::now(None), lab.canary_after());
                let mut all = json!(conditions);
                all["quiesced"] = json!(quiet);
                all
            }
        };
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    }
}
