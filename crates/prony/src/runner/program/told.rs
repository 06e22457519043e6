//! What probes told beside figures, for the record. Pure.

use std::collections::BTreeSet;

use prony_model::reading::Why;
use prony_model::spec::PhaseSpec;
use prony_runtime::{DETAIL, ProbeEvent, ProbeLine};
use serde_json::{Map, Value, json};

use super::figures::held_times;
use super::functions::{self, Part};
use super::heaps::longest_gap;
use super::probe::Probing;
use super::suspension;
use super::tracked::Ending;
use super::watch::Watched;

/// Each phase that is a function, or begins or ends with one: which one, where it was found, and why it was never called,
/// where it was not. Of two functions it is the one that the phase waited for last.
pub fn calls(phases: &[PhaseSpec], watched: &Watched, silent: &Why) -> Value {
    let mut all = Map::new();
    for (phase, tracked) in phases.iter().zip(&watched.tracker.phases) {
        let mut parts = functions::parts(phase);
        parts.retain(|(part, _)| *part != Part::End || tracked.began.is_some());
        let Some((part, call)) = parts.pop() else { continue };
        let id = functions::id(&phase.name, part);
        let happened = if part == Part::End { tracked.ending.called } else { tracked.began.is_some() };
        let never = (!happened).then(|| never(&id, watched, silent));
        let missed = (part == Part::End && tracked.ended.is_none()).then(|| missed(call, tracked.ending)).flatten();
        let file = watched.threads.found.get(&id).and_then(BTreeSet::first);
        all.insert(phase.name.clone(), json!({ "call": call, "file": file, "never": never, "missed": missed }));
    }
    Value::Object(all)
}

/// Why no invocation of a function that was called ended its phase.
fn missed(call: &str, ending: Ending) -> Option<String> {
    if ending.counted {
        return Some(format!(
            "after {DETAIL} calls of `{call}` in one thread the rest are only counted, and no single one can end a phase"
        ));
    }
    ending.early.then(|| format!("every call of `{call}` that ended had done so before the phase began"))
}

fn never(id: &str, watched: &Watched, silent: &Why) -> String {
    let threads = &watched.threads;
    if threads.all().is_empty() {
        return silent.to_string();
    }
    match (threads.found.get(id), threads.unfound.get(id)) {
        (Some(files), _) => {
            format!("it was found in `{}` and nothing called it", files.first().map_or("", String::as_str))
        }
        (None, Some(why)) => why.clone(),
        (None, None) => "no module of this name was loaded".to_owned(),
    }
}

/// Threads, costs, holds and deaths; nothing where no probe was to be loaded. Threads name their scripts only where
/// `commands` are recorded.
pub fn probe(
    phases: &[PhaseSpec],
    watched: &Watched,
    probing: &Probing,
    deaths: &[ProbeLine],
    commands: bool,
) -> Value {
    if !probing.is_there() {
        return Value::Null;
    }
    let mut told = watched.threads.told(commands);
    let name = |index: usize| phases.get(index).map_or("", |phase| phase.name.as_str());
    let holds: Vec<Value> = watched.holds.iter().map(|hold| hold.told(name(hold.phase))).collect();
    let dead = |death: &ProbeLine| match &death.event {
        ProbeEvent::Dying { heap, what } => Some(json!({
            "pid": death.source.pid,
            "thread": death.source.thread,
            "at": death.at,
            "what": what,
            "used": heap.used,
            "total": heap.total,
            "limit": heap.limit,
            "external": heap.external,
        })),
        _ => None,
    };
    told["holds"] = Value::Array(holds);
    let suspended = (0..phases.len()).filter_map(|index| Some((index, suspension::inside(phases, watched, index)?)));
    told["suspended_inside"] =
        suspended.map(|(index, by)| (name(index).to_owned(), by.into())).collect::<Map<_, _>>().into();
    let held = held_times(watched);
    let tracked = phases.iter().zip(&watched.tracker.phases);
    let gaps = tracked.filter_map(|(phase, tracked)| {
        let end = tracked.ended.filter(|_| tracked.is_complete()).unwrap_or(watched.ended.at);
        let gap = longest_gap(&watched.threads, tracked.began?, end, &held)?;
        Some((phase.name.clone(), Value::from(gap.as_nanos())))
    });
    told["unread_ns"] = Value::Object(gaps.collect());
    told["deaths"] = Value::Array(deaths.iter().filter_map(dead).collect());
    told
}
