//! Stores the samples of a trial in bounded memory: where there are too many, the resolution of all series is halved. Rounds that have
//! the largest or the smallest sum of a gauge stay, of each process, of each role and of all: the largest sample of a trial of 20 minutes
//! was dropped.

use std::collections::{BTreeMap, BTreeSet};

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
    /// How many of them are of rounds that the stride keeps.
    on_stride: usize,
    /// How many are of other rounds.
    between: usize,
    /// How many of those were left when the track was last thinned out.
    left: usize,
    extremes: Extremes,
}

/// What is summed over processes: resident memory, its kinds, address space, swap, threads, processes.
type Sums = [u64; 8];

fn gauges(sample: &ProcessSample) -> Sums {
    let [rss, anon, file, shared] =
        [sample.rss(), sample.anon, sample.file, sample.shared].map(|bytes| bytes.as_bytes());
    [rss, anon, file, shared, sample.vsz.as_bytes(), sample.swap.as_bytes(), u64::from(sample.threads), 1]
}

/// The largest and the smallest of each sum since the last snapshot, with their rounds.
#[derive(Clone, Debug, Default)]
struct Extremes(Option<[[(u64, u64); 2]; 8]>);

impl Extremes {
    fn add(&mut self, round: u64, sums: Sums) {
        let known = self.0.get_or_insert_with(|| sums.map(|sum| [(sum, round); 2]));
        for ([most, least], sum) in known.iter_mut().zip(sums) {
            if sum > most.0 {
                *most = (sum, round);
            }
            if sum < least.0 {
                *least = (sum, round);
            }
        }
    }

    fn rounds(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flatten().flatten().map(|(_, round)| *round)
    }
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
    /// The round that is being taken.
    round: Option<u64>,
    /// Its sums so far, of each role, and of all under `""`.
    sums: BTreeMap<String, Sums>,
    extremes: BTreeMap<String, Extremes>,
    /// Rounds with the extremes between earlier snapshots.
    extreme_rounds: BTreeSet<u64>,
}

