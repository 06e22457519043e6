//! What probes reported apart from metrics, for the trial's record: functions, threads, costs, aborts. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::functions::{self, Part};
use prony_boundaries::phase_state::Ending;
use prony_model::reading::Why;
use prony_model::record::ProbeReport;
use prony_model::record::effective::Call;
use prony_model::record::probe::HeapAbort;
use prony_model::spec::PhaseSpec;
use prony_runtime::{DETAIL, ProbeEvent, ProbeLine};

use crate::figures::heaps::longest_gap;
use crate::figures::suspended;
use crate::watched::Watched;

/// Each phase that is a function, or begins or ends with one: which one, where it was found, and why it was never called,
/// where it was not. Of two functions it is the one that the phase waited for last.
pub(crate) fn calls(phases: &[PhaseSpec], watched: &Watched, silent: &Why) -> BTreeMap<String, Call> {
    let mut all = BTreeMap::new();
    for (phase, tracked) in phases.iter().zip(&watched.tracker.phases) {
        let mut parts = functions::parts(phase);
        parts.retain(|(part, _)| *part != Part::End || tracked.began.is_some());
        let Some((part, call)) = parts.pop() else { continue };
        let id = functions::id(&phase.name, part);
        let happened = if part == Part::End { tracked.ending.called } else { tracked.began.is_some() };
        let never = (!happened).then(|| never(&id, watched, silent));
        let missed = (part == Part::End && tracked.ended.is_none()).then(|| missed(call, tracked.ending)).flatten();
        let file = watched.threads.found.get(&id).and_then(BTreeSet::first).cloned();
        let deferred = functions::deferred(phase, &watched.threads.deferred);
        all.insert(phase.name.clone(), Call { call: call.to_owned(), file, never, missed, deferred });
    }
    all
}

/// Why no invocation of a function that was called ended its phase.
fn missed(call: &str, ending: Ending) -> Option<String> {
    if ending.counted {
        return Some(format!(
            "only the first {DETAIL} calls of `{call}` in each thread are recorded one by one; later calls are only \
             counted, so none of them can end a phase"
        ));
    }
    ending.early.then(|| format!("no call of `{call}` returned after the phase had begun; some calls returned before"))
}

fn never(id: &str, watched: &Watched, silent: &Why) -> String {
    let threads = &watched.threads;
    if threads.all().is_empty() {
        return silent.to_string();
    }
    match (threads.found.get(id), threads.unfound.get(id)) {
        (Some(files), _) => {
            format!("the function was found in `{}` but was never called", files.first().map_or("", String::as_str))
        }
        (None, Some(why)) => why.clone(),
        (None, None) => "no module of this name was loaded".to_owned(),
    }
}

/// Threads, costs, suspensions and aborts, where a probe was to be loaded. Threads name their scripts only
/// where `commands` are recorded.
pub(crate) fn probe(phases: &[PhaseSpec], watched: &Watched, heap_aborts: &[ProbeLine], commands: bool) -> ProbeReport {
    let name = |index: usize| phases.get(index).map_or("", |phase| phase.name.as_str());
    let inside = |index| Some((name(index).to_owned(), suspended::inside(phases, watched, index)?.to_owned()));
    let suspended = watched.suspended_times(|_| true);
    let tracked = phases.iter().zip(&watched.tracker.phases);
    let unread = tracked.filter_map(|(phase, tracked)| {
        let end = tracked.ended.filter(|_| tracked.is_complete()).unwrap_or(watched.ended.at);
        Some((phase.name.clone(), longest_gap(&watched.threads, tracked.began?, end, &suspended)?))
    });
    ProbeReport {
        suspensions: watched.suspensions.iter().map(|suspension| suspension.report(name(suspension.phase))).collect(),
        suspended_inside: (0..phases.len()).filter_map(inside).collect(),
        unread: unread.collect(),
        heap_aborts: heap_aborts.iter().filter_map(abort).collect(),
        ..watched.threads.report(commands)
    }
}

fn abort(line: &ProbeLine) -> Option<HeapAbort> {
    let ProbeEvent::HeapAbort { heap, what } = &line.event else { return None };
    Some(HeapAbort {
        pid: line.source.pid,
        thread: line.source.thread,
        at: line.at,
        what: what.clone(),
        used: heap.used.clone(),
        total: heap.total.clone(),
        limit: heap.limit.clone(),
        external: heap.external.clone(),
    })
}
