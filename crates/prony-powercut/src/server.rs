//! The process that answers the kernel. It opens and maps no file of the mount.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use prony_model::units::Nanos;
use prony_os::lock::Lock;
use rustix::process::{Signal, getegid, geteuid, set_parent_process_death_signal};

use crate::control::Control;
use crate::disk::Disk;
use crate::error::Error;
use crate::points::{find, source};
use crate::process::{Arguments, Started, protect, read_line, readable, send_to_parent};
use crate::progress;
use crate::requests::Server;
use crate::settings::Settings;

/// How often it is checked whether the mount was removed by another process.
const PERIOD: Duration = Duration::from_millis(50);

/// How long the settings may take to arrive from the keeper, who sends them at once.
const WAIT: Duration = Duration::from_secs(60);

/// Threads of a server that delays requests.
const DELAYED_THREADS: usize = 4;

/// The main function of the server. Its arguments are those of `process::start`.
pub fn serve() -> ExitCode {
    let Some(arguments) = Arguments::read() else { return ExitCode::from(2) };
    // Without the keeper nobody would notice that this process does not answer.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if !arguments.has_parent() {
        return ExitCode::from(2);
    }
    protect(c"powercut-serve");
    // A thread that panics would answer no more, and its request would wait.
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        std::process::abort();
    }));
    let settings = read_line(&io::stdin(), WAIT).ok().flatten().and_then(|line| serde_json::from_slice(&line).ok());
    let Some(settings) = settings else { return ExitCode::from(2) };
    match Served::start(&arguments, &settings) {
        Ok(served) => served.answer(&arguments),
        Err(error) => {
            let _ = send_to_parent(&refusal(error));
            ExitCode::from(2)
        }
    }
}

fn refusal(error: Error) -> Started {
    match error {
        Error::Mount { why, hint, .. } => Started::NoMount { why, hint },
        error => Started::Refused { message: error.whole(), hint: error.hint() },
    }
}

struct Served {
    session: BackgroundSession,
    _control: Control,
    _lock: Lock,
}

impl Served {
    fn start(arguments: &Arguments, settings: &Settings) -> Result<Self, Error> {
        let Arguments { point, state, .. } = arguments;
        let lock = lock_state(state)?;
        let owner = (geteuid().as_raw(), getegid().as_raw());
        let disk = Disk::new(state, settings, owner).map_err(Error::file("create a file in", state))?;
        let disk = Arc::new(Mutex::new(disk));
        let control = Control::listen(state, &disk)?;
        let server = Server::new(disk, settings);
        let session =
            fuser::spawn_mount(server, point, &configuration(state, settings)).map_err(|e| no_mount(point, &e))?;
        Ok(Self { session, _control: control, _lock: lock })
    }

    /// Answers the keeper until it ends or the mount is removed.
    fn answer(self, arguments: &Arguments) -> ExitCode {
        let input = io::stdin();
        let mut is_there = send_to_parent(&Started::Mounted { server: std::process::id() }).is_ok();
        while is_there && !self.session.guard.is_finished() {
            let mut bytes = [0; 64];
            let Ok([is_ready]) = readable([&input.as_fd()], PERIOD) else { break };
            if is_ready {
                is_there = match rustix::io::read(&input, &mut bytes) {
                    Ok(count) => count > 0 && send_to_parent(&progress::now()).is_ok(),
                    Err(_) => false,
                };
            }
        }
        // It may be another one's meanwhile.
        if let Some(point) = find(&arguments.point).ok().filter(|point| point.state == arguments.state) {
            let _ = point.end();
        }
        // Dropped, the session would unmount whatever is mounted there.
        std::mem::forget(self.session);
        ExitCode::SUCCESS
    }
}

/// No two file systems use a state directory at once.
fn lock_state(state: &Path) -> Result<Lock, Error> {
    Lock::exclusive(state).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::setting(
            format!("the state directory `{}` is in use", state.display()),
            "choose another one for each mount",
        ),
        _ => Error::file("lock", state)(error),
    })
}

fn configuration(state: &Path, settings: &Settings) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(source(state)), MountOption::DefaultPermissions];
    // Others than root may share a mount only where `/etc/fuse.conf` allows it.
    config.acl = if geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    // All requests use the disk in turn, so that one thread is the fastest, unless requests wait for their delays.
    let is_delayed = settings.latency != Nanos::ZERO || settings.sync_latency != Nanos::ZERO;
    config.n_threads = Some(if is_delayed { DELAYED_THREADS } else { 1 });
    config
}

/// The reason why nothing was mounted, as far as it can be found.
fn no_mount(point: &Path, error: &io::Error) -> Error {
    let device = Path::new("/dev/fuse");
    let can_open = || OpenOptions::new().read(true).write(true).open(device).is_ok();
    let not_found = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    let said = error.to_string();
    let (why, hint) = if !device.exists() {
        ("there is no `/dev/fuse`".to_owned(), "load the kernel's module: `modprobe fuse`")
    } else if !can_open() {
        (format!("`/dev/fuse` cannot be opened: {said}"), "run as root, or allow users to read and write `/dev/fuse`")
    } else if not_found {
        ("`fusermount3` is missing, or may not be started".to_owned(), "install the package `fuse3`, or run as root")
    } else if said.trim().is_empty() {
        ("`fusermount3` refused, and did not say why".to_owned(), "install the package `fuse3`, or run as root")
    } else {
        (said.trim().to_owned(), "choose an empty directory of yours that is no mount point, or run as root")
    };
    Error::Mount { point: point.to_path_buf(), why, hint: hint.to_owned() }
}
