//! The result of `prony tune` as text.

use prony_analysis::search::tune::{End, Found, Out};
use prony_analysis::search::{Constraint, Range, Tune};
use prony_model::metric::MetricName;
use prony_model::number::{self, amount, count, time};
use prony_model::units::{Nanos, Unit};
use prony_stats::summary::median;

use super::constraints::{Bound, ConstraintResults, Met};
use super::found::{Conclusion, Confirmed, LeftOut, Setting, TuneWanted};
use prony_report::screen::one_line;
use prony_results::RunId;

/// The report on a search.
pub(super) struct SearchReport<'a> {
    pub(super) wanted: &'a TuneWanted,
    pub(super) run: RunId,
    /// The option by which a command finds the results.
    pub(super) option: &'a str,
    /// What was varied.
    pub(super) ranges: &'a [Range],
    pub(super) tune: &'a Tune,
    /// Every setting, by its number in the search.
    pub(super) settings: &'a [Setting],
    /// The settings that guards refuse to compare with the default, and those that the file does not allow.
    pub(super) left_out: &'a [LeftOut],
    /// The first reason for which something could not be read.
    pub(super) unread: Option<&'a str>,
}

impl SearchReport<'_> {
    /// The winner, the verdict, the constraints, and a note that the search's own values are biased.
    pub(super) fn tuned(&self, found: Option<&Found>, confirmed: Option<&Confirmed>) -> String {
        let settings = self.settings;
        let Some(found) = found else {
            return self.interrupted().join("\n") + "\n";
        };
        let mut lines: Vec<String> = self.zeros().into_iter().collect();
        match found.winner {
            None => lines.extend(nothing(found, self.tune)),
            Some(0) => {
                let none = if lines.is_empty() { "no setting" } else { "no setting that has a ratio" };
                let why = match self.tune.candidates()[0].out {
                    Some(Out::Zero) => "it reached 0, and no value is better".to_owned(),
                    _ => format!("{none} was found to be better than {}", settings[0].text),
                };
                lines.push(format!("the default is kept: {why}"));
                lines.extend(dropped(self.tune).map(|reasons| format!("of the settings that were tried, {reasons}")));
            }
            Some(winner) => lines.extend(self.concluded(winner, confirmed)),
        }
        lines.extend(self.left_out(Out::Unlike, "their answers or work differ from those of the default"));
        lines.extend(self.left_out(Out::Refused, "the file does not allow them"));
        lines.extend(confirmed.map(|confirmed| fresh(self, confirmed)).unwrap_or_default());
        lines.extend(self.unread.map(|why| format!("some trials have no reading: {why}")));
        let ran = settings.iter().filter(|setting| setting.variant.is_some()).count();
        let end = end(found.end);
        lines.push(format!(
            "searched: {} of {} in {}, until {end}",
            number::count(found.trials, "trial"),
            number::count(ran, "setting"),
            number::count(found.blocks, "block")
        ));
        lines.extend(self.tune.candidates()[0].out.map(|why| format!("the default {}", out(why))));
        lines.push(self.all_trials(confirmed.is_some()));
        lines.iter().map(|line| one_line(line.trim_end()) + "\n").collect()
    }

    /// What the fresh blocks say of the best setting of the search. What was measured of one that is not shown to be better is no
    /// reason to choose it.
    fn concluded(&self, best: usize, confirmed: Option<&Confirmed>) -> Vec<String> {
        let (text, default) = (&self.settings[best].text, format!("default: {}", self.settings[0].text));
        let (winner, in_search) = (format!("winner: {text}"), format!("best in the search: {text}"));
        match confirmed.map(|confirmed| (confirmed, confirmed.conclusion())) {
            Some((_, Conclusion::Better)) => [vec![winner, default], self.at_an_end(best)].concat(),
            Some((confirmed, Conclusion::DefaultViolates(at))) => {
                [vec![winner, default], self.violations(confirmed, at), self.at_an_end(best)].concat()
            }
            Some((confirmed, Conclusion::Alike)) => {
                let alike =
                    "the default is kept: in fresh blocks the best setting differs from it by less than the margin";
                let violations = (0..self.wanted.constraints.len()).flat_map(|at| self.violations(confirmed, at));
                [alike.to_owned(), in_search, default].into_iter().chain(violations).collect()
            }
            Some((_, Conclusion::None(why))) => vec![format!("no winner: {why}"), in_search, default],
            None => vec![in_search, default],
        }
    }

    /// How often the default violates a constraint in the fresh blocks, where it does.
    fn violations(&self, confirmed: &Confirmed, at: usize) -> Vec<String> {
        let of = &confirmed.of_default;
        let Bound { broke, satisfied, .. } = of.bounds[at];
        let (violated, constraint) = (broke.saturating_sub(of.failed), &self.wanted.constraints[at]);
        let trials = count(violated + satisfied, "fresh trial");
        let text = (violated > 0).then(|| format!("the default violates `{constraint}` in {violated} of {trials}"));
        text.into_iter().collect()
    }

    /// Where the trials of the search are shown, and whether others say how good the winner is.
    pub(super) fn all_trials(&self, confirmed: bool) -> String {
        let command = format!("prony show {}{}", self.run, self.option);
        let biased = "; the values of these trials are biased, since the winner was chosen by them: quote the values of the fresh \
            blocks";
        format!("every trial: `{command}`{}\n", if confirmed { biased } else { "" })
    }

    fn interrupted(&self) -> [String; 2] {
        let command = format!("prony tune --resume {}{}", self.run, self.option);
        ["interrupted; finished trials are saved".to_owned(), format!("hint: to resume: `{command}`")]
    }

    /// Which values of the best setting are the last of their ranges: 0 is the least that there is.
    fn at_an_end(&self, winner: usize) -> Vec<String> {
        let of = |(range, value): (&Range, &f64)| {
            let is_end = *value != 0.0 && (*value == range.at(0.0) || *value == range.at(1.0));
            is_end.then(|| {
                let (name, value) = (&range.name, range.text(*value));
                format!("the best `{name}` is {value}, an end of its range: a better value may lie beyond it")
            })
        };
        self.ranges.iter().zip(&self.tune.candidates()[winner].point).filter_map(of).collect()
    }
}

