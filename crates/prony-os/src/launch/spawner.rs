//! Spawner: a small process that starts subjects, so that their peak memory does not include the supervisor's.
//!
//! A child shares the spawner's memory until it executes its program (`CLONE_VM`), so that no page table is copied and
//! none is torn down: both would be part of the time of a short program. Children belong to the supervisor
//! (`CLONE_PARENT`), which reaps them, but they start in the control groups of the spawner and are counted by its
//! inherited counters, so groups and counters are attached once for all subjects.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::ptr;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, retry_on_intr, write};
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, waitid, waitpid};

use super::channel::{Channel, receive_bytes, send_bytes};
use super::exec_strings::{Cut, ExecStrings};
use super::spec::TARGETS_END;
use crate::sys::memory::wait_for_own_memory;
use crate::sys::process::{
    ChildPlan, ChildStack, SpawnPage, Step, SuspendPipes, altered_signals, clone_child, enter_groups, forget_code,
    fork_into, report,
};

/// Bytes before a message's texts: its length, the numbers of its entrances, candidates, arguments, variables and targets,
/// and what is asked for.
const HEAD: usize = 28;
/// Offset of the number of targets in the head.
const TARGETS: usize = 5;
/// Offset of the kind of request in the head.
const WHAT: usize = 6;

/// A child that executes its program at once.
const AT_ONCE: usize = 0;
/// A child that is suspended before it executes its program.
const SUSPENDED: usize = 1;
/// No child: the spawner enters control groups itself.
const ENTER: usize = 2;

/// How often to check whether a spawner that does not answer is stopped.
const ANSWER_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The supervisor's handle to the spawner.
#[derive(Debug)]
pub(super) struct Spawner {
    /// Its pid.
    pub(super) pid: Pid,
    /// It has ended and was reaped.
    pub(super) ended: bool,
    socket: OwnedFd,
    /// The page where the last child reports how it was spawned.
    pub(super) spawn: Rc<SpawnPage>,
}

/// Descriptors of a child.
#[derive(Debug)]
pub(super) struct Fds<'a> {
    /// Where it reads one byte before exec, and where it reports; `None` where it is not suspended.
    pub(super) suspended: Option<(BorrowedFd<'a>, BorrowedFd<'a>)>,
    /// Descriptors that the program is given, with their numbers in it.
    pub(super) given: Vec<(BorrowedFd<'a>, u8)>,
}

impl Spawner {
    /// Forks it. Must be called before this process catches any signal or has other threads.
    pub(super) fn start() -> io::Result<Self> {
        let spawn = Rc::new(SpawnPage::new()?);
        let (socket, theirs) = Channel::pair()?;
        let parent = getpid();
        let (ours, page) = (socket.as_raw_fd(), Rc::clone(&spawn));
        let pid = fork_into(|| serve(&theirs, ours, parent, &page))?;
        Ok(Self { pid, ended: false, socket, spawn })
    }

    /// Whether it has been stopped, as a subject can do.
    pub(super) fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !self.ended && matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(state)) if state.stopped())
    }

    /// Ends it, so that it spawns no further child.
    pub(super) fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            // It is our child and not reaped, so that the pid is still its own.
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }

    /// Has it enter groups by these files, or only answer where there are none.
    ///
    /// # Errors
    /// The kernel's reason where it may not enter; [`io::ErrorKind::BrokenPipe`] where it has ended or is stopped.
    pub(super) fn enter(&self, entrances: &[PathBuf]) -> io::Result<()> {
        let texts = ExecStrings::default().entering(entrances.iter().cloned());
        let texts = texts.map_err(|Cut(what)| io::Error::new(io::ErrorKind::InvalidInput, what))?;
        match self.answer(&texts) {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Asks it to enter groups; its answer, if there is one.
    fn answer(&self, texts: &ExecStrings) -> Option<c_int> {
        request(&self.socket, ENTER, texts, &Fds { suspended: None, given: Vec::new() }).ok()?;
        while !self.is_stopped() {
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&ANSWER_PAUSE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    let mut errno = [0; 4];
                    let got = retry_on_intr(|| read(&self.socket, &mut errno)).ok()?;
                    return (got == 4).then(|| c_int::from_ne_bytes(errno));
                }
                Err(_) => return None,
            }
        }
        None
    }

    /// Where the runner asks for children, which report their spawn in the page.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Asks the spawner behind a socket for a child.
