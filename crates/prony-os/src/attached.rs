//! The processes of a server that runs already: which they are, and the wait for their end.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use prony_model::service::Observed;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::limits::counting_cpu;
use crate::sample::{descendants, members, parent};

/// The word with which prony starts itself as the process that waits for the end of a server.
pub const AWAIT: &str = "await-end";

/// How often it is read whether a control group has processes.
const AGAIN: Duration = Duration::from_millis(50);

/// The processes of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The first of them.
    pub pid: u32,
    /// The control group whose members they are, where it was named.
    pub group: Option<PathBuf>,
}

impl Attached {
    /// Finds them.
    ///
    /// # Errors
    /// Why there are none that can be observed, in words: no such process, or prony itself is one of them.
    pub fn find(observed: &Observed) -> Result<Self, String> {
        let (pid, group) = match observed {
            Observed::Pid(pid) => (*pid, None),
            Observed::PidFile(path) => {
                let text = fs::read_to_string(path).map_err(|error| format!("cannot read `{path}`: {error}"))?;
                // PostgreSQL writes more into its file behind the number.
                let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
                (first.ok_or_else(|| format!("`{path}` does not begin with the number of a process"))?, None)
            }
            Observed::Cgroup(path) => {
                let members = members(Path::new(path)).map_err(|error| format!("cannot read `{path}`: {error}"))?;
                let first = members.into_iter().min();
                let pid = first.ok_or_else(|| format!("no process is in the control group `{path}`"))?;
                (pid, Some(PathBuf::from(path)))
            }
            Observed::Container(name) => {
                let (pid, id) = of_container(&CONTAINERS, name)?;
                (pid, Some(group_of(pid, &id, counting_cpu(pid))?))
            }
        };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(format!("there is no process {pid}"));
        }
        // A thread has a directory of its own in `/proc`, and no end that could be waited for.
        descriptor(pid).map_err(|errno| format!("{pid} cannot be observed as a process: {errno}"))?;
        let found = Self { pid, group };
        let all = found.all();
        let above = std::iter::successors(Some(std::process::id()), |pid| parent(*pid).filter(|above| *above > 0));
        if let Some(pid) = above.into_iter().find(|pid| all.contains(pid)) {
            return Err(format!("prony itself is below process {pid}, which would be measured as the server"));
        }
        Ok(found)
    }

    /// All that run now.
    pub fn all(&self) -> Vec<u32> {
        let members = self.group.as_deref().map_or(Ok(vec![self.pid]), members).unwrap_or_default();
        let mut all: Vec<u32> = members.iter().flat_map(|pid| descendants(*pid)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The file that the first of them executes, where that can be read.
    pub fn executable(&self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.pid)).ok()
    }

    /// Whether one of them listens at one of these TCP addresses, or on its port of all; `None` where that is not known: nobody does,
    /// they are in another network namespace, or their descriptors cannot be read.
    pub fn listens(&self, addresses: &[SocketAddr]) -> Option<bool> {
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        if namespace("self")? != namespace(&self.pid.to_string())? {
            return None;
        }
        let sockets = listening(addresses)?;
        let mut are_known = true;
        for pid in self.all() {
            let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
                are_known = false;
                continue;
            };
            let mut open = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            if open.any(|file| sockets.iter().any(|socket| file.as_os_str() == socket.as_str())) {
                return Some(true);
            }
        }
        are_known.then_some(false)
    }

    /// The arguments of prony as the process that waits for their end.
    pub fn arguments(&self) -> [String; 2] {
        let of = match &self.group {
            Some(group) => format!("{GROUP}{}", group.display()),
            None => self.pid.to_string(),
        };
        [AWAIT.to_owned(), of]
    }
}

/// Programs that know containers, the first of which is asked that this machine has.
const CONTAINERS: [&str; 2] = ["docker", "podman"];

/// So long such a program may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// What a command prints, which is little; it is killed where that takes too long.
fn output_within(deadline: Duration, command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let until = Instant::now() + deadline;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("no answer after {deadline:?}")));
        }
        std::thread::sleep(AGAIN);
    }
    child.wait_with_output()
}

