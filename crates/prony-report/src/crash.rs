//! The table of crash trials: what each variant loses, beside its speed.

use prony_experiment::design::{CellPart, Expr, Operator, Statistic};
use prony_model::crash::{CrashSummary, CrashVerdict, CutEnding, CutKind, CutRecord, Reproduction, Spread};
use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::number::{count, digits, effect_bound, span};
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::units::{Nanos, Unit};
use prony_stats::summary::median_interval;

use super::cell_value::Summary;
use super::cells::{Plan, Said, Source, fill, planned, scales};
use super::model::{Align, Cell, Column, Figure, Label, Row, Table};
use super::notes::Notes;
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
    let labels = varying(experiment);
    let (rates, unit) = rates(data, summaries, &mut notes);
    let mut rows = Vec::new();
    for (summary, rate) in summaries.iter().zip(rates) {
        let levels = &experiment.variants()[summary.variant].levels;
        let label = |factor: &usize| experiment.factors()[*factor].levels[levels[*factor]].label.clone();
        let labels = labels.iter().map(|factor| Label { text: label(factor), marks: Vec::new() }).collect();
        let unlike = crash::changed_less(experiment, summary, trials(data, summary));
        let unlike = unlike.map(|why| notes.mark(format!("its rate and syncs are not those of the cuts: {why}")));
        let by_transaction = |amount, notes: &mut Notes| match unlike {
            Some(mark) => none(vec![mark]),
            None => per_transaction(data, summary, amount, notes),
        };
        let rate = unlike.map_or(rate, |mark| none(vec![mark]));
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
        labels: labels.iter().map(|factor| experiment.factors()[*factor].name.clone()).collect(),
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
    let during = summaries.first().map(|summary| summary.during.clone()).unwrap_or_default();
    let expr = Expr::Metric(of_phase(&during, Metric::Rate));
    let parts = [CellPart::Figure { expr, format: None }];
    let plan = Plan { parts: &parts, statistic: Statistic::Median, short: false };
    let source = |summary: &&CrashSummary| Source {
        trials: trials(data, summary),
        planned: planned(&data.experiment, summary.variant),
        exists: true,
        phase: None,
    };
    let sources: Vec<Source<'_>> = summaries.iter().map(source).collect();
    let scales = scales(&plan, &sources, None);
    let filled = fill(&plan, &scales, &sources, &mut vec![Said::default(); sources.len()], notes);
    (filled.cells, filled.unit)
}

fn of_phase(phase: &str, metric: Metric) -> MetricName {
    MetricName { phase: phase.to_owned(), instance: None, key: MetricKey::amount(metric) }
}

fn trials<'a>(data: &'a RunData, summary: &CrashSummary) -> Vec<&'a TrialRecord> {
    data.trials.iter().filter(|trial| trial.trial.variant == summary.variant).collect()
}

/// An amount of the timed phase by its transactions.
fn per_transaction(data: &RunData, summary: &CrashSummary, amount: Metric, notes: &mut Notes) -> Cell {
    let metric = |metric| Box::new(Expr::Metric(of_phase(&summary.during, metric)));
    let expr = Expr::Binary(metric(amount), Operator::Div, metric(Metric::Transactions));
    let found = Summary::of(&expr, &trials(data, summary));
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
            Cell { main: digits(value), figures: vec![figure], ..Cell::default() }
        }
        None => {
            let why = found.missing.first().map_or_else(|| "no trial has it".to_owned(), ToString::to_string);
            none(vec![notes.mark(format!("{} per transaction are not known: {why}", amount.name()))])
        }
    }
}

fn none(marks: Vec<usize>) -> Cell {
    Cell { main: "-".to_owned(), marks, ..Cell::default() }
}

/// In milliseconds, of nanoseconds.
fn millis(spread: Spread) -> Spread {
    Spread { least: spread.least / 1e6, median: spread.median / 1e6, most: spread.most / 1e6 }
}

