//! Numbers on axes: three digits and a unit.

use prony_model::number::short;
use prony_model::units::Unit;

/// How the numbers of an axis are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// By the unit of a metric.
    Unit(Unit),
    /// Seconds.
    Seconds,
    /// Bytes per second.
    BytesPerSecond,
    /// A ratio to the baseline.
    Times,
    /// A share in percent.
    Percent,
    /// A plain number.
    Plain,
}

impl Format {
    /// The text of a value.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Unit(Unit::Nanos) => scaled(value, &[(1e9, " s"), (1e6, " ms"), (1e3, " \u{b5}s"), (1.0, " ns")]),
            Self::Seconds => Self::Unit(Unit::Nanos).text(value * 1e9),
            Self::Unit(Unit::Bytes) => {
                scaled(value, &[(1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")])
            }
            Self::BytesPerSecond if value == 0.0 => "0".to_owned(),
            Self::BytesPerSecond => Self::Unit(Unit::Bytes).text(value) + "/s",
            Self::Unit(Unit::PerSecond) => scaled(value, &[(1e6, " M/s"), (1e3, " k/s"), (1.0, " /s")]),
            Self::Unit(Unit::Count) => scaled(value, &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")]),
            Self::Times => short(value) + "\u{d7}",
            Self::Percent => short(value) + " %",
            Self::Unit(Unit::Ratio) | Self::Plain => short(value),
        }
    }
}

fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // 999.6 us would be written as 1000 us.
    let step = steps.iter().find(|(by, _)| value.abs() >= by * 0.9995).or(steps.last());
    step.map_or_else(String::new, |(by, unit)| short(value / by) + unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_their_unit() {
        let nanos = |v| Format::Unit(Unit::Nanos).text(v);
        assert_eq!([nanos(0.0), nanos(1.5e9), nanos(999_600.0), nanos(250.0)], ["0", "1.5 s", "1 ms", "250 ns"]);
        assert_eq!(Format::BytesPerSecond.text(2.5e6), "2.5 MB/s");
        assert_eq!(Format::Unit(Unit::Count).text(1e7), "10 M");
        assert_eq!(Format::Times.text(0.1234), "0.123\u{d7}");
    }
}
