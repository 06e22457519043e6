//! Watches for the end of phases that end when the process tree is quiet. Each poll takes little time, so that the
//! other sources of boundaries do not wait.

use std::collections::BTreeMap;
use std::time::Instant;

use prony_model::reading::{Reading, Why};
use prony_model::spec::SettleSpec;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::settle::{Activity, Probe, SettleResult, Watch};

use crate::suspensions::Suspensions;

/// A poll takes at most this part of the time, one in so many: each walks a store that may have many files.
const POLLS_SHARE: u32 = 10;

/// The result of the watch of a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// When the watch began: with the phase, or with the end of the one before it.
    pub began: Nanos,
    /// What it found.
    pub result: SettleResult,
    /// When it stopped.
    pub paused: Suspensions,
}

struct Active {
    phase: usize,
    began: Nanos,
    watch: Watch,
    next: Instant,
    /// Since when it is paused, if it is, and its earlier pauses.
    pause: Option<Nanos>,
    paused: Vec<(Nanos, Nanos)>,
}

/// The watches of a trial.
#[derive(Default)]
pub struct Settling {
    active: Vec<Active>,
    /// Results of the finished ones, by the index of the phase.
    pub over: BTreeMap<usize, Settled>,
}

impl Settling {
    /// A phase begins that ends when the tree is quiet. Its first poll may be older: what happened since then counts.
    pub fn begin(&mut self, phase: usize, spec: SettleSpec, (began, first): (Nanos, Activity)) {
        let watch = Watch::begin(spec, began, first);
        let next = Instant::now() + watch.interval().to_duration();
        self.active.push(Active { phase, began, watch, next, pause: None, paused: Vec::new() });
    }

    /// When the next poll is due; none while the program is suspended.
    pub fn next(&self) -> Option<Instant> {
        self.active.iter().filter(|active| !active.watch.is_paused()).map(|active| active.next).min()
    }

    /// Takes the polls that are due; returns the phases that end with them. While the program is `suspended` its being
    /// quiet means nothing, and nothing is watched.
    pub fn due(&mut self, suspended: bool, probe: &mut impl Probe) -> Vec<usize> {
        let now = Instant::now();
        let mut over = Vec::new();
        for active in &mut self.active {
            let Active { phase, began, watch, next, pause, paused } = active;
            match (suspended, watch.is_paused()) {
                (true, false) => {
                    let from = *pause.insert(monotonic());
                    watch.pause(from, probe.poll());
                }
                (false, true) => {
                    let to = monotonic();
                    paused.extend(pause.take().map(|from| (from, to)));
                    watch.go_on(to, probe.poll());
                    *next = now + watch.interval().to_duration();
                }
                (false, false) if *next <= now => {
                    *next = now + watch.interval().to_duration();
                    let (at, began_polling) = (monotonic(), Instant::now());
                    let poll = probe.poll();
                    *next += (began_polling.elapsed() * POLLS_SHARE).saturating_sub(watch.interval().to_duration());
                    if let Some(result) = watch.poll(at, poll) {
                        let paused = Suspensions::new(std::mem::take(paused));
                        self.over.insert(*phase, Settled { began: *began, result, paused });
                        over.push(*phase);
                    }
                }
                _ => {}
            }
        }
        self.active.retain(|active| !over.contains(&active.phase));
        over
    }
}

impl Settled {
    /// A time of the watch, converted to one from the phase's begin, without the suspensions of the program.
    pub fn from_begin(&self, time: &Reading<Nanos>, began: Nanos, suspended: &Suspensions) -> Reading<Nanos> {
        // The watch began a moment after the phase, which counts as activity; and it notices begin and end of a
        // suspension later than the suspended thread does.
        time.clone().map(|time| {
            let last = self.paused.instant(self.began + time);
            last.since(began).since(suspended.between(began, last))
        })
    }
}