/// The first process of a container and its identifier, of the first of these programs that knows it.
fn of_container(programs: &[&str], name: &str) -> Result<(u32, String), String> {
    let mut why = Vec::new();
    for program in programs {
        let words = ["inspect", "--type", "container", "--format", "{{.State.Pid}} {{.Id}}", "--", name];
        let output = match output_within(DEADLINE, Command::new(program).args(words)) {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                why.push(format!("`{program} inspect`: {error}"));
                continue;
            }
        };
        let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
        match said.trim().split_once(' ').map(|(pid, id)| (pid.parse(), id)) {
            Some((Ok(0), _)) => return Err(format!("the container `{name}` does not run")),
            Some((Ok(pid), id)) if !id.contains(' ') => return Ok((pid, id.to_owned())),
            _ => why.push(format!("`{program} inspect` knows no container `{name}`: {}", said.trim())),
        }
    }
    if why.is_empty() {
        return Err(format!("none of the programs that know containers is installed: {}", programs.join(", ")));
    }
    Err(why.join("; "))
}

/// The directory of the control group of a container that counts CPU time: the one that is named after it, since its first process
/// may have put itself into one below that.
///
/// # Errors
/// In words, where the process is in no such group: it is another one, as of a container on another machine.
fn group_of(pid: u32, id: &str, groups: impl Iterator<Item = PathBuf>) -> Result<PathBuf, String> {
    let is_named = |group: &Path| group.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
    let of = |group: PathBuf| Some(group.ancestors().find(|group| is_named(group))?.to_owned());
    groups.into_iter().find_map(of).ok_or_else(|| {
        format!(
            "process {pid} is in no control group that is named after the container {id}, so that it may be another one: is the \
             container on another machine, or without a group of its own? Observe it by `pid`"
        )
    })
}

/// The begin of a word that names a control group, where another is the number of a process.
const GROUP: &str = "group:";

/// The sockets that listen at these TCP addresses, or on their ports of all, as descriptors are linked to them (proc(5),
/// `/proc/net/tcp`).
fn listening(addresses: &[SocketAddr]) -> Option<Vec<String>> {
    const LISTENS: &str = "0A";
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, *words.get(3)?, words.get(9)?);
        let (address, own) = local.rsplit_once(':')?;
        let (address, own) = (address_of(address)?, u16::from_str_radix(own, 16).ok()?);
        let serves = |asked: &SocketAddr| asked.port() == own && (address.is_unspecified() || asked.ip() == address);
        (state == LISTENS && addresses.iter().any(serves)).then(|| format!("socket:[{inode}]"))
    };
    let all: Vec<String> = tables.iter().flat_map(|table| table.lines().skip(1).filter_map(socket)).collect();
    (!all.is_empty()).then_some(all)
}

/// An address of a table: words of 32 bits, each in the machine's order of bytes. Of IPv4 it is that also where it is mapped to IPv6.
fn address_of(hexadecimal: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(hexadecimal.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let words: Vec<[u8; 4]> = (0..hexadecimal.len()).step_by(8).map(word).collect::<Option<_>>()?;
    match words.as_slice() {
        [only] => Some(Ipv4Addr::from(*only).into()),
        all => <[u8; 16]>::try_from(all.concat()).ok().map(|all| Ipv6Addr::from(all).to_canonical()),
    }
}

/// Waits until the process with this number, or the last in the control group with this directory, has ended; that it did is
/// a failure.
pub fn await_end(of: &str) -> ExitCode {
    match of.strip_prefix(GROUP) {
        None => of.parse().into_iter().for_each(await_process),
        Some(group) => {
            while members(Path::new(group)).is_ok_and(|all| !all.is_empty()) {
                std::thread::sleep(AGAIN);
            }
        }
    }
    ExitCode::FAILURE
}

fn descriptor(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty())
}

