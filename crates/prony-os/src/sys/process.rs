//! fork, exec and wait4: no safe wrapper gives the control that a suspended child needs.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use prony_model::record::Status;
use prony_model::units::Nanos;
use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};

use super::map::Mapping;
use super::usage::{CpuTime, Usage, counts};
use crate::clock::monotonic;

/// Another descriptor of one that this process was launched with, closed on exec; `None` where it was launched with none
/// of this number.
pub fn inherited(number: u8) -> Option<OwnedFd> {
    // SAFETY: this reads no memory. Where it succeeds, the result is a new descriptor, which nothing else owns.
    unsafe {
        let descriptor = libc::fcntl(c_int::from(number), libc::F_DUPFD_CLOEXEC, 3);
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
    }
}

/// The kind of a child's report; its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub(crate) enum Step {
    /// Entering the working directory failed.
    Directory = 1,
    /// Arranging descriptors failed.
    Descriptors = 2,
    /// Executing the program failed.
    Exec = 3,
    /// The child could not be made.
    Clone = 4,
    /// The child is prepared and waits to be released; instead of an errno its process id follows.
    Ready = 5,
    /// Entering its control groups failed.
    Groups = 6,
}

impl Step {
    /// The step with this number.
    fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Directory, Self::Descriptors, Self::Exec, Self::Clone, Self::Ready, Self::Groups];
        all.into_iter().find(|step| *step as u8 == byte)
    }
}

/// Length of a child's report: the step, then errno in native byte order.
pub(crate) const REPORT_LENGTH: usize = 5;

/// A report as it is sent.
pub(crate) fn report(step: Step, number: c_int) -> [u8; REPORT_LENGTH] {
    let mut message = [step as u8; REPORT_LENGTH];
    message[1..].copy_from_slice(&number.to_ne_bytes());
    message
}

/// A decoded report: the child that is ready, or what failed and the errno.
pub(crate) fn parse_report(message: [u8; REPORT_LENGTH]) -> Result<Pid, (Option<Step>, c_int)> {
    let [step, number @ ..] = message;
    let number = c_int::from_ne_bytes(number);
    match (Step::from_byte(step), Pid::from_raw(number)) {
        (Some(Step::Ready), Some(pid)) => Ok(pid),
        (step, _) => Err((step, number)),
    }
}

/// What a child reports in the instant before it executes its program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnReport {
    /// The instant, by `CLOCK_MONOTONIC`.
    pub(crate) at: Nanos,
    /// What the kernel had counted of it until then: the work of preparing it.
    pub(crate) before: (CpuTime, Usage),
    /// When it was observed to execute its program, if it was.
    pub(crate) executed: Option<Nanos>,
    /// Which of its candidates it executes, or tries to.
    pub(crate) candidate: u32,
}

/// How often to check whether a child may be made; mostly it may.
const GATE_PAUSE: Duration = Duration::from_micros(20);

/// A shared page in which a child and the process that makes it report the spawn; no process is woken for it.
#[derive(Debug)]
pub(crate) struct SpawnPage(Mapping);

/// All zeros until the first report.
#[repr(C)]
struct RawSpawnReport {
    fields: SpawnFields,
    usage: libc::rusage,
}

/// What processes read and write at any time.
#[repr(C)]
struct SpawnFields {
    /// Written by the kernel before the child does anything.
    pid: AtomicI32,
    candidate: AtomicU32,
    /// Not zero where another child may be made.
    open: AtomicU32,
    /// The step in the upper half, errno in the lower.
    failed: AtomicU64,
    /// Zero until `usage` was written.
    at: AtomicU64,
    executed: AtomicU64,
}

impl SpawnPage {
    /// Nothing is reported yet.
    pub(crate) fn new() -> io::Result<Self> {
        Mapping::new(None, 0, size_of::<RawSpawnReport>(), libc::PROT_READ | libc::PROT_WRITE).map(Self)
    }

    const fn raw(&self) -> *mut RawSpawnReport {
        self.0.start().cast()
    }

    /// Permits a child to be spawned that is not announced beforehand.
    pub(crate) fn open(&self) {
        self.fields().open.store(1, Ordering::Release);
    }

    /// Waits until a child may be made: the previous one's report may still be needed.
    pub(crate) fn wait_until_open(&self) {
        while self.fields().open.load(Ordering::Acquire) == 0 {
            std::thread::sleep(GATE_PAUSE);
        }
    }

