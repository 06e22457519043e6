//! The table of variants that `prony check` prints: a line for each variant. What is the same in all lines, and why
//! variants get no verdict, is said once below it.

use std::collections::BTreeMap;

use prony_analysis::verdicts::names;
use prony_experiment::design::{Experiment, Variant};
use prony_experiment::plan::{Outline, VariantOutline};
use prony_model::http::HttpAmount;
use prony_model::number::{count, digits, fitting};
use prony_model::spec::TrialSpec;
use prony_model::units::BYTES;
use prony_report::{Align, Cell, Column, Label, Note, Report, Row, Table};
use prony_runner::preflight::least_on_disk;

/// In the place of what a variant does not have.
const NONE: &str = "-";

/// The variants, below the experiment's title and question.
pub(super) fn report(experiment: &Experiment, outline: &Outline) -> Report {
    let mut preface: Vec<String> = experiment.question().map(str::to_owned).into_iter().collect();
    let mut tables = vec![table(experiment, outline)];
    if experiment.variants().len() == 1 {
        preface.extend(tables.drain(..).map(|table| table.caption));
    }
    Report { title: experiment.title().to_owned(), preface, tables, ..Report::default() }
}

/// A column of one text for each variant.
struct Texts {
    heading: &'static str,
    texts: Vec<String>,
}

impl Texts {
    /// Whether it has no text beside those of a factor.
    fn repeats<'a>(&self, levels: impl Iterator<Item = &'a String>) -> bool {
        self.texts.iter().zip(levels).all(|(text, level)| text == level || text == NONE)
    }

    /// Its text, where that is the same for all variants.
    fn constant(&self) -> Option<&str> {
        let first = self.texts.first()?;
        self.texts.iter().all(|text| text == first).then_some(first)
    }
}

fn table(experiment: &Experiment, outline: &Outline) -> Table {
    let varying = names::varying(experiment);
    let levels = |variant: &VariantOutline| varying.iter().map(|at| variant.levels[*at].1.clone()).collect();
    let labels: Vec<Vec<String>> = outline.variants.iter().map(levels).collect();
    let amounts = amounts(experiment, outline);
    let is_repeated = |column: &&Texts| (0..varying.len()).any(|at| column.repeats(labels.iter().map(|row| &row[at])));
    let is_shown = |column: &&Texts| column.constant().is_none() && !is_repeated(column);
    let shown: Vec<&Texts> = amounts.iter().filter(is_shown).collect();
    let usual = usual_phases(experiment, outline);
    let (roles, notes) = roles(experiment, outline, &usual);
    let is_noted = roles.iter().any(|role| *role != Cell::default());
    let note = is_noted.then(|| Column::new("note", "", Align::Left));
    let row = |(at, labels): (usize, Vec<String>)| {
        let cells = shown.iter().map(|column| Cell { main: column.texts[at].clone(), ..Cell::default() });
        let labels = labels.into_iter().map(|text| Label { text, marks: Vec::new() });
        Row { labels: labels.collect(), cells: cells.chain(is_noted.then(|| roles[at].clone())).collect() }
    };
    let factors = varying.iter().map(|factor| experiment.factors()[*factor].name.clone());
    let caption = same(outline, &varying, &amounts, &usual);
    Table {
        labels: factors.collect(),
        columns: shown.iter().map(|column| Column::new(column.heading, "", Align::Right)).chain(note).collect(),
        rows: labels.into_iter().enumerate().map(row).collect(),
        caption,
        notes,
        ..Table::default()
    }
}

/// Trials, data and requests of each variant.
fn amounts(experiment: &Experiment, outline: &Outline) -> [Texts; 5] {
    let texts = |heading, text: &dyn Fn(&VariantOutline) -> String| Texts {
        heading,
        texts: outline.variants.iter().map(text).collect(),
    };
    let is_range = outline.trials_min < outline.trials_max;
    // Programs have no records of ours: nothing to count is not zero.
    let of_ours = |variant: &VariantOutline, text: String| if variant.records > 0 { text } else { NONE.to_owned() };
    let trials = |variant: &VariantOutline| match experiment.compare().budget {
        Some(_) => NONE.to_owned(),
        None => variant.trials.to_string(),
    };
    let spec = |variant: &VariantOutline| experiment.variants().get(variant.variant).map(|variant| &variant.spec);
    let on_disk = |variant: &VariantOutline| {
        // A bound below the size of the records says nothing beside it, and was read as a contradiction.
        let least = spec(variant).and_then(least_on_disk).filter(|least| least.as_bytes() as f64 > variant.data_bytes);
        least.map_or_else(|| NONE.to_owned(), |least| size(least.as_bytes() as f64))
    };
    let indexes = |variant: &Variant| variant.spec.subject.store().is_some_and(|store| !store.indexes.is_empty());
    let has_indexes = experiment.variants().iter().any(indexes);
    let what = if has_indexes { "size of records and indexes" } else { "size of all records" };
    [
        texts(if is_range { "trials at most" } else { "trials" }, &trials),
        texts("records", &|variant| of_ours(variant, variant.records.to_string())),
        texts(what, &|variant| of_ours(variant, size(variant.data_bytes))),
        texts("on the disk at least", &|variant| of_ours(variant, on_disk(variant))),
        texts("requests", &|variant| spec(variant).map(requests).unwrap_or_default()),
    ]
}

