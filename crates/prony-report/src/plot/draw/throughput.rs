//! Operations per second over the time of a phase.

use prony_model::units::Unit;

use super::format::Format;
use super::panel::{Line, Panel, Picture};
use super::scale::Scale;
use super::style::styles;
use super::{Canvas, legend, shared, shown};
use crate::error::Error;
use crate::plot::data::representatives;
use crate::plot::data::throughput::throughput;
use prony_analysis::verdicts::declared;

const STEPS: usize = 300;

/// The picture; `None` where no throughput was kept.
pub(in crate::plot) fn draw(canvas: Canvas<'_>) -> Result<Option<String>, Error> {
    let source = canvas.source;
    let primary = declared(&source.data.experiment);
    let of_each = representatives(source, primary.first(), source.variants().len());
    let mut all = throughput(source, &of_each, STEPS)?;
    all.retain(|t| t.rates.iter().any(|r| *r > 0.0));
    let variants = shown(source, |v| all.iter().any(|t| t.variant == v));
    all.retain(|t| variants.contains(&t.variant));
    let styles = styles(source, &variants);
    let mut phases: Vec<&str> = Vec::new();
    for series in &all {
        if !phases.contains(&series.phase.as_str()) {
            phases.push(&series.phase);
        }
    }
    let panel = |phase: &&str| {
        let of_phase = || all.iter().filter(|t| t.phase == **phase);
        let end = of_phase().map(|t| t.step * t.rates.len() as f64).fold(0.0, f64::max);
        let most = of_phase().flat_map(|t| t.rates.iter().copied()).fold(0.0, f64::max);
        let y = (Scale::linear(0.0, most * 1.06), Format::Unit(Unit::PerSecond));
        let mut panel =
            Panel::new(format!("{phase}: operations per second"), (Scale::linear(0.0, end), Format::Seconds), y);
        panel.lines = of_phase()
            .map(|t| Line {
                points: t.rates.iter().enumerate().map(|(i, r)| ((i as f64 + 0.5) * t.step, *r)).collect(),
                style: styles[variants.iter().position(|v| *v == t.variant).unwrap_or_default()],
                width: 1.6,
            })
            .collect();
        panel
    };
    let at = shared(source, &variants);
    let picture = Picture {
        title: source.data.head.title.clone(),
        legend: legend(source, &variants, &styles),
        panels: phases.iter().map(panel).collect(),
        note: format!(
            "One trial of each variant, the one nearest to its median{}.",
            if at.is_empty() { String::new() } else { format!(", at {at}") }
        ),
    };
    Ok(picture.draw(canvas.width))
}
