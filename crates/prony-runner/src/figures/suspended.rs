//! Finds phases that were running while `at_end` of another phase suspended the program. Pure functions.
//!
//! Neither counting that time nor leaving it out makes values of such a phase that could be compared with those of a
//! run without the suspension: collections, caches and background work proceed differently after it. So it has none.

use prony_boundaries::functions::observed;
use prony_model::reading::Why;
use prony_model::spec::PhaseSpec;

use crate::watched::Watched;

/// The first phase whose `at_end` suspended the program while the phase at an index was running.
pub(crate) fn inside<'p>(phases: &'p [PhaseSpec], watched: &Watched, index: usize) -> Option<&'p str> {
    let tracked = &watched.tracker.phases[index];
    let other_suspensions =
        watched.suspensions.iter().filter(|suspension| suspension.phase != index && !suspension.passed);
    // One that comes at a later turn of the event loop follows one at the phase's end.
    let mut at_ends = other_suspensions.filter(|suspension| suspension.late.is_none());
    let suspension =
        at_ends.find(|suspension| suspends(&phases[suspension.phase]) && tracked.was_open(suspension.from))?;
    Some(&phases[suspension.phase].name)
}

fn suspends(phase: &PhaseSpec) -> bool {
    observed(phase).is_some_and(|observe| observe.at_end.is_some())
}

/// Why the metrics of such a phase are missing.
pub(crate) fn why(by: &str) -> Why {
    Why::NotSupported(format!("`at_end` of phase `{by}` suspended the program while this phase was running").into())
}

#[cfg(test)]
mod tests {
    use prony_boundaries::marks::Mark;
    use prony_boundaries::phase_state::Happened;
    use prony_boundaries::suspending::Suspension;
    use prony_boundaries::tracker::Tracker;
    use prony_model::program::{AtEndSpec, ObserveSpec, Trigger};
    use prony_model::spec::Action;
    use prony_model::units::Nanos;

    use super::*;
    use crate::figures::span::tests::{ms, snapshot, suspension, watched};
    use crate::figures::tests::lines::line;

    fn phase(name: &str, trigger: Trigger, at_end: Option<AtEndSpec>) -> PhaseSpec {
        let (begin, end) = (Some(trigger.clone()), Some(trigger));
        let observe = ObserveSpec { begin, end, at_end, ..ObserveSpec::WHOLE };
        PhaseSpec { name: name.into(), timed: true, action: Action::Observe(observe), background: None, limit: None }
    }

    /// `a` suspends the program at 100 ms, or only ends it; `b` is between marks, `c` a function.
    fn phases(at_end: Option<AtEndSpec>) -> [PhaseSpec; 3] {
        let call = |name: &str| Trigger::Call(name.into());
        [phase("a", call("f"), at_end), phase("b", Trigger::Mark("b".into()), None), phase("c", call("g"), None)]
    }

    /// The phase that suspended `b` and the one that suspended `c`, where these were between such instants; the end of `b`
    /// may be `lag` earlier.
    fn by(phases: &[PhaseSpec], b: (u64, u64), lag: u64, c: &[(u64, u64)]) -> [Option<String>; 2] {
        let mut tracker = Tracker::new(phases);
        for (text, at, lag) in [("b begin", b.0, 0), ("b end", b.1, lag)] {
            tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), ms(at), ms(lag));
        }
        for (n, (begin, end)) in c.iter().enumerate() {
            let call = |event: &str, more: &str| format!(r#""probe":"{event}","call":"c","n":{n},"open":0{more}"#);
            tracker.phases[2].called(&line(7, 0, *begin, &call("begin", "")));
            tracker.phases[2].called(&line(7, 0, *end, &call("end", r#","ok":true,"took":5"#)));
        }
        let mut all =
            watched(vec![snapshot(0, 0, &[7]), snapshot(900, 0, &[])], vec![suspension(7, 0, (0, 1), (100, 300))]);
        all.tracker = tracker;
        [1, 2].map(|index| inside(phases, &all, index).map(str::to_owned))
    }

    #[test]
    fn a_phase_is_suspended_where_it_was_under_way() {
        let (phases, a) = (phases(Some(AtEndSpec::default())), || Some("a".to_owned()));
        assert_eq!(by(&phases, (50, 400), 0, &[(60, 350)]), [a(), a()]);
        assert_eq!(by(&phases, (50, 90), 0, &[(60, 100), (310, 400)]), [None, None], "between two calls");
        assert_eq!(by(&phases, (100, 400), 0, &[(300, 400)]), [None, None], "it begins where `a` ends, or later");
        assert_eq!(by(&phases, (50, 105), 10, &[]), [None, None], "its end may have been before");
    }

    #[test]
    fn reading_memory_before_the_program_is_stopped_suspends_no_phase() {
        assert_eq!(by(&phases(None), (50, 400), 0, &[(60, 350)]), [None, None]);
    }

    #[test]
    fn a_suspension_at_a_later_turn_or_let_go_at_once_counts_for_no_other_phase() {
        let phases = phases(Some(AtEndSpec::default()));
        let mut tracker = Tracker::new(&phases);
        tracker.happened(Happened::Mark(&Mark::parse("b begin").unwrap()), ms(50), Nanos::ZERO);
        let of = |change: fn(&mut Suspension)| {
            let mut one = suspension(7, 0, (0, 1), (100, 300));
            change(&mut one);
            let mut all = watched(vec![snapshot(0, 0, &[7]), snapshot(900, 0, &[])], vec![one]);
            all.tracker = tracker.clone();
            inside(&phases, &all, 1).is_some()
        };
        assert!(of(|_| {}));
        assert!(!of(|suspension| suspension.passed = true) && !of(|suspension| suspension.late = Some(ms(5))));
    }
}
