//! Requests from other processes: one line of JSON each way over a socket in the state directory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::maps;
use crate::points::{Point, find, points};
use crate::process::send;
use crate::report::{CutReport, Pending, Status};
use crate::saved::{Cut, INDEX};
use crate::settings::{CutSettings, checked};

/// Name of the saved cut beside its images.
const SAVED: &str = "cut";

/// Name of the socket.
const SOCKET: &str = "control";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    /// Save a cut in this directory; so many maps have pages that could not be sent.
    Save(PathBuf, u64),
    Sync,
    Status,
}

/// The answer to a request that gives a `T`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<T> {
    Done(T),
    Refused { message: String, hint: Option<String> },
}

/// The listening end.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    pub(crate) fn listen(state: &Path, disk: &Arc<Mutex<Disk>>) -> Result<Self, Error> {
        let path = state.join(SOCKET);
        // The lock on the directory shows that nobody listens to an older one.
        let _ = fs::remove_file(&path);
        let listener = within(state, |path| UnixListener::bind(path)).map_err(Error::file("create", &path))?;
        let disk = Arc::clone(disk);
        // The thread ends with the process; each request has a thread of its own, since a cut takes long.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let disk = Arc::clone(&disk);
                thread::spawn(move || serve(&stream, &disk));
            }
        });
        Ok(Self { path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Uses the socket by a short path: the kernel takes 107 bytes at most.
fn within<T>(state: &Path, use_path: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let directory = File::open(state)?;
    use_path(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(SOCKET))
}

fn connect(state: &Path) -> io::Result<UnixStream> {
    within(state, |path| UnixStream::connect(path))
}

/// Whether a process serves the file system with this state directory, or may do so where this process may not ask it.
fn is_served(state: &Path) -> bool {
    let nobody = |error: io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
    !connect(state).is_err_and(nobody)
}

fn serve(stream: &UnixStream, disk: &Mutex<Disk>) {
    let mut line = String::new();
    let answer = match BufReader::new(stream).read_line(&mut line).map(|_| serde_json::from_str(&line)) {
        Ok(Ok(request)) => answer(request, disk),
        Ok(Err(error)) => Answer::Refused { message: format!("not understood: {error}"), hint: None },
        Err(_) => return,
    };
    // Nobody may wait for the answer any more.
    let _ = send(stream, &answer);
}

fn answer(request: Request, disk: &Mutex<Disk>) -> Answer<Value> {
    let mut disk = lock(disk);
    let done = match request {
        Request::Save(into, unsent_maps) => {
            disk.limits.unsent_maps = unsent_maps;
            disk.write_back_and_save(&into).map(|()| json!(()))
        }
        Request::Sync => disk.sync_and_count().map(|pending| json!(pending)),
        Request::Status => Ok(json!(disk.status())),
    };
    done.map_or_else(|error| Answer::Refused { message: error.whole(), hint: error.hint() }, Answer::Done)
}

/// Sends a request to the process that serves a file system.
fn ask<T: DeserializeOwned>(point: &Point, request: &Request) -> Result<T, Error> {
    // The socket outlives its process; a connection to it then is refused.
    let stream = connect(&point.state).map_err(|source| match point.is_mounted() {
        true => Error::Stale { point: point.path.clone(), source },
        false => Error::NotMounted { point: point.path.clone() },
    })?;
    let control = |source| Error::Control { point: point.path.clone(), source };
    send(&stream, request).map_err(control)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(control)?;
    match serde_json::from_str(&line).map_err(|error| control(error.into()))? {
        Answer::Done(answer) => Ok(answer),
        Answer::Refused { message, hint } => Err(Error::Refused { message, hint }),
    }
}

/// A directory that does not exist yet, as the server may use it. The server looks at no path that may lie in its own file
/// system, for it would wait for itself: this process does.
fn outside(point: &Point, into: &Path) -> Result<PathBuf, Error> {
    let (Some(above), Some(name)) = (into.parent(), into.file_name()) else {
        return Err(Error::file("create", into)(io::ErrorKind::AlreadyExists.into()));
    };
    let device = fs::metadata(above).map_err(Error::file("create", into))?.dev();
    if point.has(device) {
        return Err(Error::setting(
            format!("the images would lie in the file system that is cut: `{}`", into.display()),
            format!("choose a directory outside of `{}`", point.path.display()),
        ));
    }
    Ok(above.canonicalize().map_err(Error::file("find", above))?.join(name))
}

/// Makes the kernel send pages that programs have changed through maps, as a disk may have them after a power failure.
fn send_maps(point: &Point) -> Result<u64, Error> {
    // Where nobody answers, that is the reason.
    maps::send(point).or_else(|error| status_at(point).and(Err(error)))
}

pub(crate) fn save_at(point: &Point, into: &Path) -> Result<Cut, Error> {
    let into = outside(point, &checked(into)?)?;
    let unsent_maps = send_maps(point)?;
    ask::<()>(point, &Request::Save(into.clone(), unsent_maps))?;
    Cut::open(&into)
}

pub(crate) fn cut_at(point: &Point, settings: &CutSettings) -> Result<CutReport, Error> {
    let settings = settings.clone().with_directory(outside(point, settings.directory())?)?;
    let into = settings.directory();
    fs::create_dir(into).map_err(Error::file("create", into))?;
    let saved = into.join(SAVED);
    let done = save_at(point, &saved).and_then(|cut| cut.images_in(&settings));
    done.map_err(|error| {
        // The state of the disk cannot be had again, while images can.
        let is_saved = saved.join(INDEX).exists();
        // A part of the images would look like all of them.
        match is_saved {
            true => (1..=settings.images).for_each(|number| drop(fs::remove_dir_all(settings.path(number)))),
            false => drop(fs::remove_dir_all(into)),
        }
        if is_saved { Error::Images { saved, source: Box::new(error) } } else { error }
    })
}

pub(crate) fn sync_at(point: &Point) -> Result<Pending, Error> {
    send_maps(point)?;
    ask(point, &Request::Sync)
}

pub(crate) fn status_at(point: &Point) -> Result<Status, Error> {
    ask(point, &Request::Status)
}

/// Cuts the power of the file system that another process has mounted on `point`.
///
/// # Errors
/// As [`crate::Mounted::cut`], and where no file system is mounted there or its process does not answer.
pub fn cut(point: &Path, settings: &CutSettings) -> Result<CutReport, Error> {
    cut_at(&find(point)?, settings)
}

/// Makes everything durable on the file system that another process has mounted on `point`, and says what was pending.
///
/// # Errors
/// As [`cut`].
pub fn sync(point: &Path) -> Result<Pending, Error> {
    sync_at(&find(point)?)
}

/// Mount points of this file system whose server process has ended: every access to them fails. Their mounts were left by
/// processes that were all killed.
///
/// # Errors
/// Where the list of mounts cannot be read.
pub fn stale() -> Result<Vec<PathBuf>, Error> {
    Ok(points()?.into_iter().filter(|point| !is_served(&point.state)).map(|point| point.path).collect())
}
