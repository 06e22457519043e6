//! Prints numbers, by one set of rules for tables, sentences, charts and commands.
//!
//! Unless a place asks for a number of decimals, three significant digits are shown and the whole part in full. Units are
//! decimal. A unit is chosen after rounding: 999.996 kB is `1.0 MB`, not `1000.00 kB`.

use std::fmt::{self, Display};

use crate::units::{BYTES, Bytes, Nanos, Step, TIME, Unit};

/// Decimals, at most.
pub(crate) const MOST_DECIMALS: usize = 9;

/// From here on a number has more digits than a double knows, and than a cell holds.
const LARGEST: f64 = 1e15;

/// With so many decimals, from [`LARGEST`] on with an exponent; a number that rounds to zero has no sign.
pub fn with_decimals(value: f64, decimals: usize) -> String {
    if value.abs() >= LARGEST {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// Three significant digits, and at least the whole part: `0.0123`, `27.0`, `1787`.
pub fn digits(value: f64) -> String {
    let places = |value| places(value, 3).min(MOST_DECIMALS);
    let scale = 10f64.powi(places(value) as i32);
    // Again after the rounding, which may add a digit.
    with_decimals(value, places((value * scale).round() / scale))
}

/// Decimals with which a number has so many significant digits, or more where its whole part has more.
pub(crate) fn places(value: f64, digits: i64) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    usize::try_from(digits - 1 - value.abs().log10().floor() as i64).unwrap_or(0)
}

/// Three significant digits without zeros at the end, for axes: `1.5`, `12345`, `1.00e-9`.
pub fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-5..1e7).contains(&value.abs()) {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.*}", places(value, 3));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Two significant digits, thousands apart: `38,000,000`, `3.8`.
pub fn about(value: f64) -> String {
    let step = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / step).round() * step;
    if rounded < 10.0 { format!("{rounded:.1}") } else { grouped(&format!("{rounded:.0}")) }
}

/// A ratio in three significant digits: `0.0123`, `12.3`, `1840`; near 1, where the first says nothing, four: `1.004`,
/// `0.996`; and as many as it takes to tell it from 1: `1.0003`, since an interval that ends there excludes 1.
pub fn ratio(ratio: f64) -> String {
    let places = match ratio {
        0.0 => return "0".to_owned(),
        r if r < 1e-6 => return format!("{ratio:.1e}"),
        r if (0.999..1.0995).contains(&r) => decimals_beside_zero(r - 1.0, 3),
        r => places(r, 3),
    };
    format!("{ratio:.places$}")
}

/// Decimals, `decimals` at least, with which a number is not shown as zero unless it is.
pub fn decimals_beside_zero(value: f64, decimals: usize) -> usize {
    let is_lost = value != 0.0 && value.abs() < 0.5 * 10f64.powi(-(decimals as i32));
    if is_lost { places(value, 1).min(MOST_DECIMALS) } else { decimals }
}

/// A share in percent, with two decimals at most: `4.1 %`, `3 %`.
pub fn percent(share: f64) -> String {
    percent_up_to(share, 2)
}

/// A share in percent, with so many decimals at most.
pub fn percent_up_to(share: f64, decimals: i32) -> String {
    let scale = 10f64.powi(decimals);
    format!("{} %", (share * (100.0 * scale)).round() / scale)
}

/// A share in percent with so many decimals: `62.1 %`.
pub fn percent_with(share: f64, decimals: usize) -> String {
    percents(share, decimals) + " %"
}

/// The same where the sign is elsewhere: `62.1`.
pub fn percents(share: f64, decimals: usize) -> String {
    with_decimals(100.0 * share, decimals)
}

/// An effect as a share; from 100 % as a factor, since `41607.57 %` is hard to read.
pub fn effect(share: f64) -> String {
    match share {
        share if share < 1.0 => percent(share),
        share if share < 99.0 => format!("a factor of {:.1}", 1.0 + share),
        share => format!("a factor of {:.0}", 1.0 + share),
    }
}

/// An estimated bound of effects, with two digits or more, rounded up: `13 %`, `4.1 %`, `a factor of 2.1`.
pub fn effect_bound(share: f64) -> String {
    let unit = match share {
        share if share < 0.01 => 1e-4,
        share if share < 0.1 => 1e-3,
        share if share < 0.99 => 1e-2,
        share if share < 99.0 => 0.1,
        _ => 1.0,
    };
    effect((share / unit - 1e-9).ceil().max(1.0) * unit)
}