impl SearchReport<'_> {
    /// How many settings were left out for a reason, and why the first of them.
    fn left_out(&self, out: Out, since: &str) -> Option<String> {
        let is_of = |left: &&LeftOut| self.tune.candidates()[left.candidate].out == Some(out);
        let mut all = self.left_out.iter().filter(is_of).peekable();
        let LeftOut { candidate, why } = all.peek()?;
        let first = &self.settings[*candidate].text;
        Some(format!("left out, since {since}: {}; the first: {first} ({why})", count(all.count(), "setting")))
    }

    /// Settings that reached 0: the race cannot compare them, though less may be better.
    fn zeros(&self) -> Option<String> {
        let zero = |at: &usize| self.tune.candidates()[*at].out == Some(Out::Zero);
        let all: Vec<usize> = (0..self.settings.len()).filter(zero).collect();
        let (first, objective) = (&self.settings[*all.first()?].text, &self.wanted.objective);
        let many = count(all.len(), "setting");
        Some(if self.wanted.maximize {
            format!("in {many} `{objective}` was 0, so that no ratio can be computed: {first}")
        } else {
            format!("{many} reached 0 in `{objective}`: no value is better, and there is no ratio; the first: {first}")
        })
    }
}

fn end(end: End) -> &'static str {
    match end {
        End::Fine => "the steps were as fine as `--resolution`",
        End::Noise => "differences between the settings of the last grid were within the noise",
        End::Spent => "`--max-trials` or `--budget` allowed no further block",
        End::NothingFeasible => "every setting was dropped",
    }
}

fn out(why: Out) -> &'static str {
    match why {
        Out::Broke => "setting breaks a constraint",
        Out::Failed => "setting failed in a trial",
        Out::Disturbed => "setting was repeatedly ended from outside",
        Out::Unread => "setting has no readings",
        Out::Zero => "setting has the value 0, so that no ratio can be computed",
        // The default is not compared with itself, and the file allows it.
        Out::Unlike | Out::Refused => "setting was left out",
    }
}

/// Why there is no winner: how many settings left for which reason.
fn nothing(found: &Found, tune: &Tune) -> Vec<String> {
    if found.trials == 0 {
        // A budget of time always allows the first block.
        let needed = tune.trials_of_next_block();
        let trials = count(needed, "trial");
        return vec![
            format!("no setting was tried: one block has {trials}, and `--max-trials` allows fewer"),
            format!("hint: write `--max-trials {needed}` or more, or a coarser `--grid`"),
        ];
    }
    if tune.is_default_uncompared() {
        return vec!["no winner: no other setting that was tried can be compared with the default".to_owned()];
    }
    vec![format!("no setting is feasible: of those that were tried, {}", dropped(tune).unwrap_or_default())]
}

