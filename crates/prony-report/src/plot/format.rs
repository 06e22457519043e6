//! Formats numbers on axes and in the texts of charts: three digits and a unit.

use prony_model::number::{fitting, interval, ratio, short};
use prony_model::units::{BYTES, Step, TIME, Unit};
use serde::Serialize;

/// How the numbers of an axis are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A time in nanoseconds.
    Nanos,
    /// A time in seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Events per second.
    PerSecond,
    /// A count of things.
    Count,
    /// A ratio to the baseline.
    Times,
    /// A share in percent.
    Percent,
    /// `1 / (1 - q)` of a quantile, as its percentile.
    Percentile,
    /// A plain number.
    #[default]
    Plain,
}

impl From<Unit> for Format {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Nanos => Self::Nanos,
            Unit::Bytes => Self::Bytes,
            Unit::PerSecond => Self::PerSecond,
            Unit::Count => Self::Count,
            Unit::Ratio => Self::Plain,
        }
    }
}

impl Format {
    /// The text of a value, with a space at which no line breaks.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Nanos => scaled(value, TIME).replace('u', "\u{b5}"),
            Self::Seconds => Self::Nanos.text(value * 1e9),
            Self::Bytes => scaled(value, BYTES),
            Self::BytesPerSecond if value == 0.0 => "0".to_owned(),
            Self::BytesPerSecond => Self::Bytes.text(value) + "/s",
            Self::PerSecond => scaled(value, &[("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6)]),
            Self::Count => scaled(value, &[("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)]),
            Self::Times => times(value) + "\u{d7}",
            Self::Percent => short(value) + "\u{a0}%",
            // 99.99 of a share that is 0.9999 in binary.
            Self::Percentile => format!("{}\u{a0}%", (1e9 * (1.0 - 1.0 / value)).round() / 1e7),
            Self::Plain => short(value),
        }
    }

    /// The text of an interval; open ends are said.
    pub fn interval(self, low: Option<f64>, high: Option<f64>) -> String {
        if low.is_none() && high.is_none() {
            return "no bound".to_owned();
        }
        interval(low.map(|low| self.text(low)), high.map(|high| self.text(high)), "")
    }
}

/// A ratio in the digits of [`ratio`], which tell it from 1, without zeros at the end.
fn times(value: f64) -> String {
    let text = ratio(value);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn scaled(value: f64, units: &[Step]) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // 999.6 us would be written as 1000 us.
    let (unit, factor) = fitting(units, value.abs(), 0.9995);
    let number = short(value / factor);
    if unit.is_empty() { number } else { format!("{number}\u{a0}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_their_unit() {
        let nanos = |v| Format::Nanos.text(v);
        assert_eq!(
            [nanos(0.0), nanos(1.5e9), nanos(999_600.0), nanos(-2_500.0), nanos(250.0)],
            ["0", "1.5\u{a0}s", "1\u{a0}ms", "-2.5\u{a0}\u{b5}s", "250\u{a0}ns"]
        );
        assert_eq!(Format::BytesPerSecond.text(2.5e6), "2.5\u{a0}MB/s");
        assert_eq!(Format::Count.text(1e7), "10\u{a0}M");
        assert_eq!(Format::Count.text(500.0), "500");
        assert_eq!(Format::Times.text(0.1234), "0.123\u{d7}");
    }

    /// An interval that excludes 1 was shown as `1x to 1.03x`.
    #[test]
    fn ratios_near_one_keep_the_digits_that_differ() {
        let texts = [1.0, 1.0003, 0.9996, 1.0041, 2.0, 0.5, 12.34, 1e-10, 0.0].map(|ratio| Format::Times.text(ratio));
        let expected = ["1", "1.0003", "0.9996", "1.004", "2", "0.5", "12.3", "1.0e-10", "0"];
        assert_eq!(texts, expected.map(|number| format!("{number}\u{d7}")));
        assert_eq!(Format::Times.text(1.0 + 1e-16), "1\u{d7}");
    }

    #[test]
    fn percentiles_are_named() {
        let names = [1.0, 2.0, 10.0, 1e3, 1e4, 1e6].map(|v| Format::Percentile.text(v));
        assert_eq!(names, ["0\u{a0}%", "50\u{a0}%", "90\u{a0}%", "99.9\u{a0}%", "99.99\u{a0}%", "99.9999\u{a0}%"]);
    }

    #[test]
    fn open_intervals_are_said() {
        let interval = |low, high| Format::Plain.interval(low, high);
        assert_eq!(interval(Some(1.0), Some(2.0)), "1 to 2");
        assert_eq!(interval(None, Some(2.0)), "at most 2");
        assert_eq!(interval(Some(1.0), None), "1 or more");
        assert_eq!(interval(None, None), "no bound");
    }
}
