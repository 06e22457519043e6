//! Recorded noise, and the arms that are made of it.

use serde::Deserialize;

/// Runs on either side that make up the local level.
const NEIGHBOURS: usize = 25;

/// Pairs of runs nearer than this are taken as of one block when the median ratio is set to 1.
const NEAR: usize = 20;

#[derive(Deserialize)]
struct File {
    ms: Vec<f64>,
    cpu: Vec<f64>,
}

/// A series of consecutive runs, in logarithms: the slowly moving level and each run's distance from it.
pub struct Noise {
    /// Its name in the tables.
    pub name: &'static str,
    level: Vec<f64>,
    rest: Vec<f64>,
}

impl Noise {
    /// The recorded series: wall time of a CPU-bound command and of a SQLite script, CPU time of the former.
    ///
    /// # Panics
    /// Where the files of `bench/data` are not what they should be.
    pub fn recorded() -> Vec<Self> {
        let read = |text: &str| serde_json::from_str::<File>(text).expect("bench/data holds two series a file");
        let cpu = read(include_str!("../../data/aa_cpu.json"));
        let sql = read(include_str!("../../data/aa_sql.json"));
        vec![Self::new("cpu, wall", &cpu.ms), Self::new("cpu, CPU time", &cpu.cpu), Self::new("sql, wall", &sql.ms)]
    }

    /// From values above zero in the order of time.
    pub fn new(name: &'static str, values: &[f64]) -> Self {
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        let around = |t: usize| &logs[t.saturating_sub(NEIGHBOURS)..(t + NEIGHBOURS + 1).min(logs.len())];
        let level: Vec<f64> = (0..logs.len()).map(|t| median(around(t))).collect();
        let rest = logs.iter().zip(&level).map(|(x, l)| x - l).collect();
        Self { name, level, rest }
    }

    /// How many runs.
    pub fn runs(&self) -> usize {
        self.rest.len()
    }

    /// Run `t` as an arm would have seen it: ln of the value.
    pub fn seen(&self, t: usize, arm: Arm) -> f64 {
        self.level[t] + arm.bend(self.rest[t])
    }

    /// The arm moved so that its median over the recording is the level's.
    pub fn centred(&self, arm: Arm) -> Arm {
        let values: Vec<f64> = self.rest.iter().map(|e| arm.bend(*e)).collect();
        Arm { shift: arm.shift - median(&values), ..arm }
    }

    /// The variant moved so that the median of its log-ratio to the baseline, over near runs, is nought.
    pub fn paired(&self, baseline: Arm, variant: Arm) -> Arm {
        let gaps = (0..self.runs()).flat_map(|t| (1..=NEAR).map(move |d| (t, d)));
        let gaps = gaps.filter_map(|(t, d)| {
            let other = self.rest.get(t + d)?;
            let forth = variant.bend(self.rest[t]) - baseline.bend(*other);
            let back = variant.bend(*other) - baseline.bend(self.rest[t]);
            Some([forth, back])
        });
        let gaps: Vec<f64> = gaps.flatten().collect();
        Arm { shift: variant.shift - median(&gaps), ..variant }
    }
}

/// How an arm bends the recorded noise: `scale` times it, turned over where that is negative, and `shift`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arm {
    /// Spread, as a multiple of the recorded; negative turns the skew round.
    pub scale: f64,
    /// Added to the logarithm.
    pub shift: f64,
}

impl Arm {
    /// As recorded.
    pub const PLAIN: Self = Self { scale: 1.0, shift: 0.0 };

    /// So many times the recorded spread.
    pub const fn spread(scale: f64) -> Self {
        Self { scale, shift: 0.0 }
    }

    /// Slower by a share: 0.05 is 5 %.
    pub fn slower(self, share: f64) -> Self {
        Self { shift: self.shift + share.ln_1p(), ..self }
    }

    fn bend(self, rest: f64) -> f64 {
        self.scale * rest + self.shift
    }
}

/// The middle of some values, which are not empty.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    0.5 * (sorted[(n - 1) / 2] + sorted[n / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_are_all_there_and_as_noisy_as_described() {
        let all = Noise::recorded();
        assert_eq!(all.iter().map(Noise::runs).collect::<Vec<_>>(), [3942, 3942, 1217]);
        let spread = |noise: &Noise| median(&noise.rest.iter().map(|e| e.abs()).collect::<Vec<_>>());
        assert!(spread(&all[1]) < spread(&all[0]), "CPU time is quieter than wall time");
    }

    #[test]
    fn arms_are_centred_as_asked() {
        for noise in Noise::recorded() {
            let arm = noise.centred(Arm::spread(-3.0));
            let values: Vec<f64> = noise.rest.iter().map(|e| arm.bend(*e)).collect();
            assert!(median(&values).abs() < 1e-9);
            let same = noise.paired(Arm::PLAIN, Arm::PLAIN);
            assert!(same.shift.abs() < 1e-9, "equal arms need no shift");
            let moved = noise.paired(Arm::PLAIN, Arm::PLAIN.slower(0.5));
            assert!(moved.shift.abs() < 1e-9, "a shift is taken out again");
        }
    }
}
