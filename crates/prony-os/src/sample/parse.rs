//! Parsers for files of `/proc` and of control groups. Pure functions: each is tested on recorded texts.

use prony_model::reading::Reading;
use prony_model::units::{Bytes, Nanos};
use signal_hook::consts::SIGCHLD;

use crate::why::parsed;

/// Fields of `/proc/PID/stat` that the sampler uses. Times are in clock ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Command name, at most 15 bytes, which may hold spaces, parentheses and newlines.
    pub command: String,
    /// `R`, `S`, `D`, `Z` ...
    pub state: char,
    /// The parent now.
    pub parent: u32,
    /// Page faults without disk.
    pub minor_faults: u64,
    /// The same, of children that ended and were waited for.
    pub minor_faults_children: u64,
    /// Page faults with disk.
    pub major_faults: u64,
    /// The same, of children that ended and were waited for.
    pub major_faults_children: u64,
    /// User time of all threads, ended ones included.
    pub user: u64,
    /// System time of all threads, ended ones included.
    pub system: u64,
    /// User time of children that ended and were waited for.
    pub user_children: u64,
    /// System time of children that ended and were waited for.
    pub system_children: u64,
    /// Threads.
    pub threads: u32,
    /// Start, in ticks since the machine's boot: with the pid, the process's identity.
    pub started: u64,
}

/// Reads `/proc/PID/stat`. The command ends at the *last* parenthesis of the text.
pub fn stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let command = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = [""; 24];
    fields.iter_mut().zip(rest.split_ascii_whitespace()).for_each(|(field, word)| *field = word);
    // proc_pid_stat(5) counts from 1; the state is field 3 and stands first here.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        command,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        minor_faults: number(10)?,
        minor_faults_children: number(11)?,
        major_faults: number(12)?,
        major_faults_children: number(13)?,
        user: number(14)?,
        system: number(15)?,
        user_children: number(16)?,
        system_children: number(17)?,
        threads: number(20)?.try_into().ok()?,
        started: number(22)?,
    })
}

/// Memory of a process by `/proc/PID/status`, and what else is read of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Anonymous resident memory.
    pub anon: Bytes,
    /// File-backed resident memory.
    pub file: Bytes,
    /// Shared resident memory.
    pub shared: Bytes,
    /// Swapped out.
    pub swap: Bytes,
    /// Largest resident memory since the start or since the last reset.
    pub peak: Bytes,
    /// Whether there are pages of hugetlbfs, mapped or by `MAP_HUGETLB`: they are in no other value here.
    pub huge: bool,
    /// Whether SIGCHLD is ignored: nobody inherits the counters of the children then (wait(2), NOTES).
    pub ignores_children: bool,
}

/// Reads the memory lines of `/proc/PID/status`; `None` for zombies and kernel threads, which have none.
pub fn memory(text: &str) -> Option<Memory> {
    let kib = |key| kib(text, key);
    Some(Memory {
        anon: kib("RssAnon:")?,
        file: kib("RssFile:")?,
        shared: kib("RssShmem:")?,
        // Absent where the kernel is built without swap.
        swap: kib("VmSwap:").unwrap_or_default(),
        peak: kib("VmHWM:")?,
        huge: kib("HugetlbPages:").is_some_and(|pages| pages > Bytes::default()),
        ignores_children: ignores(text, SIGCHLD),
    })
}

/// Whether the process of a `/proc/PID/status` ignores a signal.
pub(crate) fn ignores(text: &str, signal: i32) -> bool {
    let mask = line(text, "SigIgn:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Resident memory of a process by `/proc/PID/statm`, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Address space.
    pub size: u64,
    /// Anonymous.
    pub anon: u64,
    /// File-backed and shared.
    pub file_and_shared: u64,
}

/// Reads `/proc/PID/statm`; of zombies all is zero.
pub(crate) fn statm(text: &str) -> Option<Pages> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (size, resident, file_and_shared) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Pages { size, anon: resident.checked_sub(file_and_shared)?, file_and_shared })
}

/// Which process a task belongs to, and that one's parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The task's process; the task itself where it is the first thread.
    pub process: u32,
    /// The process's parent.
    pub parent: u32,
}

/// Reads a task's identity from its `status`.
pub(crate) fn ids(text: &str) -> Option<Ids> {
    let number = |key| line(text, key)?.parse().ok();
    Some(Ids { process: number("Tgid:")?, parent: number("PPid:")? })
}

/// One thread by its `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStatus {
    /// On a CPU, or waiting for one.
    pub runnable: bool,
    /// Context switches by waiting.
    pub voluntary: u64,
    /// Context switches by preemption.
    pub forced: u64,
}

