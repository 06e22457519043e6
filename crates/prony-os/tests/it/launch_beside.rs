//! Tests subjects that share the control group of another subject.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on must say where")]

use prony_model::spec::Limits;
use prony_os::launch::{Launch, Process, Status};
use prony_os::limits::Group;

use crate::launch_roles::{launcher, left_pid, runs, subject};

#[test]
fn concurrent_subjects_end_separately_and_with_the_first() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let group = Group::create(&Limits::default()).unwrap();
    let suspended = dirs.iter().enumerate().map(|(index, dir)| {
        let mut spec = subject("sleep", dir.path());
        if index == 0 {
            spec.group = Some(group.clone());
        } else {
            spec.beside = Some(group.clone());
        }
        launcher().start(spec).unwrap()
    });
    let mut all: Vec<Box<dyn Process>> = suspended.collect();
    let grouped = !group.directories().is_empty();
    if grouped {
        let members = group.members();
        let mut pids = all.iter().map(|process| process.suspended().unwrap().cast_signed());
        assert!(pids.all(|pid| members.contains(&pid)), "suspended in it already");
    } else {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "a control group: {:?}", group.notes());
        eprintln!("SKIPPED: a control group: {:?}", group.notes());
    }
    all.iter_mut().for_each(|process| process.release().unwrap());
    all.iter_mut().for_each(|process| drop(process.started(&[]).unwrap()));
    let pids = dirs.each_ref().map(|dir| left_pid(dir.path(), "sleep"));
    let [mut first, mut second, mut third] = <[Box<dyn Process>; 3]>::try_from(all).unwrap();

    assert_eq!(second.kill_tree().unwrap().status, Status::Signalled(libc::SIGKILL));
    assert_eq!(second.finish().unwrap().0.problems, Vec::<String>::new());
    assert_eq!(pids.map(runs), [true, false, true], "its end is nobody else's");
    assert!(group.directories().iter().all(|dir| dir.is_dir()), "and the group is not its own to remove");

    first.kill_tree().unwrap();
    assert!(!grouped || !runs(pids[2]), "the end of the group's owner is that of all in it");
    first.finish().unwrap();
    assert!(group.directories().iter().all(|dir| !dir.exists()));
    third.kill_tree().unwrap();
    assert_eq!(third.finish().unwrap().0.problems, Vec::<String>::new());
    assert!(!pids.into_iter().any(runs));
}

#[test]
fn subject_that_cannot_be_executed_does_not_stop_its_siblings() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut nowhere = subject("code", dirs[0].path());
    nowhere.command = "/nowhere/at/all".into();
    let mut all = [nowhere, subject("code", dirs[1].path())].map(|spec| launcher().start(spec).unwrap());
    all.iter_mut().for_each(|process| process.release().unwrap());
    let [first, other] = &mut all;
    assert!(matches!(first.started(&[]), Err(prony_os::Error::Exec { .. })));
    other.started(&[]).unwrap();
    assert_eq!(other.wait(None).unwrap().unwrap().status, Status::Exited(3));
}
