//! Prints numbers, by one set of rules for tables, sentences, charts and commands.
//!
//! Unless a place asks for a number of decimals, three significant digits are shown and the whole part in full. Units are
//! decimal. A unit is chosen after rounding: 999.996 kB is `1.0 MB`, not `1000.00 kB`.

use std::fmt::Display;

/// Decimals, at most.
pub const MOST_DECIMALS: usize = 9;

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
    with_decimals(value, decimals(value))
}

/// Decimals that show three significant digits, also after the rounding to them.
fn decimals(value: f64) -> usize {
    let size = value.abs();
    if size == 0.0 || !size.is_finite() {
        return 0;
    }
    let decimals = |size: f64| (2 - size.log10().floor() as i64).clamp(0, MOST_DECIMALS as i64) as usize;
    let first = decimals(size);
    let scale = 10f64.powi(first as i32);
    decimals((size * scale).round() / scale)
}

/// Three significant digits without zeros at the end, for axes: `1.5`, `12345`, `1.00e-9`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-5..1e7).contains(&size) {
        return format!("{value:.2e}");
    }
    let places = (2 - size.log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A ratio in three significant digits: `0.0123`, `12.3`, `1840`; near 1, where the first says nothing, four: `1.004`,
/// `0.996`.
pub fn ratio(ratio: f64) -> String {
    let places = match ratio {
        r if r >= 100.0 => 0,
        r if r >= 10.0 => 1,
        r if r >= 0.1 => 2 + usize::from(r < 1.0995),
        r if r >= 1e-6 => (2 - r.log10().floor() as i32).unsigned_abs() as usize,
        0.0 => return "0".to_owned(),
        _ => return format!("{ratio:.1e}"),
    };
    format!("{ratio:.places$}")
}

/// A share in percent, with two decimals at most: `4.1 %`, `3 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

/// A share in percent with so many decimals: `62.1 %`.
pub fn percent_with(share: f64, decimals: usize) -> String {
    with_decimals(100.0 * share, decimals) + " %"
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
    effect((share / unit - 1e-9).ceil() * unit)
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

/// A time: `812 ns`, `1.50 us`, `3.20 ms`, `4.100 s`, `12 min 3 s`.
pub fn nanos(nanos: u64) -> String {
    if nanos >= 120_000_000_000 {
        return format!("{} min {} s", nanos / 60_000_000_000, nanos / 1_000_000_000 % 60);
    }
    largest(nanos, &[("ns", 1.0, 0), ("us", 1e3, 2), ("ms", 1e6, 2), ("s", 1e9, 3)])
}

/// An amount of memory or storage in decimal units, as disks and the write-ups count: `512 B`, `1.50 kB`, `64.0 MB`,
/// `16.00 GB`, `100.00 TB`.
pub fn bytes(bytes: u64) -> String {
    largest(bytes, &[("B", 1.0, 0), ("kB", 1e3, 2), ("MB", 1e6, 1), ("GB", 1e9, 2), ("TB", 1e12, 2)])
}

/// In the largest unit of which it is one at least, when rounded to the decimals of the unit below.
fn largest(value: u64, units: &[(&str, f64, usize)]) -> String {
    let rounded = |factor: f64, decimals: usize| {
        let step = factor / 10f64.powi(decimals as i32);
        (value as f64 / step).round() * step
    };
    let reaches = |at: &usize| *at == 0 || rounded(units[at - 1].1, units[at - 1].2) >= units[*at].1;
    let (name, factor, decimals) = units[(0..units.len()).rfind(reaches).unwrap_or(0)];
    format!("{:.decimals$} {name}", value as f64 / factor)
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

/// `1234567.8` -> `1,234,567.8`; four digits stay together.
pub fn thousands(text: &str) -> String {
    let digits = text.trim_start_matches('-');
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.len() < 5 {
        return text.to_owned();
    }
    let sign = &text[..text.len() - digits.len()];
    let mut out = String::with_capacity(text.len() + whole.len() / 3);
    out.push_str(sign);
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_have_the_largest_unit_that_they_reach() {
        assert_eq!([812, 1_500, 3_200_000, 4_100_000_000].map(nanos), ["812 ns", "1.50 us", "3.20 ms", "4.100 s"]);
        assert_eq!([119_999_999_999, 723_000_000_000].map(nanos), ["120.000 s", "12 min 3 s"]);
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
        let texts: Vec<String> = [1.0, 1.8367, 12.345, 184.2, 0.5432, 0.98765, 0.99999, 0.0123, 0.1].map(ratio).into();
        assert_eq!(texts, ["1.000", "1.84", "12.3", "184", "0.543", "0.988", "1.000", "0.0123", "0.100"]);
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
        assert_eq!(percent_with(0.123, 0), "12 %");
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
}