/// An interval of bounds that are formatted already, with the text to put behind the numbers: `2.1 to 7.0 %`, `at most
/// 7.0 %`, `2.1 % or more`.
pub fn interval(low: Option<String>, high: Option<String>, unit: &str) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{low} to {high}{unit}"),
        (None, Some(high)) => format!("at most {high}{unit}"),
        (Some(low), None) => format!("{low}{unit} or more"),
        (None, None) => "no bound yet".to_owned(),
    }
}

/// An interval of shares in whole percents, rounded outwards: `0 to 71 %`.
pub fn shares((low, high): (f64, f64)) -> String {
    format!("{:.0} to {:.0} %", (100.0 * low + 1e-9).floor(), (100.0 * high - 1e-9).ceil())
}

impl Display for Nanos {
    /// `812 ns`, `1.50 us`, `3.20 ms`, `4.100 s`, `12 min 3 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        if nanos >= 120_000_000_000 {
            let seconds = nanos.saturating_add(500_000_000) / 1_000_000_000;
            return write!(f, "{} min {} s", seconds / 60, seconds % 60);
        }
        f.write_str(&largest(nanos, TIME, &[0, 2, 2, 3]))
    }
}

impl Display for Bytes {
    /// In decimal units, as disks and the write-ups count: `512 B`, `1.50 kB`, `64.0 MB`, `16.00 GB`, `100.00 TB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&largest(self.as_bytes(), BYTES, &[0, 2, 1, 2, 2]))
    }
}

/// In the largest unit of which it is one at least, when rounded to the decimals of the unit below.
fn largest(value: u64, units: &[Step], decimals: &[usize]) -> String {
    let rounded = |factor: f64, decimals: usize| {
        let step = factor / 10f64.powi(decimals as i32);
        (value as f64 / step).round() * step
    };
    let reaches = |at: &usize| *at == 0 || rounded(units[at - 1].1, decimals[at - 1]) >= units[*at].1;
    let at = (0..units.len()).rfind(reaches).unwrap_or(0);
    let (name, factor) = units[at];
    format!("{:.*} {name}", decimals[at], value as f64 / factor)
}

/// The largest unit of which a size is so many at least, or the smallest unit.
pub fn fitting(units: &[Step], size: f64, least: f64) -> Step {
    units.iter().copied().rfind(|(_, factor)| size >= factor * least).unwrap_or(units[0])
}

/// A value in its stored unit, with its unit: `3.20 ms`, `64.0 MB`, `12400/s`, `1.53`.
pub fn quantity(value: f64, unit: Unit) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = value.abs().round() as u64;
    match unit {
        // No larger unit is known, and as a whole number it would be another.
        Unit::Nanos if value.abs() >= u64::MAX as f64 => format!("{} s", digits(value / 1e9)),
        Unit::Bytes if value.abs() >= u64::MAX as f64 => format!("{} B", digits(value)),
        Unit::Nanos => format!("{sign}{}", Nanos::from_nanos(whole)),
        Unit::Bytes => format!("{sign}{}", Bytes::from_bytes(whole)),
        Unit::Count if value.fract() == 0.0 => with_decimals(value, 0),
        Unit::Count | Unit::Ratio => digits(value),
        Unit::PerSecond => format!("{}/s", digits(value)),
    }
}

/// A time with three significant digits, in seconds from one on: `48.3 s`, `1500 s`, `12.0 ms`.
pub fn time(time: Nanos) -> String {
    let nanos = time.as_nanos() as f64;
    // The unit is chosen after rounding, so that no time is 1000 us.
    match fitting(&TIME[1..], if nanos < 1e6 { (nanos / 1e3).round() * 1e3 } else { three_digits(nanos) }, 1.0) {
        ("us", factor) => format!("{:.0} us", nanos / factor),
        (unit, factor) => format!("{} {unit}", digits(nanos / factor)),
    }
}

/// A number above zero, rounded to three significant digits.
fn three_digits(value: f64) -> f64 {
    if value <= 0.0 {
        return value;
    }
    let step = 10f64.powf(value.log10().floor() - 2.0);
    (value / step).round() * step
}

/// Bytes with three significant digits, in GB from one on: `16.0 GB`.
pub fn amount(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "-" } else { "" };
    match fitting(&BYTES[1..4], three_digits(bytes.abs()), 1.0) {
        ("kB", _) => format!("{sign}{}", Bytes::from_bytes(bytes.abs().round() as u64)),
        (unit, factor) => format!("{sign}{} {unit}", digits(bytes.abs() / factor)),
    }
}