    /// Every other field but `usage`, which is only touched through pointers.
    fn fields(&self) -> &SpawnFields {
        // SAFETY: mapped and aligned for as long as `self` exists; atomics may be shared with other processes.
        unsafe { &(*self.raw()).fields }
    }

    /// Clears the report of the last child, and permits no other to be spawned.
    pub(crate) fn clear(&self) {
        let SpawnFields { pid, candidate, open, failed, at, executed } = self.fields();
        open.store(0, Ordering::Release);
        [failed, at, executed].into_iter().for_each(|field| field.store(0, Ordering::Release));
        candidate.store(0, Ordering::Release);
        pid.store(0, Ordering::Release);
    }

    /// The child, from the moment at which there is one.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.fields().pid.load(Ordering::Acquire))
    }

    /// The child's report from the instant before it executed its program; `None` before that.
    pub(crate) fn get(&self) -> Option<SpawnReport> {
        let SpawnFields { candidate, at, executed, .. } = self.fields();
        let reported =
            |field: &AtomicU64| Some(field.load(Ordering::Acquire)).filter(|at| *at != 0).map(Nanos::from_nanos);
        let at = reported(at)?;
        // SAFETY: mapped as above and written before `at`; any bytes are a valid `rusage`.
        let usage = unsafe { ptr::read_volatile(ptr::addr_of!((*self.raw()).usage)) };
        // The spawner of the previous child may have reported only after that child had ended and its report was cleared.
        let executed = reported(executed).filter(|executed| *executed >= at);
        Some(SpawnReport { at, before: counts(&usage), executed, candidate: candidate.load(Ordering::Acquire) })
    }

    /// What failed, and the errno.
    pub(crate) fn failed(&self) -> Option<(Step, c_int)> {
        let reported = self.fields().failed.load(Ordering::Acquire);
        Some((Step::from_byte((reported >> 32) as u8)?, reported as u32 as c_int))
    }

    /// Reports what failed. Calls nothing that a forked child may not call.
    pub(crate) fn fail(&self, step: Step, errno: c_int) {
        self.fields().failed.store((step as u64) << 32 | u64::from(errno as u32), Ordering::Release);
    }

    /// Reports that the child executes its program.
    pub(crate) fn report_executed(&self) {
        self.fields().executed.store(monotonic().as_nanos(), Ordering::Release);
    }

    /// Reports which candidate is tried.
    fn report_candidate(&self, candidate: u32) {
        self.fields().candidate.store(candidate, Ordering::Release);
    }

    /// Reports the instant before executing. Calls nothing that a forked child may not call.
    fn report_instant(&self) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the calls fill what they are given; the page is mapped in the child too, and nobody else writes it.
        unsafe {
            libc::getrusage(libc::RUSAGE_SELF, ptr::addr_of_mut!((*self.raw()).usage));
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        }
        self.fields().at.store(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64, Ordering::Release);
    }
}

/// Forks this process, which must have no other thread that matters; the child does `body` with all signals blocked,
/// and exits with what it returns. The kernel kills it when the calling thread ends.
pub(crate) fn fork_into(body: impl FnOnce() -> c_int) -> io::Result<Pid> {
    let parent = getpid();
    // SAFETY: plain system calls. The C library makes its allocator usable in a forked child, and no lock of ours is
    // held in a process of one thread. The child never returns.
    unsafe {
        match libc::fork() {
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent.as_raw_pid() {
                    libc::_exit(127);
                }
                let mut all = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::sigprocmask(libc::SIG_SETMASK, &all, ptr::null_mut());
                libc::_exit(body())
            }
            pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error),
        }
    }
}

/// Closes a descriptor that was inherited and that nothing in a freshly forked process owns.
pub(crate) fn close_inherited(fd: RawFd) {
    // SAFETY: a number that is not open is refused; in the forked process its owners never run again.
    unsafe { libc::close(fd) };
}

