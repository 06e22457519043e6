//! Prints a value, by its unit or by a given format.
//!
//! A format names a unit or a clock, and with `.N` the number of decimals: `s`, `ms.3`, `mm:ss.ms`,
//! `MB.1`, `/s`, `MB/s`, `%`, `.2`. The cell contains only the number, the heading its unit; only `%` keeps
//! its sign. Without decimals three significant digits are shown, and the whole part in full.

use prony_model::number::{MOST_DECIMALS, digits, quantity, with_decimals};
use prony_model::units::{Dimension, Unit};

/// A parsed format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    style: Style,
    decimals: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    /// A unit of what is printed, in stored units.
    Scaled(Dimension, f64),
    /// A share in percent.
    Percent,
    /// A clock with this many digits below the second.
    Clock(u32),
    /// The number as stored.
    Plain,
}

/// Why a text is not a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    /// Not known.
    #[error("`{0}` is not a format; known: {known}", known = KNOWN.join(", "))]
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

const KNOWN: [&str; 24] = [
    "ns", "us", "ms", "s", "min", "h", "mm:ss", "mm:ss.ms", "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB",
    "/s", "B/s", "kB/s", "MB/s", "GB/s", "%", ".N",
];

/// Every format, `.N` standing for a number of decimals.
pub fn known() -> &'static [&'static str] {
    &KNOWN
}

/// Parses a format.
///
/// # Errors
/// A text that names no unit or clock.
pub(crate) fn parse_format(text: &str) -> Result<Format, FormatError> {
    let clock = |digits| Format { style: Style::Clock(digits), decimals: None };
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
    let style = style(unit).filter(|style| *style != Style::Plain || decimals.is_some()).ok_or_else(unknown)?;
    Ok(Format { style, decimals })
}

fn style(unit: &str) -> Option<Style> {
    let time = |scale| Style::Scaled(Dimension::Unit(Unit::Nanos), scale);
    let bytes = |scale| Style::Scaled(Dimension::Unit(Unit::Bytes), scale);
    let flow = |scale| Style::Scaled(Dimension::BytesPerSecond, scale);
    Some(match unit {
        "" => Style::Plain,
        "%" => Style::Percent,
        "ns" => time(1.0),
        "us" => time(1e3),
        "ms" => time(1e6),
        "s" => time(1e9),
        "min" => time(60e9),
        "h" => time(3600e9),
        "B" => bytes(1.0),
        "kB" => bytes(1e3),
        "MB" => bytes(1e6),
        "GB" => bytes(1e9),
        "TB" => bytes(1e12),
        "KiB" => bytes(1024.0),
        "MiB" => bytes(1_048_576.0),
        "GiB" => bytes(1_073_741_824.0),
        "TiB" => bytes(1_099_511_627_776.0),
        "/s" => Style::Scaled(Dimension::Unit(Unit::PerSecond), 1.0),
        "B/s" => flow(1.0),
        "kB/s" => flow(1e3),
        "MB/s" => flow(1e6),
        "GB/s" => flow(1e9),
        _ => return None,
    })
}

impl Format {
    /// Whether it prints values of this dimension.
    pub fn fits(&self, dimension: Dimension) -> bool {
        match self.style {
            Style::Scaled(own, _) => own == dimension,
            Style::Percent => dimension == Dimension::Unit(Unit::Ratio),
            Style::Clock(_) => dimension == Dimension::Unit(Unit::Nanos),
            Style::Plain => matches!(dimension, Dimension::Unit(Unit::Count | Unit::Ratio | Unit::PerSecond)),
        }
    }

    fn print(&self, value: f64) -> String {
        match self.style {
            Style::Scaled(_, scale) => number(value / scale, self.decimals),
            Style::Percent => format!("{} %", number(value * 100.0, self.decimals)),
            Style::Plain => number(value, self.decimals),
            Style::Clock(digits) => clock(value, digits),
        }
    }
}

/// A value in its stored unit as text; without a format, or with one that is not understood, with its unit:
/// `3.20 ms`, `64.0 MB`, `12 400/s`, `1.53`.
pub fn format_value(value: f64, unit: Unit, format: Option<&str>) -> String {
    match format.map(parse_format) {
        Some(Ok(format)) => format.print(value),
        _ => quantity(value, unit),
    }
}

