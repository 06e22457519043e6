//! Readings: a value that was measured, or the reason why it is missing. A zero never means "not known".

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value measured, or the reason why it is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The value, as observed.
    Measured(T),
    /// Not measured, and why.
    Missing(Why),
}

/// Why a reading is missing.
// Texts are shared: thousands of trials of a run have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// This machine or user may not read it; the text says what would allow it.
    NotPermitted(Arc<str>),
    /// The kernel, engine or runtime does not offer it.
    NotSupported(Arc<str>),
    /// The phase was never reached, or did not end.
    NotReached,
    /// It was not requested, or has no meaning here.
    NotApplicable,
    /// Too few samples to state it.
    TooFew {
        /// How many there are.
        have: u64,
        /// How many are needed.
        need: u64,
    },
    /// The value is infinite: a percentile that falls among failed operations.
    Infinite {
        /// Operations that failed.
        failed: u64,
        /// Of so many operations.
        of: u64,
    },
    /// A sign of activity was still active when the phase ended: the time until it was quiet is longer than any that was
    /// measured.
    NotSettled(Arc<str>),
    /// It was measured but does not count; the text says why.
    DoesNotCount(Arc<str>),
    /// The attempt to read it failed; the text is the cause.
    Failed(Arc<str>),
}

impl<T> Default for Reading<T> {
    /// Not requested.
    fn default() -> Self {
        Self::Missing(Why::NotApplicable)
    }
}

impl Reading<f64> {
    /// The value by which trials are ordered for a median and a range: infinity where it is larger than any that was
    /// measured ([`Why::is_infinite`]), since to leave such a trial out would make the median smaller.
    pub fn ordered(&self) -> Option<f64> {
        match self {
            Self::Measured(value) => Some(*value),
            Self::Missing(why) => why.is_infinite().then_some(f64::INFINITY),
        }
    }
}

impl Why {
    /// Whether the value is larger than any that was measured: a percentile that falls among failed operations (METHOD 1.4),
    /// or the time of an activity that did not end.
    pub const fn is_infinite(&self) -> bool {
        matches!(self, Self::Infinite { .. } | Self::NotSettled(_))
    }

    /// What stands in the place of such a value.
    pub const fn infinite_word(&self) -> &'static str {
        if matches!(self, Self::NotSettled(_)) { "not settled" } else { "infinite" }
    }
}

impl<T> Reading<T> {
    /// Missing: the attempt to read it failed, for this cause.
    pub fn failed(cause: impl Into<Arc<str>>) -> Self {
        Self::Missing(Why::Failed(cause.into()))
    }

    /// Missing: the kernel, engine or runtime does not offer it.
    pub fn not_supported(why: impl Into<Arc<str>>) -> Self {
        Self::Missing(Why::NotSupported(why.into()))
    }

    /// The value, where there is one.
    pub fn measured(&self) -> Option<&T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Missing(_) => None,
        }
    }

    /// The same reading with its value converted.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Measured(value) => Reading::Measured(f(value)),
            Self::Missing(why) => Reading::Missing(why),
        }
    }

    /// What `f` reads by means of the value; missing where this is.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Measured(value) => f(value),
            Self::Missing(why) => Reading::Missing(why),
        }
    }

    /// Combines two readings: measured where both are, else the first reason.
    pub fn and<U, V>(self, other: Reading<U>, f: impl FnOnce(T, U) -> V) -> Reading<V> {
        match (self, other) {
            (Self::Measured(a), Reading::Measured(b)) => Reading::Measured(f(a, b)),
            (Self::Missing(why), _) | (_, Reading::Missing(why)) => Reading::Missing(why),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted(text) => write!(f, "not permitted: {text}"),
            Self::NotSupported(text) => write!(f, "not supported: {text}"),
            Self::NotReached => f.write_str("not reached"),
            Self::NotApplicable => f.write_str("not applicable"),
            Self::TooFew { have: 0, need: 1 } => f.write_str("no samples"),
            Self::TooFew { have, need } => write!(f, "too few samples: {have}, and it needs {need}"),
            Self::Infinite { failed, of } => write!(f, "infinite, since {failed} of {of} operations failed"),
            Self::NotSettled(text) => write!(f, "not settled {text}"),
            Self::DoesNotCount(text) => write!(f, "does not count: {text}"),
            Self::Failed(text) => f.write_str(text),
        }
    }
}
