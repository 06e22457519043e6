//! Detects when a store or program is quiet: after its answer it may still flush, merge and collect garbage (METHOD
//! 2.6).
//!
//! The decision is a pure function of the polls. Each sign of activity is judged separately. CPU time, bytes written
//! and the size of the store are quiet if their change, averaged over the window, stays under the threshold; dirty and
//! writeback pages, if they stay under it at every poll. Time in which a thread is runnable counts like CPU time: a
//! process that gets no processor, because others use them or its limit is used up, is not quiet.
//!
//! The activity of processes and the later work of the kernel for them are two metrics. On Linux the flusher writes a
//! page about 30 s after it became dirty (`vm.dirty_expire_centisecs`), or earlier where another page's turn has come:
//! one time for both reads 1.4 s or 29 s for the same store. The size of the store counts among what processes do: ext4
//! and XFS count blocks when a page becomes dirty. File systems that allocate when they write (ZFS, Btrfs with
//! compression) change it later.

use std::collections::BTreeMap;
use std::ops::Add;
use std::path::PathBuf;

use prony_model::reading::{Reading, Why};
pub use prony_model::record::SettleResult;
use prony_model::spec::{SettleSpec, Sign, Signs, not_settled};
use prony_model::units::{Bytes, Nanos};

use crate::cache::{self, DiskUsage};
use crate::clock::monotonic;
use crate::sample::Sampler;

/// The state at one poll. Cumulative, except for the levels `store` and `unwritten`.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// CPU time of the tree.
    pub cpu: Reading<Nanos>,
    /// For how long threads of each role, and of the whole tree under `""`, were runnable from one poll to the next.
    pub runnable: BTreeMap<String, Nanos>,
    /// CPU time of each role in it.
    pub roles: BTreeMap<String, Reading<Nanos>>,
    /// Bytes the tree handed to the block layer.
    pub written: Reading<Bytes>,
    /// Blocks allocated to the store.
    pub store: Reading<Bytes>,
    /// Dirty and writeback pages of the store's files.
    pub unwritten: Reading<Bytes>,
}

impl Activity {
    /// The same with the size and the pages of the store as they were read right after this poll: a sign that the first poll
    /// lacks would count as quiet in all of the first window.
    #[must_use]
    pub fn with_store(self, disk: Reading<DiskUsage>, unwritten: Reading<Bytes>) -> Self {
        Self { store: disk.map(|usage| usage.blocks), unwritten, ..self }
    }

    /// Its counters combined with those of another, which has none of roles that it does not name. Levels stay.
    fn combined(mut self, other: &Self, nanos: fn(Nanos, Nanos) -> Nanos, bytes: fn(Bytes, Bytes) -> Bytes) -> Self {
        self.runnable.iter_mut().for_each(|(scope, time)| *time = nanos(*time, runnable(other, scope)));
        self.roles.iter_mut().for_each(|(role, cpu)| *cpu = cpu.clone().and(cpu_of(other, role), nanos));
        let (cpu, written) = (other.cpu.clone(), other.written.clone());
        Self { cpu: self.cpu.and(cpu, nanos), written: self.written.and(written, bytes), ..self }
    }
}

/// The source of polls: a tree and its store, or a script in tests.
pub trait Probe {
    /// The state now.
    fn poll(&mut self) -> Activity;
}

/// A sampled tree and the directory of its store.
#[derive(Debug)]
pub struct TreeProbe<'a> {
    /// Samples the tree.
    pub sampler: &'a Sampler,
    /// The store's path; `None` for programs without one, of which only writes and CPU time are watched.
    pub store: Option<PathBuf>,
    /// How long its polls of the store took so far.
    pub store_took: Nanos,
}

impl<'a> TreeProbe<'a> {
    /// Reads a sampled tree and its store, where it has one.
    pub const fn new(sampler: &'a Sampler, store: Option<PathBuf>) -> Self {
        Self { sampler, store, store_took: Nanos::ZERO }
    }
}

