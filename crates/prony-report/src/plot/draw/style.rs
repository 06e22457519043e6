//! The colours of charts (Okabe and Ito 2008), combined with dashes and symbols.

use crate::plot::chart::{COLOURS, Series, Stroke, Style};

const INKS: [&str; COLOURS] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#3a9bd9", "#8a5a00"];
const BASE: &str = "#1b1f24";
const DASHES: [&str; 5] = ["", "9 4", "3 3", "12 3 3 3", "18 5"];

/// The colour of the `nth` of things that have no baseline among them.
pub(super) const fn nth(nth: usize) -> &'static str {
    INKS[nth % COLOURS]
}

/// The colour of a series.
pub(super) fn colour(style: Style) -> &'static str {
    style.colour.map_or(BASE, nth)
}

/// Dashes and width in pixels of a line.
pub(super) fn line(series: &Series, stroke: Stroke) -> (&'static str, f64) {
    match stroke {
        Stroke::Own => (DASHES[series.style.dash % DASHES.len()], 1.8),
        Stroke::Solid => ("", 1.8),
        Stroke::Dashed => ("4 4", 1.8),
        Stroke::Fit => ("5 4", 1.2),
        Stroke::Beyond => ("1 5", 2.0),
    }
}
