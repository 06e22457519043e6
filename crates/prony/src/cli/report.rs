//! `prony report`: writes the results of a run as a document or as data.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::run_selection::{DatabaseArg, RunChoice};
use super::{Answer, say};
use crate::error::Error;
use crate::output_file::{OutputFiles, Present};
use prony_report::export::document::document;
use prony_report::export::{Csv, Json, Rows, Tracked, Tracker, groups, readings, series, tracked};
use prony_report::profile::markdown;
use prony_report::profiles;
use prony_report::render::Render;
use prony_report::render::markup::Markup;
use prony_report::{Options, build, html};
use prony_results::{Database, RunData, RunId};

/// Functions and packages of each profiled phase in a document.
const ROWS: usize = 10;

/// Write the results of a run as a document or as data
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  prony report --open
  prony report 3 --output run-3.html
  prony report --format csv --what series > series.csv
  prony report --format bencher > bencher.json")]
pub struct ReportArgs {
    /// Number of the run; `-2` is the run before the latest
    #[arg(value_name = "RUN", default_value = "latest", allow_negative_numbers = true)]
    pub run: RunChoice,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Format of the output; default: by the ending of `--output` (`.html`, `.md`, `.adoc`, `.org`, `.csv`, `.json`), else
    /// `markdown`
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// The same as `--format html`
    #[arg(long, conflicts_with = "format")]
    pub html: bool,
    /// Which data to write
    #[arg(long, value_enum, default_value_t)]
    pub what: What,
    /// Add tables with the CPU time and memory of each process; CSV and JSON contain these values without this option
    #[arg(long)]
    pub processes: bool,
    /// File to write; default: standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the HTML page and show it in the browser; without `--output`, the file is `NAME-page-N.html` beside the
    /// database
    #[arg(long, conflicts_with_all = ["format", "what"])]
    pub open: bool,
}

impl ReportArgs {
    /// A file without an ending gets Markdown.
    fn format(&self) -> Result<ReportFormat, Error> {
        if self.html || self.open {
            return Ok(ReportFormat::Html);
        }
        let ending = self.output.as_ref().and_then(|path| path.extension());
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(ReportFormat::default()),
            (None, Some(ending)) => ending.to_str().and_then(ReportFormat::of_ending).ok_or_else(|| {
                let message = format!("no format of a report has the ending `.{}`", ending.display());
                let hint =
                    "write `.html`, `.md`, `.adoc`, `.org`, `.csv` or `.json`, or name the format with `--format`";
                Error::arguments(message, hint)
            }),
        }
    }
}

/// What a report is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// Tables and findings, as GitHub shows them
    #[default]
    Markdown,
    /// The same as AsciiDoc
    Asciidoc,
    /// The same for Emacs' org-mode
    Orgmode,
    /// One row per value, sample or group of operations
    Csv,
    /// One document, or one object per sample or group of operations
    Json,
    /// One page with charts, for a browser; needs no network
    Html,
    /// The medians of the compared metrics for Bencher, in its metric format (BMF). Exit code 1 if variants are left out
    /// because trials failed
    Bencher,
    /// Those of which less is better, for github-action-benchmark with `tool: customSmallerIsBetter`
    GithubActionBenchmarkSmaller,
    /// Those of which more is better, for github-action-benchmark with `tool: customBiggerIsBetter`
    GithubActionBenchmarkBigger,
}

impl ReportFormat {
    /// The format of files with this ending.
    fn of_ending(ending: &str) -> Option<Self> {
        Some(match ending.to_ascii_lowercase().as_str() {
            "md" | "markdown" | "txt" => Self::Markdown,
            "adoc" | "asciidoc" => Self::Asciidoc,
            "org" => Self::Orgmode,
            "csv" => Self::Csv,
            "json" => Self::Json,
            "html" | "htm" => Self::Html,
            _ => return None,
        })
    }
}

/// What a report holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// The measured values of each phase of each trial
    #[default]
    Results,
    /// Wall and CPU time of each group of operations that was timed
    Samples,
    /// Memory, CPU and I/O of each process over time
    Series,
    /// The results with all samples, groups and histograms of each trial, in one document
    Everything,
}

/// Writes a run to `--output`, or else to `out`. The answer is no if a format cannot show that trials failed.
///
/// # Errors
/// Those of the database, [`Error::Arguments`], [`Error::Write`].
pub fn report(args: &ReportArgs, out: &mut dyn Write) -> Result<Answer, Error> {
    let format = args.format()?;
    let is_data = matches!(format, ReportFormat::Csv | ReportFormat::Json);
    if !is_data && args.what != What::Results {
        let message = "`--what samples`, `series` and `everything` need a data format";
        return Err(Error::arguments(message, "add `--format csv` or `--format json`"));
    }
    if format == ReportFormat::Csv && args.what == What::Everything {
        let message = "`--what everything` cannot be written as rows of CSV";
        return Err(Error::arguments(message, "add `--format json`, or choose other data with `--what`"));
    }
    let database = Database::open(&args.database.database)?;
    let data = database.load_run(args.run.find(&database)?)?;
    let beside = || page_beside(database.path(), data.head.id);
    let path = args.output.clone().or_else(|| args.open.then(beside));
    let (format, options) = ((format, args.what), Options { processes: args.processes, ..Options::default() });
    let Some(path) = path else { return write(format, &options, (&database, &data), out) };
    let file = OutputFiles::of(Some(database.path()), []).open(&path, Present::Replaced)?;
    let mut answer = Answer::Yes;
    file.write(|out| {
        answer = write(format, &options, (&database, &data), out)?;
        Ok(())
    })?;
    if !args.open {
        say(&format!("wrote `{}`\n", path.display()));
        return Ok(answer);
    }
    let said = writeln!(out, "wrote `{}`", path.display()).and_then(|()| out.flush());
    said.map_err(Error::write("the output"))?;
    open(&path)?;
    Ok(answer)
}

