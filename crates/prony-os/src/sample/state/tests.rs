//! Tests of rounds of sampling, on processes of this machine.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::*;
use crate::sample::parse;
use crate::sample::tree::Supervisor;

/// A shell was read again in the round in which one of 150 children ended that no sample showed, and had inherited others by then that
/// had been read as its children. They were counted twice.
#[test]
fn whoever_descends_from_a_process_that_is_read_again_is_read_after_it() {
    let parents = BTreeMap::from([(2, 1), (3, 20), (4, 9), (7, 2), (20, 7)]);
    assert_eq!(with_all_below(BTreeSet::from([2]), &parents), BTreeSet::from([2, 3, 7, 20]));
    assert_eq!(with_all_below(BTreeSet::new(), &parents), BTreeSet::new());
    assert_eq!(with_all_below(BTreeSet::from([5]), &BTreeMap::from([(5, 6), (6, 5)])), BTreeSet::from([5, 6]));
}

/// A shell with its input and the lines that it prints.
fn shell(script: &str) -> (Child, ChildStdin, Lines<BufReader<ChildStdout>>) {
    let mut shell =
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    (shell, input, BufReader::new(output).lines())
}

fn wait_for_sleep(pid: u32) {
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") S ") {
        std::thread::yield_now();
    }
}

/// An orphan ends, for which a process outside of the tree waits, and so do children of a shell that no sample showed.
#[test]
fn counters_of_an_orphan_are_not_taken_for_those_of_other_children() {
    let waits = "read line; for n in 1 2 3 4 5 6 7 8 9 10; do ls / >/dev/null; done; echo waited; read line";
    let (mut shell, mut input, mut lines) = shell(waits);
    let (mut orphan, orphans_input, _) = self::shell("read line");
    let root = |pid| Root { own: false, ..Root::subject(pid, "worker") };
    let mut state = State::new(vec![root(shell.id()), root(orphan.id())], Settings::default());
    [shell.id(), orphan.id()].into_iter().for_each(wait_for_sleep);
    state.round(RoundKind::Snapshot);
    let of_orphan = state.processes[&orphan.id()].last.as_ref().unwrap().counters.minor_faults;
    input.write_all(b"go\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "waited");
    drop(orphans_input);
    orphan.wait().unwrap();
    wait_for_sleep(shell.id());
    state.round(RoundKind::Snapshot);
    let stat = parse::stat(&std::fs::read(format!("/proc/{}/stat", shell.id())).unwrap()).unwrap();
    assert!(stat.minor_faults_children > of_orphan, "{stat:?}, {of_orphan}");
    let all = stat.minor_faults + stat.minor_faults_children + of_orphan;
    assert_eq!(state.totals()[""].minor_faults, all);
    assert!(state.totals()[""].unread > Nanos::ZERO, "nor is it known what it used at last");
    drop(input);
    shell.wait().unwrap();
}

/// A shell whose counters a round need not read, as it uses little CPU time, has inherited those of a child.
#[test]
fn counters_of_a_child_are_in_its_parent_or_on_their_own() {
    let (mut shell, mut input, mut lines) = shell("sh -c 'echo child; read line'; echo reaped; read line");
    let mut state = State::new(vec![Root::subject(shell.id(), "worker")], Settings::default());
    assert_eq!(lines.next().unwrap().unwrap(), "child");
    state.round(RoundKind::Snapshot);
    assert_eq!(state.processes.len(), 2);
    input.write_all(b"go\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "reaped");
    state.round(RoundKind::Round(1));
    assert_eq!(state.processes.len(), 1);
    state.round(RoundKind::Snapshot);
    let stat = parse::stat(&std::fs::read(format!("/proc/{}/stat", shell.id())).unwrap()).unwrap();
    assert!(stat.minor_faults_children > 0);
    assert_eq!(state.totals()[""].minor_faults, stat.minor_faults + stat.minor_faults_children);
    drop(input);
    shell.wait().unwrap();
}

/// Of 210 MB that orphans read beside 2 s of CPU time, `read` had 18 to 44 MB: those of orphans that no sample showed were in no
/// counter, and a control group has CPU time only.
#[test]
fn counters_of_orphans_are_what_their_supervisor_has_inherited() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let moves = format!("dd if=/dev/zero of={} bs=1M count=4 conv=fsync 2>/dev/null", file.path().display());
    let script = format!(
        "exec 2>/dev/null; sleep 1000 & echo $!; sleep 1000 & orphan=$!; echo $orphan; read go; {moves}; ls / >/dev/null; echo moved; \
         read go; kill $orphan; wait $orphan; {moves}; echo ended; read go; {moves}; echo left; read go"
    );
    let (mut shell, mut input, mut lines) = shell(&script);
    let mut next = || lines.next().unwrap().unwrap();
    let (root, orphan): (u32, u32) = (next().parse().unwrap(), next().parse().unwrap());
    [root, orphan].into_iter().for_each(wait_for_sleep);
    let supervisor = Some(Supervisor { pid: shell.id(), spawner: 0 });
    let mut state = State::new(vec![Root { supervisor, ..Root::subject(root, "worker") }], Settings::default());
    let mut round = || {
        state.round(RoundKind::Snapshot);
        (state.totals()["worker"].clone(), state.processes.len())
    };
    let read = |path: String| std::fs::read_to_string(format!("/proc/{}/{path}", shell.id())).unwrap();
    let inherited = || {
        let moved = |text: String| parse::io(&text).unwrap().1.as_bytes();
        let [all, own] = ["io".to_owned(), format!("task/{}/io", shell.id())].map(|path| moved(read(path)));
        (parse::stat(read("stat".to_owned()).as_bytes()).unwrap().minor_faults_children, all - own)
    };
    let own = |pid: u32| parse::stat(&std::fs::read(format!("/proc/{pid}/stat")).unwrap()).unwrap().minor_faults;
    let written = |total: &Counters| total.written.measured().unwrap().as_bytes();
    let (before, processes) = round();
    assert_eq!((before.minor_faults, processes), (own(root) + own(orphan), 2), "not those of the supervisor");

    let of_orphan = own(orphan);
    input.write_all(b"go\n").unwrap();
    assert_eq!(next(), "moved");
    let (moved, _) = round();
    let (faults, bytes) = inherited();
    assert_eq!((moved.minor_faults, written(&moved)), (own(root) + of_orphan + faults, written(&before) + bytes));
    assert_eq!((moved.child_faults, moved.unread_switches), (faults, 1), "of none that a sample showed");

    input.write_all(b"go\n").unwrap();
    assert_eq!(next(), "ended");
    let (ended, processes) = round();
    let (faults, bytes) = inherited();
    assert_eq!((ended.minor_faults, written(&ended)), (own(root) + faults, written(&before) + bytes), "none twice");
    assert_eq!((ended.child_faults, ended.unread, processes), (moved.child_faults, Nanos::ZERO, 1));

    state.unwatch(root);
    input.write_all(b"go\n").unwrap();
    assert_eq!(next(), "left");
    state.round(RoundKind::Snapshot);
    assert_eq!(written(&state.totals()["worker"]), written(&ended), "it serves another tree by now");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(root.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    drop(input);
    shell.wait().unwrap();
}
