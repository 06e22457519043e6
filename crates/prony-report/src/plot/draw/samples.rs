//! Frequency curves of sampled groups of operations.

use prony_model::units::Unit;

use super::format::Format;
use super::panel::{Line, Panel, Picture};
use super::scale::Scale;
use super::style::{Style, styles};
use super::{Canvas, legend, shared, shown};
use crate::error::Error;
use crate::plot::data::samples::{self, Curve, Samples, samples};
use crate::plot::data::spread::Bins;

/// The picture; `None` where no groups were sampled.
pub(in crate::plot) fn draw(canvas: Canvas<'_>) -> Result<Option<String>, Error> {
    let source = canvas.source;
    let all = samples(source)?;
    let curves = || all.iter().flat_map(|s| &s.panels).flat_map(|p| &p.curves);
    let variants = shown(source, |v| curves().any(|c| c.variant == v));
    let styles = styles(source, &variants);
    let style = |c: &Curve| styles[variants.iter().position(|v| *v == c.variant).unwrap_or_default()];
    let wall = all.iter().filter(|s| s.clock == "wall");
    let panels: Vec<Panel> = wall
        .flat_map(|s| s.panels.iter().map(move |p| (s, p)))
        .filter_map(|(s, p)| {
            let shown: Vec<&Curve> = p.curves.iter().filter(|c| variants.contains(&c.variant)).collect();
            (!shown.is_empty()).then(|| panel(s, p, &shown, style))
        })
        .collect();
    let at = shared(source, &variants);
    let operations = all.first().map_or(0, |s| s.operations);
    let picture = Picture {
        title: source.data.head.title.clone(),
        legend: legend(source, &variants, &styles),
        panels,
        note: format!(
            "Wall time of each group of {operations} operations{}; share of the groups in equal bins of the logarithm. \
             All trials of a variant pooled: the shape, not a test.",
            if at.is_empty() { String::new() } else { format!(", at {at}") }
        ),
    };
    Ok(picture.draw(canvas.width))
}

fn panel(of: &Samples, panel: &samples::Panel, curves: &[&Curve], style: impl Fn(&Curve) -> Style) -> Panel {
    let Bins { low, high, count } = panel.bins;
    let most = curves.iter().flat_map(|c| c.shares.iter().copied()).fold(0.0, f64::max);
    let title = if panel.name.is_empty() { of.phase.clone() } else { format!("{}, the {}", of.phase, panel.name) };
    let format = if of.relative { Format::Times } else { Format::Unit(Unit::Nanos) };
    let x = Scale { log: true, domain: (low, high) };
    let mut drawn = Panel::new(title, (x, format), (Scale::linear(0.0, 106.0 * most), Format::Percent));
    drawn.height = 150.0;
    drawn.x_label = if of.relative { "times the baseline's median" } else { "time of a group" }.to_owned();
    let bound = |i: usize| low * (high / low).powf(i as f64 / count as f64);
    let line = |c: &&Curve| Line {
        points: c
            .shares
            .iter()
            .enumerate()
            .flat_map(|(i, s)| [(bound(i), 100.0 * s), (bound(i + 1), 100.0 * s)])
            .collect(),
        style: style(c),
        width: 1.8,
    };
    drawn.lines = curves.iter().map(line).collect();
    drawn
}
