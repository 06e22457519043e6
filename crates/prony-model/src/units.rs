//! Types for quantities such as times and sizes: the unit is part of the constructor's name.

use std::ops::{Add, AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A span of time, or an instant of `CLOCK_MONOTONIC`, in whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// From microseconds, saturating.
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// From milliseconds, saturating.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// From seconds, saturating.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In seconds, for statistics and printing.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - earlier`, zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// As the standard library's duration.
    pub const fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

/// An amount of memory or storage in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// From bytes.
    pub const fn from_bytes(n: u64) -> Self {
        Self(n)
    }

    /// From kibibytes (1024), as procfs counts.
    pub const fn from_kib(n: u64) -> Self {
        Self(n.saturating_mul(1024))
    }

    /// From mebibytes (1024 x 1024).
    pub const fn from_mib(n: u64) -> Self {
        Self(n.saturating_mul(1024 * 1024))
    }

    /// In bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Events per second; finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PerSecond(f64);

impl PerSecond {
    /// From events per second; `None` unless finite and above zero.
    pub fn new(rate: f64) -> Option<Self> {
        (rate.is_finite() && rate > 0.0).then_some(Self(rate))
    }

    /// In events per second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// A share from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fraction(f64);

impl Fraction {
    /// The whole.
    pub const ONE: Self = Self(1.0);

    /// From a share; `None` outside 0 to 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// As a share from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// The unit in which a reading's number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// A count of things.
    Count,
    /// Events per second.
    PerSecond,
    /// A share from 0 to 1, or a quotient of two readings of one unit.
    Ratio,
}

/// The kind of a value that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A reading's unit.
    Unit(Unit),
    /// Bytes per second.
    BytesPerSecond,
}

/// A unit in which people read and write: its name, and how many of the stored unit one of it is.
pub type Step = (&'static str, f64);

/// Units of short times, from the smallest.
pub const TIME: &[Step] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Units of long times.
const LONG_TIME: &[Step] = &[("min", 60e9), ("h", 3600e9)];
/// Decimal units of memory and storage, from the smallest.
pub const BYTES: &[Step] = &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)];
/// Binary units of memory and storage.
const BINARY: &[Step] =
    &[("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("TiB", 1_099_511_627_776.0)];
const FLOW: &[Step] = &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)];
const RATE: &[Step] = &[("/s", 1.0)];

impl Dimension {
    /// Those that have units.
    pub const WITH_UNITS: [Self; 4] =
        [Self::Unit(Unit::Nanos), Self::Unit(Unit::Bytes), Self::Unit(Unit::PerSecond), Self::BytesPerSecond];

    /// Its units: those among which one is chosen for a number, from the smallest, and those that are only used where
    /// they are asked for.
    pub const fn units(self) -> [&'static [Step]; 2] {
        match self {
            Self::Unit(Unit::Nanos) => [TIME, LONG_TIME],
            Self::Unit(Unit::Bytes) => [BYTES, BINARY],
            Self::Unit(Unit::PerSecond) => [RATE, &[]],
            Self::BytesPerSecond => [FLOW, &[]],
            Self::Unit(Unit::Count | Unit::Ratio) => [&[], &[]],
        }
    }

    /// The names of its units.
    pub fn unit_names(self) -> Vec<&'static str> {
        self.units().into_iter().flatten().map(|(name, _)| *name).collect()
    }

    /// Its unit of this name.
    pub fn unit_named(self, name: &str) -> Option<Step> {
        self.units().into_iter().flatten().copied().find(|(own, _)| *own == name)
    }

    /// The stored unit of its numbers; bytes per second count as per second.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Unit(unit) => unit,
            Self::BytesPerSecond => Unit::PerSecond,
        }
    }

    /// What a value of it is: `a time`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unit(Unit::Nanos) => "a time",
            Self::Unit(Unit::Bytes) => "an amount of bytes",
            Self::Unit(Unit::Count) => "a count",
            Self::Unit(Unit::PerSecond) => "a rate",
            Self::Unit(Unit::Ratio) => "a plain number",
            Self::BytesPerSecond => "bytes per second",
        }
    }
}

/// The unit that differs from this one by the case of its letters only.
fn meant(unit: &str, known: &str) -> String {
    let meant = known.split(", ").find(|known| known.eq_ignore_ascii_case(unit));
    meant.map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default()
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The number cannot be read.
    #[error("`{0}` does not begin with a number")]
    Number(String),
    /// The unit is not known.
    #[error("`{unit}` is not a unit of {kind}{}; known: {known}", meant(unit, known))]
    Unit {
        /// The unit as written.
        unit: String,
        /// What was to be read: `time`, `memory` ...
        kind: &'static str,
        /// The units that are known.
        known: String,
    },
    /// A unit is needed, and there is none.
    #[error("`{number}` has no unit of {kind}; known: {known}")]
    NoUnit {
        /// As written.
        number: String,
        /// What was to be read.
        kind: &'static str,
        /// The units that are known.
        known: String,
    },
    /// The value does not fit.
    #[error("`{0}` is out of range")]
    Range(String),
    /// The share is none: negative, or more than all.
    #[error("`{text}` is out of range: a share is from 0% to 100%{example}")]
    Share {
        /// As written.
        text: String,
        /// How it is written where percent may be meant.
        example: String,
    },
}

impl QuantityError {
    fn unit(unit: &str, kind: &'static str, known: &str) -> Self {
        Self::Unit { unit: unit.to_owned(), kind, known: known.to_owned() }
    }
}

