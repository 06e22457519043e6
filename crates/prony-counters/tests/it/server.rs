//! Servers that tests start.
#![allow(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that ends with this value, or with this process.
pub(crate) struct Server {
    pub(crate) port: u16,
    shell: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

impl Server {
    /// Runs a script of the shell with a new directory and a free port until the server is ready. The script starts the server,
    /// and ends it and removes the directory when it has read its input to the end.
    pub(crate) fn start(name: &str, script: &str, is_ready: impl Fn(u16) -> bool) -> Self {
        let dir = tempfile::Builder::new().prefix(&format!("prony-counters-{name}-")).tempdir().unwrap().keep();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(dir).arg(port.to_string());
        let mut server = Self { port, shell: command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap() };
        let until = Instant::now() + Duration::from_secs(120);
        while !is_ready(port) {
            let ended = server.shell.try_wait().unwrap().is_some();
            assert!(!ended && Instant::now() < until, "{name} did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

/// Whether programs are installed, said aloud where one is not.
pub(crate) fn are_there(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
        if !there {
            assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`{program}` is required and missing");
            println!("SKIPPED: `{program}` is not there");
        }
        there
    })
}
