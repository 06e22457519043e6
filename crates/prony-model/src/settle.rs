//! Defines when a process tree counts as quiet: the signs of activity, thresholds and times.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::reading::Why;
use crate::units::{Bytes, Fraction, Nanos};

crate::words! {
    /// A sign of activity, named as the metric that it is read from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Sign {
        /// CPU time of the process tree.
        Cpu = "cpu", "CPU time of the process tree";
        /// Bytes that its processes wrote.
        Written = "written", "bytes that its processes wrote";
        /// Blocks allocated to the store: they change where a process writes, truncates or removes a file.
        Disk = "disk", "blocks allocated to the store";
        /// Dirty and writeback pages of the store: the kernel writes them back at a time of its own choice.
        Dirty = "dirty", "dirty and writeback pages of the store";
    }
}

impl Sign {
    /// What it is.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Written => "bytes written",
            Self::Disk => "size of the store",
            Self::Dirty => "dirty pages of the store",
        }
    }

    /// The metric that holds its last activity.
    pub const fn metric(self) -> Metric {
        match self {
            Self::Cpu => Metric::SettleCpu,
            Self::Written => Metric::SettleWritten,
            Self::Disk => Metric::SettleDisk,
            Self::Dirty => Metric::SettleDirty,
        }
    }
}

/// Why a sign has no last activity: it was still active after `watched`, at the end of its phase.
pub fn not_settled(what: &str, watched: Nanos, within: Nanos) -> Why {
    let text = if watched < within {
        format!("when the phase ended, after {watched}: {what}")
    } else {
        format!("within {within}: {what}")
    };
    Why::NotSettled(text.into())
}

/// A set of signs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Sign>", into = "Vec<Sign>")]
pub struct Signs([bool; Sign::ALL.len()]);

impl Signs {
    /// What the processes do: the default of the signs that count.
    pub fn of_processes() -> Self {
        [Sign::Cpu, Sign::Written, Sign::Disk].into_iter().collect()
    }

    /// What the kernel does for the processes afterwards: the default of the further signs that a phase waits for.
    pub(crate) fn of_the_kernel() -> Self {
        [Sign::Dirty].into_iter().collect()
    }

    /// Whether it contains a sign.
    pub const fn contains(self, sign: Sign) -> bool {
        self.0[sign as usize]
    }

    /// The signs, in their order.
    pub fn iter(self) -> impl Iterator<Item = Sign> {
        Sign::ALL.into_iter().filter(move |sign| self.contains(*sign))
    }
}

impl FromIterator<Sign> for Signs {
    fn from_iter<I: IntoIterator<Item = Sign>>(signs: I) -> Self {
        let mut set = Self::default();
        signs.into_iter().for_each(|sign| set.0[sign as usize] = true);
        set
    }
}

impl From<Vec<Sign>> for Signs {
    fn from(signs: Vec<Sign>) -> Self {
        signs.into_iter().collect()
    }
}

impl From<Signs> for Vec<Sign> {
    fn from(signs: Signs) -> Self {
        signs.iter().collect()
    }
}

impl fmt::Debug for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Sign::name)).finish()
    }
}

/// When a process tree and its store count as quiet (METHOD 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettleSpec {
    /// CPU, writes, size and dirty pages must stay under the thresholds for this time.
    pub quiet: Nanos,
    /// After this time the result is `not settled`.
    pub within: Nanos,
    /// CPU of the tree, as a share of one core, below which it is quiet.
    pub cpu: Fraction,
    /// Bytes written per second, growth and dirty pages of the store below which it is quiet.
    pub bytes: Bytes,
    /// Signs whose last activity is `settle.time`.
    pub of: Signs,
    /// Further signs that the phase waits for; their last activity is in separate metrics.
    pub beside: Signs,
}

impl Default for SettleSpec {
    /// The defaults.
    fn default() -> Self {
        Self {
            quiet: Nanos::from_secs(2),
            within: Nanos::from_secs(600),
            cpu: Fraction::new(0.02).unwrap_or_default(),
            bytes: Bytes::from_bytes(1_000_000),
            of: Signs::of_processes(),
            beside: Signs::of_the_kernel(),
        }
    }
}
