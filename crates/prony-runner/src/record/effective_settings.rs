//! The part of a trial's record that describes the program that ran, its replicas, and its data on disk. Pure functions.

use std::path::PathBuf;

use prony_boundaries::calls::Calls;
use prony_boundaries::phase_state::PhaseState;
use prony_experiment::redacted::{LEFT_OUT, hidden};
use prony_model::record::EffectiveProgram;
use prony_model::record::effective::{self, ProgramStore, Replica, Replicas};
use prony_model::spec::TrialSpec;
use prony_model::units::Nanos;
use prony_os::sample::Snapshot;
use prony_place::launch_setting::Setting;

use crate::watched::Watched;
use crate::watched::replicas::{Ran, ReplicaEnd, Replicated};

/// A program with what was observed of it. Command lines are included only where `commands` are recorded.
pub(crate) fn of_program(
    setting: &Setting<'_>,
    mut effective: EffectiveProgram,
    spec: &TrialSpec,
    watched: &Watched,
    commands: bool,
) -> EffectiveProgram {
    let executable = watched.executable.as_ref().filter(|_| commands);
    effective.executable = executable.map(|path| path.to_string_lossy().into_owned());
    describe(&mut effective, spec, watched);
    effective.replicas = replicas(setting, &watched.replicas, commands);
    recorded(effective, commands)
}

/// A program for the record: without its paths and the texts of changes to its copy, unless `commands` are recorded.
pub fn recorded(mut program: EffectiveProgram, commands: bool) -> EffectiveProgram {
    if commands {
        return program;
    }
    program.directory = LEFT_OUT.into();
    if let Some(source) = &mut program.source {
        // A guard compares the states of one directory.
        source.directory = PathBuf::from(hidden(&source.directory.to_string_lossy()));
    }
    if let Some(data) = &mut program.data {
        data.directory = PathBuf::from(hidden(&data.directory.to_string_lossy()));
    }
    if let Some(store) = &mut program.store {
        store.path = LEFT_OUT.into();
    }
    let files = program.calls.values_mut().filter_map(|call| call.file.as_mut());
    program.remarks.iter_mut().chain(files).for_each(|text| LEFT_OUT.clone_into(text));
    // It compares what the changes did, too.
    program.changes.iter_mut().for_each(|text| *text = hidden(text));
    program
}

/// Adds what else was observed of the program, and what it left behind.
fn describe(effective: &mut EffectiveProgram, spec: &TrialSpec, watched: &Watched) {
    for (index, (phase, tracked)) in spec.phases.iter().zip(&watched.tracker.phases).enumerate() {
        let replicas = || watched.replicas.all.iter().filter(|_| watched.replicas.phase == index).map(|ran| &ran.lines);
        let unheard = tracked.ended.is_some() && tracked.heard_nothing();
        if unheard && !replicas().any(|replica| tracked.is_reported_by(replica)) {
            effective.heard_nothing.push(phase.name.clone());
        }
        if tracked.ambiguous {
            effective.read_by_several.push(phase.name.clone());
        }
        let unordered = std::iter::once(tracked).chain(replicas()).filter(|lines| lines.unordered);
        let answers = unordered.map(PhaseState::reads_answer).reduce(|one, other| one || other);
        effective.unordered.extend(answers.map(|answers| (phase.name.clone(), answers)));
        if tracked.repeats > 0 {
            effective.repeated.insert(phase.name.clone(), tracked.repeats);
        }
        let mut resolution = tracked.lines.resolution();
        resolution.extend(tracked.calls.iter().flat_map(Calls::resolution));
        if !resolution.is_empty() {
            effective.resolution.insert(phase.name.clone(), resolution);
        }
    }
    effective.status = Some(watched.ended.status);
    effective.output = (&watched.output).into();
    effective.left_behind = watched.ended.leftover;
    effective.strange_marks.clone_from(&watched.tracker.strange);
    effective.strange_marks_in_all = watched.tracker.unknown_marks;
    if let Some(store) = &mut effective.store {
        describe_data(store, &watched.snapshots, watched.polls_took);
    }
}

