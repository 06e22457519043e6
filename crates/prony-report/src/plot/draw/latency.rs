//! Latency percentile curves.

use prony_model::record::LatencyKind;
use prony_model::units::Unit;

use super::format::Format;
use super::panel::{Line, Panel, Picture};
use super::scale::Scale;
use super::style::{Style, styles};
use super::{Canvas, legend, shared, shown};
use crate::error::Error;
use crate::plot::data::latency::{Curve, curves, shares};

/// Shares that have a mark: `1 / (1 - q)` and the text.
const MARKS: [(f64, &str); 7] = [
    (2.0, "50 %"),
    (10.0, "90 %"),
    (100.0, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
    (1e6, "99.9999 %"),
];

/// The picture; `None` where no histogram was kept.
pub(in crate::plot) fn draw(canvas: Canvas<'_>) -> Result<Option<String>, Error> {
    let source = canvas.source;
    let mut all = curves(source)?;
    all.retain(|curve| curve.nanos.len() > 1);
    let variants = shown(source, |v| all.iter().any(|c| c.variant == v));
    all.retain(|curve| variants.contains(&curve.variant));
    let styles = styles(source, &variants);
    let style = |c: &Curve| styles[variants.iter().position(|v| *v == c.variant).unwrap_or_default()];
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for curve in &all {
        let key = (curve.phase.as_str(), curve.operation.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let panels: Vec<Panel> = keys
        .iter()
        .filter_map(|key| {
            let of_key: Vec<&Curve> = all.iter().filter(|c| (c.phase.as_str(), c.operation.as_str()) == *key).collect();
            panel(&format!("{}: {}", key.0, key.1), &of_key, style)
        })
        .collect();
    let both = all.iter().any(|c| c.kind == LatencyKind::Intended);
    let at = shared(source, &variants);
    let picture = Picture {
        title: source.data.head.title.clone(),
        legend: legend(source, &variants, &styles),
        panels,
        note: format!(
            "All trials of a variant pooled{}: the shape, not a test. Curves end where fewer than ten operations lie \
             beyond.{}",
            if at.is_empty() { String::new() } else { format!(", at {at}") },
            if both { " Solid: from the intended start; dashed: from the actual start." } else { "" }
        ),
    };
    Ok(picture.draw(canvas.width))
}

fn panel(title: &str, curves: &[&Curve], style: impl Fn(&Curve) -> Style) -> Option<Panel> {
    let beyond: Vec<f64> = shares().into_iter().map(|q| 1.0 / (1.0 - q)).collect();
    let longest = curves.iter().map(|c| c.nanos.len()).max()?;
    let all = || curves.iter().flat_map(|c| c.nanos.iter().map(|n| (*n).max(1) as f64));
    let (low, high) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let x = Scale { log: true, domain: (1.0, beyond[longest - 1]) };
    let y = (Scale::log(low, high), Format::Unit(Unit::Nanos));
    let mut panel = Panel::new(title, (x, Format::Plain), y);
    panel.height = 220.0;
    panel.x_label = "share of operations at or below".to_owned();
    let marks = MARKS.iter().filter(|(at, _)| *at <= x.domain.1 * 1.001).map(|(at, text)| (*at, (*text).to_owned()));
    panel.x_ticks = Some(marks.collect());
    let several = curves.iter().any(|c| c.kind != curves[0].kind);
    let line = |c: &&Curve| {
        let own = style(c);
        let dash = match (several, c.kind) {
            (true, LatencyKind::Actual) => "4 4",
            (true, _) => "",
            (false, _) => own.dash,
        };
        Line {
            points: c.nanos.iter().zip(&beyond).map(|(n, x)| (*x, (*n).max(1) as f64)).collect(),
            style: Style { dash, ..own },
            width: 2.0,
        }
    };
    panel.lines = curves.iter().map(line).collect();
    Some(panel)
}
