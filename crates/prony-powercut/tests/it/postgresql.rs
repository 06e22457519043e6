//! PostgreSQL on the file system: what `synchronous_commit` promises, reproduced.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::engines::{Engine, losses};
use crate::mounted::skip_without;

/// How long a server may take to start or to recover on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The user `nobody`, by whom a server runs where the test runs as root, which PostgreSQL refuses.
const NOBODY: u32 = 65_534;

/// A server with its data on the mount, or on an image.
struct Server {
    process: Child,
    /// Where its socket is.
    sockets: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once and without a checkpoint; killed, it would leave its shared memory.
        let process = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(process, rustix::process::Signal::QUIT);
        let until = Instant::now() + PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program of PostgreSQL, by a user whom it does not refuse.
fn program(name: &str) -> Command {
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    command.arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn belongs_to_server(path: &Path) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

impl Server {
    fn start(data: &Path, synchronous_commit: &str) -> Self {
        let sockets = tempfile::tempdir_in("/tmp").unwrap();
        belongs_to_server(sockets.path());
        let mut command = program("postgres");
        command.arg("-D").arg(data).arg("-k").arg(sockets.path()).args(["-c", "listen_addresses="]);
        command.args(["-c", &format!("synchronous_commit={synchronous_commit}"), "-c", "shared_buffers=8MB"]);
        let mut server = Self { process: command.spawn().unwrap(), sockets };
        let until = Instant::now() + PATIENCE;
        while server.query("SELECT 1").is_none() {
            assert!(Instant::now() < until && server.process.try_wait().unwrap().is_none(), "no server is ready");
            sleep(Duration::from_millis(20));
        }
        server
    }

    fn psql(&self) -> Command {
        let mut command = Command::new("psql");
        command.args(["-X", "-q", "-t", "-A", "-U", "postgres", "-d", "postgres", "-h"]).arg(self.sockets.path());
        command
    }

    /// The only value of a query; `None` where it fails.
    fn query(&self, query: &str) -> Option<String> {
        let output = self.psql().args(["-c", query]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

/// A server and a session, in which each statement is a transaction.
struct Session {
    session: Child,
    statements: ChildStdin,
    rows: BufReader<ChildStdout>,
    _server: Server,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.session.kill();
        let _ = self.session.wait();
    }
}

/// PostgreSQL with a value of `synchronous_commit`.
struct Postgresql(&'static str);

impl Engine for Postgresql {
    type Store = Session;

    fn open(&self, directory: &Path) -> Session {
        belongs_to_server(directory);
        let initdb =
            program("initdb").arg("-D").arg(directory).args(["-U", "postgres", "-A", "trust", "--locale=C"]).status();
        assert!(initdb.unwrap().success());
        let server = Server::start(directory, self.0);
        // The table itself must not be lost.
        server
            .query("SET synchronous_commit = on; CREATE TABLE records (n bigint PRIMARY KEY, value text NOT NULL)")
            .unwrap();
        let mut session = server.psql().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (statements, rows) = (session.stdin.take().unwrap(), session.stdout.take().unwrap());
        Session { session, statements, rows: BufReader::new(rows), _server: server }
    }

    fn commit(&self, session: &mut Session, n: u64) {
        let value = "repeat(md5(%::text), 20)".replace('%', &n.to_string());
        writeln!(session.statements, "INSERT INTO records VALUES ({n}, {value}) RETURNING n;").unwrap();
        let mut row = String::new();
        session.rows.read_line(&mut row).unwrap();
        assert_eq!(row.trim(), n.to_string());
    }

    fn found(&self, directory: &Path) -> Option<u64> {
        // Programs of other users must reach it.
        let above: Vec<PathBuf> = directory.ancestors().skip(1).take(2).map(Path::to_path_buf).collect();
        above.iter().for_each(|path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap());
        let _ = fs::remove_file(directory.join("postmaster.pid"));
        let server = Server::start(directory, self.0);
        let wrong = "SELECT count(*) FROM records WHERE value <> repeat(md5(n::text), 20)";
        let first = "SELECT count(*) FROM records WHERE n >= (SELECT count(*) FROM records)";
        let is_whole = [wrong, first].iter().all(|query| server.query(query).as_deref() == Some("0"));
        server.query("SELECT count(*) FROM records").filter(|_| is_whole)?.parse().ok()
    }
}

/// What images of a few cuts lack; `None` where a program or FUSE is missing.
fn lost(synchronous_commit: &'static str) -> Option<Vec<i64>> {
    for name in ["postgres", "initdb", "psql", "setpriv"] {
        if Command::new(name).arg("--version").output().is_err() {
            skip_without(name);
            return None;
        }
    }
    Some(losses(&Postgresql(synchronous_commit), 4)?.into_iter().map(|(_, lost)| lost).collect())
}

#[test]
fn postgresql_loses_nothing_by_synchronous_commit() {
    let Some(lost) = lost("on") else { return };
    assert!(lost.iter().all(|lost| *lost == 0), "{lost:?}");
}

#[test]
fn postgresql_without_synchronous_commit_loses_a_tail() {
    let Some(lost) = lost("off") else { return };
    assert!(lost.iter().all(|lost| *lost >= 0) && lost.iter().any(|lost| *lost > 0), "{lost:?}");
}
