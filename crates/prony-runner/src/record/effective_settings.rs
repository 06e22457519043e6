//! The part of a trial's record that describes the program that ran, and its data on disk. Pure functions.

use std::path::PathBuf;

use prony_boundaries::phase_state::PhaseState;
use prony_experiment::redacted::{LEFT_OUT, hidden};
use prony_model::record::EffectiveProgram;
use prony_model::record::effective::ProgramStore;
use prony_model::spec::TrialSpec;
use prony_model::units::Nanos;
use prony_os::sample::Snapshot;
use prony_place::launch_setting::Setting;

use crate::record::replicas;
use crate::watched::Watched;

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
    effective.replicas = replicas::report(setting, &watched.replicas, commands);
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
    let of_replicas = |index| {
        let replicas = watched.replicas.all.iter().filter(move |_| watched.replicas.phase == index);
        replicas.map(|ran| &ran.lines)
    };
    let unheard = spec.phases.iter().zip(&watched.tracker.phases);
    let unheard = unheard.enumerate().filter(|(index, (_, phase))| {
        let heard = of_replicas(*index).any(|replica| phase.is_reported_by(replica));
        phase.ended.is_some() && phase.heard_nothing() && !heard
    });
    let unheard = unheard.map(|(_, phase)| phase);
    effective.heard_nothing = unheard.map(|(phase, _)| phase.name.clone()).collect();
    let ambiguous = spec.phases.iter().zip(&watched.tracker.phases).filter(|(_, phase)| phase.ambiguous);
    effective.read_by_several = ambiguous.map(|(phase, _)| phase.name.clone()).collect();
    let unordered = spec.phases.iter().zip(&watched.tracker.phases).enumerate().filter_map(|(index, (phase, own))| {
        let unordered = std::iter::once(own).chain(of_replicas(index)).filter(|lines| lines.unordered);
        let answers = unordered.map(PhaseState::reads_answer).reduce(|one, other| one || other)?;
        Some((phase.name.clone(), answers))
    });
    effective.unordered = unordered.collect();
    let repeated = spec.phases.iter().zip(&watched.tracker.phases).filter(|(_, phase)| phase.repeats > 0);
    effective.repeated = repeated.map(|(phase, tracked)| (phase.name.clone(), tracked.repeats)).collect();
    let printed = spec.phases.iter().zip(&watched.tracker.phases).map(|(phase, t)| (phase, t.lines.resolution()));
    let printed = printed.filter(|(_, resolution)| !resolution.is_empty());
    effective.resolution = printed.map(|(phase, resolution)| (phase.name.clone(), resolution)).collect();
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_boundaries::stream::Line;
    use prony_boundaries::tracker::Tracker;
    use prony_model::program::ObserveSpec;
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
