//! Makes metrics missing where a process could not be read although it had not ended: sums over the other processes would be too
//! small. What a control group counts is whole.

use std::collections::BTreeMap;
use std::io;

use prony_model::metric::Metric;
use prony_model::reading::{Reading, Why};
use prony_model::record::MetricKeyText;
use rustix::io::Errno;

use super::snapshot::Snapshot;
use crate::why::why;

type Readings = BTreeMap<MetricKeyText, Reading<f64>>;

/// Makes metrics of a role, or of the whole tree with `""`, missing for [`reason`]. Its CPU time stays where groups counted it.
pub(super) fn mark_of_role(readings: &mut Readings, (begin, end): (&Snapshot, &Snapshot), role: &str) {
    let is_counted = |snapshot: &Snapshot| match snapshot.groups.get(role) {
        Some(group) => group.measured().is_some(),
        None => role.is_empty() && snapshot.group.measured().is_some(),
    };
    if let Some(why) = reason(begin, end, |of| role.is_empty() || of == role) {
        mark(readings, &why, is_counted(begin) && is_counted(end));
    }
}

/// Why metrics of processes of some roles are missing, if one of them could not be read in the phase or at its begin.
pub(super) fn reason(begin: &Snapshot, end: &Snapshot, within: impl Fn(&str) -> bool) -> Option<Why> {
    let unread = end.unread.iter().filter(|(role, (at, _))| within(role) && *at >= begin.at);
    unread.map(|(_, (_, why))| why.clone()).next()
}

/// Makes metrics missing that are sums over processes; CPU time unless a control group has counted it.
pub(super) fn mark(readings: &mut Readings, why: &Why, has_group: bool) {
    let lacks = |metric| match metric {
        Metric::Cpu | Metric::CpuUser | Metric::CpuSystem => !has_group,
        metric => is_sum(metric),
    };
    make_missing(readings, why, lacks);
}

/// Makes the measured ones of some metrics missing.
pub(super) fn make_missing(readings: &mut Readings, why: &Why, lacks: impl Fn(Metric) -> bool) {
    let measured = readings.iter_mut().filter(|(key, reading)| lacks(key.0.metric) && reading.measured().is_some());
    measured.for_each(|(_, reading)| *reading = Reading::Missing(why.clone()));
}

const fn is_sum(metric: Metric) -> bool {
    use Metric::{
        Anon, CpuWait, File, MajorFaults, MinorFaults, OnCpu, Processes, Pss, Read, Rss, Shared, Swap, SwitchesForced,
        SwitchesVoluntary, Threads, Vsz, Written,
    };
    let of_memory = matches!(metric, Anon | File | Pss | Rss | Shared | Swap | Vsz);
    of_memory
        || matches!(metric, Processes | Threads | OnCpu | CpuWait | Read | Written)
        || matches!(metric, MajorFaults | MinorFaults | SwitchesVoluntary | SwitchesForced)
}

/// Why a process that has not ended could not be read.
pub(super) fn unreadable(pid: u32, error: &io::Error) -> Why {
    let is_full = [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    let hint = if is_full { "; raise the limit of open files (`ulimit -Hn`)" } else { "" };
    match why(&format!("process {pid} could not be read"), error) {
        Why::Failed(text) => Why::Failed(format!("{text}{hint}").into()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use prony_model::metric::{MetricKey, Stat};
    use prony_model::units::Nanos;

    use super::*;
    use crate::sample::{Ends, Root, Sampler, Settings, phase_readings, readings_of_roles};

    #[test]
    fn sums_over_processes_are_missing_where_one_of_the_role_could_not_be_read() {
        let sampler = Sampler::idle(vec![Root::subject(std::process::id(), "db")], Settings::default());
        let (begin, mut end) = (sampler.snapshot(), sampler.snapshot());
        let keys = [
            MetricKey::amount(Metric::MinorFaults),
            MetricKey::amount(Metric::Cpu),
            MetricKey::gauge(Metric::Anon, Stat::Max),
            MetricKey::gauge(Metric::Processes, Stat::End),
        ];
        let missing = |end: &Snapshot, role: &str| {
            let readings = phase_readings(&begin, end, &[], role);
            keys.map(|key| readings[&MetricKeyText(key)].measured().is_none())
        };
        assert_eq!([missing(&end, "db"), missing(&end, "")], [[false; 4]; 2]);
        let full = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        end.unread.insert("db".into(), (begin.at, unreadable(7, &full)));
        assert_eq!([missing(&end, "db"), missing(&end, "")], [[true; 4]; 2]);
        let all = readings_of_roles(&begin, &end, &[], |_| true, &Ends::new());
        let why = &all[&MetricKeyText(keys[2])];
        assert!(matches!(why, Reading::Missing(Why::Failed(why)) if why.contains("`ulimit -Hn`")), "{why:?}");
        end.unread.insert("db".into(), (Nanos::from_nanos(begin.at.as_nanos() - 1), Why::NotApplicable));
        assert_eq!(missing(&end, ""), [false; 4], "before the phase");
        end.unread.insert("api".into(), (end.at, Why::NotApplicable));
        assert_eq!([missing(&end, "db"), missing(&end, "")], [[false; 4], [true; 4]], "of another role");
    }
}
