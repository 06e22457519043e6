//! Which records operations and requests work on, and when they start.

use serde::{Deserialize, Serialize};

use crate::units::{Fraction, Nanos, PerSecond};

/// Which record an operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By number: 0, 1, 2 ...
    Record,
    /// By the keys' byte order.
    Key,
    /// Each once, in a seeded random order (a bijection; no list in memory).
    Shuffled,
    /// Independent draws, all equally likely.
    Uniform,
    /// YCSB's scrambled zipfian.
    Zipfian {
        /// The exponent; YCSB uses 0.99.
        theta: f64,
    },
    /// YCSB's latest: zipfian back from the newest record.
    Latest {
        /// The exponent; YCSB uses 0.99.
        theta: f64,
    },
    /// A share of the operations goes to a share of the records.
    Hotspot {
        /// Share of the records that is hot.
        records: Fraction,
        /// Share of the operations that goes to the hot records.
        operations: Fraction,
    },
}

/// An open loop's schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Operations per second over all clients.
    pub rate: PerSecond,
    /// Exponential gaps instead of equal ones.
    pub poisson: bool,
}

/// A part of an open loop's schedule in which the rate is the same, or rises or falls evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateStep {
    /// The rate at its begin, over all clients.
    pub from: PerSecond,
    /// The rate at its end.
    pub to: PerSecond,
    /// How long it lasts.
    pub time: Nanos,
}

impl RateStep {
    /// How many operations are due in it, on average where they arrive at random.
    pub fn operations(&self) -> f64 {
        f64::midpoint(self.from.get(), self.to.get()) * self.time.as_secs_f64()
    }
}
