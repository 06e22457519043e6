//! A gate for continuous integration: a condition such as `write.time slower 5%` that must not hold. Its answer depends
//! on the verdicts and trials only.

use std::fmt;
use std::str::FromStr;

use prony_model::metric::{Better, Metric, MetricError, MetricKey, MetricName};
use prony_model::number::{count, effect_bound, percent_up_to};
use prony_model::outcome::{Outcome, counted};
use prony_model::reading::Reading;
use prony_model::record::TrialRecord;
use prony_model::units::{QuantityError, parse_fraction};
use prony_stats::verdict::directions;
use prony_stats::{Counts, RatioInterval, Verdict};

use super::{Line, NewRun, new_run_until};
use crate::guard::disturbances::limited_by_generator;
use prony_results::RunData;

/// A condition that must not hold: the metric of a variant is worse than that of its baseline by more than a share.
/// Where neither direction of the metric is worse, the condition states the direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The metric; it must be declared in the experiment.
    pub metric: MetricName,
    /// The direction of the change that must not occur, such as `slower` or `fewer`.
    pub word: &'static str,
    /// The share by which the metric may change in that direction.
    pub share: f64,
}

impl Gate {
    /// The ratio to the baseline from which on the gate fails.
    fn limit(&self) -> f64 {
        if self.is_of_less() { 1.0 - self.share } else { 1.0 + self.share }
    }

    /// What an interval of the ratio decides. That it lies within the share shows nothing where it does not cover all blocks and
    /// they may reach beyond it.
    fn decide(&self, interval: &RatioInterval, covers_all: bool, smallest_effect: &Reading<f64>) -> Answer {
        let (low, high, limit) = (interval.low, interval.high.unwrap_or(f64::INFINITY), self.limit());
        let (fails, passes) =
            if self.is_of_less() { (high < limit, low >= limit) } else { (low > limit, high <= limit) };
        let covers = covers_all || smallest_effect.measured().is_some_and(|effect| *effect <= self.share);
        match (fails, passes && covers) {
            (true, _) => Answer::Fails,
            (_, true) => Answer::Passes,
            _ => Answer::Unsure,
        }
    }

    /// Whether more blocks could let it fail or pass: none of its comparisons fails, and one is not decided.
    pub fn is_open(&self, lines: &[Line], data: &RunData) -> bool {
        let answers = Verdicted::of(self, lines, &data.trials).answers;
        let any = |wanted| answers.iter().any(|(answer, _)| *answer == wanted);
        any(Answer::Unsure) && !any(Answer::Fails)
    }

    /// The same condition on CPU time, where this one is on elapsed time.
    fn on_cpu_time(&self) -> Option<Self> {
        let metric = MetricName { key: MetricKey::amount(Metric::Cpu), ..self.metric.clone() };
        let is_elapsed = matches!(self.metric.key.metric, Metric::Time | Metric::Wall);
        is_elapsed.then(|| Self { metric, word: directions(Metric::Cpu).1, share: self.share })
    }

    /// Whether the gate forbids values below the baseline's.
    fn is_of_less(&self) -> bool {
        match self.metric.key.metric.better() {
            Better::Higher => true,
            Better::Lower => false,
            Better::Neither => self.word == directions(self.metric.key.metric).0,
        }
    }
}

