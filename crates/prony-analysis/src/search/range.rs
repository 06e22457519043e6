//! The values that a search may give to a factor: `documents=1_000..`, `chunk=10..10000,log`, `pause=0..10 ms`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Beyond this, numbers of 64 bits are not exact.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// The values between two bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The factor, or `factor.setting` for a setting in its levels.
    pub name: String,
    /// The least value, in `unit`.
    pub low: f64,
    /// The greatest; `None` where it is open.
    pub high: Option<f64>,
    /// The unit after the numbers: `ms`, `kB`; empty for plain numbers.
    pub unit: String,
    /// Whether the values are whole numbers: both bounds were written without a decimal point.
    pub whole: bool,
    /// How steps are spaced.
    pub scale: Scale,
}

/// How steps between two bounds are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal differences.
    #[default]
    Linear,
    /// Equal quotients.
    Log,
}

/// Why a text is not a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The text does not have the form of a range.
    #[error("`{0}` is not a range; write `factor=10..10000`, `factor=0..10 ms` or `factor=10..10000,log`")]
    Form(String),
    /// A bound is not a number.
    #[error("`{0}` does not begin with a number of 0 or more")]
    Number(String),
    /// The bounds have two units.
    #[error("the bounds have different units, `{0}` and `{1}`; write both in the same unit")]
    Units(String, String),
    /// The bounds are the wrong way round, or equal.
    #[error("the range of `{0}` is empty: the first bound must be below the second")]
    Empty(String),
    /// A logarithmic range that begins at zero.
    #[error("the range of `{0}` begins at 0, but a logarithmic range must begin above 0")]
    Zero(String),
    /// The text after the comma is not a spacing.
    #[error("`{0}` is not a spacing of steps; write `log` or `linear`")]
    Scale(String),
}

impl Range {
    /// The nearest value that a trial can use: within the bounds, and a whole number if the range has whole numbers,
    /// else with four significant digits.
    pub fn round(&self, value: f64) -> f64 {
        let within = |value: f64| value.clamp(self.low, self.high.unwrap_or(LARGEST));
        let value = within(value);
        // A bound may have more digits than a value: 10.0055 would be rounded to 10.01.
        within(if self.whole { value.round() } else { four_digits(value) })
    }

    /// The value as the file would have it: `500`, `3 ms`.
    pub fn text(&self, value: f64) -> String {
        if self.unit.is_empty() { value.to_string() } else { format!("{value} {}", self.unit) }
    }

    /// The number of a text such as the file has for this factor; `None` where it has another unit, or is none.
    pub fn number(&self, text: &str) -> Option<f64> {
        bound(text).ok().filter(|bound| bound.unit == self.unit).map(|bound| bound.value)
    }

    /// Takes the unit of the file's own value where the range was written without one.
    pub fn adopt_unit(&mut self, own: &str) {
        if self.unit.is_empty()
            && let Ok(bound) = bound(own)
        {
            bound.unit.clone_into(&mut self.unit);
        }
    }

    /// Where the value lies between the bounds: 0 for the least, 1 for the greatest.
    pub fn share(&self, value: f64) -> f64 {
        let high = self.high.unwrap_or(LARGEST);
        match self.scale {
            Scale::Linear => (value - self.low) / (high - self.low),
            Scale::Log => (value / self.low).ln() / (high / self.low).ln(),
        }
    }

    /// The value at this share of the way, as trials can have it.
    pub fn at(&self, share: f64) -> f64 {
        let high = self.high.unwrap_or(LARGEST);
        let share = share.clamp(0.0, 1.0);
        self.round(match self.scale {
            Scale::Linear => self.low + share * (high - self.low),
            Scale::Log => self.low * (high / self.low).powf(share),
        })
    }
}

fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

struct Bound<'t> {
    value: f64,
    unit: &'t str,
    whole: bool,
}

