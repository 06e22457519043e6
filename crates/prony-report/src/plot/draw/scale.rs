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
            Spans::Amount | Spans::Lanes { .. } => Self::linear(low.min(0.0), high.max(0.0) * 1.05),
            Spans::Time | Spans::Times { .. } => Self::linear(low.min(0.0), high.max(0.0)),
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
    let of = |least: usize| {
        SETS.iter().map(|set| within(set, low, high)).find(|found| (least..=most).contains(&found.len()))
    };
    // Two marks far apart are better than those of a linear axis, which all lie at the upper end.
    if let Some(found) = of(most.min(3)).or_else(|| of(2)) {
        return found;
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

/// Multiples of a round step, of no more digits than texts have: labels differ.
fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let power = 10f64.powi(((high - low) / most.max(1) as f64).log10().floor() as i32);
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 50.0, 100.0].map(|n| n * power);
    let count = |step: f64| (high / step).floor() - (low / step).ceil() + 1.0;
    let ticks = |step: f64| (0..count(step) as usize).map(move |i| ((low / step).ceil() + i as f64) * step);
    let fits = |step: &f64| count(*step) <= most as f64 && ticks(*step).all(has_three_digits);
    steps.into_iter().find(fits).map_or_else(Vec::new, |step| ticks(step).collect())
}

/// Whether three digits are the whole value, but for an error of its binary form.
fn has_three_digits(value: f64) -> bool {
    let last = 10f64.powf(value.abs().log10().floor() - 2.0);
    value == 0.0 || ((value / last).round() * last - value).abs() <= 1e-9 * value.abs()
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
        assert_eq!(Scale::of(&Spans::Amount, &[-10.0, -1.0], false).domain, (-10.0, 0.0), "0 is on it");
    }

    /// 10 ms to 2.6 s had 1 s and 2 s alone.
    #[test]
    fn a_wide_axis_with_few_marks_has_powers_of_ten() {
        assert_eq!(Scale { log: true, domain: (0.0101, 2.6) }.ticks(3), [0.1, 1.0]);
    }

    /// 1 GB to 1.001 GB was labelled `1 GB, 1 GB, 1.01 GB, 1.01 GB`.
    #[test]
    fn marks_of_a_narrow_axis_differ_in_three_digits() {
        for (low, most) in (0..230).flat_map(|i| [2, 3, 6, 12, 42].map(|most| (1.01f64.powi(i), most))) {
            let ticks = Scale { log: true, domain: (low, 1.0404 * low) }.ticks(most);
            let mut texts: Vec<String> = ticks.iter().map(|tick| format!("{tick:.2e}")).collect();
            assert!(!texts.is_empty() && texts.len() <= most, "{low} {most}: {ticks:?}");
            texts.dedup();
            assert_eq!(texts.len(), ticks.len(), "{low} {most}: {ticks:?}");
        }
    }

    #[test]
    fn shares_run_from_end_to_end() {
        let log = Scale { log: true, domain: (1.0, 100.0) };
        assert!((log.share(10.0) - 0.5).abs() < 1e-12);
        assert!((Scale::linear(2.0, 4.0).share(3.0) - 0.5).abs() < 1e-12);
        assert!(Scale::log(5.0, 5.0).share(5.0).is_finite());
    }
}
