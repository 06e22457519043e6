//! Metrics of the command of a phase beside services, which are those of the load: what it and the processes that it started used up
//! to the end of its own process. Pure functions.

use prony_model::metric::Metric;
use prony_model::reading::Reading;
use prony_model::record::ProcessSeries;
use prony_model::units::Nanos;
use prony_os::sample::parse::GroupCpu;
use prony_os::sample::{Snapshot, insert_peak, readings_with_ends};

use crate::figures::counted::{COUNTED, known_end, peak_of, set_counted, without_unwaited};
use crate::figures::readings::{Readings, nanos, set};
use crate::watched::replicas::spent;
use crate::watched::report::{COMMAND, Commanded};

/// The metrics of a command between the snapshots at the begin and at the end of its phase.
pub(super) fn readings(ran: &Commanded, snapshots: &[Snapshot], series: &[ProcessSeries]) -> Readings {
    let (Some(begin), Some(end)) = (snapshots.first(), snapshots.last()) else { return Readings::new() };
    // Commands of other phases have the same role.
    let inside = |process: &&ProcessSeries| {
        process.role == COMMAND && process.samples.iter().any(|sample| begin.at < sample.at && sample.at <= end.at)
    };
    let series: &[ProcessSeries] = &series.iter().filter(inside).cloned().collect::<Vec<_>>();
    let peak = peak_of("the command", COMMAND, (Some(&ran.end), ran.before.as_ref()), (snapshots, series));
    let several = peak.measured().is_none();
    let ends = known_end(ran.before.as_ref(), &ran.end, several).map(|end| (COMMAND.to_owned(), end));
    let mut readings = readings_with_ends(begin, end, series, COMMAND, &ends.into_iter().collect());
    insert_peak(&mut readings, peak);
    let spent = spent(ran.before, &ran.end);
    set_counted(&mut readings, &COUNTED, &spent);
    // The group also counts children that nobody waited for, and what was used up to now by processes that still run.
    let group = |snapshot: &Snapshot| snapshot.groups.get(COMMAND).and_then(|group| group.measured().copied());
    if let Some(group) = group(end).zip(group(begin)).map(|(end, begin)| GroupCpu::since(end, begin)) {
        set(&mut readings, Metric::Cpu, nanos(group.total));
        match spent {
            Reading::Measured(spent) => {
                let waited = spent.cpu_user + spent.cpu_system;
                without_unwaited(&mut readings, group.total.as_nanos() as f64, (waited.as_nanos() as f64, Nanos::ZERO));
            }
            Reading::Missing(_) => {
                set(&mut readings, Metric::CpuUser, nanos(group.user));
                set(&mut readings, Metric::CpuSystem, nanos(group.system));
            }
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_model::reading::Why;
    use prony_model::record::MetricKeyText;
    use prony_model::units::Bytes;
    use prony_os::launch::{CpuTime, Usage};

    use super::*;
    use crate::figures::span::tests::{ms, snapshot, watched};

    /// A snapshot at which the command's control group has used so much, where it has one.
    fn at(instant: u64, group: Option<u64>) -> Snapshot {
        let used = |total| Reading::Measured(GroupCpu { total: ms(total), user: ms(total), system: ms(0) });
        let groups = group.map(|total| (COMMAND.to_owned(), used(total))).into_iter().collect::<BTreeMap<_, _>>();
        Snapshot { groups, ..snapshot(instant, 0, &[]) }
    }

    /// A command that had used 2 ms before its program began, of whose tree `cpu` was counted at its end.
    fn ran(cpu: Reading<u64>) -> Commanded {
        let used = |millis: u64| CpuTime { user: ms(millis), system: ms(0) };
        let usage = |peak| Usage { peak: Bytes::from_mib(peak), minor_faults: 10 * peak, ..Usage::default() };
        let end = watched(vec![at(0, None)], vec![]).ended;
        let end = prony_os::launch::End { at: ms(90), cpu: cpu.clone().map(used), usage: cpu.map(|_| usage(9)), ..end };
        Commanded { released: ms(10), before: Some((used(2), usage(2))), end: Box::new(end) }
    }

    fn of(ran: &Commanded, groups: [Option<u64>; 2], key: &str) -> Reading<f64> {
        let snapshots = [at(5, groups[0]), at(100, groups[1])];
        readings(ran, &snapshots, &[])[&MetricKeyText(key.parse().unwrap())].clone()
    }

    #[test]
    fn cpu_time_is_that_of_the_group_and_without_one_that_of_the_reaped_tree() {
        let (one, grouped) = (ran(Reading::Measured(302)), [Some(5), Some(306)]);
        assert_eq!(of(&one, grouped, "cpu"), Reading::Measured(301e6));
        assert_eq!(of(&one, grouped, "cpu.user"), Reading::Measured(300e6), "in the kernel's own, finer counts");
        assert_eq!(of(&one, [None, None], "cpu"), Reading::Measured(300e6));
        assert_eq!(of(&one, grouped, "faults.minor"), Reading::Measured(70.0));
        assert_eq!(of(&one, grouped, "rss.peak"), Reading::Measured(9.0 * 1024.0 * 1024.0));
    }

    #[test]
    fn counters_of_children_that_nobody_waited_for_are_missing() {
        let one = ran(Reading::Measured(102));
        assert_eq!(of(&one, [Some(5), Some(305)], "cpu"), Reading::Measured(300e6));
        let faults = of(&one, [Some(5), Some(305)], "faults.minor");
        assert!(format!("{faults:?}").contains("children that nobody waited for used 200"), "{faults:?}");
    }

    #[test]
    fn without_a_group_the_time_of_a_tree_of_which_something_still_runs_is_missing() {
        let why = || Why::NotSupported("still running: 1 process of the tree".into());
        let one = ran(Reading::Missing(why()));
        assert_eq!(of(&one, [None, None], "cpu"), Reading::Missing(why()));
        assert_eq!(of(&one, [Some(5), Some(105)], "cpu"), Reading::Measured(100e6), "up to the end of the phase");
        assert_eq!(of(&one, [Some(5), Some(105)], "faults.minor"), Reading::Missing(why()));
    }
}
