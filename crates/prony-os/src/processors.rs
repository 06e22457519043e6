//! The processors on which processes and threads may run.

use std::{fs, io};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::limits;

/// The first of these processors on which this process may not run itself; `None` where it may run on all.
pub fn absent(wanted: &[u32]) -> Option<u32> {
    let Ok(allowed) = sched_getaffinity(None) else { return None };
    wanted.iter().copied().find(|number| *number as usize >= CpuSet::MAX_CPU || !allowed.is_set(*number as usize))
}

/// Processors' worth of CPU time that what this process starts can use: those on which it may run, or fewer by the limits of its control
/// groups; `None` where that is not known.
pub fn usable() -> Option<f64> {
    let allowed = f64::from(sched_getaffinity(None).ok()?.count());
    Some(limits::least_cpus().map_or(allowed, |limit| limit.min(allowed)))
}

/// Lets all threads of a process run on these processors only; those that it starts later inherit it.
///
/// # Errors
/// Where the process does not exist or belongs to somebody else, or there is none of these processors.
pub fn confine(pid: u32, to: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    to.iter()
        .map(|number| *number as usize)
        .filter(|number| *number < CpuSet::MAX_CPU)
        .for_each(|number| set.set(number));
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        if let Some(thread) = thread {
            sched_setaffinity(Some(thread), &set)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_runs_where_it_is_confined_and_absent_processors_are_named() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap() as u32;
        assert_eq!((absent(&[first]), absent(&[first, 1_000_000])), (None, Some(1_000_000)));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        confine(child.id(), &[first]).unwrap();
        let now = sched_getaffinity(Pid::from_raw(child.id() as i32)).unwrap();
        assert_eq!((now.count(), now.is_set(first as usize)), (1, true));
        assert!(confine(child.id(), &[1_000_000]).is_err());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
