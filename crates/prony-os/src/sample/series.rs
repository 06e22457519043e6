//! Stores the samples of a trial in bounded memory: where there are too many, the resolution of all series is halved.

use std::collections::BTreeMap;

use prony_model::record::{ProcessSample, ProcessSeries};

/// One sample and the round it was taken in; snapshots have none and are never thinned out.
#[derive(Clone, Copy, Debug)]
struct Entry {
    round: Option<u64>,
    sample: ProcessSample,
}

#[derive(Clone, Debug, Default)]
struct Track {
    pid: u32,
    role: String,
    command: String,
    entries: Vec<Entry>,
    /// How many of them are of rounds: those of snapshots cannot be dropped.
    rounds: usize,
}

/// The series of all processes. When one of them outgrows the cap, every second round is dropped
/// from all, so that the instants of different processes stay the same and can be summed.
#[derive(Debug)]
pub(crate) struct Store {
    cap: usize,
    stride: u64,
    tracks: Vec<Track>,
    /// The track of each live process: a pid may be reused.
    live: BTreeMap<u32, usize>,
}

impl Store {
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap: cap.max(2), stride: 1, tracks: Vec::new(), live: BTreeMap::new() }
    }

    /// Only every n-th round is stored.
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// Adds a sample of round `round`, or of a snapshot.
    pub(crate) fn push(&mut self, who: (u32, &str, &str), round: Option<u64>, sample: ProcessSample) {
        if round.is_some_and(|round| round % self.stride != 0) {
            return;
        }
        let (pid, role, command) = who;
        let at = *self.live.entry(pid).or_insert_with(|| {
            self.tracks.push(Track { pid, role: role.to_owned(), ..Track::default() });
            self.tracks.len() - 1
        });
        let track = &mut self.tracks[at];
        if track.command != command {
            command.clone_into(&mut track.command);
        }
        track.entries.push(Entry { round, sample });
        track.rounds += usize::from(round.is_some());
        if track.rounds > self.cap {
            self.halve();
        }
    }

    /// The process has ended; its pid may be reused by another.
    pub(crate) fn ended(&mut self, pid: u32) {
        self.live.remove(&pid);
    }

    fn halve(&mut self) {
        self.stride *= 2;
        let stride = self.stride;
        for track in &mut self.tracks {
            track.entries.retain(|entry| entry.round.is_none_or(|round| round % stride == 0));
            track.rounds = track.entries.iter().filter(|entry| entry.round.is_some()).count();
        }
    }

    pub(crate) fn into_series(self) -> Vec<ProcessSeries> {
        let series = |track: Track| ProcessSeries {
            pid: track.pid,
            role: track.role,
            command: track.command,
            samples: track.entries.into_iter().map(|entry| entry.sample).collect(),
        };
        self.tracks.into_iter().map(series).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::units::Nanos;

    fn at(n: u64) -> ProcessSample {
        ProcessSample { at: Nanos::from_nanos(n), ..ProcessSample::default() }
    }

    fn instants(series: &ProcessSeries) -> Vec<u64> {
        series.samples.iter().map(|sample| sample.at.as_nanos()).collect()
    }

    #[test]
    fn long_series_halves_for_all_processes_and_keeps_its_ends() {
        let mut store = Store::new(8);
        for round in 0..20 {
            store.push((1, "worker", "a"), Some(round), at(round * 10));
            if round >= 3 {
                store.push((2, "worker", "b"), Some(round), at(round * 10));
            }
            if round == 5 {
                store.push((1, "worker", "a"), None, at(55));
            }
        }
        assert_eq!(store.stride(), 4);
        let series = store.into_series();
        assert_eq!(instants(&series[0]), [0, 40, 55, 80, 120, 160]);
        assert_eq!(instants(&series[1]), [40, 80, 120, 160]);
    }

    #[test]
    fn a_pid_given_out_again_is_another_process() {
        let mut store = Store::new(100);
        store.push((7, "worker", "held"), Some(0), at(0));
        store.push((7, "worker", "store"), Some(1), at(1));
        store.ended(7);
        store.push((7, "worker", "sh"), Some(2), at(2));
        let series = store.into_series();
        assert_eq!(series.len(), 2);
        assert_eq!((series[0].command.as_str(), series[1].command.as_str()), ("store", "sh"));
    }

    #[test]
    fn snapshots_cost_no_resolution() {
        let mut store = Store::new(2);
        for n in 0..40 {
            store.push((1, "worker", "a"), None, at(n));
        }
        assert_eq!(store.stride(), 1);
        assert_eq!(store.into_series()[0].samples.len(), 40);
    }
}
