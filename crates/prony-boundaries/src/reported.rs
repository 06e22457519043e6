//! Reads metrics from the output lines of a phase, by the named groups of its pattern `read`. Pure functions.
//!
//! A program may print lines of several kinds, which one pattern matches by alternatives: each line then reports some of
//! the metrics, and the last line of each kind counts. A line that reports any metric again takes the place of all that the
//! earlier line reported, so that the errors of one round are never set beside the time of the next; and what cannot be read
//! as a number is missing, whatever an earlier line said.

use std::collections::BTreeMap;
use std::ops::Range;

use prony_model::metric::{Metric, MetricKey};
use prony_model::program::{DIGEST_GROUP, GroupMeaning, group_meaning};
use prony_model::reading::Reading;
use prony_model::record::MetricKeyText;
use prony_model::units::{Nanos, Unit};
use regex::{Captures, Regex};

use crate::order::Written;

/// Characters of a text that are quoted in a reason.
const QUOTED: usize = 40;

/// The lines that count: those whose metrics no later line reports again.
#[derive(Clone, Debug, Default)]
pub struct Lines(Vec<Line>);

/// What one line reports.
#[derive(Clone, Debug, Default)]
struct Line {
    readings: Vec<(MetricKey, Reading<f64>)>,
    /// How far each may be off because of its printed digits, where it is not exact.
    resolution: BTreeMap<MetricKeyText, f64>,
    digest: Option<String>,
    written: Written,
}

impl Lines {
    /// Takes a line, `read`, that the pattern matched. Returns whether it may have been written before one that it replaces.
    pub(super) fn add(&mut self, pattern: &Regex, captures: &Captures<'_>, read: &str, written: Written) -> bool {
        let mut line = Line { written, ..Line::default() };
        for name in pattern.capture_names().flatten() {
            let Some(found) = captures.name(name) else { continue };
            let text = found.as_str();
            if name == DIGEST_GROUP {
                line.digest = Some(text.to_owned());
            } else if let Some(meaning) = group_meaning(name) {
                let matched = captures.get_match().range();
                let whole = whole_number(read, found.range(), &matched);
                let reading = if whole.strip_prefix('+').unwrap_or(whole) != text.strip_prefix('+').unwrap_or(text) {
                    part_of(whole, text)
                } else {
                    match of_another_unit(&read[found.end()..], meaning) {
                        Some(why) => Reading::failed(why),
                        None => amount(meaning, text),
                    }
                };
                let unit = meaning.key.metric.unit();
                // Whole bytes are a count.
                let is_exact = unit == Unit::Count || unit == Unit::Bytes && meaning.scale == 1.0 && is_whole(text);
                let error = digit_error(text) * meaning.scale;
                // `0e999` is 0, and may be off by more than any number.
                if reading.measured().is_some() && !is_exact && error.is_finite() {
                    line.resolution.insert(MetricKeyText(meaning.key), error);
                }
                line.readings.push((meaning.key, reading));
            }
        }
        let replaced = self.0.extract_if(.., |earlier| line.replaces(earlier));
        let unknown = replaced.fold(false, |unknown, earlier| unknown | written.may_precede(&earlier.written));
        self.0.push(line);
        unknown
    }

    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether no line matched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was reported of a metric; `None` if nothing was.
    pub fn reading(&self, key: MetricKey) -> Option<&Reading<f64>> {
        self.0.iter().find_map(|line| line.reading(key))
    }

    /// The largest rounding error of each value by the digits that were printed, in the metric's unit; counts are
    /// exact.
    pub fn resolution(&self) -> BTreeMap<MetricKeyText, f64> {
        self.0.iter().flat_map(|line| line.resolution.clone()).collect()
    }

    /// An instant at which the last line that reports such a metric was not there; `None` where none does.
    pub fn last(&self, such: impl Fn(MetricKey) -> bool) -> Option<Nanos> {
        let of_it = self.0.iter().filter(|line| line.readings.iter().any(|(key, _)| such(*key)));
        of_it.map(|line| line.written.earliest).max()
    }

    /// The digest of the phase's answer, where one was reported.
    pub fn digest(&self) -> Option<&String> {
        self.0.iter().find_map(|line| line.digest.as_ref())
    }
}