fn bound(text: &str) -> Result<Bound<'_>, RangeError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
    let value = number.parse().ok().filter(|value: &f64| *value <= LARGEST);
    let value = value.ok_or_else(|| RangeError::Number(text.to_owned()))?;
    Ok(Bound { value, unit, whole: !number.contains('.') })
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let form = || RangeError::Form(text.to_owned());
        let (name, rest) = text.split_once('=').ok_or_else(form)?;
        let (bounds, scale) = match rest.split_once(',').map(|(bounds, scale)| (bounds, scale.trim())) {
            None | Some((_, "linear")) => (rest.split(',').next().unwrap_or(rest), Scale::Linear),
            Some((bounds, "log")) => (bounds, Scale::Log),
            Some((_, other)) => return Err(RangeError::Scale(other.to_owned())),
        };
        let (low, high) = bounds.split_once("..").ok_or_else(form)?;
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(form());
        }
        let low = bound(low)?;
        let high = Some(high).filter(|high| !high.trim().is_empty()).map(bound).transpose()?;
        let unit = match &high {
            Some(high) if low.unit.is_empty() => high.unit,
            Some(high) if high.unit.is_empty() || high.unit == low.unit => low.unit,
            Some(high) => return Err(RangeError::Units(low.unit.to_owned(), high.unit.to_owned())),
            None => low.unit,
        };
        if high.as_ref().is_some_and(|high| high.value <= low.value) {
            return Err(RangeError::Empty(name));
        }
        if scale == Scale::Log && low.value == 0.0 {
            return Err(RangeError::Zero(name));
        }
        let whole = low.whole && high.as_ref().is_none_or(|high| high.whole);
        Ok(Self { name, low: low.value, high: high.map(|high| high.value), unit: unit.to_owned(), whole, scale })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}..", self.name, self.text(self.low))?;
        if let Some(high) = self.high {
            f.write_str(&self.text(high))?;
        }
        f.write_str(if self.scale == Scale::Log { ",log" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn ranges_read_as_written() {
        let chunk = range("chunk=10..10_000,log");
        assert_eq!((chunk.low, chunk.high, chunk.whole, chunk.scale), (10.0, Some(10_000.0), true, Scale::Log));
        let pause = range("chunking.pause = 0..10 ms");
        assert_eq!((pause.name.as_str(), pause.unit.as_str()), ("chunking.pause", "ms"));
        assert_eq!(pause.text(3.0), "3 ms");
        let open = range("documents=1_000..");
        assert_eq!((open.high, open.text(open.low)), (None, "1000".to_owned()));
        assert!(!range("share=0.0..1").whole);
        assert_eq!(range("size=1 kB..64 kB,linear").unit, "kB");
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Range>().unwrap_err().to_string();
        assert_eq!(
            error("chunk=10"),
            "`chunk=10` is not a range; write `factor=10..10000`, `factor=0..10 ms` or `factor=10..10000,log`"
        );
        assert_eq!(error("chunk=ten..20"), "`ten` does not begin with a number of 0 or more");
        assert_eq!(
            error("size=1 kB..2 MB"),
            "the bounds have different units, `kB` and `MB`; write both in the same unit"
        );
        assert!(error("chunk=20..10").contains("is empty"));
        assert!(error("chunk=0..10,log").contains("begin above 0"));
        assert!(error("chunk=1..10,cubic").contains("write `log` or `linear`"));
    }

    /// The end was rounded to 10.01, which lies outside.
    #[test]
    fn bounds_with_more_digits_than_a_value_are_not_exceeded() {
        let range = range("pause=0.12344..10.0055");
        assert_eq!([range.round(99.0), range.at(1.0), range.round(0.0)], [10.0055, 10.0055, 0.12344]);
        assert_eq!(range.round(1.23456), 1.235);
    }

    #[test]
    fn a_range_without_unit_takes_that_of_the_file() {
        let mut pause = range("pause=0..10");
        pause.adopt_unit("0 ms");
        assert_eq!((pause.text(4.0), pause.number("0 ms"), pause.number("1 s")), ("4 ms".to_owned(), Some(0.0), None));
    }

    proptest! {
        #[test]
        fn a_share_leads_back_to_its_value(low in 1u32..1000, span in 1u32..1_000_000, share in 0.0f64..=1.0, log: bool) {
            let scale = if log { Scale::Log } else { Scale::Linear };
            let range = Range {
                name: "x".into(), low: f64::from(low), high: Some(f64::from(low + span)), unit: String::new(), whole: true, scale,
            };
            let value = range.at(share);
            prop_assert!(value >= range.low && value <= range.high.unwrap() && value.fract() == 0.0);
            prop_assert_eq!(range.at(range.share(value)), value);
            prop_assert_eq!(range.number(&range.text(value)), Some(value));
            prop_assert_eq!(range.to_string().parse::<Range>().unwrap(), range);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[a=0-9. ,mslog]{0,16}") {
            let _ = text.parse::<Range>();
        }
    }
}