/// A time in everyday form: `12 s`, `20 min`, `3.5 h`; below ten seconds with decimals.
pub fn span(time: Nanos) -> String {
    match time.as_secs_f64() {
        s if s < 1.0 => time.to_string(),
        s if s < 10.0 && s.fract() > 0.0 => format!("{s:.1} s"),
        s if s <= 90.0 => format!("{} s", s.ceil()),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// So many of a noun whose plural takes an s, or es behind one: `1 trial`, `3 more trials`, `2 processes`.
pub fn count<N: Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    let ending = match noun {
        _ if n == N::from(1) => "",
        noun if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{n} {noun}{ending}")
}

/// "is" of one, "are" of any other number.
pub fn are<N: PartialEq + From<u8>>(n: N) -> &'static str {
    if n == N::from(1) { "is" } else { "are" }
}

/// The first of these texts, and how many more there are: `` `a`, `b` and 3 more variants ``. Separators are those between
/// texts and before the number.
pub fn first_few(mut texts: Vec<String>, most: usize, (between, last): (&str, &str), noun: &str) -> String {
    let rest = texts.len().saturating_sub(most);
    texts.truncate(most);
    let more = if rest > 0 { format!("{last}{}", count(rest, noun)) } else { String::new() };
    format!("{}{more}", texts.join(between))
}

/// `1234567.8` -> `1,234,567.8`; four digits stay together.
pub fn thousands(text: &str) -> String {
    let digits = text.trim_start_matches('-');
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.len() < 5 {
        return text.to_owned();
    }
    format!("{}{}{rest}", &text[..text.len() - digits.len()], grouped(whole))
}

/// `1234567` -> `1,234,567`.
fn grouped(digits: &str) -> String {
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nanos(n: u64) -> String {
        Nanos::from_nanos(n).to_string()
    }

    fn bytes(n: u64) -> String {
        Bytes::from_bytes(n).to_string()
    }

    #[test]
    fn quantity_keeps_the_sign_and_the_fraction_of_a_count() {
        assert_eq!(quantity(-64e6, Unit::Bytes), "-64.0 MB");
        assert_eq!([quantity(20_000.0, Unit::Count), quantity(2.5, Unit::Count)], ["20000", "2.50"]);
        assert_eq!([quantity(151.2, Unit::PerSecond), quantity(1.5e6, Unit::Nanos)], ["151/s", "1.50 ms"]);
        // One of 390 characters were in a cell, and 1e300 bytes were 18446744 TB.
        let units = [Unit::Nanos, Unit::Bytes, Unit::Count, Unit::Ratio, Unit::PerSecond];
        let huge = units.map(|unit| quantity(-2e292, unit));
        assert_eq!(huge, ["-2.00e283 s", "-2.00e292 B", "-2.00e292", "-2.00e292", "-2.00e292/s"]);
        assert_eq!(quantity(1e14, Unit::Count), "100000000000000");
    }

    #[test]
    fn rounding_that_adds_a_digit_takes_a_decimal_away() {
        assert_eq!([27.04, 1787.3, 0.0123, 9.996, 1e-12].map(digits), ["27.0", "1787", "0.0123", "10.0", "0"]);
    }

    #[test]
    fn three_digits_of_times_and_bytes() {
        let times = [0, 900_400, 12_000_000, 48_300_000_000, 1_500_000_000_000];
        assert_eq!(times.map(|n| time(Nanos::from_nanos(n))), ["0 us", "900 us", "12.0 ms", "48.3 s", "1500 s"]);
        assert_eq!(time(Nanos::from_nanos(999_700)), "1.00 ms", "not 1000 us");
        assert_eq!(time(Nanos::from_nanos(999_970_000)), "1.00 s", "not 1000 ms");
        assert_eq!([512.0, 1500.0, 64e6, 16e9].map(amount), ["512 B", "1.50 kB", "64.0 MB", "16.0 GB"]);
        assert_eq!([-512.0, -64e6, 999.97e6].map(amount), ["-512 B", "-64.0 MB", "1.00 GB"]);
    }

    #[test]
    fn extrapolated_numbers_have_two_digits() {
        let texts: Vec<String> = [3.84, 9.97, 38.4, 149.0, 1523.0, 38_412_345.0].map(about).into();
        assert_eq!(texts, ["3.8", "10", "38", "150", "1,500", "38,000,000"]);
    }

    #[test]
    fn quantities_have_the_largest_unit_that_they_reach() {
        assert_eq!([812, 1_500, 3_200_000, 4_100_000_000].map(nanos), ["812 ns", "1.50 us", "3.20 ms", "4.100 s"]);
        assert_eq!(
            [119_999_999_999, 150_000_000_000, 179_999_999_999, 723_000_000_000].map(nanos),
            ["120.000 s", "2 min 30 s", "3 min 0 s", "12 min 3 s"]
        );
        assert_eq!(
            [512, 1_500, 64_000_000, 16_000_000_000, 100_000_000_000_000].map(bytes),
            ["512 B", "1.50 kB", "64.0 MB", "16.00 GB", "100.00 TB"]
        );
    }

    #[test]
    fn unit_is_chosen_after_rounding() {
        assert_eq!(
            [999_994, 999_995, 999_949_999, 999_950_000].map(bytes),
            ["999.99 kB", "1.0 MB", "999.9 MB", "1.00 GB"]
        );
        assert_eq!([999_994, 999_995].map(nanos), ["999.99 us", "1.00 ms"]);
    }

    #[test]
    fn nouns_behind_one_have_no_ending() {
        assert_eq!([0, 1, 2].map(|n| count(n, "more trial")), ["0 more trials", "1 more trial", "2 more trials"]);
        assert_eq!([1.0, 3.0].map(|n| count(n, "process")), ["1 process", "3 processes"]);
    }

    #[test]
    fn ratios_have_three_digits_and_near_one_four() {
        let texts: Vec<String> = [1.0, 1.8367, 12.345, 184.2, 0.5432, 0.98765, 0.99998, 0.0123, 0.1].map(ratio).into();
        assert_eq!(texts, ["1.000", "1.84", "12.3", "184", "0.543", "0.988", "0.99998", "0.0123", "0.100"]);
        let near_one = [1.000_312, 0.999_7, 1.000_6, 0.9996, 1.0 + 1e-12];
        assert_eq!(near_one.map(ratio), ["1.0003", "0.9997", "1.001", "0.9996", "1.000000000"]);
        assert_eq!([0.0, 0.04, 0.051, 0.000_2].map(|value| decimals_beside_zero(value, 1)), [1, 2, 1, 4]);
        assert_eq!([1.0041, 1.0994, 1.0996, 0.9961].map(ratio), ["1.004", "1.099", "1.10", "0.996"]);
        assert_eq!((ratio(0.0), ratio(2.5e-9)), ("0".to_owned(), "2.5e-9".to_owned()));
    }

    #[test]
    fn bounds_of_effects_are_rounded_up() {
        let shown = [0.1249, 0.13, 0.0304, 0.04, 0.099, 0.00524, 1.04, 41.7].map(effect_bound);
        assert_eq!(shown, ["13 %", "13 %", "3.1 %", "4 %", "9.9 %", "0.53 %", "a factor of 2.1", "a factor of 42.7"]);
    }

    #[test]
    fn large_effects_are_factors() {
        assert_eq!([0.041, 0.5, 1.84, 416.0757].map(effect), ["4.1 %", "50 %", "a factor of 2.8", "a factor of 417"]);
    }

    #[test]
    fn shares_have_the_decimals_that_are_asked_for_and_nought_has_no_sign() {
        let one = |share| percent_with(share, 1);
        assert_eq!([0.621_4, 1.0, -0.000_2, -9.0].map(one), ["62.1 %", "100.0 %", "0.0 %", "-900.0 %"]);
        assert_eq!((percent_with(0.123, 0), percents(0.0, 1)), ("12 %".to_owned(), "0.0".to_owned()));
        assert_eq!([2, 4].map(|decimals| percent_up_to(0.000_01, decimals)), ["0 %", "0.001 %"]);
    }

    #[test]
    fn only_one_is_no_plural() {
        assert_eq!([0, 1, 3].map(|n: u32| count(n, "trial")), ["0 trials", "1 trial", "3 trials"]);
    }

    #[test]
    fn open_ends_of_intervals_are_written() {
        let text = |low: Option<u8>, high: Option<u8>| {
            interval(low.map(|low| low.to_string()), high.map(|high| high.to_string()), " %")
        };
        assert_eq!([text(Some(2), Some(7)), text(None, Some(7))], ["2 to 7 %", "at most 7 %"]);
        assert_eq!([text(Some(2), None), text(None, None)], ["2 % or more", "no bound yet"]);
    }

    #[test]
    fn axis_numbers_have_no_zeros_at_the_end() {
        assert_eq!([short(12345.0), short(0.5), short(1e-9)], ["12345", "0.5", "1.00e-9"]);
    }

    #[test]
    fn thousands_are_parted() {
        for (plain, parted) in
            [("1234", "1234"), ("-12345.5", "-12,345.5"), ("1234567", "1,234,567"), ("100000", "100,000")]
        {
            assert_eq!(thousands(plain), parted);
        }
    }

    proptest! {
        #[test]
        fn digits_keep_three_significant_ones(value in 0.001f64..1e9) {
            let back: f64 = digits(value).parse().unwrap();
            prop_assert!((back / value - 1.0).abs() <= 0.005 + 1e-12, "{} {}", value, back);
        }
    }

    #[test]
    fn effect_of_zero_has_no_sign() {
        assert!(!effect_bound(0.0).starts_with('-'), "{}", effect_bound(0.0));
    }
}
