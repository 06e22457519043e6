//! `prony import`: shows the results in a JSON file of hyperfine as a table; stores nothing.

use std::path::{Path, PathBuf};

use prony_model::number::count;
use prony_model::units::Unit;
use prony_stats::summary::{Summary, summary};

use super::exec::hyperfine::{Benchmark, Document, Failed};
use super::{Answer, Output};
use crate::error::Error;
use prony_report::{Figure, FindingLine, Label, Report, Row, Table, given};

/// Which file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  prony import hyperfine.json")]
pub struct Arguments {
    /// File written by `hyperfine --export-json` or `prony exec --export-hyperfine-json`
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints the file's commands beside the first of them.
///
/// # Errors
/// Where the file cannot be read, or is no such file.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let path = &arguments.file;
    let bytes = std::fs::read(path).map_err(Error::read_file(path))?;
    let wrong = |why: String| {
        Error::arguments(
            format!("`{}` is not a JSON file of hyperfine: {why}", path.display()),
            "write it with `hyperfine --export-json FILE`",
        )
    };
    let document: Document = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let rows: Option<Vec<(&Benchmark, Summary)>> =
        document.results.iter().map(|one| Some((one, times(one)?))).collect();
    let rows = rows.ok_or_else(|| wrong("a time is missing or below 0".to_owned()))?;
    output.report(&report(path, &rows, &document.failed), None)?;
    Ok(Answer::Yes)
}

/// The times in nanoseconds; of a file without single times what it says of them.
fn times(benchmark: &Benchmark) -> Option<Summary> {
    let stated = [benchmark.median, benchmark.mean, benchmark.min, benchmark.max];
    let all: Vec<f64> = benchmark.times.iter().flatten().copied().chain(stated).collect();
    if all.iter().any(|time| !time.is_finite() || *time < 0.0) {
        return None;
    }
    match &benchmark.times {
        Some(times) => summary(&times.iter().map(|seconds| seconds * 1e9).collect::<Vec<_>>()),
        None => {
            let [median, mean, min, max] = stated.map(|seconds| seconds * 1e9);
            let sd = benchmark.stddev.unwrap_or(0.0) * 1e9;
            Some(Summary { n: 0, median, mean, min, max, sd, q1: min, q3: max, mad: 0.0 })
        }
    }
}

fn report(path: &Path, rows: &[(&Benchmark, Summary)], failed: &[Failed]) -> Report {
    let without_times = |one: &Failed| {
        let of = count(one.runs, "run");
        format!("`{}` failed in {} of {of}; the file has no times of failed runs", one.command, one.failed)
    };
    let mut preface: Vec<String> = failed.iter().map(without_times).collect();
    let failed: Vec<String> = rows.iter().filter_map(|(one, _)| with_failed_runs(one)).collect();
    if !failed.is_empty() {
        preface.push(format!(
            "{} of {} ended with an exit code other than 0 in some runs, whose times are among the others: {}",
            failed.len(),
            count(rows.len(), "command"),
            failed.join(", ")
        ));
    }
    if rows.is_empty() {
        preface.push("the file has no times".to_owned());
    }
    let no_verdict = FindingLine {
        severity: "note",
        text: "no verdict: the file does not say in which order the runs were made; hyperfine makes all runs of a \
               command before it starts the next command, so that a change of the machine in between shows as a \
               difference of the commands"
            .to_owned(),
        hint: "to get a verdict, use `prony exec 'A' 'B'`, which interleaves the trials of the commands".to_owned(),
    };
    Report {
        title: format!("Times in `{}`", path.display()),
        preface,
        findings: if rows.len() > 1 { vec![no_verdict] } else { Vec::new() },
        tables: rows.first().map(|(_, first)| times_table(rows, first)).into_iter().collect(),
        ..Report::default()
    }
}

/// A command with runs whose failure was ignored, and how many.
fn with_failed_runs(one: &Benchmark) -> Option<String> {
    let failed = one.exit_codes.iter().filter(|code| **code != Some(0)).count();
    let of = count(one.exit_codes.len(), "run");
    (failed > 0).then(|| format!("`{}` ({failed} of {of})", one.command))
}

