//! Finds the largest value of a factor with which the subject succeeds: doubles the value until the subject fails,
//! bisects, then repeats trials on both sides of the limit.
//!
//! A value succeeds only if each of its trials succeeds, so that the limit is that of reliable success. A value that
//! succeeds in one trial and fails in another, or that succeeds above a value that failed, is reported.
//!
//! Where one trial in many fails without a limit in the value, as a step of a load does in which the machine does something else,
//! the first value can be judged by the majority of its trials ([`Grow::with_first_by_majority`]): a failure of it ends the
//! search without a result, while at other values the search goes on below.

use serde::{Deserialize, Serialize};

use super::range::Range;
use super::trial_end::TrialEnd;

/// Disturbed trials of one value in a row, at most.
const PATIENCE: u32 = 3;

/// What is grown and how finely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The factor, its first value, and its greatest value. The first is above zero.
    pub range: Range,
    /// The search ends when the gap between success and failure is at most this share of the largest value that
    /// succeeds.
    pub resolution: f64,
    /// Trials at each side of the limit, at least 1.
    pub confirm: u32,
}

/// A value and how its trials went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The value, in the range's unit.
    pub value: f64,
    /// Trials that ended well.
    pub succeeded: u32,
    /// Trials that failed because of the subject itself.
    pub failed: u32,
    /// Trials without a result, since something else may have ended them.
    pub disturbed: u32,
}

impl Tried {
    /// Whether every trial with a result ended well.
    pub const fn succeeds(&self) -> bool {
        self.succeeded > 0 && self.failed == 0
    }

    /// Whether some succeeded and some failed.
    pub const fn is_mixed(&self) -> bool {
        self.succeeded > 0 && self.failed > 0
    }

