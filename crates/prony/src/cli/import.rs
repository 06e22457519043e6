//! `prony import`: shows the results in a JSON file of hyperfine as a table; stores nothing.

use std::path::PathBuf;

use comfy_table::CellAlignment;
use prony_model::number::quantity;
use prony_model::units::Unit;
use prony_stats::summary::{Summary, summary};

use super::exec::hyperfine::{Benchmark, Document, Failed};
use super::{Answer, Output, table};
use crate::error::Error;
use prony_report::screen::one_line;

/// Which file.
#[derive(Debug, clap::Args)]
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
    let bytes = std::fs::read(path).map_err(|source| Error::ReadFile { path: path.clone(), source })?;
    let wrong = |why: String| Error::Arguments {
        message: format!("`{}` is not a JSON file of hyperfine: {why}", path.display()),
        hint: "write it with `hyperfine --export-json FILE`".to_owned(),
    };
    let document: Document = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let rows: Option<Vec<(&Benchmark, Summary)>> =
        document.results.iter().map(|one| Some((one, times(one)?))).collect();
    let rows = rows.ok_or_else(|| wrong("a time is missing or below 0".to_owned()))?;
    output.print(&text(&rows, &document.failed, output.width))?;
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

fn text(rows: &[(&Benchmark, Summary)], failed: &[Failed], width: Option<usize>) -> String {
    let without_times = |one: &Failed| {
        let Failed { command, failed, runs } = one;
        format!("`{}` failed in {failed} of {runs} runs; the file has no times of failed runs\n", one_line(command))
    };
    let without_times: String = failed.iter().map(without_times).collect();
    let Some((_, first)) = rows.first() else { return format!("the file has no times\n{without_times}") };
    let mut table = table(width);
    table.set_header(["command", "runs", "median", "lowest to highest", "mean", "deviation", "median / first"]);
    for column in [1, 2, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (benchmark, times) in rows {
        let time = |nanos: f64| quantity(nanos, Unit::Nanos);
        let known = |known: bool, text: String| if known { text } else { "-".to_owned() };
        table.add_row([
            one_line(&benchmark.command),
            known(times.n > 0, times.n.to_string()),
            time(times.median),
            format!("{} to {}", time(times.min), time(times.max)),
            time(times.mean),
            known(benchmark.stddev.is_some(), time(times.sd)),
            known(first.median > 0.0, format!("{:.3}", times.median / first.median)),
        ]);
    }
    let failed = rows.iter().filter(|(one, _)| one.exit_codes.iter().any(|code| *code != Some(0))).count();
    let failed = match failed {
        0 => String::new(),
        n => format!("{n} of {} commands ended with an exit code other than 0 in some runs\n", rows.len()),
    };
    let judged = if rows.len() > 1 {
        "no verdict: the file does not say in which order the runs were made; hyperfine makes all runs of a command \
         before it starts the next command, so that a change of the machine in between shows as a difference of the \
         commands\n\
         hint: to get a verdict, use `prony exec 'A' 'B'`, which interleaves the runs of the commands\n"
    } else {
        ""
    };
    format!("{table}\n{without_times}{failed}{judged}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let document: Document = serde_json::from_str(text).unwrap();
        let rows: Option<Vec<_>> = document.results.iter().map(|one| Some((one, times(one)?))).collect();
        Some(super::text(&rows?, &document.failed, Some(120)))
    }

    const OLD: &str =
        r#"{"command":"b","mean":0.3,"stddev":null,"median":0.3,"user":0.1,"system":0,"min":0.3,"max":0.3}"#;

    #[test]
    fn medians_are_of_the_times_and_no_verdict_is_given() {
        let one = r#"{"command":"a {x}","mean":9,"stddev":0.1,"median":9,"user":0.1,"system":0.0,"min":9,"max":9,
                      "times":[0.1,0.2,0.6],"memory_usage_byte":[1,2,3],"exit_codes":[0,1,0],"parameters":{"x":"1"}}"#;
        let text = read(&format!(r#"{{"results":[{one},{OLD}]}}"#)).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.contains(" ms ")).collect();
        assert!(rows[0].contains("a {x}") && rows[0].contains("200.00 ms") && rows[0].contains("1.000"), "{text}");
        assert!(rows[1].contains("1.500"), "of an old file there is what it says: {text}");
        assert!(text.contains("1 of 2 commands ended with an exit code other than 0"), "{text}");
        assert!(text.contains("no verdict: ") && !text.contains("faster"), "{text}");
    }

    #[test]
    fn times_that_cannot_be_are_refused_and_one_command_is_not_compared() {
        assert!(!read(&format!(r#"{{"results":[{OLD}]}}"#)).unwrap().contains("no verdict"));
        assert_eq!(read(r#"{"results":[]}"#).unwrap(), "the file has no times\n");
        assert_eq!(read(&format!(r#"{{"results":[{}]}}"#, OLD.replace("0.3", "-0.3"))), None);
    }
}