impl Line {
    fn reading(&self, key: MetricKey) -> Option<&Reading<f64>> {
        self.readings.iter().rfind(|(own, _)| *own == key).map(|(_, reading)| reading)
    }

    /// Whether this line reports again any metric that an earlier line reported. A line without any group replaces
    /// every line: what it was to report is unknown.
    fn replaces(&self, earlier: &Self) -> bool {
        let digest = self.digest.is_some() && earlier.digest.is_some();
        let empty = self.digest.is_none() && self.readings.is_empty();
        empty || digest || self.readings.iter().any(|(key, _)| earlier.reading(*key).is_some())
    }
}

/// The number in a line of which a part was matched: digits around it belong to it, an exponent behind it, and signs, points and
/// separators that the pattern as a whole has not `matched`.
fn whole_number<'l>(line: &'l str, part: Range<usize>, matched: &Range<usize>) -> &'l str {
    let bytes = line.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|byte| any.contains(byte)) && !matched.contains(&at);
    let is_part = |at: usize| is(at, b".,_:");
    let (mut begin, mut end) = (part.start, part.end);
    if digit(begin) || bytes.get(begin) == Some(&b'.') {
        let exponent = |at: usize| matches!(bytes.get(at), Some(b'e' | b'E'));
        let sign = |at: usize| matches!(bytes.get(at), Some(b'-' | b'+'));
        let before = |at: usize, back: usize| at.checked_sub(back);
        while let Some(at) = before(begin, 1).filter(|at| {
            let behind_digit = |back| before(begin, back).is_some_and(digit);
            digit(*at)
                || (is_part(*at) || exponent(*at) || is(*at, b"hms")) && behind_digit(2)
                || sign(*at) && before(begin, 2).is_some_and(exponent) && behind_digit(3)
        }) {
            begin = at;
        }
        // Not the hyphen of a range or a word, such as `1-2` or `p-99`.
        let free = begin < 2 || bytes[begin - 2].is_ascii_whitespace() || b"=:([".contains(&bytes[begin - 2]);
        begin -= usize::from(begin > 0 && free && is(begin - 1, b"-+"));
    }
    if end > 0 && (digit(end - 1) || bytes[end - 1] == b'.') {
        while digit(end) || is_part(end) && digit(end + 1) {
            end += 1;
        }
        if bytes.get(end).is_some_and(|byte| matches!(byte, b'e' | b'E')) {
            let signed = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
            if digit(end + 1 + signed) {
                end += 1 + signed;
                while digit(end) {
                    end += 1;
                }
            }
        }
    }
    &line[begin..end]
}

/// Units by their names, without regard to case: those of times, of bytes, and multiples of counts and of rates.
type Units = &'static [(&'static [&'static str], f64)];

const TIMES: Units = &[
    (&["ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"], 1.0),
    (&["us", "usec", "usecs", "µs", "μs", "micros", "microsecond", "microseconds"], 1e3),
    (&["ms", "msec", "msecs", "millis", "millisecond", "milliseconds"], 1e6),
    (&["s", "sec", "secs", "second", "seconds"], 1e9),
    (&["m", "min", "mins", "minute", "minutes"], 60e9),
    (&["h", "hr", "hrs", "hour", "hours"], 3600e9),
];

const SIZES: Units = &[
    (&["b", "byte", "bytes"], 1.0),
    (&["k", "kb"], 1e3),
    (&["k", "kb", "kib"], 1024.0),
    (&["m", "mb"], 1e6),
    (&["m", "mb", "mib"], 1_048_576.0),
    (&["g", "gb"], 1e9),
    (&["g", "gb", "gib"], 1_073_741_824.0),
    (&["t", "tb", "tib"], 1e12),
];

/// Directly behind a count.
const MULTIPLES: Units = &[(&["k"], 1e3), (&["m"], 1e6), (&["g"], 1e9)];

/// Behind a rate: `1.2k ops/s`, `1.2 M req/s`, `1.2 Mops/s`.
const MULTIPLES_OF_RATES: Units = &[
    (&["k", "kops", "kreq", "kreqs", "krps", "kqps", "ktps", "kiops"], 1e3),
    (&["m", "mops", "mreq", "mreqs", "mrps", "mqps", "mtps", "miops"], 1e6),
    (&["g", "gops"], 1e9),
];

/// Why a number is none of its group's unit: another one follows, or a further part in another unit.
fn of_another_unit(behind: &str, meaning: GroupMeaning) -> Option<String> {
    let spaced = behind.starts_with(char::is_whitespace);
    let units = match meaning.key.metric.unit() {
        Unit::Nanos => TIMES,
        Unit::Bytes => SIZES,
        Unit::Count if !spaced => MULTIPLES,
        Unit::PerSecond => MULTIPLES_OF_RATES,
        _ => return None,
    };
    let word = |text: &str| text[..text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len())].to_owned();
    let scales = |word: &str| -> Vec<f64> {
        let of = units.iter().filter(|(names, _)| names.iter().any(|name| name.eq_ignore_ascii_case(word)));
        of.map(|(_, scale)| *scale).collect()
    };
    let behind = behind.trim_start();
    let unit = word(behind);
    let known = scales(&unit);
    if known.is_empty() {
        return None;
    }
    // Of `5.1 min 3.2 max` the word is the name of the number, of `5 min 3 s` its unit.
    let rest = behind[unit.len()..].trim_start();
    let next = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let continues = next.len() < rest.len() && !scales(&word(next.trim_start())).is_empty();
    if next.len() < rest.len() && !continues && spaced {
        return None;
    }
    let fits = known.contains(&meaning.scale) && !(continues && meaning.key.metric.unit() == Unit::Nanos);
    (!fits).then(|| format!("`{unit}` follows the number, which is not the unit of its group, or not all of the time"))
}

