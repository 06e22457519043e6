//! Events that the runner emits during a run, and the observers that receive them: the terminal, JSON lines and tests.

use serde::{Deserialize, Serialize};

use crate::crash::CutRecord;
use crate::outcome::Ending;
use crate::reading::Reading;
use crate::trial::PlannedTrial;
use crate::units::{Bytes, Nanos};

/// Why a plan has no verdict to expect, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoVerdict {
    /// Why.
    pub why: String,
    /// What to do, where something can be done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
}

/// An event of a run. `--json` prints one a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// The run begins or is resumed.
    RunBegan {
        /// Its number in the results database.
        run: i64,
        /// The experiment's title.
        title: String,
        /// Variants.
        variants: usize,
        /// Blocks planned; 0 where a time budget decides their number.
        blocks: u32,
        /// Trials planned; 0 where a time budget decides their number.
        trials: u32,
        /// The time budget of the run, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        budget: Option<Nanos>,
        /// Trials that an earlier session of this run has finished.
        done: u32,
        /// Why no verdict is to be expected, whatever is measured; absent where one is, or nothing is compared.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        no_verdict: Option<NoVerdict>,
    },
    /// The machine is being measured: `fsync`, `memory`, `disk` ...
    HostProbe {
        /// The part of the machine that is measured.
        what: String,
    },
    /// A large program directory is being copied; emitted repeatedly with the progress.
    Copying {
        /// The directory, as the file names it.
        directory: String,
        /// Bytes copied so far.
        done: Bytes,
        /// Bytes in all.
        total: Bytes,
    },
    /// A trial begins.
    TrialBegan {
        /// Which.
        trial: PlannedTrial,
        /// The variant's levels as text.
        variant: String,
    },
    /// A phase begins.
    PhaseBegan {
        /// Position of its trial.
        position: u32,
        /// Its name.
        phase: String,
    },
    /// The progress of a running phase.
    Progress {
        /// Position of its trial.
        position: u32,
        /// Its phase.
        phase: String,
        /// Operations so far.
        operations: u64,
        /// Operations in all, where they are counted.
        total: Option<u64>,
    },
    /// A phase ended.
    PhaseEnded {
        /// Position of its trial.
        position: u32,
        /// Its name.
        phase: String,
        /// Its time.
        time: Nanos,
    },
    /// A trial ended and is on disk.
    TrialEnded {
        /// Which.
        trial: PlannedTrial,
        /// The variant's levels as text.
        variant: String,
        /// How.
        ending: Ending,
        /// From launch to clean-up.
        took: Nanos,
        /// Phase name and time of each phase that ended.
        phases: Vec<(String, Nanos)>,
        /// Trials that have ended.
        done: u32,
        /// Trials planned now; with a time budget, about as many as fit.
        trials: u32,
        /// About how long the rest of the run takes at most, overhead between trials included; updated after each
        /// trial. `None` where that is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        left: Option<Nanos>,
    },
    /// The extra trial of a profile begins, after the plan's own trials.
    ProfileBegan {
        /// The extra trial, which is not part of the plan.
        trial: PlannedTrial,
        /// The variant's levels as text.
        variant: String,
        /// Number of profiles that the run will have in the end.
        profiles: u32,
        /// Number of profiles that exist already, from this session or earlier ones.
        done: u32,
    },
    /// A profile is stored, or why there is none.
    ProfileEnded {
        /// The variant's levels as text.
        variant: String,
        /// How the trial ended; `None` where none ran.
        ending: Option<Ending>,
        /// Samples taken while something ran, or why there are none.
        samples: Reading<u64>,
        /// What is missing in the profile, and why.
        notes: Vec<String>,
        /// Number of the run's profiles that exist now.
        done: u32,
        /// Number of profiles that the run will have in the end.
        profiles: u32,
    },
    /// A cut of a crash trial is stored.
    CutEnded {
        /// The variant's levels as text.
        variant: String,
        /// What was cut, and what was found.
        record: Box<CutRecord>,
        /// Number of the run's cuts that are over.
        done: u32,
        /// Number of cuts that the run will have in the end.
        cuts: u32,
    },
    /// Something that a user should know.
    Notice {
        /// The text, with a hint after it.
        text: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The run ended.
    RunEnded {
        /// Its number.
        run: i64,
        /// Trials that ended well.
        ok: u32,
        /// Trials that ended otherwise.
        failed: u32,
        /// Whether it was interrupted.
        interrupted: bool,
    },
}

/// Receives every event of a run, in order.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event);
}

/// Collects events in memory.
#[derive(Default)]
pub struct Log {
    /// In order.
    pub events: Vec<Event>,
}

impl Observer for Log {
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
}