impl Probe for TreeProbe<'_> {
    fn poll(&mut self) -> Activity {
        let mut totals = self.sampler.glance();
        let counters = totals.remove("").unwrap_or_default();
        let runnable = self.sampler.runnable();
        let roles = totals.into_iter().map(|(role, counters)| (role, counters.on_cpu)).collect();
        let began = monotonic();
        let none = || Reading::Missing(Why::NotApplicable);
        let (store, unwritten) = self.store.as_ref().map_or((none(), none()), |directory| {
            let unwritten = cache::resident(directory).and_then(|found| found.unwritten());
            (cache::disk_usage(directory).map(|usage| usage.blocks), unwritten)
        });
        if self.store.is_some() {
            self.store_took += monotonic().since(began);
        }
        Activity { cpu: counters.on_cpu, runnable, roles, written: counters.written, store, unwritten }
    }
}

/// A watch in progress: its caller waits, and adds the polls.
#[derive(Clone, Debug)]
pub struct Watch {
    spec: SettleSpec,
    polls: Vec<Poll>,
    /// How many polls there were when all that counts was quiet.
    settled: Option<usize>,
    left_out: LeftOut,
    paused: Option<(Nanos, Activity)>,
}

/// What was used in pauses; missing once a pause could not be read, and nothing before the first.
#[derive(Clone, Debug)]
struct LeftOut {
    time: Nanos,
    used: Activity,
}

impl LeftOut {
    const fn nothing() -> Self {
        let used = Activity {
            cpu: Reading::Measured(Nanos::ZERO),
            runnable: BTreeMap::new(),
            roles: BTreeMap::new(),
            written: Reading::Measured(Bytes::from_bytes(0)),
            store: Reading::Missing(Why::NotApplicable),
            unwritten: Reading::Missing(Why::NotApplicable),
        };
        Self { time: Nanos::ZERO, used }
    }

    fn add(&mut self, from: &(Nanos, Activity), to: (Nanos, Activity)) {
        self.time += to.0.since(from.0);
        let used = to.1.combined(&from.1, Nanos::since, added);
        self.used = used.combined(&self.used, Add::add, Add::add);
    }
}

/// For how long threads of a role, or of the whole tree, were runnable until a poll.
fn runnable(poll: &Activity, scope: &str) -> Nanos {
    poll.runnable.get(scope).copied().unwrap_or_default()
}

/// CPU time of a role until a poll: one that appears later begins with nothing.
fn cpu_of(poll: &Activity, role: &str) -> Reading<Nanos> {
    poll.roles.get(role).cloned().unwrap_or(Reading::Measured(Nanos::ZERO))
}

impl Watch {
    /// Begins with the first poll.
    pub fn begin(spec: SettleSpec, now: Nanos, poll: Activity) -> Self {
        Self { spec, polls: vec![(now, poll)], settled: None, left_out: LeftOut::nothing(), paused: None }
    }

    /// From here until it continues neither time nor activity counts: the program is suspended, so that its being quiet
    /// means nothing.
    pub fn pause(&mut self, now: Nanos, poll: Activity) {
        self.paused.get_or_insert((now, poll));
    }

    /// Continues after a pause.
    pub fn go_on(&mut self, now: Nanos, poll: Activity) {
        if let Some(from) = self.paused.take() {
            self.left_out.add(&from, (now, poll));
        }
    }

    /// Whether it is paused.
    pub const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// How long to wait between polls: twenty a window limit the error of the time found to a twentieth of it, if polls
    /// take no time; a quarter of a second at most, ten milliseconds at least.
    pub fn interval(&self) -> Nanos {
        Nanos::from_nanos((self.spec.quiet.as_nanos() / 20).clamp(10_000_000, 250_000_000))
    }

    /// Adds another poll; returns the result when there is one.
    pub fn poll(&mut self, now: Nanos, poll: Activity) -> Option<SettleResult> {
        let LeftOut { time, used } = &self.left_out;
        self.polls.push((now.since(*time), poll.combined(used, Nanos::since, added)));
        decide(&self.polls, &mut self.settled, &self.spec)
    }
}

