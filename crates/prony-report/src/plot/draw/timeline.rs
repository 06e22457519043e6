//! CPU, memory and I/O over time, variants overlaid.

use prony_model::units::Unit;

use super::format::Format;
use super::panel::{Line, Panel, Picture};
use super::scale::Scale;
use super::style::{Style, styles};
use super::{Canvas, legend, shared, shown};
use crate::error::Error;
use crate::plot::data::representatives;
use crate::plot::data::timeline::{QUANTITIES, Timeline, timeline};
use prony_analysis::verdicts::declared;

const STEPS: usize = 400;

/// The picture; `None` where nothing was sampled.
pub(in crate::plot) fn draw(canvas: Canvas<'_>) -> Result<Option<String>, Error> {
    let source = canvas.source;
    let primary = declared(&source.data.experiment);
    let of_each = representatives(source, primary.first(), source.variants().len());
    let mut timelines = Vec::new();
    for trial in of_each {
        timelines.extend(timeline(source, trial, STEPS)?);
    }
    let variants = shown(source, |v| timelines.iter().any(|t| t.variant == v));
    timelines.retain(|t| variants.contains(&t.variant));
    let styles = styles(source, &variants);
    let style = |t: &Timeline| styles[variants.iter().position(|v| *v == t.variant).unwrap_or_default()];
    let panels = (0..QUANTITIES.len()).filter_map(|at| panel(&timelines, at, style)).collect();
    let at = shared(source, &variants);
    let picture = Picture {
        title: source.data.head.title.clone(),
        legend: legend(source, &variants, &styles),
        panels,
        note: format!(
            "One trial of each variant, the one nearest to its median{}. Memory: the largest sample of each step; the \
             rest: means over each step. Shaded: the phases of the first.",
            if at.is_empty() { String::new() } else { format!(", at {at}") }
        ),
    };
    Ok(picture.draw(canvas.width))
}

fn panel(timelines: &[Timeline], quantity: usize, style: impl Fn(&Timeline) -> Style) -> Option<Panel> {
    let (_, title, unit) = QUANTITIES[quantity];
    let all = || timelines.iter().flat_map(|t| t.values[quantity].iter().flatten().copied());
    let most = all().reduce(f64::max)?;
    let end = timelines.iter().map(|t| t.step * t.values[quantity].len() as f64).fold(0.0, f64::max);
    let (title, format) = match unit {
        "bytes" => (title.to_owned(), Format::Unit(Unit::Bytes)),
        "bytes/s" => (title.to_owned(), Format::BytesPerSecond),
        _ => (format!("{title}, {unit}"), Format::Plain),
    };
    let mut panel =
        Panel::new(title, (Scale::linear(0.0, end), Format::Seconds), (Scale::linear(0.0, most * 1.06), format));
    panel.height = 120.0;
    if let Some(first) = timelines.first() {
        panel.spans = first.phases.iter().map(|p| (p.name.clone(), p.begin, p.end)).collect();
    }
    let line = |t: &Timeline| Line {
        points: t.values[quantity]
            .iter()
            .enumerate()
            .map(|(i, v)| ((i as f64 + 0.5) * t.step, v.unwrap_or(f64::NAN)))
            .collect(),
        style: style(t),
        width: 1.6,
    };
    panel.lines = timelines.iter().map(line).collect();
    Some(panel)
}