fn times_table(rows: &[(&Benchmark, Summary)], first: &Summary) -> Table {
    let column = |heading: &str, unit, figure: &dyn Fn(&Benchmark, &Summary) -> Figure| {
        given(heading, unit, &rows.iter().map(|(one, times)| figure(one, times)).collect::<Vec<_>>())
    };
    let plain = |value: Option<f64>| Figure { value, ..Figure::default() };
    let median = |_: &Benchmark, times: &Summary| Figure {
        value: Some(times.median),
        low: Some(times.min),
        high: Some(times.max),
        ..Figure::default()
    };
    let columns = [
        column("runs", Unit::Count, &|_, times| plain((times.n > 0).then_some(f64::from(times.n)))),
        column("median", Unit::Nanos, &median),
        column("mean", Unit::Nanos, &|_, times| plain(Some(times.mean))),
        column("deviation", Unit::Nanos, &|one, times| plain(one.stddev.map(|_| times.sd))),
        column("median / first", Unit::Ratio, &|_, times| {
            plain((first.median > 0.0).then(|| times.median / first.median))
        }),
    ];
    let row = |(at, (one, _)): (usize, &(&Benchmark, Summary))| Row {
        labels: vec![Label { text: one.command.clone(), marks: Vec::new() }],
        cells: columns.iter().map(|(_, cells)| cells[at].clone()).collect(),
    };
    Table {
        caption: "In brackets the least and the greatest run.".to_owned(),
        labels: vec!["command".to_owned()],
        rows: rows.iter().enumerate().map(row).collect(),
        columns: columns.iter().map(|(column, _)| column.clone()).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let document: Document = serde_json::from_str(text).unwrap();
        let rows: Option<Vec<_>> = document.results.iter().map(|one| Some((one, times(one)?))).collect();
        let mut out = Vec::new();
        let report = report(Path::new("h.json"), &rows?, &document.failed);
        Output::new(&mut out, false, Some(80), false).report(&report, None).unwrap();
        Some(String::from_utf8(out).unwrap())
    }

    const OLD: &str =
        r#"{"command":"b","mean":0.3,"stddev":null,"median":0.3,"user":0.1,"system":0,"min":0.3,"max":0.3}"#;

    #[test]
    fn medians_are_of_the_times_and_no_verdict_is_given() {
        let one = r#"{"command":"a {x}","mean":9,"stddev":0.1,"median":9,"user":0.1,"system":0.0,"min":9,"max":9,
                      "times":[0.1,0.2,0.6],"memory_usage_byte":[1,2,3],"exit_codes":[0,1,0],"parameters":{"x":"1"}}"#;
        let text = read(&format!(r#"{{"results":[{one},{OLD}]}}"#)).unwrap();
        // As `prony run` prints its tables.
        let table = "\
command   runs       median, ms   mean, ms   deviation, ms   median / first
-------   ----   --------------   --------   -------------   --------------
a {x}        3   200 [100..600]        300             265             1.00
b            -   300                   300               -             1.50
";
        assert!(text.contains(table), "of an old file there is what it says: {text}");
        assert!(text.contains("1 of 2 commands ended with an exit code other than 0"), "{text}");
        let which = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(which.contains("whose times are among the others: `a {x}` (1 of 3 runs)"), "{text}");
        assert!(text.contains("no verdict: ") && !text.contains("faster"), "{text}");
    }

    #[test]
    fn times_that_cannot_be_are_refused_and_one_command_is_not_compared() {
        assert!(!read(&format!(r#"{{"results":[{OLD}]}}"#)).unwrap().contains("no verdict"));
        assert_eq!(read(r#"{"results":[]}"#).unwrap(), "Times in `h.json`\nthe file has no times\n");
        assert_eq!(read(&format!(r#"{{"results":[{}]}}"#, OLD.replace("0.3", "-0.3"))), None);
    }
}
