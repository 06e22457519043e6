//! Static pictures: light, legible when scaled, the same data as the page.

pub(super) mod effects;
mod format;
pub(super) mod growth;
pub(super) mod latency;
mod look;
mod panel;
pub(super) mod samples;
mod scale;
mod svg;
pub(super) mod throughput;
pub(super) mod timeline;

use super::data::Source;

/// What is drawn, and how wide.
#[derive(Clone, Copy)]
pub(super) struct Canvas<'a> {
    /// The run.
    pub(super) source: Source<'a>,
    /// Pixels at scale 1.
    pub(super) width: f64,
}

/// The variants shown: one stratum of many, since more are unreadable in one picture. The last stratum that has a
/// comparison is the largest size, where sizes are what strata differ in.
fn shown(source: Source<'_>, has: impl Fn(usize) -> bool) -> Vec<usize> {
    let variants: Vec<usize> = source.variants().into_iter().filter(|v| has(*v)).collect();
    let all = source.data.experiment.variants();
    let in_stratum = |s: usize| variants.iter().copied().filter(move |v| all[*v].stratum == s).collect::<Vec<_>>();
    if variants.len() <= 6 {
        return variants;
    }
    let last = variants.iter().rev().map(|v| all[*v].stratum).find(|s| in_stratum(*s).len() > 1);
    last.map_or(variants.clone(), in_stratum)
}

/// What the shown variants share and others do not: `documents=1_000`; empty where that is nothing.
fn shared(source: Source<'_>, shown: &[usize]) -> String {
    let experiment = &source.data.experiment;
    let variants = experiment.variants();
    let same = |f: &usize| shown.iter().all(|v| variants[*v].levels[*f] == variants[shown[0]].levels[*f]);
    let factors: Vec<usize> = crate::verdicts::names::varying(experiment).into_iter().filter(same).collect();
    if shown.is_empty() { String::new() } else { crate::verdicts::names::levels(experiment, shown[0], &factors) }
}
