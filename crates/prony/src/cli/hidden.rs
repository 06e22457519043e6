//! Hidden commands with which prony starts itself again: as a worker, a supervisor or a fixture. Standard input of the
//! new process is a socket to its parent.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use prony_engines::phases::Queue;
use prony_os::attached::AWAIT;

/// What to do at this word; `has_more` says whether other words follow.
pub fn of(word: &OsStr, has_more: bool) -> Option<fn() -> ExitCode> {
    match (word.to_str()?, has_more) {
        ("worker", false) => Some(worker),
        ("supervise", false) => Some(supervise),
        ("fixture", false) => Some(fixture),
        (AWAIT, true) => Some(await_end),
        (prony_powercut::KEEP, true) => Some(prony_powercut::keep),
        (prony_powercut::SERVE, true) => Some(prony_powercut::serve),
        _ => None,
    }
}

/// Waits for the end of a server that prony did not start.
fn await_end() -> ExitCode {
    std::env::args().nth(2).map_or(ExitCode::from(2), |of| prony_os::attached::await_end(&of))
}

/// Hosts one store.
fn worker() -> ExitCode {
    // First, since a descriptor that is made here may get its number.
    let queue = prony_os::launch::inherited(Queue::NUMBER);
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) => crate::worker::main(socket, queue),
        Err(_) => ExitCode::from(2),
    }
}

/// Holds one subject and ends its tree.
fn supervise() -> ExitCode {
    prony_os::launch::supervise_stdin()
}

/// Runs the steps that standard input requests, and writes their results to standard output.
#[expect(clippy::disallowed_methods, reason = "a protocol between processes, which nobody reads")]
fn fixture() -> ExitCode {
    match prony_os::fixture::serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}
