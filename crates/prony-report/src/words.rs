//! Writes outcomes, times and counts in words.

use prony_model::number::{amount, digits, quantity, time};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::program::WHOLE;
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;
use prony_model::units::{Nanos, Unit};

use super::cell_value::least_memory;

/// Each of them once, where it first occurs.
pub(super) fn once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// The place of one of them, which is added where it is not among them.
pub(super) fn place_of<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// What has the same key, together, in the order in which keys first occur.
pub(super) fn grouped<K: PartialEq, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, one) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups
}

/// A reading in words, or `-` with its reason.
pub fn shown<T>(reading: &Reading<T>, show: impl Fn(&T) -> String) -> String {
    match reading {
        Reading::Measured(value) => show(value),
        Reading::Missing(why) => format!("- ({why})"),
    }
}

/// A value with its unit in a table that shows values beside each other: bytes have three significant digits, since the
/// one decimal of [`quantity`] hides differences of small ones, and so have times for which it gives whole seconds.
pub fn compared(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => amount(value),
        Unit::Nanos if value.abs() >= 120e9 => format!("{} s", digits(value / 1e9)),
        Unit::Nanos | Unit::Count | Unit::PerSecond | Unit::Ratio => quantity(value, unit),
    }
}

/// An outcome in a cell: `OOM`, `timed out` ...
pub(super) fn short(outcome: Outcome) -> String {
    match outcome {
        Outcome::OutOfMemory { by: OutOfMemory::Limit } => "OOM".to_owned(),
        Outcome::OutOfMemory { by: OutOfMemory::Host } => "OOM (host)".to_owned(),
        Outcome::OutOfMemory { by: OutOfMemory::Runtime } => "OOM (heap)".to_owned(),
        other => other.to_string(),
    }
}

/// Why a cell has no value: `OOM in persist at 48.3 s, memory >= 16.0 GB`; several outcomes with their counts.
pub fn ended(trials: &[&TrialRecord]) -> String {
    let Some(first) = trials.first() else { return String::new() };
    let same = |t: &&&TrialRecord| t.ending.outcome == first.ending.outcome && t.ending.phase == first.ending.phase;
    if trials.iter().all(|t| same(&t)) { alike(first, trials) } else { counted(trials) }
}

fn alike(first: &TrialRecord, trials: &[&TrialRecord]) -> String {
    let mut text = short(first.ending.outcome);
    text += &place(first);
    if matches!(first.ending.outcome, Outcome::Unsupported) {
        return text;
    }
    let mut times: Vec<Nanos> = trials.iter().map(|t| t.ending.after).collect();
    times.sort_unstable();
    // Where nothing began there is no time from its begin.
    if first.ending.phase.is_some() || times.last().is_some_and(|last| *last > Nanos::ZERO) {
        text += &format!(" at {}", spread(&times));
    }
    if matches!(first.ending.outcome, Outcome::OutOfMemory { .. }) {
        let least = trials.iter().filter_map(|t| least_memory(t)).reduce(f64::max);
        if let Some(least) = least {
            text += &format!(", memory >= {}", amount(least));
        }
    }
    text
}

/// The middle one of times in order of size, with the least and the greatest where they are written otherwise:
/// `2.03 s (2.00 to 143)`, `20.1 ms (900 us to 1.20 s)`.
fn spread(times: &[Nanos]) -> String {
    let texts: Vec<String> = times.iter().map(|one| time(*one)).collect();
    let (Some(low), Some(high)) = (texts.first(), texts.last()) else { return String::new() };
    let middle = &texts[(texts.len() - 1) / 2];
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let number = |text: &str| text.split_once(' ').map_or(text.to_owned(), |(number, _)| number.to_owned());
    match (low == high, unit(low) == unit(high)) {
        (true, _) => middle.clone(),
        (false, true) => format!("{middle} ({} to {})", number(low), number(high)),
        (false, false) => format!("{middle} ({low} to {high})"),
    }
}

/// ` in persist`: the phase in which a trial ended; nothing where it is the only one, the whole execution of a program.
fn place(trial: &TrialRecord) -> String {
    let phase = trial.ending.phase.as_ref().filter(|phase| phase.as_str() != WHOLE || trial.phases.len() > 1);
    phase.map(|phase| format!(" in {phase}")).unwrap_or_default()
}

/// `4 x OOM in persist, 2 x timed out in source`.
fn counted(trials: &[&TrialRecord]) -> String {
    let kinds = grouped(trials.iter().map(|trial| (short(trial.ending.outcome) + &place(trial), trial)));
    kinds.iter().map(|(kind, of)| format!("{} x {kind}", of.len())).collect::<Vec<_>>().join(", ")
}

/// A text cut to so many characters, with dots where it was longer.
pub(super) fn cut(text: &str, most: usize) -> String {
    let short: String = text.chars().take(most).collect();
    if short.len() < text.len() { format!("{short}...") } else { short }
}

/// Beside a figure, evidence is quoted up to so many characters, as far as its parts are whole within them.
pub(super) const QUOTED: usize = 400;

