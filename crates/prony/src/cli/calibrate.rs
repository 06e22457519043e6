//! `prony calibrate`: checks prony's measurements on this machine with fixtures, which are programs whose true values
//! are known.

use std::path::PathBuf;

use clap::ValueEnum as _;
use comfy_table::{CellAlignment, Table};
use prony_os::launch::Scratch;
use serde_json::{Value, json};

use super::{Answer, Output, say, table};
use crate::calibrate::bench::Bench;
use crate::calibrate::check_line::Judgement;
use crate::calibrate::{Calibration, Fixture};
use crate::error::Error;
use prony_report::screen::shows_messages;

/// Which fixtures, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony calibrate
  prony calibrate --only mapped-reader,fsync-count")]
pub struct Arguments {
    /// Run only these fixtures (test programs); default: all
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    only: Vec<Fixture>,
    /// Folder for the fixtures' files while they run; choose one on the file system that experiments will use
    #[arg(long, value_name = "DIR", default_value = ".")]
    scratch: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the fixtures and prints truth, reading and error of each; the answer is no where one fails.
///
/// # Errors
/// Where nothing can be written into the folder for scratch, or the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    if !arguments.scratch.exists() {
        let folder = arguments.scratch.display().to_string();
        return Err(Error::arguments(
            format!("there is no folder `{folder}`, which `--scratch` names"),
            format!(
                "make it: `mkdir -p {}`; or leave `--scratch` out: the files are in this folder then, while it runs",
                shell_words::quote(&folder)
            ),
        ));
    }
    // What is wrong with the folder is no fault of the instrument.
    Scratch::create(&arguments.scratch)?.remove()?;
    let bench = Bench::new(&arguments.scratch);
    let asked = |fixture: &Fixture| arguments.only.is_empty() || arguments.only.contains(fixture);
    let run = |fixture: Fixture| {
        announce(fixture);
        fixture.run(&bench)
    };
    let done: Vec<Calibration> = Fixture::value_variants().iter().copied().filter(asked).map(run).collect();
    if arguments.json {
        output.print_json("the calibration", &machine(&done))?;
    } else {
        output.print(&text(&done, output.width))?;
    }
    Ok(answer(&done))
}

/// Prints progress.
fn announce(fixture: Fixture) {
    if shows_messages() {
        say(&format!("running {}\n", fixture.name()));
    }
}

/// A fixture that cannot run here is no answer, so it is not no.
fn answer(done: &[Calibration]) -> Answer {
    if done.iter().any(|calibration| calibration.judge() == Judgement::Fail) { Answer::No } else { Answer::Yes }
}

fn machine(done: &[Calibration]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "fixtures": done.iter().map(Calibration::json).collect::<Vec<_>>(),
    })
}

fn text(done: &[Calibration], width: Option<usize>) -> String {
    let mut text = String::new();
    if done.iter().any(|calibration| !calibration.lines().is_empty()) {
        text += &format!("{}\n", lines(done, width));
    }
    for calibration in done {
        if let Some(why) = calibration.why() {
            text += &format!("{}: {}: {why}\n", calibration.fixture.name(), calibration.judge().name());
        }
    }
    text + &summary(done)
}

fn lines(done: &[Calibration], width: Option<usize>) -> Table {
    let mut table = table(width);
    table.set_header(["fixture", "what", "truth", "reading", "error", "allowed", ""]);
    for column in 2..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for calibration in done {
        for (number, line) in calibration.lines().iter().enumerate() {
            let name = if number == 0 { calibration.fixture.name() } else { String::new() };
            let [truth, reading, error, allowed] = line.cells();
            let (what, judged) = (line.what.clone(), line.judge().name().to_owned());
            table.add_row([name, what, truth, reading, error, allowed, judged]);
        }
    }
    table
}

fn summary(done: &[Calibration]) -> String {
    let count = |wanted: &str| done.iter().filter(|calibration| calibration.judge().name() == wanted).count();
    let (pass, fail, not_run) = (count("pass"), count("FAIL"), count("not run"));
    let mut text = format!("{pass} of {} fixtures pass, {fail} fail, {not_run} not run\n", done.len());
    if fail > 0 {
        text += "hint: do not trust the measurements that fail here; `prony doctor` shows what can be measured here\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Reading;

    use super::*;
    use crate::calibrate::Ran;
    use crate::calibrate::check_line::{Line, Unit};

    fn calibration(fixture: Fixture, reading: f64) -> Calibration {
        let line = Line::figure("memory", Unit::Bytes, 300e6, Reading::Measured(reading), 8e6);
        Calibration { fixture, ran: Ok(Ran::Lines(vec![line])) }
    }

    fn not_run() -> Calibration {
        Calibration { fixture: Fixture::OutOfMemory, ran: Ok(Ran::NotRun("no memory limits here".to_owned())) }
    }

    #[test]
    fn one_failure_is_no_and_what_cannot_run_is_not() {
        let right = || calibration(Fixture::Allocation, 301e6);
        assert_eq!(answer(&[right(), not_run()]), Answer::Yes);
        assert_eq!(answer(&[right(), calibration(Fixture::MappedReader, 5e6)]), Answer::No);
    }

    #[test]
    fn the_table_shows_truth_reading_and_error_and_the_rest_says_why() {
        let text = text(&[calibration(Fixture::Allocation, 5e6), not_run()], Some(120));
        let row = text.lines().find(|line| line.contains("allocation")).unwrap();
        let cells: Vec<&str> = row.split(['│', '┆']).map(str::trim).collect();
        assert_eq!(cells[1..8], ["allocation", "memory", "300.0 MB", "5.0 MB", "-295.0 MB", "8.0 MB", "FAIL"]);
        assert!(text.contains("out-of-memory: not run: no memory limits here\n"), "{text}");
        assert!(text.contains("0 of 2 fixtures pass, 1 fail, 1 not run\nhint: "), "{text}");
    }

    #[test]
    fn machines_get_every_fixture() {
        let json = machine(&[calibration(Fixture::Allocation, 300e6), not_run()]);
        assert_eq!(json["fixtures"][0]["lines"][0]["truth"], 300e6);
        assert_eq!(json["fixtures"][1]["result"], "not run");
    }
}