fn await_process(pid: u32) {
    let Ok(fd) = descriptor(pid) else { return };
    while let Ok(0) | Err(Errno::INTR) = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_prints_them() {
        let of = |text: &str| address_of(text).map(|address| address.to_string());
        let [local, mapped] = [u32::from_ne_bytes([127, 0, 0, 1]), u32::from_ne_bytes([0, 0, 255, 255])];
        assert_eq!(of(&format!("{local:08X}")).as_deref(), Some("127.0.0.1"));
        assert_eq!(of(&format!("{:016X}{mapped:08X}{local:08X}", 0)).as_deref(), Some("127.0.0.1"));
        assert_eq!(of(&"0".repeat(32)).as_deref(), Some("::"));
        assert_eq!((of("0000000"), of("")), (None, None));
    }

    #[test]
    fn process_is_found_by_number_and_by_file() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        fs::write(&file, format!("{}\n/more\n", child.id())).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = Attached { pid: std::process::id(), group: None };
        assert_eq!(own.listens(&[address]), Some(true));
        let expected = Attached { pid: child.id(), group: None };
        assert_eq!(expected.listens(&[address]), Some(false), "another process does");
        assert_eq!(own.listens(&[(Ipv4Addr::new(127, 0, 0, 2), address.port()).into()]), None, "nobody does there");
        drop(listener);
        assert_eq!(own.listens(&[address]), None, "nobody does");
        assert_eq!(Attached::find(&Observed::Pid(child.id())), Ok(expected.clone()));
        assert_eq!(Attached::find(&Observed::PidFile(file.display().to_string())), Ok(expected.clone()));
        assert_eq!(expected.all(), [child.id()]);
        assert!(expected.executable().is_some());
        let waiting = expected.arguments()[1].clone();
        let wait = std::thread::spawn(move || await_end(&waiting));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(wait.join().unwrap(), ExitCode::FAILURE);
        assert!(Attached::find(&Observed::Pid(expected.pid)).unwrap_err().contains("no process"));
        fs::write(&file, "none").unwrap();
        let why = Attached::find(&Observed::PidFile(file.display().to_string())).unwrap_err();
        assert!(why.contains("does not begin with the number"), "{why}");
        let why = Attached::find(&Observed::Cgroup(directory.path().display().to_string())).unwrap_err();
        assert!(why.contains("cannot read"), "{why}");
    }

    /// Without a container at hand, a script stands for the program that knows it.
    #[test]
    fn containers_are_found_by_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let docker = directory.path().join("docker");
        let script = "#!/bin/sh\ncase \"$7\" in up) echo 4711 abc12;; down) echo 0 abc13;; *) echo \"No such container: $7\" >&2; exit 1;; esac\n";
        fs::write(&docker, script).unwrap();
        fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let find = |name| of_container(&["/none/podman", docker.to_str().unwrap()], name);
        assert_eq!(find("up"), Ok((4711, "abc12".to_owned())));
        assert_eq!(find("down"), Err("the container `down` does not run".to_owned()));
        assert!(find("x").unwrap_err().ends_with("knows no container `x`: No such container: x"));
        let none = of_container(&["/none/docker"], "up").unwrap_err();
        assert!(none.starts_with("none of the programs that know containers is installed"), "{none}");
        let late = output_within(Duration::ZERO, Command::new("sleep").arg("60")).unwrap_err();
        assert!(late.to_string().starts_with("no answer after"), "{late}");
        let group = |path: &str| group_of(4711, "abc12", [PathBuf::from("/other"), PathBuf::from(path)].into_iter());
        assert_eq!(group("/c/docker/abc12"), Ok(PathBuf::from("/c/docker/abc12")));
        let scope = "/c/system.slice/docker-abc12.scope";
        assert_eq!(
            group(&format!("{scope}/init.scope")),
            Ok(PathBuf::from(scope)),
            "its service manager is in one below"
        );
        let why = group("/c/user.slice/session-1.scope").unwrap_err();
        assert!(why.contains("4711 is in no control group that is named after the container abc12"), "{why}");
    }

    #[test]
    fn members_of_a_group_are_found_and_prony_is_not_a_server() {
        let directory = tempfile::tempdir().unwrap();
        let group = |text: &str| {
            fs::write(directory.path().join("cgroup.procs"), text).unwrap();
            Attached::find(&Observed::Cgroup(directory.path().display().to_string()))
        };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = group(&format!("{}\n", child.id()));
        assert_eq!(found, Ok(Attached { pid: child.id(), group: Some(directory.path().to_path_buf()) }));
        assert!(group("").unwrap_err().contains("no process is in the control group"));
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("cgroup.procs"), format!("{}\n", child.id())).unwrap();
        assert_eq!(group("").map(|found| (found.pid, found.all())), Ok((child.id(), vec![child.id()])), "in one below");
        child.kill().unwrap();
        child.wait().unwrap();
        for observed in [Observed::Pid(std::process::id()), Observed::Pid(1)] {
            let why = Attached::find(&observed).unwrap_err();
            assert!(why.contains("prony itself is below"), "{why}");
        }
    }
}
