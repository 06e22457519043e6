//! When is it over? After its answer a store may still flush, merge and collect (METHOD 2.6).
//!
//! The decision is pure: looks go in, a finding comes out. A tree is quiet when, averaged over the
//! window, its CPU time, the bytes it writes and the growth of its store stay under the thresholds,
//! and the store's dirty and writeback pages do so at every look: the kernel's flusher writes on
//! nobody's account.

use std::path::PathBuf;

use prony_core::experiment::spec::SettleSpec;
use prony_core::reading::{Reading, Why};
use prony_core::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::clock::{Clock, monotonic};
use crate::sample::Sampler;

/// How things stand at one look. Cumulative, but for the levels `store` and `unwritten`.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// CPU time of the tree.
    pub cpu: Reading<Nanos>,
    /// Bytes the tree handed to the block layer.
    pub written: Reading<Bytes>,
    /// Blocks allocated to the store.
    pub store: Reading<Bytes>,
    /// Dirty and writeback pages of the store's files.
    pub unwritten: Reading<Bytes>,
}

/// Where looks come from: a tree and its store, or a script in tests.
pub trait Probe {
    /// How things stand now.
    fn look(&mut self) -> Activity;
}

/// A sampled tree and the directory of its store.
#[derive(Debug)]
pub struct TreeProbe<'a> {
    /// Samples the tree.
    pub sampler: &'a Sampler,
    /// Where the store is; `None` for programs without one, whose writes and CPU time alone are watched.
    pub store: Option<PathBuf>,
    /// How long its looks at the store took so far.
    pub store_took: Nanos,
}

impl<'a> TreeProbe<'a> {
    /// Looks at a sampled tree and at its store, where it has one.
    pub const fn new(sampler: &'a Sampler, store: Option<PathBuf>) -> Self {
        Self { sampler, store, store_took: Nanos::ZERO }
    }
}

impl Probe for TreeProbe<'_> {
    fn look(&mut self) -> Activity {
        let counters = self.sampler.glance();
        let began = monotonic();
        let none = || Reading::Missing(Why::NotApplicable);
        let (store, unwritten) = self.store.as_ref().map_or((none(), none()), |directory| {
            let unwritten = match cache::resident(directory) {
                Reading::Measured(found) => found.unwritten(),
                Reading::Missing(why) => Reading::Missing(why),
            };
            (cache::disk_usage(directory).map(|usage| usage.blocks), unwritten)
        });
        if self.store.is_some() {
            self.store_took += monotonic().since(began);
        }
        Activity { cpu: counters.on_cpu, written: counters.written, store, unwritten }
    }
}

/// What the watch found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettleResult {
    /// Whether it became quiet within the cap.
    pub settled: bool,
    /// From the begin of the watch to the last activity above its thresholds; missing where it did not settle.
    pub time: Reading<Nanos>,
    /// How long was watched.
    pub watched: Nanos,
    /// The longest time between two looks: so much earlier the last activity may have been.
    #[serde(default)]
    pub step: Nanos,
    /// CPU time used since the begin.
    pub cpu: Reading<Nanos>,
    /// Bytes written since the begin.
    pub written: Reading<Bytes>,
    /// Signs that are there and could not be seen, and why: quiet means quiet without them.
    pub blind: Vec<String>,
}

/// Watches until the tree is quiet, the cap is reached, or `stop` says to: then `None`.
pub fn watch(
    probe: &mut impl Probe,
    spec: &SettleSpec,
    clock: &impl Clock,
    mut stop: impl FnMut() -> bool,
) -> Option<SettleResult> {
    let mut watch = Watch::begin(*spec, clock.now(), probe.look());
    while !stop() {
        clock.sleep(watch.interval());
        if let Some(result) = watch.look(clock.now(), probe.look()) {
            return Some(result);
        }
    }
    None
}

/// A watch under way, for a caller that has other things to wait for.
#[derive(Clone, Debug)]
pub struct Watch {
    spec: SettleSpec,
    looks: Vec<(Nanos, Activity)>,
    left_out: LeftOut,
    paused: Option<(Nanos, Activity)>,
}

/// What pauses took, and what was done in them; missing once a pause could not be seen, and nothing before the first.
#[derive(Clone, Debug)]
struct LeftOut {
    time: Nanos,
    cpu: Reading<Nanos>,
    written: Reading<Bytes>,
}

impl LeftOut {
    const fn nothing() -> Self {
        let (cpu, written) = (Reading::Measured(Nanos::ZERO), Reading::Measured(Bytes::from_bytes(0)));
        Self { time: Nanos::ZERO, cpu, written }
    }