/// The page of a run beside its database, apart from those of other databases in the directory: `prony-page-7.html`.
fn page_beside(database: &Path, run: RunId) -> PathBuf {
    let mut name = database.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-page-{run}.html"));
    database.with_file_name(name)
}

/// `xdg-open` that has not ended after this time has become the browser itself, as on machines without a desktop, or runs
/// it.
const OPENED: Duration = Duration::from_secs(3);

/// Shows a file in the desktop's browser, which goes on by itself.
fn open(path: &Path) -> Result<(), Error> {
    // The whole path: one that begins with a hyphen would be an option.
    let opened = path.canonicalize().and_then(|whole| {
        let mut opener = Command::new("xdg-open");
        // A group of its own: Ctrl-C and the end of the terminal's job are not for the browser.
        opener.arg(whole).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut opener = opener.spawn()?;
        let deadline = Instant::now() + OPENED;
        while Instant::now() < deadline {
            match opener.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(io::Error::other(format!("`xdg-open`: {status}"))),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        Ok(())
    });
    opened.map_err(|source| Error::Open { path: path.to_owned(), source })
}

/// Writes what a service that tracks benchmarks reads, and says what it does not get.
fn track(tracker: Tracker, data: &RunData, out: &mut dyn Write) -> Result<Answer, Error> {
    let mut text = Vec::new();
    let Tracked { written, left_out, failed } = tracked(data, tracker, &mut text)?;
    if written == 0 {
        return Err(Error::arguments(
            format!("run {} has no value for this format: {}", data.head.id, left_out.join("; ")),
            "the metrics of `[compare]` are written: name others there, or choose another format or run",
        ));
    }
    left_out.iter().for_each(|what| say(&format!("warning: left out: {what}\n")));
    let written = out.write_all(&text).and_then(|()| out.flush());
    written.map_err(Error::write("the results"))?;
    Ok(if failed { Answer::No } else { Answer::Yes })
}

/// Writes a run as asked. The answer is no if the format cannot show that trials failed.
///
/// # Errors
/// Those of the database, [`Error::Arguments`] where the format has nothing to show, [`Error::Write`].
pub(crate) fn write(
    (format, what): (ReportFormat, What),
    options: &Options,
    (database, data): (&Database, &RunData),
    out: &mut dyn Write,
) -> Result<Answer, Error> {
    let written = match (format, what) {
        (ReportFormat::Bencher, _) => return track(Tracker::Bencher, data, out),
        (ReportFormat::GithubActionBenchmarkSmaller, _) => return track(Tracker::Smaller, data, out),
        (ReportFormat::GithubActionBenchmarkBigger, _) => return track(Tracker::Bigger, data, out),
        (ReportFormat::Html, _) => Ok(html::write(database, data, options, out)?),
        (ReportFormat::Asciidoc, _) => marked_up(Markup::Asciidoc, data, options, out),
        (ReportFormat::Orgmode, _) => marked_up(Markup::Orgmode, data, options, out),
        (ReportFormat::Markdown, _) => {
            let profiles = profiles::load(database, data, |_| true)?;
            let profiles: String = profiles.iter().map(|of| markdown(of, ROWS)).collect();
            Markup::Markdown
                .render(&build(data, options), out)
                .and_then(|()| out.write_all(profiles.as_bytes()))
                .and_then(|()| out.flush())
                .map_err(Error::write("the report"))
        }
        (ReportFormat::Json, What::Results | What::Everything) => {
            let profiles = profiles::load(database, data, |_| true)?;
            let whole = (what == What::Everything).then_some(database);
            Ok(document(data, &build(data, options), &profiles, whole, out)?)
        }
        (ReportFormat::Json, _) => rows(what, database, data, &mut Json::new(out)),
        (ReportFormat::Csv, _) => rows(what, database, data, &mut Csv::new(out)),
    };
    written.map(|()| Answer::Yes)
}

fn marked_up(markup: Markup, data: &RunData, options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let written = markup.render(&build(data, options), out).and_then(|()| out.flush());
    written.map_err(Error::write("the report"))
}

fn rows(what: What, database: &Database, data: &RunData, rows: &mut dyn Rows) -> Result<(), Error> {
    let written = match what {
        What::Results | What::Everything => readings(data, rows),
        What::Samples => groups(database, data, rows),
        What::Series => series(database, data, rows),
    };
    Ok(written?)
}
