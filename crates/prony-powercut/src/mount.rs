//! A mount, as its owner sees it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::Duration;

use crate::control;
use crate::error::Error;
use crate::points::{Point, find};
use crate::process::{KEEP, Started, ends_within, read_line, send, start};
use crate::report::{CutReport, End, Pending, Status};
use crate::saved::Cut;
use crate::settings::{CutSettings, Settings};

/// What the keeper may take longer than the server.
const MARGIN: Duration = Duration::from_secs(10);

/// A mounted file system, which a process of its own serves. Dropping it removes the mount; what programs wrote is lost then.
/// The mount is removed, too, where this process ends without having done so, killed or not, and where the server does not
/// answer: then programs that use it get errors. No access to the mount waits longer than [`Settings::patience`] and its latencies.
#[derive(Debug)]
pub struct Mounted {
    point: Point,
    keeper: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    server: u32,
    /// Why it ended, once that is known.
    ended: Option<Option<End>>,
}

impl Mounted {
    /// Mounts an empty file system on the directory `point`. Contents and the log are in the directory `state`, which is
    /// created where it is missing; nothing remains in it afterwards.
    ///
    /// `program` is started twice, with [`crate::KEEP`] and with [`crate::SERVE`] as its first argument, and must call
    /// [`crate::keep`] or [`crate::serve`] then.
    ///
    /// # Errors
    /// [`Error::Mount`] where FUSE is missing or may not be used, `point` is no directory or in use; otherwise where `state`
    /// cannot be used, or is in use, or `program` cannot be started.
    pub fn start(program: &Path, point: &Path, state: &Path, settings: &Settings) -> Result<Self, Error> {
        if let Ok(Point { path, .. }) = find(point) {
            return Err(Error::Mount {
                point: path,
                why: "there is one already".to_owned(),
                hint: "end its process, or remove it: `prony powercut unmount DIR`".to_owned(),
            });
        }
        let (path, state) = directories(point, state)?;
        let mut keeper = start(program, KEEP, &path, &state).map_err(Error::file("start", program))?;
        let (Some(input), Some(output)) = (keeper.stdin.take(), keeper.stdout.take()) else {
            return Err(Error::file("start", program)(std::io::ErrorKind::BrokenPipe.into()));
        };
        let patience = settings.patience.to_duration();
        // From here on, an error removes the mount, if there is one.
        let point = Point { path, state, device: (0, 0) };
        let mut mounted = Self { point, keeper, input: Some(input), output, server: 0, ended: None };
        let started = mounted.input.as_ref().map_or(Ok(None), |input| {
            send(input, settings).and_then(|()| read_line(&mounted.output, patience + MARGIN))
        });
        let line = started.map_err(Error::file("start", program))?;
        match line.and_then(|line| serde_json::from_slice(&line).ok()) {
            Some(Started::Mounted { server }) => {
                mounted.server = server;
                mounted.point = find(&mounted.point.path)?;
                Ok(mounted)
            }
            Some(Started::NoMount { why, hint }) => Err(Error::Mount { point: mounted.point.path.clone(), why, hint }),
            Some(Started::Refused { message, hint }) => Err(Error::Refused { message, hint }),
            None => Err(Error::file("start", program)(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point.path
    }

    /// Saves a cut at this moment ([`Cut::at`]) in the directory `into`, which is created: the programs wait meanwhile, and go on
    /// afterwards. Images can be made of it then, one by one, and also once the file system is removed. Pages that programs have
    /// changed through maps are in it as pending.
    ///
    /// # Errors
    /// Where it cannot be written, or would lie in the file system itself; where the file system was removed, or a file that
    /// a process has mapped cannot be opened.
    pub fn save(&self, into: &Path) -> Result<Cut, Error> {
        control::save_at(&self.point, into)
    }

    /// Saves a cut at this moment, and makes images of it: the disk as it may look after a power failure now.
    ///
    /// # Errors
    /// As [`Self::save`], and where an image cannot be written.
    pub fn cut(&self, settings: &CutSettings) -> Result<CutReport, Error> {
        control::cut_at(&self.point, settings)
    }

    /// Makes everything durable that is pending, and says what that was.
    ///
    /// # Errors
    /// Where the durable image cannot be written, the file system was removed, or a file that a process has mapped cannot be opened.
    pub fn sync(&self) -> Result<Pending, Error> {
        control::sync_at(&self.point)
    }

    /// What is not durable, and what happened since the mount.
    ///
    /// # Errors
    /// Where the file system was removed.
    pub fn status(&self) -> Result<Status, Error> {
        control::status_at(&self.point)
    }

    /// Why the mount is gone, where it is: another process removed it, or the process that served it ended or did not
    /// answer. A program that got an error from the file system is not to blame for it then.
    pub fn ended(&mut self) -> Option<End> {
        if self.ended.is_none() && matches!(self.keeper.try_wait(), Ok(None)) {
            return None;
        }
        let unknown = || End { was_removed: false, why: "the process that watched it ended".to_owned() };
        Some(self.reason().unwrap_or_else(unknown))
    }

    /// The reason that the keeper has written or writes.
    fn reason(&mut self) -> Option<End> {
        let output = &self.output;
        let read = || {
            let line = read_line(output, MARGIN).ok()??;
            serde_json::from_slice::<Option<End>>(&line).ok().flatten()
        };
        self.ended.get_or_insert_with(read).clone()
    }

    /// Removes the mount. Programs that still use files in it get errors from then on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn unmount(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.input.take().is_some() {
            let _ = self.reason();
            ends_within(&mut self.keeper, MARGIN);
            let _ = self.keeper.kill();
            let _ = self.keeper.wait();
        }
        // Where another process removed it, there may be a new one with the same device number meanwhile.
        if self.reason().is_some_and(|end| end.was_removed) {
            return Ok(());
        }
        // Mostly the keeper has done it.
        self.point.end()
    }

    /// Numbers of the processes that watch and that serve: what they use is no work of a program on the mount.
    pub fn processes(&self) -> [u32; 2] {
        [self.keeper.id(), self.server]
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Makes the state directory and finds both directories; the state directory may not be in the mount point.
fn directories(point: &Path, state: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let point = point.canonicalize().map_err(Error::file("find", point))?;
    fs::create_dir_all(state).map_err(Error::file("create", state))?;
    let state = state.canonicalize().map_err(Error::file("find", state))?;
    if state.starts_with(&point) {
        return Err(Error::setting(
            format!("the state directory `{}` is in the mount point", state.display()),
            format!("choose a directory outside of `{}`", point.display()),
        ));
    }
    Ok((point, state))
}