/// Reads state and context switches of one thread from its `status`.
pub fn thread_status(text: &str) -> Option<ThreadStatus> {
    // They are the last of some sixty lines.
    let number = |key| text.lines().rev().find_map(|line| line.strip_prefix(key))?.trim().parse().ok();
    Some(ThreadStatus {
        runnable: line(text, "State:")?.starts_with('R'),
        voluntary: number("voluntary_ctxt_switches:")?,
        forced: number("nonvoluntary_ctxt_switches:")?,
    })
}

fn line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// A line of `/proc/meminfo` or of a similar file.
pub(crate) fn kib(text: &str, key: &str) -> Option<Bytes> {
    line(text, key)?.strip_suffix("kB")?.trim().parse().ok().map(Bytes::from_kib)
}

/// Dirty and writeback pages by `/proc/meminfo`.
pub fn unwritten(text: &str) -> Option<Bytes> {
    Some(kib(text, "Dirty:")? + kib(text, "Writeback:")?)
}

/// One thread by its `schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU.
    pub on_cpu: Nanos,
    /// Time runnable, waiting for a CPU.
    pub wait: Nanos,
    /// How often it was put on a CPU.
    pub slices: u64,
}

/// Reads `/proc/PID/task/TID/schedstat`.
pub fn schedstat(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    Some(SchedStat {
        on_cpu: Nanos::from_nanos(numbers.next()??),
        wait: Nanos::from_nanos(numbers.next()??),
        slices: numbers.next()??,
    })
}

/// Reads the time that a thread waited, from its own `schedstat`. Such a thread has been on a CPU: where it is said never to have
/// been, the kernel counts nothing (`proc_pid_schedstat` in fs/proc/base.c writes `0 0 0` then).
pub(crate) fn own_wait(text: &str) -> Reading<Nanos> {
    match schedstat(text) {
        Some(SchedStat { slices: 0, .. }) => {
            Reading::not_supported("the kernel does not count how long threads wait for a CPU")
        }
        stat => parsed(stat.map(|stat| stat.wait), "`/proc/thread-self/schedstat`"),
    }
}

/// Reads `read_bytes` and `write_bytes` of `/proc/PID/io`.
pub fn io(text: &str) -> Option<(Bytes, Bytes)> {
    let number = |key| line(text, key)?.parse().ok().map(Bytes::from_bytes);
    Some((number("read_bytes:")?, number("write_bytes:")?))
}

/// Reads the proportional set size of `/proc/PID/smaps_rollup`.
pub fn pss(text: &str) -> Option<Bytes> {
    kib(text, "Pss:")
}

/// Reads process ids separated by white space (`children`, `cgroup.procs`).
pub fn pids(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Reads the last process id that the machine gave out from `/proc/loadavg`: unchanged means that
/// no process and no thread began.
pub(crate) fn last_pid(loadavg: &str) -> Option<u32> {
    loadavg.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// How many numbers a list of ranges has, such as `0-3,6`.
pub(crate) fn listed(text: &str) -> Option<u64> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(1 + last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?)
    };
    text.trim().split(',').map(range).sum()
}

/// CPU time of a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GroupCpu {
    /// In all.
    pub total: Nanos,
    /// In user mode.
    pub user: Nanos,
    /// In the kernel.
    pub system: Nanos,
}

impl GroupCpu {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { total: self.total + other.total, user: self.user + other.user, system: self.system + other.system }
    }

    /// What was used since an earlier reading. The parts of version 1 are ticks (`cpuacct_account_field` in kernel/sched/cpuacct.c) and
    /// need not add up to the total, of which they are made the division, as the kernel does in version 2 (`cputime_adjust` in
    /// kernel/sched/cputime.c).
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let total = self.total.since(earlier.total);
        let [user, system] = [self.user.since(earlier.user), self.system.since(earlier.system)];
        let part = u128::from(total.as_nanos()) * u128::from(system.as_nanos());
        let ticks = u128::from(user.as_nanos()) + u128::from(system.as_nanos());
        // No more than the total. Where no tick found the group on a CPU, all is user time, as in the kernel.
        let system = Nanos::from_nanos(part.checked_div(ticks).unwrap_or_default() as u64);
        Self { total, user: total.since(system), system }
    }

    /// Without what a foreign process in the group used; how that is split is not known to the nanosecond.
    pub(crate) fn without(self, foreign: Nanos) -> Self {
        Self { total: self.total.since(foreign), ..self }
    }
}

/// Reads `cpu.stat` of cgroup v2.
pub(crate) fn cpu_stat_v2(text: &str) -> Option<GroupCpu> {
    let micros = |key| line(text, key)?.parse().ok().map(Nanos::from_micros);
    Some(GroupCpu { total: micros("usage_usec ")?, user: micros("user_usec ")?, system: micros("system_usec ")? })
}

