//! The processes of a mount, for programs that are not `prony`, such as tests: see `prony_powercut::Mounted::start`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(prony_powercut::KEEP) => prony_powercut::keep(),
        Some(prony_powercut::SERVE) => prony_powercut::serve(),
        _ => ExitCode::from(2),
    }
}
