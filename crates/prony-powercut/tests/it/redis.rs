//! Redis on the file system: what `appendfsync` promises, reproduced.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::engines::{Engine, losses};
use crate::mounted::skip_without;

/// How long a server may take to start or to load its data on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with its data on the mount, or on an image, and a session.
struct Server {
    process: Child,
    session: BufReader<UnixStream>,
    _socket: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// `None` where it does not start, because of the data.
    fn start(data: &Path, settings: &[&str]) -> Option<Self> {
        let socket = tempfile::tempdir_in("/tmp").unwrap();
        let path = socket.path().join("s");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--unixsocket"]).arg(&path).arg("--dir").arg(data).args(settings);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(stream) = UnixStream::connect(&path) {
                let mut server = Self { process, session: BufReader::new(stream), _socket: socket };
                while server.ask(&["PING"])?.starts_with(b"-LOADING") {
                    assert!(Instant::now() < until, "no server is ready");
                    sleep(Duration::from_millis(5));
                }
                return Some(server);
            }
            if process.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(Instant::now() < until, "no server is ready");
            sleep(Duration::from_millis(5));
        }
    }

    /// The first line of an answer, and the value of a byte string in its place; `None` where the server has ended.
    fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Option<Vec<u8>> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            command.extend(format!("${}\r\n", word.len()).bytes());
            command.extend(word);
            command.extend(b"\r\n");
        }
        self.session.get_mut().write_all(&command).ok()?;
        let mut line = String::new();
        self.session.read_line(&mut line).ok()?;
        let line = line.trim_end();
        let Some(length) = line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) else {
            return Some(line.as_bytes().to_vec()).filter(|line| !line.is_empty());
        };
        let mut value = vec![0; length + 2];
        self.session.read_exact(&mut value).ok()?;
        value.truncate(length);
        Some(value)
    }
}

/// A server with its settings, and records.
struct Redis {
    settings: &'static [&'static str],
    /// Whether a file that the server does not load is repaired by its own tool, as its documents say.
    repairs: bool,
    /// How often the longest value repeats its text.
    most: u64,
}

impl Redis {
    fn value(&self, n: u64) -> String {
        format!("{n} ").repeat(1 + (n * 37 % self.most) as usize)
    }
}

/// Truncates an append-only file where it is damaged.
fn repair(directory: &Path) {
    let mut command = Command::new("redis-check-aof");
    command.arg("--fix").arg(directory.join("appendonlydir/appendonly.aof.manifest"));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"y\n").unwrap();
    assert!(process.wait().unwrap().success());
}

impl Engine for Redis {
    type Store = Server;

    fn open(&self, directory: &Path) -> Server {
        Server::start(directory, self.settings).unwrap()
    }

    fn commit(&self, server: &mut Server, n: u64) {
        assert_eq!(server.ask(&["SET", &n.to_string(), &self.value(n)]).unwrap(), b"+OK");
    }

    fn found(&self, directory: &Path) -> Option<u64> {
        let mut server = match Server::start(directory, self.settings) {
            None if self.repairs => {
                repair(directory);
                Server::start(directory, self.settings)?
            }
            started => started?,
        };
        let size = server.ask(&["DBSIZE"])?;
        let size: u64 = std::str::from_utf8(&size).ok()?.strip_prefix(':')?.parse().ok()?;
        (0..size).all(|n| server.ask(&["GET", &n.to_string()]) == Some(self.value(n).into_bytes())).then_some(size)
    }
}

const ALWAYS: &[&str] = &["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
const EVERYSEC: &[&str] = &["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
const KERNEL: &[&str] = &["--save", "", "--appendonly", "yes", "--appendfsync", "no"];
const SNAPSHOTS: &[&str] = &["--appendonly", "no", "--save", "1 1"];

/// Values shorter than a page: where one of their pages is missing, so is a part of their command. With the number of cuts.
const SHORT: (u64, u64) = (600, 8);
const LONG: (u64, u64) = (6_000, 24);

/// What images of a few cuts lack; `None` where a program or FUSE is missing.
fn lost(settings: &'static [&'static str], repairs: bool, (most, cuts): (u64, u64)) -> Option<Vec<i64>> {
    for name in ["redis-server", "redis-check-aof"] {
        if Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            skip_without(name);
            return None;
        }
    }
    Some(losses(&Redis { settings, repairs, most }, cuts)?.into_iter().map(|(_, lost)| lost).collect())
}

#[test]
fn redis_loses_nothing_with_a_sync_for_each_command() {
    let Some(lost) = lost(ALWAYS, true, SHORT) else { return };
    assert!(lost.iter().all(|lost| *lost == 0), "{lost:?}");
}

#[test]
fn redis_with_other_syncs_loses_a_tail_once_its_file_is_repaired() {
    for settings in [EVERYSEC, KERNEL] {
        let Some(lost) = lost(settings, true, SHORT) else { return };
        assert!(lost.iter().all(|lost| *lost >= 0) && lost.iter().any(|lost| *lost > 0), "{lost:?}");
        let Some(lost) = self::lost(settings, false, SHORT) else { return };
        assert!(lost.iter().any(|lost| *lost < 0), "it starts with each image: {lost:?}");
    }
}

/// The append-only file has no checksums: a page of zeros inside a value is not noticed.
#[test]
fn redis_loads_long_values_that_were_not_synced_with_pages_of_zeros() {
    let Some(lost) = lost(KERNEL, true, LONG) else { return };
    assert!(lost.iter().any(|lost| *lost < 0), "{lost:?}");
}

#[test]
fn redis_without_an_append_only_file_loses_what_is_in_no_snapshot() {
    let Some(lost) = lost(SNAPSHOTS, false, SHORT) else { return };
    assert!(lost.iter().all(|lost| *lost >= 0) && lost.iter().any(|lost| *lost > 0), "{lost:?}");
}
