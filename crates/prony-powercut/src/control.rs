//! Requests from other processes: one line of JSON each way over a socket in the state directory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use prony_model::error::message;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::points::find;
use crate::report::{CutReport, Pending};
use crate::settings::CutSettings;
use crate::shared::Shared;

/// Name of the socket.
const SOCKET: &str = "control";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    Cut(CutSettings),
    Sync,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Cut(CutReport),
    Pending(Pending),
    Refused { message: String, hint: Option<String> },
}

/// The listening end.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    pub(crate) fn listen(state: &Path, shared: &Arc<Shared>) -> Result<Self, Error> {
        let path = state.join(SOCKET);
        // The lock on the directory shows that nobody listens to an older one.
        let _ = fs::remove_file(&path);
        let listener = within(state, |path| UnixListener::bind(path)).map_err(Error::file("create", &path))?;
        let shared = Arc::downgrade(shared);
        // The thread ends with the process; each request has a thread of its own, since a cut takes long.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(shared) = shared.upgrade() else { break };
                thread::spawn(move || serve(&stream, &shared));
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

fn serve(stream: &UnixStream, shared: &Shared) {
    let mut line = String::new();
    let answer = match BufReader::new(stream).read_line(&mut line).map(|_| serde_json::from_str(&line)) {
        Ok(Ok(request)) => answer(request, shared),
        Ok(Err(error)) => Answer::Refused { message: format!("not understood: {error}"), hint: None },
        Err(_) => return,
    };
    // Nobody may wait for the answer any more.
    let _ = send(stream, &answer);
}

fn answer(request: Request, shared: &Shared) -> Answer {
    let done = match request {
        Request::Cut(settings) => shared.cut(&settings).map(Answer::Cut),
        Request::Sync => shared.sync().map(Answer::Pending),
    };
    done.unwrap_or_else(|error| {
        let text = message(&error, None);
        let message = text.trim_end().trim_start_matches("error: ").to_owned();
        Answer::Refused { message, hint: error.hint() }
    })
}

fn send(mut stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Sends a request to the process that serves the file system on `point`.
fn ask(point: &Path, request: &Request) -> Result<Answer, Error> {
    let (point, state) = find(point)?;
    // The socket outlives its process; a connection to it then is refused.
    let stream = within(&state, |path| UnixStream::connect(path))
        .map_err(|source| Error::Stale { point: point.clone(), source })?;
    let control = |source| Error::Control { point: point.clone(), source };
    send(&stream, request).map_err(control)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(control)?;
    match serde_json::from_str(&line).map_err(|error| control(error.into()))? {
        Answer::Refused { message, hint } => Err(Error::Refused { message, hint }),
        answer => Ok(answer),
    }
}

/// Cuts the power of the file system that another process has mounted on `point`.
///
/// # Errors
/// As [`crate::Mounted::cut`], and where no file system is mounted there or its process does not answer.
pub fn cut(point: &Path, settings: CutSettings) -> Result<CutReport, Error> {
    match ask(point, &Request::Cut(settings))? {
        Answer::Cut(report) => Ok(report),
        _ => Err(unexpected(point)),
    }
}

/// Makes everything durable on the file system that another process has mounted on `point`, and says what was pending.
///
/// # Errors
/// As [`cut`].
pub fn sync(point: &Path) -> Result<Pending, Error> {
    match ask(point, &Request::Sync)? {
        Answer::Pending(pending) => Ok(pending),
        _ => Err(unexpected(point)),
    }
}

fn unexpected(point: &Path) -> Error {
    Error::Control { point: point.to_path_buf(), source: io::ErrorKind::InvalidData.into() }
}
