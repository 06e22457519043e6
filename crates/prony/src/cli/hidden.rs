//! Commands that prony calls itself by: worker, supervisor, fixtures. Their socket is their standard input.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// Hosts one store.
pub fn worker() -> ExitCode {
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) => crate::worker::main(socket),
        Err(_) => ExitCode::from(2),
    }
}

/// Holds one subject and ends its tree.
pub fn supervise() -> ExitCode {
    prony_probe::launch::supervise_stdin()
}

/// Does the steps that standard input tells, and says on standard output what they came to.
pub fn fixture() -> ExitCode {
    match prony_probe::fixture::serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}
