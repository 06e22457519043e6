//! Reads the phases of crash trials, `kill` and `powercut`, and checks what they repeat.

use super::View;
use super::phase::{Placed, name};
use super::view::unescaped;
use crate::grammar;
use crate::node::{Entry, Node};
use crate::problem::{Problem, Problems, known_hint};
use prony_model::spec::{Action, CollectionSpec, CrashSpec, CutKind, ValueSpec};
use prony_model::units::Nanos;

/// Cuts of a phase that does not say how many.
const CUTS: u64 = 30;

/// Images of each power failure of a phase that does not say how many.
const IMAGES: u64 = 10;

/// Time in which a cut comes, of a phase that does not say which.
const WITHIN: Nanos = Nanos::from_secs(1);

/// Bytes that a value needs, which begins with the number of its record and its version.
const LEAST_VALUE: u64 = 16;

/// The keys of a phase that mean nothing for crash trials.
const NOT_OF_CRASHES: [&str; 3] = ["timed", "limit", "background"];

/// A phase of crash trials, with what later checks refer to.
#[derive(Clone, Debug)]
pub(crate) struct PlacedCrash {
    pub(crate) spec: CrashSpec,
    /// The action as it is written.
    pub(crate) action: Entry,
}

/// The action of a phase that is one of crash trials.
pub(crate) fn of_crash(phase: &Node) -> Option<&Entry> {
    CutKind::ALL.into_iter().find_map(|kind| phase.entry(kind.name()))
}

/// A phase of crash trials whose form was checked.
pub(crate) fn crash(node: &Node, entry: &Entry, problems: &mut Problems<'_>) -> Option<PlacedCrash> {
    for key in NOT_OF_CRASHES {
        if let Some(found) = node.entry(key) {
            let message = format!("`{key}` has no meaning for `{}`, whose trials are never timed", entry.key);
            problems.fault((node, found.key_span.clone()), message, format!("leave `{key}` out"));
        }
    }
    let kind = CutKind::named(&entry.key)?;
    let (view, images, creation) = match kind {
        CutKind::Kill => (View::new(Some(&entry.node), &grammar::KILL), 1, false),
        CutKind::PowerCut => {
            let view = View::new(Some(&entry.node), &grammar::POWERCUT);
            (view, view.whole("images").unwrap_or(IMAGES), view.flag("creation").unwrap_or(false))
        }
    };
    let spec = CrashSpec {
        name: name(node, problems)?,
        during: view.text("during")?,
        also: view.list_of("also").iter().filter_map(unescaped).collect(),
        cut: kind,
        images: u32::try_from(images).unwrap_or(u32::MAX),
        creation,
        cuts: u32::try_from(view.whole("cuts").unwrap_or(CUTS)).unwrap_or(u32::MAX),
        within: view.time("within").unwrap_or(WITHIN),
    };
    Some(PlacedCrash { spec, action: entry.clone() })
}

/// Checks that each phase of crash trials has writes to repeat, whose survival shows in what is stored.
pub(crate) fn fit(
    crashes: &[PlacedCrash],
    phases: &[Placed],
    data: Option<&[CollectionSpec]>,
    problems: &mut Problems<'_>,
) {
    for crash in crashes {
        let during = &crash.spec.during;
        let Some(phase) = phases.iter().find(|phase| phase.spec.name == *during) else {
            let names = phases.iter().filter(|phase| repeats(&phase.spec.action)).map(|phase| phase.spec.name.as_str());
            let message = format!("there is no phase `{during}` in this variant");
            problems.add(Problem::new(crash.action.place("during"), message).maybe_hint(known_hint(during, names)));
            continue;
        };
        if let Some((why, hint)) = no_writes(phase) {
            let message = format!("`{}` cannot repeat `{during}`: {why}", crash.spec.action());
            problems.fault(crash.action.place("during"), message, hint);
        }
        let own = phase.spec.action.ops().and_then(|ops| ops.collection.as_ref());
        for collection in data.unwrap_or_default() {
            let further = collection.name.as_ref().is_some_and(|name| crash.spec.also.contains(name));
            if further || collection.name.as_ref() == own {
                distinct(crash, collection, problems);
            }
        }
        further(crash, own, data.unwrap_or_default(), problems);
    }
}

/// Whether an action is one of writes whose effect is known.
const fn repeats(action: &Action) -> bool {
    matches!(action, Action::Put(_) | Action::Update(_) | Action::Delete(_) | Action::Compute(_))
}

/// Why the writes of a phase cannot be repeated, and what to do.
fn no_writes(phase: &Placed) -> Option<(&'static str, &'static str)> {
    let action = &phase.spec.action;
    let Some(ops) = action.ops().filter(|_| repeats(action)) else {
        return Some(("it is no phase of writes", "name a phase with `put`, `update`, `delete` or `compute`"));
    };
    if ops.threads > 1 {
        return Some(("the order of commits of several threads is not known", "name a phase with one thread"));
    }
    if phase.spec.background.is_some() {
        return Some(("it has a background", "name a phase without one"));
    }
    if ops.rate.is_some() || ops.pause.is_some() {
        return Some(("it does not write all the time", "name a phase without `rate` and `pause`"));
    }
    None
}

/// What is found in a record must show which commit was the last to write it.
fn distinct(crash: &PlacedCrash, collection: &CollectionSpec, problems: &mut Problems<'_>) {
    let of = collection.name.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
    let ValueSpec::Bytes(value) = &collection.value else {
        let message = format!("`{}` needs values of bytes, and the records{of} are documents", crash.spec.action());
        problems.fault(crash.action.place("during"), message, "write `value = { bytes = 128 }`");
        return;
    };
    let prefix: u64 = value.prefix.iter().map(|literal| literal.len() as u64).sum();
    if value.bytes.least().as_bytes().max(prefix) < LEAST_VALUE {
        let message = format!(
            "`{}` needs values of {LEAST_VALUE} bytes or more{of}: each begins with its record's number and version",
            crash.spec.action()
        );
        problems.fault(crash.action.place("during"), message, "write a larger `bytes` in `[data]`");
    }
}

/// The collections of `also` exist, and are others than that of the phase.
fn further(crash: &PlacedCrash, own: Option<&String>, data: &[CollectionSpec], problems: &mut Problems<'_>) {
    for (at, name) in crash.spec.also.iter().enumerate() {
        let names = data.iter().filter_map(|collection| collection.name.as_deref());
        if !names.clone().any(|known| known == name) {
            let message = format!("there is no collection `{name}`");
            problems.add(Problem::new(crash.action.place("also"), message).maybe_hint(known_hint(name, names)));
        } else if Some(name) == own || crash.spec.also[..at].contains(name) {
            let message = format!("the transactions write `{name}` already");
            problems.fault(crash.action.place("also"), message, "name further collections only, each once");
        }
    }
}
