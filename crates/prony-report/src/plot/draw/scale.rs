//! Maps values to pixels, and chooses the tick marks of an axis.

use crate::plot::chart::Scale as Spans;

/// An axis: a domain of values on a range of pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// Whether it is logarithmic; then the domain lies above zero.
    pub(super) log: bool,
    /// Least and greatest value.
    pub(super) domain: (f64, f64),
}

impl Scale {
    /// An axis for these values; with `room` for a line of text at its end where it is logarithmic.
    pub(super) fn of(spans: &Spans, values: &[f64], room: bool) -> Self {
        let log = *spans == Spans::Log;
        let known = || values.iter().copied().filter(|v| v.is_finite() && (!log || *v > 0.0));
        let low = known().reduce(f64::min).unwrap_or(0.5);
        let high = known().reduce(f64::max).unwrap_or(2.0);
        match spans {
            Spans::Amount | Spans::Lanes { .. } => Self::linear(low.min(0.0), high * 1.05),
            Spans::Time | Spans::Times { .. } => Self::linear(low.min(0.0), high),
            Spans::Between { low, high } => Self { log: true, domain: (*low, *high) },
            Spans::Log => Self::log(low, if room { high * (high / low).max(2.0).powf(0.15) } else { high }),
        }
    }

    /// A linear axis.
    fn linear(low: f64, high: f64) -> Self {
        Self { log: false, domain: (low, if high > low { high } else { low + 1.0 }) }
    }

    /// A logarithmic axis, a little wider than the values.
    fn log(low: f64, high: f64) -> Self {
        let pad = (high / low).powf(0.04).max(1.02);
        Self { log: true, domain: (low / pad, high * pad) }
    }

    /// Where a value lies between the ends, from 0 to 1.
    pub(super) fn share(self, value: f64) -> f64 {
        let (low, high) = self.domain;
        if self.log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) }
    }

    /// At most about `most` round values.
    pub(super) fn ticks(self, most: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        if self.log && high / low >= 2.2 { log_ticks(low, high, most) } else { linear_ticks(low, high, most) }
    }
}

const SETS: [&[f64]; 5] = [
    &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 3.0],
    &[1.0],
];

fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    for set in SETS {
        let found = within(set, low, high);
        if found.len() <= most && found.len() >= most.min(3) {
            return found;
        }
    }
    let decades = within(&[1.0], low, high);
    if decades.len() <= most {
        return linear_ticks(low, high, most);
    }
    decades.iter().copied().step_by(decades.len().div_ceil(most.max(1))).collect()
}

fn within(set: &[f64], low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = decades.flat_map(|decade| set.iter().map(move |factor| factor * 10f64.powi(decade)));
    all.filter(|value| (low..=high).contains(value)).collect()
}

fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let power = 10f64.powi(((high - low) / most.max(1) as f64).log10().floor() as i32);
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0].map(|n| n * power);
    let count = |step: f64| (high / step).floor() - (low / step).ceil() + 1.0;
    let Some(step) = steps.into_iter().find(|step| count(*step) <= most as f64) else { return Vec::new() };
    let first = (low / step).ceil();
    (0..count(step) as usize).map(|i| (first + i as f64) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_not_too_many() {
        assert_eq!(Scale { log: true, domain: (0.15, 1.6) }.ticks(12).len(), 11);
        assert_eq!(Scale { log: true, domain: (1.0, 1e9) }.ticks(5), [1.0, 1e2, 1e4, 1e6, 1e8]);
        assert_eq!(Scale { log: true, domain: (0.9, 110.0) }.ticks(5), [1.0, 3.0, 10.0, 30.0, 100.0]);
        let narrow = Scale { log: true, domain: (0.97, 1.04) }.ticks(5);
        assert!(narrow.len() >= 3 && narrow.iter().any(|t| (t - 1.0).abs() < 1e-9), "{narrow:?}");
        assert_eq!(Scale::linear(0.0, 10.0).ticks(5), [0.0, 2.5, 5.0, 7.5, 10.0]);
        assert_eq!(Scale::linear(0.0, 0.0).domain, (0.0, 1.0));
    }

    #[test]
    fn shares_run_from_end_to_end() {
        let log = Scale { log: true, domain: (1.0, 100.0) };
        assert!((log.share(10.0) - 0.5).abs() < 1e-12);
        assert!((Scale::linear(2.0, 4.0).share(3.0) - 0.5).abs() < 1e-12);
        assert!(Scale::log(5.0, 5.0).share(5.0).is_finite());
    }
}