impl Store {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            cap: cap.max(2),
            stride: 1,
            tracks: Vec::new(),
            live: BTreeMap::new(),
            round: None,
            sums: BTreeMap::new(),
            extremes: BTreeMap::new(),
            extreme_rounds: BTreeSet::new(),
        }
    }

    /// Only every n-th round is stored, and those with extremes.
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// Adds a sample of round `round`, or of a snapshot.
    pub(crate) fn push(&mut self, who: (u32, &str, &str), round: Option<u64>, sample: ProcessSample) {
        if round != self.round {
            self.end_round(round);
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
        let Some(round) = round else { return };
        let own = gauges(&sample);
        track.extremes.add(round, own);
        if round.is_multiple_of(self.stride) {
            track.on_stride += 1;
        } else {
            track.between += 1;
        }
        let (is_long, is_dense) = (track.on_stride > self.cap, track.between > self.cap + track.left);
        for scope in ["", role] {
            // Not `entry`, which needs a copy of the name each time.
            match self.sums.get_mut(scope) {
                Some(sums) => sums.iter_mut().zip(own).for_each(|(sum, own)| *sum = sum.saturating_add(own)),
                None => {
                    self.sums.insert(scope.to_owned(), own);
                }
            }
        }
        if is_long {
            self.stride *= 2;
        }
        if is_long || is_dense {
            self.thin_out();
        }
    }

    /// The process has ended; its pid may be reused by another.
    pub(crate) fn ended(&mut self, pid: u32) {
        self.live.remove(&pid);
    }

    /// All samples of the round are there, and those of the next, or of a snapshot, follow.
    fn end_round(&mut self, next: Option<u64>) {
        let sums = std::mem::take(&mut self.sums);
        if let Some(round) = std::mem::replace(&mut self.round, next) {
            sums.into_iter().for_each(|(scope, sums)| self.extremes.entry(scope).or_default().add(round, sums));
        }
        if next.is_none() {
            let of_scopes = std::mem::take(&mut self.extremes).into_values();
            let of_tracks = self.tracks.iter_mut().map(|track| std::mem::take(&mut track.extremes));
            self.extreme_rounds
                .extend(of_scopes.chain(of_tracks).flat_map(|extremes| extremes.rounds().collect::<Vec<_>>()));
        }
    }

    /// Drops the samples of rounds that neither the stride nor an extreme keeps. The rounds beside one with an extreme stay too:
    /// otherwise a mean over time would hold the extreme as long as half of a stride.
    fn thin_out(&mut self) {
        let extremes = self.extremes.values().chain(self.tracks.iter().map(|track| &track.extremes));
        let stay: BTreeSet<u64> =
            extremes.flat_map(Extremes::rounds).chain(self.extreme_rounds.iter().copied()).collect();
        let stay: BTreeSet<u64> =
            stay.iter().flat_map(|round| round.saturating_sub(1)..=round.saturating_add(1)).chain(self.round).collect();
        let stride = self.stride;
        let is_on_stride = |round: &u64| round.is_multiple_of(stride);
        for track in &mut self.tracks {
            track.entries.retain(|entry| entry.round.is_none_or(|round| is_on_stride(&round) || stay.contains(&round)));
            let rounds = || track.entries.iter().filter_map(|entry| entry.round);
            track.on_stride = rounds().filter(is_on_stride).count();
            track.between = rounds().count() - track.on_stride;
            track.left = track.between;
        }
    }

    pub(crate) fn into_series(mut self) -> Vec<ProcessSeries> {
        self.end_round(None);
        self.thin_out();
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
    use prony_model::units::{Bytes, Nanos};

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
            if round >= 4 {
                store.push((2, "worker", "b"), Some(round), at(round * 10));
            }
            if round == 7 {
                store.push((1, "worker", "a"), None, at(75));
            }
        }
        assert_eq!(store.stride(), 4);
        let series = store.into_series();
        // Sums are the largest from 40 on, and begin anew after the snapshot at 75: these rounds stay, with those beside them.
        assert_eq!(instants(&series[0]), [0, 10, 30, 40, 50, 70, 75, 80, 90, 120, 160]);
        assert_eq!(instants(&series[1]), [40, 50, 70, 80, 90, 120, 160]);
    }

    #[test]
    fn a_long_series_keeps_the_extremes_of_each_process_and_of_their_sum() {
        let peaks = [(1, 13, 900), (2, 101, 700), (1, 431, 500), (2, 431, 550)];
        let least = |pid: u32, round: u64| pid == 2 && round == 997;
        let mut store = Store::new(16);
        for round in 0..1_001 {
            for pid in [1, 2] {
                let peak = peaks.iter().find(|peak| (peak.0, peak.1) == (pid, round)).map_or(100, |peak| peak.2);
                let anon = Bytes::from_bytes(if least(pid, round) { 1 } else { peak });
                store.push((pid, "worker", "a"), Some(round), ProcessSample { anon, ..at(round) });
            }
            if round == 500 {
                [1, 2].iter().for_each(|pid| store.push((*pid, "worker", "a"), None, at(5_000)));
            }
        }
        let stride = store.stride();
        assert!(stride >= 32, "{stride}");
        let series = store.into_series();
        let rounds: Vec<u64> = instants(&series[0]).into_iter().filter(|at| *at != 5_000).collect();
        let between: Vec<u64> = rounds.iter().copied().filter(|round| round % stride != 0).collect();
        // And the first after a snapshot; each with the rounds beside it.
        let extremes = [0, 13, 101, 431, 501, 997];
        let beside: Vec<u64> = extremes.iter().flat_map(|round: &u64| round.saturating_sub(1)..=round + 1).collect();
        assert_eq!(between, beside.into_iter().filter(|round| round % stride != 0).collect::<Vec<_>>());
        assert_eq!(instants(&series[0]), instants(&series[1]), "their sums are of the same instants");
        assert!(rounds.len() <= 16 + between.len());
    }

    /// One round of 1 GB was in the mean for as long as 4 rounds of 100 MB.
    #[test]
    fn extreme_that_stays_has_its_neighbours_beside_it() {
        let mut store = Store::new(8);
        let anon = |round| Bytes::from_mib(if round == 37 { 1_000 } else { 100 });
        for round in 0..100 {
            store.push((1, "worker", "a"), Some(round), ProcessSample { anon: anon(round), ..at(round) });
        }
        assert!(store.stride() >= 8);
        let samples = store.into_series().remove(0).samples;
        let beside = samples.windows(3).find(|three| three[1].anon == Bytes::from_mib(1_000)).unwrap();
        assert_eq!([beside[0], beside[2]].map(|sample| sample.at.as_nanos()), [36, 38]);
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