/// How many requests the phases of a variant send, or for how long: `1000`, `load for 10.000 s, read 1000`.
fn requests(spec: &TrialSpec) -> String {
    let of_phases = spec.phases.iter().filter_map(|phase| {
        let http = phase.action.http()?;
        let amount = match http.amount {
            HttpAmount::Requests(count) => count.to_string(),
            HttpAmount::Records if http.session => "one session for each record".to_owned(),
            HttpAmount::Records => "one for each record".to_owned(),
            HttpAmount::Duration(time) => format!("for {time}"),
        };
        Some((&phase.name, amount))
    });
    let all: Vec<(&String, String)> = of_phases.collect();
    match all.as_slice() {
        [] => NONE.to_owned(),
        [(_, amount)] => amount.clone(),
        several => several.iter().map(|(name, amount)| format!("{name} {amount}")).collect::<Vec<_>>().join(", "),
    }
}

/// A size with three significant digits: `69.9 kB`.
fn size(bytes: f64) -> String {
    let (unit, factor) = fitting(BYTES, bytes, 0.9995);
    format!("{} {unit}", digits(bytes / factor))
}

/// The phases of a variant, each with the replicas that start with it.
fn phases(experiment: &Experiment, variant: &VariantOutline) -> String {
    let program = experiment.variants().get(variant.variant).and_then(|variant| variant.spec.subject.program());
    let replicas = program.and_then(|program| program.replicas.as_ref());
    let named = |phase: &String| match replicas.filter(|replicas| replicas.phase == *phase) {
        Some(replicas) => format!("{phase} ({})", count(replicas.count, "replica")),
        None => phase.clone(),
    };
    variant.phases.iter().map(named).collect::<Vec<_>>().join(", ")
}

/// The phases that most variants have.
fn usual_phases(experiment: &Experiment, outline: &Outline) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for variant in &outline.variants {
        *counts.entry(phases(experiment, variant)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(phases, _)| phases).unwrap_or_default()
}

/// What each variant is in the comparison; why it gets no verdict and phases that are not the usual ones are footnotes.
fn roles(experiment: &Experiment, outline: &Outline, usual: &str) -> (Vec<Cell>, Vec<Note>) {
    let compares = !experiment.compare().baseline.is_empty();
    let remarks = |variant: &VariantOutline| -> Vec<String> {
        let why = variant.no_verdict.as_ref().filter(|_| compares && !variant.baseline);
        let phases = Some(phases(experiment, variant)).filter(|phases| phases != usual);
        let why = why.map(|why| format!("no verdict: {why}"));
        why.into_iter().chain(phases.map(|phases| format!("phases: {phases}"))).collect()
    };
    let mut known: Vec<(String, usize)> = Vec::new();
    let mut mark = |text: String| {
        let at = known.iter().position(|(other, _)| *other == text).unwrap_or_else(|| {
            known.push((text, 0));
            known.len() - 1
        });
        known[at].1 += 1;
        at + 1
    };
    let cell = |variant: &VariantOutline| {
        let floor = (experiment.floor_of(variant.variant) == Some(variant.variant)).then_some("floor");
        let words: Vec<&str> = floor.into_iter().chain(variant.baseline.then_some("baseline")).collect();
        let mut marks: Vec<usize> = remarks(variant).into_iter().map(&mut mark).collect();
        marks.sort_unstable();
        Cell { main: words.join(", "), marks, ..Cell::default() }
    };
    let cells = outline.variants.iter().map(cell).collect();
    let note = |(at, (text, of)): (usize, (String, usize))| Note {
        mark: at + 1,
        text: format!("{text} ({})", count(of, "variant")),
    };
    (cells, known.into_iter().enumerate().map(note).collect())
}

/// `all variants, unless noted: pause = 0; records: 20000; phases: write, read`; empty where all of it differs.
fn same(outline: &Outline, varying: &[usize], amounts: &[Texts], usual: &str) -> String {
    let levels = outline.variants.first().map(|variant| variant.levels.as_slice()).unwrap_or_default();
    let constant = levels.iter().enumerate().filter(|(factor, _)| !varying.contains(factor));
    let factors = constant.map(|(_, (factor, level))| format!("{factor} = {level}"));
    let known = |column: &Texts| Some((column.heading, column.constant().filter(|text| *text != NONE)?.to_owned()));
    let amounts = amounts.iter().filter_map(known).map(|(heading, text)| format!("{heading}: {text}"));
    let texts: Vec<String> = factors.chain(amounts).chain([format!("phases: {usual}")]).collect();
    let texts = texts.join("; ");
    let first = if outline.variants.len() > 1 { "all variants, unless noted: " } else { "" };
    format!("{first}{texts}")
}
