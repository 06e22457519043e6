//! A server that runs already: a process of prony waits for its end in its place, and its own processes are observed.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prony_model::record::EffectiveProgram;
use prony_model::service::{Observed, ServiceSpec};
use prony_os::attached::Attached;
use prony_os::launch::{LaunchSpec, Started};
use prony_os::limits::{Group, counts_cpu};
use prony_os::sample::{Root, Supervisor};

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

/// Records whether a server that is ready is the one that is observed: whether a process of it listens where requests are sent.
pub(super) fn record_listening(attached: &Attached, service: &ServiceSpec, recorded: Option<&mut EffectiveProgram>) {
    if let (Some(recorded), Some(running)) = (recorded, &service.running) {
        let place = running.url.split_once("://").map_or(running.url.as_str(), |(_, rest)| rest).split('/').next();
        let place = place.map(|place| place.rsplit_once('@').map_or(place, |(_, place)| place));
        let has_port = |place: &&str| place.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let host = place
            .map(|place| if has_port(&place) { place.rsplit_once(':').map_or(place, |(host, _)| host) } else { place });
        let of_host = (host.unwrap_or_default().trim_matches(['[', ']']), running.port).to_socket_addrs();
        let addresses: Vec<IpAddr> = of_host.into_iter().flatten().map(|address| address.ip()).collect();
        recorded.listens = attached.listens(running.port, &addresses);
    }
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
