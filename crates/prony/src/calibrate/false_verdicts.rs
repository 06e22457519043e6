//! Fixtures whose true difference is known: work compared with the same work, and with the same work made slower.
//!
//! The noise is this machine's, recorded while a fixture does the same short work over and over. Whole campaigns are
//! then simulated on it, and judged by what judges every run.

use prony_model::number::percent_with;
use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::fixture::Step;
use prony_os::launch::Scratch;
use prony_stats::InterimAnalyses;
use prony_stats::power::POWER;
use prony_stats::simulation::{ALPHA, Noise, Rate, Rng, Setting, Simulation, Variant};

use super::Ran;
use super::bench::{Bench, Observed};
use super::check_line::{Line, Promise};
use crate::error::Error;

/// Runs recorded: some six times what the longest campaign needs.
const RUNS: usize = 600;

/// CPU time of each, about.
const RUN: Nanos = Nanos::from_millis(5);

/// Rounds of work from which the number of rounds in a run is derived.
const TRIED: u64 = 2_000_000;

/// Campaigns simulated for each rate.
const CAMPAIGNS: u32 = 400;

/// The least and the most blocks of a campaign; interim analyses lie between them.
const BLOCKS: (u32, u32) = (6, 30);

/// What happens in a campaign's order of trials is the same in every calibration; the noise is not.
const SEED: u64 = 1;

/// The same work under two names, in unequal numbers: the baseline twice a block, the variant once. Whoever claims a
/// difference is wrong.
///
/// # Errors
/// Where the machine refuses what every subject needs.
pub(super) fn same_command(bench: &Bench) -> Result<Ran, Error> {
    with_noise(bench, |simulation| vec![same_line(simulation)])
}

/// The variant is slower by the minimum detectable effect that a campaign without a difference has on the same runs.
///
/// # Errors
/// Where the machine refuses what every subject needs.
pub(super) fn smallest_effect(bench: &Bench) -> Result<Ran, Error> {
    with_noise(bench, |simulation| vec![smallest_line(simulation)])
}