/// Adds to the place of a program's data what else is known of them beside the metrics of phases. `polls_took` is the
/// time that reading them took while a phase waited for quiet.
fn describe_data(store: &mut ProgramStore, snapshots: &[Snapshot], polls_took: Nanos) {
    // The program is suspended at the first snapshot and has ended at the last.
    let running = snapshots.get(1..snapshots.len().saturating_sub(1)).unwrap_or_default();
    store.reading = running.iter().fold(polls_took, |sum, snapshot| sum + snapshot.store_took);
    store.settling = polls_took;
    store.at_begin = snapshots.first().and_then(|snapshot| snapshot.disk.measured().copied());
    store.found = snapshots.iter().any(|snapshot| snapshot.disk.measured().is_some());
}

/// All that is known beside metrics; `None` where the program has no replicas. Command lines and values of variables
/// are in it only where `commands` are recorded.
fn replicas(setting: &Setting<'_>, replicated: &Replicated, commands: bool) -> Option<Replicas> {
    let program = setting.program;
    let spec = program.replicas.as_ref()?;
    let variable = |(name, value): (&String, &String)| (name.clone(), setting.recorded(value, commands));
    let one = |ran: &Ran| {
        let own = program.replica(spec, ran.number);
        let own_env = own.env.iter().filter(|(name, _)| spec.env.contains_key(*name));
        let (end, why) = match &ran.end {
            ReplicaEnd::NotBegun(why) => (effective::ReplicaEnd::NotBegun, Some(why.clone())),
            ReplicaEnd::Ended(_) => (effective::ReplicaEnd::Ended, None),
            ReplicaEnd::CutOff(_) => (effective::ReplicaEnd::CutOff, None),
        };
        let process = ran.end();
        Replica {
            command: setting.recorded_words(&own.command, commands),
            env: own_env.map(variable).collect(),
            instance: own.name,
            pid: process.map(|_| ran.pid),
            end,
            why,
            status: process.map(|process| process.status),
            released: ran.released,
            ended: process.map(|end| end.at),
            left_behind: process.map(|end| end.leftover),
            heard_nothing: ran.lines.heard_nothing(),
            digest: ran.lines.lines.digest().cloned(),
            resolution: ran.lines.lines.resolution(),
            marks: ran.marks,
            output: (&ran.output).into(),
        }
    };
    Some(Replicas {
        count: spec.count,
        phase: spec.phase.clone(),
        released_within: released_within(&replicated.all),
        memory_read: replicated.memory,
        copies: replicated.all.iter().map(one).collect(),
    })
}

