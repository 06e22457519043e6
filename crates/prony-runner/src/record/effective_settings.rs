//! The part of a trial's record that describes the program that ran, and its data on disk. Pure functions.

use std::path::PathBuf;

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
    let unheard = spec.phases.iter().zip(&watched.tracker.phases);
    let unheard = unheard.enumerate().filter(|(index, (_, phase))| {
        let replicas = watched.replicas.all.iter().filter(|_| watched.replicas.phase == *index);
        let heard = replicas.into_iter().any(|ran| phase.is_reported_by(&ran.lines));
        phase.ended.is_some() && phase.heard_nothing() && !heard
    });
    let unheard = unheard.map(|(_, phase)| phase);
    effective.heard_nothing = unheard.map(|(phase, _)| phase.name.clone()).collect();
    let ambiguous = spec.phases.iter().zip(&watched.tracker.phases).filter(|(_, phase)| phase.ambiguous);
    effective.read_by_several = ambiguous.map(|(phase, _)| phase.name.clone()).collect();
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
    use prony_model::reading::{Reading, Why};
    use prony_os::cache::DiskUsage;

    use super::*;
    use crate::figures::span::tests::snapshot;

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
}
