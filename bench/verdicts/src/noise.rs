//! The recorded noise, and variants of equal speed whose noise has another spread or skew.

use prony_stats::simulation::{Noise, Variant};
use serde::Deserialize;

/// Pairs of runs nearer than this are taken as of one block when the median ratio is set to 1.
const NEAR: usize = 20;

#[derive(Deserialize)]
struct File {
    ms: Vec<f64>,
    cpu: Vec<f64>,
}

/// As `record` writes it.
#[derive(Deserialize)]
struct Own {
    sort_ms: Vec<f64>,
    sync_ms: Vec<f64>,
}

/// The recorded series: wall time of a CPU-bound command and of a SQLite script, CPU time of the former; and, as `record`
/// left it on a busy machine, wall time of a sort and of a write with a sync.
///
/// # Panics
/// Where the files of `bench/verdicts/data` are not what they should be.
pub fn recorded() -> Vec<Noise> {
    let read = |text: &str| serde_json::from_str::<File>(text).expect("bench/verdicts/data holds two series a file");
    let cpu = read(include_str!("../data/aa_cpu.json"));
    let sql = read(include_str!("../data/aa_sql.json"));
    let own = include_str!("../data/aa_own.json");
    let own = serde_json::from_str::<Own>(own).expect("bench/verdicts/data holds what `record` writes");
    let series = [
        ("cpu, wall", &cpu.ms),
        ("cpu, CPU time", &cpu.cpu),
        ("sql, wall", &sql.ms),
        ("own sort, wall", &own.sort_ms),
        ("own sync, wall", &own.sync_ms),
    ];
    series.map(|(name, values)| Noise::new(name, values).expect("bench/verdicts/data holds times above zero")).into()
}

/// The variant shifted so that its median over the recording is the level's.
pub fn centred(noise: &Noise, variant: Variant) -> Variant {
    let values: Vec<f64> = noise.rest().iter().map(|rest| variant.bend(*rest)).collect();
    Variant { shift: variant.shift - median(&values), ..variant }
}

/// The variant shifted so that the median of its log-ratio to the baseline, over nearby runs, is 0.
pub fn paired(noise: &Noise, baseline: Variant, variant: Variant) -> Variant {
    let rest = noise.rest();
    let gaps = (0..rest.len()).flat_map(|t| (1..=NEAR).map(move |d| (t, d)));
    let gaps = gaps.filter_map(|(t, d)| {
        let other = rest.get(t + d)?;
        let forth = variant.bend(rest[t]) - baseline.bend(*other);
        let back = variant.bend(*other) - baseline.bend(rest[t]);
        Some([forth, back])
    });
    let gaps: Vec<f64> = gaps.flatten().collect();
    Variant { shift: variant.shift - median(&gaps), ..variant }
}

/// The middle of some values.
///
/// # Panics
/// Where there are none.
pub fn median(values: &[f64]) -> f64 {
    prony_stats::summary::median(values).expect("there are values")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_are_all_there_and_as_noisy_as_described() {
        let all = recorded();
        assert_eq!(all.iter().map(Noise::runs).collect::<Vec<_>>(), [3942, 3942, 1217, 8000, 8000]);
        let spread = |noise: &Noise| median(&noise.rest().iter().map(|e| e.abs()).collect::<Vec<_>>());
        assert!(spread(&all[1]) < spread(&all[0]), "CPU time is quieter than wall time");
    }

    #[test]
    fn variants_are_centred_as_requested() {
        for noise in recorded() {
            let variant = centred(&noise, Variant::spread(-3.0));
            let values: Vec<f64> = noise.rest().iter().map(|e| variant.bend(*e)).collect();
            assert!(median(&values).abs() < 1e-9);
            let same = paired(&noise, Variant::PLAIN, Variant::PLAIN);
            assert!(same.shift.abs() < 1e-9, "equal variants need no shift");
            let moved = paired(&noise, Variant::PLAIN, Variant::PLAIN.slower(0.5));
            assert!(moved.shift.abs() < 1e-9, "a shift is taken out again");
        }
    }
}
