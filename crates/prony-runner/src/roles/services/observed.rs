//! A server that runs already: a process of prony waits for its end in its place, and its own processes are observed.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prony_model::record::EffectiveProgram;
use prony_model::service::{Observed, PORT, ReadySign, ServiceSpec};
use prony_os::attached::Attached;
use prony_os::launch::{LaunchSpec, Started};
use prony_os::limits::{Group, counts_cpu};
use prony_os::sample::{Root, Supervisor};
use prony_place::launch_setting::Setting;

use super::ready;

/// How often it is looked for.
const AGAIN: Duration = Duration::from_millis(50);

/// What is recorded of such a server.
const REMARK: &str = "prony did not start this server, and observed its processes";

/// The processes of a server that runs already, which may be starting again; `None` where prony starts it.
///
/// # Errors
/// Why they cannot be observed, in words.
pub(super) fn attached(service: &ServiceSpec, stop: &mut dyn FnMut() -> bool) -> Result<Option<Attached>, String> {
    let Some(running) = &service.running else { return Ok(None) };
    let until = Instant::now() + service.ready.within.to_duration();
    loop {
        let found = Attached::find(&running.processes);
        // The number of a process that has ended is that of no other soon.
        let may_come = !matches!(running.processes, Observed::Pid(_));
        if found.is_ok() || !may_come || Instant::now() >= until || stop() {
            return found.map(Some);
        }
        std::thread::sleep(AGAIN);
    }
}

/// These processes, unless they are those of an `earlier` instance too, given by its role: they would be observed for one of the two only.
///
/// # Errors
/// Whose they are, in words.
pub(super) fn of_one<'o>(
    found: Option<Attached>,
    mut earlier: impl Iterator<Item = (&'o str, &'o Attached)>,
) -> Result<Option<Attached>, String> {
    let pid = found.as_ref().map(|found| found.pid);
    match earlier.find(|(_, other)| Some(other.pid) == pid) {
        Some((role, _)) => Err(format!("its processes are those of service `{role}`")),
        None => Ok(found),
    }
}

/// The processes of an instance: with a supervisor all below that, since orphans become its children.
pub(super) fn processes(attached: Option<&Attached>, started: &Started, supervisor: Option<Supervisor>) -> Attached {
    let started = || Attached { pid: supervisor.map_or(started.pid, |supervisor| supervisor.pid), group: None };
    attached.cloned().unwrap_or_else(started)
}

/// Records whether an instance that is ready is what is measured: whether a process of it listens where it is to be reached. Started
/// by a client, as of a container, it is not.
pub(super) fn record_listening(
    processes: &Attached,
    (service, setting, port): (&ServiceSpec, &Setting<'_>, u16),
    effective: &mut [EffectiveProgram],
) {
    let Some(recorded) = effective.iter_mut().find(|one| one.program == service.program.name) else { return };
    let uses_port = || {
        let sign = matches!(service.ready.sign, ReadySign::Port | ReadySign::Http(_));
        sign || service.texts().iter().any(|text| text.contains(PORT))
    };
    let addresses = match &service.running {
        Some(running) => addresses(&running.url, running.port),
        // A port that it does not use may become that of another process.
        None => ready::addresses(&service.ready.sign, setting, Some(port).filter(|_| uses_port())),
    };
    let known = [recorded.listens, processes.listens(&addresses)].into_iter().flatten();
    recorded.listens = known.reduce(|earlier, own| earlier && own);
}

/// The addresses of the host of a URL with this port.
fn addresses(url: &str, port: u16) -> Vec<SocketAddr> {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let with_port = place.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let host = with_port.map_or(place, |(host, _)| host);
    (host.trim_matches(['[', ']']), port).to_socket_addrs().into_iter().flatten().collect()
}

/// Turns the launch of a service into that of the process which waits for the end of the server.
pub(super) fn await_end(attached: &Attached, launch: &mut LaunchSpec, recorded: Option<&mut EffectiveProgram>) {
    // The supervisor is this same binary.
    launch.command = "/proc/self/exe".into();
    launch.args = attached.arguments().map(Into::into).to_vec();
    if let Some(recorded) = recorded {
        recorded.remarks.push(REMARK.to_owned());
        recorded.executable = attached.executable().map(|path| path.display().to_string());
    }
}

/// By what an instance is sampled: its first process with the control group of the others, and the directory in which that counts
/// CPU time.
pub(super) fn root(
    attached: Option<&Attached>,
    (started, group, supervisor): (&Started, &Group, Option<Supervisor>),
    role: &str,
) -> (Root, Option<PathBuf>) {
    let (pid, group, supervisor, counts) = match attached {
        Some(Attached { pid, group }) => (*pid, group.clone(), None, group.clone().filter(|dir| counts_cpu(dir))),
        None => (started.pid, group.directories().first().map(|dir| dir.to_path_buf()), supervisor, group.counting()),
    };
    (Root { group, supervisor, own: attached.is_none(), ..Root::subject(pid, role) }, counts)
}
