//! Whole campaigns simulated on recorded noise: blocks, interim analyses, families, and how often their verdicts are right.
//!
//! Runs that were recorded one after the other are divided into blocks with a random order of trials, as in a real
//! campaign. So everything but the order of identical variants is real, and a slower variant is slower by exactly the
//! requested share.

mod error_rate;
mod noise;
mod rng;

pub use error_rate::{Campaigns, Rate};
pub use noise::{Noise, Variant};
pub use rng::Rng;

use super::compare::{Comparison, Family, compare_family, settled};
use super::contrast::{Block, Contrast};
use super::interim::InterimAnalyses;
use super::observe::Observation;
use super::summary::median;
use crate::time_budget::Budget;
use prony_model::metric::Better;
use prony_model::units::Nanos;

/// The margin of every campaign: prony's default.
pub const MARGIN: f64 = 0.03;
/// The family-wise error that is promised: prony's default.
pub const ALPHA: f64 = 0.05;

/// What a campaign compares.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The baseline.
    pub baseline: Variant,
    /// One for each comparison.
    pub variants: Vec<Variant>,
    /// ln by which everything has become slower at the campaign's end.
    pub drift: f64,
}

impl Setting {
    /// A family of equal comparisons without drift.
    pub fn of(baseline: Variant, variant: Variant, size: usize) -> Self {
        Self { baseline, variants: vec![variant; size], drift: 0.0 }
    }

    /// Trials in a block: the baseline twice, each variant once.
    fn width(&self) -> usize {
        self.variants.len() + 2
    }
}

/// A place in the recording from which a campaign fits in; `None` where the recording is not longer than it.
pub fn start(noise: &Noise, setting: &Setting, blocks: u32, rng: &mut Rng) -> Option<usize> {
    let room = noise.runs().checked_sub(blocks as usize * setting.width());
    room.filter(|room| *room > 0).map(|room| rng.below(room))
}

/// The ln values of a campaign on the runs from `start` on: `[block][variant]`, variants 0 and 1 being the two labels of the
/// baseline.
pub fn draw(noise: &Noise, setting: &Setting, blocks: u32, start: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let width = setting.width();
    let trials = blocks as usize * width;
    let variant = |k: usize| if k < 2 { setting.baseline } else { setting.variants[k - 2] };
    let block = |b: usize, rng: &mut Rng| {
        let mut values = vec![0.0; width];
        for (place, k) in rng.order(width).into_iter().enumerate() {
            let t = b * width + place;
            values[k] = noise.log_value(start + t, variant(k)) + setting.drift * t as f64 / trials as f64;
        }
        values
    };
    (0..blocks as usize).map(|b| block(b, rng)).collect()
}

/// The family that prony compares after some blocks of a campaign.
pub fn family(values: &[Vec<f64>], analyses: &InterimAnalyses) -> Family {
    let of = |ln: f64| Observation::Value(ln.exp());
    let blocks = |k: usize| values.iter().map(|v| Block::pair(of(v[k]), &[of(v[0]), of(v[1])])).collect();
    let contrast = |k: usize| Contrast { analyses: analyses.clone(), ..Contrast::described(Better::Lower, blocks(k)) };
    let variants = values.first().map_or(0, Vec::len);
    Family { alpha: ALPHA, margin: MARGIN, members: (2..variants).map(contrast).collect() }
}

/// A rule that gives the verdicts on a family.
pub type Rule = fn(&Family) -> Vec<Comparison>;

/// Campaigns on one recording.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// The recording.
    pub noise: &'a Noise,
    /// When each campaign is analysed; the last interim analysis is its end.
    pub analyses: &'a InterimAnalyses,
    /// The rule that gives the verdicts.
    pub rule: Rule,
    /// A time budget, in blocks of plain variants at the recording's median: the values are the durations too.
    pub lasting: Option<f64>,
}

/// How often an advertised effect was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Of the campaigns whose forerunner advertised one.
    pub detected: Rate,
    /// The median of what was advertised, as a share; `None` where nothing was.
    pub effect: Option<f64>,
}

impl<'a> Simulation<'a> {
    /// With the rule that gives prony's verdicts.
    pub fn new(noise: &'a Noise, analyses: &'a InterimAnalyses) -> Self {
        Self { noise, analyses, rule: compare_family, lasting: None }
    }

