//! Recorded noise, and variants derived from it.

use super::super::summary::median;

/// Runs on either side that make up the local level.
const NEIGHBOURS: usize = 25;

/// A series of consecutive runs, in logarithms: the slowly moving level and each run's distance from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// Its name in tables.
    pub name: &'static str,
    level: Vec<f64>,
    rest: Vec<f64>,
}

impl Noise {
    /// From values in the order of time, in any unit; `None` where one of them is not finite and above zero.
    pub fn new(name: &'static str, values: &[f64]) -> Option<Self> {
        if !values.iter().all(|value| value.is_finite() && *value > 0.0) {
            return None;
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let near = |t: usize| &logs[t.saturating_sub(NEIGHBOURS)..(t + NEIGHBOURS + 1).min(logs.len())];
        let level: Vec<f64> = (0..logs.len()).map(|t| median(near(t))).collect::<Option<_>>()?;
        let rest = logs.iter().zip(&level).map(|(log, level)| log - level).collect();
        Some(Self { name, level, rest })
    }

    /// How many runs.
    pub fn runs(&self) -> usize {
        self.rest.len()
    }

    /// The median of its level: the natural logarithm of a value.
    pub fn typical(&self) -> f64 {
        median(&self.level).unwrap_or_default()
    }

    /// Each run's distance from the local level: the natural logarithm of a ratio.
    pub fn rest(&self) -> &[f64] {
        &self.rest
    }

    /// Run `t` with the noise of a variant: the natural logarithm of the value.
    pub fn log_value(&self, t: usize, variant: Variant) -> f64 {
        self.level[t] + variant.bend(self.rest[t])
    }
}

/// How a variant bends the recorded noise: `scale` times it, turned over where that is negative, and `shift`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Spread, as a multiple of the recorded; negative reverses the skew.
    pub scale: f64,
    /// Added to the logarithm.
    pub shift: f64,
}

impl Variant {
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

    /// A run's distance from the level as this variant has it.
    pub fn bend(self, rest: f64) -> f64 {
        self.scale * rest + self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_variant_has_recorded_noise_and_slower_variant_a_shift() {
        let values: Vec<f64> = (0..200).map(|t| f64::from(100 + t % 7 + t / 50)).collect();
        let noise = Noise::new("x", &values).unwrap();
        assert_eq!(noise.runs(), 200);
        for (t, value) in values.iter().enumerate() {
            assert!((noise.log_value(t, Variant::PLAIN).exp() - value).abs() < 1e-9);
            assert!((noise.log_value(t, Variant::PLAIN.slower(0.25)).exp() - 1.25 * value).abs() < 1e-9);
        }
    }

    #[test]
    fn spread_is_changed_about_the_level_and_a_lasting_change_is_level() {
        let values: Vec<f64> = (0..400).map(|t| if t < 200 { 1.0 } else { 2.0 }).collect();
        let noise = Noise::new("a step", &values).unwrap();
        assert!(noise.rest().iter().filter(|rest| **rest != 0.0).count() <= 2 * NEIGHBOURS);
        assert_eq!(noise.log_value(300, Variant::spread(-3.0)), 2f64.ln());
        assert_eq!(Variant::spread(-3.0).bend(0.5), -1.5);
    }

    #[test]
    fn what_has_no_logarithm_is_no_noise() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Noise::new("x", &[1.0, wrong]), None);
        }
        assert_eq!(Noise::new("x", &[]).map(|noise| noise.runs()), Some(0));
    }
}