/// What is known of the process tree at an instant.
type Poll = (Nanos, Activity);

/// What is checked: a sign of the whole tree, or the CPU time of one role.
#[derive(Clone, Copy)]
enum Source<'a> {
    Sign(Sign),
    Role(&'a str),
}

/// The begin of the window that ends with the last poll; `None` while there is none.
fn window(polls: &[Poll], spec: &SettleSpec) -> Option<usize> {
    let now = polls.last()?.0;
    polls.iter().rposition(|(at, _)| now.since(*at) >= spec.quiet)
}

/// The result of the polls so far; `None` while it is too early. `settled` is how many polls there were when all signs
/// that count were quiet for the first time. Activity of processes after that, while the kernel's writes are waited
/// for, is not part of `settle.time`, which would depend on the kernel otherwise.
fn decide(polls: &[Poll], settled: &mut Option<usize>, spec: &SettleSpec) -> Option<SettleResult> {
    let ((began, first), (now, last)) = (polls.first()?, polls.last()?);
    let watched = now.since(*began);
    let window = window(polls, spec);
    let observed = |signs: Signs| signs.iter().filter(move |sign| Source::Sign(*sign).unseen(last).is_none());
    let quiet = |sign| window.is_some_and(|window| Source::Sign(sign).is_quiet(&polls[window..], spec));
    if observed(spec.of).next().is_some() && observed(spec.of).all(quiet) {
        settled.get_or_insert(polls.len());
    }
    if !(settled.is_some() && observed(spec.beside).all(quiet)) && watched < spec.within {
        return None;
    }
    let until = &polls[..settled.unwrap_or(polls.len())];
    let of_sign = |sign| Source::Sign(sign).last_active(if spec.of.contains(sign) { until } else { polls }, spec);
    let signs: BTreeMap<_, _> = Sign::ALL.into_iter().map(|sign| (sign, of_sign(sign))).collect();
    Some(SettleResult {
        settled: settled.is_some(),
        time: latest(observed(spec.of).map(|sign| signs[&sign].clone()), spec),
        roles: last.roles.keys().map(|role| (role.clone(), Source::Role(role).last_active(until, spec))).collect(),
        watched,
        step: polls.windows(2).map(|pair| pair[1].0.since(pair[0].0)).max().unwrap_or_default(),
        cpu: last.cpu.clone().and(first.cpu.clone(), Nanos::since),
        written: last.written.clone().and(first.written.clone(), added),
        blind: blind(last),
        signs,
    })
}

/// The last activity of all signs that count; missing if any sign was still active, or if no sign could be read.
fn latest(times: impl Iterator<Item = Reading<Nanos>>, spec: &SettleSpec) -> Reading<Nanos> {
    let unread = || {
        let names: Vec<_> = spec.of.iter().map(Sign::what).collect();
        Reading::failed(format!("`of` names {}, but no such activity could be read", names.join(", ")))
    };
    times.reduce(|last, time| last.and(time, Nanos::max)).unwrap_or_else(unread)
}

/// The signs that could not be read, except those that do not exist.
fn blind(poll: &Activity) -> Vec<String> {
    let named = |sign: Sign| match Source::Sign(sign).unseen(poll)? {
        Why::NotApplicable => None,
        why => Some(format!("{}: {why}", sign.what())),
    };
    Sign::ALL.into_iter().filter_map(named).collect()
}

fn added(now: Bytes, then: Bytes) -> Bytes {
    Bytes::from_bytes(now.as_bytes().saturating_sub(then.as_bytes()))
}