/// What shows how the trials ended: the first that has any evidence.
pub(super) fn evidence(trials: &[&TrialRecord]) -> Option<String> {
    evidence_text(trials, QUOTED).map(|(outcome, text)| format!("{}: {text}", short(outcome)))
}

/// The outcome of the first trial that has any evidence, and the evidence up to so many characters.
pub(super) fn evidence_text(trials: &[&TrialRecord], most: usize) -> Option<(Outcome, String)> {
    let trial = trials.iter().find(|t| !t.ending.evidence.is_empty())?;
    Some((trial.ending.outcome, quoted(&trial.ending.evidence, most)))
}

const SHORTENED: &str = "(shortened; all of it is in `prony report --format json`)";

/// The parts that fit, without cutting any: half a number is another number. A first part that is too long ends after a word, and so do
/// the last lines of output: they say why, and what stands before them how it was noticed.
fn quoted(evidence: &[String], most: usize) -> String {
    let mut text = String::new();
    for part in evidence {
        let joined = if text.is_empty() { part.clone() } else { format!("{text}; {part}") };
        if joined.chars().count() <= most {
            text = joined;
            continue;
        }
        if !text.is_empty() && !part.contains("last lines of output") {
            return format!("{text}; {SHORTENED}");
        }
        let cut: String = joined.chars().take(most).collect();
        let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
        return format!("{words} ... {SHORTENED}");
    }
    text
}

/// A Unix time as `2026-11-20 12:00:00 UTC`.
pub fn instant(unix_ms: u64) -> String {
    i64::try_from(unix_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| format!("{unix_ms} ms after 1970"), |t| t.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1.95 and 2.04 MB, a difference above the margin, were both `2.0 MB`.
    #[test]
    fn compared_values_have_three_digits() {
        let bytes = [1.95e6, 2.04e6, 64e6, 0.0, -512.0].map(|value| compared(value, Unit::Bytes));
        assert_eq!(bytes, ["1.95 MB", "2.04 MB", "64.0 MB", "0 B", "-512 B"]);
        // 120.0 and 120.95 s were both `2 min 0 s`, beside a ratio of 1.008.
        let times = [1.5e6, 119.5e9, 120e9, 120.95e9, 7.2e12].map(|value| compared(value, Unit::Nanos));
        assert_eq!(times, ["1.50 ms", "119.500 s", "120 s", "121 s", "7200 s"]);
    }

    /// `memory limit of the process tree: 3 ...` was read as a limit of 3 bytes.
    #[test]
    fn quoted_evidence_ends_after_a_whole_part_or_word() {
        let texts = |parts: &[&str]| quoted(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>(), QUOTED);
        let (long, words) = ("x".repeat(QUOTED - 10), "word ".repeat(QUOTED / 4));
        assert_eq!(texts(&["signal 9", "its limit: 32.0 MB"]), "signal 9; its limit: 32.0 MB");
        assert_eq!(texts(&[&long, "its limit: 32.0 MB"]), format!("{long}; {SHORTENED}"));
        let whole = texts(&[&words]);
        assert!(whole.contains("word ... (shortened; ") && whole.len() <= QUOTED + 5 + SHORTENED.len(), "{whole}");
        assert_eq!(texts(&["x".repeat(500).as_str()]), format!("{} ... {SHORTENED}", "x".repeat(QUOTED)));
    }

    /// The message of a server that did not start was in the JSON only.
    #[test]
    fn last_lines_of_output_are_quoted_after_how_the_end_was_noticed() {
        let [ended, code] =
            ["service `web` ended before the trial did", "service `web`: the process exited with code 1"];
        let said = |lines: &str| format!("service `web`: last lines of output: `{lines}`");
        let texts = |said: String| quoted(&[ended.to_owned(), code.to_owned(), said], QUOTED);
        let short = said("Error: Cannot find module '/tmp/prony/site/nwe.js'`; `  requireStack: []`; `Node.js v22.1.0");
        assert_eq!(texts(short.clone()), format!("{ended}; {code}; {short}"));
        let long = texts(said(&format!("Error: Cannot find module `; `{}", "at place ".repeat(QUOTED))));
        assert!(long.contains("Cannot find module") && long.ends_with(&format!(" ... {SHORTENED}")), "{long}");
        assert!(long.chars().count() <= QUOTED + 5 + SHORTENED.len(), "{long}");
    }

    #[test]
    fn ending_times_show_their_spread_in_one_unit_where_they_share_it() {
        let of = |millis: &[u64]| spread(&millis.iter().map(|n| Nanos::from_millis(*n)).collect::<Vec<_>>());
        assert_eq!(of(&[2_000, 2_030, 2_900, 143_000]), "2.03 s (2.00 to 143)");
        assert_eq!(of(&[20, 20, 1_200]), "20.0 ms (20.0 ms to 1.20 s)");
        assert_eq!((of(&[48, 48]), of(&[48]), of(&[])), ("48.0 ms".to_owned(), "48.0 ms".to_owned(), String::new()));
    }
}
