//! The chart of sampled operations: frequency curves of groups of operations, as ratios to the baseline.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::Metric;
use prony_model::number::count;

use super::distribution::{Bins, Range, names, quantile, split};
use super::{Source, counts, left_out, series};
use crate::error::Error;
use crate::plot::chart::{
    Axis, Chart, Choice, Columns, Control, Does, Kind, Mark, Of, Row, Said, Scale, Section, Stroke, Table, When,
};
use crate::plot::format::Format;
use prony_results::Part;

/// Fewest and most bins across a panel: between, the square root of the number of groups.
const BINS: (usize, usize) = (24, 90);

/// The distributions of one phase by one clock, in panels that lie apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// The phase.
    pub phase: String,
    /// `wall` or `cpu`.
    pub clock: &'static str,
    /// Operations a group, one or more: variants may have groups of different sizes.
    pub operations: Vec<u64>,
    /// Whether values are ratios to the median of the variant's baseline; otherwise nanoseconds an operation.
    pub relative: bool,
    /// From the fastest on.
    pub panels: Vec<Panel>,
}

/// Distributions that lie together.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// `fast`, `medium`, `slow`, or nothing.
    pub name: &'static str,
    /// The bins of all its curves.
    pub bins: Bins,
    /// One a variant.
    pub curves: Vec<Curve>,
}

/// One variant's distribution: all groups of all trials pooled, which shows the shape and is not a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Index of the variant.
    pub variant: usize,
    /// Groups.
    pub groups: usize,
    /// Median of the time per operation, as ratio or in nanoseconds.
    pub median: f64,
    /// Share of the groups below the panel.
    pub below: f64,
    /// Share of the groups in each bin.
    pub shares: Vec<f64>,
    /// Share of the groups above the panel.
    pub above: f64,
}

/// One variant's groups of one size, by time, sorted.
struct Pool {
    variant: usize,
    operations: u64,
    sorted: Vec<u64>,
}

impl Pool {
    /// A quantile of the time per operation, divided by a reference. Groups of different sizes are comparable so.
    fn scaled(&self, share: f64, reference: f64) -> f64 {
        self.per_operation(quantile(&self.sorted, share).max(1)) / reference
    }

    fn per_operation(&self, group: u64) -> f64 {
        group as f64 / self.operations.max(1) as f64
    }
}