/// Why a phase whose program ended before it was quiet has no time.
pub fn ended_first(spec: &SettleSpec) -> Why {
    Why::Failed(format!("the program ended before it had been quiet for {}", spec.quiet).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::units::{Bytes, Fraction};

    /// A tree that has used so much CPU time.
    struct Tree(Nanos);

    impl Probe for Tree {
        fn poll(&mut self) -> Activity {
            let nothing = || Reading::Measured(Bytes::default());
            let (cpu, roles) = (Reading::Measured(self.0), BTreeMap::new());
            Activity {
                cpu,
                runnable: std::collections::BTreeMap::new(),
                roles,
                written: nothing(),
                store: nothing(),
                unwritten: nothing(),
            }
        }
    }

    fn spec(quiet: Nanos, within: Nanos) -> SettleSpec {
        SettleSpec { quiet, within, cpu: Fraction::default(), bytes: Bytes::default(), ..SettleSpec::default() }
    }

    fn wait(settling: &Settling) {
        std::thread::sleep(settling.next().unwrap().saturating_duration_since(Instant::now()));
    }

    #[test]
    fn a_quiet_tree_ends_its_phase_and_a_busy_one_at_the_cap() {
        let mut settling = Settling::default();
        let mut tree = Tree(Nanos::ZERO);
        settling.begin(3, spec(Nanos::from_nanos(1), Nanos::from_secs(600)), (monotonic(), tree.poll()));
        assert_eq!(settling.due(false, &mut tree), [0; 0], "no poll is due yet");
        wait(&settling);
        assert_eq!(settling.due(false, &mut tree), [3]);
        assert!(settling.over[&3].result.settled && settling.next().is_none());
        settling.begin(1, spec(Nanos::from_secs(600), Nanos::from_nanos(1)), (monotonic(), tree.poll()));
        wait(&settling);
        tree.0 = Nanos::from_secs(1);
        assert_eq!(settling.due(false, &mut tree), [1]);
        let found = &settling.over[&1];
        assert!(!found.result.settled && matches!(found.result.time, Reading::Missing(Why::NotSettled(_))));
    }

    #[test]
    fn settling_pauses_during_suspensions() {
        let mut settling = Settling::default();
        let mut tree = Tree(Nanos::ZERO);
        settling.begin(0, spec(Nanos::from_nanos(1), Nanos::from_secs(600)), (monotonic(), tree.poll()));
        wait(&settling);
        assert_eq!(settling.due(true, &mut tree), [0; 0]);
        assert_eq!((settling.next(), settling.due(true, &mut tree)), (None, vec![]));
        tree.0 = Nanos::from_secs(5);
        assert_eq!(settling.due(false, &mut tree), [0; 0], "it continues with a poll of its own");
        wait(&settling);
        assert_eq!(settling.due(false, &mut tree), [0]);
        assert_eq!(settling.over[&0].result.cpu, Reading::Measured(Nanos::ZERO), "a collection is the hold's");
    }

    fn settled(began: u64, paused: Vec<(Nanos, Nanos)>) -> Settled {
        let ms = Nanos::from_millis;
        let result = SettleResult {
            settled: true,
            time: Reading::Measured(Nanos::ZERO),
            signs: BTreeMap::new(),
            roles: BTreeMap::new(),
            watched: ms(900),
            step: ms(25),
            cpu: Reading::Measured(Nanos::ZERO),
            written: Reading::Missing(Why::NotApplicable),
            blind: vec![],
        };
        Settled { began: ms(began), result, paused: Suspensions::new(paused) }
    }

    #[test]
    fn the_time_counts_from_the_phases_begin() {
        let ms = Nanos::from_millis;
        let time = |time| settled(105, vec![]).from_begin(&time, ms(100), &Suspensions::default());
        assert_eq!(time(Reading::Measured(ms(300))), Reading::Measured(ms(305)));
        let cap = Reading::Missing(Why::NotSettled("within 900 ms".into()));
        assert_eq!(time(cap.clone()), cap);
        let why = ended_first(&spec(ms(500), ms(900)));
        assert!(why.to_string().contains("ended before it had been quiet"), "{why}");
    }

    /// The program is suspended where the phase begins, before the watch: longer than the watch notices.
    #[test]
    fn settle_time_excludes_suspensions() {
        let ms = Nanos::from_millis;
        let found = |time: u64| {
            let suspended = Suspensions::new(vec![(ms(100), ms(1_000))]);
            settled(400, vec![(ms(420), ms(1_010))]).from_begin(&Reading::Measured(ms(time)), ms(100), &suspended)
        };
        assert_eq!(found(0), Reading::Measured(Nanos::ZERO), "it did nothing after its begin");
        assert_eq!(found(20), Reading::Measured(Nanos::ZERO), "the end of the hold");
        assert_eq!(found(220), Reading::Measured(ms(210)), "200 ms of the watch, and 10 before it went on");
    }
}