    fn add(&mut self, from: &(Nanos, Activity), to: &(Nanos, Activity)) {
        let cpu = to.1.cpu.clone().and(from.1.cpu.clone(), Nanos::since);
        let written = to.1.written.clone().and(from.1.written.clone(), added);
        self.time += to.0.since(from.0);
        self.cpu = self.cpu.clone().and(cpu, |sum, cpu| sum + cpu);
        self.written = self.written.clone().and(written, |sum, written| sum + written);
    }

    fn without(&self, look: Activity) -> Activity {
        Activity {
            cpu: look.cpu.and(self.cpu.clone(), Nanos::since),
            written: look.written.and(self.written.clone(), added),
            ..look
        }
    }
}

impl Watch {
    /// Begins with a first look.
    pub fn begin(spec: SettleSpec, now: Nanos, look: Activity) -> Self {
        Self { spec, looks: vec![(now, look)], left_out: LeftOut::nothing(), paused: None }
    }

    /// From here until it goes on neither time nor activity counts: the program is held, and a rest that it is forced to
    /// is none of its own.
    pub fn pause(&mut self, now: Nanos, look: Activity) {
        self.paused.get_or_insert((now, look));
    }

    /// Goes on after a pause.
    pub fn go_on(&mut self, now: Nanos, look: Activity) {
        if let Some(from) = self.paused.take() {
            self.left_out.add(&from, &(now, look));
        }
    }

    /// Whether it is paused.
    pub const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// How long to wait between looks: twenty a window bound the error of the time found by a twentieth of it, where looks
    /// take no time; a quarter of a second at most, ten milliseconds at least.
    pub fn interval(&self) -> Nanos {
        Nanos::from_nanos((self.spec.quiet.as_nanos() / 20).clamp(10_000_000, 250_000_000))
    }

    /// Takes another look; the result when there is one.
    pub fn look(&mut self, now: Nanos, look: Activity) -> Option<SettleResult> {
        self.looks.push((now.since(self.left_out.time), self.left_out.without(look)));
        decide(&self.looks, &self.spec)
    }
}

/// What the looks so far say; `None` while it is too early to say.
fn decide(looks: &[(Nanos, Activity)], spec: &SettleSpec) -> Option<SettleResult> {
    let ((began, first), (now, last)) = (looks.first()?, looks.last()?);
    let watched = now.since(*began);
    let (blind, sees) = blind(last);
    let quiet_since = (sees && watched >= spec.quiet).then(|| quiet_since(looks, spec)).flatten();
    if quiet_since.is_none() && watched < spec.within {
        return None;
    }
    let not_settled = || Reading::Missing(Why::Failed(format!("not settled within {}", spec.within)));
    Some(SettleResult {
        settled: quiet_since.is_some(),
        time: quiet_since.map_or_else(not_settled, |at| Reading::Measured(at.since(*began))),
        watched,
        step: looks.windows(2).map(|pair| pair[1].0.since(pair[0].0)).max().unwrap_or_default(),
        cpu: last.cpu.clone().and(first.cpu.clone(), Nanos::since),
        written: last.written.clone().and(first.written.clone(), added),
        blind,
    })
}

/// The signs that were not seen, those apart that there are none of, and whether any was seen.
fn blind(look: &Activity) -> (Vec<String>, bool) {
    fn why<T>(reading: &Reading<T>) -> Option<&Why> {
        match reading {
            Reading::Measured(_) => None,
            Reading::Missing(why) => Some(why),
        }
    }
    let all = [
        ("CPU time", why(&look.cpu)),
        ("bytes written", why(&look.written)),
        ("size of the store", why(&look.store)),
        ("dirty pages of the store", why(&look.unwritten)),
    ];
    let sees = all.iter().any(|(_, why)| why.is_none());
    let named = |(name, why): (&str, Option<&Why>)| match why? {
        Why::NotApplicable => None,
        why => Some(format!("{name}: {why}")),
    };
    (all.into_iter().filter_map(named).collect(), sees)
}

fn added(now: Bytes, then: Bytes) -> Bytes {
    Bytes::from_bytes(now.as_bytes().saturating_sub(then.as_bytes()))
}

/// The last activity before the window that ends now, where that window is quiet.
fn quiet_since(looks: &[(Nanos, Activity)], spec: &SettleSpec) -> Option<Nanos> {
    let now = looks.last()?.0;
    let window = looks.iter().rposition(|(at, _)| now.since(*at) >= spec.quiet)?;
    let inside = &looks[window..];
    let quiet = !busy(inside.first()?, inside.last()?, spec) && !inside.iter().any(|look| dirty(&look.1, spec));
    if !quiet {
        return None;
    }
    // Activity may reach a little into a window that is quiet on average; what follows a pause there is a blip.
    let steps: Vec<_> = looks.windows(2).map(|pair| (pair[1].0, active(&pair[0], &pair[1], spec))).collect();
    let before = steps[..window].iter().rev().find(|(_, active)| *active);
    let into = steps[window..].iter().take_while(|(_, active)| *active).last();
    into.or(before).map_or(Some(looks[0].0), |(at, _)| Some(*at))
}

