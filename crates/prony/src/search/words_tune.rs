//! What a search by `tune` came to, as text.

use prony_core::metric::MetricName;
use prony_core::search::tune::{End, Found, Out};
use prony_core::search::{Constraint, Tune};
use prony_core::units::{Nanos, Unit};

use super::found::{Confirmed, Setting, TuneWanted, reading};
use crate::report::{bytes, time};
use crate::results::RunId;

/// What is told of a search.
pub(super) struct Told<'a> {
    pub(super) wanted: &'a TuneWanted,
    pub(super) run: RunId,
    pub(super) tune: &'a Tune,
    /// Every setting, by its number in the search.
    pub(super) settings: &'a [Setting],
    /// The first reason for which something could not be read.
    pub(super) unread: Option<&'a str>,
}

impl Told<'_> {
    /// The winner, the verdict, what holds, and what the search's own figures are worth.
    pub(super) fn tuned(&self, found: Option<&Found>, confirmed: Option<&Confirmed>) -> String {
        let (run, settings) = (self.run, self.settings);
        let Some(found) = found else {
            return format!("interrupted; what is done is kept\nhint: `prony tune --resume {run}` goes on\n");
        };
        let mut lines = Vec::new();
        match found.winner {
            None => lines.push(nothing(found, self.tune)),
            Some(0) => lines.push(format!("the default stands: nothing better was found than {}", settings[0].text)),
            Some(winner) => {
                lines.push(format!("winner: {}", settings[winner].text));
                lines.push(format!("default: {}", settings[0].text));
            }
        }
        lines.extend(confirmed.map(|confirmed| fresh(self.wanted, confirmed)).unwrap_or_default());
        lines.extend(self.unread.map(|why| format!("not read in some trials: {why}")));
        let ran = settings.iter().filter(|setting| setting.variant.is_some()).count();
        let Found { trials, blocks, .. } = found;
        let end = end(found.end);
        lines.push(format!("searched: {trials} trials of {ran} settings in {blocks} blocks, until {end}"));
        lines.extend(self.tune.candidates()[0].out.map(|why| format!("the default {}", out(why))));
        lines.push(format!(
            "every trial: `prony show {run}`; its figures are biased, since the winner was chosen by them: quote those \
             of fresh blocks"
        ));
        lines.join("\n") + "\n"
    }
}

fn end(end: End) -> &'static str {
    match end {
        End::Fine => "the steps were as fine as asked",
        End::Noise => "finer steps drowned in noise",
        End::Spent => "the budget was spent",
        End::NothingFeasible => "no setting was left",
    }
}

fn out(why: Out) -> &'static str {
    match why {
        Out::Broke => "itself breaks a constraint",
        Out::Died => "itself does not finish",
        Out::Disturbed => "itself was ended from outside again and again",
        Out::Unread => "itself could not be read",
    }
}

/// Why there is no winner: how many settings left for which reason.
fn nothing(found: &Found, tune: &Tune) -> String {
    if found.trials == 0 {
        return "nothing was tried: the budget does not hold one block".to_owned();
    }
    let all = [
        (Out::Broke, "broke a constraint"),
        (Out::Died, "did not finish"),
        (Out::Disturbed, "were ended from outside"),
        (Out::Unread, "could not be read"),
    ];
    let count = |why: Out| tune.candidates().iter().filter(|candidate| candidate.out == Some(why)).count();
    let reasons = all.iter().filter(|(why, _)| count(*why) > 0).map(|(why, text)| format!("{} {text}", count(*why)));
    format!("nothing feasible: of the settings tried {}", reasons.collect::<Vec<_>>().join(", "))
}

fn fresh(wanted: &TuneWanted, confirmed: &Confirmed) -> Vec<String> {
    let mut lines = Vec::new();
    let run = confirmed.data.head.id;
    let beside = |variant| median(confirmed, variant, &wanted.objective);
    if let (Some(winner), Some(default)) = (beside(1), beside(0)) {
        let unit = wanted.objective.key.metric.unit();
        let (winner, default) = (quantity(unit, winner), quantity(unit, default));
        lines.push(format!("in fresh blocks: `{}` {winner}, the default {default} (medians)", wanted.objective));
    }
    for line in &confirmed.verdicts.lines {
        lines.push(format!("verdict: {}", line.sentence));
        lines.push(format!("  {}", line.detail));
    }
    lines.extend(confirmed.verdicts.silent.map(|why| format!("no verdict: {why}")));
    lines.extend(wanted.constraints.iter().map(|constraint| kept(constraint, confirmed)));
    if confirmed.interrupted {
        lines.push(format!(
            "interrupted; `prony run --resume {run}` goes on with the fresh blocks, `prony show {run}` tells"
        ));
    } else {
        lines.push(format!("fresh blocks: `prony show {run}`"));
    }
    lines
}

/// In how many fresh trials of the winner a constraint held, and the value nearest to breaking it.
fn kept(constraint: &Constraint, confirmed: &Confirmed) -> String {
    let trials: Vec<_> = confirmed.data.trials.iter().filter(|trial| trial.trial.variant == 1).collect();
    let value = |name: &MetricName, trial| reading(trial, name);
    let values: Vec<f64> = trials
        .iter()
        .filter_map(|trial| constraint.value(&mut |name| value(name, trial)).measured().copied())
        .collect();
    let held = values.iter().filter(|value| constraint.holds(**value)).count();
    let worst = values.iter().copied().max_by(|a, b| constraint.strain(*a).total_cmp(&constraint.strain(*b)));
    let worst = worst.map(|worst| format!("; at the worst {}", quantity(constraint.unit(), worst)));
    let word = if held == trials.len() && !trials.is_empty() { "holds" } else { "DOES NOT HOLD" };
    format!("`{constraint}` {word}: in {held} of {} fresh trials{}", trials.len(), worst.unwrap_or_default())
}

fn median(confirmed: &Confirmed, variant: usize, name: &MetricName) -> Option<f64> {
    let trials = confirmed.data.trials.iter().filter(|trial| trial.trial.variant == variant);
    let mut values: Vec<f64> = trials.filter_map(|trial| reading(trial, name).measured().copied()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn quantity(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanos => time(Nanos::from_nanos(value as u64)),
        Unit::Bytes => bytes(value),
        Unit::PerSecond => format!("{value:.4} per second"),
        Unit::Count | Unit::Ratio => format!("{value:.4}"),
    }
}
