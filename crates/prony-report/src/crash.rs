//! The table of crash trials: what each variant loses, beside its speed.

use prony_experiment::design::{Expr, Operator, Statistic};
use prony_model::crash::{CrashSummary, CrashVerdict, CutEnding, CutKind, CutRecord, Reproduction, Spread};
use prony_model::metric::Metric;
use prony_model::number::{count, digits, effect_bound, span};
use prony_model::reading::{Reading, Why};
use prony_model::units::{Nanos, Unit};
use prony_stats::summary::median_interval;

use super::cell_value::{Summary, amount_of};
use super::cells::{Source, medians};
use super::model::{Align, Cell, Column, Figure, Row, Table};
use super::notes::Notes;
use super::variants::{factor_names, labels, trials_of};
use super::words::once;
use prony_analysis::crash;
use prony_analysis::verdicts::names::varying;
use prony_results::RunData;

/// A table for each crash phase; none where the experiment has none or no cut is stored. A brief one leaves out flushes of the
/// device, how many commits came before the cuts, and how long the store took to open.
pub(super) fn tables(data: &RunData, brief: bool) -> Vec<Table> {
    let all = crash::of(&data.experiment, &data.cuts);
    let phases = once(all.iter().map(|summary| (summary.phase.as_str(), summary.kind)));
    let of = |phase: &str| all.iter().filter(|summary| summary.phase == phase).collect::<Vec<_>>();
    phases.into_iter().map(|(phase, kind)| table(data, (phase, kind), &of(phase), brief)).collect()
}

fn table(data: &RunData, (phase, kind): (&str, CutKind), summaries: &[&CrashSummary], brief: bool) -> Table {
    let mut notes = Notes::default();
    let experiment = &data.experiment;
    let factors = varying(experiment);
    let (rates, unit) = rates(data, summaries, &mut notes);
    let mut rows = Vec::new();
    for (summary, rate) in summaries.iter().zip(rates) {
        let labels = labels(experiment, summary.variant, &factors);
        let unlike = crash::changed_less(experiment, summary, trials_of(data, summary.variant));
        let unlike = unlike.map(|why| {
            let missing = "rate and syncs are missing, because they would not be those of the crash trials";
            notes.mark(format!("{missing}: {why}"))
        });
        let by_transaction = |amount, notes: &mut Notes| match unlike {
            Some(mark) => Cell::none([mark]),
            None => per_transaction(data, summary, amount, notes),
        };
        let rate = unlike.map_or(rate, |mark| Cell::none([mark]));
        let mut cells = vec![finding(summary, &mut notes), promise(summary), rate];
        cells.extend(found(summary, &mut notes));
        cells.push(by_transaction(Metric::Fsyncs, &mut notes));
        if !brief {
            cells.push(by_transaction(Metric::Flushes, &mut notes));
            cells.extend([range(summary.acknowledged), range(summary.open.map(millis))]);
        }
        rows.push(Row { labels, cells });
    }
    explain(data, (phase, kind), summaries, &mut notes);
    let right = |heading: &str, unit: &str| Column::new(heading, unit, Align::Right);
    let left = |heading: &str| Column::new(heading, "", Align::Left);
    let mut columns = vec![
        left("finding"),
        left("promise"),
        right("rate", unit),
        right("lost commits", ""),
        right("lost", "ms"),
        right("corrupt", ""),
        right("holes", ""),
        right("fsyncs per transaction", ""),
    ];
    if !brief {
        columns.push(right("flushes per transaction", ""));
        columns.extend([right("commits before a cut", ""), right("opening", "ms")]);
    }
    Table {
        title: Some(format!("Crash trials: {phase}")),
        caption: caption(kind),
        labels: factor_names(experiment, &factors),
        columns,
        rows,
        notes: notes.finish(),
    }
}

/// Notes on all rows: what is promised, what a finding says, and how much could be lost.
fn explain(data: &RunData, (phase, kind): (&str, CutKind), summaries: &[&CrashSummary], notes: &mut Notes) {
    let name = |variant: usize| data.experiment.labels(&data.experiment.variants()[variant]);
    promises(summaries, name).into_iter().for_each(|promise| notes.general(promise));
    notes.general(
        "finding: whether the promise of the durability class held; the bound is for the probability that a cut breaks it, with \
         confidence 95 % (Clopper and Pearson, one-sided), for the writes and the moments of these cuts",
    );
    if let Some(after) = latest(&data.cuts, phase) {
        let which = match kind {
            CutKind::Kill => "keeps commits in its process",
            CutKind::PowerCut => "never syncs",
        };
        notes.general(format!(
            "lost: at most {} can be lost, since the latest cut came so long after the first write: a store that {which} may \
             lose all of it, however long it is",
            span(after)
        ));
    }
}

