//! Chooses how the numbers of one column are printed: one unit and one number of decimals for all of them.

use prony_experiment::format::format_value;
use prony_model::number::thousands;
use prony_model::units::{Dimension, Unit};

/// A unit of a column and how many decimals its numbers have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    /// What one of the printed unit is in the stored unit.
    factor: f64,
    /// Its name; empty for counts and ratios.
    pub(super) name: &'static str,
    decimals: usize,
    /// A format names the decimals.
    fixed: bool,
    /// A format that is not a unit, such as a clock or percent, and the unit of the numbers it prints.
    other: Option<(String, Unit)>,
}

const TIME: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
const LONG_TIME: &[(&str, f64)] = &[("min", 60e9), ("h", 3600e9)];
const BYTES: &[(&str, f64)] = &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)];
const BINARY: &[(&str, f64)] =
    &[("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("TiB", 1_099_511_627_776.0)];
const FLOW: &[(&str, f64)] = &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)];
const RATE: &[(&str, f64)] = &[("/s", 1.0)];

/// Numbers are never given with more digits after the point, unless a format asks for them.
const MOST_DECIMALS: usize = 3;

impl Scale {
    /// The scale that suits the numbers, or the one the format names (`s`, `MB.1`).
    pub(super) fn choose(dimension: Option<Dimension>, format: Option<&str>, numbers: &[f64]) -> Self {
        let asked = format.map(|format| (format, named(format)));
        if let Some((format, None)) = asked {
            let unit = dimension.map_or(Unit::Ratio, Dimension::unit);
            return Self { factor: 1.0, name: "", decimals: 0, fixed: true, other: Some((format.to_owned(), unit)) };
        }
        let asked = asked.and_then(|(_, named)| named);
        let (name, factor) = asked.map_or_else(|| fitting(dimension, numbers), |(name, factor, _)| (name, factor));
        let whole = dimension == Some(Dimension::Unit(Unit::Count)) || name == "B" || name == "ns";
        let fitting = if whole && numbers.iter().all(|n| n.fract() == 0.0) { 0 } else { decimals(factor, numbers) };
        let of_format = asked.and_then(|(_, _, decimals)| decimals);
        let decimals = of_format.unwrap_or(fitting);
        Self { factor, name, decimals, fixed: of_format.is_some(), other: None }
    }

    /// The scale of times that are all shown in one unit, with at least three significant digits, so that a short time
    /// is not shown as zero. `None` where the unit is not a unit of time.
    pub(super) fn of_times(unit: &str, numbers: &[f64]) -> Option<Self> {
        let (name, factor) = TIME.iter().chain(LONG_TIME).copied().find(|(name, _)| *name == unit)?;
        Some(Self { factor, name, decimals: significant(factor, numbers), fixed: false, other: None })
    }

    /// The same for a number of which trials lie so far apart, in the stored unit: two digits of the distance are shown and no
    /// more, since further ones are noise, but at least three digits of the number.
    pub(super) fn within(&self, number: f64, distance: f64) -> Self {
        let digits = |of: f64, count: i64| usize::try_from(count - 1 - (of / self.factor).abs().log10().floor() as i64);
        let decimals = if self.fixed || distance.is_nan() || distance <= 0.0 {
            self.decimals
        } else {
            let of_number = if number == 0.0 { 0 } else { digits(number, 3).unwrap_or(0) };
            self.decimals.min(digits(distance, 2).unwrap_or(0).max(of_number))
        };
        Self { decimals, ..self.clone() }
    }

    /// A number of the stored unit as text without its unit.
    pub(super) fn print(&self, number: f64) -> String {
        if let Some((format, unit)) = &self.other {
            return format_value(number, *unit, Some(format));
        }
        let scaled = number / self.factor;
        let text = format!("{scaled:.*}", self.decimals);
        if scaled > 0.0 && text.bytes().all(|b| matches!(b, b'0' | b'.')) {
            return format!("<{:.*}", self.decimals, 0.1f64.powi(self.decimals as i32));
        }
        thousands(&text)
    }
}

/// The unit that a format names, and its decimals: `s`, `MB.1`.
fn named(format: &str) -> Option<(&'static str, f64, Option<usize>)> {
    let (unit, decimals) = match format.split_once('.') {
        Some((unit, decimals)) => (unit, Some(decimals.parse().ok()?)),
        None => (format, None),
    };
    let known = [TIME, LONG_TIME, BYTES, BINARY, FLOW, RATE].into_iter().flatten();
    known.copied().find(|(name, _)| *name == unit).map(|(name, factor)| (name, factor, decimals))
}

