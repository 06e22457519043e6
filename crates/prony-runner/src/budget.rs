//! Says how many blocks and which verdicts a time budget suffices for: before the run, and after the first block.

use std::fmt;

use prony_experiment::design::Experiment;
use prony_experiment::plan::{Outline, outline};
use prony_model::number::{count, percent_with, span};
use prony_model::units::Nanos;
use prony_stats::power::effect_of_blocks;
use prony_stats::{CLOSING, blocks_before_any_verdict};

use crate::estimate::{self, Basis, Estimate};

/// Noise for which the minimum detectable effect is shown where none was measured yet.
const EXAMPLE: f64 = 0.05;

/// What a time budget suffices for.
#[derive(Clone, Debug, PartialEq)]
pub struct Bought {
    /// The whole time.
    pub budget: Nanos,
    /// The time of a block, and how many fit; `None` where it is not known.
    pub blocks: Option<(Nanos, u32)>,
    /// Blocks before any verdict; `None` where none is possible.
    pub needed: Option<u32>,
    /// Comparisons that get one.
    family: u32,
    alpha: f64,
    /// Trials of a block.
    trials: u32,
    /// What is done once, the cuts of crash trials included.
    once: Nanos,
    /// Whether a program has a `cleanup`, which nobody has measured when the budget is spent.
    cleans_up: bool,
    /// How the time of a block was estimated.
    basis: Basis,
    /// Standard deviation of the logarithm of a trial of the primary metric within a block, where one was measured.
    spread: Option<f64>,
}

impl Bought {
    /// By what is known before the run; `None` without a budget.
    pub fn of(experiment: &Experiment, outline: &Outline, estimate: &Estimate) -> Option<Self> {
        let budget = experiment.compare().budget?;
        let alpha = experiment.compare().alpha.get();
        let analyses = experiment.compare().analyses(outline.blocks);
        let needed = blocks_before_any_verdict(outline.family as usize, alpha, &analyses);
        let block = estimate.block.filter(|_| estimate.basis != Basis::Unknown);
        let once = estimate.once + estimate::cuts(experiment, outline);
        let room = budget.since(once).as_nanos();
        let fit = |block: Nanos| u32::try_from(room / block.as_nanos().max(1)).unwrap_or(u32::MAX);
        Some(Self {
            budget,
            blocks: block.map(|block| (block, fit(block).min(outline.blocks.max))),
            needed: needed.filter(|_| outline.family > 0),
            family: outline.family,
            alpha,
            trials: outline.trials_of_a_block,
            once,
            cleans_up: experiment
                .variants()
                .iter()
                .any(|variant| variant.spec.programs().any(|program| program.cleanup.is_some())),
            basis: estimate.basis,
            spread: estimate.spread,
        })
    }

    /// The same when blocks of the run itself have shown what one takes, and how many the budget holds.
    pub fn measured(experiment: &Experiment, (estimate, blocks): (Estimate, u32)) -> Option<Self> {
        let bought = Self::of(experiment, &outline(experiment), &estimate)?;
        Some(Self { blocks: bought.blocks.map(|(block, _)| (block, blocks)), ..bought })
    }

    /// Whether verdicts are requested and too few blocks fit for any.
    pub(crate) fn falls_short(&self) -> bool {
        matches!((self.blocks, self.needed), (Some((_, fit)), Some(needed)) if fit < needed)
    }

    /// The least time for a verdict, where that is known.
    pub(crate) fn verdict_takes(&self) -> Option<Nanos> {
        let (block, _) = self.blocks?;
        Some(Nanos::from_nanos(block.as_nanos().saturating_mul(u64::from(self.needed?))) + self.once)
    }

    /// A sufficient budget, where this one is not.
    pub fn hint(&self) -> Option<String> {
        let enough = self.verdict_takes().filter(|_| self.falls_short())?;
        // A block more than it takes: the rule leaves out one that would end too late.
        let seconds = (enough.as_secs_f64() * 1.2).ceil() as u64;
        let text = if seconds < 120 { format!("{seconds}s") } else { format!("{}min", seconds.div_ceil(60)) };
        Some(format!("`--budget {text}`, fewer variants or shorter trials"))
    }

    /// The smallest effect that the closing analysis of so many blocks would find with probability 0.8.
    fn effect(&self) -> Option<String> {
        let (_, blocks) = self.blocks.filter(|(_, fit)| self.needed.is_some_and(|needed| *fit >= needed))?;
        let each = self.alpha * CLOSING / f64::from(self.family.max(1));
        let percent = |share| percent_with(share, 1);
        let of = |spread| percent(effect_of_blocks(blocks, spread, each));
        let text = match self.spread {
            Some(spread) => {
                format!("{} if trials vary by {}, as in the last run", of(spread), percent(spread))
            }
            None => format!("{} if trials vary by {} (assumed, not measured yet)", of(EXAMPLE), percent(EXAMPLE)),
        };
        Some(format!("minimum detectable effect: {text}"))
    }
}

impl fmt::Display for Bought {
    /// What fits, and what it suffices for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (budget, trials) = (span(self.budget), self.trials);
        let by = match self.basis {
            Basis::Trials(n) => format!(", estimated from {} of earlier runs", count(n, "trial")),
            Basis::Crude => ", by a forecast without earlier runs, which may be wrong by a factor of 5".to_owned(),
            Basis::Run | Basis::Unknown => String::new(),
        };
        match self.blocks {
            Some((block, 0)) => {
                let once = if self.once > Nanos::ZERO {
                    format!(", without {} for builds and for the cuts of crash trials,", span(self.once))
                } else {
                    String::new()
                };
                let block = span(block);
                write!(
                    f,
                    "the budget of {budget}{once} is shorter than one block of {block}{by}; the first block runs anyway"
                )?;
            }
            Some((block, fit)) => {
                let fit = count(fit, "block");
                write!(f, "the budget of {budget} suffices for about {fit} of {}{by}", span(block))?;
            }
            None => write!(f, "how many blocks fit into the budget of {budget} is not known before the first block")?,
        }
        if self.cleans_up {
            f.write_str("; the time of `cleanup` is not included in the budget")?;
        }
        let Some(needed) = self.needed else { return Ok(()) };
        match (self.verdict_takes(), self.falls_short()) {
            (Some(time), true) => {
                write!(f, "; too few for any verdict, which needs at least {needed} blocks: {}", span(time))?
            }
            (Some(time), false) => write!(f, "; a verdict needs at least {needed} blocks: {}", span(time))?,
            (None, _) => {
                let room = self.budget.since(self.once).as_nanos() / u64::from(needed * trials.max(1));
                write!(
                    f,
                    "; a verdict needs at least {needed} blocks of {} each: they fit if a trial, its preparation and \
                     waits included, takes at most {} on average",
                    count(trials, "trial"),
                    span(Nanos::from_nanos(room))
                )?;
            }
        }
        self.effect().map_or(Ok(()), |effect| write!(f, "; {effect}"))
    }
}