/// How many settings were dropped for good, and for which reasons.
fn dropped(tune: &Tune) -> Option<String> {
    let all = [
        (Out::Broke, "broke a constraint"),
        (Out::Failed, "failed in a trial"),
        (Out::Disturbed, "were ended from outside"),
        (Out::Unread, "had no readings"),
        (Out::Zero, "had the value 0, so that no ratio can be computed"),
        (Out::Unlike, "cannot be compared with the default"),
    ];
    let count = |why: Out| tune.candidates().iter().filter(|candidate| candidate.out == Some(why)).count();
    let reasons = all.iter().filter(|(why, _)| count(*why) > 0).map(|(why, text)| format!("{} {text}", count(*why)));
    Some(reasons.collect::<Vec<_>>().join(", ")).filter(|reasons| !reasons.is_empty())
}

fn fresh(report: &SearchReport<'_>, confirmed: &Confirmed) -> Vec<String> {
    let wanted = report.wanted;
    let mut lines = Vec::new();
    let run = confirmed.data.head.id;
    let beside = |variant| median(&figures(confirmed, variant, &wanted.objective));
    if let (None, Some(winner), Some(default)) = (confirmed.refusal(), beside(1), beside(0)) {
        let unit = wanted.objective.key.metric.unit();
        let (winner, default) = (quantity(unit, winner), quantity(unit, default));
        lines.push(format!("in fresh blocks: `{}` {winner}, the default {default} (medians)", wanted.objective));
    }
    for line in &confirmed.verdicts.lines {
        lines.push(format!("verdict: {}", line.sentence));
        let mut detail = line.detail.clone();
        if line.comparison.verdict.is_difference() {
            detail.omit_detectable();
        }
        lines.push(format!("  {detail}"));
    }
    lines.extend(confirmed.verdicts.silent.as_ref().map(|why| format!("no verdict: {why}")));
    let ConstraintResults { bounds, trials, failed } = &confirmed.constraints;
    if *failed > 0 {
        let trials = number::count(*trials, "fresh trial");
        lines.push(format!("the best setting did not finish in {failed} of {trials}"));
    }
    lines.extend(wanted.constraints.iter().zip(bounds).map(|(constraint, bound)| constraint_line(constraint, bound)));
    if confirmed.summary.interrupted {
        lines.extend(report.interrupted());
    } else {
        lines.push(format!("fresh blocks: `prony show {run}{}`", report.option));
    }
    lines
}

/// In how many fresh trials of the winner with a usable value a constraint held, and the value nearest to violating it.
fn constraint_line(constraint: &Constraint, bound: &Bound) -> String {
    let Bound { satisfied, broke, silent, why, worst } = bound;
    let decided = number::count(satisfied + broke, "fresh trial");
    let mut text = match bound.is_met() {
        Met::Yes => format!("`{constraint}` holds: in {satisfied} of {decided}"),
        Met::No => format!("`{constraint}` DOES NOT HOLD: in {satisfied} of {decided}"),
        Met::Unknown => {
            format!("whether `{constraint}` holds is not known: it held in {satisfied} of {decided}")
        }
    };
    if let Some(why) = why {
        let have = if *silent == 1 { "trial has" } else { "trials have" };
        text += &format!(", {silent} more {have} no reading ({why})");
    }
    text + &worst.map(|worst| format!("; worst value: {}", quantity(constraint.unit(), worst))).unwrap_or_default()
}

/// The measured values of a variant's trials.
fn figures(confirmed: &Confirmed, variant: usize, name: &MetricName) -> Vec<f64> {
    let trials = confirmed.data.trials.iter().filter(|trial| trial.trial.variant == variant);
    trials.filter_map(|trial| trial.figure(name).measured().copied()).collect()
}

fn quantity(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanos if value < 0.0 => format!("-{}", quantity(unit, -value)),
        Unit::Nanos => time(Nanos::from_nanos(value as u64)),
        Unit::Bytes => amount(value),
        Unit::PerSecond => format!("{value:.4} per second"),
        Unit::Count | Unit::Ratio => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraint_fails_only_where_a_trial_breaks_it() {
        let constraint: Constraint = "work.disk < 100 MB".parse().unwrap();
        let said = |satisfied, broke, silent| {
            let why = (silent > 0).then(|| "not reached".to_owned());
            constraint_line(&constraint, &Bound { satisfied, broke, silent, why, worst: Some(5e7) })
        };
        assert_eq!(said(6, 0, 0), "`work.disk < 100 MB` holds: in 6 of 6 fresh trials; worst value: 50.0 MB");
        assert!(said(5, 0, 1).contains("holds: in 5 of 5 fresh trials, 1 more trial has no reading (not reached); "));
        assert!(said(2, 0, 4).starts_with("whether `work.disk < 100 MB` holds is not known: it held in 2 of 2 "));
        assert_eq!(quantity(Unit::Nanos, -6e7), format!("-{}", quantity(Unit::Nanos, 6e7)));
        assert!(said(4, 1, 1).contains("DOES NOT HOLD: in 4 of 5 fresh trials, 1 more trial has"));
    }
}
