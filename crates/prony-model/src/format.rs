//! How the numbers of a column or a cell are printed: one unit and one number of decimals for all of them, and more
//! decimals for a number that they would leave fewer than two significant digits.
//!
//! A format names a unit or a clock, and with `.N` the number of decimals: `s`, `ms.3`, `mm:ss.ms`,
//! `MB.1`, `/s`, `MB/s`, `%`, `.2`. The cell contains only the number, the heading its unit; only `%` keeps
//! its sign. Without a format the unit follows from the numbers, and without decimals their number does.

use crate::number::{MOST_DECIMALS, digits, fitting, percents, places, thousands, with_decimals};
use crate::units::{Dimension, Step, Unit};

/// A parsed format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    style: Style,
    decimals: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    /// A unit.
    Unit(Dimension, Step),
    /// A share in percent.
    Percent,
    /// A clock with this many digits below the second.
    Clock(u32),
    /// The number as stored.
    Plain,
}

/// Why a text is not a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Not known.
    #[error("`{0}` is not a format; known: {known}", known = known().join(", "))]
    Unknown(String),
    /// It does not fit what is printed.
    #[error("`{format}` does not print {what}")]
    Misfit {
        /// The format as written.
        format: String,
        /// What is printed: `a time`.
        what: &'static str,
    },
}

/// Every format, `.N` standing for a number of decimals.
pub fn known() -> Vec<&'static str> {
    let [time, bytes, rate, flow] = Dimension::WITH_UNITS.map(Dimension::unit_names);
    [time, vec!["mm:ss", "mm:ss.ms"], bytes, rate, flow, vec!["%", ".N"]].concat()
}

impl Format {
    /// Parses a format.
    ///
    /// # Errors
    /// A text that names no unit or clock.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let clock = |digits| Self { style: Style::Clock(digits), decimals: None };
        match text {
            "mm:ss" => return Ok(clock(0)),
            "mm:ss.ms" => return Ok(clock(3)),
            _ => {}
        }
        let unknown = || FormatError::Unknown(text.to_owned());
        let (unit, decimals) = match text.split_once('.') {
            Some((unit, digits)) => {
                let digits: usize = digits.parse().map_err(|_| unknown())?;
                (unit, Some(digits).filter(|digits| *digits <= MOST_DECIMALS).ok_or_else(unknown)?.into())
            }
            None => (text, None),
        };
        let of = |dimension: Dimension| Some(Style::Unit(dimension, dimension.unit_named(unit)?));
        let style = match unit {
            "" => decimals.map(|_| Style::Plain),
            "%" => Some(Style::Percent),
            _ => Dimension::WITH_UNITS.into_iter().find_map(of),
        };
        Ok(Self { style: style.ok_or_else(unknown)?, decimals })
    }

    /// Whether it prints values of this dimension.
    fn fits(&self, dimension: Dimension) -> bool {
        match self.style {
            Style::Unit(own, _) => own == dimension,
            Style::Percent => dimension == Dimension::Unit(Unit::Ratio),
            Style::Clock(_) => dimension == Dimension::Unit(Unit::Nanos),
            Style::Plain => matches!(dimension, Dimension::Unit(Unit::Count | Unit::Ratio | Unit::PerSecond)),
        }
    }

    /// Checks a text against what it is to print.
    ///
    /// # Errors
    /// A format that is not known or does not fit the dimension.
    pub fn check(text: &str, dimension: Dimension) -> Result<(), FormatError> {
        let fits = Self::parse(text)?.fits(dimension);
        if fits { Ok(()) } else { Err(FormatError::Misfit { format: text.to_owned(), what: dimension.words() }) }
    }
}