/// From the first release to the last.
fn released_within(all: &[Ran]) -> Option<Nanos> {
    let released = || all.iter().map(|ran| ran.released);
    Some(released().max()?.since(released().min()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_boundaries::stream::Line;
    use prony_boundaries::tracker::Tracker;
    use prony_model::program::{ObserveSpec, Trigger};
    use prony_model::reading::{Reading, Why};
    use prony_model::spec::{Action, Limits, PhaseSpec, StoreSpec, Subject};
    use prony_os::cache::DiskUsage;

    use super::*;
    use crate::figures::replicas::tests::ran;
    use crate::figures::span::tests::{snapshot, watched};

    #[test]
    fn the_record_says_what_was_there_before_and_what_reading_it_took() {
        let ms = Nanos::from_millis;
        let size = |n: u64| Reading::Measured(DiskUsage { files: n, ..DiskUsage::default() });
        let mut snapshots = vec![snapshot(0, 0, &[1]), snapshot(10, 1, &[1]), snapshot(20, 2, &[])];
        snapshots.iter_mut().for_each(|snapshot| (snapshot.took, snapshot.store_took) = (ms(90), ms(3)));
        snapshots[2].disk = size(4);
        let place = ProgramStore { path: "/somewhere/data".into(), of_the_trial: true, ..ProgramStore::default() };
        let described = |snapshots: &[Snapshot], polls_took| {
            let mut store = place.clone();
            describe_data(&mut store, snapshots, polls_took);
            store
        };
        // Only of its own data, and readings of a program that does not run disturb nothing.
        assert_eq!(described(&snapshots, Nanos::ZERO), ProgramStore { found: true, reading: ms(3), ..place.clone() });
        let watched = described(&snapshots, ms(40));
        assert_eq!((watched.reading, watched.settling), (ms(43), ms(40)));
        snapshots[0].disk = size(2);
        assert_eq!(described(&snapshots, Nanos::ZERO).at_begin.unwrap().files, 2);
        snapshots.iter_mut().for_each(|snapshot| snapshot.disk = Reading::Missing(Why::NotApplicable));
        assert!(!described(&snapshots, Nanos::ZERO).found);
    }

    /// They had none, so that medians in one class were *no difference*.
    #[test]
    fn counted_calls_have_a_resolution() {
        let text = r#"{"probe":"calls","at":1,"pid":7,"thread":0,"call":"f","open":0,"overlapped":false,"last":1,"count":900,"failed":0,
            "total":9,"min":1,"max":16900,"sub":16,"classes":[[224,900]]}"#;
        let mut calls = Calls::default();
        calls.counted(&prony_runtime::parse(text).unwrap());
        let observe = ObserveSpec { begin: Some(Trigger::Call("m.js#f".into())), ..ObserveSpec::WHOLE };
        let action = Action::Observe(observe);
        let phases = vec![PhaseSpec { name: "f".to_owned(), timed: true, action, background: None, limit: None }];
        let mut watched = watched(vec![snapshot(0, 0, &[])], vec![]);
        watched.tracker = Tracker::new(&phases);
        watched.tracker.phases[0].calls = Some(calls);
        let subject = Subject::Store(StoreSpec::of("none"));
        let spec =
            TrialSpec { services: vec![], subject, data: vec![], phases, limits: Limits::default(), crashes: vec![] };
        let mut effective = EffectiveProgram::default();
        describe(&mut effective, &spec, &watched);
        let error = |name: &str| effective.digit_error(&name.parse().unwrap());
        assert!(error("f.latency.p50").is_some_and(|error| (500.0..=540.0).contains(&error)), "{effective:?}");
        assert_eq!([error("f.latency.max"), error("f.time")], [None, None]);
    }

    /// A digest that is missing has no reason in the record, so that it looked like a phase without an answer.
    #[test]
    fn phases_whose_lines_have_no_order_are_recorded() {
        let phase = |name: &str, read: &str| {
            let action = Action::Observe(ObserveSpec { read: Some(read.to_owned()), ..ObserveSpec::WHOLE });
            PhaseSpec { name: name.to_owned(), timed: true, action, background: None, limit: None }
        };
        let phases = vec![
            phase("answer", "digest (?<digest>[a-z]+)"),
            phase("time", "took (?<time>[0-9]+)"),
            phase("of_replicas", "says (?<operations>[0-9]+)"),
            phase("none", "rows (?<rows>[0-9]+)"),
        ];
        let spec = TrialSpec {
            services: vec![],
            subject: Subject::Store(StoreSpec::of("none")),
            data: vec![],
            phases,
            limits: Limits::default(),
            crashes: vec![],
        };
        let mut watched = watched(vec![snapshot(0, 0, &[])], vec![]);
        watched.tracker = Tracker::new(&spec.phases);
        watched.tracker.start(Nanos::ZERO);
        for (stream, text) in [(0, "digest a"), (0, "took 1"), (0, "rows 1"), (1, "digest b"), (1, "took 2")] {
            let (text, at) = (text.to_owned(), Nanos::from_millis(9));
            watched.tracker.line(stream, &Line { text, early: None, earliest: Nanos::ZERO, at });
        }
        let mut replica = ran(1, (0, 5), 1, &[]);
        replica.lines.unordered = true;
        (watched.replicas.phase, watched.replicas.all) = (2, vec![replica]);
        let mut effective = EffectiveProgram::default();
        describe(&mut effective, &spec, &watched);
        let expected = [("answer", true), ("time", false), ("of_replicas", true)];
        assert_eq!(effective.unordered, BTreeMap::from(expected.map(|(phase, answer)| (phase.to_owned(), answer))));
    }
}
