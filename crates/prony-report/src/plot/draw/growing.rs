//! A figure against a numeric factor, on log axes.

use std::collections::BTreeMap;

use prony_model::metric::MetricName;
use prony_model::units::Unit;

use super::Canvas;
use super::format::Format;
use super::panel::{ENDED, Line, Panel, Picture};
use super::scale::Scale;
use super::style::{Style, nth};
use crate::plot::data::Source;
use crate::plot::data::growth::{Growth, Series, factors, of};

/// The picture; `None` without a numeric factor or without figures at two of its levels.
pub(in crate::plot) fn draw(canvas: Canvas<'_>, metric: &MetricName) -> Option<String> {
    let factor = *factors(&canvas.source.data.experiment).first()?;
    let growth = of(canvas.source.data, metric, factor)?;
    let reached = growth.series.iter().filter_map(|s| Some((s.reach?.x, s.limit?)));
    let limits = growth.series.iter().filter(|s| !s.ran_out.is_empty()).filter_map(|s| s.limit);
    let xs = growth.series.iter().flat_map(|s| &s.points).map(|p| p.0).chain(reached.clone().map(|r| r.0));
    let ys = growth.series.iter().flat_map(|s| &s.points).filter_map(|p| p.2).chain(reached.map(|r| r.1)).chain(limits);
    let (xs, ys): (Vec<f64>, Vec<f64>) = (xs.collect(), ys.collect());
    let range = |all: &[f64]| Some((all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?));
    let (x, y) = (range(&xs)?, range(&ys)?);
    let some_ended = growth.series.iter().any(|s| s.points.iter().any(|p| p.2.is_none()));
    let room = if some_ended { (y.1 / y.0).max(2.0).powf(0.15) } else { 1.0 };
    let unit = Format::Unit(metric.key.metric.unit());
    let axes = ((Scale::log(x.0, x.1), Format::Unit(Unit::Count)), (Scale::log(y.0, y.1 * room), unit));
    let mut panel = Panel::new(format!("{metric} against {}", growth.factor), axes.0, axes.1);
    panel.x_label = growth.factor.clone();
    panel.height = canvas.width * 0.42;
    for (at, series) in growth.series.iter().enumerate() {
        add(&mut panel, canvas.source, series, nth(at), growth.series.len() > 1);
    }
    let legend = if growth.series.len() > 1 {
        growth.series.iter().enumerate().map(|(at, s)| (s.name.clone(), nth(at))).collect()
    } else {
        vec![]
    };
    let picture = Picture {
        title: canvas.source.data.head.title.clone(),
        legend,
        panels: vec![panel],
        note: note(&growth, metric, some_ended),
    };
    picture.draw(canvas.width)
}

fn add(panel: &mut Panel, source: Source<'_>, series: &Series, style: Style, several: bool) {
    let mut levels: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
    let mut ended: BTreeMap<u64, (f64, BTreeMap<String, usize>)> = BTreeMap::new();
    for (x, trial, y) in &series.points {
        let outcome = source.data.trials[*trial].ending.outcome;
        match y {
            Some(y) => {
                panel.marks.push((*x, *y, style));
                levels.entry(x.to_bits()).or_insert((*x, Vec::new())).1.push(*y);
            }
            None if !outcome.is_ok() => {
                *ended.entry(x.to_bits()).or_insert((*x, BTreeMap::new())).1.entry(outcome.to_string()).or_default() +=
                    1;
            }
            None => {}
        }
    }
    let medians = levels.into_values().map(|(x, mut ys)| {
        ys.sort_by(f64::total_cmp);
        (x, (ys[(ys.len() - 1) / 2] + ys[ys.len() / 2]) / 2.0)
    });
    panel.lines.push(Line { points: medians.collect(), style, width: 2.0 });
    add_fit(panel, series, style);
    for (x, outcomes) in ended.into_values() {
        let text: Vec<String> = outcomes.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
        panel.ends.push((x, text.join(", "), if several { style.colour } else { ENDED }));
    }
}

/// The fitted line dashed over what was measured, and dotted on to where it would meet the limit.
fn add_fit(panel: &mut Panel, series: &Series, style: Style) {
    let Some(fit) = &series.fit else { return };
    let low = series.points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let points = vec![(low, fit.at(low)), (fit.largest, fit.at(fit.largest))];
    panel.lines.push(Line { points, style: Style { dash: "5 4", ..style }, width: 1.2 });
    let Some(limit) = series.limit.filter(|limit| panel.y.0.share(*limit) <= 1.0) else { return };
    panel.levels.push((limit, format!("limit {}", Format::Unit(Unit::Bytes).text(limit))));
    if let Some(reach) = series.reach {
        let points = vec![(fit.largest, fit.at(fit.largest)), (reach.x, limit)];
        panel.lines.push(Line { points, style: Style { dash: "1 5", ..style }, width: 2.0 });
        panel.labels.push((reach.x, limit, "extrapolated".to_owned(), style.colour));
    }
}

fn note(growth: &Growth, metric: &MetricName, some_ended: bool) -> String {
    let fits: Vec<String> = growth.sentences(metric).iter().map(|s| format!("{}.", s.replace('`', ""))).collect();
    let crosses = if some_ended { " Crosses at the top: trials that did not finish." } else { "" };
    let dots = if growth.series.iter().any(|s| s.reach.is_some()) { ", dots its extrapolation" } else { "" };
    format!("Lines join medians; dashes are the fitted power law{dots}. {}{crosses}", fits.join(" "))
}