fn number(value: f64, decimals: Option<usize>) -> String {
    decimals.map_or_else(|| digits(value), |decimals| with_decimals(value, decimals))
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

/// Checks a format against what it is to print.
///
/// # Errors
/// A format that is not known or does not fit the dimension.
pub(crate) fn check_format(text: &str, dimension: Dimension) -> Result<(), FormatError> {
    let what = match dimension {
        Dimension::Unit(Unit::Nanos) => "a time",
        Dimension::Unit(Unit::Bytes) => "an amount of bytes",
        Dimension::Unit(Unit::Count) => "a count",
        Dimension::Unit(Unit::PerSecond) => "a rate",
        Dimension::Unit(Unit::Ratio) => "a plain number",
        Dimension::BytesPerSecond => "bytes per second",
    };
    let fits = parse_format(text)?.fits(dimension);
    if fits { Ok(()) } else { Err(FormatError::Misfit { format: text.to_owned(), what }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(seconds: f64, format: &str) -> String {
        format_value(seconds * 1e9, Unit::Nanos, Some(format))
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
        assert_eq!(time(0.0123, "s"), "0.0123");
        assert_eq!(time(9.996, "s"), "10.0", "rounding that adds a digit takes a decimal away");
        assert_eq!(time(1.5, "ms.1"), "1500.0");
        assert_eq!(time(90.0, "min.2"), "1.50");
        assert_eq!(format_value(579e6, Unit::Bytes, Some("MB")), "579");
        assert_eq!(format_value(16.0 * 1073741824.0, Unit::Bytes, Some("GiB.1")), "16.0");
        assert_eq!(format_value(0.125, Unit::Ratio, Some("%")), "12.5 %");
        assert_eq!(format_value(1.0, Unit::Ratio, Some(".3")), "1.000");
        assert_eq!(format_value(12_345.6, Unit::PerSecond, Some("/s")), "12346");
        assert_eq!(format_value(2.5e6, Unit::PerSecond, Some("MB/s")), "2.50");
    }

    #[test]
    fn without_a_format_the_unit_follows_the_number() {
        assert_eq!(format_value(1.5e6, Unit::Nanos, None), "1.50 ms");
        assert_eq!(format_value(64e6, Unit::Bytes, None), "64.0 MB");
        assert_eq!(format_value(-64e6, Unit::Bytes, None), "-64.0 MB");
        assert_eq!(format_value(20_000.0, Unit::Count, None), "20000");
        assert_eq!(format_value(2.5, Unit::Count, None), "2.50", "the median of an even number of counts");
        assert_eq!(format_value(151.2, Unit::PerSecond, None), "151/s");
        assert_eq!(format_value(-0.0001, Unit::Ratio, Some(".1")), "0.0", "no minus zero");
    }

    #[test]
    fn formats_are_checked_against_what_they_print() {
        let nanos = Dimension::Unit(Unit::Nanos);
        assert_eq!(check_format("s.3", nanos), Ok(()));
        assert_eq!(check_format("MB", nanos).unwrap_err().to_string(), "`MB` does not print a time");
        assert!(
            check_format("sec", nanos).unwrap_err().to_string().starts_with("`sec` is not a format; known: ns, us")
        );
        assert!(parse_format("s.x").is_err() && parse_format("").is_err() && parse_format("s.10").is_err());
        for known in KNOWN.iter().filter(|known| **known != ".N") {
            assert!(parse_format(known).is_ok(), "{known}");
        }
    }

    proptest! {
        #[test]
        fn a_clock_reads_back_within_half_a_millisecond(millis in 0u64..100_000_000, below in 0u64..1_000_000) {
            let nanos = millis * 1_000_000 + below;
            let text = format_value(nanos as f64, Unit::Nanos, Some("mm:ss.ms"));
            let (minutes, seconds) = text.split_once(':').unwrap();
            let seconds: f64 = seconds.parse().unwrap();
            prop_assert!(seconds < 60.0);
            let back = minutes.parse::<f64>().unwrap() * 60.0 + seconds;
            prop_assert!((back - nanos as f64 / 1e9).abs() <= 0.0005 + 1e-9, "{} {}", text, nanos);
        }
    }
}
