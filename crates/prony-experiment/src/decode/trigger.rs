//! Reads the events that begin and end the phases of a program.

use super::View;
use super::pattern::pattern;
use super::phase::settle;
use super::view::unescaped;
use crate::node::Node;
use crate::problem::Problems;
use crate::shape::TableShape;
use prony_model::program::{Runtime, Trigger};
use prony_model::units::Nanos;

/// What the phases of a program depend on.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The limit of every phase; for a phase with a limit of its own, that.
    pub(crate) limit: Option<Nanos>,
    /// The program's runtime, if the program has no fault.
    pub(crate) runtime: Option<Option<Runtime>>,
    /// Whether the program has replicas, if it has no fault.
    pub(crate) replicas: Option<bool>,
}

/// An event whose form was checked by `shape`, which is that of `begin` or of `end`.
pub(super) fn trigger(
    node: &Node,
    shape: &'static TableShape,
    frame: &Frame,
    problems: &mut Problems<'_>,
) -> Option<Trigger> {
    let view = View::new(Some(node), shape);
    let of = |key: &str| shape.field(key).and_then(|_| view.get(key));
    if let Some(line) = of("line") {
        return pattern(line, problems).map(|_| Trigger::Line(line.text().unwrap_or_default().to_owned()));
    }
    if let Some(function) = of("call") {
        call(function, frame.runtime, problems);
        return unescaped(function).map(Trigger::Invocation);
    }
    if let Some(phase) = of("after") {
        return unescaped(phase).map(Trigger::After);
    }
    if of("replicas").is_some() {
        if frame.replicas == Some(false) {
            let hint = "add `replicas` to the program; if their `count` is 0, exclude the phase with its `when`";
            problems.fault((node, view.key_span("replicas")), "the program has no replicas that could end", hint);
        }
        return Some(Trigger::Replicas);
    }
    match of("settle") {
        Some(node) => Some(Trigger::Settle(settle(node, frame.limit, problems))),
        None => of("mark").and_then(unescaped).map(Trigger::Mark),
    }
}

/// A function is timed by the probe of its runtime.
pub(super) fn call(node: &Node, runtime: Option<Option<Runtime>>, problems: &mut Problems<'_>) {
    let (Some(text), Some(runtime)) = (unescaped(node), runtime) else { return };
    let Some(runtime) = runtime else {
        let message = format!("the function `{text}` cannot be timed: the program names no `runtime`");
        problems.fault(node, message, "add `runtime = \"node\"` or `runtime = \"python\"` to the program");
        return;
    };
    if !runtime.is_call(&text) {
        let message = format!("`{text}` is not the name of a function in the runtime `{}`", runtime.name());
        let (_, form) = runtime.call_form();
        problems.fault(node, message, format!("write `{form}`; full stops separate nested names"));
    }
}
