//! Splits CPU time into user and system time, if it is long enough for the kernel's division to be meaningful.

use prony_model::metric::Metric;
use prony_model::record::TrialRecord;

use super::cell_value::amount_of;
use super::cells::Source;
use super::model::Cell;
use super::notes::Notes;
use prony_stats::summary::median;

/// Nanoseconds of CPU below which user and system are not distinguished: by default the kernel divides the exact sum by what
/// each tick of some milliseconds happened to find (`cputime_adjust` in kernel/sched/cputime.c).
const LEAST: f64 = 50e6;

/// Whether the phase of a trial took enough CPU time; `false` where its CPU time does not count.
pub(super) fn is_long_enough(trial: &TrialRecord, phase: &str) -> bool {
    cpu(trial, phase).is_some_and(|nanos| nanos >= LEAST)
}

fn cpu(trial: &TrialRecord, phase: &str) -> Option<f64> {
    trial.figure(&amount_of(phase, Metric::Cpu)).measured().copied()
}

/// Replaces the cells of rows whose median CPU time is too short.
pub(super) fn withhold(phase: &str, sources: &[Source<'_>], cells: &mut [Cell], notes: &mut Notes) {
    for (source, cell) in sources.iter().zip(cells) {
        let times: Vec<f64> = source.trials.iter().filter_map(|trial| cpu(trial, phase)).collect();
        if median(&times).is_some_and(|median| median < LEAST) {
            let mark = notes.mark("too little CPU time to tell user from system");
            *cell = Cell::none([mark]);
        }
    }
}
