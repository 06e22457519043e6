//! The chart of throughput: operations per second over the time of a phase.

use std::collections::BTreeSet;

use prony_model::metric::Metric;

use super::downsample::means;
use super::{STEPS, Source, counts, left_out, series, steps, time_axis};
use crate::error::Error;
use crate::plot::chart::{Axis, Chart, Columns, Mark, Of, Row, Said, Section, Table};
use crate::plot::format::Format;
use crate::words::grouped;

/// Fewer steps than this show no course of time.
const FEWEST: usize = 4;

/// One trial's throughput in one phase.
struct Throughput {
    trial: usize,
    variant: usize,
    phase: String,
    /// Seconds a step.
    step: f64,
    /// Operations per second in each step.
    rates: Vec<f64>,
}

impl Throughput {
    fn is_short(&self) -> bool {
        self.rates.len() < FEWEST
    }
}

/// A chart of each phase, with the first of these trials of each variant that has four steps.
///
/// # Errors
/// Those of the database.
pub fn section(source: Source<'_>, columns: &mut Columns, trials: &[usize]) -> Result<Section, Error> {
    let mut phases = grouped(throughput(source, trials)?.into_iter().map(|of| (of.phase.clone(), of)));
    for (_, all) in &mut phases {
        let mut known = BTreeSet::new();
        // Of a variant without a trial of four steps one is left, which is named.
        all.sort_by_key(Throughput::is_short);
        all.retain(|of| known.insert(of.variant));
    }
    let drawn = |all: &[Throughput]| all.iter().filter(|of| !of.is_short()).flat_map(|of| &of.rates).any(|r| *r > 0.0);
    phases.retain(|(_, all)| drawn(all));
    let variants = phases.iter().flat_map(|(_, all)| all).map(|of| of.variant);
    let controls = series::among(&source.data.experiment, variants).into_iter().collect();
    let charts = phases.into_iter().map(|(phase, all)| chart(source, columns, &phase, &all)).collect();
    Ok(Section { controls, legend: true, charts, ..Section::default() })
}

fn throughput(source: Source<'_>, trials: &[usize]) -> Result<Vec<Throughput>, Error> {
    let mut all = Vec::new();
    for at in trials {
        let trial = &source.data.trials[*at];
        for (phase, series) in source.database.load_throughput(source.data.head.id, trial.trial.position)? {
            if !counts(trial, phase, Metric::Rate) {
                continue;
            }
            let interval = series.interval.as_secs_f64();
            let (means, each) = means(whole(&series.operations), STEPS);
            if interval <= 0.0 {
                continue;
            }
            let rates = means.iter().map(|mean| mean / interval).collect();
            let (phase, step) = (trial.phases[phase].name.clone(), interval * each as f64);
            all.push(Throughput { trial: *at, variant: trial.trial.variant, phase, step, rates });
        }
    }
    Ok(all)
}

fn chart(source: Source<'_>, columns: &mut Columns, phase: &str, all: &[Throughput]) -> Chart {
    let (short, all): (Vec<&Throughput>, Vec<&Throughput>) = all.iter().partition(|of| of.is_short());
    let line = |of: &&Throughput| Mark {
        of: Of::Trial(of.trial),
        x: columns.steps(of.step, of.rates.len()),
        y: columns.add(of.rates.iter().copied()),
        tip: "{y}\nat {x}".to_owned(),
        ..Mark::default()
    };
    let marks = all.iter().map(line).collect();
    let show = |value| Format::PerSecond.text(value);
    let row = |of: &&Throughput| {
        let mean = of.rates.iter().sum::<f64>() / of.rates.len() as f64;
        let low = of.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let high = of.rates.iter().copied().fold(0.0, f64::max);
        Row::of(of.variant, [show(mean), show(low), show(high)])
    };
    let mut caption = vec![Said::always(
        "Operations per second of the phase's wall time. Clients of a store in a closed loop also prepare keys and values in it; \
         there `rate`, which is per second of `time`, leaves that out. One trial of each variant: of those chosen by nearness to the variant's median, the first that has four steps; \
         where no trial has the compared metric, they are chosen in the order of the run. The last, incomplete step is \
         left out.",
    )];
    let too_short = |of: &Throughput| format!("Not drawn: {}, with fewer than four steps.", source.name(of.variant));
    caption.extend(short.into_iter().map(|of| Said::of(&[of.variant], too_short(of))));
    caption.extend(left_out(source, phase, Metric::Rate));
    caption.extend(steps(source, all.iter().map(|of| (of.variant, of.step))));
    Chart {
        title: format!("{phase}: operations per second"),
        caption,
        x: time_axis(all.iter().map(|of| (of.variant, of.step, of.step * of.rates.len() as f64))),
        y: Axis { format: Format::PerSecond, ..Axis::default() },
        height: 0.28,
        marks,
        table: Table::new(["Variant", "Mean", "Least step", "Largest step"], all.iter().map(row)),
        ..Chart::default()
    }
}

/// Without the last interval, which the phase's end cut short.
fn whole(operations: &[u64]) -> &[u64] {
    operations.split_last().map_or(&[], |(_, whole)| whole)
}