/// Why a text is not a gate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GateError {
    /// The text does not have three parts.
    #[error("`{0}` is not a condition; write a metric, a direction and a share, such as `write.time slower 5%`")]
    Form(String),
    /// The metric is wrong.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// The share is wrong.
    #[error(transparent)]
    Share(#[from] QuantityError),
    /// The share is none that a gate may allow.
    #[error("`{text}` is out of range: the share of a condition is from 0% to {MOST}%{example}")]
    Range {
        /// As written.
        text: String,
        /// How it is written where percent may be meant.
        example: String,
    },
    /// 1 may be meant as a share or as per cent.
    #[error("the share `{0}` may be all of the value or 1 per cent; write `100%` or `1%`")]
    Bare(String),
    /// Nothing falls by so much.
    #[error("`{metric}` cannot be {word} by {share}, which leaves nothing of it; write a share below 100 %")]
    Nothing {
        /// The metric.
        metric: String,
        /// The direction.
        word: &'static str,
        /// The share as written.
        share: String,
    },
    /// The word is not the one for this metric.
    #[error("a worse `{metric}` is called `{worse}`, not `{word}`; write `{metric} {worse} {share}`")]
    Word {
        /// The metric.
        metric: String,
        /// As written.
        word: String,
        /// The word for the metric's worse direction.
        worse: &'static str,
        /// The share as written.
        share: String,
    },
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let form = || GateError::Form(text.to_owned());
        // A gate may be written with a blank before its `%`.
        let text = text.trim().replace(" %", "%");
        let (rest, share) = text.rsplit_once(' ').ok_or_else(form)?;
        // Without a share, the last word is another.
        if !share.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
            return Err(form());
        }
        let written = share.to_owned();
        let beyond_all = share.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        let share = match beyond_all.filter(|percent| (100.0..=MOST).contains(percent)) {
            Some(percent) => percent / 100.0,
            None => parse_fraction(share)
                .map_err(|error| match error {
                    QuantityError::Share { text, example } => GateError::Range { text, example },
                    error => error.into(),
                })?
                .get(),
        };
        if share >= 1.0 && !written.ends_with('%') {
            return Err(GateError::Bare(written));
        }
        // Phases may hold spaces, and so may the words: "more memory".
        let at =
            rest.match_indices(' ').find_map(|(at, _)| Some((rest[..at].parse::<MetricName>().ok()?, &rest[at + 1..])));
        let Some((metric, word)) = at else {
            let first = rest.split(' ').next().unwrap_or(rest);
            return Err(first.parse::<MetricName>().map_or_else(GateError::from, |_| form()));
        };
        let (better, worse) = directions(metric.key.metric);
        let either = metric.key.metric.better() == Better::Neither;
        let gate = match word.trim() {
            word if word == worse => Self { metric, word: worse, share },
            word if either && word == better => Self { metric, word: better, share },
            word => {
                let (metric, word) = (metric.to_string(), word.to_owned());
                return Err(GateError::Word { metric, word, worse, share: written });
            }
        };
        if gate.limit() <= 0.0 {
            return Err(GateError::Nothing { metric: gate.metric.to_string(), word: gate.word, share: written });
        }
        Ok(gate)
    }
}

/// The gate's answer for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// No comparison is worse by more than the share.
    Passes,
    /// Not decided; more blocks could decide it.
    Unsure,
    /// A trial of the baseline failed, a trial of either ended well without a value that counts, a disturbance or a
    /// refusal prevents the comparison, or no block has a value of the metric: nothing can be said about the change.
    CannotJudge,
    /// A comparison is worse by more than the share, or a trial of the variant failed because of the variant itself.
    Fails,
}

/// Per cent that a gate may allow at most, of a metric of which more is worse.
const MOST: f64 = 10_000.0;

/// With a minimum detectable effect of more than so many shares of the gate, no number of blocks is recommended.
const FAR: f64 = 2.0;

/// The gate's answer for each comparison of its metric; the worst is the run's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicted {
    /// The gate.
    pub gate: Gate,
    /// The answer and the comparison's sentence, for each.
    pub answers: Vec<(Answer, String)>,
    /// The largest minimum detectable effect of the undecided comparisons, where it is larger than the gate's share: such
    /// a gate is rarely decided, since the interval of two equal variants is wider than the share. With the name of the variant.
    pub coarse: Option<(f64, String)>,
    /// The new run that could decide it, where it is not decided.
    pub new_run: Option<NewRun>,
    /// The same condition on CPU time with its answer and the sentence of that, where this run decides it: CPU time changes less
    /// with the load of the machine.
    pub by_cpu_time: Option<(Gate, Answer, String)>,
}

