//! fork, exec and wait4, which no safe wrapper offers with the control that a held child needs.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::os::fd::RawFd;
use std::ptr;

use prony_core::units::Nanos;
use rustix::process::{Pid, getpid};

/// How far a child had come when something failed; the first byte of its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// Entering the working directory.
    Directory = 1,
    /// Arranging descriptors.
    Descriptors = 2,
    /// Executing the program.
    Exec = 3,
}

impl Step {
    /// The step with this number.
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Directory),
            2 => Some(Self::Descriptors),
            3 => Some(Self::Exec),
            _ => None,
        }
    }
}

/// Length of a child's report of failure: the step, then errno in native byte order.
pub(crate) const REPORT_LENGTH: usize = 5;

/// An instant that a forked child leaves for the process that forked it, in a page that both share: nobody is woken.
#[derive(Debug)]
pub(crate) struct Stamp(ptr::NonNull<u64>);

impl Stamp {
    /// Not left yet.
    pub(crate) fn new() -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice; its pages begin as zeros.
        let page = unsafe { libc::mmap(ptr::null_mut(), size_of::<u64>(), access, kind, -1, 0) };
        let page = (page != libc::MAP_FAILED).then_some(page).and_then(|page| ptr::NonNull::new(page.cast()));
        page.map(Self).ok_or_else(io::Error::last_os_error)
    }

    /// What the child left, by `CLOCK_MONOTONIC`; `None` before that.
    pub(crate) fn get(&self) -> Option<Nanos> {
        // SAFETY: mapped and aligned for as long as this lives; the child writes it once.
        let left = unsafe { ptr::read_volatile(self.0.as_ptr()) };
        (left != 0).then(|| Nanos::from_nanos(left))
    }

    /// Leaves the present instant. Calls nothing that a forked child may not call.
    fn leave(&self) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the clock fills a local; the page is mapped in the child too, and nobody else writes it.
        unsafe {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
            ptr::write_volatile(self.0.as_ptr(), now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
        }
    }
}

impl Drop for Stamp {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nobody has the address any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<u64>()) };
    }
}

/// What a child does between fork and exec. Everything is built beforehand: after the fork nothing allocates.
pub(crate) struct ChildPlan<'a> {
    /// Programs to try, in order.
    pub(crate) candidates: &'a [CString],
    /// Arguments, the program's name first.
    pub(crate) args: &'a [CString],
    /// The whole environment.
    pub(crate) env: &'a [CString],
    /// Working directory.
    pub(crate) directory: &'a CStr,
    /// Descriptors as (source, target); every source lies above every target.
    pub(crate) fds: &'a [(RawFd, RawFd)],
    /// Read one byte here before exec; end of file means that nobody wants the child any more.
    pub(crate) hold: RawFd,
    /// The writing end of `hold`, closed in the child.
    pub(crate) release: RawFd,
    /// Where failures are reported; closes on exec.
    pub(crate) report: RawFd,
    /// Where the child leaves the instant at which it begins to execute.
    pub(crate) started: &'a Stamp,
}

/// Forks a child that prepares itself, waits on `hold`, and executes the plan. It dies with the calling thread.
pub(crate) fn fork_held(plan: &ChildPlan<'_>) -> io::Result<Pid> {
    let (args, env) = (pointers(plan.args), pointers(plan.env));
    let parent = getpid();
    // SAFETY: the child calls only async-signal-safe functions on memory made before the fork, and never returns.
    match unsafe { libc::fork() } {
        0 => unsafe { run_child(plan, &args, &env, parent) },
        pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error),
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// SAFETY: only in a forked child; `args` and `env` end with null and point to strings that live on.
unsafe fn run_child(plan: &ChildPlan<'_>, args: &[*const c_char], env: &[*const c_char], parent: Pid) -> ! {
    // SAFETY: plain system calls; the pointers are valid by this function's contract.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent.as_raw_nonzero().get() {
            libc::_exit(127);
        }
        libc::close(plan.release);
        libc::setpgid(0, 0);
        reset_signals();
        if libc::chdir(plan.directory.as_ptr()) != 0 {
            fail(plan.report, Step::Directory, errno());
        }
        if !arrange_descriptors(plan) {
            fail(plan.report, Step::Descriptors, errno());
        }
        wait_for_release(plan.hold);
        plan.started.leave();
        fail(plan.report, Step::Exec, execute(plan, args, env))
    }
}

fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// SAFETY: in a forked child only, as it undoes every handler.
unsafe fn reset_signals() {
    // All zeros is the kernel's default action. Libc's own call refuses the two signals it keeps for itself, which
    // may be inherited as ignored all the same.
    let default = [0u64; 4];
    // SAFETY: the kernel reads at most 32 bytes; signals that cannot be set are refused; a local signal set.
    unsafe {
        for signal in 1..=64 {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null_mut::<u64>(), 8usize);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Everything closes on exec but standard streams and targets. SAFETY: in a forked child only.
unsafe fn arrange_descriptors(plan: &ChildPlan<'_>) -> bool {
    // SAFETY: system calls on numbers; a number that is not open is refused.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) != 0 {
            for fd in 3..65_536 {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        plan.fds.iter().all(|(source, target)| libc::dup2(*source, *target) >= 0)
    }
}

/// SAFETY: in a forked child only, as it may exit.
unsafe fn wait_for_release(hold: RawFd) {
    let mut byte = 0u8;
    // SAFETY: one byte into a local.
    unsafe {
        loop {
            match libc::read(hold, ptr::from_mut(&mut byte).cast(), 1) {
                1 => return,
                -1 if errno() == libc::EINTR => {}
                _ => libc::_exit(127),
            }
        }
    }
}

/// Tries the candidates as execvp does; returns the errno that explains the failure best.
/// SAFETY: `args` and `env` end with null and point to strings that live on.
unsafe fn execute(plan: &ChildPlan<'_>, args: &[*const c_char], env: &[*const c_char]) -> c_int {
    let mut best = libc::ENOENT;
    for program in plan.candidates {
        // SAFETY: by this function's contract.
        unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
        match errno() {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => best = libc::EACCES,
            other => return other,
        }
    }
    best
}

/// SAFETY: in a forked child only, as it exits.
unsafe fn fail(report: RawFd, step: Step, errno: c_int) -> ! {
    let mut message = [step as u8; REPORT_LENGTH];
    message[1..].copy_from_slice(&errno.to_ne_bytes());
    // SAFETY: five bytes of a local array; a pipe takes them whole.
    unsafe {
        libc::write(report, message.as_ptr().cast(), message.len());
        libc::_exit(127)
    }
}

/// A child that has ended and been reaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaped {
    /// Its process id, free for others from now on.
    pub(crate) pid: i32,
    /// Exit code or signal.
    pub(crate) status: Ended,
    /// User CPU time, its own and of the children it waited for.
    pub(crate) user: Nanos,
    /// System CPU time, likewise.
    pub(crate) system: Nanos,
    /// Page faults without disk, likewise.
    pub(crate) minor_faults: u64,
    /// Page faults with disk, likewise.
    pub(crate) major_faults: u64,
    /// Blocks of 512 bytes read from the block layer, likewise.
    pub(crate) blocks_read: u64,
    /// Blocks of 512 bytes handed to the block layer, likewise.
    pub(crate) blocks_written: u64,
    /// Context switches by waiting, likewise.
    pub(crate) switches_voluntary: u64,
    /// Context switches by preemption, likewise.
    pub(crate) switches_forced: u64,
    /// Largest resident memory, in KiB, of one process among it and the children it waited for, and never below what
    /// the process that forked it had in memory and left to it.
    pub(crate) max_rss: u64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
}

/// Reaps one ended child, any; `None` where no child has ended or there is none.
///
/// `ru_maxrss` inherits the resident memory of the process that forked; here that is a supervisor of one or two MB,
/// and how much came from it can be read from the held child beforehand.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: `wait4` fills the two locals; all zeros is a valid `rusage`.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage), usage)
    };
    if pid <= 0 {
        return None;
    }
    let ended = if libc::WIFSIGNALED(status) {
        Ended::Signalled(libc::WTERMSIG(status))
    } else {
        Ended::Exited(libc::WEXITSTATUS(status))
    };
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    Some(Reaped {
        pid,
        status: ended,
        user: nanos(usage.ru_utime),
        system: nanos(usage.ru_stime),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        blocks_read: count(usage.ru_inblock),
        blocks_written: count(usage.ru_oublock),
        switches_voluntary: count(usage.ru_nvcsw),
        switches_forced: count(usage.ru_nivcsw),
        max_rss: count(usage.ru_maxrss),
    })
}

fn nanos(time: libc::timeval) -> Nanos {
    Nanos::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
        + Nanos::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}