fn active(from: &(Nanos, Activity), to: &(Nanos, Activity), spec: &SettleSpec) -> bool {
    busy(from, to, spec) || dirty(&to.1, spec)
}

/// Whether counters rose faster than the thresholds between two looks. What is not seen is not busy.
fn busy(from: &(Nanos, Activity), to: &(Nanos, Activity), spec: &SettleSpec) -> bool {
    let seconds = to.0.since(from.0).as_secs_f64();
    let above =
        |amount: Reading<f64>, threshold: f64| amount.measured().is_some_and(|amount| *amount > threshold * seconds);
    let cpu = to.1.cpu.clone().and(from.1.cpu.clone(), |to, from| to.since(from).as_secs_f64());
    let written = to.1.written.clone().and(from.1.written.clone(), |to, from| added(to, from).as_bytes() as f64);
    let resized = |to: Bytes, from: Bytes| to.as_bytes().abs_diff(from.as_bytes()) as f64;
    let store = to.1.store.clone().and(from.1.store.clone(), resized);
    let bytes = spec.bytes.as_bytes() as f64;
    above(cpu, spec.cpu.get()) || above(written, bytes) || above(store, bytes)
}

fn dirty(look: &Activity, spec: &SettleSpec) -> bool {
    look.unwritten.measured().is_some_and(|unwritten| *unwritten > spec.bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use prony_core::units::Fraction;

    use super::*;

    /// A clock that only moves when someone sleeps.
    struct Script {
        now: Cell<u64>,
    }

    impl Clock for Script {
        fn now(&self) -> Nanos {
            Nanos::from_nanos(self.now.get())
        }
        fn sleep(&self, span: Nanos) {
            self.now.set(self.now.get() + span.as_nanos());
        }
    }

    /// Activity as a function of the scripted time in milliseconds.
    struct Scripted<'a, F>(&'a Script, F);

    impl<F: FnMut(u64) -> Activity> Probe for Scripted<'_, F> {
        fn look(&mut self) -> Activity {
            (self.1)(self.0.now().as_nanos() / 1_000_000)
        }
    }

    fn idle() -> Activity {
        Activity {
            cpu: Reading::Measured(Nanos::ZERO),
            written: Reading::Measured(Bytes::default()),
            store: Reading::Measured(Bytes::from_mib(10)),
            unwritten: Reading::Measured(Bytes::default()),
        }
    }

    fn spec() -> SettleSpec {
        SettleSpec {
            quiet: Nanos::from_secs(2),
            within: Nanos::from_secs(20),
            cpu: Fraction::new(0.02).unwrap(),
            bytes: Bytes::from_bytes(100_000),
        }
    }

    fn found(activity: impl FnMut(u64) -> Activity) -> SettleResult {
        let clock = Script { now: Cell::new(0) };
        watch(&mut Scripted(&clock, activity), &spec(), &clock, || false).expect("nothing stops it")
    }

    fn cpu(ms: u64) -> Activity {
        Activity { cpu: Reading::Measured(Nanos::from_millis(ms)), ..idle() }
    }

    #[track_caller]
    fn near(result: &SettleResult, ms: u64) {
        let time = result.time.measured().expect("it settles").as_nanos() / 1_000_000;
        assert!(time.abs_diff(ms) <= 100, "settled after {time} ms, not {ms}");
    }

    #[test]
    fn an_idle_tree_settles_at_once() {
        let result = found(|_| idle());
        assert_eq!((result.settled, result.time), (true, Reading::Measured(Nanos::ZERO)));
        assert_eq!(result.watched, Nanos::from_secs(2));
    }

    #[test]
    fn a_burst_ends_when_it_ends() {
        let result = found(|ms| cpu(ms.min(4300)));
        near(&result, 4300);
        assert_eq!(result.cpu, Reading::Measured(Nanos::from_millis(4300)));
    }

    #[test]
    fn a_second_burst_within_the_window_counts() {
        // Busy to 1 s, a pause of 1.5 s (shorter than the window), busy again for half a second.
        near(&found(|ms| cpu(ms.min(1000) + ms.clamp(2500, 3000) - 2500)), 3000);
    }

    #[test]
    fn a_timer_that_ticks_does_not_keep_it_awake() {
        // 5 ms of work every second is 0.5 % of a core, though 5 % of the look it falls in.
        near(&found(|ms| cpu(ms.min(1000) + ms / 1000 * 5)), 1000);
    }

    #[test]
    fn a_tree_that_never_rests_is_not_settled() {
        let result = found(|ms| cpu(ms / 10));
        assert!(!result.settled && matches!(result.time, Reading::Missing(Why::Failed(_))));
        assert_eq!(result.watched, Nanos::from_secs(20));
        assert_eq!(result.cpu, Reading::Measured(Nanos::from_secs(2)));
    }

    #[test]
    fn writes_growth_shrinking_and_dirty_pages_count_too() {
        let kb = |n: u64| Reading::Measured(Bytes::from_bytes(n * 1000));
        near(&found(|ms| Activity { written: kb(ms.min(3000)), ..idle() }), 3000);
        near(&found(|ms| Activity { store: kb(10_000 + ms.min(3000)), ..idle() }), 3000);
        near(&found(|ms| Activity { store: kb(10_000 - ms.min(3000)), ..idle() }), 3000);
        near(&found(|ms| Activity { unwritten: kb(if ms < 3000 { 5000 } else { 0 }), ..idle() }), 3000);
    }

    #[test]
    fn what_is_not_seen_is_named_and_quiet_needs_at_least_one_sign() {
        let missing = || Why::NotPermitted("`/proc/7/io`".into());
        let partly = found(|ms| Activity { written: Reading::Missing(missing()), ..cpu(ms.min(500)) });
        near(&partly, 500);
        assert_eq!(partly.blind, ["bytes written: not permitted: `/proc/7/io`"]);
        let nothing = found(|_| Activity {
            cpu: Reading::Missing(missing()),
            written: Reading::Missing(missing()),
            store: Reading::Missing(missing()),
            unwritten: Reading::Missing(missing()),
        });
        assert!(!nothing.settled);
        let none = || Reading::Missing(Why::NotApplicable);
        let program = found(|ms| Activity { store: none(), unwritten: none(), ..cpu(ms.min(500)) });
        near(&program, 500);
        assert_eq!(program.blind, Vec::<String>::new(), "a program has no store to be blind to");
    }

    #[test]
    fn the_longest_step_between_two_looks_is_told() {
        assert_eq!(found(|_| idle()).step, Nanos::from_millis(100), "a twentieth of the window");
        let mut watch = Watch::begin(spec(), Nanos::ZERO, idle());
        let looks = [100, 200, 1700, 1800, 2100].map(|ms| watch.look(Nanos::from_millis(ms), idle()));
        let [.., Some(last)] = looks else { panic!("it has been quiet for the window") };
        assert_eq!((last.settled, last.step), (true, Nanos::from_millis(1500)), "one look took long");
    }

    /// Looks each 100 ms until there is a result; between `from` and `to` the tree is held.
    fn paused(from: u64, to: u64, activity: impl Fn(u64) -> Activity) -> SettleResult {
        let at = Nanos::from_millis;
        let mut watch = Watch::begin(spec(), at(0), activity(0));
        for ms in (100..).step_by(100) {
            match ms {
                ms if ms == from => watch.pause(at(ms), activity(ms)),
                ms if ms == to => watch.go_on(at(ms), activity(ms)),
                _ => {}
            }
            if watch.is_paused() {
                continue;
            }
            if let Some(result) = watch.look(at(ms), activity(ms)) {
                return result;
            }
        }
        unreachable!("it settles, or the cap is reached")
    }

    #[test]
    fn a_rest_that_is_forced_is_no_rest() {
        // One second of work, a hold of five in which a collection takes 400 ms, and another second of work.
        let working = |ms: u64| cpu(ms.min(1000) + (ms.clamp(2000, 2400) - 2000) + (ms.clamp(6000, 7000) - 6000));
        let result = paused(1000, 6000, working);
        near(&result, 2000);
        assert_eq!(result.cpu, Reading::Measured(Nanos::from_secs(2)), "the collection is not the program's");
        assert_eq!(result.watched, Nanos::from_secs(4));
        let written = |ms: u64| Activity { written: Reading::Measured(Bytes::from_bytes(ms * 1000)), ..idle() };
        let never = paused(1000, 3000, written);
        assert!(!never.settled && never.watched == Nanos::from_secs(20), "the cap stands still too");
        assert_eq!(never.written, Reading::Measured(Bytes::from_bytes(20_000_000)));
    }

    #[test]
    fn what_a_pause_did_unseen_is_not_taken_for_nothing() {
        let unseen = |ms: u64| match ms {
            1000 => Activity { cpu: Reading::Missing(Why::NotReached), ..idle() },
            ms => Activity { written: Reading::Measured(Bytes::from_bytes(7)), ..cpu(ms.min(400)) },
        };
        let result = paused(1000, 6000, unseen);
        assert!(result.cpu.measured().is_none(), "{:?}", result.cpu);
    }
}