impl Source<'_> {
    fn what(&self) -> &str {
        match self {
            Self::Sign(sign) => sign.what(),
            Self::Role(role) => role,
        }
    }

    /// Why a poll does not have it; `None` where it does.
    fn unseen(self, poll: &Activity) -> Option<Why> {
        fn why<T>(reading: &Reading<T>) -> Option<Why> {
            match reading {
                Reading::Measured(_) => None,
                Reading::Missing(why) => Some(why.clone()),
            }
        }
        match self {
            Self::Sign(Sign::Cpu) => why(&poll.cpu),
            Self::Sign(Sign::Written) => why(&poll.written),
            Self::Sign(Sign::Disk) => why(&poll.store),
            Self::Sign(Sign::Dirty) => why(&poll.unwritten),
            Self::Role(role) => why(poll.roles.get(role).unwrap_or(&Reading::Missing(Why::NotReached))),
        }
    }

    /// Whether it was above its threshold between two polls: a counter rose faster, a level is higher at the second. A
    /// sign that is not read counts as not active.
    fn is_active(self, from: &Poll, to: &Poll, spec: &SettleSpec) -> bool {
        let seconds = to.0.since(from.0).as_secs_f64();
        let above = |amount: Reading<f64>, threshold: f64| {
            amount.measured().is_some_and(|amount| *amount > threshold * seconds)
        };
        let bytes = spec.bytes.as_bytes() as f64;
        let (from, to) = (&from.1, &to.1);
        // A thread that runs is runnable too: each is judged by itself.
        let busy = |scope: &str, to_cpu: Reading<Nanos>, from_cpu: Reading<Nanos>| {
            let cpu = to_cpu.and(from_cpu, |to, from| to.since(from).as_secs_f64());
            let runnable = runnable(to, scope).since(runnable(from, scope)).as_secs_f64();
            above(cpu, spec.cpu.get()) || above(Reading::Measured(runnable), spec.cpu.get())
        };
        match self {
            Self::Sign(Sign::Cpu) => busy("", to.cpu.clone(), from.cpu.clone()),
            Self::Role(role) => busy(role, cpu_of(to, role), cpu_of(from, role)),
            Self::Sign(Sign::Written) => {
                let added = |to, from| added(to, from).as_bytes() as f64;
                above(to.written.clone().and(from.written.clone(), added), bytes)
            }
            Self::Sign(Sign::Disk) => {
                let resized = |to: Bytes, from: Bytes| to.as_bytes().abs_diff(from.as_bytes()) as f64;
                // A store that could not be read before, since it did not exist, has grown from nothing.
                let from = match &from.store {
                    Reading::Missing(why) if *why != Why::NotApplicable => Reading::Measured(Bytes::default()),
                    read => read.clone(),
                };
                above(to.store.clone().and(from, resized), bytes)
            }
            Self::Sign(Sign::Dirty) => to.unwritten.measured().is_some_and(|level| *level > spec.bytes),
        }
    }

    /// Whether it was quiet in a window: a counter on average, a level at every poll.
    fn is_quiet(self, window: &[Poll], spec: &SettleSpec) -> bool {
        match (self, window.first(), window.last()) {
            (Self::Sign(Sign::Dirty), ..) => !window.iter().any(|poll| self.is_active(poll, poll, spec)),
            (_, Some(first), Some(last)) => !self.is_active(first, last, spec),
            _ => false,
        }
    }

    /// From the first poll to the last activity before the window that ends with the last poll, where that is quiet.
    fn last_active(self, polls: &[Poll], spec: &SettleSpec) -> Reading<Nanos> {
        let ([(began, _), ..], [.., (now, last)]) = (polls, polls) else { return Reading::Missing(Why::NotReached) };
        if let Some(why) = self.unseen(last) {
            return Reading::Missing(why);
        }
        let Some(window) = window(polls, spec).filter(|window| self.is_quiet(&polls[*window..], spec)) else {
            return Reading::Missing(not_settled(self.what(), now.since(*began), spec.within));
        };
        // Activity may reach a little into a window that is quiet on average; after a pause there it is a short burst.
        let steps: Vec<_> =
            polls.windows(2).map(|pair| (pair[1].0, self.is_active(&pair[0], &pair[1], spec))).collect();
        let before = steps[..window].iter().rev().find(|(_, active)| *active);
        let into = steps[window..].iter().take_while(|(_, active)| *active).last();
        Reading::Measured(into.or(before).map_or(Nanos::ZERO, |(at, _)| at.since(*began)))
    }
}

#[cfg(test)]
mod tests;