/// Minutes, seconds and `digits` digits below; rounded once, so that a carry reaches the minutes.
fn clock(nanos: f64, digits: u32) -> String {
    let per_second = 10u64.pow(digits);
    let ticks = (nanos.abs() / 1e9 * per_second as f64).round() as u64;
    let sign = if nanos < 0.0 && ticks > 0 { "-" } else { "" };
    let (minutes, seconds) = (ticks / per_second / 60, ticks / per_second % 60);
    match digits {
        0 => format!("{sign}{minutes:02}:{seconds:02}"),
        _ => format!("{sign}{minutes:02}:{seconds:02}.{:0width$}", ticks % per_second, width = digits as usize),
    }
}

/// A unit of a column and how many decimals its numbers have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The name of the unit; empty for counts, ratios and clocks.
    pub name: &'static str,
    /// What one of the printed unit is in the stored unit.
    factor: f64,
    decimals: usize,
    /// The format that was asked for.
    format: Option<Format>,
}

/// A column has no more digits after the point, unless a format asks for them; a single small number may have more.
const MOST_OF_COLUMN: usize = 3;

impl Scale {
    /// The scale that suits the numbers, or the one the format names (`s`, `MB.1`).
    pub fn choose(dimension: Option<Dimension>, format: Option<&str>, numbers: &[f64]) -> Self {
        let format = format.and_then(|format| Format::parse(format).ok());
        let (name, factor) = match format.map(|format| format.style) {
            Some(Style::Unit(_, unit)) => unit,
            Some(Style::Percent | Style::Clock(_) | Style::Plain) => ("", 1.0),
            None => usual_unit(dimension, numbers),
        };
        let whole = dimension == Some(Dimension::Unit(Unit::Count)) || name == "B" || name == "ns";
        let suited = if whole && numbers.iter().all(|n| n.fract() == 0.0) {
            0
        } else {
            significant(factor, numbers).min(MOST_OF_COLUMN)
        };
        let decimals = format.and_then(|format| format.decimals).unwrap_or(suited);
        Self { name, factor, decimals, format }
    }

    /// The scale of times that are all shown in one unit, with at least three significant digits, so that a short time
    /// is not shown as zero. `None` where the unit is not a unit of time.
    pub fn of_times(unit: &str, numbers: &[f64]) -> Option<Self> {
        let (name, factor) = Dimension::Unit(Unit::Nanos).unit_named(unit)?;
        Some(Self { name, factor, decimals: significant(factor, numbers), format: None })
    }

    /// The same for a number of which trials lie so far apart, in the stored unit: two digits of the distance are shown and no
    /// more, since further ones are noise, but at least three digits of the number.
    pub fn within(&self, number: f64, distance: f64) -> Self {
        let asked = self.format.is_some_and(|format| format.decimals.is_some());
        let decimals = if asked || distance.is_nan() || distance <= 0.0 {
            self.decimals
        } else {
            self.decimals.min(places(distance / self.factor, 2).max(places(number / self.factor, 3)))
        };
        Self { decimals, ..*self }
    }

    /// A number of the stored unit as text without its unit.
    pub fn print(&self, number: f64) -> String {
        match self.format {
            Some(Format { style: Style::Clock(digits), .. }) => clock(number, digits),
            Some(Format { style: Style::Percent, decimals: Some(decimals) }) => percents(number, decimals) + " %",
            Some(Format { style: Style::Percent, decimals: None }) => digits(100.0 * number) + " %",
            Some(Format { style: Style::Plain, .. }) => with_decimals(number, self.decimals),
            Some(Format { style: Style::Unit(..), .. }) | None => self.scaled(number / self.factor),
        }
    }

    fn scaled(&self, number: f64) -> String {
        let decimals = self.decimals_of(number);
        let text = with_decimals(number, decimals);
        if number > 0.0 && text.bytes().all(|b| matches!(b, b'0' | b'.')) {
            return format!("<{:.decimals$}", 0.1f64.powi(decimals as i32));
        }
        thousands(&text)
    }

