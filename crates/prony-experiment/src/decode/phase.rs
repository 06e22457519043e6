//! Reads `[[phase]]` of one variant.

use std::ops::Range;

use super::View;
use super::find::find;
use super::http::http;
use super::ops::{mix, ops, scan};
use super::view::{line, named, time};
use crate::grammar;
use crate::node::{Entry, Node};
use crate::problem::Problems;
use prony_model::spec::{Action, Amount, PhaseSpec, RunSpec, SettleSpec, Sharing, Sign, Signs};
use prony_model::units::Nanos;

/// A phase, with its action and that of its background as they are written, to which later checks refer.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) spec: PhaseSpec,
    action: Entry,
    background: Option<Entry>,
}

impl Placed {
    /// Where the action's key is written.
    pub(crate) fn action(&self) -> &Range<usize> {
        &self.action.key_span
    }

    /// Where a key of the action, or else the action's own key, is written.
    pub(crate) fn place(&self, key: &str) -> Range<usize> {
        self.action.place(key)
    }

    /// The action, and that of the background, each as it is written too.
    pub(crate) fn actions(&self) -> impl Iterator<Item = (&Action, &Entry)> {
        self.spec.actions().zip(std::iter::once(&self.action).chain(&self.background))
    }

    /// As [`Self::actions`], to change them.
    pub(crate) fn actions_mut(&mut self) -> impl Iterator<Item = (&mut Action, &Entry)> {
        let actions = std::iter::once(&mut self.spec.action).chain(&mut self.spec.background);
        actions.zip(std::iter::once(&self.action).chain(&self.background))
    }
}

/// The name, and its fault if it has one.
pub(crate) fn name(node: &Node, problems: &mut Problems<'_>) -> Option<String> {
    let place = node.get("name")?;
    let name = super::view::unescaped(place)?;
    let plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    if !plain || name.trim() != name || name.is_empty() {
        let message = format!("`{name}` is not a valid name of a phase");
        problems.fault(place, message, "use letters, digits, `-` and `_`, with spaces between them");
    }
    Some(name)
}

/// A phase whose form was checked; `phase_limit` is the limit of every phase.
pub(crate) fn phase(node: &Node, phase_limit: Option<Nanos>, problems: &mut Problems<'_>) -> Option<Placed> {
    let view = View::new(Some(node), &grammar::PHASE);
    let name = name(node, problems)?;
    let actions = grammar::PHASE.actions();
    let entry = actions.iter().find_map(|action| node.entry(action))?;
    let limit = view.time("limit").or(phase_limit);
    let beside = view.get("background").and_then(|node| background(node, problems));
    let spec = PhaseSpec {
        name,
        timed: view.flag("timed").unwrap_or(true),
        action: action(&entry.key, &entry.node, limit, problems)?,
        background: match beside {
            Some(entry) => Some(without_end(action(&entry.key, &entry.node, None, problems)?, entry, problems)),
            None => None,
        },
        limit,
    };
    Some(Placed { spec, action: entry.clone(), background: beside.cloned() })
}

/// The operations of a background, if it has any.
fn background<'n>(node: &'n Node, problems: &mut Problems<'_>) -> Option<&'n Entry> {
    let mut known = node.table()?.iter().filter(|entry| grammar::BACKGROUND.field(&entry.key).is_some());
    let first = known.next()?;
    if let Some(second) = known.next() {
        let message = format!("a background has operations of one kind, not `{}` and `{}`", first.key, second.key);
        problems.fault((node, second.key_span.clone()), message, "write a `mix` for several kinds");
    }
    Some(first)
}

