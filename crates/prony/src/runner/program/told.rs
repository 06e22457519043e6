//! What probes told beside figures, for the record. Pure.

use prony_core::experiment::spec::PhaseSpec;
use prony_core::reading::Why;
use prony_probe::runtime::{ProbeEvent, ProbeLine};
use serde_json::{Map, Value, json};

use super::figures::held_times;
use super::heaps::longest_gap;
use super::probe::{Probing, observed};
use super::watch::Watched;

/// Each phase that is a function: which one, where it was found, and why it was never called, where it was not.
pub fn calls(phases: &[PhaseSpec], watched: &Watched, silent: &Why) -> Value {
    let mut all = Map::new();
    for (index, phase) in phases.iter().enumerate() {
        let Some(call) = observed(phase).and_then(|observe| observe.call()) else { continue };
        let never = watched.tracker.phases[index].began.is_none().then(|| never(&phase.name, watched, silent));
        let file = watched.threads.found.get(&phase.name);
        all.insert(phase.name.clone(), json!({ "call": call, "file": file, "never": never }));
    }
    Value::Object(all)
}

fn never(phase: &str, watched: &Watched, silent: &Why) -> String {
    let threads = &watched.threads;
    if threads.all().is_empty() {
        return silent.to_string();
    }
    match (threads.found.get(phase), threads.unfound.get(phase)) {
        (Some(file), _) => format!("it was found in `{file}` and nothing called it"),
        (None, Some(why)) => why.clone(),
        (None, None) => "no module of this name was loaded".to_owned(),
    }
}

/// Threads, costs, holds and deaths; nothing where no probe was to be loaded.
pub fn probe(phases: &[PhaseSpec], watched: &Watched, probing: &Probing, deaths: &[ProbeLine]) -> Value {
    if !probing.is_there() {
        return Value::Null;
    }
    let mut told = watched.threads.told();
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
