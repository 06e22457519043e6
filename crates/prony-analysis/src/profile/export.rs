//! Profiles for other tools: folded stacks and speedscope's file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::model::{Function, Profile};
use super::select::Selection;

/// Folded stacks for flame graph tools: the calls of a stack from the outermost on, separated by semicolons, and its
/// microseconds. Begins with the thread if there are several; `above` comes first of all, if it is not empty.
pub fn folded(selection: &Selection<'_>, above: &str) -> String {
    let profile = selection.profile;
    let (threads, labels) = (selection.threads(), profile.labels());
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for thread in &threads {
        for (frame, time) in selection.own_of(*thread) {
            let mut calls: Vec<String> =
                profile.outwards(frame).map(|at| word(&labels[profile.frames[at].function])).collect();
            calls.extend((threads.len() > 1).then(|| word(&profile.thread_name(*thread))));
            calls.extend((!above.is_empty()).then(|| word(above)));
            calls.reverse();
            *stacks.entry(calls.join(";")).or_default() += time;
        }
    }
    stacks.iter().fold(String::new(), |mut text, (stack, time)| {
        let _ = writeln!(text, "{stack} {}", time.div_ceil(1_000));
        text
    })
}

/// A name without the separators.
fn word(text: &str) -> String {
    text.replace(';', ":").replace(char::is_control, " ")
}

/// A file for speedscope (<https://www.speedscope.app/file-format-schema.json>), with a profile for each thread of each
/// selection. All must be of one profile. Waiting is shown as V8 shows it, so that instants keep their distances.
pub fn speedscope(title: &str, profile: &Profile, selections: &[(String, Selection<'_>)]) -> Value {
    let frames: Vec<Value> = profile.functions.iter().map(frame).collect();
    let profiles: Vec<Value> =
        selections.iter().flat_map(|(name, selection)| per_thread(profile, name, selection)).collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": title,
        "exporter": "prony",
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    })
}

fn frame(function: &Function) -> Value {
    let mut frame = json!({ "name": function.name });
    if !function.file.is_empty() {
        frame["file"] = json!(function.file);
    }
    if let Some(line) = function.line {
        frame["line"] = json!(line);
    }
    if let Some(column) = function.column {
        frame["col"] = json!(column);
    }
    frame
}

fn per_thread(profile: &Profile, name: &str, selection: &Selection<'_>) -> Vec<Value> {
    let mut threads: BTreeMap<usize, (Vec<Vec<usize>>, Vec<u64>)> = BTreeMap::new();
    for sample in selection.chosen() {
        let mut stack: Vec<usize> = profile.outwards(sample.frame).map(|at| profile.frames[at].function).collect();
        stack.reverse();
        let (samples, weights) = threads.entry(sample.thread).or_default();
        samples.push(stack);
        weights.push(sample.time.as_nanos());
    }
    let one = |(thread, (samples, weights)): (usize, (Vec<Vec<usize>>, Vec<u64>))| {
        let thread = profile.thread_name(thread);
        json!({
            "type": "sampled",
            "name": if name.is_empty() { thread } else { format!("{name}: {thread}") },
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<u64>(),
            "samples": samples,
            "weights": weights,
        })
    };
    threads.into_iter().map(one).collect()
}
