//! Types for quantities such as times and sizes: the unit is part of the constructor's name.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number;

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

impl fmt::Display for Nanos {
    /// As [`nanos`](crate::number::nanos): `3.20 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&number::nanos(self.0))
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

impl fmt::Display for Bytes {
    /// As [`bytes`](crate::number::bytes): `64.0 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&number::bytes(self.0))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The number cannot be read.
    #[error("`{0}` does not begin with a number")]
    Number(String),
    /// The unit is not known.
    #[error("`{unit}` is not a unit of {kind}; known: {known}")]
    Unit {
        /// The unit as written.
        unit: String,
        /// What was to be read: `time`, `memory` ...
        kind: &'static str,
        /// The units that are known.
        known: &'static str,
    },
    /// The value does not fit.
    #[error("`{0}` is out of range")]
    Range(String),
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

fn scaled(text: &str, scale: f64, value: f64) -> Result<u64, QuantityError> {
    let n = (value * scale).round();
    if n <= u64::MAX as f64 { Ok(n as u64) } else { Err(QuantityError::Range(text.to_owned())) }
}

/// Reads a time such as `5 s`, `3 ms`, `20 min`, `1.5h`.
pub fn parse_time(text: &str) -> Result<Nanos, QuantityError> {
    let (value, unit) = split(text)?;
    let scale = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        _ => {
            return Err(QuantityError::Unit { unit: unit.to_owned(), kind: "time", known: "ns, us, ms, s, min, h" });
        }
    };
    scaled(text, scale, value).map(Nanos)
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
    let (value, unit) = split(text)?;
    let scale = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => {
            return Err(QuantityError::Unit {
                unit: unit.to_owned(),
                kind: "memory or storage",
                known: "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
            });
        }
    };
    scaled(text, scale, value).map(Bytes)
}

/// Reads a rate such as `5000/s` or `200 per second`; a bare number is per second.
pub fn parse_rate(text: &str) -> Result<PerSecond, QuantityError> {
    let (value, unit) = split(text)?;
    let scale = match unit {
        "" | "/s" | "per second" => 1.0,
        "/min" | "per minute" => 1.0 / 60.0,
        _ => {
            return Err(QuantityError::Unit { unit: unit.to_owned(), kind: "rate", known: "/s, /min" });
        }
    };
    PerSecond::new(value * scale).ok_or_else(|| QuantityError::Range(text.to_owned()))
}

/// Reads a share such as `60%`; a bare number from 0 to 1 is a share too.
pub fn parse_fraction(text: &str) -> Result<Fraction, QuantityError> {
    let (value, unit) = split(text)?;
    let share = match unit {
        "%" => value / 100.0,
        "" => value,
        _ => return Err(QuantityError::Unit { unit: unit.to_owned(), kind: "share", known: "%" }),
    };
    Fraction::new(share).ok_or_else(|| QuantityError::Range(text.to_owned()))
}

/// A value in its stored unit, with its unit: `3.20 ms`, `64.0 MB`, `12400/s`, `1.53`.
pub fn quantity(value: f64, unit: Unit) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = value.abs().round() as u64;
    match unit {
        // No larger unit is known, and as a whole number it would be another.
        Unit::Nanos if value.abs() >= u64::MAX as f64 => format!("{} s", number::digits(value / 1e9)),
        Unit::Bytes if value.abs() >= u64::MAX as f64 => format!("{} B", number::digits(value)),
        Unit::Nanos => format!("{sign}{}", number::nanos(whole)),
        Unit::Bytes => format!("{sign}{}", number::bytes(whole)),
        Unit::Count if value.fract() == 0.0 => number::with_decimals(value, 0),
        Unit::Count | Unit::Ratio => number::digits(value),
        Unit::PerSecond => format!("{}/s", number::digits(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_written() {
        assert_eq!(parse_time("3 ms"), Ok(Nanos::from_millis(3)));
        assert_eq!(parse_time("1.5h"), Ok(Nanos::from_secs(5400)));
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
        assert!(matches!(parse_time("3"), Err(QuantityError::Unit { .. })));
        assert!(matches!(parse_time("3 sec"), Err(QuantityError::Unit { .. })));
        assert!(matches!(parse_bytes("-1 B"), Err(QuantityError::Range(_))));
        assert!(parse_bytes("1e9 GB").is_err());
        assert!(parse_fraction("120%").is_err());
        assert!(parse_rate("0/s").is_err());
        assert!(parse_bytes("9999999999999 TB").is_err());
    }

    #[test]
    fn quantities_print_with_their_unit() {
        assert_eq!(Nanos::from_micros(1500).to_string(), "1.50 ms");
        assert_eq!(Nanos::from_secs(150).to_string(), "2 min 30 s");
        assert_eq!(Bytes::from_bytes(16_000_000_000).to_string(), "16.00 GB");
    }

    #[test]
    fn quantity_keeps_the_sign_and_the_fraction_of_a_count() {
        assert_eq!(quantity(-64e6, Unit::Bytes), "-64.0 MB");
        assert_eq!([quantity(20_000.0, Unit::Count), quantity(2.5, Unit::Count)], ["20000", "2.50"]);
        assert_eq!(quantity(151.2, Unit::PerSecond), "151/s");
        // One of 390 characters stood in a cell, and 1e300 bytes were 18446744 TB.
        let units = [Unit::Nanos, Unit::Bytes, Unit::Count, Unit::Ratio, Unit::PerSecond];
        let huge = units.map(|unit| quantity(-2e292, unit));
        assert_eq!(huge, ["-2.00e283 s", "-2.00e292 B", "-2.00e292", "-2.00e292", "-2.00e292/s"]);
        assert_eq!(quantity(1e14, Unit::Count), "100000000000000");
    }
}