    /// With a time budget that suffices for about so many blocks; `analyses` must be those of such a run. The compared
    /// value is the duration of a trial, and nothing else takes time: the worst case.
    #[must_use]
    pub const fn lasting(self, blocks: f64) -> Self {
        Self { lasting: Some(blocks), ..self }
    }

    /// Runs a campaign somewhere in the recording; `None` where the recording is not longer than it.
    pub fn run(&self, setting: &Setting, rng: &mut Rng) -> Option<Vec<Comparison>> {
        let start = start(self.noise, setting, self.blocks(), rng)?;
        Some(self.run_from(start, setting, rng))
    }

    /// Runs many campaigns; none where the recording is too short.
    pub fn campaigns(&self, setting: &Setting, many: u32, rng: &mut Rng) -> Campaigns {
        let mut all = Campaigns::default();
        (0..many).map_while(|_| self.run(setting, rng)).for_each(|found| all.add(&found));
        all
    }

    /// How often the smallest effect that one campaign on identical variants advertises is found by a second: on the
    /// `same` runs in a new random order, or anywhere in the recording.
    pub fn advertised(&self, size: usize, same: bool, many: u32, rng: &mut Rng) -> Detection {
        let (mut detected, mut effects) = (Rate::default(), Vec::new());
        for _ in 0..many {
            let mut setting = Setting::of(Variant::PLAIN, Variant::PLAIN, size);
            let Some(here) = start(self.noise, &setting, self.blocks(), rng) else { break };
            let pilot = self.run_from(here, &setting, rng);
            let Some(effect) = pilot.first().and_then(|first| first.smallest_effect.measured().copied()) else {
                continue;
            };
            setting.variants[0] = Variant::PLAIN.slower(effect);
            let elsewhere = if same { None } else { start(self.noise, &setting, self.blocks(), rng) };
            let found = self.run_from(elsewhere.unwrap_or(here), &setting, rng);
            detected.count(found.first().is_some_and(error_rate::is_slower));
            effects.push(effect);
        }
        Detection { detected, effect: median(&effects) }
    }

    /// Stops at the first interim analysis where every comparison is decided; else where the plan or its time ends.
    fn run_from(&self, start: usize, setting: &Setting, rng: &mut Rng) -> Vec<Comparison> {
        let values = draw(self.noise, setting, self.blocks(), start, rng);
        let blocks = self.within_time(&values, setting);
        let mut found = Vec::new();
        for at in self.analyses.at().iter().filter(|at| **at as usize <= blocks) {
            found = (self.rule)(&family(&values[..*at as usize], self.analyses));
            if settled(&found) {
                return found;
            }
        }
        match self.lasting {
            Some(_) => (self.rule)(&family(&values[..blocks], &self.analyses.clone().ended())),
            None => found,
        }
    }

    /// How many of these blocks the time budget holds.
    fn within_time(&self, values: &[Vec<f64>], setting: &Setting) -> usize {
        let Some(lasting) = self.lasting else { return values.len() };
        let block = self.noise.typical().exp() * setting.width() as f64;
        let nanos = |milliseconds: f64| Nanos::from_nanos((milliseconds * 1e6) as u64);
        let (mut budget, mut clock) = (Budget::new(nanos(lasting * block)), Nanos::ZERO);
        for (ran, block) in values.iter().enumerate() {
            if !budget.allows_another(clock, 0.0) {
                return ran;
            }
            let took = nanos(block.iter().map(|ln| ln.exp()).sum());
            clock += took;
            budget.block(took);
        }
        values.len()
    }

