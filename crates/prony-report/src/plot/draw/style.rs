//! Colours of Okabe and Ito (2008), with dashes and marks beside them.

use crate::plot::data::Source;

const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#3a9bd9", "#8a5a00"];
const BASE: &str = "#1b1f24";
const DASHES: [&str; 4] = ["", "9 4", "3 3", "12 3 3 3"];

/// How one of several variants looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// Stroke and fill.
    pub(super) colour: &'static str,
    /// Dashes, empty for a solid line.
    pub(super) dash: &'static str,
    /// Which mark.
    pub(super) mark: usize,
}

/// The look of the `nth` of things that have no baseline among them.
pub(super) fn nth(nth: usize) -> Style {
    Style { colour: COLOURS[nth % COLOURS.len()], dash: DASHES[nth / COLOURS.len() % DASHES.len()], mark: nth + 1 }
}

/// The looks of the variants shown, in their order: baselines in black.
pub(super) fn styles(source: Source<'_>, shown: &[usize]) -> Vec<Style> {
    let (mut rest, mut baselines) = (0, 0);
    let style = |variant: &usize| {
        if source.data.experiment.variants()[*variant].baseline {
            baselines += 1;
            return Style { colour: BASE, dash: DASHES[(baselines - 1) % DASHES.len()], mark: 0 };
        }
        rest += 1;
        nth(rest - 1)
    };
    shown.iter().map(style).collect()
}
