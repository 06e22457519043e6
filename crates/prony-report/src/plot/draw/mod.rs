//! Static pictures: light, legible when scaled, the same data as the page.

pub(super) mod effects;
pub(super) mod flame;
mod format;
pub(super) mod growing;
pub(super) mod latency;
mod panel;
pub(super) mod samples;
mod scale;
mod style;
mod svg;
pub(super) mod throughput;
pub(super) mod timeline;

use super::data::{Source, growth};
use prony_analysis::verdicts::names;

/// What is drawn, and how wide.
#[derive(Clone, Copy)]
pub(super) struct Canvas<'a> {
    /// The run.
    pub(super) source: Source<'a>,
    /// Pixels at scale 1.
    pub(super) width: f64,
}

/// The variants shown: one stratum of many, since more are unreadable in one picture. Where strata differ in sizes it
/// is the largest that has a comparison, else the first.
fn shown(source: Source<'_>, has: impl Fn(usize) -> bool) -> Vec<usize> {
    let variants: Vec<usize> = source.variants().into_iter().filter(|v| has(*v)).collect();
    let all = source.data.experiment.variants();
    let in_stratum = |s: usize| variants.iter().copied().filter(move |v| all[*v].stratum == s).collect::<Vec<_>>();
    if variants.len() <= 6 {
        return variants;
    }
    let mut strata: Vec<usize> = variants.iter().map(|v| all[*v].stratum).collect();
    strata.sort_unstable();
    strata.dedup();
    if !growth::factors(&source.data.experiment).is_empty() {
        strata.reverse();
    }
    let chosen = strata.into_iter().find(|s| in_stratum(*s).len() > 1);
    chosen.map_or(variants.clone(), in_stratum)
}

/// The legend of the variants shown: by what tells them apart.
fn legend(source: Source<'_>, shown: &[usize], styles: &[style::Style]) -> Vec<(String, style::Style)> {
    let experiment = &source.data.experiment;
    let variants = experiment.variants();
    let differs = |f: &usize| shown.iter().any(|v| variants[*v].levels[*f] != variants[shown[0]].levels[*f]);
    let factors: Vec<usize> = names::varying(experiment).into_iter().filter(differs).collect();
    let name = |v: usize| {
        let name = match factors.as_slice() {
            [] => names::variant(experiment, v),
            [one] => experiment.factors()[*one].levels[variants[v].levels[*one]].label.clone(),
            several => names::levels(experiment, v, several),
        };
        if variants[v].baseline { format!("{name} (baseline)") } else { name }
    };
    shown.iter().map(|v| name(*v)).zip(styles.iter().copied()).collect()
}

/// What the shown variants share and others do not: `documents=1_000`; empty where that is nothing.
fn shared(source: Source<'_>, shown: &[usize]) -> String {
    let experiment = &source.data.experiment;
    let variants = experiment.variants();
    let same = |f: &usize| shown.iter().all(|v| variants[*v].levels[*f] == variants[shown[0]].levels[*f]);
    let factors: Vec<usize> = names::varying(experiment).into_iter().filter(same).collect();
    if shown.is_empty() { String::new() } else { names::levels(experiment, shown[0], &factors) }
}
