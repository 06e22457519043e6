//! Whole campaigns of prony on recorded noise: blocks, looks, families.

use prony_core::metric::Better;
use prony_core::stats::{BlockValues, Comparison, Family, Looks, Observation, Pairing, compare_family, settled};

use crate::noise::{Arm, Noise};
use crate::rng::Rng;

/// The margin and family-wise error of every campaign: prony's defaults.
pub const MARGIN: f64 = 0.03;
/// The promised family-wise error.
pub const ALPHA: f64 = 0.05;

/// What a campaign compares.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The baseline.
    pub baseline: Arm,
    /// One for each comparison.
    pub variants: Vec<Arm>,
    /// ln by which everything has become slower at the campaign's end.
    pub drift: f64,
}

impl Setting {
    /// A family of equal comparisons without drift.
    pub fn of(baseline: Arm, variant: Arm, size: usize) -> Self {
        Self { baseline, variants: vec![variant; size], drift: 0.0 }
    }
}

/// A place in the recording from which a campaign fits in.
pub fn start(noise: &Noise, setting: &Setting, blocks: u32, rng: &mut Rng) -> usize {
    rng.below(noise.runs() - blocks as usize * (setting.variants.len() + 2))
}

/// The ln values of a campaign on the runs from `start` on: `[block][arm]`, arms 0 and 1 being the two labels of the
/// baseline.
pub fn draw(noise: &Noise, setting: &Setting, blocks: u32, start: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let width = setting.variants.len() + 2;
    let trials = blocks as usize * width;
    let arm = |k: usize| if k < 2 { setting.baseline } else { setting.variants[k - 2] };
    let block = |b: usize, rng: &mut Rng| {
        let mut values = vec![0.0; width];
        for (place, k) in rng.order(width).into_iter().enumerate() {
            let t = b * width + place;
            values[k] = noise.seen(start + t, arm(k)) + setting.drift * t as f64 / trials as f64;
        }
        values
    };
    (0..blocks as usize).map(|b| block(b, rng)).collect()
}

/// The family that prony compares after some blocks of a campaign.
pub fn family(values: &[Vec<f64>], looks: &Looks) -> Family {
    let of = |ln: f64| Observation::Value(ln.exp());
    let pairing = |k: usize| Pairing {
        label: String::new(),
        better: Better::Lower,
        looks: looks.clone(),
        blocks: values
            .iter()
            .map(|v| BlockValues { baseline: of(v[0]), baseline2: Some(of(v[1])), variant: of(v[k]) })
            .collect(),
        refused: None,
    };
    let arms = values.first().map_or(0, Vec::len);
    Family { alpha: ALPHA, margin: MARGIN, members: (2..arms).map(pairing).collect() }
}

/// Runs a campaign: at each look, stop where every comparison is settled.
pub fn run(noise: &Noise, setting: &Setting, looks: &Looks, rng: &mut Rng) -> Vec<Comparison> {
    let most = looks.at().last().copied().unwrap_or(0);
    let start = start(noise, setting, most, rng);
    let values = draw(noise, setting, most, start, rng);
    let mut found = Vec::new();
    for at in looks.at() {
        found = compare_family(&family(&values[..*at as usize], looks));
        if settled(&found) {
            break;
        }
    }
    found
}