/// The largest unit in which the middle number is at least 1.
fn fitting(dimension: Option<Dimension>, numbers: &[f64]) -> (&'static str, f64) {
    // Where nothing was measured, or only zeros, the unit that readers expect.
    let (units, usual) = match dimension {
        Some(Dimension::Unit(Unit::Nanos)) => (TIME, ("s", 1e9)),
        Some(Dimension::Unit(Unit::Bytes)) => (BYTES, ("MB", 1e6)),
        Some(Dimension::BytesPerSecond) => (FLOW, ("MB/s", 1e6)),
        Some(Dimension::Unit(Unit::PerSecond)) => return ("/s", 1.0),
        Some(Dimension::Unit(Unit::Count | Unit::Ratio)) | None => return ("", 1.0),
    };
    let mut sizes: Vec<f64> = numbers.iter().map(|n| n.abs()).filter(|n| *n > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    let Some(middle) = sizes.get(sizes.len() / 2) else { return usual };
    units.iter().copied().rfind(|(_, factor)| middle >= factor).unwrap_or(units[0])
}

/// Three significant digits for the smallest number, as far as a table has room.
fn decimals(factor: f64, numbers: &[f64]) -> usize {
    significant(factor, numbers).min(MOST_DECIMALS)
}

/// Three significant digits for the smallest number.
fn significant(factor: f64, numbers: &[f64]) -> usize {
    let smallest = numbers.iter().map(|n| (n / factor).abs()).filter(|n| *n > 0.0).fold(f64::INFINITY, f64::min);
    if !smallest.is_finite() {
        return 0;
    }
    let wanted = 2 - smallest.log10().floor() as i64;
    usize::try_from(wanted).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(unit: Unit, numbers: &[f64]) -> (Vec<String>, &'static str) {
        let scale = Scale::choose(Some(Dimension::Unit(unit)), None, numbers);
        (numbers.iter().map(|n| scale.print(*n)).collect(), scale.name)
    }

    #[test]
    fn short_times_are_no_zeros_in_long_units() {
        let shown = |unit: &str| {
            [5.1e6, 7.26e12, 0.0]
                .map(|nanos| Scale::of_times(unit, &[nanos]).map(|scale| scale.print(nanos) + scale.name))
        };
        let some = |texts: [&str; 3]| texts.map(|text| Some(text.to_owned()));
        assert_eq!(shown("h"), some(["0.00000142h", "2.02h", "0h"]));
        assert_eq!(shown("s"), some(["0.00510s", "7260s", "0s"]));
        assert_eq!(shown("ms"), some(["5.10ms", "7,260,000ms", "0ms"]));
        assert_eq!(shown("kB"), [None, None, None]);
    }

    #[test]
    fn a_column_has_one_unit_and_as_many_decimals_as_its_smallest_needs() {
        let (texts, unit) = printed(Unit::Nanos, &[0.29e9, 1.373e9, 1_787.643e9]);
        assert_eq!((texts.join(" "), unit), ("0.290 1.373 1787.643".to_owned(), "s"));
        let (texts, unit) = printed(Unit::Bytes, &[193e6, 1200e6, 8500e6]);
        assert_eq!((texts.join(" "), unit), ("0.193 1.200 8.500".to_owned(), "GB"));
        let (texts, unit) = printed(Unit::PerSecond, &[123_456.7, 2_000.0]);
        assert_eq!((texts.join(" "), unit), ("123,457 2000".to_owned(), "/s"));
    }

    #[test]
    fn numbers_have_the_digits_that_their_spread_allows() {
        let scale = Scale::choose(Some(Dimension::Unit(Unit::Nanos)), None, &[2.345e9, 1_598.507e9]);
        let shown = |number: f64, distance: f64| scale.within(number * 1e9, distance * 1e9).print(number * 1e9);
        assert_eq!(shown(1598.507, 73.6), "1599");
        assert_eq!(shown(1598.507, 7.36), "1598.5");
        assert_eq!(shown(1598.507, 0.0), "1598.51", "one trial, or trials that agree");
        assert_eq!(shown(2.345, 0.2), "2.35");
        assert_eq!((shown(1.49, 11.0), shown(59.4, 1000.0)), ("1.49".into(), "59.4".into()), "beside an outlier");
        let asked = Scale::choose(Some(Dimension::Unit(Unit::Bytes)), Some("MB.1"), &[1.0]);
        assert_eq!(asked.within(1_598.5e6, 73e6).print(1_598.5e6), "1598.5");
    }

    #[test]
    fn counts_stay_whole_and_means_of_counts_do_not() {
        assert_eq!(printed(Unit::Count, &[0.0, 12_345.0]).0, ["0", "12,345"]);
        assert_eq!(printed(Unit::Count, &[2.5, 7.0]).0, ["2.50", "7.00"]);
    }

    #[test]
    fn something_is_never_printed_as_nothing() {
        assert_eq!(printed(Unit::Nanos, &[0.0, 900.0, 3e9, 5e9]).0, ["0.000", "<0.001", "3.000", "5.000"]);
    }

    #[test]
    fn no_numbers_still_give_a_unit() {
        assert_eq!(Scale::choose(Some(Dimension::Unit(Unit::Bytes)), None, &[]).name, "MB");
        assert_eq!(printed(Unit::Nanos, &[0.0]).0, ["0"]);
    }

    #[test]
    fn formats_name_the_unit() {
        let scale = Scale::choose(Some(Dimension::Unit(Unit::Bytes)), Some("MiB"), &[(64 << 20) as f64]);
        assert_eq!((scale.print((64 << 20) as f64).as_str(), scale.name), ("64.0", "MiB"));
        let scale = Scale::choose(Some(Dimension::Unit(Unit::Nanos)), Some("mm:ss.ms"), &[170.1e9]);
        assert_eq!(scale.print(170.1e9), "02:50.100");
        assert_eq!(scale.print(3_600e9), "60:00.000");
        let scale = Scale::choose(Some(Dimension::Unit(Unit::Bytes)), Some("MB.1"), &[1.0]);
        assert_eq!((scale.print(12_345.678e6).as_str(), scale.name), ("12,345.7", "MB"));
        let scale = Scale::choose(Some(Dimension::Unit(Unit::Ratio)), Some("%"), &[0.5]);
        assert_eq!(scale.print(0.125), "12.5 %");
        assert_eq!(Scale::choose(Some(Dimension::BytesPerSecond), None, &[3e6]).name, "MB/s");
    }
}