    /// The decimals of the column, or those that two significant digits of this number need.
    fn decimals_of(&self, number: f64) -> usize {
        let asked = self.format.is_some_and(|format| format.decimals.is_some());
        // A whole number has no digits to lose.
        if asked || number.fract() == 0.0 {
            return self.decimals;
        }
        self.decimals.max(places(number, 2).min(MOST_DECIMALS))
    }
}

/// The largest unit in which the middle number is at least 1.
fn usual_unit(dimension: Option<Dimension>, numbers: &[f64]) -> Step {
    // Where nothing was measured, or only zeros, the unit that readers expect.
    let (dimension, usual) = match dimension {
        Some(dimension @ Dimension::Unit(Unit::Nanos)) => (dimension, "s"),
        Some(dimension @ Dimension::Unit(Unit::Bytes)) => (dimension, "MB"),
        Some(dimension @ Dimension::BytesPerSecond) => (dimension, "MB/s"),
        Some(dimension @ Dimension::Unit(Unit::PerSecond)) => (dimension, "/s"),
        Some(Dimension::Unit(Unit::Count | Unit::Ratio)) | None => return ("", 1.0),
    };
    let mut sizes: Vec<f64> = numbers.iter().map(|n| n.abs()).filter(|n| *n > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    let middle = sizes.get(sizes.len() / 2).map(|middle| fitting(dimension.units()[0], *middle, 1.0));
    middle.or_else(|| dimension.unit_named(usual)).unwrap_or(("", 1.0))
}

/// Three significant digits for the smallest number.
fn significant(factor: f64, numbers: &[f64]) -> usize {
    let sizes = numbers.iter().map(|n| (n / factor).abs()).filter(|n| *n > 0.0);
    places(sizes.fold(f64::INFINITY, f64::min), 3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NANOS: Dimension = Dimension::Unit(Unit::Nanos);

    fn asked(value: f64, dimension: Dimension, format: &str) -> String {
        Scale::choose(Some(dimension), Some(format), &[value]).print(value)
    }

    fn time(seconds: f64, format: &str) -> String {
        asked(seconds * 1e9, NANOS, format)
    }

    fn printed(unit: Unit, numbers: &[f64]) -> (Vec<String>, &'static str) {
        let scale = Scale::choose(Some(Dimension::Unit(unit)), None, numbers);
        (numbers.iter().map(|n| scale.print(*n)).collect(), scale.name)
    }

    #[test]
    fn clocks_carry_into_seconds_and_minutes() {
        assert_eq!(time(61.2345, "mm:ss.ms"), "01:01.235");
        assert_eq!(time(59.9994, "mm:ss.ms"), "00:59.999");
        assert_eq!(time(59.9996, "mm:ss.ms"), "01:00.000");
        assert_eq!(time(3599.9999, "mm:ss.ms"), "60:00.000");
        assert_eq!(time(59.5, "mm:ss"), "01:00");
        assert_eq!(time(7503.25, "mm:ss.ms"), "125:03.250");
        assert_eq!(time(0.0, "mm:ss.ms"), "00:00.000");
        assert_eq!(time(-0.5, "mm:ss.ms"), "-00:00.500");
    }

    #[test]
    fn units_and_decimals_are_as_asked() {
        assert_eq!(time(27.04, "s"), "27.0");
        assert_eq!(time(1787.3, "s"), "1787");
        assert_eq!(time(1.5, "ms.1"), "1500.0");
        assert_eq!(time(90.0, "min.2"), "1.50");
        let (bytes, ratio) = (Dimension::Unit(Unit::Bytes), Dimension::Unit(Unit::Ratio));
        assert_eq!(asked(579e6, bytes, "MB"), "579");
        assert_eq!(asked(16.0 * 1073741824.0, bytes, "GiB.1"), "16.0");
        assert_eq!(asked(12_345.678e6, bytes, "MB.1"), "12,345.7");
        assert_eq!([asked(0.125, ratio, "%"), asked(0.125, ratio, "%.2")], ["12.5 %", "12.50 %"]);
        assert_eq!([asked(1.0, ratio, ".3"), asked(-0.0001, ratio, ".1")], ["1.000", "0.0"], "no minus zero");
        assert_eq!(asked(12_345.6, Dimension::Unit(Unit::PerSecond), "/s"), "12,346");
        assert_eq!(asked(2.5e6, Dimension::BytesPerSecond, "MB/s"), "2.50");
    }

    #[test]
    fn formats_are_checked_against_what_they_print() {
        assert_eq!(Format::check("s.3", NANOS), Ok(()));
        assert_eq!(Format::check("MB", NANOS).unwrap_err().to_string(), "`MB` does not print a time");
        assert_eq!(
            Format::check("sec", NANOS).unwrap_err().to_string(),
            "`sec` is not a format; known: ns, us, ms, s, min, h, mm:ss, mm:ss.ms, B, kB, MB, GB, TB, KiB, MiB, GiB, \
             TiB, /s, B/s, kB/s, MB/s, GB/s, %, .N"
        );
        assert!(["s.x", "", "s.10"].iter().all(|text| Format::parse(text).is_err()));
        for known in known().into_iter().filter(|known| *known != ".N") {
            assert!(Format::parse(known).is_ok(), "{known}");
        }
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
        let scale = Scale::choose(Some(NANOS), None, &[2.345e9, 1_598.507e9]);
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

    /// A cell had 301 digits, of which 285 were invented.
    #[test]
    fn huge_numbers_have_an_exponent() {
        assert_eq!(printed(Unit::Count, &[1e300]).0, ["1.00e300"]);
        assert_eq!(printed(Unit::Bytes, &[-2e292, 1e300]).0, ["-2.00e280", "1.00e288"]);
        assert_eq!(printed(Unit::Count, &[123_456_789_012_345.0]).0, ["123,456,789,012,345"]);
    }

    #[test]
    fn something_is_never_printed_as_nothing() {
        assert_eq!(printed(Unit::Nanos, &[0.0, 900.0, 3e9, 5e9]).0, ["0.000", "0.00000090", "3.000", "5.000"]);
        assert_eq!(asked(900.0, NANOS, "s.3"), "<0.001");
    }

    /// 4.6 and 5.4 ms were both `0.005` in a column of seconds.
    #[test]
    fn short_times_of_a_column_in_seconds_differ() {
        let (texts, unit) = printed(Unit::Nanos, &[4.6e6, 5.4e6, 12e6, 3.25e9, 4e9, 5e9]);
        assert_eq!((texts.join(" "), unit), ("0.0046 0.0054 0.012 3.250 4.000 5.000".to_owned(), "s"));
        let counts = Scale::choose(Some(Dimension::Unit(Unit::Count)), None, &[3.0, 400.0]);
        assert_eq!([counts.print(3.0), counts.print(400.0)], ["3", "400"]);
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
        let scale = Scale::choose(Some(NANOS), Some("mm:ss.ms"), &[170.1e9]);
        assert_eq!((scale.print(170.1e9).as_str(), scale.name), ("02:50.100", ""));
        assert_eq!(Scale::choose(Some(Dimension::BytesPerSecond), None, &[3e6]).name, "MB/s");
    }

    proptest! {
        #[test]
        fn a_clock_reads_back_within_half_a_millisecond(millis in 0u64..100_000_000, below in 0u64..1_000_000) {
            let nanos = millis * 1_000_000 + below;
            let text = asked(nanos as f64, NANOS, "mm:ss.ms");
            let (minutes, seconds) = text.split_once(':').unwrap();
            let seconds: f64 = seconds.parse().unwrap();
            prop_assert!(seconds < 60.0);
            let back = minutes.parse::<f64>().unwrap() * 60.0 + seconds;
            prop_assert!((back - nanos as f64 / 1e9).abs() <= 0.0005 + 1e-9, "{} {}", text, nanos);
        }
    }
}