pub(super) fn launch(socket: &OwnedFd, texts: &ExecStrings, fds: &Fds<'_>) -> io::Result<()> {
    request(socket, if fds.suspended.is_some() { SUSPENDED } else { AT_ONCE }, texts, fds)
}

fn request(socket: &OwnedFd, what: usize, texts: &ExecStrings, fds: &Fds<'_>) -> io::Result<()> {
    let mut message = vec![0; HEAD];
    let lists = [&texts.entrances, &texts.candidates, &texts.args, &texts.env];
    message.extend(fds.given.iter().map(|(_, target)| *target));
    for text in [&texts.directory].into_iter().chain(lists.into_iter().flatten()) {
        message.extend_from_slice(text.as_bytes_with_nul());
    }
    let counts = lists.into_iter().map(Vec::len);
    let numbers = [message.len()].into_iter().chain(counts).chain([fds.given.len(), what]);
    for (at, number) in numbers.enumerate() {
        let number = u32::try_from(number).map_err(|_| io::Error::from(Errno::TOOBIG))?;
        message[4 * at..4 * at + 4].copy_from_slice(&number.to_ne_bytes());
    }
    let suspended = fds.suspended.into_iter().flat_map(|(wait, report)| [wait, report]);
    let all: Vec<BorrowedFd<'_>> = suspended.chain(fds.given.iter().map(|(fd, _)| *fd)).collect();
    send_bytes(socket, &message, &all)
}

/// The spawner itself: makes one child after another until the supervisor's end closes.
fn serve(socket: &OwnedFd, theirs: RawFd, parent: Pid, spawn: &SpawnPage) -> c_int {
    // Its copy of the supervisor's end would hide that the supervisor closes that; nothing else stays open here.
    close_all_but(&[socket.as_raw_fd()], theirs);
    // What is received gets numbers above those of standard streams.
    let streams = std::iter::repeat_with(|| open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()));
    let _streams: Vec<_> = streams.take_while(|null| matches!(null, Ok(null) if null.as_raw_fd() < 3)).collect();
    let _ = rustix::thread::set_name(c"prony-spawner");
    let mut spawning = Spawning { parent, spawn, signals: altered_signals(), stack: ChildStack::new() };
    let mut message = Vec::new();
    become_small();
    loop {
        let mut fds = Vec::new();
        if !matches!(receive(socket, &mut message, &mut fds), Ok(true)) {
            return 0;
        }
        if number(&message, WHAT) == ENTER {
            // If no answer can be sent, the asking process has ended; the next turn finds the socket closed.
            let _ = write(socket, &enter(&message).to_ne_bytes());
        } else {
            spawning.spawn(&message, fds);
        }
    }
}

/// Moves this process into groups; the errno, or 0.
fn enter(message: &[u8]) -> c_int {
    let Some(texts) = Parsed::of(message) else { return libc::EINVAL };
    enter_groups(&texts.entrances).err().unwrap_or(0)
}

/// Closes what was inherited, standard streams too.
fn close_all_but(keep: &[RawFd], theirs: RawFd) {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut open: Vec<RawFd> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    open.push(theirs);
    open.sort_unstable();
    open.dedup();
    for fd in open.into_iter().filter(|fd| !keep.contains(fd)) {
        crate::sys::process::close_inherited(fd);
    }
}

/// Frees the memory that the start needed, and resets the kernel's peak, which a child inherits.
fn become_small() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    forget_code(&maps.lines().filter_map(code).collect::<Vec<_>>());
    // If the file cannot be written, the peak stays, and values that are not above it are missing.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

/// The range of a line of `maps` that holds code of a file.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, access) = (fields.next()?, fields.next()?);
    let file = fields.nth(3).is_some_and(|path| path.starts_with('/'));
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    (file && access == "r-xp").then_some((number(start)?, number(end)?))
}

/// Takes in one message and its descriptors; `false` at the end.
fn receive(socket: &OwnedFd, message: &mut Vec<u8>, fds: &mut Vec<OwnedFd>) -> io::Result<bool> {
    message.clear();
    let mut wanted = HEAD;
    while message.len() < wanted {
        let start = message.len();
        message.resize(wanted.max(4096), 0);
        let got = receive_bytes(socket, &mut message[start..], RecvFlags::empty(), fds)?;
        message.truncate(start + got);
        if got == 0 {
            return Ok(false);
        }
        if message.len() >= HEAD {
            wanted = number(message, 0).max(HEAD);
        }
    }
    Ok(true)
}

