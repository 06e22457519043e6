//! The chart of latency: percentile curves from HdrHistograms, by intended and by actual start.

use std::collections::BTreeMap;

use prony_model::latency::{COMMIT, Recorder, percentile};
use prony_model::metric::Metric;
use prony_model::reading::{Reading, Why};
use prony_model::record::LatencyKind;

use super::{Source, counts, left_out, series};
use crate::error::Error;
use crate::plot::chart::{Axis, Chart, Columns, Mark, Of, Row, Said, Scale, Section, Stroke, Table};
use crate::plot::format::Format;
use crate::words::grouped;
use prony_results::Part;

/// Points a decade of `1 / (1 - q)`.
const PER_DECADE: u32 = 12;
/// Decades: up to 99.9999 %.
const DECADES: u32 = 6;

/// Values of `1 / (1 - q)` that have a mark.
const MARKS: [f64; 8] = [1.0, 2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

/// So many of them, from the second on, are in the table: 50 %, 90 %, 99 %, 99.9 % and 99.99 %.
const NAMED: usize = 5;

/// One curve: all trials of a variant pooled, which shows the shape of the distribution and is not a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Index of the variant.
    pub variant: usize,
    /// The phase.
    pub phase: String,
    /// The operation.
    pub operation: String,
    /// `service`, `intended` or `actual`.
    pub kind: LatencyKind,
    /// Operations that succeeded.
    pub succeeded: u64,
    /// Operations that failed and count as infinitely slow.
    pub failed: u64,
    /// Nanoseconds at [`shares`], as far as there are ten operations beyond and no failure is reached.
    pub nanos: Vec<u64>,
    /// The same at the percentiles that the table names.
    pub named: [Option<u64>; NAMED],
    /// Why there is no line: the second point is missing.
    pub undrawn: Option<Why>,
}

/// The shares at which curves are given, rising from 0: `1 - 10^(-k/12)`.
pub fn shares() -> Vec<f64> {
    (0..=PER_DECADE * DECADES).map(|k| 1.0 - 10f64.powf(-f64::from(k) / f64::from(PER_DECADE))).collect()
}

/// The curves of a run, by variant, phase and operation.
///
/// # Errors
/// Those of the database, and [`Error::Latency`] where a histogram is damaged.
pub fn curves(source: Source<'_>) -> Result<Vec<Curve>, Error> {
    let mut curves = Vec::new();
    let trials = source.trials_with(Part::Histograms)?;
    for variant in source.variants() {
        let mut pooled: Vec<(usize, String, LatencyKind, Recorder)> = Vec::new();
        let of_variant = trials.iter().map(|at| &source.data.trials[*at]).filter(|t| t.trial.variant == variant);
        for trial in of_variant {
            for (phase, histogram) in source.database.load_histograms(source.data.head.id, trial.trial.position)? {
                if !counts(trial, phase, Metric::LatencyP50) {
                    continue;
                }
                let recorder = Recorder::from_record(&histogram)?;
                let same = |p: &&mut (usize, String, LatencyKind, Recorder)| {
                    p.0 == phase && p.1 == histogram.operation && p.2 == histogram.kind
                };
                match pooled.iter_mut().find(same) {
                    Some(pool) => pool.3.merge(&recorder),
                    None => pooled.push((phase, histogram.operation, histogram.kind, recorder)),
                }
            }
        }
        let phases = source.trials_of(variant).next().map(|at| &source.data.trials[at].phases);
        for (phase, operation, kind, recorder) in pooled {
            let Some(name) = phases.and_then(|p| p.get(phase)).map(|p| p.name.clone()) else { continue };
            curves.push(curve(variant, name, operation, kind, &recorder));
        }
    }
    Ok(curves)
}

fn curve(variant: usize, phase: String, operation: String, kind: LatencyKind, recorder: &Recorder) -> Curve {
    let at = |q| percentile(recorder, q).measured().map(|n| *n as u64);
    let nanos: Vec<u64> = shares().into_iter().map_while(at).collect();
    let end = shares().get(nanos.len()).map(|q| percentile(recorder, *q));
    let why = end.and_then(|end| if let Reading::Missing(why) = end { Some(why) } else { None });
    Curve {
        variant,
        phase,
        operation,
        kind,
        succeeded: recorder.succeeded(),
        failed: recorder.failed(),
        // A curve of one point is no line.
        undrawn: why.filter(|_| nanos.len() < 2),
        nanos,
        named: std::array::from_fn(|nth| at(1.0 - 1.0 / MARKS[1 + nth])),
    }
}

/// A chart of each phase and operation.
///
/// # Errors
/// As [`curves`].
pub fn section(source: Source<'_>, columns: &mut Columns) -> Result<Section, Error> {
    let curves = curves(source)?.into_iter();
    let mut groups = grouped(curves.map(|curve| (format!("{}: {}", curve.phase, curve.operation), curve)));
    groups.retain(|(_, of)| of.iter().any(|curve| curve.undrawn.is_none()));
    let variants = groups.iter().flat_map(|(_, of)| of).map(|curve| curve.variant);
    let controls = series::among(&source.data.experiment, variants).into_iter().collect();
    let mut section = Section { controls, legend: true, ..Section::default() };
    section.charts = groups.into_iter().map(|(title, of)| chart(source, columns, title, &of)).collect();
    Ok(section)
}