/// Reads the `some` total of a file of `/proc/pressure`.
pub fn pressure(text: &str) -> Option<Nanos> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Nanos::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In version 1 of control groups, `cpu.user` was larger than `cpu`.
    #[test]
    fn user_and_system_time_of_a_group_are_the_division_of_its_total() {
        let of = |[total, user, system]: [u64; 3]| {
            let [total, user, system] = [total, user, system].map(Nanos::from_millis);
            GroupCpu { total, user, system }
        };
        let used = |to: [u64; 3]| of(to).since(of([1_000, 700, 100]));
        assert_eq!(used([1_080, 790, 130]), of([80, 60, 20]), "the ticks are of 120 ms");
        assert_eq!(used([1_040, 730, 110]), of([40, 30, 10]));
        assert_eq!((used([1_003, 710, 100]), used([1_003, 700, 100])), (of([3, 3, 0]), of([3, 3, 0])));
        assert_eq!((used([1_003, 700, 104]), used([1_000, 704, 104])), (of([3, 0, 3]), of([0, 0, 0])));
        let years = GroupCpu { total: Nanos::from_nanos(u64::MAX), ..of([0, 1 << 40, 1 << 40]) };
        assert_eq!(years.since(of([0, 0, 0])).system, Nanos::from_nanos(u64::MAX / 2));
    }

    const STAT: &str = " S 41 77 8603 0 -1 4194304 99 1200 3 4 51 17 600 90 20 0 5 0 136633 3133440 388 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";

    #[test]
    fn stat_reads_every_field_from_its_place() {
        let read = stat(format!("13335 (cat){STAT}\n").as_bytes()).unwrap();
        let expected = Stat {
            command: "cat".into(),
            state: 'S',
            parent: 41,
            minor_faults: 99,
            minor_faults_children: 1200,
            major_faults: 3,
            major_faults_children: 4,
            user: 51,
            system: 17,
            user_children: 600,
            system_children: 90,
            threads: 5,
            started: 136_633,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn odd_command_names_do_not_shift_the_fields() {
        for name in ["a b", ") S 1 (", "((", "x) R 2 3", "two\nlines", "", "12 (sh) Z"] {
            let read = stat(format!("7 ({name}){STAT}").as_bytes()).unwrap();
            assert_eq!((read.command.as_str(), read.state, read.parent, read.user), (name, 'S', 41, 51), "{name:?}");
        }
        let mut bytes = b"7 (\xff\xfe)".to_vec();
        bytes.extend_from_slice(STAT.as_bytes());
        assert_eq!(stat(&bytes).unwrap().command, "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_cut_stat_is_refused() {
        let whole = format!("7 (x){STAT}");
        assert_eq!(stat(b""), None);
        assert_eq!(stat(b"7 (x"), None);
        assert_eq!(stat(&whole.as_bytes()[..60]), None);
    }

    #[test]
    fn memory_is_split_and_absent_for_zombies() {
        let text = "Name:\tVmHWM: 9 kB\nState:\tS (sleeping)\nVmHWM:\t    1728 kB\nVmRSS:\t 1728 kB\nRssAnon:\t     112 kB\nRssFile:\t    1616 kB\nRssShmem:\t       8 kB\nVmSwap:\t       4 kB\nSigIgn:\t0000000000011000\n";
        let expected = Memory {
            anon: Bytes::from_kib(112),
            file: Bytes::from_kib(1616),
            shared: Bytes::from_kib(8),
            swap: Bytes::from_kib(4),
            peak: Bytes::from_kib(1728),
            huge: false,
            ignores_children: true,
        };
        assert_eq!(memory(text), Some(expected));
        let huge = |pages: &str| memory(&format!("{text}HugetlbPages:\t {pages} kB\n")).unwrap().huge;
        assert_eq!(["0", "2048"].map(huge), [false, true]);
        let waits = memory(&text.replace("11000", "01000")).unwrap();
        assert_eq!(waits, Memory { ignores_children: false, ..expected });
        assert_eq!(memory("Name:\tx\nState:\tZ (zombie)\nThreads:\t1\n"), None);
    }

    #[test]
    fn statm_separates_anonymous_from_file_and_shared_pages() {
        assert_eq!(statm("765 432 404 7 0 124 0\n"), Some(Pages { size: 765, anon: 28, file_and_shared: 404 }));
        assert_eq!(statm("0 0 0 0 0 0 0\n"), Some(Pages::default()));
        assert_eq!((statm("765 432"), statm("765 4 5"), statm("")), (None, None, None));
    }

    /// The kernel makes both texts from the same counters (`task_mem` and `task_statm` in fs/proc/task_mmu.c), so that one
    /// may stand for the other. A stopped process does not change between two reads.
    #[test]
    fn statm_and_status_agree_on_memory() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let text = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap();
        while stat(text("stat").as_bytes()).unwrap().state != 'T' {
            std::thread::yield_now();
        }
        let (pages, found) = (statm(&text("statm")).unwrap(), memory(&text("status")).unwrap());
        let bytes = |pages: u64| Bytes::from_bytes(pages * rustix::param::page_size() as u64);
        assert_eq!((bytes(pages.anon), bytes(pages.file_and_shared)), (found.anon, found.file + found.shared));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn processors_of_ranges_are_counted() {
        assert_eq!(["0\n", "0-3,6\n", "2-1", "", "x"].map(listed), [Some(1), Some(5), None, None, None]);
    }

    #[test]
    fn a_task_names_its_process_and_parent() {
        let text = "Name:\tTgid: 9\nUmask:\t0022\nTgid:\t13335\nNgid:\t0\nPid:\t13336\nPPid:\t13333\n";
        assert_eq!(ids(text), Some(Ids { process: 13335, parent: 13333 }));
        assert_eq!(ids("Tgid:\t13335\n"), None);
    }

    #[test]
    fn thread_figures_read() {
        let status = "State:\tR (running)\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(thread_status(status), Some(ThreadStatus { runnable: true, voluntary: 12, forced: 3 }));
        assert!(thread_status(&status.replace('R', "S")).is_some_and(|status| !status.runnable));
        assert_eq!(thread_status("State:\tR (running)\n"), None);
        let read = SchedStat { on_cpu: Nanos::from_nanos(64_786), wait: Nanos::from_nanos(41_072), slices: 2 };
        assert_eq!(schedstat("64786 41072 2\n"), Some(read));
        assert_eq!(schedstat("64786 41072"), None);
    }

    /// It was taken for a thread that never waited.
    #[test]
    fn kernel_that_counts_no_waiting_is_noticed() {
        use prony_model::reading::Why;
        assert_eq!(own_wait("64786 41072 2\n"), Reading::Measured(Nanos::from_nanos(41_072)));
        assert!(matches!(own_wait("0 0 0\n"), Reading::Missing(Why::NotSupported(_))));
        assert!(matches!(own_wait("1 2\n"), Reading::Missing(Why::Failed(_))));
    }

    #[test]
    fn dirty_pages_and_those_under_writeback_count() {
        let text = "Dirty:  612 kB\nWriteback:  4 kB\nWritebackTmp: 9 kB\n";
        assert_eq!(unwritten(text), Some(Bytes::from_kib(616)));
        assert_eq!(unwritten("Dirty: 612 kB\n"), None);
    }

    #[test]
    fn io_takes_what_reached_the_block_layer() {
        let text = "rchar: 6976\nwchar: 5\nsyscr: 10\nsyscw: 0\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        assert_eq!(io(text), Some((Bytes::from_bytes(4096), Bytes::from_bytes(8192))));
        assert_eq!(io("rchar: 1\n"), None);
    }

    #[test]
    fn rollup_takes_pss_not_its_parts() {
        let text = "563e-7ffd ---p 0 00:00 0 [rollup]\nRss:    1708 kB\nPss:     332 kB\nPss_Dirty: 112 kB\n";
        assert_eq!(pss(text), Some(Bytes::from_kib(332)));
    }

    #[test]
    fn system_files_read() {
        assert_eq!(pids("12 7\n9 "), vec![12, 7, 9]);
        assert_eq!(last_pid("0.20 0.18 0.12 1/80 11206\n"), Some(11206));
        let psi =
            "some avg10=1.75 avg60=0.96 avg300=0.51 total=14211607\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure(psi), Some(Nanos::from_micros(14_211_607)));
        assert_eq!(pressure("full avg10=0.00 total=7\n"), None);
        let cpu =
            GroupCpu { total: Nanos::from_micros(347), user: Nanos::from_micros(283), system: Nanos::from_micros(64) };
        assert_eq!(cpu_stat_v2("usage_usec 347\nuser_usec 283\nsystem_usec 64\nnice_usec 0\n"), Some(cpu));
    }

    proptest::proptest! {
        #[test]
        fn any_command_name_reads_back(name in "[ -~\n]{0,15}") {
            let read = stat(format!("7 ({name}){STAT}").as_bytes()).unwrap();
            proptest::prop_assert_eq!((read.command, read.parent, read.started), (name, 41, 136_633));
        }

        #[test]
        fn no_text_makes_a_parser_fall(text in "\\PC{0,200}") {
            let _ = (stat(text.as_bytes()), memory(&text), statm(&text), thread_status(&text), schedstat(&text), io(&text));
            let _ = (pss(&text), ids(&text), pids(&text), last_pid(&text), cpu_stat_v2(&text), pressure(&text));
        }
    }
}