/// A number in a message's head.
fn number(message: &[u8], at: usize) -> usize {
    let bytes = message.get(4 * at..4 * at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, |bytes| u32::from_ne_bytes(bytes) as usize)
}

/// What all children share.
struct Spawning<'a> {
    parent: Pid,
    spawn: &'a SpawnPage,
    signals: Vec<c_int>,
    stack: ChildStack,
}

impl Spawning<'_> {
    /// Spawns one child; a failure is reported instead of the child.
    fn spawn(&mut self, message: &[u8], fds: Vec<OwnedFd>) {
        let pipe =
            (number(message, WHAT) == SUSPENDED).then(|| fds.get(1).and_then(|pipe| fcntl_dupfd_cloexec(pipe, 0).ok()));
        let Err(errno) = self.make(message, fds) else { return };
        self.spawn.fail(Step::Clone, errno);
        // If the supervisor has ended, nobody needs the report.
        let _ = pipe.flatten().map(|pipe| write(&pipe, &report(Step::Clone, errno)));
    }

    fn make(&mut self, message: &[u8], fds: Vec<OwnedFd>) -> Result<(), c_int> {
        let texts = Parsed::of(message).ok_or(libc::EMFILE)?;
        let fds = lifted(fds, texts.targets).map_err(Errno::raw_os_error)?;
        let (suspended, given) = match fds.as_slice() {
            [wait, report, given @ ..] if texts.suspended => {
                (Some(SuspendPipes { wait: wait.as_raw_fd(), report: report.as_raw_fd() }), given)
            }
            given => (None, given),
        };
        let fds: Vec<(RawFd, RawFd)> =
            given.iter().zip(texts.targets).map(|(fd, target)| (fd.as_raw_fd(), RawFd::from(*target))).collect();
        if suspended.is_none() {
            self.spawn.wait_until_open();
        }
        let plan = ChildPlan {
            entrances: &texts.entrances,
            candidates: &texts.candidates,
            args: &texts.args,
            env: &texts.env,
            directory: texts.directory,
            fds: &fds,
            suspended,
            spawn: self.spawn,
            parent: self.parent,
            signals: &self.signals,
        };
        clone_child(&plan, &mut self.stack).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
        if self.spawn.failed().is_none() {
            self.spawn.pid().into_iter().for_each(wait_for_own_memory);
            self.spawn.report_executed();
        }
        Ok(())
    }
}

/// The descriptors with numbers above every target, so that arranging those overwrites no source.
fn lifted(fds: Vec<OwnedFd>, targets: &[u8]) -> Result<Vec<OwnedFd>, Errno> {
    let most = targets.iter().copied().map(RawFd::from).max().unwrap_or(0);
    let lift = |fd: OwnedFd| {
        if fd.as_raw_fd() > most { Ok(fd) } else { fcntl_dupfd_cloexec(fd, RawFd::from(TARGETS_END)) }
    };
    fds.into_iter().map(lift).collect()
}

/// A message in the form that exec needs, its lists ended by null.
struct Parsed<'a> {
    /// Its first two descriptors are those of a suspended child.
    suspended: bool,
    targets: &'a [u8],
    directory: &'a CStr,
    entrances: Vec<&'a CStr>,
    candidates: Vec<*const c_char>,
    args: Vec<*const c_char>,
    env: Vec<*const c_char>,
}