fn chart(source: Source<'_>, columns: &mut Columns, title: String, curves: &[Curve]) -> Chart {
    let beyond: Vec<f64> = shares().into_iter().map(|q| 1.0 / (1.0 - q)).collect();
    let longest = curves.iter().map(|curve| curve.nanos.len()).max().unwrap_or_default();
    let several = curves.iter().any(|curve| curve.kind != curves[0].kind);
    let line = |curve: &Curve| Mark {
        of: Of::Together(vec![curve.variant]),
        x: columns.add(beyond[..curve.nanos.len()].iter().copied()),
        y: columns.add(curve.nanos.iter().map(|nanos| (*nanos).max(1) as f64)),
        tip: if several { format!("{}, {{x}}: {{y}}", called(curve.kind)) } else { "{x}: {y}".to_owned() },
        stroke: match (several, curve.kind) {
            (true, LatencyKind::Actual) => Stroke::Dashed,
            (true, _) => Stroke::Solid,
            (false, _) => Stroke::Own,
        },
        ..Mark::default()
    };
    let marks = curves.iter().filter(|curve| curve.undrawn.is_none()).map(line).collect();
    let ends = Scale::Between { low: 1.0, high: beyond[longest.max(2) - 1] };
    let ticks = MARKS.iter().filter(|at| **at <= beyond[longest.max(1) - 1] * 1.001);
    Chart {
        title,
        caption: caption(source, curves),
        x: Axis {
            label: "share of operations at or below".to_owned(),
            format: Format::Percentile,
            scale: ends,
            ticks: ticks.map(|at| (*at, Format::Percentile.text(*at))).collect(),
        },
        y: Axis { format: Format::Nanos, scale: Scale::Log, ..Axis::default() },
        height: 0.36,
        marks,
        table: table(curves, several),
        ..Chart::default()
    }
}

const fn called(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::Service => "service",
        LatencyKind::Intended => "intended",
        LatencyKind::Actual => "actual",
    }
}

fn caption(source: Source<'_>, curves: &[Curve]) -> Vec<Said> {
    let has = |kind| curves.iter().any(|curve| curve.kind == kind);
    let kinds = [
        (LatencyKind::Service, "service time: from the start of the operation"),
        (LatencyKind::Intended, "from the intended start"),
        (LatencyKind::Actual, "from the actual start"),
    ];
    let kinds: Vec<&str> = kinds.into_iter().filter(|(kind, _)| has(*kind)).map(|(_, text)| text).collect();
    let dashed =
        if has(LatencyKind::Intended) && has(LatencyKind::Actual) { " Solid: intended; dashed: actual." } else { "" };
    let mut said = vec![Said::always(format!(
        "Latency {}. All trials of a variant are pooled: this shows the shape and is not a test. Curves end where \
         fewer than ten slower operations remain.{dashed}",
        kinds.join(", and ")
    ))];
    said.extend(left_out(source, &curves[0].phase, Metric::LatencyP50));
    // Both kinds of an open loop are of the same operations.
    let mut failed: BTreeMap<usize, u64> = BTreeMap::new();
    for curve in curves.iter().filter(|curve| curve.failed > 0) {
        let most = failed.entry(curve.variant).or_default();
        *most = curve.failed.max(*most);
    }
    let text = |variant: usize, n: u64| {
        let (named, name) = (named(curves), source.name(variant));
        format!("{n} {named} of {name} failed; they count as infinitely slow, and curves end before them.")
    };
    said.extend(failed.into_iter().map(|(variant, n)| Said::of(&[variant], text(variant, n))));
    said.extend(undrawn(source, curves));
    said
}

/// Sentences on variants that have operations and no line.
fn undrawn(source: Source<'_>, curves: &[Curve]) -> Vec<Said> {
    let text = |curve: &Curve| {
        let (named, name) = (named(curves), source.name(curve.variant));
        let why = match curve.undrawn.as_ref()? {
            Why::TooFew { have, .. } => format!("which has too few {named} for a curve: {have}"),
            Why::Infinite { failed, of } if failed == of => format!("all of whose {named} failed"),
            Why::Infinite { .. } => format!("too many of whose {named} failed for a curve"),
            why => format!("since {why}"),
        };
        Some(format!("Not drawn: {name}, {why}."))
    };
    // Both kinds of an open loop are of the same operations.
    let texts: BTreeMap<usize, String> = curves.iter().filter_map(|c| Some((c.variant, text(c)?))).collect();
    texts.into_iter().map(|(variant, text)| Said::of(&[variant], text)).collect()
}

/// What the curves of a chart are of: commits are none of a phase's operations.
fn named(curves: &[Curve]) -> &'static str {
    if curves.iter().all(|curve| curve.operation == COMMIT) { "commits" } else { "operations" }
}

fn table(curves: &[Curve], several: bool) -> Table {
    let names = MARKS[1..=NAMED].iter().map(|beyond| Format::Percentile.text(*beyond));
    let row = |curve: &Curve| {
        let text = |nanos: &Option<u64>| nanos.map_or("-".to_owned(), |n| Format::Nanos.text(n as f64));
        let kind = several.then(|| called(curve.kind).to_owned());
        let cells = kind.into_iter().chain([curve.succeeded.to_string(), curve.failed.to_string()]);
        Row::of(curve.variant, cells.chain(curve.named.iter().map(text)))
    };
    let start = several.then_some("Start");
    let heads = ["Variant"].into_iter().chain(start).chain(["Operations", "Failed"]).map(str::to_owned).chain(names);
    Table::new(heads, curves.iter().map(row))
}