/// The distributions of a run, by phase and clock.
///
/// # Errors
/// Those of the database.
pub fn samples(source: Source<'_>) -> Result<Vec<Samples>, Error> {
    let mut pools: BTreeMap<(usize, String, &'static str), Vec<Pool>> = BTreeMap::new();
    let trials = source.trials_with(Part::Groups)?;
    for variant in source.variants() {
        let of_variant = trials.iter().map(|at| &source.data.trials[*at]).filter(|t| t.trial.variant == variant);
        for trial in of_variant {
            for (phase, groups) in source.database.load_groups(source.data.head.id, trial.trial.position)? {
                if !counts(trial, phase, Metric::Time) {
                    continue;
                }
                let name = trial.phases[phase].name.clone();
                for (clock, values) in [("wall", groups.wall), ("cpu", groups.cpu)] {
                    let of_phase = pools.entry((phase, name.clone(), clock)).or_default();
                    match of_phase.iter_mut().find(|p| p.variant == variant) {
                        Some(pool) => pool.sorted.extend(values),
                        None => of_phase.push(Pool { variant, operations: groups.operations, sorted: values }),
                    }
                }
            }
        }
    }
    Ok(pools.into_iter().rev().filter_map(|((_, phase, clock), pools)| of_phase(source, phase, clock, pools)).collect())
}

fn of_phase(source: Source<'_>, phase: String, clock: &'static str, mut pools: Vec<Pool>) -> Option<Samples> {
    pools.retain(|pool| pool.sorted.iter().any(|v| *v > 0));
    pools.iter_mut().for_each(|pool| pool.sorted.sort_unstable());
    let operations: BTreeSet<u64> = pools.iter().map(|pool| pool.operations).collect();
    if pools.is_empty() {
        return None;
    }
    let medians: BTreeMap<usize, f64> = pools.iter().map(|p| (p.variant, p.scaled(0.5, 1.0))).collect();
    let references: Option<Vec<f64>> =
        pools.iter().map(|p| medians.get(&baseline_of(source, p.variant)?).copied()).collect();
    let relative = references.is_some();
    let references = references.unwrap_or_else(|| vec![1.0; pools.len()]);
    let ranges: Vec<Range> = pools
        .iter()
        .zip(&references)
        .map(|(p, r)| Range { low: p.scaled(0.05, *r), high: p.scaled(0.95, *r) })
        .collect();
    let groups = split(&ranges);
    let called = names(groups.len());
    let panels = groups
        .iter()
        .enumerate()
        .map(|(i, group)| panel(called.get(i).copied().unwrap_or_default(), group, &pools, &references));
    Some(Samples { phase, clock, operations: operations.into_iter().collect(), relative, panels: panels.collect() })
}

/// The baseline of a variant's stratum, itself for a baseline.
fn baseline_of(source: Source<'_>, variant: usize) -> Option<usize> {
    let variants = source.data.experiment.variants();
    let stratum = variants[variant].stratum;
    variants.iter().position(|v| v.baseline && v.stratum == stratum)
}

fn panel(name: &'static str, group: &[usize], pools: &[Pool], references: &[f64]) -> Panel {
    let at = |share: f64| group.iter().map(move |i| pools[*i].scaled(share, references[*i]));
    let low = at(0.005).fold(f64::INFINITY, f64::min) / 1.1;
    let high = at(0.99).fold(0.0, f64::max) * 1.1;
    let fewest = group.iter().map(|i| pools[*i].sorted.len()).min().unwrap_or(0);
    let count = fewest.isqrt().clamp(BINS.0, BINS.1);
    let bins = Bins { low, high, count };
    let curve = |i: &usize| {
        let (pool, reference) = (&pools[*i], references[*i]);
        let (below, shares, above) = bins.shares(pool.sorted.iter().map(|v| pool.per_operation(*v) / reference));
        let (groups, median) = (pool.sorted.len(), pool.scaled(0.5, reference));
        Curve { variant: pool.variant, groups, median, below, shares, above }
    };
    Panel { name, bins, curves: group.iter().map(curve).collect() }
}

/// A chart of each phase, clock and panel.
///
/// # Errors
/// As [`samples`].
pub fn section(source: Source<'_>, columns: &mut Columns) -> Result<Section, Error> {
    let all = samples(source)?;
    let mut section = Section { legend: true, ..Section::default() };
    let clocks = [("wall", "wall time"), ("cpu", "CPU time")];
    let clocks: Vec<_> = clocks.into_iter().filter(|(clock, _)| all.iter().any(|s| s.clock == *clock)).collect();
    let options = clocks.iter().map(|(_, text)| Choice::new(*text)).collect();
    let curves = all.iter().flat_map(|s| &s.panels).flat_map(|p| &p.curves);
    section.controls.extend(series::among(&source.data.experiment, curves.map(|c| c.variant)));
    let clock = section.control(Control { label: "Clock", does: Does::Select, options, chosen: 0 });
    for of in &all {
        let Some(option) = clocks.iter().position(|(clock, _)| *clock == of.clock) else { continue };
        let when = vec![When(clock, option, option)];
        section.charts.extend(of.panels.iter().map(|p| Chart { when: when.clone(), ..chart(source, columns, of, p) }));
    }
    Ok(section)
}

fn chart(source: Source<'_>, columns: &mut Columns, of: &Samples, panel: &Panel) -> Chart {
    let Bins { low, high, count } = panel.bins;
    let format = if of.relative { Format::Times } else { Format::Nanos };
    let end = |bin: usize| low * (high / low).powf(bin as f64 / count as f64);
    let (x, x2) = (columns.add((0..count).map(end)), columns.add((1..=count).map(end)));
    let mut marks = Vec::new();
    for curve in &panel.curves {
        let of = Of::Together(vec![curve.variant]);
        let y = columns.add(curve.shares.iter().map(|share| 100.0 * share));
        let tip = "{x} to {x2}: {y}".to_owned();
        marks.push(Mark { kind: Kind::Area, of: of.clone(), x, x2, y, tip, ..Mark::default() });
        let (x, stroke) = (columns.add([curve.median]), Stroke::Beyond);
        marks.push(Mark { kind: Kind::Rules, of, x, stroke, ..Mark::default() });
    }
    let label = if of.relative { "times the baseline's median" } else { "time per operation" }.to_owned();
    Chart {
        title: if panel.name.is_empty() { of.phase.clone() } else { format!("{}, the {}", of.phase, panel.name) },
        caption: caption(source, of, panel),
        x: Axis { label, format, scale: Scale::Between { low, high }, ..Axis::default() },
        y: Axis { format: Format::Percent, ..Axis::default() },
        height: 0.26,
        marks,
        table: table(panel, format),
        ..Chart::default()
    }
}

fn caption(source: Source<'_>, of: &Samples, panel: &Panel) -> Vec<Said> {
    let clock = if of.clock == "wall" { "Wall time" } else { "CPU time" };
    let reference =
        if of.relative { "divided by the median of the baseline" } else { "not divided, since there is no baseline" };
    let mut said = vec![Said::always(format!(
        "{clock} of each group of {} by the number of its operations, {reference}: share of the groups in each of {} \
         equal bins of the logarithm. All trials of a variant are pooled: this shows the shape and is not a test.",
        sizes(&of.operations),
        panel.bins.count
    ))];
    let outside = |curve: &Curve| {
        let share = Format::Percent.text(100.0 * (curve.below + curve.above));
        Said::of(
            &[curve.variant],
            format!("{share} of the groups of {} lie outside the axis.", source.name(curve.variant)),
        )
    };
    said.extend(left_out(source, &of.phase, Metric::Time));
    said.extend(panel.curves.iter().filter(|c| c.below + c.above > 0.0).map(outside));
    said
}

/// `1 operation`, or `10, 80 or 100 operations` where variants differ.
fn sizes(operations: &[u64]) -> String {
    match operations {
        [smaller @ .., last] if !smaller.is_empty() => {
            let smaller: Vec<String> = smaller.iter().map(u64::to_string).collect();
            format!("{} or {}", smaller.join(", "), count(*last, "operation"))
        }
        _ => operations.iter().map(|n| count(*n, "operation")).collect(),
    }
}

fn table(panel: &Panel, format: Format) -> Table {
    let row = |curve: &Curve| {
        let outside = Format::Percent.text(100.0 * (curve.below + curve.above));
        Row::of(curve.variant, [curve.groups.to_string(), format.text(curve.median), outside])
    };
    Table::new(["Variant", "Groups", "Median", "Outside the axis"], panel.curves.iter().map(row))
}