    const fn concluded(&self) -> u32 {
        self.succeeded + self.failed
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Run a trial with this value.
    Try(f64),
    /// Nothing; this is the result.
    Done(Growth),
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// How the search ended.
    pub end: End,
    /// The largest value that succeeds, below everything that fails.
    pub largest_success: Option<Tried>,
    /// The smallest value that failed.
    pub smallest_failure: Option<Tried>,
    /// Values above the smallest failure of which every trial succeeded: success is not monotone in the factor.
    pub succeeds_above: Vec<f64>,
    /// The value that was abandoned because too many of its trials in a row were disturbed.
    pub given_up: Option<f64>,
    /// Every value tried, ascending.
    pub tried: Vec<Tried>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Both sides of the limit are known, as close together as requested.
    Bracketed,
    /// The first value fails already.
    NothingSucceeds,
    /// Even the last value of the range succeeds.
    AllSucceed,
    /// Too many trials of a value in a row were disturbed from outside.
    Disturbed,
}

/// One factor being grown.
#[derive(Clone, Debug, PartialEq)]
pub struct Grow {
    settings: Settings,
    /// Ascending.
    tried: Vec<Tried>,
    /// The first value that failed, from below.
    first_failure: Option<f64>,
    /// Whether one value above it was tried.
    tried_above: bool,
    /// The value whose last trials were disturbed, and how many in a row: it is repeated until they are too many.
    row: Option<(f64, u32)>,
    /// Whether the first value succeeds if most of its trials do.
    first_by_majority: bool,
}

impl Grow {
    /// A search that has tried nothing yet.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            tried: Vec::new(),
            first_failure: None,
            tried_above: false,
            row: None,
            first_by_majority: false,
        }
    }

    /// The same, in which the first value also succeeds if more of its trials succeed than fail, of as many as confirm a value.
    pub fn with_first_by_majority(self) -> Self {
        Self { first_by_majority: true, ..self }
    }

    /// The number of results for a value: the block of its next trial.
    pub fn trials_of(&self, value: f64) -> u32 {
        self.tried.iter().find(|tried| tried.value == value).map_or(0, |tried| tried.concluded() + tried.disturbed)
    }

    /// What to try now.
    pub fn ask(&self) -> Ask {
        if let Some(value) = self.given_up() {
            // The trial above the first failure comes last, after both sides of the limit: only it can be lost.
            let above = self.first_failure.is_some_and(|first| value > first);
            return self.done(if above { End::Bracketed } else { End::Disturbed });
        }
        // A disturbed trial is repeated before anything is concluded.
        if let Some(tried) = self.tried.iter().find(|tried| tried.concluded() == 0) {
            return Ask::Try(tried.value);
        }
        match (self.largest_success(), self.smallest_failure()) {
            (None, None) => Ask::Try(self.first()),
            (Some(success), None) => self.upwards(success),
            (None, Some(failure)) if failure.concluded() < self.settings.confirm => Ask::Try(failure.value),
            (None, Some(_)) => self.done(End::NothingSucceeds),
            (Some(success), Some(failure)) => self.between(success, failure),
        }
    }

    /// Records how a trial with this value ended.
    pub fn record(&mut self, value: f64, end: TrialEnd) {
        let at = self.tried.partition_point(|tried| tried.value < value);
        if self.tried.get(at).is_none_or(|tried| tried.value != value) {
            self.tried.insert(at, Tried { value, succeeded: 0, failed: 0, disturbed: 0 });
        }
        let tried = &mut self.tried[at];
        match end {
            TrialEnd::Succeeded => tried.succeeded += 1,
            TrialEnd::Failed => tried.failed += 1,
            TrialEnd::Disturbed => tried.disturbed += 1,
        }
        let before = self.row.filter(|(last, _)| *last == value).map_or(0, |(_, times)| times);
        self.row = (end == TrialEnd::Disturbed).then_some((value, before + 1));
        self.tried_above |= self.first_failure.is_some_and(|first| value > first);
        let is_limit = !(self.first_by_majority && value == self.first());
        if end == TrialEnd::Failed && is_limit && self.first_failure.is_none() {
            self.first_failure = Some(value);
        }
    }

    /// Takes what it asked for as beyond the end of the range: no trial with this value can run. Whether the search can go on:
    /// there is an end only above a value that was tried.
    pub fn refuse(&mut self, value: f64) -> bool {
        if self.first_failure.is_some_and(|first| value > first) {
            self.tried_above = true;
            return true;
        }
        let last = self.largest_success().filter(|last| last.value < value && self.smallest_failure().is_none());
        self.settings.range.high = last.map(|last| last.value).or(self.settings.range.high);
        last.is_some()
    }

    /// The value that was disturbed too often in a row, whatever its earlier trials were.
    fn given_up(&self) -> Option<f64> {
        self.row.filter(|(_, times)| *times >= PATIENCE).map(|(value, _)| value)
    }

    /// The value with which the search begins.
    fn first(&self) -> f64 {
        self.settings.range.round(self.settings.range.low)
    }

    /// Whether a value counts as one that fails.
    fn fails(&self, tried: &Tried) -> bool {
        let is_mostly_well = tried.concluded() >= self.settings.confirm && tried.succeeded > tried.failed;
        tried.failed > 0 && !(self.first_by_majority && tried.value == self.first() && is_mostly_well)
    }

    /// The smallest value that failed.
    fn smallest_failure(&self) -> Option<Tried> {
        self.tried.iter().find(|tried| self.fails(tried)).copied()
    }

    /// The largest value that succeeds, below everything that failed.
    fn largest_success(&self) -> Option<Tried> {
        self.tried.iter().take_while(|tried| !self.fails(tried)).filter(|tried| tried.succeeded > 0).last().copied()
    }

    fn upwards(&self, success: Tried) -> Ask {
        let next = self.settings.range.round(success.value * 2.0);
        if next > success.value {
            Ask::Try(next)
        } else if success.succeeded < self.settings.confirm {
            Ask::Try(success.value)
        } else {
            self.done(End::AllSucceed)
        }
    }

    fn between(&self, success: Tried, failure: Tried) -> Ask {
        if let Some(middle) = self.middle(success.value, failure.value) {
            return Ask::Try(middle);
        }
        if success.succeeded < self.settings.confirm {
            return Ask::Try(success.value);
        }
        if failure.concluded() < self.settings.confirm {
            return Ask::Try(failure.value);
        }
        match self.above() {
            Some(value) => Ask::Try(value),
            None => self.done(End::Bracketed),
        }
    }

    /// The geometric middle, where the gap is wider than asked and has a value in it.
    fn middle(&self, success: f64, failure: f64) -> Option<f64> {
        let range = &self.settings.range;
        let narrow = failure <= success * (1.0 + self.settings.resolution);
        let middle = range.round((success * failure).sqrt());
        // Between 1 and 3 the middle rounds to 2, between 2 and 3 to an end.
        let inside = middle > success && middle < failure;
        (!narrow && inside).then_some(middle)
    }

    /// One trial above the first failure: if values succeed above a failure, there is no clear limit.
    fn above(&self) -> Option<f64> {
        let first = self.first_failure.filter(|_| !self.tried_above)?;
        Some(self.settings.range.round(first * 2.0)).filter(|value| *value > first)
    }

    /// The result, where the search ends at a value since no further trial can run.
    pub fn ended_at(&self, value: f64) -> Growth {
        Growth { given_up: Some(value), ..self.result(End::Disturbed) }
    }

    fn done(&self, end: End) -> Ask {
        Ask::Done(self.result(end))
    }

    fn result(&self, end: End) -> Growth {
        let (largest_success, smallest_failure) = (self.largest_success(), self.smallest_failure());
        let above =
            |tried: &&Tried| tried.succeeds() && smallest_failure.is_some_and(|failure| tried.value > failure.value);
        let succeeds_above = self.tried.iter().filter(above).map(|tried| tried.value).collect();
        Growth {
            end,
            largest_success,
            smallest_failure,
            succeeds_above,
            given_up: self.given_up(),
            tried: self.tried.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(range: &str) -> Settings {
        Settings { range: range.parse().unwrap(), resolution: 0.05, confirm: 3 }
    }

    /// Runs to the end; `end(value, how many trials of it before)`.
    fn grown(settings: Settings, mut end: impl FnMut(f64, u32) -> TrialEnd) -> (Growth, Vec<f64>) {
        let (mut grow, mut asked) = (Grow::new(settings), Vec::new());
        loop {
            match grow.ask() {
                Ask::Done(growth) => return (growth, asked),
                Ask::Try(value) => {
                    let before = grow.trials_of(value);
                    asked.push(value);
                    grow.record(value, end(value, before));
                }
            }
            assert!(asked.len() < 300, "it never ends: {asked:?}");
        }
    }

    /// The same, in which the first value is judged by the majority of its trials.
    fn grown_by_majority(settings: Settings, mut end: impl FnMut(f64, u32) -> TrialEnd) -> Growth {
        let mut grow = Grow::new(settings).with_first_by_majority();
        loop {
            match grow.ask() {
                Ask::Done(growth) => return growth,
                Ask::Try(value) => grow.record(value, end(value, grow.trials_of(value))),
            }
        }
    }

    fn below(limit: f64) -> impl FnMut(f64, u32) -> TrialEnd {
        move |value, _| if value <= limit { TrialEnd::Succeeded } else { TrialEnd::Failed }
    }

    /// A file that allows 1000 threads at most ended a search without a result.
    #[test]
    fn a_value_that_cannot_be_tried_ends_the_range() {
        let allowed = |limit: f64, most: f64| {
            let mut grow = Grow::new(settings("n=100.."));
            loop {
                match grow.ask() {
                    Ask::Done(growth) => return growth,
                    Ask::Try(value) if value > most => assert!(grow.refuse(value), "{value}"),
                    Ask::Try(value) => grow.record(value, below(limit)(value, 0)),
                }
            }
        };
        let all = allowed(f64::INFINITY, 1000.0);
        assert_eq!(
            (all.end, all.largest_success.map(|tried| (tried.value, tried.succeeded))),
            (End::AllSucceed, Some((800.0, 3)))
        );
        let failing = allowed(500.0, 1000.0);
        assert_eq!((failing.end, failing.succeeds_above.len()), (End::Bracketed, 0), "nothing above 800 is tried");
        assert!(!Grow::new(settings("n=100..")).refuse(100.0), "nothing succeeds below");
    }

    #[test]
    fn it_doubles_then_bisects_then_asks_both_sides_again() {
        let (growth, asked) = grown(settings("n=1000.."), below(5300.0));
        assert_eq!(asked[..4], [1000.0, 2000.0, 4000.0, 8000.0]);
        let (success, failure) = (growth.largest_success.unwrap(), growth.smallest_failure.unwrap());
        assert!(
            success.value <= 5300.0 && failure.value > 5300.0 && failure.value <= success.value * 1.05,
            "{growth:?}"
        );
        assert_eq!((growth.end, success.succeeded, failure.failed), (End::Bracketed, 3, 3));
        assert_eq!(asked.last(), Some(&16_000.0), "one trial above");
        assert!(growth.succeeds_above.is_empty() && asked.len() <= 14, "{asked:?}");
    }

    #[test]
    fn the_ends_of_the_range_are_said() {
        let (growth, asked) = grown(settings("n=10..100"), below(1e9));
        assert_eq!(
            (growth.end, growth.largest_success.unwrap().value, growth.smallest_failure),
            (End::AllSucceed, 100.0, None)
        );
        assert_eq!(asked, [10.0, 20.0, 40.0, 80.0, 100.0, 100.0, 100.0]);
        let (growth, asked) = grown(settings("n=10..100"), below(5.0));
        assert_eq!(
            (growth.end, growth.largest_success, growth.smallest_failure.unwrap().failed),
            (End::NothingSucceeds, None, 3)
        );
        assert_eq!(asked, [10.0; 3]);
    }

    #[test]
    fn disturbed_trials_are_repeated_and_decide_nothing() {
        let flaky = |value: f64, before: u32| match (value, before) {
            (4.0, 0..2) => TrialEnd::Disturbed,
            (value, _) if value <= 11.0 => TrialEnd::Succeeded,
            _ => TrialEnd::Failed,
        };
        let (growth, asked) = grown(settings("n=1.."), flaky);
        assert_eq!(
            (growth.end, growth.largest_success.unwrap().value, growth.smallest_failure.unwrap().value),
            (End::Bracketed, 11.0, 12.0)
        );
        assert_eq!(asked.iter().filter(|value| **value == 4.0).count(), 3);
        let (growth, asked) =
            grown(settings("n=1.."), |value, _| if value < 8.0 { TrialEnd::Succeeded } else { TrialEnd::Disturbed });
        assert_eq!(
            (growth.end, growth.largest_success.unwrap().value, growth.smallest_failure),
            (End::Disturbed, 4.0, None)
        );
        assert_eq!((asked.len(), growth.given_up), (3 + 3, Some(8.0)));
    }

    #[test]
    fn value_that_succeeded_once_is_given_up_after_three_disturbances_in_a_row_too() {
        // 11 succeeds at its first trial; those that should confirm it are all ended from outside.
        let never_again = |value: f64, before: u32| match value {
            11.0 if before > 0 => TrialEnd::Disturbed,
            value if value <= 11.0 => TrialEnd::Succeeded,
            _ => TrialEnd::Failed,
        };
        let (growth, asked) = grown(settings("n=1.."), never_again);
        assert_eq!((growth.end, growth.given_up), (End::Disturbed, Some(11.0)));
        assert_eq!(
            (growth.largest_success.unwrap().succeeded, growth.smallest_failure.unwrap().value),
            (1, 12.0),
            "what is known is reported"
        );
        assert_eq!(asked[asked.len() - 4..], [12.0, 11.0, 11.0, 11.0], "{asked:?}");
        // Three in all, but never in a row, end nothing.
        let now_and_then = |value: f64, before: u32| match value {
            11.0 if before % 2 == 1 => TrialEnd::Disturbed,
            value if value <= 11.0 => TrialEnd::Succeeded,
            _ => TrialEnd::Failed,
        };
        let (growth, _) = grown(Settings { confirm: 5, ..settings("n=1..") }, now_and_then);
        let success = growth.largest_success.unwrap();
        assert_eq!((growth.end, success.succeeded, success.disturbed, growth.given_up), (End::Bracketed, 5, 4, None));
    }

    #[test]
    fn disturbed_trial_above_the_boundary_costs_only_itself() {
        let end = |value: f64, _| match value {
            value if value <= 11.0 => TrialEnd::Succeeded,
            value if value <= 16.0 => TrialEnd::Failed,
            _ => TrialEnd::Disturbed,
        };
        let (growth, asked) = grown(settings("n=1.."), end);
        assert_eq!((growth.end, growth.given_up), (End::Bracketed, Some(32.0)));
        assert_eq!((growth.largest_success.unwrap().succeeded, growth.smallest_failure.unwrap().failed), (3, 3));
        assert_eq!(asked[asked.len() - 3..], [32.0; 3]);
    }

    #[test]
    fn value_that_fails_on_confirmation_is_not_the_limit() {
        // 8 succeeds once and fails at the second trial.
        let end = |value: f64, before: u32| {
            if value < 8.0 || (value < 8.5 && before == 0) { TrialEnd::Succeeded } else { TrialEnd::Failed }
        };
        let (growth, _) = grown(settings("n=1.."), end);
        assert_eq!((growth.largest_success.unwrap().value, growth.largest_success.unwrap().succeeded), (7.0, 3));
        let failure = growth.smallest_failure.unwrap();
        assert!(failure.value == 8.0 && failure.is_mixed(), "{failure:?}");
    }

    #[test]
    fn larger_value_that_succeeds_is_noticed() {
        let hole = |value: f64, _| if (10.0..20.0).contains(&value) { TrialEnd::Failed } else { TrialEnd::Succeeded };
        let (growth, _) = grown(settings("n=1..100"), hole);
        assert_eq!((growth.largest_success.unwrap().value, growth.smallest_failure.unwrap().value), (9.0, 10.0));
        assert_eq!(growth.succeeds_above, [32.0]);
    }

    #[test]
    fn first_value_can_be_judged_by_the_majority_of_its_trials() {
        // One trial of the first value fails, whichever it is.
        for bad in 0..3 {
            let end =
                |value: f64, before: u32| below(if value == 200.0 && before == bad { 0.0 } else { 530.0 })(value, 0);
            let growth = grown_by_majority(settings("rate=200.."), end);
            let (success, failure) = (growth.largest_success.unwrap(), growth.smallest_failure.unwrap());
            assert!(growth.end == End::Bracketed && success.value > 500.0 && failure.value < 560.0, "{growth:?}");
            assert!(growth.tried.iter().any(|tried| tried.value > failure.value * 1.5), "one trial above the limit");
        }
        let twice = |value: f64, before: u32| below(if before < 2 { 0.0 } else { 530.0 })(value, 0);
        let growth = grown_by_majority(settings("rate=200.."), twice);
        let failure = growth.smallest_failure.unwrap();
        assert_eq!((growth.end, failure.value, failure.failed, failure.succeeded), (End::NothingSucceeds, 200.0, 2, 1));
        // The first value is also the largest that succeeds, and is confirmed until it succeeded often enough.
        let blip = |value: f64, before: u32| below(if before == 0 { 0.0 } else { 200.0 })(value, 0);
        let growth = grown_by_majority(settings("rate=200.."), blip);
        let success = growth.largest_success.unwrap();
        assert_eq!((growth.end, success.value, success.failed, success.succeeded), (End::Bracketed, 200.0, 1, 3));
        // Without it a value with a failure never succeeds.
        let (growth, _) = grown(settings("rate=200.."), blip);
        assert_eq!((growth.end, growth.smallest_failure.unwrap().succeeded), (End::NothingSucceeds, 2));
    }

    #[test]
    fn search_that_cannot_go_on_gives_what_is_known() {
        let mut grow = Grow::new(settings("n=10.."));
        for value in [10.0, 20.0] {
            grow.record(value, TrialEnd::Succeeded);
        }
        let growth = grow.ended_at(40.0);
        let met = growth.largest_success.map(|one| one.value);
        assert_eq!((growth.end, met, growth.given_up), (End::Disturbed, Some(20.0), Some(40.0)));
    }

    #[test]
    fn search_is_deterministic_for_equal_results() {
        let (_, asked) = grown(settings("n=3..9000"), below(777.0));
        let mut again = Grow::new(settings("n=3..9000"));
        for value in asked {
            assert_eq!(again.ask(), Ask::Try(value));
            again.record(value, below(777.0)(value, 0));
        }
        assert!(matches!(again.ask(), Ask::Done(_)));
    }

    proptest! {
        #[test]
        fn limit_is_bracketed_within_the_resolution_and_a_bound(
            start in 1u32..1000, limit in 1u32..10_000_000, resolution in 0.01f64..0.5, confirm in 1u32..5,
        ) {
            let settings = Settings { resolution, confirm, ..settings(&format!("n={start}..20_000_000")) };
            let limit = f64::from(limit);
            let (growth, asked) = grown(settings, below(limit));
            if limit < f64::from(start) {
                prop_assert_eq!(growth.end, End::NothingSucceeds);
            } else {
                let (success, failure) = (growth.largest_success.unwrap(), growth.smallest_failure.unwrap());
                prop_assert!(success.value <= limit && limit < failure.value);
                prop_assert!(failure.value <= (success.value * (1.0 + resolution)).max(success.value + 1.0));
                prop_assert!(success.succeeded >= confirm && failure.failed >= confirm);
                let (doublings, halvings) = (26.0, (1.0 / resolution).log2().ceil() + 3.0);
                prop_assert!((asked.len() as f64) < doublings + halvings + 2.0 * f64::from(confirm) + 2.0, "{}", asked.len());
            }
        }

        #[test]
        fn search_ends_for_random_results_and_never_reports_that_a_failed_value_succeeds(seed: u64, confirm in 1u32..5) {
            let mut state = seed;
            let settings = Settings { confirm, ..settings("n=1.0..1000000") };
            let (growth, _) = grown(settings, |_, _| {
                state = prony_model::random::mix(state.wrapping_add(prony_model::random::GOLDEN));
                match state % 8 { 0 => TrialEnd::Disturbed, 1..4 => TrialEnd::Failed, _ => TrialEnd::Succeeded }
            });
            if let Some(success) = growth.largest_success {
                prop_assert!(success.failed == 0);
                prop_assert!(growth.tried.iter().filter(|tried| tried.value < success.value).all(|tried| tried.failed == 0));
            }
            prop_assert_eq!(growth.end == End::Bracketed, growth.largest_success.is_some() && growth.smallest_failure.is_some() && growth.end != End::Disturbed);
        }
    }
}
