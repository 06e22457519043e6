//! What the lines of a phase report by the groups of its `read`. Pure.
//!
//! A program may print lines of several kinds, which one pattern matches by alternatives: each line then reports some of
//! the metrics, and the last line of each kind counts. A line that reports any metric again takes the place of all that the
//! earlier line reported, so that the errors of one round are never set beside the time of the next; and what cannot be read
//! as a number is missing, whatever an earlier line said.

use prony_model::metric::{Metric, MetricKey};
use prony_model::program::{DIGEST_GROUP, group_meaning};
use prony_model::reading::{Reading, Why};
use regex::{Captures, Regex};

/// Characters of a text that are quoted in a reason.
const QUOTED: usize = 40;

/// The lines that count: what each of them reports is reported by none after it.
#[derive(Clone, Debug, Default)]
pub struct Lines(Vec<Line>);

/// What one line reports.
#[derive(Clone, Debug, Default)]
struct Line {
    readings: Vec<(MetricKey, Reading<f64>)>,
    digest: Option<String>,
}

impl Lines {
    /// Takes a line that the pattern matched.
    pub(super) fn add(&mut self, pattern: &Regex, captures: &Captures<'_>) {
        let mut line = Line::default();
        for name in pattern.capture_names().flatten() {
            let Some(text) = captures.name(name).map(|text| text.as_str()) else { continue };
            if name == DIGEST_GROUP {
                line.digest = Some(text.to_owned());
            } else if let Some(meaning) = group_meaning(name) {
                line.readings.push((meaning.key, amount(meaning.key.metric, text).map(|n| n * meaning.scale)));
            }
        }
        self.0.retain(|earlier| !line.replaces(earlier));
        self.0.push(line);
    }

    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether no line matched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was reported of a figure; `None` where nothing was.
    pub fn reading(&self, key: MetricKey) -> Option<&Reading<f64>> {
        self.0.iter().find_map(|line| line.reading(key))
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

    /// Whether it reports again anything that an earlier line did. A line without any group is of no kind: what it was to
    /// report, and of which kind the line before it was, is unknown.
    fn replaces(&self, earlier: &Self) -> bool {
        let digest = self.digest.is_some() && earlier.digest.is_some();
        let empty = self.digest.is_none() && self.readings.is_empty();
        empty || digest || self.readings.iter().any(|(key, _)| earlier.reading(*key).is_some())
    }
}

/// A number that a program reported. No metric that it may report is below 0 or beyond every number, and no work takes no
/// time: its clock, or the digits that it prints, are too coarse.
fn amount(metric: Metric, text: &str) -> Reading<f64> {
    let number = text.replace([',', '_'], "").parse::<f64>().ok();
    let counts = |n: &f64| n.is_finite() && (*n > 0.0 || (*n == 0.0 && metric != Metric::Time));
    let why = || Why::Failed(format!("the program reported `{}`", quoted(text)));
    number.filter(counts).map_or_else(|| Reading::Missing(why()), Reading::Measured)
}

/// The begin of a text, control characters escaped.
fn quoted(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let begin: String = text.chars().take(QUOTED).map(escaped).collect();
    if text.chars().nth(QUOTED).is_some() { format!("{begin}...") } else { begin }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known of the metrics after these lines: a number, a reason, or nothing.
    fn after(pattern: &str, lines: &[&str], keys: &[&str]) -> Vec<String> {
        let pattern = Regex::new(pattern).unwrap();
        let mut all = Lines::default();
        lines.iter().for_each(|line| all.add(&pattern, &pattern.captures(line).unwrap()));
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
        assert_eq!(found, ["the program reported `500ms`"]);
        assert_eq!(after(r"took (?<time>\S*)", &["took 500ms", "took 0.5"], &["time"]), ["500000000"]);
        assert_eq!(after(r"took (?<time>\S*)", &["took "], &["time"]), ["the program reported ``"]);
        let long = format!("took \u{1b}[1m{}", "9".repeat(60));
        let found = after(r"took (?<time>.*)", &[&long], &["time"]).remove(0);
        assert_eq!(found, format!("the program reported `\\u{{1b}}[1m{}...`", "9".repeat(36)));
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
    fn digest_of_the_last_line_counts() {
        let pattern = Regex::new(r"digest (?<digest>\w+)|rows (?<rows>\d+)").unwrap();
        let mut all = Lines::default();
        let lines = ["digest ab", "rows 4", "digest cd"];
        lines.iter().for_each(|line| all.add(&pattern, &pattern.captures(line).unwrap()));
        assert_eq!(all.digest().map(String::as_str), Some("cd"));
        assert_eq!(all.reading("rows".parse().unwrap()), Some(&Reading::Measured(4.0)));
    }
}