/// Why a part of a number is none.
fn part_of(whole: &str, part: &str) -> Reading<f64> {
    Reading::failed(format!(
        "the group matched only `{}` of `{}`: match the whole number, or with the pattern what separates it",
        quoted(part),
        quoted(whole)
    ))
}

/// A number that a program reported, in its metric's unit. No metric that it may report is below 0 or, in that unit, beyond
/// every number, and no work takes no time: its clock, or the digits that it prints, are too coarse.
fn amount(meaning: GroupMeaning, text: &str) -> Reading<f64> {
    let metric = meaning.key.metric;
    let is_count = |n: f64| metric.unit() != Unit::Count || n.fract() == 0.0;
    let counts = |n: &f64| n.is_finite() && is_count(*n) && (*n > 0.0 || (*n == 0.0 && metric != Metric::Time));
    let number = without_separators(text).and_then(|digits| digits.parse::<f64>().ok());
    let number = number.map(|number| number * meaning.scale).filter(counts);
    let reported = || format!("the program reported the invalid value `{}`", quoted(text));
    match number {
        // No count has a fraction.
        Some(_) if metric.unit() != Unit::Count && is_ambiguous(text) => Reading::failed(format!(
            "{}: its comma may separate thousands or be a decimal comma; print numbers without commas",
            reported()
        )),
        Some(number) => Reading::Measured(number),
        None => Reading::failed(reported()),
    }
}

/// Whether a comma may as well be a decimal comma. Two of them can only separate thousands, but are refused too: a program
/// prints them only if its value is large, and a metric of which only large values were read would be biased.
fn is_ambiguous(text: &str) -> bool {
    text.contains(',') && !text.contains('.')
}

/// Whether a number has neither a fraction nor an exponent.
fn is_whole(text: &str) -> bool {
    !text.contains(['.', 'e', 'E'])
}

/// The digits of a number without what separates groups of three: commas, or underscores, before a decimal point; `None`
/// where they separate anything else. A first group of `0` is that of a decimal comma.
fn without_separators(text: &str) -> Option<String> {
    let Some(separator) = text.chars().find(|c| matches!(c, ',' | '_')) else { return Some(text.to_owned()) };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
    let mut groups = whole.split(separator);
    let first = groups.next()?;
    let begins = matches!(first.len(), 1..=3) && is_number(first) && !first.starts_with('0');
    let is_grouped = begins && groups.all(|group| group.len() == 3 && is_number(group)) && is_number(fraction);
    is_grouped.then(|| text.replace(separator, ""))
}

/// How far a number may be off because of its printed digits: 0.05 of `0.1`, 500 of `1e3`, to which programs round; 1 of `20`, since
/// division of whole numbers cuts off what is left, and so do the two clocks of a difference.
fn digit_error(text: &str) -> f64 {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    let units = if is_whole(text) { 1.0 } else { 0.5 };
    units * 10f64.powi(exponent.parse::<i32>().unwrap_or(0).saturating_sub(decimals))
}