impl Verdicted {
    /// Of these verdicts and the trials that they rest on.
    pub fn of(gate: &Gate, lines: &[Line], trials: &[TrialRecord]) -> Self {
        let ours: Vec<&Line> = lines.iter().filter(|line| line.pair.metric == gate.metric).collect();
        let answers: Vec<(Answer, String)> = ours.iter().map(|line| answer(gate, line, trials)).collect();
        let undecided = ours.iter().zip(&answers).filter(|(_, (answer, _))| *answer == Answer::Unsure);
        let smallest = undecided.filter_map(|(line, _)| {
            let effect = line.comparison.smallest_effect.measured().copied()?;
            Some((effect, line.pair.names.variant.clone()))
        });
        let coarse = smallest.filter(|(effect, _)| *effect > gate.share).max_by(|a, b| a.0.total_cmp(&b.0));
        let by_cpu_time = gate.on_cpu_time().and_then(|on_cpu| {
            let ours = lines.iter().filter(|line| line.pair.metric == on_cpu.metric);
            let (worst, sentence) = ours.map(|line| answer(&on_cpu, line, trials)).max_by_key(|(answer, _)| *answer)?;
            matches!(worst, Answer::Passes | Answer::Fails).then_some((on_cpu, worst, sentence))
        });
        Self { gate: gate.clone(), answers, coarse, new_run: None, by_cpu_time }
    }

    /// The same for a run, with what would decide it.
    pub fn of_run(gate: &Gate, lines: &[Line], data: &RunData) -> Self {
        let verdicted = Self::of(gate, lines, &data.trials);
        let ours = lines.iter().filter(|line| line.pair.metric == gate.metric).zip(&verdicted.answers);
        let open: Vec<&Line> =
            ours.filter(|(_, (answer, _))| *answer == Answer::Unsure).map(|(line, _)| line).collect();
        // All of them must be decided.
        let decides = |interval: &RatioInterval, covers_all: bool, smallest_effect: &Reading<f64>| {
            gate.decide(interval, covers_all, smallest_effect) != Answer::Unsure
        };
        let runs: Option<Vec<NewRun>> = open.into_iter().map(|line| new_run_until(data, line, decides)).collect();
        let new_run = runs.and_then(|runs| runs.into_iter().max_by_key(|run| run.blocks));
        Self { new_run, ..verdicted }
    }

    /// The worst answer; without any comparison of the metric nothing can be judged.
    pub fn answer(&self) -> Answer {
        self.answers.iter().map(|(answer, _)| *answer).max().unwrap_or(Answer::CannotJudge)
    }
}

