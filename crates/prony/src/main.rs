//! The `prony` binary: starts the command line of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    prony::cli::main()
}
