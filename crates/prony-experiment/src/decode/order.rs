//! Checks the order in a program: phases that follow other phases, and replicas that start with one.

use super::trigger::Frame;
use super::view::unescaped;
use crate::node::Node;
use crate::problem::{Problem, Problems, known_hint};
use prony_model::program::{ObserveSpec, OutputTo, ProgramSpec, Trigger};
use prony_model::spec::{Action, PhaseSpec};

/// The phases of a program in one variant: all of them, or those before a given one.
#[derive(Default)]
pub(crate) struct Phases {
    /// Phases without faults.
    pub(crate) sound: Vec<PhaseSpec>,
    /// The names of faulty phases; `None` where the name itself is faulty.
    pub(crate) at_fault: Vec<Option<String>>,
    /// The names of those that their `when` leaves out.
    pub(crate) left_out: Vec<String>,
}

impl Phases {
    /// Whether there is a phase of this name, faulty or not; `None` where that is not known.
    fn has(&self, name: &str) -> Option<bool> {
        let found = self.names().any(|known| known == name);
        (found || !self.at_fault.contains(&None)).then_some(found)
    }

    /// The known names, those of faulty phases too.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let sound = self.sound.iter().map(|phase| phase.name.as_str());
        sound.chain(self.at_fault.iter().flatten().map(String::as_str))
    }

    fn observed(&self, name: &str) -> Option<&ObserveSpec> {
        observed(self.sound.iter().find(|phase| phase.name == name)?)
    }

    /// Whether a phase has certainly begun when another ends.
    fn has_begun(&self, phase: &ObserveSpec, ends: &ObserveSpec) -> bool {
        let function = |trigger: &Option<Trigger>| match trigger {
            Some(Trigger::Call(call) | Trigger::Invocation(call)) => Some(call.clone()),
            _ => None,
        };
        let (begin, called) = (&phase.begin, function(&phase.begin));
        let at_once = begin.is_none() || *begin == ends.begin;
        let by_call = called.is_some() && (called == function(&ends.begin) || called == function(&ends.end));
        // A phase follows one before it in the file, so that this ends.
        let before = || match &ends.begin {
            Some(Trigger::After(name)) => self.observed(name).is_some_and(|ends| self.has_begun(phase, ends)),
            _ => false,
        };
        at_once || by_call || before()
    }

    /// The hint for a name that no phase has.
    fn hint(&self, name: &str) -> Option<String> {
        if self.left_out.iter().any(|other| other == name) {
            let needs = "give the phases and programs that name it the same `when`, or give `replicas` a `count` of 0";
            return Some(format!("the `when` of `{name}` excludes the phase from this variant: {needs}"));
        }
        known_hint(name, self.names())
    }

    /// The first phase of those that this one comes after which waits until replicas have ended; it may be this one.
    fn awaits_replicas<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let mut name = name;
        // A phase follows one before it in the file, so that no chain is longer than the list.
        for _ in 0..=self.sound.len() {
            match &self.observed(name)?.begin {
                Some(Trigger::Replicas) => return Some(name),
                Some(Trigger::After(before)) => name = before,
                _ => return None,
            }
            if matches!(self.observed(name)?.end, Some(Trigger::Replicas)) {
                return Some(name);
            }
        }
        None
    }
}

fn observed(phase: &PhaseSpec) -> Option<&ObserveSpec> {
    match &phase.action {
        Action::Observe(observe) => Some(observe),
        _ => None,
    }
}

/// A phase that begins where another ends must name one before it that does not end with the program.
pub(crate) fn follows(node: &Node, earlier: &Phases, problems: &mut Problems<'_>) {
    let Some(place) = node.get("begin").and_then(|begin| begin.get("after")) else { return };
    let Some(name) = unescaped(place) else { return };
    if earlier.has(&name) == Some(false) {
        let message = format!("no earlier phase is named `{name}`");
        problems.add(Problem::new(place, message).maybe_hint(earlier.hint(&name)));
    }
    if earlier.observed(&name).is_some_and(|observe| observe.end.is_none()) {
        let message = format!("phase `{name}` lasts until the program ends, so no phase can follow it");
        problems.fault(place, message, format!("give `{name}` an `end`"));
    }
    if earlier.observed(&name).is_some_and(|observe| observe.end.is_some() && observe.stop) {
        let message =
            format!("prony stops the program when phase `{name}` ends (`then = \"stop\"`), so no phase can follow it");
        problems.fault(place, message, format!("remove `then` from `{name}`, or this phase"));
    }
}

/// A phase cannot begin by the event that ends the program. `node` is that of the last of the phases.
pub(crate) fn begins_before_the_stop(node: &Node, phases: &Phases, problems: &mut Problems<'_>) {
    let Some(place) = node.get("begin").and_then(|begin| begin.get("replicas")) else { return };
    let stops = |phase: &&PhaseSpec| observed(phase).is_some_and(|of| of.stop && of.end == Some(Trigger::Replicas));
    if let Some(stopping) = phases.sound.iter().find(stops) {
        let message = format!(
            "prony stops the program when the replicas have ended (`then = \"stop\"` of phase `{}`), so no phase can begin then",
            stopping.name
        );
        problems.fault(place, message, format!("remove `then` from `{}`, or this phase", stopping.name));
    }
}