fn split(text: &str) -> Result<(f64, &str), QuantityError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+'))).unwrap_or(text.len());
    let number: String = text[..end].chars().filter(|c| *c != '_').collect();
    let value: f64 = number.parse().map_err(|_| QuantityError::Number(text.to_owned()))?;
    if value.is_finite() && value >= 0.0 {
        Ok((value, text[end..].trim()))
    } else {
        Err(QuantityError::Range(text.to_owned()))
    }
}

/// A whole number of the stored unit.
fn amount(text: &str, kind: &'static str, dimension: Dimension) -> Result<u64, QuantityError> {
    let (value, unit) = split(text)?;
    let name = match unit {
        "" => "B",
        "µs" => "us",
        unit => unit,
    };
    let Some((_, scale)) = dimension.unit_named(name) else {
        let known = dimension.unit_names().join(", ");
        return Err(match unit {
            "" => QuantityError::NoUnit { number: text.trim().to_owned(), kind, known },
            unit => QuantityError::unit(unit, kind, &known),
        });
    };
    let n = (value * scale).round();
    if n <= u64::MAX as f64 { Ok(n as u64) } else { Err(QuantityError::Range(text.to_owned())) }
}

/// Reads a time such as `5 s`, `3 ms`, `20 min`, `1.5h`.
pub fn parse_time(text: &str) -> Result<Nanos, QuantityError> {
    amount(text, "time", Dimension::Unit(Unit::Nanos)).map(Nanos)
}

/// Reads a time above zero, such as a budget.
pub fn parse_span(text: &str) -> Result<Nanos, QuantityError> {
    match parse_time(text)? {
        Nanos::ZERO => Err(QuantityError::Range(text.to_owned())),
        time => Ok(time),
    }
}

/// Reads an amount such as `16 GiB`, `40 kB`, `128 B`; a bare number is bytes.
pub fn parse_bytes(text: &str) -> Result<Bytes, QuantityError> {
    amount(text, "memory or storage", Dimension::Unit(Unit::Bytes)).map(Bytes)
}

/// Reads a rate such as `5000/s` or `200 per second`; a bare number is per second.
pub fn parse_rate(text: &str) -> Result<PerSecond, QuantityError> {
    let (value, unit) = split(text)?;
    let scale = match unit {
        "" | "/s" | "per second" => 1.0,
        "/min" | "per minute" => 1.0 / 60.0,
        _ => return Err(QuantityError::unit(unit, "rate", "/s, /min")),
    };
    PerSecond::new(value * scale).ok_or_else(|| QuantityError::Range(text.to_owned()))
}

/// Reads a share such as `60%`; a bare number from 0 to 1 is a share too.
pub fn parse_fraction(text: &str) -> Result<Fraction, QuantityError> {
    let none = |example| QuantityError::Share { text: text.to_owned(), example };
    let (value, unit) = split(text).map_err(|error| match error {
        QuantityError::Range(_) => none(String::new()),
        error => error,
    })?;
    let share = match unit {
        "%" => value / 100.0,
        "" => value,
        _ => return Err(QuantityError::unit(unit, "share", "%")),
    };
    let is_percent = unit.is_empty() && value <= 100.0;
    let example = || if is_percent { format!(", such as `{value}%`") } else { String::new() };
    Fraction::new(share).ok_or_else(|| none(example()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_written() {
        assert_eq!(parse_time("3 ms"), Ok(Nanos::from_millis(3)));
        assert_eq!(parse_time("1.5h"), Ok(Nanos::from_secs(5400)));
        assert_eq!(parse_time("7 µs"), Ok(Nanos::from_micros(7)));
        assert_eq!(parse_bytes("16 GiB"), Ok(Bytes::from_bytes(16 << 30)));
        assert_eq!(parse_bytes("40 kB"), Ok(Bytes::from_bytes(40_000)));
        assert_eq!(parse_bytes("1_000"), Ok(Bytes::from_bytes(1000)));
        assert_eq!(parse_fraction("60%").map(Fraction::get), Ok(0.6));
        assert_eq!(parse_rate("5000/s").map(PerSecond::get), Ok(5000.0));
    }

    #[test]
    fn quantities_refuse_what_they_do_not_know() {
        assert_eq!((parse_time("0 s"), parse_span("3 ms")), (Ok(Nanos::ZERO), Ok(Nanos::from_millis(3))));
        assert_eq!(parse_span("0.0 min"), Err(QuantityError::Range("0.0 min".into())));
        let text = parse_time("3").unwrap_err().to_string();
        assert_eq!(text, "`3` has no unit of time; known: ns, us, ms, s, min, h");
        let text = parse_time("3 sec").unwrap_err().to_string();
        assert_eq!(text, "`sec` is not a unit of time; known: ns, us, ms, s, min, h");
        let text = parse_bytes("3 kiB").unwrap_err().to_string();
        assert_eq!(
            text,
            "`kiB` is not a unit of memory or storage (did you mean `KiB`?); known: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
        );
        assert!(matches!(parse_bytes("-1 B"), Err(QuantityError::Range(_))));
        for (text, expected) in [
            ("5", "`5` is out of range: a share is from 0% to 100%, such as `5%`"),
            ("1000%", "`1000%` is out of range: a share is from 0% to 100%"),
            ("-5%", "`-5%` is out of range: a share is from 0% to 100%"),
            ("500", "`500` is out of range: a share is from 0% to 100%"),
        ] {
            assert_eq!(parse_fraction(text).unwrap_err().to_string(), expected);
        }
        assert!(parse_bytes("1e9 GB").is_err());
        assert!(parse_fraction("120%").is_err());
        assert!(parse_rate("0/s").is_err());
        assert!(parse_bytes("9999999999999 TB").is_err());
    }
}
