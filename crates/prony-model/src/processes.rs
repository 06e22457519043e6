//! Names the processes of a trial so that a process has the same name in each trial of a variant, although its pid
//! differs.
//!
//! A process is named by its role and its command (the kernel's `comm`, as of its last sample). Processes that share
//! both are numbered in the order in which they were first sampled. A build may start thousands of one command: those
//! beyond [`NUMBERED`] share a name, and their measurements are added up.

use std::collections::BTreeMap;

use crate::record::ProcessSeries;

/// The prefix of a process's instance in the readings of a phase.
const PREFIX: &str = "process.";

/// The instance for resources that the process tree used but that are not attributed to any sampled process.
pub const NOT_ATTRIBUTED: &str = "process.not attributed";

/// Processes with more than this part of the tree's CPU time, or of its memory, are named.
pub const PART: f64 = 0.10;

/// How many processes of one role and command have a name of their own.
pub(crate) const NUMBERED: usize = 8;

/// The instance of each process in the readings of a phase: `process.ROLE.COMMAND`, then `process.ROLE.COMMAND.2` ...
pub fn instances(series: &[ProcessSeries]) -> Vec<String> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by_key(|at| series[*at].samples.first().map(|sample| sample.at));
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut names = vec![String::new(); series.len()];
    for at in order {
        let ProcessSeries { role, command, .. } = &series[at];
        let count = counts.entry((role, command)).or_default();
        *count += 1;
        let number = match *count {
            1 => String::new(),
            n if n <= NUMBERED => format!(".{n}"),
            _ => format!(".{}+", NUMBERED + 1),
        };
        names[at] = format!("{PREFIX}{role}.{command}{number}");
    }
    names
}

/// The name of a process without the prefix of its instance; `None` where the instance is not a process.
pub fn name(instance: &str) -> Option<&str> {
    instance.strip_prefix(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ProcessSample;
    use crate::units::Nanos;

    fn process(pid: u32, role: &str, command: &str, first: u64) -> ProcessSeries {
        let sample = ProcessSample { at: Nanos::from_millis(first), ..ProcessSample::default() };
        ProcessSeries { pid, role: role.into(), command: command.into(), samples: vec![sample] }
    }

    #[test]
    fn processes_are_numbered_by_role_and_command_in_the_order_of_their_begins() {
        let all = [
            process(9, "site", "node", 50),
            process(700, "site", "node", 10),
            process(8, "site", "sh", 10),
            process(3, "api", "node", 90),
        ];
        let names = ["process.site.node.2", "process.site.node", "process.site.sh", "process.api.node"];
        assert_eq!(instances(&all), names);
        assert_eq!((name(names[0]), name("replica.1")), (Some("site.node.2"), None));
    }

    #[test]
    fn processes_beyond_the_numbered_ones_share_a_name() {
        let all: Vec<_> = (0..20).map(|n| process(n, "make", "cc1", n.into())).collect();
        let names = instances(&all);
        assert_eq!((names[7].as_str(), names[8].as_str()), ("process.make.cc1.8", "process.make.cc1.9+"));
        assert_eq!(names[8..].iter().collect::<std::collections::BTreeSet<_>>().len(), 1);
    }
}
