use rustix::process::{Pid, kill_process};

use super::super::supervise_stdin;
use super::*;

const ROLE: &str = "PRONY_TEST_SUPERVISOR";

/// This binary again, where a launcher asks for it.
#[test]
fn supervisor() {
    if std::env::var_os(ROLE).is_some() {
        std::process::exit(i32::from(supervise_stdin() != std::process::ExitCode::SUCCESS));
    }
}

/// Waits for a condition; panics after a time that no healthy machine needs.
fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The result where a subject is to be suspended by a spawner that is killed, or stopped.
fn suspended_without_spawner(stopped: bool) -> Error {
    let args = ["--exact", "launch::handle::tests::supervisor", "--nocapture", "--test-threads=1"];
    let launcher = Launcher::this_program(args).env(ROLE, "");
    let begin = Begin { reused: false, group: None, beside: None, scratch: Vec::new(), captured: [None, None] };
    let (mut link, mut client) = launcher.connect("subject".to_owned(), begin, &[]).unwrap();
    let spawner = client.spawner;
    let signal = |signal| kill_process(Pid::from_raw(spawner.cast_signed()).unwrap(), signal).unwrap();
    let Parts { texts, fds, .. } = LaunchSpec::new("/bin/true", "/").into_parts().unwrap();
    signal(if stopped { Signal::STOP } else { Signal::KILL });
    if !stopped {
        eventually("the spawner is gone", || !Path::new(&format!("/proc/{spawner}")).exists());
        return suspend(&mut link, &mut client, &texts, fds).unwrap_err();
    }
    suspend(&mut link, &mut client, &texts, fds).unwrap_err()
}

#[test]
fn spawner_that_has_ended_or_is_stopped_is_no_fault_of_the_subject() {
    for stopped in [false, true] {
        let error = suspended_without_spawner(stopped);
        assert!(matches!(error, Error::SupervisorEnded { .. }), "{stopped}: {error:?}");
    }
}