/// How long after its first write the latest cut came: on a busy machine later than planned.
fn latest(cuts: &[CutRecord], phase: &str) -> Option<Nanos> {
    let after = |cut: &CutRecord| match cut.ending {
        CutEnding::Cut { after, .. } => Some(after),
        CutEnding::Unsupported { .. } | CutEnding::Failed { .. } => None,
    };
    cuts.iter().filter(|cut| cut.phase == phase).filter_map(after).max()
}

/// What each class promises about these cuts; where settings of one class promise different things, with their variants.
fn promises(summaries: &[&CrashSummary], name: impl Fn(usize) -> String) -> Vec<String> {
    let words = summaries.iter().filter_map(|summary| Some((summary.promise.as_ref()?, summary.durability?.name())));
    let all: Vec<(&String, &str)> = once(words);
    let class = |(promise, class): (&String, &str)| {
        if all.iter().filter(|(_, other)| *other == class).count() == 1 {
            return format!("`{class}`");
        }
        let is_of = |summary: &&&CrashSummary| {
            summary.promise.as_ref() == Some(promise) && summary.durability.is_some_and(|of| of.name() == class)
        };
        let variants = summaries.iter().filter(is_of).map(|summary| format!("`{}`", name(summary.variant)));
        format!("`{class}` in {}", variants.collect::<Vec<_>>().join(", "))
    };
    let of = |promise: &String| {
        let classes = all.iter().filter(|(words, _)| *words == promise).copied().map(class);
        format!("promise of {}: {promise}", classes.collect::<Vec<_>>().join(", "))
    };
    once(all.iter().map(|(promise, _)| *promise)).into_iter().map(of).collect()
}

fn caption(kind: CutKind) -> String {
    let what = match kind {
        CutKind::Kill => {
            "A process repeats the writes of a phase until it is ended by SIGKILL; what it has written survives in the page cache."
        }
        CutKind::PowerCut => {
            "A process repeats the writes of a phase on a simulated disk until its power is cut; several images of the disk are made \
             of each cut."
        }
    };
    format!(
        "{what} A fresh process opens the store and counts which acknowledged commits are there. Rate and fsyncs are those of \
         the timed phase. Of lost commits the median is given, with the smallest and the largest number in square \
         brackets, and of lost time as much: how long before the cut the oldest of them was acknowledged."
    )
}

/// The rate of the phase that was repeated, as any table prints it.
fn rates(data: &RunData, summaries: &[&CrashSummary], notes: &mut Notes) -> (Vec<Cell>, &'static str) {
    let during = summaries.first().map_or("", |summary| &summary.during);
    let sources = summaries.iter().map(|summary| Source::of_variant(data, summary.variant)).collect();
    let [rates] = medians(amount_of(during, Metric::Rate), [sources], notes);
    rates
}

/// An amount of the timed phase by its transactions.
fn per_transaction(data: &RunData, summary: &CrashSummary, amount: Metric, notes: &mut Notes) -> Cell {
    let metric = |metric| Box::new(Expr::Metric(amount_of(&summary.during, metric)));
    let expr = Expr::Binary(metric(amount), Operator::Div, metric(Metric::Transactions));
    let found = Summary::of(&expr, &trials_of(data, summary.variant).collect::<Vec<_>>());
    match found.value(Statistic::Median) {
        Some(value) => {
            let interval = median_interval(&found.numbers, 0.95).measured().copied();
            let figure = Figure {
                value: Some(value),
                low: interval.map(|(low, _)| low),
                high: interval.map(|(_, high)| high),
                unit: Some(Unit::Ratio),
                trials: found.numbers.len(),
                ..Figure::default()
            };
            Cell { figures: vec![figure], ..Cell::of(digits(value)) }
        }
        None => {
            let why = found.missing.first().map_or_else(|| "no trial has this value".to_owned(), ToString::to_string);
            Cell::none([notes.mark(format!("{} per transaction are not known: {why}", amount.name()))])
        }
    }
}

/// In milliseconds, of nanoseconds.
fn millis(spread: Spread) -> Spread {
    Spread { least: spread.least / 1e6, median: spread.median / 1e6, most: spread.most / 1e6 }
}

