//! The state of the machine before and after a trial, and the times of the reference workloads (METHOD 4.10).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reading::{Reading, Why};
use crate::units::{Bytes, Nanos};

/// The machine before and after a trial, with its reference workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// When the trial began.
    pub before: Moment,
    /// When it had ended.
    pub after: Moment,
    /// The reference workloads before it.
    pub reference_before: ReferenceTimes,
    /// The reference workloads after it.
    pub reference_after: ReferenceTimes,
    /// What changed in between.
    pub change: Change,
    /// The flush of dirty pages before the trial.
    pub quiesced: Quiesced,
}

impl Machine {
    /// Combines the states before and after, each with its reference workloads.
    pub fn between(
        quiesced: Quiesced,
        (before, reference_before): (Moment, ReferenceTimes),
        after: (Moment, ReferenceTimes),
    ) -> Self {
        let (after, reference_after) = after;
        let change = Change::between(&before, &after);
        Self { before, after, reference_before, reference_after, change, quiesced }
    }
}

/// The machine at one instant; counters are since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// Mean of tasks running or waiting for a CPU or disk over the last minute.
    pub load: Reading<f64>,
    /// How long some task waited for each resource.
    pub pressure: Pressure,
    /// CPU time of the whole machine.
    pub cpu: Reading<CpuTicks>,
    /// Pages swapped in and out.
    pub swapped: Reading<u64>,
    /// Thermal throttling of all cores; missing in most virtual machines.
    pub throttled_thermal: Reading<u64>,
    /// Memory available without swapping.
    pub available: Reading<Bytes>,
    /// Pages waiting to be written back.
    pub dirty: Reading<Bytes>,
    /// Pages being written back.
    pub writeback: Reading<Bytes>,
    /// Frequency of the first processor, megahertz.
    pub megahertz: Reading<f64>,
}

/// CPU time of all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTicks {
    /// Ticks in all, idle ones included.
    pub all: u64,
    /// Ticks that the hypervisor gave to other virtual machines while a task of this one was runnable (steal).
    pub steal: u64,
    /// Idle ticks, waiting for I/O included.
    pub idle: u64,
}

/// Total times during which some task of the machine waited (PSI `some`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// For a CPU.
    pub cpu: Reading<Nanos>,
    /// For I/O.
    pub io: Reading<Nanos>,
    /// For memory.
    pub memory: Reading<Nanos>,
}

impl Pressure {
    /// Time added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let each = |now: &Reading<Nanos>, then: &Reading<Nanos>| now.clone().and(then.clone(), Nanos::since);
        Self {
            cpu: each(&self.cpu, &earlier.cpu),
            io: each(&self.io, &earlier.io),
            memory: each(&self.memory, &earlier.memory),
        }
    }
}

/// What happened between two moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Share of the time in which some task of the machine waited for a CPU.
    pub pressure_cpu: Reading<f64>,
    /// The same, for I/O.
    pub pressure_io: Reading<f64>,
    /// The same, for memory.
    pub pressure_memory: Reading<f64>,
    /// Share of the CPU time that the hypervisor gave to other virtual machines (steal).
    pub steal: Reading<f64>,
    /// Share of the processors' time in which they were idle.
    pub idle: Reading<f64>,
    /// Pages swapped in and out.
    pub swapped: Reading<u64>,
    /// Thermal throttling events.
    pub throttled_thermal: Reading<u64>,
}

impl Change {
    /// What happened from one moment to a later one.
    pub fn between(before: &Moment, after: &Moment) -> Self {
        let waited = after.pressure.since(&before.pressure);
        let wall = after.at.since(before.at).as_nanos();
        let of_wall = |time: Reading<Nanos>| share(time.map(|time| (time.as_nanos(), wall)));
        let cpu = |part: fn(CpuTicks) -> u64| {
            share(after.cpu.clone().and(before.cpu.clone(), |after, before| {
                (part(after).saturating_sub(part(before)), after.all.saturating_sub(before.all))
            }))
        };
        let added =
            |after: &Reading<u64>, before: &Reading<u64>| after.clone().and(before.clone(), u64::saturating_sub);
        Self {
            pressure_cpu: of_wall(waited.cpu),
            pressure_io: of_wall(waited.io),
            pressure_memory: of_wall(waited.memory),
            steal: cpu(|time| time.steal),
            idle: cpu(|time| time.idle),
            swapped: added(&after.swapped, &before.swapped),
            throttled_thermal: added(&after.throttled_thermal, &before.throttled_thermal),
        }
    }
}

fn share(parts: Reading<(u64, u64)>) -> Reading<f64> {
    match parts {
        Reading::Measured((_, 0)) => Reading::Missing(Why::TooFew { have: 0, need: 1 }),
        parts => parts.map(|(part, whole)| (part as f64 / whole as f64).min(1.0)),
    }
}

/// How long each reference workload took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceTimes {
    /// A fixed loop in registers.
    pub cpu: Nanos,
    /// Reading 48 MiB of touched memory.
    pub memory: Nanos,
    /// Four times a write of 4 KiB and fdatasync, in the directory of the store.
    pub fsync: Reading<Nanos>,
}

/// The flush of the machine's dirty pages before a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quiesced {
    /// Whether few dirty pages were left within the time limit.
    pub quiet: bool,
    /// How long it took, the sync included.
    pub waited: Nanos,
    /// Dirty and writeback pages of the machine at the end.
    pub unwritten: Reading<Bytes>,
    /// Whether the sync of the file system succeeded.
    pub synced: Reading<()>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: u64, all: u64, steal: u64) -> Moment {
        Moment {
            at: Nanos::from_secs(at),
            pressure: Pressure {
                cpu: Reading::Measured(Nanos::from_millis(100 * at)),
                io: Reading::Missing(Why::NotSupported("no PSI".into())),
                memory: Reading::Measured(Nanos::ZERO),
            },
            cpu: Reading::Measured(CpuTicks { all, steal, idle: all / 2 }),
            swapped: Reading::Measured(at),
            ..Moment::default()
        }
    }

    #[test]
    fn change_is_stated_as_shares_of_the_time_between() {
        let change = Change::between(&moment(10, 1000, 20), &moment(20, 3000, 120));
        assert_eq!(change.pressure_cpu, Reading::Measured(0.1));
        assert_eq!(change.pressure_memory, Reading::Measured(0.0));
        assert!(matches!(change.pressure_io, Reading::Missing(Why::NotSupported(_))));
        assert_eq!((change.steal, change.idle), (Reading::Measured(0.05), Reading::Measured(0.5)));
        assert_eq!(change.swapped, Reading::Measured(10));
    }

    #[test]
    fn no_time_has_no_shares() {
        let change = Change::between(&moment(10, 1000, 20), &moment(10, 1000, 20));
        assert!(matches!(change.steal, Reading::Missing(Why::TooFew { .. })));
        assert!(matches!(change.pressure_cpu, Reading::Missing(Why::TooFew { .. })));
    }
}