impl fmt::Display for Verdicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.answer() {
            Answer::Passes => "passes",
            Answer::Unsure => "can't tell",
            Answer::CannotJudge => "cannot judge",
            Answer::Fails => "fails",
        };
        let Gate { metric, word: asked, share } = &self.gate;
        write!(f, "gate `{metric} {asked} {}`: {word}", percent_up_to(*share, 4))?;
        if self.answer() == Answer::Passes {
            write!(f, ", shown to be not {asked} by more than {}", percent_up_to(*share, 4))?;
        }
        for (answer, sentence) in &self.answers {
            if *answer == self.answer() && *answer != Answer::Passes {
                write!(f, "\n  {sentence}")?;
            }
        }
        if !self.answers.iter().any(|(answer, _)| *answer == Answer::Unsure) {
            return Ok(());
        }
        let share = percent_up_to(*share, 4);
        if let Some((Gate { metric, word, .. }, answer, sentence)) = &self.by_cpu_time {
            let answer = if *answer == Answer::Passes { "passes" } else { "fails" };
            write!(
                f,
                "\n  hint: for later runs, think of `{metric} {word} {share}`, which {answer} in this one ({sentence}): CPU time changes \
                 less with the load of the machine, but does not see waiting"
            )?;
        }
        if let Some((effect, variant)) = &self.coarse {
            let of_variant = if self.answers.len() > 1 { format!(" of `{variant}`") } else { String::new() };
            write!(
                f,
                "\n  warning: the gate allows {share}, and this run could detect differences{of_variant} from {} on only (its \
                 minimum detectable effect): such a gate is rarely decided",
                effect_bound(*effect)
            )?;
        }
        match (self.new_run, self.coarse.as_ref().map(|(effect, _)| *effect)) {
            // It would rest on a ratio that another run need not have.
            (_, Some(effect)) if effect > FAR * self.gate.share && !(effect >= 0.99 && self.gate.is_of_less()) => {
                let more = if effect < 0.99 {
                    effect_bound(effect)
                } else {
                    format!("{:.0} %", (effect * 10.0).ceil() * 10.0)
                };
                write!(f, "\n  hint: let the gate allow more: {more} or so")
            }
            (Some(run), _) => write!(
                f,
                "\n  hint: {run} could decide this gate, if all blocks came out like these: `--blocks {}` (the verdict is on any \
                 difference, and may take more); or let the gate allow more",
                run.blocks
            ),
            (None, _) => write!(
                f,
                "\n  hint: run again with more blocks in all, `--blocks N`, or let the gate allow more; it passes or fails once \
                 the whole interval lies on one side of {share}"
            ),
        }
    }
}

/// The gate's answer for a comparison, and why. How trials ended comes before their values: a variant of which one trial
/// failed does not pass, nor does one with an infinite value, which a median hides, where the baseline has none. Where a trial of
/// the baseline failed, something else ended a trial of either, or one ended well without a finite value that counts (METHOD 8.1),
/// the values cannot show that the variant passes, though they may still show that it fails, unless they are of a rate that the
/// load generator may not have reached (METHOD 6).
fn answer(gate: &Gate, line: &Line, trials: &[TrialRecord]) -> (Answer, String) {
    let of = |variant: usize| trials.iter().filter(move |trial| trial.trial.variant == variant);
    let failures = |which: fn(&TrialRecord) -> bool, variant: usize| -> Option<String> {
        let failed: Vec<Outcome> = of(variant).filter(|trial| which(trial)).map(|trial| trial.ending.outcome).collect();
        let all = count(of(variant).count(), "trial");
        (!failed.is_empty()).then(|| format!("{} of {all}: {}", failed.len(), counted(failed)))
    };
    let (variant, baseline) = (line.pair.variant, line.pair.baseline);
    let is_own = |trial: &TrialRecord| trial.ending.outcome.is_own_failure() && limited_by_generator(trial).is_none();
    let failed = failures(is_own, variant).map(|how| format!("failed in {how}"));
    let (names, comparison) = (&line.pair.names, &line.comparison);
    let did_not_end_well = |id: usize| failures(|trial| !trial.ending.outcome.is_ok(), id);
    let infinite = |id: usize, counts| without_finite_value(counts).filter(|_| did_not_end_well(id).is_none());
    let of_variant = infinite(variant, comparison.variant);
    if let Some(how) = failed.or(of_variant.filter(|_| infinite(baseline, comparison.baseline).is_none())) {
        let name = &names.variant;
        let rule = "a variant of which a trial failed does not pass";
        return (Answer::Fails, format!("`{name}` {how}, and {rule}; {}", line.sentence));
    }
    let judged = judge(gate, line);
    let sides = [(variant, &names.variant, comparison.variant), (baseline, &names.baseline, comparison.baseline)];
    let of_generator = sides.into_iter().find_map(|(id, name, _)| {
        let how = failures(|trial| limited_by_generator(trial).is_some(), id)?;
        Some(format!("`{name}` failed in {how}, where the load generator may have been the limit"))
    });
    let in_phase = |id: usize| of(id).any(|trial| limited_by_generator(trial) == Some(&gate.metric.phase));
    // What the generator limited is a value of neither.
    let shows_nothing = match judged {
        Answer::Passes | Answer::Unsure => true,
        Answer::Fails => in_phase(variant) || in_phase(baseline),
        Answer::CannotJudge => false,
    };
    let how = of_generator.or_else(|| {
        sides.into_iter().find_map(|(id, name, counts)| {
            let failed = did_not_end_well(id).map(|how| format!("failed in {how}"));
            let how = failed.or_else(|| without_phase(&gate.metric, of(id))).or_else(|| infinite(id, counts))?;
            Some(format!("`{name}` {how}"))
        })
    });
    match (judged, how) {
        (_, Some(how)) if shows_nothing => (Answer::CannotJudge, format!("{how}; {}", line.sentence)),
        (Answer::Fails, _) if !ends_worse(line) && line.comparison.interval.measured().is_some() => {
            let Gate { word, share, .. } = gate;
            let rule =
                format!("the condition holds, the whole interval is {word} by more than {}", percent_up_to(*share, 4));
            (judged, format!("{rule}: {}", line.sentence))
        }
        _ => (judged, line.sentence.clone()),
    }
}