/// The cells of what the cuts show.
fn found(summary: &CrashSummary, notes: &mut Notes) -> Vec<Cell> {
    let of = |count: u32| match summary.images {
        0 => Cell::none([]),
        images => Cell::of(format!("{count} of {images}")),
    };
    let mut holes = of(summary.with_holes);
    if summary.with_partial > 0 {
        let stores = count(summary.with_partial, "store");
        holes.marks.push(notes.mark(format!("{stores} with a part of a transaction")));
    }
    let mut lost = [range(summary.lost), range(summary.lost_time.map(millis))];
    if let Some(known) = known(summary, "store") {
        let mark = notes.mark(format!("what is lost is {known}: the others cannot be read"));
        lost.iter_mut().for_each(|cell| cell.marks.push(mark));
    }
    let [commits, time] = lost;
    vec![commits, time, of(summary.corrupt), holes]
}

/// Of how many stores it is known what they lost; `None` where of all.
pub(super) fn known(summary: &CrashSummary, noun: &str) -> Option<String> {
    let known = summary.images - summary.unreadable;
    (summary.unreadable > 0).then(|| format!("known of {known} of {}", count(summary.images, noun)))
}

/// The durability class that promises.
fn promise(summary: &CrashSummary) -> Cell {
    summary.durability.map_or_else(|| Cell::none([]), |class| Cell::of(class.name()))
}

fn finding(summary: &CrashSummary, notes: &mut Notes) -> Cell {
    let mut cell = Cell::of(verdict(summary));
    cell.outcome = !matches!(summary.verdict, CrashVerdict::Unbroken { .. } | CrashVerdict::NothingPromised);
    match &summary.verdict {
        CrashVerdict::Unbroken { below } => cell.main += &bound(*below),
        CrashVerdict::NothingPromised => {}
        CrashVerdict::Broken { smallest, .. } => cell.marks.push(notes.mark(format!(
            "broken with the fewest commits: cut {}, image {}, after {}: {}{}",
            smallest.cut,
            smallest.image,
            count(smallest.acknowledged, "acknowledged commit"),
            smallest.what,
            again(smallest)
        ))),
        CrashVerdict::Unsupported { why } | CrashVerdict::Unknown { why } => cell.marks.push(notes.mark(why.clone())),
    }
    let supported = !matches!(summary.verdict, CrashVerdict::Unsupported { .. } | CrashVerdict::Unknown { .. });
    for remark in &summary.remarks {
        cell.marks.push(notes.mark(format!("images may be less severe than a power failure: {remark}")));
    }
    if summary.cuts < summary.planned && supported {
        let why = summary.uncounted.as_ref().map(|why| format!("; not counted: {why}"));
        let planned = count(summary.planned, "cut");
        cell.marks.push(notes.mark(format!("{planned} planned{}", why.unwrap_or_default())));
    }
    cell
}

/// What the cuts say of the promise, in words.
pub(super) fn verdict(summary: &CrashSummary) -> String {
    let cuts = count(summary.cuts, "cut");
    match &summary.verdict {
        CrashVerdict::Unbroken { .. } => format!("held in {cuts}"),
        CrashVerdict::Broken { broken, .. } => format!("broken in {broken} of {cuts}"),
        CrashVerdict::NothingPromised => format!("nothing is promised ({cuts})"),
        CrashVerdict::Unsupported { .. } => "unsupported".to_owned(),
        CrashVerdict::Unknown { .. } => "not known".to_owned(),
    }
}

/// The bound is rounded up: no confidence belongs to a smaller one.
fn bound(below: f64) -> String {
    format!(" (< {})", effect_bound(below))
}

/// The command that makes the image again.
fn again(found: &Reproduction) -> String {
    let saved = match &found.saved {
        Reading::Measured(saved) => saved,
        // After a process crash there is no disk to save.
        Reading::Missing(Why::NotApplicable) => return String::new(),
        Reading::Missing(why) => return format!("; the cut could not be kept: {why}"),
    };
    let saved = shell_words::quote(saved);
    format!(
        "; for a shell in that image: `prony powercut replay {saved} --image {} --seed {}`",
        found.image, found.seed
    )
}

/// The median, with the smallest and the largest value.
fn range(spread: Option<Spread>) -> Cell {
    let Some(Spread { least, median, most }) = spread else { return Cell::none([]) };
    let figure = Figure { value: Some(median), low: Some(least), high: Some(most), ..Figure::default() };
    let spread = if least == most { String::new() } else { format!("[{}..{}]", digits(least), digits(most)) };
    Cell { spread, figures: vec![figure], ..Cell::of(digits(median)) }
}

#[cfg(test)]
pub(crate) mod tests;
