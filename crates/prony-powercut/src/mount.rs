//! Mounts the file system.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use prony_os::lock::Lock;
use rustix::process::{Resource, Rlimit, getegid, geteuid, getrlimit, setrlimit};

use crate::control::Control;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::fuse::Server;
use crate::points::{SOURCE, detach, find};
use crate::report::{CutReport, Pending};
use crate::settings::{CutSettings, Settings};
use crate::shared::Shared;

/// Threads that answer requests: one that waits for a slow `fsync` does not stop the others.
const THREADS: usize = 4;

/// A mounted file system. Dropping it removes the mount; what programs wrote is lost then.
#[derive(Debug)]
pub struct Mounted {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    _control: Control,
    _lock: Lock,
}

impl Mounted {
    /// Mounts an empty file system on the directory `point`. Contents and the log are in the directory `state`, which is
    /// created where it is missing; nothing remains in it afterwards.
    ///
    /// # Errors
    /// [`Error::Mount`] where FUSE is missing or may not be used, `point` is no directory or in use; otherwise where `state`
    /// cannot be used, or is in use.
    pub fn mount(point: &Path, state: &Path, settings: &Settings) -> Result<Self, Error> {
        let point = point.canonicalize().map_err(Error::file("find", point))?;
        fs::create_dir_all(state).map_err(Error::file("create", state))?;
        let state = state.canonicalize().map_err(Error::file("find", state))?;
        if state.starts_with(&point) {
            return Err(Error::Setting {
                message: format!("the state directory `{}` is in the mount point", state.display()),
                hint: format!("choose a directory outside of `{}`", point.display()),
            });
        }
        if find(&point).is_ok() {
            return Err(Error::Mount {
                point,
                why: "there is one already".to_owned(),
                hint: "end its process, or remove it: `prony powercut unmount DIR`".to_owned(),
            });
        }
        let locked = lock_state(&state)?;
        raise_file_limit();
        let owner = (geteuid().as_raw(), getegid().as_raw());
        let disk = Disk::new(&state, settings, owner).map_err(Error::file("create a file in", &state))?;
        let disk = Arc::new(Mutex::new(disk));
        let server = Server::new(Arc::clone(&disk), settings);
        let session = fuser::spawn_mount(server, &point, &configuration(&state)).map_err(|e| no_mount(&point, &e))?;
        let device = fs::metadata(&point).map_err(Error::file("read", &point))?.dev();
        let shared = Arc::new(Shared { disk, point, device });
        let control = Control::listen(&state, &shared)?;
        Ok(Self { shared, session: Some(session), _control: control, _lock: locked })
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.shared.point
    }

    /// Freezes the file system, makes images of the disk as it may look after a power failure at this moment, and lets
    /// the programs go on.
    ///
    /// # Errors
    /// Where an image cannot be written, or would lie in the file system itself.
    pub fn cut(&self, settings: &CutSettings) -> Result<CutReport, Error> {
        self.shared.cut(settings)
    }

    /// Makes everything durable that is pending, and says what that was.
    ///
    /// # Errors
    /// Where the durable image cannot be written.
    pub fn sync(&self) -> Result<Pending, Error> {
        self.shared.sync()
    }

    /// What is not durable.
    pub fn pending(&self) -> Pending {
        lock(&self.shared.disk).pending()
    }

    /// Whether the mount was removed from outside.
    pub fn is_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Removes the mount. Programs that still use files in it get errors from then on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn unmount(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(session) = self.session.take() else { return Ok(()) };
        if session.guard.is_finished() {
            // Dropped, it would remove whatever else is mounted there.
            std::mem::forget(session);
            return Ok(());
        }
        if session.umount_and_join().is_ok() {
            return Ok(());
        }
        // It is in use: no new user from now on, and the old ones lose it with this process.
        detach(&self.shared.point)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// No two file systems use a state directory at once.
fn lock_state(state: &Path) -> Result<Lock, Error> {
    Lock::exclusive(state).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::Setting {
            message: format!("the state directory `{}` is in use", state.display()),
            hint: "choose another one for each mount".to_owned(),
        },
        _ => Error::file("lock", state)(error),
    })
}

/// A descriptor for each content is open as long as the file exists.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn configuration(state: &Path) -> Config {
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName(format!("{SOURCE}{}", state.display())), MountOption::DefaultPermissions];
    // Others than root may share a mount only where `/etc/fuse.conf` allows it.
    config.acl = if geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config
}

/// The reason why nothing was mounted, as far as it can be found.
fn no_mount(point: &Path, error: &io::Error) -> Error {
    let device = Path::new("/dev/fuse");
    let (why, hint) = if !device.exists() {
        ("there is no `/dev/fuse`".to_owned(), "load the kernel's module: `modprobe fuse`")
    } else if error.kind() == io::ErrorKind::NotFound {
        ("`fusermount3` is missing".to_owned(), "install the package `fuse3`, or run as root")
    } else if matches!(error.kind(), io::ErrorKind::PermissionDenied) {
        (error.to_string(), "run as root, or allow users to read and write `/dev/fuse`")
    } else {
        (error.to_string(), "choose an empty directory that is no mount point")
    };
    Error::Mount { point: point.to_path_buf(), why, hint: hint.to_owned() }
}