fn with_noise(bench: &Bench, lines: impl Fn(&Simulation<'_>) -> Vec<Line>) -> Result<Ran, Error> {
    let times = match bench.noise.get() {
        Some(times) => times,
        None => {
            let recorded = record(bench)?;
            bench.noise.get_or_init(|| recorded)
        }
    };
    let Some(noise) = Noise::new("this machine", times) else {
        return Ok(Ran::NotRun("the clock is too coarse: the measured time of a run was 0".to_owned()));
    };
    let analyses = InterimAnalyses::new(BLOCKS.0, BLOCKS.1);
    Ok(Ran::Lines(lines(&Simulation::new(&noise, &analyses))))
}

/// Wall times of the runs in nanoseconds, in their order, as measured by the process that waits for them.
fn record(bench: &Bench) -> Result<Vec<f64>, Error> {
    let scratch = Scratch::create(&bench.near)?;
    let mut observed = bench.observe(1, &scratch)?;
    let step = Step::Work(rounds(cpu(&mut observed, &Step::Work(TRIED))?));
    let mut run = || {
        let began = monotonic();
        observed.step(&step)?;
        Ok(monotonic().since(began).as_nanos() as f64)
    };
    let times = (0..RUNS).map(|_| run()).collect::<Result<_, Error>>()?;
    observed.end()?;
    Ok(times)
}

fn cpu(observed: &mut Observed, step: &Step) -> Result<Nanos, Error> {
    Ok(Nanos::from_nanos(observed.step(step)?.iter().map(|done| done.amount).sum()))
}

/// How much work makes up a run, where the tried one took so long.
fn rounds(took: Nanos) -> u64 {
    (TRIED as f64 * RUN.as_nanos() as f64 / took.as_nanos().max(1) as f64) as u64
}

fn same_line(simulation: &Simulation<'_>) -> Line {
    let same = Setting::of(Variant::PLAIN, Variant::PLAIN, 1);
    let found = simulation.campaigns(&same, CAMPAIGNS, &mut Rng::new(SEED));
    Line::share(
        "the same work twice, 2 runs to 1: difference claimed",
        Promise::AtMost(ALPHA),
        all(found.any_difference),
    )
}

fn smallest_line(simulation: &Simulation<'_>) -> Line {
    let found = simulation.advertised(1, true, CAMPAIGNS, &mut Rng::new(SEED));
    let by = found.effect.map_or_else(String::new, |share| format!(" ({})", percent_with(share, 1)));
    let what = format!("slower by the minimum detectable effect{by}: detected");
    Line::share(what, Promise::AtLeast(POWER), all(found.detected))
}

/// A rate over fewer campaigns than asked for shows nothing.
fn all(rate: Rate) -> Reading<Rate> {
    if rate.of < CAMPAIGNS {
        return Reading::Missing(Why::TooFew { have: rate.of.into(), need: CAMPAIGNS.into() });
    }
    Reading::Measured(rate)
}

#[cfg(test)]
mod tests {
    use prony_stats::simulation::{MARGIN, Rule};
    use prony_stats::{Comparison, Family, Verdict, compare_family};

    use super::super::check_line::{Check, Judgement};
    use super::*;

    /// Runs of 5 ms with some per cent of noise, each twentieth much longer, and a level that wanders.
    fn noise(runs: usize) -> Noise {
        let mut rng = Rng::new(5);
        let mut uniform = || rng.below(1_000_000) as f64 / 1e6;
        let mut run = |t: usize| {
            let even: f64 = (0..4).map(|_| uniform()).sum::<f64>() * 0.03;
            let tail = if uniform() < 0.05 { 2.0 * uniform() } else { 0.0 };
            5e6 * (1.0 + even + tail) * (1.0 + 0.2 * (t as f64 / 60.0).sin())
        };
        let values: Vec<f64> = (0..runs).map(&mut run).collect();
        Noise::new("made", &values).unwrap()
    }

    fn judged(line: fn(&Simulation<'_>) -> Line, rule: Rule) -> Line {
        let (noise, analyses) = (noise(RUNS), InterimAnalyses::new(BLOCKS.0, BLOCKS.1));
        line(&Simulation { rule, ..Simulation::new(&noise, &analyses) })
    }

    fn rate(line: &Line) -> Rate {
        match &line.check {
            Check::Share { reading: Reading::Measured(rate), .. } => *rate,
            other => panic!("{other:?}"),
        }
    }

    /// As a gate without a test does it: more than the margin apart is a difference.
    fn gate(family: &Family) -> Vec<Comparison> {
        let mut found = compare_family(family);
        for one in &mut found {
            let far = one.ratio.measured().is_some_and(|ratio| ratio.ln().abs() > 0.5 * MARGIN);
            one.verdict = if far { Verdict::Worse } else { Verdict::NoDifference };
        }
        found
    }

    /// Promises to see half of what it can.
    fn boastful(family: &Family) -> Vec<Comparison> {
        let mut found = compare_family(family);
        for one in &mut found {
            one.smallest_effect = one.smallest_effect.clone().map(|effect| 0.5 * effect);
        }
        found
    }

    fn blind(family: &Family) -> Vec<Comparison> {
        let mut found = compare_family(family);
        found.iter_mut().for_each(|one| one.verdict = Verdict::NoDifference);
        found
    }

    #[test]
    fn the_rule_that_judges_every_run_passes_both() {
        let (same, smallest) = (judged(same_line, compare_family), judged(smallest_line, compare_family));
        assert_eq!((same.judge(), smallest.judge()), (Judgement::Pass, Judgement::Pass), "{same:?} {smallest:?}");
        assert_eq!((rate(&same).of, rate(&smallest).of), (CAMPAIGNS, CAMPAIGNS));
        assert!(
            smallest.what.starts_with("slower by the minimum detectable effect (") && smallest.what.contains(" %)")
        );
    }

    #[test]
    fn a_rule_that_claims_what_is_not_there_fails() {
        let claimed = judged(same_line, gate);
        assert_eq!(claimed.judge(), Judgement::Fail, "{claimed:?}");
    }

    #[test]
    fn a_rule_that_promises_too_much_or_sees_nothing_fails() {
        let promised = judged(smallest_line, boastful);
        assert_eq!(promised.judge(), Judgement::Fail, "{promised:?}");
        assert!(rate(&promised).hits > 0, "it sees some");
        let unseen = judged(smallest_line, blind);
        assert_eq!((unseen.judge(), rate(&unseen).hits), (Judgement::Fail, 0));
    }

    #[test]
    fn the_same_noise_gives_the_same_lines() {
        assert_eq!(judged(same_line, compare_family), judged(same_line, compare_family));
    }

    #[test]
    fn a_recording_too_short_for_a_campaign_shows_nothing_and_fails() {
        let (noise, analyses) = (noise(80), InterimAnalyses::new(BLOCKS.0, BLOCKS.1));
        let simulation = Simulation::new(&noise, &analyses);
        assert_eq!(
            [same_line(&simulation), smallest_line(&simulation)].map(|l| l.judge()),
            [const { Judgement::Fail }; 2]
        );
    }

    #[test]
    fn a_run_is_as_much_work_as_takes_its_time() {
        assert_eq!(rounds(RUN), TRIED);
        assert_eq!(rounds(Nanos::from_millis(10)), TRIED / 2);
        assert!(rounds(Nanos::default()) > TRIED, "a clock that stands still is no reason to divide by it");
    }
}