/// The cells of what the cuts show.
fn found(summary: &CrashSummary, notes: &mut Notes) -> Vec<Cell> {
    let of = |count: u32| {
        if summary.images == 0 { none(Vec::new()) } else { text(format!("{count} of {}", summary.images)) }
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
    summary.durability.map_or_else(|| none(Vec::new()), |class| text(class.name().to_owned()))
}

fn finding(summary: &CrashSummary, notes: &mut Notes) -> Cell {
    let cuts = count(summary.cuts, "cut");
    let mut cell = match &summary.verdict {
        CrashVerdict::Unbroken { below } => text(unbroken(&cuts, *below)),
        CrashVerdict::Broken { broken, smallest } => {
            let mark = notes.mark(format!(
                "broken with the fewest commits: cut {}, image {}, after {}: {}{}",
                smallest.cut,
                smallest.image,
                count(smallest.acknowledged, "acknowledged commit"),
                smallest.what,
                again(smallest)
            ));
            Cell { marks: vec![mark], outcome: true, ..text(format!("broken in {broken} of {cuts}")) }
        }
        CrashVerdict::NothingPromised => text(format!("nothing is promised ({cuts})")),
        CrashVerdict::Unsupported { why } => {
            Cell { marks: vec![notes.mark(why.clone())], outcome: true, ..text("unsupported".to_owned()) }
        }
        CrashVerdict::Unknown { why } => {
            Cell { marks: vec![notes.mark(why.clone())], outcome: true, ..text("not known".to_owned()) }
        }
    };
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

/// The bound is rounded up: no confidence belongs to a smaller one.
fn unbroken(cuts: &str, below: f64) -> String {
    format!("held in {cuts} (< {})", effect_bound(below))
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

fn text(main: String) -> Cell {
    Cell { main, ..Cell::default() }
}

/// The median, with the smallest and the largest value.
fn range(spread: Option<Spread>) -> Cell {
    let Some(Spread { least, median, most }) = spread else { return none(Vec::new()) };
    let figure = Figure { value: Some(median), low: Some(least), high: Some(most), ..Figure::default() };
    let spread = if least == most { String::new() } else { format!("[{}..{}]", digits(least), digits(most)) };
    Cell { main: digits(median), spread, figures: vec![figure], ..Cell::default() }
}

#[cfg(test)]
pub(crate) mod tests {
    use prony_model::spec::Durability;

    use super::*;

    pub(crate) fn summary(images: u32, unreadable: u32) -> CrashSummary {
        let spread = |most: f64| Spread { least: 0.0, median: 0.0, most };
        CrashSummary {
            variant: 0,
            phase: "cut".to_owned(),
            during: "write".to_owned(),
            kind: CutKind::PowerCut,
            durability: None,
            promise: None,
            cuts: 4,
            planned: 4,
            uncounted: None,
            images,
            acknowledged: None,
            lost: (unreadable < images).then(|| spread(48.0)),
            lost_time: (unreadable < images).then(|| spread(2e8)),
            with_holes: 0,
            with_partial: 0,
            corrupt: unreadable,
            unreadable,
            open: None,
            open_written: None,
            remarks: Vec::new(),
            verdict: CrashVerdict::NothingPromised,
        }
    }

    /// `0 [0..48.0]` stood beside `10 of 16` corrupt, as if half of the images had lost nothing.
    #[test]
    fn number_of_lost_commits_says_of_how_many_images_it_is() {
        let of = |unreadable: u32| {
            let mut notes = Notes::default();
            let cells = found(&summary(16, unreadable), &mut notes);
            let marked: Vec<bool> = cells.iter().map(|cell| !cell.marks.is_empty()).collect();
            (marked, notes.finish().into_iter().map(|note| note.text).collect::<Vec<String>>())
        };
        assert_eq!(of(0), (vec![false; 4], Vec::new()));
        for (unreadable, read) in [(10, 6), (16, 0)] {
            let said = format!("what is lost is known of {read} of 16 stores: the others cannot be read");
            assert_eq!(of(unreadable), (vec![true, true, false, false], vec![said]));
        }
    }

    /// Of two variants that are `none` after a process crash, one note said that nothing is lost, and one that anything is.
    #[test]
    fn class_with_several_promises_names_the_variants_of_each() {
        let of = |variant: usize, class: Durability, promise: &str| CrashSummary {
            variant,
            durability: Some(class),
            promise: Some(promise.to_owned()),
            ..summary(1, 0)
        };
        let all = [
            of(0, Durability::Strict, "keeps all"),
            of(1, Durability::None, "keeps all"),
            of(2, Durability::None, "promises nothing"),
            of(3, Durability::None, "promises nothing"),
        ];
        let notes = |of: &[CrashSummary]| promises(&of.iter().collect::<Vec<_>>(), |variant| format!("v{variant}"));
        assert_eq!(
            notes(&all),
            ["promise of `strict`, `none` in `v1`: keeps all", "promise of `none` in `v2`, `v3`: promises nothing"]
        );
        assert_eq!(notes(&all[..2]), ["promise of `strict`, `none`: keeps all"]);
    }

    /// 26.0 ms were lost, and `at most 10.00 ms can be lost` was said: that was when cuts were planned, not when they came.
    #[test]
    fn latest_cut_is_the_one_that_came_last() {
        let cut = |phase: &str, after: u64| CutRecord {
            variant: 0,
            phase: phase.to_owned(),
            cut: 0,
            kind: CutKind::PowerCut,
            seed: 1,
            moment: Nanos::from_millis(9),
            effective: None,
            ending: CutEnding::Cut {
                acknowledged: 1,
                after: Nanos::from_millis(after),
                images: Vec::new(),
                remarks: Vec::new(),
                saved: Reading::default(),
            },
            took: Nanos::ZERO,
        };
        let cuts = [cut("cut", 12), cut("cut", 26), cut("other", 90)];
        assert_eq!(latest(&cuts, "cut"), Some(Nanos::from_millis(26)));
        assert_eq!(latest(&cuts, "none"), None);
    }

    /// 5000 cuts gave `< 0.1 %`, and 60,000 gave `< 0 %`.
    #[test]
    fn bound_of_an_unbroken_promise_is_rounded_up() {
        let text = |cuts: i32| unbroken(&count(cuts, "cut"), 1.0 - 0.05f64.powf(1.0 / f64::from(cuts)));
        assert_eq!(text(10), "held in 10 cuts (< 26 %)");
        assert_eq!(text(200), "held in 200 cuts (< 1.5 %)");
        assert_eq!(text(5000), "held in 5000 cuts (< 0.06 %)");
        assert_eq!(text(60_000), "held in 60000 cuts (< 0.01 %)");
        // The documents show what is printed.
        let page = |name: &str| {
            let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
            std::fs::read_to_string(docs.join(name)).unwrap()
        };
        for (name, cuts) in [("power-cut.md", 5), ("durability.md", 30)] {
            assert!(page(name).contains(&text(cuts)), "{name}: {}", text(cuts));
        }
        let bound = text(30).split(&['<', ')'][..]).nth(1).unwrap_or_default().replace(' ', "");
        assert!(page("reference.md").contains(&format!("with confidence 95%: {bound} after 30 cuts")), "{bound}");
    }
}