/// The begin of a text, control characters escaped.
fn quoted(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let begin: String = text.chars().take(QUOTED).map(escaped).collect();
    if text.chars().nth(QUOTED).is_some() { format!("{begin}...") } else { begin }
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::*;

    /// What is known of the metrics after these lines: a number, a reason, or nothing.
    fn after(pattern: &str, lines: &[&str], keys: &[&str]) -> Vec<String> {
        let pattern = Regex::new(pattern).unwrap();
        let mut all = Lines::default();
        lines
            .iter()
            .for_each(|line| assert!(!all.add(&pattern, &pattern.captures(line).unwrap(), line, Written::default())));
        let of = |key: &&str| match all.reading(key.parse().unwrap()) {
            Some(Reading::Measured(number)) => number.to_string(),
            Some(Reading::Missing(why)) => why.to_string(),
            None => "-".to_owned(),
        };
        keys.iter().map(of).collect()
    }

    #[test]
    fn text_that_is_no_number_is_missing_also_after_a_line_with_one() {
        let found = after(r"took (?<time>\S*)", &["took 0.5", "took 500ms"], &["time"]);
        assert_eq!(found, ["the program reported the invalid value `500ms`"]);
        assert_eq!(after(r"took (?<time>\S*)", &["took 500ms", "took 0.5"], &["time"]), ["500000000"]);
        assert_eq!(after(r"took (?<time>\S*)", &["took "], &["time"]), ["the program reported the invalid value ``"]);
        let long = format!("took \u{1b}[1m{}", "9".repeat(60));
        let found = after(r"took (?<time>.*)", &[&long], &["time"]).remove(0);
        assert_eq!(found, format!("the program reported the invalid value `\\u{{1b}}[1m{}...`", "9".repeat(36)));
    }

    /// What a line says by a pattern of one group.
    fn figure(pattern: &str, text: &str) -> String {
        let pattern = Regex::new(pattern).unwrap();
        let mut all = Lines::default();
        assert!(!all.add(&pattern, &pattern.captures(text).unwrap(), text, Written::default()));
        match all.0[0].readings[0].1.clone() {
            Reading::Measured(number) => number.to_string(),
            Reading::Missing(why) => why.to_string(),
        }
    }

    fn another_unit(unit: &str) -> String {
        format!("`{unit}` follows the number, which is not the unit of its group, or not all of the time")
    }

    /// `1.2k ops/s` was a rate of 1.2, less than `980 ops/s`; a tab or two blanks hid a unit.
    #[test]
    fn multiples_of_rates_and_units_behind_any_blanks_are_noticed() {
        let unit = another_unit;
        for (pattern, text, expected) in [
            (r"rate (?<rate>[\d.]+)", "rate 980 ops/s", "980".into()),
            (r"rate (?<rate>[\d.]+)", "rate 1.2k ops/s", unit("k")),
            (r"rate (?<rate>[\d.]+)", "rate 1.2 M ops/s", unit("M")),
            (r"rate (?<rate>[\d.]+)", "rate 1.2 Mops/s", unit("Mops")),
            (r"took (?<time>[\d.]+)", "took 900\tms", unit("ms")),
            (r"took (?<time>[\d.]+)", "took 900  ms", unit("ms")),
            (r"took (?<time>[\d.]+)", "took 900 millisecond", unit("millisecond")),
            (r"took (?<time>[\d.]+)", "took 900 millis", unit("millis")),
            (r"took (?<time>[\d.]+)", "took 9  seconds", "9000000000".into()),
            (r"heap (?<heap_used_mb>\d+)", "heap 1 TB", unit("TB")),
        ] {
            assert_eq!(figure(pattern, text), expected, "{pattern} {text}");
        }
    }

    /// `1,234 sec` was read as 234 s, `1e-3 sec` as 3 s, `took 1:30` as 1 s, and `900 ms` as 900 s.
    #[test]
    fn parts_of_numbers_and_other_units_are_no_figures() {
        let of = figure;
        let part = |part: &str, whole: &str| {
            format!(
                "the group matched only `{part}` of `{whole}`: match the whole number, or with the pattern what separates it"
            )
        };
        let unit = another_unit;
        for (pattern, text, expected) in [
            (r"took (?<time>[\d.]+)", "took 1m30.5s", unit("m")),
            (r"(?<time>[\d.]+)s$", "took 1m30.5s", part("30.5", "1m30.5")),
            (r"took (?<time>[\d.]+)", "took 5m", unit("m")),
            (r"took (?<time>[\d.]+)", "took 900 USEC", unit("USEC")),
            (r"took (?<time>[\d.]+)", "took 5 s 3 ms", unit("s")),
            (r"avg (?<time>[\d.]+)", "avg 5.1 min 3.2 max", "5100000000".into()),
            (r"ops (?<operations>\d+)", "ops 152k", unit("k")),
            (r"ops (?<operations>\d+)", "ops 152 k", "152".into()),
            (r"heap (?<heap_used_mb>\d+)", "heap 12 MB, 3 GB in all", "12000000".into()),
            (r"heap (?<heap_used_mb>\d+)", "heap 12 kB", unit("kB")),
            (r"(?<time>[\d.]+)", "+5 s", "5000000000".into()),
            (r"(?<time>[\d.]+) sec", "took 1,234 sec", part("234", "1,234")),
            (r"(?<time>[\d.]+) sec", "1e-3 sec", part("3", "1e-3")),
            (r"(?<time>[\d.]+)", "1e-3 sec", part("1", "1e-3")),
            (r"(?<time>[\d.]+)", "-2.0", part("2.0", "-2.0")),
            (r"took (?<time>[\d.]+)", "took 1:30", part("1", "1:30")),
            (r"ops (?<operations>\d+)", "ops 1e6", part("1", "1e6")),
            (r"ops (?<operations>\d+)", "ops 1_000", part("1", "1_000")),
            (r"ops (?<operations>\d)", "ops 12", part("1", "12")),
            (r"took (?<time>[\d.]+)", "took 900 ms", unit("ms")),
            (r"took (?<time_ms>[\d.]+)", "took 9s", unit("s")),
            (r"took (?<time_ms>[\d.]+)", "took 2.5 ms.", "2500000".into()),
            (r"took (?<time>[\d.]+)", "took 2.5 s, all", "2500000000".into()),
            // What the pattern has matched around the group separates.
            (r"put,(?<operations>\d+),", "put,12,3.5", "12".into()),
            (r"(?<operations>\d+) ops", "p-99 12 ops", "12".into()),
            (r"(?<operations>\d+) ops", "a-12 ops", "12".into()),
            (r"(?<operations>\d+)\.", "12. done", "12".into()),
            (r"(?<operations>\d+)", "12, 13", "12".into()),
        ] {
            assert_eq!(of(pattern, text), expected, "{pattern} {text}");
        }
        assert!(
            of(r"(?<operations>\S+) ops", "1.234 ops").contains("invalid value `1.234`"),
            "no count has a fraction"
        );
    }

    /// A decimal comma was taken for a separator of thousands: 0,020 ms for 20.
    #[test]
    fn separators_are_between_groups_of_three_digits() {
        let of = |group: &str, text: &str| {
            let pattern = Regex::new(&format!("^(?<{group}>.*)$")).unwrap();
            let mut all = Lines::default();
            assert!(!all.add(&pattern, &pattern.captures(text).unwrap(), text, Written::default()));
            let key = group_meaning(group).unwrap().key;
            all.reading(key).unwrap().measured().copied()
        };
        let numbers = [
            ("1_234_567", 1_234_567.0),
            ("1,234.5", 1234.5),
            ("12_345", 12_345.0),
            ("999_000.25", 999_000.25),
            ("1e3", 1000.0),
            ("0.020", 0.020),
        ];
        for (text, number) in numbers {
            let whole = Some(number).filter(|number: &f64| number.fract() == 0.0);
            assert_eq!((of("time_ns", text), of("operations", text)), (Some(number), whole), "{text}");
        }
        let none = [
            "0,020",
            "0,020,000",
            "1,5",
            "1,50",
            "12,34",
            "1234,567",
            "1,2345",
            ",123",
            "1,",
            "1,,000",
            "1_0",
            "_1",
            "1_",
            "0_000",
            "1,000_000",
            "1,000.5,5",
            "1,000e3",
            "1.000,5",
            "1.5,000",
            "+1,000",
            "1.000.000",
        ];
        for text in none {
            assert_eq!([of("time_ns", text), of("operations", text)], [None; 2], "{text}");
        }
        assert_eq!([of("operations", "1,500"), of("rows", "12,000,000")], [Some(1500.0), Some(12_000_000.0)]);
        assert_eq!([of("time_ns", "1,500"), of("rate", "1,500"), of("written_kb", "1,500")], [None; 3]);
        assert_eq!([of("time_us", "998,112"), of("time_us", "1,003,455")], [None; 2], "of large and small ones alike");
        let found = after("(?<time>.*)", &["1,500"], &["time"]).remove(0);
        assert!(
            found.starts_with("the program reported the invalid value `1,500`: its comma may separate thousands"),
            "{found}"
        );
    }

    #[test]
    fn last_line_of_each_kind_counts_and_lines_of_one_kind_are_not_mixed() {
        let kinds = r"^took (?<time>\S+)|^(?<operations>\d+) done(, (?<errors>\d+) failed)?";
        let keys = ["time", "operations", "errors"];
        let lines = ["took 1", "5 done, 2 failed", "took 3"];
        assert_eq!(after(kinds, &lines, &keys), ["3000000000", "5", "2"], "another kind leaves it alone");
        let lines = ["5 done, 2 failed", "took 3", "7 done"];
        assert_eq!(after(kinds, &lines, &keys), ["3000000000", "7", "-"], "the errors were those of the earlier round");
        let found = after(r"errors:( (?<errors>\d+))?", &["errors: 3", "errors:"], &["errors"]);
        assert_eq!(found, ["-"]);
    }

    #[test]
    fn last_printed_digit_is_the_resolution() {
        for (text, error) in
            [("0.1", 0.05), ("0.100", 5e-4), ("20", 1.0), ("1_000.5", 0.05), ("1e3", 500.0), ("1.5e-2", 5e-4)]
        {
            assert!((digit_error(text) / error - 1.0).abs() < 1e-9, "{text}");
        }
        let pattern = Regex::new(r"(?<time_ms>\S+) ms, (?<operations>\d+)").unwrap();
        let mut all = Lines::default();
        let lines = ["0.125 ms, 7", "0.1 ms, 8"];
        lines
            .iter()
            .for_each(|line| assert!(!all.add(&pattern, &pattern.captures(line).unwrap(), line, Written::default())));
        let found: Vec<(String, f64)> = all.resolution().iter().map(|(key, half)| (key.0.to_string(), *half)).collect();
        assert_eq!(found, [("time".to_owned(), 0.05e6)], "of the line that counts, and counts are exact");
    }

    /// 1e300 seconds are infinitely many nanoseconds; as JSON they were `null`, and no trial of the run could be read again.
    #[test]
    fn no_figure_and_no_resolution_is_beyond_every_number() {
        let of = |group: &str, text: &str| {
            let pattern = Regex::new(&format!("(?<{group}>.*)")).unwrap();
            let mut all = Lines::default();
            assert!(!all.add(&pattern, &pattern.captures(text).unwrap(), text, Written::default()));
            let reading = all.reading(group_meaning(group).unwrap().key).unwrap().clone();
            (reading, all.resolution().into_values().next())
        };
        for (group, text) in [("time", "1e300"), ("time", "1e308"), ("heap_used_mb", "1e308"), ("rate", "1e309")] {
            let why = Why::Failed(format!("the program reported the invalid value `{text}`").into());
            assert_eq!(of(group, text), (Reading::Missing(why), None), "{group} {text}");
        }
        assert_eq!(of("rate", "1e300").0, Reading::Measured(1e300));
        assert_eq!(of("rate", "0e999"), (Reading::Measured(0.0), None));
    }

    #[test]
    fn digest_of_the_last_line_counts() {
        let pattern = Regex::new(r"digest (?<digest>\w+)|rows (?<rows>\d+)").unwrap();
        let mut all = Lines::default();
        let lines = ["digest ab", "rows 4", "digest cd"];
        lines
            .iter()
            .for_each(|line| assert!(!all.add(&pattern, &pattern.captures(line).unwrap(), line, Written::default())));
        assert_eq!(all.digest().map(String::as_str), Some("cd"));
        assert_eq!(all.reading("rows".parse().unwrap()), Some(&Reading::Measured(4.0)));
    }
}