/// Frees the pages of our own code: those that are needed are loaded again, from the page cache.
///
/// `ranges` are mappings of executable files, which were never written.
pub(crate) fn forget_code(ranges: &[(usize, usize)]) {
    for (start, end) in ranges {
        // SAFETY: the pages are clean copies of a file's, and the kernel brings them again when they are touched.
        unsafe { libc::madvise(*start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

/// What a child does between its spawn and exec. Everything is built beforehand: the child allocates nothing.
pub(crate) struct ChildPlan<'a> {
    /// Files by which it moves itself into control groups.
    pub(crate) entrances: &'a [&'a CStr],
    /// Programs to try, in order; each list ends with null.
    pub(crate) candidates: &'a [*const c_char],
    /// Arguments, the program's name first.
    pub(crate) args: &'a [*const c_char],
    /// The whole environment.
    pub(crate) env: &'a [*const c_char],
    /// Working directory.
    pub(crate) directory: &'a CStr,
    /// Descriptors as (source, target); every source lies above every target.
    pub(crate) fds: &'a [(RawFd, RawFd)],
    /// `None` where it executes its program at once, and reports failures only on the page.
    pub(crate) suspended: Option<SuspendPipes>,
    /// Where the child reports its spawn.
    pub(crate) spawn: &'a SpawnPage,
    /// The parent that it must have; with another it is an orphan.
    pub(crate) parent: Pid,
    /// Signals that do not have their default action here.
    pub(crate) signals: &'a [c_int],
}

/// Descriptors of a child that waits to be released before exec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuspendPipes {
    /// It reads one byte here before exec; end of file means that the child is not needed any more.
    pub(crate) wait: RawFd,
    /// Where readiness and failures are reported; closes on exec.
    pub(crate) report: RawFd,
}

/// The stack on which children prepare themselves, one after another.
#[derive(Debug)]
pub(crate) struct ChildStack(Vec<u128>);

impl ChildStack {
    /// 64 KiB, of which a child touches what it needs.
    pub(crate) fn new() -> Self {
        Self(vec![0; (64 << 10) / size_of::<u128>()])
    }
}

/// Makes a child of our parent's that prepares itself, waits where the plan suspends it, and executes the plan; returns
/// when it has executed its program or has ended.
///
/// The child runs in our memory, as by `vfork`: nothing is copied, and executing has nothing to tear down. Being our
/// sibling it is reaped by our parent, while it starts in our control groups and counted by our counters. The kernel
/// kills it when the thread that made us ends. The kernel writes its number to the page before it does anything.
pub(crate) fn clone_child(plan: &ChildPlan<'_>, stack: &mut ChildStack) -> io::Result<()> {
    let kind = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT;
    let flags = kind | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
    // SAFETY: the stack's end is aligned and the stack, the plan and its page outlive the call, which returns only when
    // the child has left our memory; the child calls only async-signal-safe functions and never returns.
    let pid = unsafe {
        let top = stack.0.as_mut_ptr().add(stack.0.len());
        let number = plan.spawn.fields().pid.as_ptr();
        libc::clone(enter_child, top.cast(), flags, ptr::from_ref(plan).cast_mut().cast(), number)
    };
    if pid > 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn enter_child(plan: *mut libc::c_void) -> c_int {
    // SAFETY: `clone_child` passes a plan that exists until the child has left.
    unsafe { run_child(&*plan.cast::<ChildPlan<'_>>()) }
}

/// SAFETY: only in a fresh child; the plan's lists end with null and point to strings that outlive the call.
unsafe fn run_child(plan: &ChildPlan<'_>) -> ! {
    // SAFETY: plain system calls; the pointers are valid by this function's contract.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != plan.parent.as_raw_pid() {
            libc::_exit(127);
        }
        libc::setpgid(0, 0);
        reset_signals(plan.signals);
        if let Err(errno) = enter_groups(plan.entrances) {
            fail(plan, Step::Groups, errno);
        }
        if libc::chdir(plan.directory.as_ptr()) != 0 {
            fail(plan, Step::Directory, errno());
        }
        if !arrange_descriptors(plan) {
            fail(plan, Step::Descriptors, errno());
        }
        if let Some(SuspendPipes { wait, report: pipe }) = plan.suspended {
            let ready = report(Step::Ready, libc::getpid());
            libc::write(pipe, ready.as_ptr().cast(), ready.len());
            wait_for_release(wait);
        }
        let first = absent(plan.candidates);
        plan.spawn.report_instant();
        fail(plan, Step::Exec, execute(plan, first))
    }
}

/// Moves this process, which has one thread, into control groups by writing to their files; or the errno. Calls nothing
/// that a forked child may not call.
pub(crate) fn enter_groups(entrances: &[&CStr]) -> Result<(), c_int> {
    // SAFETY: plain system calls; the text is one of C's, and a number that is not open is refused.
    let enter = |file: &&CStr| unsafe {
        let file = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        let entered = file >= 0 && libc::write(file, b"0".as_ptr().cast(), 1) == 1;
        let refused = if entered { Ok(()) } else { Err(errno()) };
        libc::close(file);
        refused
    };
    entrances.iter().try_for_each(enter)
}

fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Signals that this process catches or ignores.
pub(crate) fn altered_signals() -> Vec<c_int> {
    (1..=64).filter(|signal| disposition(*signal) != SIG_DEFAULT).collect()
}

/// `struct sigaction` as the kernel reads it, all zeros: the default action. Libc's own call refuses the two signals
/// that it keeps for itself, which may be inherited as ignored all the same.
const SIG_DEFAULT: u64 = 0;

/// The address of a signal's handler, or 0 or 1 for the kernel's default and for nothing.
fn disposition(signal: c_int) -> u64 {
    let mut action = [0u64; 4];
    // SAFETY: the kernel writes at most 32 bytes; a number that names no signal is refused and leaves zeros.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, ptr::null::<u64>(), action.as_mut_ptr(), 8usize) };
    action[0]
}

/// SAFETY: in a fresh child only, as it undoes handlers.
unsafe fn reset_signals(signals: &[c_int]) {
    let default = [SIG_DEFAULT; 4];
    // SAFETY: the kernel reads at most 32 bytes; a local signal set.
    unsafe {
        for signal in signals {
            libc::syscall(libc::SYS_rt_sigaction, *signal, default.as_ptr(), ptr::null_mut::<u64>(), 8usize);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Everything closes on exec except standard streams and targets. SAFETY: in a forked child only.
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
unsafe fn wait_for_release(wait: RawFd) {
    let mut byte = 0u8;
    // SAFETY: one byte into a local.
    unsafe {
        loop {
            match libc::read(wait, ptr::from_mut(&mut byte).cast(), 1) {
                1 => return,
                -1 if errno() == libc::EINTR => {}
                _ => libc::_exit(127),
            }
        }
    }
}

/// How many of the first candidates do not exist: executing them would only report that, in the program's time.
///
/// `stat` follows the same path with the same rights as `execve`, so that it fails for these two reasons where that does.
/// SAFETY: the list ends with null, and its pointers are to strings that outlive the call.
unsafe fn absent(candidates: &[*const c_char]) -> usize {
    let is_absent = |program: &*const c_char| {
        // SAFETY: by this function's contract; the local takes whatever the kernel writes.
        let found = unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            libc::stat(*program, &mut about)
        };
        found != 0 && matches!(errno(), libc::ENOENT | libc::ENOTDIR)
    };
    candidates.iter().take_while(|program| !program.is_null()).take_while(|program| is_absent(program)).count()
}

/// Tries the candidates from one of them on as execvp does; returns the errno that explains the failure best.
/// SAFETY: the plan's lists end with null and point to strings that outlive the call.
unsafe fn execute(plan: &ChildPlan<'_>, first: usize) -> c_int {
    let mut best = libc::ENOENT;
    for (at, program) in plan.candidates.iter().enumerate().skip(first).take_while(|(_, program)| !program.is_null()) {
        plan.spawn.report_candidate(at as u32);
        // SAFETY: by this function's contract.
        unsafe { libc::execve(*program, plan.args.as_ptr(), plan.env.as_ptr()) };
        match errno() {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => best = libc::EACCES,
            other => return other,
        }
    }
    best
}

/// SAFETY: in a fresh child only, as it exits.
unsafe fn fail(plan: &ChildPlan<'_>, step: Step, errno: c_int) -> ! {
    plan.spawn.fail(step, errno);
    let message = report(step, errno);
    // SAFETY: five bytes of a local array; a pipe takes them whole.
    unsafe {
        if let Some(suspended) = plan.suspended {
            libc::write(suspended.report, message.as_ptr().cast(), message.len());
        }
        libc::_exit(127)
    }
}

/// A child that has ended and been reaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaped {
    /// Its process id, which may be reused from now on.
    pub(crate) pid: i32,
    /// Exit code or signal.
    pub(crate) status: Status,
    /// What the kernel counted of it and of the children it waited for.
    pub(crate) counts: (CpuTime, Usage),
}

/// Reaps one ended child, any; `None` where no child has ended or there is none.
///
/// `ru_maxrss` inherits the resident memory in which a suspended child waited; here that is a spawner of one or two MB,
/// and the child reports how much it was before it executes its program.
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
    let status = if libc::WIFSIGNALED(status) {
        Status::Signalled(libc::WTERMSIG(status))
    } else {
        Status::Exited(libc::WEXITSTATUS(status))
    };
    Some(Reaped { pid, status, counts: counts(&usage) })
}

#[cfg(test)]
mod tests;
