//! The processes of a server that runs already: which they are, and the wait for their end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use prony_model::service::Observed;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::sample::{descendants, parent};

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
        let found = match observed {
            Observed::Pid(pid) => Self { pid: *pid, group: None },
            Observed::PidFile(path) => {
                let text = fs::read_to_string(path).map_err(|error| format!("cannot read `{path}`: {error}"))?;
                // PostgreSQL writes more into its file behind the number.
                let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
                Self {
                    pid: first.ok_or_else(|| format!("`{path}` does not begin with the number of a process"))?,
                    group: None,
                }
            }
            Observed::Cgroup(path) => {
                let members = members(Path::new(path)).map_err(|error| format!("cannot read `{path}`: {error}"))?;
                let pid = members.first().ok_or_else(|| format!("no process is in the control group `{path}`"))?;
                Self { pid: *pid, group: Some(PathBuf::from(path)) }
            }
        };
        if !Path::new(&format!("/proc/{}", found.pid)).exists() {
            return Err(format!("there is no process {}", found.pid));
        }
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

    /// The arguments of prony as the process that waits for their end.
    pub fn arguments(&self) -> [String; 2] {
        let of = self.group.as_ref().map_or_else(|| self.pid.to_string(), |group| group.display().to_string());
        [AWAIT.to_owned(), of]
    }
}

/// The members of a control group, in ascending order.
fn members(group: &Path) -> std::io::Result<Vec<u32>> {
    let text = fs::read_to_string(group.join("cgroup.procs"))?;
    let mut all: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    all.sort_unstable();
    Ok(all)
}

/// Waits until the process with this number, or the last in the control group with this directory, has ended; that it did is
/// a failure.
pub fn await_end(of: &str) -> ExitCode {
    match of.parse() {
        Ok(pid) => await_process(pid),
        Err(_) => {
            while members(Path::new(of)).is_ok_and(|all| !all.is_empty()) {
                std::thread::sleep(AGAIN);
            }
        }
    }
    ExitCode::FAILURE
}

fn await_process(pid: i32) {
    let Some(fd) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else { return };
    while let Ok(0) | Err(rustix::io::Errno::INTR) = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None) {}
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn process_is_found_by_number_and_by_file() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        fs::write(&file, format!("{}\n/more\n", child.id())).unwrap();
        let expected = Attached { pid: child.id(), group: None };
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
        child.kill().unwrap();
        child.wait().unwrap();
        for observed in [Observed::Pid(std::process::id()), Observed::Pid(1)] {
            let why = Attached::find(&observed).unwrap_err();
            assert!(why.contains("prony itself is below"), "{why}");
        }
    }
}
