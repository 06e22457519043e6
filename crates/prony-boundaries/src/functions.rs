//! Names under which a probe reports the functions whose calls are phases, or begin or end phases. Pure functions.

use std::collections::BTreeMap;

use prony_model::program::{ObserveSpec, Trigger};
use prony_model::spec::{Action, PhaseSpec};
use prony_runtime::CallSpec;

/// What the calls of a function mean for its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its invocations are the phase.
    Whole,
    /// Its first invocation begins it.
    Begin,
    /// The first end of an invocation after the begin ends it.
    End,
}

/// How a phase is displayed, where it is observed.
pub fn observed(phase: &PhaseSpec) -> Option<&ObserveSpec> {
    match &phase.action {
        Action::Observe(observe) => Some(observe),
        _ => None,
    }
}

fn single(trigger: Option<&Trigger>) -> Option<&str> {
    match trigger {
        Some(Trigger::Invocation(call)) => Some(call),
        _ => None,
    }
}

/// The functions of a phase.
pub fn parts(phase: &PhaseSpec) -> Vec<(Part, &str)> {
    let Some(observe) = observed(phase) else { return Vec::new() };
    let whole = observe.call().map(|call| (Part::Whole, call));
    let begin = single(observe.begin.as_ref()).map(|call| (Part::Begin, call));
    let end = single(observe.end.as_ref()).map(|call| (Part::End, call));
    whole.into_iter().chain(begin).chain(end).collect()
}

/// The name under which a probe reports the function; no phase's name ends like that of one that begins or ends a phase.
pub fn id(phase: &str, part: Part) -> String {
    match part {
        Part::Whole => phase.to_owned(),
        Part::Begin => format!("{phase}/begin"),
        Part::End => format!("{phase}/end"),
    }
}

/// The name under which a probe reports the function whose calls are the phase, if there is one.
pub fn whole(phase: &PhaseSpec) -> Option<String> {
    observed(phase)?.call().map(|_| id(&phase.name, Part::Whole))
}

/// Why a phase has no metrics that could be compared: its function returned an object that does the work after the
/// call. `returned` has such objects by the names of the functions that returned them.
pub fn deferred(phase: &PhaseSpec, returned: &BTreeMap<String, String>) -> Option<String> {
    let ends = parts(phase).into_iter().filter(|(part, _)| *part != Part::Begin);
    let why = |(part, call): (Part, &str)| {
        Some(format!("`{call}` returned {}: its work is done after the call", returned.get(&id(&phase.name, part))?))
    };
    ends.filter_map(why).next()
}

/// The functions that a probe must find.
pub fn specs(phase: &PhaseSpec) -> Vec<CallSpec> {
    let suspends = observed(phase).is_some_and(ObserveSpec::suspends);
    let spec = |(part, call): (Part, &str)| CallSpec {
        id: id(&phase.name, part),
        call: call.to_owned(),
        suspend_at_end: suspends && part != Part::Begin,
    };
    parts(phase).into_iter().map(spec).collect()
}

/// Whether a probe's line may begin a phase: like a mark, it is handled before output that arrived with it.
pub fn begins_phase(line: &str) -> bool {
    line.contains("\"probe\":\"begin\"") && line.contains("/begin\"")
}

/// All functions of a trial, by the names under which probes report them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Functions(BTreeMap<String, (usize, Part)>);

impl Functions {
    /// Those of these phases.
    pub(crate) fn of(phases: &[PhaseSpec]) -> Self {
        let all = phases.iter().enumerate().flat_map(|(index, phase)| {
            parts(phase).into_iter().map(move |(part, _)| (id(&phase.name, part), (index, part)))
        });
        Self(all.collect())
    }

    /// The phase, by index, and the part of the function in it.
    pub(crate) fn find(&self, id: &str) -> Option<(usize, Part)> {
        self.0.get(id).copied()
    }
}

#[cfg(test)]
mod tests {
    use prony_model::program::AtEndSpec;

    use super::*;

    fn phase(name: &str, begin: Option<Trigger>, end: Option<Trigger>, at_end: bool) -> PhaseSpec {
        let at_end = at_end.then(AtEndSpec::default);
        let observe = ObserveSpec { begin, end, at_end, ..ObserveSpec::WHOLE };
        PhaseSpec { name: name.into(), timed: true, action: Action::Observe(observe), background: None, limit: None }
    }

    fn call(name: &str) -> Option<Trigger> {
        Some(Trigger::Call(name.into()))
    }

    fn once(name: &str) -> Option<Trigger> {
        Some(Trigger::Invocation(name.into()))
    }

    #[test]
    fn each_function_has_a_name_of_its_own() {
        let phases = [
            phase("p q", call("a.js#f"), call("a.js#f"), true),
            phase("span", once("a.js#f"), once("a.js#g"), true),
            phase("to a line", once("a.js#f"), Some(Trigger::Line("x".into())), false),
            phase("lines", Some(Trigger::Line("x".into())), None, false),
        ];
        let planned: Vec<(String, String, bool)> =
            phases.iter().flat_map(specs).map(|spec| (spec.id, spec.call, spec.suspend_at_end)).collect();
        let expected = [
            ("p q", "a.js#f", true),
            ("span/begin", "a.js#f", false),
            ("span/end", "a.js#g", true),
            ("to a line/begin", "a.js#f", false),
        ];
        assert_eq!(planned, expected.map(|(id, call, suspends)| (id.to_owned(), call.to_owned(), suspends)));
        let functions = Functions::of(&phases);
        assert_eq!(functions.find("span/end"), Some((1, Part::End)));
        assert_eq!((functions.find("p q"), functions.find("span")), (Some((0, Part::Whole)), None));
    }

    #[test]
    fn only_the_begin_of_a_phase_goes_before_lines() {
        let line =
            |event: &str, call: &str| format!(r#"{{"probe":"{event}","at":1,"pid":1,"thread":0,"call":"{call}"}}"#);
        assert!(begins_phase(&line("begin", "span/begin")));
        for (event, call) in [("end", "span/begin"), ("begin", "span/end"), ("begin", "begin")] {
            assert!(!begins_phase(&line(event, call)), "{event} {call}");
        }
    }
}