/// A phase cannot end by an event that itself waits for the phase's begin. `node` is that of the last of the phases.
pub(crate) fn ends_later(node: &Node, phases: &Phases, frame: &Frame, problems: &mut Problems<'_>) {
    let Some(place) = node.get("end").and_then(|end| end.get("replicas")) else { return };
    let Some(phase) = phases.sound.last().filter(|_| frame.replicas != Some(false)) else { return };
    if phases.awaits_replicas(&phase.name).is_some() {
        let message =
            format!("phase `{}` begins when the replicas have ended, so the same event cannot end it", phase.name);
        problems.fault(place, message, "end the phase with a line, a mark, `settle`, or with the program");
    }
}

/// Only its `read` identifies the lines of a phase that begins or ends with marks or calls: no other phase may have the
/// same. `node` is that of the last of the phases.
pub(crate) fn no_shared_read(node: &Node, phases: &Phases, problems: &mut Problems<'_>) {
    let (Some(place), Some((last, earlier))) = (node.get("read"), phases.sound.split_last()) else { return };
    let Some(own) = observed(last) else { return };
    let same = |other: &ObserveSpec| other.read == own.read && (other.is_marked() || own.is_marked());
    let Some(other) = earlier.iter().find(|phase| observed(phase).is_some_and(same)) else { return };
    let message = format!(
        "phases `{}` and `{}` read the same lines, and it cannot be determined in which of them a line is written: \
         marks and calls arrive by another channel than lines",
        other.name, last.name
    );
    problems.fault(place, message, "change the patterns so that each line matches the pattern of one phase only");
}

/// While `at_end` of a phase suspends the program no other phase may be running, as far as that is known: one that has
/// begun by then and ends with the program would contain the suspension. `node` is that of the last of the phases.
pub(crate) fn no_shared_suspension(node: &Node, phases: &Phases, problems: &mut Problems<'_>) {
    let Some((last, earlier)) = phases.sound.split_last() else { return };
    for other in earlier {
        for (one, two) in [(last, other), (other, last)] {
            let (Some(suspends), Some(open)) = (observed(one), observed(two)) else { continue };
            if suspends.at_end.is_none() || open.end.is_some() || !phases.has_begun(open, suspends) {
                continue;
            }
            let place = node.entry("at_end").map(|at_end| &at_end.key_span).filter(|_| one.name == last.name);
            let place = place.or(node.get("name").map(|name| &name.span)).unwrap_or(&node.span);
            let (by, open) = (&one.name, &two.name);
            let message = format!(
                "`at_end` of phase `{by}` suspends the program while phase `{open}` is running, so `{open}` would \
                 have no measurements"
            );
            let hint = format!("end phase `{open}` earlier, or measure the two phases in two separate experiments");
            problems.fault(place, message, hint);
        }
    }
}

/// Lines can be found only in output that prony reads. `node` is the program's.
pub(crate) fn hears_output(program: &ProgramSpec, node: &Node, phases: &Phases, problems: &mut Problems<'_>) {
    let (Some(place), OutputTo::Null | OutputTo::Inherit) = (node.get("output"), &program.output) else { return };
    let of_line = |trigger: &Option<Trigger>| matches!(trigger, Some(Trigger::Line(_)));
    let of_phase = |phase: &PhaseSpec| {
        let listens = observed(phase).is_some_and(|of| of.read.is_some() || of_line(&of.begin) || of_line(&of.end));
        listens.then(|| format!("phase `{}`", phase.name))
    };
    let replicas = program.replicas.as_ref().filter(|replicas| replicas.read.is_some());
    let listens = phases.sound.iter().find_map(of_phase).or(replicas.map(|_| "`read` of `replicas`".to_owned()));
    if let Some(listens) = listens {
        let message =
            format!("{listens} needs lines of the program's output, which prony does not read with this `output`");
        problems.fault(place, message, "remove `output`; or begin and end the phase by marks, which need no output");
    }
}

/// Replicas start with a phase that the variant has, and that does not wait for them. `node` is the program's.
pub(crate) fn starts_with_a_phase(program: &ProgramSpec, node: &Node, phases: &Phases, problems: &mut Problems<'_>) {
    let Some(replicas) = &program.replicas else { return };
    let (name, phase) = (&program.name, &replicas.phase);
    let place = node.get("replicas").and_then(|node| node.get("phase")).unwrap_or(node);
    if phases.has(phase) == Some(false) {
        let message = format!("program `{name}` has no phase `{phase}` with which replicas could start");
        problems.add(Problem::new(place, message).maybe_hint(phases.hint(phase)));
    }
    if let Some(awaits) = phases.awaits_replicas(phase) {
        let how = match awaits == phase {
            true => "which begins only after the replicas have ended".to_owned(),
            false => format!("which comes after `{awaits}`, and `{awaits}` waits until the replicas have ended"),
        };
        let hint = "start the replicas with an earlier phase, or begin that phase with a line, a mark or a call";
        problems.fault(place, format!("replicas would start with phase `{phase}`, {how}"), hint);
    }
}
