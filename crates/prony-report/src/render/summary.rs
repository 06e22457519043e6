//! Writes a run as a comment on a pull request, or as the summary of a job: verdicts, conditions and warnings at once, and the
//! report folded below them.

use std::io::{self, Write};

use prony_analysis::verdicts::{Line, ratio_texts};
use prony_model::metric::MetricName;
use prony_model::number::percent;
use prony_model::reading::Reading;
use prony_results::RunData;
use prony_stats::Verdict;
use prony_stats::summary::median;

use super::markup::Markup::Markdown;
use crate::escape::{markdown, markdown_sentence};
use crate::model::Report;
use crate::variants::trials_of;
use crate::words::compared;

/// Writes the summary. `conditions` are the answers of `--fail-if` and the line on the exit code; the lines of one after its
/// first are its reasons.
///
/// # Errors
/// Those of `out`.
pub fn summary(data: &RunData, report: &Report, conditions: &[String], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "## {}\n", markdown(&report.title))?;
    verdicts(data, report, out)?;
    for condition in conditions {
        let mut lines = condition.lines().map(str::trim).filter(|line| !line.is_empty());
        if let Some(first) = lines.next() {
            writeln!(out, "\n**{}**", markdown_sentence(first))?;
        }
        lines.enumerate().try_for_each(|(at, line)| {
            let apart = if at == 0 { "\n" } else { "" };
            writeln!(out, "{apart}- {}", markdown_sentence(line))
        })?;
    }
    if let Some(extent) = report.preface.first() {
        writeln!(out, "\n{}", markdown_sentence(extent))?;
    }
    let grave: Vec<_> = report.findings.iter().filter(|finding| !finding.is_note()).collect();
    if !grave.is_empty() {
        writeln!(out)?;
    }
    grave.into_iter().try_for_each(|finding| Markdown.finding(finding, out))?;
    // Without an empty line behind the element, GitHub takes what follows for HTML.
    writeln!(
        out,
        "\n<details>\n<summary>How the verdicts were reached, all tables, findings and the machine</summary>"
    )?;
    Markdown.body(report, out)?;
    writeln!(out, "\n</details>")
}

fn verdicts(data: &RunData, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let all = &report.verdicts;
    if all.lines.is_empty() {
        return report.judged.iter().try_for_each(|why| writeln!(out, "{}", markdown_sentence(why)));
    }
    let level = percent(1.0 - all.alpha);
    writeln!(
        out,
        "| variant | compared with | metric | verdict | ratio ({level} interval) | median | of the baseline |"
    )?;
    writeln!(out, "| :-- | :-- | :-- | :-- | --: | --: | --: |")?;
    for line in &all.lines {
        let pair = &line.pair;
        let at = if pair.names.at.is_empty() { String::new() } else { format!(", {}", pair.names.at) };
        let medians = [pair.variant, pair.baseline].map(|variant| middle(data, variant, &pair.metric));
        let cells = [
            markdown(&format!("{}{at}", pair.names.variant)),
            markdown(&pair.names.baseline),
            markdown(&pair.metric.to_string()),
            format!("**{}**", markdown_sentence(&verdict(line))),
            markdown(&ratio(line)),
            markdown(&medians[0]),
            markdown(&medians[1]),
        ];
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// The verdict in the words of the report; where it is open, with what would decide it.
fn verdict(line: &Line) -> String {
    match (&line.comparison.verdict, line.new_run) {
        (Verdict::CantTell { .. }, Some(run)) => format!("can't tell: {run} could"),
        (Verdict::CantTell { .. }, None) => "can't tell".to_owned(),
        _ => line.words.clone(),
    }
}

/// `1.25 (1.21 to 1.30)`; before the first analysis without an interval, which may span ten orders of magnitude.
fn ratio(line: &Line) -> String {
    let comparison = &line.comparison;
    let Some(ratio) = comparison.ratio.measured() else { return "-".to_owned() };
    let (ratio, interval) = ratio_texts(*ratio, comparison.interval.measured().copied());
    interval.map_or_else(|| ratio.clone(), |interval| format!("{ratio} ({interval})"))
}

/// The median over the variant's trials, with their number where some have no value.
fn middle(data: &RunData, variant: usize, metric: &MetricName) -> String {
    let figures: Vec<Reading<f64>> = trials_of(data, variant).map(|trial| trial.figure(metric)).collect();
    let values: Vec<f64> = figures.iter().filter_map(Reading::ordered).collect();
    let Some(middle) = median(&values) else { return "-".to_owned() };
    let mut infinite = figures.iter().filter_map(|figure| match figure {
        Reading::Missing(why) if why.is_infinite() => Some(why.infinite_word()),
        _ => None,
    });
    if let Some(word) = infinite.next().filter(|_| middle.is_infinite()) {
        return format!("{word} ({} of {})", 1 + infinite.count(), values.len());
    }
    let few =
        if values.len() < figures.len() { format!(" ({} of {})", values.len(), figures.len()) } else { String::new() };
    format!("{}{few}", compared(middle, metric.key.metric.unit()))
}