    fn blocks(&self) -> u32 {
        match self.lasting {
            // Where the level is far below the recording's median, the plan ends before the time does.
            Some(lasting) => ((2.0 * lasting) as u32).max(super::MIN_BLOCKS),
            None => self.analyses.at().last().copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of 100 to 104 units in an order without pattern.
    fn noise(runs: usize) -> Noise {
        let mut rng = Rng::new(3);
        let values: Vec<f64> = (0..runs).map(|_| 100.0 + rng.below(4001) as f64 / 1000.0).collect();
        Noise::new("even", &values).unwrap()
    }

    #[test]
    fn campaign_uses_each_run_once_for_one_variant() {
        let noise = noise(40);
        let setting = Setting::of(Variant::PLAIN, Variant::PLAIN, 1);
        let values = draw(&noise, &setting, 6, 10, &mut Rng::new(1));
        let mut used: Vec<f64> = values.concat();
        let mut there: Vec<f64> = (10..28).map(|t| noise.log_value(t, Variant::PLAIN)).collect();
        used.sort_by(f64::total_cmp);
        there.sort_by(f64::total_cmp);
        assert_eq!(used, there);
        let slower = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(1.0), 1);
        let bent = draw(&noise, &slower, 6, 10, &mut Rng::new(1));
        assert!(bent.iter().zip(&values).all(|(bent, plain)| bent[..2] == plain[..2]));
        assert!(bent.iter().zip(&values).all(|(bent, plain)| (bent[2] - plain[2] - 2f64.ln()).abs() < 1e-12));
    }

    #[test]
    fn drift_is_spread_over_the_campaign() {
        let noise = Noise::new("flat", &[1.0; 100]).unwrap();
        let setting = Setting { drift: 2f64.ln(), ..Setting::of(Variant::PLAIN, Variant::PLAIN, 1) };
        let values = draw(&noise, &setting, 30, 0, &mut Rng::new(1)).concat();
        let most = values.iter().copied().fold(0.0, f64::max);
        assert!(values.contains(&0.0) && most > 0.98 * 2f64.ln() && most < 2f64.ln());
    }

    #[test]
    fn a_recording_that_is_too_short_gives_no_campaign() {
        let (noise, analyses) = (noise(90), InterimAnalyses::new(6, 30));
        let simulation = Simulation::new(&noise, &analyses);
        let setting = Setting::of(Variant::PLAIN, Variant::PLAIN, 1);
        assert_eq!(simulation.run(&setting, &mut Rng::new(1)), None);
        assert_eq!(simulation.campaigns(&setting, 10, &mut Rng::new(1)).any_difference.of, 0);
        let found = simulation.advertised(1, true, 10, &mut Rng::new(1));
        assert_eq!(found, Detection { detected: Rate::default(), effect: None });
    }

    #[test]
    fn campaign_stops_at_the_interim_analysis_that_decides_all() {
        let (noise, analyses) = (noise(200), InterimAnalyses::new(6, 30));
        let simulation = Simulation::new(&noise, &analyses);
        let slower = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(10.0), 1);
        let all = simulation.campaigns(&slower, 5, &mut Rng::new(1));
        assert_eq!((all.mean_blocks(), all.beyond_margin.hits, all.any_difference.hits), (6.0, 5, 5));
        let unsure = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(0.03), 1);
        assert!(simulation.campaigns(&unsure, 5, &mut Rng::new(1)).mean_blocks() > 11.0);
    }

    #[test]
    fn a_campaign_with_a_time_budget_uses_it_and_judges_what_ran() {
        let (noise, analyses) = (noise(400), InterimAnalyses::timed(6, 10_000));
        let simulation = Simulation::new(&noise, &analyses).lasting(20.0);
        let same = Setting::of(Variant::PLAIN, Variant::PLAIN, 1);
        let all = simulation.campaigns(&same, 20, &mut Rng::new(1));
        assert!(all.mean_blocks() > 17.0 && all.mean_blocks() <= 20.0, "{}", all.mean_blocks());
        // Half the time is left to a variant that takes five times as long: three trials take as long as seven.
        let slower = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(4.0), 1);
        let values = draw(&noise, &slower, 40, 0, &mut Rng::new(1));
        assert!((7..=8).contains(&simulation.within_time(&values, &slower)));
        let found = simulation.campaigns(&slower, 20, &mut Rng::new(1));
        assert_eq!((found.beyond_margin.hits, found.mean_blocks()), (20, 6.0), "decided at the first analysis");
    }

    #[test]
    fn the_rule_that_is_given_gives_the_verdicts() {
        fn nothing(family: &Family) -> Vec<Comparison> {
            compare_family(&Family { alpha: 1e-12, ..family.clone() })
        }
        let (noise, analyses) = (noise(200), InterimAnalyses::new(6, 6));
        let usual = Simulation::new(&noise, &analyses);
        let blind = Simulation { rule: nothing, ..usual };
        let setting = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(0.5), 1);
        let worse = |simulation: Simulation<'_>| simulation.campaigns(&setting, 10, &mut Rng::new(1)).worse.hits;
        assert_eq!((worse(usual), worse(blind)), (10, 0));
    }
}
