//! Writes profiles as text: for each variant and phase the functions and packages with the most time.

use std::fmt::Write as _;

use prony_analysis::profile::{Profile, Selection, Share};
use prony_model::number::percent_with;
use prony_model::reading::Reading;
use prony_model::units::Nanos;

use super::escape::{self, terminal};
use super::words;
use crate::profiles::{PhaseProfile, VariantProfile};

/// Names of functions may be whole signatures.
const LONGEST: usize = 100;

/// The profile of one variant as text: the `top` functions and packages of each phase that `wanted` accepts.
pub fn text(of: &VariantProfile, wanted: impl Fn(&str) -> bool, top: usize) -> String {
    let mut out = format!("{}\n", terminal(&of.name));
    for line in about(of) {
        let _ = writeln!(out, "  {}", terminal(&line));
    }
    for phase in of.phases.iter().filter(|phase| wanted(&phase.name)) {
        if let Some(selection) = of.samples_of(phase) {
            out += &one_phase(of, phase, &selection, top);
        }
    }
    out
}

/// What holds for all phases, a line each: the profiler or why there is no profile, how exact its times are, how the profiled
/// trial ended if not well, and the notes of the profiler.
fn about(of: &VariantProfile) -> Vec<String> {
    let profiler = of.record.profiler;
    let mut lines = match &of.profile {
        Reading::Missing(why) => vec![format!("no profile: {why}")],
        Reading::Measured(_) => vec![format!("{}{}: {}", profiler.name(), of.interval(), profiler.meaning())],
    };
    lines.extend(of.profile.measured().and_then(clock));
    lines.extend(of.notes());
    lines
}

fn clock(profile: &Profile) -> Option<String> {
    match profile.uncertainty {
        Nanos::ZERO => None,
        by => Some(format!("the times of samples may differ from those of phases by up to {by}")),
    }
}

fn one_phase(of: &VariantProfile, phase: &PhaseProfile, selection: &Selection<'_>, top: usize) -> String {
    let mut out =
        format!("\n  phase {}\n  {}\n  {}\n", terminal(&phase.name), phase.overhead, of.amount(phase, selection));
    if selection.samples == 0 {
        return out;
    }
    let (times, profile) = (selection.times(), selection.profile);
    let labels = profile.labels();
    let function = |share: &Share| {
        let package = profile.functions[share.of].package;
        format!("{}  [{}]", cut(&labels[share.of]), terminal(&profile.packages[package]))
    };
    let _ = writeln!(out, "\n{:>12} {:>7} {:>12} {:>7}  function", "self", "", "total", "");
    table(&mut out, &times.functions, top, selection.busy, function);
    let _ = writeln!(out, "\n{:>12} {:>7} {:>12} {:>7}  package", "self", "", "total", "");
    table(&mut out, &times.packages, top, selection.busy, |share| cut(&profile.packages[share.of]));
    out
}

/// The profile of one variant in Markdown, as a section of a report.
pub fn markdown(of: &VariantProfile, top: usize) -> String {
    let mut out = format!("\n## Where the time goes: {}\n", escape::markdown(&of.name));
    for line in about(of) {
        let _ = writeln!(out, "\n{}", escape::markdown(&line));
    }
    for phase in &of.phases {
        let Some(selection) = of.samples_of(phase) else { continue };
        let (name, amount) = (escape::markdown(&phase.name), of.amount(phase, &selection));
        let _ = writeln!(out, "\n### {name}\n\n{}. {amount}.", phase.overhead);
        let (times, profile) = (selection.times(), selection.profile);
        let labels = profile.labels();
        let package = |share: &Share| cut(&profile.packages[profile.functions[share.of].package]);
        let function = |share: &Share| [cut(&labels[share.of]), package(share)];
        rows(&mut out, &["function", "package"], &times.functions, top, selection.busy, function);
        rows(&mut out, &["package"], &times.packages, top, selection.busy, |share| [cut(&profile.packages[share.of])]);
    }
    out
}

fn rows<const N: usize>(
    out: &mut String,
    heads: &[&str; N],
    shares: &[Share],
    top: usize,
    busy: Nanos,
    texts: impl Fn(&Share) -> [String; N],
) {
    if shares.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n| self | | total | | {} |\n| --: | --: | --: | --: |{}",
        heads.join(" | "),
        " :-- |".repeat(N)
    );
    for share in shares.iter().take(top) {
        let texts = texts(share).map(|text| escape::markdown(&text)).join(" | ");
        let (own, total) = (percent(share.own, busy), percent(share.total, busy));
        let _ = writeln!(out, "| {} | {own} | {} | {total} | {texts} |", share.own, share.total);
    }
}

fn percent(time: Nanos, busy: Nanos) -> String {
    percent_with(time.as_secs_f64() / busy.as_secs_f64(), 1)
}

fn table(out: &mut String, shares: &[Share], top: usize, busy: Nanos, name: impl Fn(&Share) -> String) {
    for share in shares.iter().take(top) {
        let (own, total) = (percent(share.own, busy), percent(share.total, busy));
        // Widths count for texts, not for what implements `Display` by hand.
        let times = [share.own.to_string(), share.total.to_string()];
        let _ = writeln!(out, "{:>12} {own:>7} {:>12} {total:>7}  {}", times[0], times[1], name(share));
    }
    if shares.len() > top {
        let _ = writeln!(out, "{:>12} {:>7} {:>12} {:>7}  and {} more rows", "", "", "", "", shares.len() - top);
    }
}

fn cut(name: &str) -> String {
    terminal(&words::cut(name, LONGEST))
}

#[cfg(test)]
mod tests {
    use prony_analysis::profile::Builder;
    use prony_model::profile::{ProfileRecord, Profiler};

    use super::*;
    use crate::profiles::Overhead;

    /// Two functions of one name in files of one name were two rows that were called alike.
    #[test]
    fn rows_of_functions_are_distinct() {
        let stack = |second: u32, folder: &str| {
            format!("x 7/7 {second}.000000001: 1000000 cpu-clock:\n\t 1a work (/usr/{folder}/libx.so)\n\n")
        };
        let mut builder = Builder::default();
        builder.add_perf_script(&(stack(1, "a") + &stack(2, "b"))).unwrap();
        let overhead = Overhead { wall: None, cpu: None, trials: 1, cpu_trials: 1, failed: None };
        let span = Nanos::ZERO..Nanos::from_secs(9);
        let interval = Reading::Measured(Nanos::from_millis(1));
        let of = VariantProfile {
            name: "x".to_owned(),
            record: ProfileRecord { variant: 0, profiler: Profiler::Perf, interval, trial: None, notes: Vec::new() },
            profile: Reading::Measured(builder.finish()),
            phases: vec![PhaseProfile { name: "run".to_owned(), span, overhead, unknown: None, cpu: None }],
        };
        for out in [text(&of, |_| true, 9), markdown(&of, 9)] {
            assert!(out.contains("work (a/libx.so)") && out.contains("work (b/libx.so)"), "{out}");
        }
    }
}