/// In how many trials the value is infinite, of a variant of which no trial failed.
fn without_finite_value(Counts { finished, trials }: Counts) -> Option<String> {
    let (infinite, all) = (trials - finished, count(trials, "trial"));
    (infinite > 0).then(|| format!("has an infinite value in {infinite} of {all}, as if they had failed"))
}

/// How many trials ended well although what they did in the phase does not count, and why it does not in the first.
fn without_phase<'a>(metric: &MetricName, trials: impl Iterator<Item = &'a TrialRecord> + Clone) -> Option<String> {
    let excluded = |trial: &TrialRecord| {
        let phase = trial.phases.iter().find(|phase| phase.name == metric.phase && trial.ending.outcome.is_ok())?;
        trial.excluded(phase, metric.key.metric)
    };
    let mut without = trials.clone().filter_map(excluded);
    let why = without.next()?;
    let all = count(trials.count(), "trial");
    Some(format!("ended well in {} of {all} without a value that counts ({why})", 1 + without.count()))
}

/// Whether the verdict is on trials that did not finish, not on values.
const fn ends_worse(line: &Line) -> bool {
    matches!(line.comparison.verdict, Verdict::DoesNotFinish | Verdict::FinishesLessOften)
}

/// The interval is of the ratio of what is measured; of a rate, less is worse.
fn judge(gate: &Gate, line: &Line) -> Answer {
    match &line.comparison.verdict {
        _ if ends_worse(line) => return Answer::Fails,
        Verdict::BaselineDoesNotFinish | Verdict::NeitherFinishes | Verdict::Refused { .. } => {
            return Answer::CannotJudge;
        }
        Verdict::CantTell { .. } if line.comparison.blocks == 0 => return Answer::CannotJudge,
        // Before the first analysis of the plan no verdict is stated, whatever the interval (METHOD 4.7).
        _ if line.comparison.p.measured().is_none() => return Answer::Unsure,
        _ => {}
    }
    let Reading::Measured(interval) = &line.comparison.interval else {
        // From nothing to something is beyond any share, and from something to nothing within it: no ratio says so.
        // Of a metric of which neither direction is worse, a verdict calls less the better one.
        let turned = gate.metric.key.metric.better() == Better::Neither && gate.is_of_less();
        return match &line.comparison.verdict {
            Verdict::Worse if !turned => Answer::Fails,
            Verdict::Better if turned => Answer::Fails,
            Verdict::Better | Verdict::Worse => Answer::Passes,
            _ => Answer::Unsure,
        };
    };
    gate.decide(interval, line.comparison.covers_all, &line.comparison.smallest_effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_read_as_written() {
        let gate: Gate = "write.time slower 5%".parse().unwrap();
        assert_eq!((gate.metric.to_string().as_str(), gate.share), ("write.time", 0.05));
        let gate: Gate = "page queries.anon.max more memory 10%".parse().unwrap();
        assert_eq!((gate.metric.to_string().as_str(), gate.share), ("page queries.anon.max", 0.1));
        let gate: Gate = "read.rate slower 2.5%".parse().unwrap();
        assert_eq!(gate.share, 0.025);
    }

    #[test]
    fn gates_are_shown_as_they_were_written() {
        let texts = [
            "write.time slower 5 %",
            "read.rate slower 2.5 %",
            "write.anon.max more memory 0.001 %",
            "write.operations fewer 5 %",
            "write.operations more 5 %",
        ];
        for text in texts {
            for written in [text.to_owned(), text.replace(" %", "%")] {
                let gate: Gate = written.parse().unwrap();
                assert_eq!(Verdicted::of(&gate, &[], &[]).to_string(), format!("gate `{text}`: cannot judge"));
            }
        }
    }

    /// Below a verdict that would take more than 200 blocks was a hint that 38 could tell.
    #[test]
    fn forecast_is_of_the_gate_and_only_where_its_share_can_be_found() {
        let gate: Gate = "write.time slower 5%".parse().unwrap();
        let new_run = Some(NewRun { blocks: 38, takes: None, longer: None });
        let answers = vec![(Answer::Unsure, "can't tell".to_owned())];
        let named = |coarse: Option<f64>| coarse.map(|effect| (effect, "size=b".to_owned()));
        let said = |coarse| {
            Verdicted {
                gate: gate.clone(),
                answers: answers.clone(),
                coarse: named(coarse),
                new_run,
                by_cpu_time: None,
            }
            .to_string()
        };
        for coarse in [None, Some(0.09)] {
            let text = said(coarse);
            assert!(text.contains("hint: a new run of about 38 blocks could decide this gate, if"), "{text}");
        }
        let text = said(Some(0.4));
        assert!(text.ends_with("\n  hint: let the gate allow more: 40 % or so"), "{text}");
        assert!(text.contains("this run could detect differences from 40 % on only"), "{text}");
        let several = Verdicted {
            answers: [answers.clone(), answers].concat(),
            gate,
            coarse: named(Some(0.4)),
            new_run,
            by_cpu_time: None,
        };
        let text = several.to_string();
        assert!(text.contains("this run could detect differences of `size=b` from 40 % on only"), "{text}");
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let error = |text: &str| text.parse::<Gate>().unwrap_err().to_string();
        assert_eq!(
            error("slower"),
            "`slower` is not a condition; write a metric, a direction and a share, such as \
            `write.time slower 5%`"
        );
        assert_eq!(
            error("write.time faster 5%"),
            "a worse `write.time` is called `slower`, not `faster`; write `write.time slower 5%`"
        );
        assert!(error("write.time slower").starts_with("`write.time slower` is not a condition; "));
        assert!(error("write.tiem slower 5%").contains("did you mean `write.time`?"));
        // It was a gate of 100 %.
        assert_eq!(
            error("write.time slower 1"),
            "the share `1` may be all of the value or 1 per cent; write `100%` or `1%`"
        );
        assert!(error("write.time slower five").contains("five"));
        // It named 100 % as the most, which is not that of a gate.
        let range = "is out of range: the share of a condition is from 0% to 10000%";
        assert_eq!(error("write.time slower -5%"), format!("`-5%` {range}"));
        assert_eq!(error("write.time slower 5"), format!("`5` {range}, such as `5%`"));
        assert_eq!(
            error("write.rate slower 100%"),
            "`write.rate` cannot be slower by 100%, which leaves nothing of it; write a share below 100 %"
        );
        assert!("write.time slower 100%".parse::<Gate>().is_ok() && "write.rate slower 99%".parse::<Gate>().is_ok());
        assert_eq!("write.time slower 270 %".parse::<Gate>().map(|gate| gate.share), Ok(2.7));
        assert!(error("write.rate slower 270%").contains("leaves nothing of it"));
    }
}