/// Operations that end with the phase, and not after so many or so long.
fn without_end(mut action: Action, entry: &Entry, problems: &mut Problems<'_>) -> Action {
    let reasons = [
        ("count", "a background ends with the phase: it has no `count`"),
        ("duration", "a background ends with the phase: it has no `duration`"),
        ("replicas", "a background runs in the process of the phase: it has no `replicas`"),
        ("share", "a background has no number of operations that its clients could share"),
    ];
    for (key, message) in reasons {
        if let Some(found) = entry.node.entry(key) {
            problems.fault((&entry.node, found.key_span.clone()), message, format!("leave `{key}` out"));
        }
    }
    if let Some(ops) = action.ops_mut() {
        (ops.amount, ops.replicas, ops.share) = (Amount::Background, None, Sharing::Equal);
    }
    action
}

fn action(key: &str, node: &Node, limit: Option<Nanos>, problems: &mut Problems<'_>) -> Option<Action> {
    let plain = |problems: &mut Problems<'_>| ops(key, node, &grammar::OPS, problems);
    Some(match key {
        "put" => Action::Put(plain(problems)?),
        "get" => Action::Get(plain(problems)?),
        "update" => Action::Update(plain(problems)?),
        "delete" => Action::Delete(plain(problems)?),
        "compute" => Action::Compute(plain(problems)?),
        "scan" => Action::Scan(scan(node, problems)?),
        "find" => Action::Find(find(node, problems)?),
        "mix" => Action::Mix(mix(node, problems)?),
        "commit" => Action::Commit,
        "persist" => Action::Persist,
        "close" => Action::Close,
        "reopen" => Action::Reopen,
        "evict" => Action::Evict,
        "settle" => Action::Settle(settle(node, limit, problems)),
        "verify" => Action::Verify,
        "pause" => Action::Pause(time(node)?),
        "http" => Action::Http(Box::new(http(node, problems)?)),
        "run" => Action::Run(RunSpec { command: line(node)?, directory: String::new() }),
        _ => return None,
    })
}

/// When a tree counts as quiet, within the `limit` of its phase.
pub(super) fn settle(node: &Node, limit: Option<Nanos>, problems: &mut Problems<'_>) -> SettleSpec {
    let view = View::new(Some(node), &grammar::SETTLE);
    let default = SettleSpec::default();
    let spec = SettleSpec {
        quiet: view.time("quiet").unwrap_or(default.quiet),
        within: view.time("within").unwrap_or(default.within),
        cpu: view.share("cpu").unwrap_or(default.cpu),
        bytes: view.bytes("bytes").unwrap_or(default.bytes),
        of: view.get("of").map_or(default.of, signs),
        beside: view.get("beside").map_or(default.beside, signs),
    };
    if let (Some(of), true) = (node.get("of"), spec.of == Signs::default()) {
        let message = "`of` names no sign of activity, so there is no `settle.time`";
        problems.fault(of, message, "name at least one of `cpu`, `written`, `disk`, `dirty`");
    }
    can_settle(node, &spec, limit, problems);
    spec
}

fn signs(node: &Node) -> Signs {
    node.list().unwrap_or_default().iter().filter_map(named::<Sign>).collect()
}

/// The time of quiet must fit into its cap, and that into the phase's limit: a phase that reaches its limit has timed
/// out, though the report should be that it did not settle.
fn can_settle(node: &Node, spec: &SettleSpec, limit: Option<Nanos>, problems: &mut Problems<'_>) {
    let SettleSpec { quiet, within, .. } = *spec;
    let place = |key: &str| node.get(key).unwrap_or(node);
    let mut fault = |place: &Node, message: String, hint: &str| {
        problems.fault(place, message, hint);
    };
    let within_is = match node.get("within") {
        Some(_) => format!("`within` ({within})"),
        None => format!("`within` (default {within})"),
    };
    if quiet >= within {
        let message = format!("`quiet` ({quiet}) must be shorter than {within_is}");
        fault(node.get("quiet").unwrap_or(place("within")), message, "write a `within` that is longer than `quiet`");
    }
    if let Some(limit) = limit.filter(|limit| within > *limit) {
        let message =
            format!("{within_is} is longer than the limit of the phase ({limit}), at which the trial has timed out");
        fault(place("within"), message, "write a shorter `within`, or give the phase a longer `limit`");
    }
}