impl<'a> Parsed<'a> {
    fn of(message: &'a [u8]) -> Option<Self> {
        let (targets, mut texts) = message.get(HEAD..)?.split_at_checked(number(message, TARGETS))?;
        let mut next = || {
            let text = CStr::from_bytes_until_nul(texts).ok()?;
            texts = &texts[text.count_bytes() + 1..];
            Some(text)
        };
        let directory = next()?;
        let mut list = |at: usize| (0..number(message, at)).map(|_| next()).collect::<Option<Vec<&CStr>>>();
        let pointers = |texts: &[&CStr]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        let entrances = list(1)?;
        let (candidates, args, env) = (pointers(&list(2)?), pointers(&list(3)?), pointers(&list(4)?));
        Some(Self {
            suspended: number(message, WHAT) == SUSPENDED,
            targets,
            directory,
            entrances,
            candidates,
            args,
            env,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn texts(env: Vec<CString>) -> ExecStrings {
        let text = |text: &str| CString::new(text).unwrap();
        let (candidates, args) = (vec![text("/a"), text("/b")], vec![text("a"), text("")]);
        ExecStrings { directory: text("/"), entrances: vec![text("/g/tasks")], candidates, args, env }
    }

    #[test]
    fn a_message_arrives_whole_with_its_descriptors_whatever_its_size() {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let env = (0..20_000).map(|n| CString::new(format!("VARIABLE_{n}={n:0100}")).unwrap()).collect();
        let pid = getpid();
        let spawner = Spawner { pid, ended: false, socket: ours, spawn: Rc::new(SpawnPage::new().unwrap()) };
        let reader = std::thread::spawn(move || {
            let (mut message, mut fds) = (Vec::new(), Vec::new());
            assert!(receive(&theirs, &mut message, &mut fds).unwrap());
            let parsed = Parsed::of(&message).unwrap();
            let lengths = [parsed.candidates.len(), parsed.args.len(), parsed.env.len()];
            assert_eq!(parsed.entrances, [c"/g/tasks"]);
            (lengths, parsed.directory.to_owned(), parsed.targets.to_vec(), fds.len(), parsed.suspended)
        });
        let given = vec![(null.as_fd(), 1), (null.as_fd(), 9)];
        launch(&spawner.socket, &texts(env), &Fds { suspended: Some((null.as_fd(), null.as_fd())), given }).unwrap();
        let expected = ([3, 3, 20_001], CString::new("/").unwrap(), vec![1, 9], 4, true);
        assert_eq!(reader.join().unwrap(), expected);
    }

    #[test]
    fn only_what_lies_below_a_target_is_lifted() {
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let (low, high) = (null(), fcntl_dupfd_cloexec(null(), 70).unwrap());
        let numbers = [low.as_raw_fd(), high.as_raw_fd()];
        let fds = lifted(vec![low, high], &[1, 2, u8::try_from(numbers[0]).unwrap()]).unwrap();
        assert!(fds[0].as_raw_fd() >= RawFd::from(TARGETS_END));
        assert_eq!(fds[1].as_raw_fd(), numbers[1]);
        let same = fds[1].as_raw_fd();
        assert_eq!(lifted(fds, &[0]).unwrap()[1].as_raw_fd(), same);
    }

    #[test]
    fn only_code_of_files_is_code() {
        let line = "7f10-7f20 r-xp 00002000 08:01 77                         /usr/lib/libc.so.6";
        assert_eq!(code(line), Some((0x7f10, 0x7f20)));
        for other in ["7f10-7f20 r--p 0 08:01 77 /usr/lib/libc.so.6", "7ff0-7ff1 r-xp 0 00:00 0 [vdso]", "x", ""] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn spawner_enters_groups_by_their_files_and_reports_refusal() {
        let dir = tempfile::tempdir().unwrap();
        let tasks = dir.path().join("tasks");
        std::fs::write(&tasks, "").unwrap();
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let spawner = Spawner { pid: getpid(), ended: false, socket: ours, spawn: Rc::new(SpawnPage::new().unwrap()) };
        let answering = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut message, mut fds) = (Vec::new(), Vec::new());
                assert!(receive(&theirs, &mut message, &mut fds).unwrap());
                write(&theirs, &enter(&message).to_ne_bytes()).unwrap();
            }
        });
        spawner.enter(std::slice::from_ref(&tasks)).unwrap();
        assert_eq!(std::fs::read(&tasks).unwrap(), b"0");
        let refused = spawner.enter(&[tasks.clone(), dir.path().join("none")]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        answering.join().unwrap();
        assert!(spawner.enter(&[tasks]).is_err(), "nobody is there any more");
    }

    #[test]
    fn a_cut_message_is_none() {
        assert!(Parsed::of(&[0; HEAD]).is_none());
        assert!(Parsed::of(&[1; HEAD + 3]).is_none());
        assert!(Parsed::of(&[]).is_none());
    }
}
