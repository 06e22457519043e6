//! Profiles as text: for each variant and phase the functions and packages in which time goes.

use std::fmt::Write as _;

use prony_core::profile::{Profile, Selection, Share};
use prony_core::reading::Reading;
use prony_core::units::Nanos;

use super::escape::terminal;
use crate::profiles::{PhaseProfile, VariantProfile};

/// Names of functions may be whole signatures.
const LONGEST: usize = 100;

/// What is said of one variant: `top` functions and packages of each phase that `wanted` accepts.
pub fn text(of: &VariantProfile, wanted: impl Fn(&str) -> bool, top: usize) -> String {
    let mut out = format!("{}\n", terminal(&of.name));
    let profiler = of.record.profiler;
    match &of.profile {
        Reading::Missing(why) => {
            let _ = writeln!(out, "  no profile: {why}");
        }
        Reading::Measured(profile) => {
            let _ = writeln!(out, "  {}{}: {}", profiler.name(), of.interval(), profiler.about());
            out += &clock(profile);
        }
    }
    if let Some(trial) = of.record.trial.as_ref().filter(|trial| !trial.ending.outcome.is_ok()) {
        let _ = writeln!(out, "  the profiled trial did not end well: {}", trial.ending.outcome);
    }
    for note in &of.record.notes {
        let _ = writeln!(out, "  {}", terminal(note));
    }
    for phase in of.phases.iter().filter(|phase| wanted(&phase.name)) {
        if let Some(selection) = of.samples_of(phase) {
            out += &one_phase(phase, &selection, top);
        }
    }
    out
}

fn clock(profile: &Profile) -> String {
    match profile.uncertainty {
        Nanos::ZERO => String::new(),
        by => format!("  its instants are those of phases to within {by}\n"),
    }
}

fn one_phase(phase: &PhaseProfile, selection: &Selection<'_>, top: usize) -> String {
    let mut out = format!("\n  phase {}\n  {}\n  {}\n", terminal(&phase.name), phase.overhead, amount(selection));
    if selection.samples == 0 {
        return out;
    }
    let (times, profile) = (selection.times(), selection.profile);
    let function = |share: &Share| {
        let function = &profile.functions[share.of];
        format!("{}  [{}]", cut(&function.label()), terminal(&profile.packages[function.package]))
    };
    let _ = writeln!(out, "\n{:>12} {:>7} {:>12} {:>7}  function", "self", "", "total", "");
    table(&mut out, &times.functions, top, selection.busy, function);
    let _ = writeln!(out, "\n{:>12} {:>7} {:>12} {:>7}  package", "self", "", "total", "");
    table(&mut out, &times.packages, top, selection.busy, |share| cut(&profile.packages[share.of]));
    out
}

/// How much stands behind the shares.
pub(super) fn amount(selection: &Selection<'_>) -> String {
    let plural = |n: u64, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let threads = plural(selection.threads().len() as u64, "thread");
    match selection.samples {
        0 => "no sample: it was too short, or nothing ran in it".to_owned(),
        n if selection.idle == Nanos::ZERO => format!("{} of {threads}: {}", plural(n, "sample"), selection.busy),
        n => format!(
            "{} of {threads}: {}; {} in which threads waited are not counted",
            plural(n, "sample"),
            selection.busy,
            selection.idle
        ),
    }
}

fn table(out: &mut String, shares: &[Share], top: usize, busy: Nanos, name: impl Fn(&Share) -> String) {
    let percent = |time: Nanos| format!("{:.1} %", 100.0 * time.as_secs_f64() / busy.as_secs_f64());
    for share in shares.iter().take(top) {
        let (own, total) = (percent(share.own), percent(share.total));
        // Widths count for texts, not for what implements `Display` by hand.
        let times = [share.own.to_string(), share.total.to_string()];
        let _ = writeln!(out, "{:>12} {own:>7} {:>12} {total:>7}  {}", times[0], times[1], name(share));
    }
    if shares.len() > top {
        let _ = writeln!(out, "{:>12} {:>7} {:>12} {:>7}  and {} more", "", "", "", "", shares.len() - top);
    }
}

fn cut(name: &str) -> String {
    let short: String = name.chars().take(LONGEST).collect();
    let more = if short.len() < name.len() { "..." } else { "" };
    format!("{}{more}", terminal(&short))
}
