//! The share of a variant's time above its floor, which is the same work done directly on the bare engine (METHOD 5.5).
//! It is shown beside the verdicts and is not a verdict.

use prony_experiment::design::Experiment;
use prony_model::metric::{Metric, MetricName};
use prony_model::number::first_few;
use prony_model::reading::{Reading, Why};
use prony_model::units::Unit;
use prony_stats::contrast::UNCORRECTED;
use prony_stats::{Block, RatioInterval};

use super::observe::{Index, Within};
use super::{Pair, names};
use prony_results::RunData;

/// At most so many settings without a floor are named; the others are counted.
const NAMED: usize = 4;

/// A variant compared with its floor in one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Above {
    /// What is compared: the pair's baseline is the floor.
    pub pair: Pair,
    /// Blocks with a result for both.
    pub blocks: u32,
    /// Whether a trial of these blocks did not finish; it counts as longer than any that did.
    pub unfinished: bool,
    /// The share of the variant's value above that of the floor, or why there is none.
    pub share: Result<Share, NoShare>,
}

/// A share of the variant's value, where 1 is all of it; below 0 where the variant takes less than its floor.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// 1 - floor / variant, of the median of the within-block ratios.
    pub middle: f64,
    /// Its interval at 95 %, uncorrected; missing with fewer blocks than that takes.
    pub interval: Reading<ShareInterval>,
}

/// An interval of shares; an end that is `None` is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareInterval {
    /// The least share; open where the floor may take any multiple of the variant.
    pub low: Option<f64>,
    /// The greatest share; open where the variant may take any multiple of the floor, below 1 in any case.
    pub high: Option<f64>,
}

/// Why a variant has no share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoShare {
    /// The two are not compared: their answers differ, or a guard refuses a trial.
    Refused(String),
    /// No block has a trial of both that pair.
    NotPaired,
    /// In at least half of the blocks the variant or the floor has no value, or a zero.
    Nothing,
}

impl Share {
    /// From the ratio of the variant to its floor and the interval of that.
    pub fn of(ratio: f64, interval: &Reading<RatioInterval>) -> Self {
        let above = |ratio: f64| 1.0 - 1.0 / ratio;
        let interval = interval.clone().map(|interval| ShareInterval {
            low: Some(interval.low).filter(|low| *low > 0.0).map(above),
            high: interval.high.map(above),
        });
        let interval = match interval {
            Reading::Measured(ShareInterval { low: None, high: None }) => Reading::Missing(Why::NotApplicable),
            other => other,
        };
        Self { middle: above(ratio), interval }
    }

    /// Whether the floor takes more than the variant, so that it is not a lower bound.
    pub fn is_below(&self) -> bool {
        self.middle < 0.0
    }
}

/// Each variant that has a floor, grouped by floor; nothing for a search, whose results are biased.
pub fn of(data: &RunData, metric: &MetricName) -> Vec<Above> {
    let experiment = &data.experiment;
    if experiment.explores() || experiment.compare().floor.is_empty() {
        return Vec::new();
    }
    let index = Index::new(data);
    let pair = |variant: usize| {
        let floor = experiment.floor_of(variant).filter(|floor| *floor != variant)?;
        let both = [variant, floor].iter().all(|id| has(experiment, *id, metric));
        let names = names::Names::of(experiment, variant, floor);
        both.then_some(Pair { metric: metric.clone(), variant, baseline: floor, names })
    };
    let mut pairs: Vec<Pair> = (0..experiment.variants().len()).filter_map(pair).collect();
    pairs.sort_by_key(|pair| (pair.baseline, pair.variant));
    pairs.into_iter().map(|pair| above(&index, pair)).collect()
}

fn above(index: &Index<'_>, pair: Pair) -> Above {
    let contrast = index.contrast(&pair, Within::Block);
    let estimated = contrast.estimate(UNCORRECTED);
    let unfinished = contrast.paired().any(Block::has_unfinished);
    let share = match (contrast.refused, estimated.ratio) {
        (Some(why), _) => Err(NoShare::Refused(why)),
        _ if contrast.blocks.is_empty() => Err(NoShare::NotPaired),
        (None, Reading::Measured(ratio)) => Ok(Share::of(ratio, &estimated.interval)),
        (None, Reading::Missing(_)) => Err(NoShare::Nothing),
    };
    Above { pair, blocks: estimated.blocks, unfinished, share }
}

fn has(experiment: &Experiment, variant: usize, metric: &MetricName) -> bool {
    experiment.variants()[variant].spec.phases.iter().any(|phase| phase.name == metric.phase)
}

/// Whether some variant has the metric's phase and its floor has not.
pub fn lacks(experiment: &Experiment, metric: &MetricName) -> bool {
    let lacking = |variant: usize| {
        let floor = experiment.floor_of(variant).filter(|floor| *floor != variant);
        floor.is_some_and(|floor| has(experiment, variant, metric) && !has(experiment, floor, metric))
    };
    (0..experiment.variants().len()).any(lacking)
}

/// Where variants run and no floor does, in words; `None` where each has one.
pub fn nowhere(experiment: &Experiment) -> Option<String> {
    let settings: Vec<String> = bare_settings(experiment).into_iter().map(|setting| format!("`{setting}`")).collect();
    let named = |settings| first_few(settings, NAMED, (", ", " and "), "more setting");
    (!settings.is_empty()).then(|| format!("no floor runs at {}", named(settings)))
}

/// The settings at which no floor runs though other variants do, each once: `chunk=50, pause=0`.
fn bare_settings(experiment: &Experiment) -> Vec<String> {
    let floor = &experiment.compare().floor;
    let named = |factor: &usize| floor.contains_key(&experiment.factors()[*factor].name);
    let other_factors: Vec<usize> = names::varying(experiment).into_iter().filter(|factor| !named(factor)).collect();
    let mut settings: Vec<String> = Vec::new();
    for variant in (0..experiment.variants().len()).filter(|variant| experiment.floor_of(*variant).is_none()) {
        let setting = names::levels(experiment, variant, &other_factors);
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    settings
}

/// The floor as the file names it: `subject=bare`.
pub fn name(experiment: &Experiment) -> String {
    let level = |(factor, level): (&String, &String)| format!("{factor}={level}");
    experiment.compare().floor.iter().map(level).collect::<Vec<_>>().join(", ")
}

/// Why a metric has no share above a floor; `None` for time and CPU time that are spent.
pub const fn not_spent(metric: Metric) -> Option<&'static str> {
    match metric {
        Metric::Time
        | Metric::Wall
        | Metric::Makespan
        | Metric::SettleTime
        | Metric::Cpu
        | Metric::CpuUser
        | Metric::CpuSystem
        | Metric::OnCpu => None,
        _ => Some(match metric.unit() {
            Unit::Nanos => "it is not a total over the phase, of which the floor could be a part",
            Unit::PerSecond => "a rate is not a cost; use `time` if the number of operations is fixed",
            Unit::Bytes | Unit::Count | Unit::Ratio => "it is neither time nor CPU time",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::metric::Better;

    fn share(ratio: f64, low: f64, high: Option<f64>) -> Share {
        Share::of(ratio, &Reading::Measured(RatioInterval { low, high }))
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-12
    }

    #[test]
    fn a_share_is_what_the_floor_does_not_take() {
        for (ratio, expected) in [(4.0, 0.75), (1.25, 0.2), (1.0, 0.0), (0.5, -1.0), (0.1, -9.0), (1e9, 1.0 - 1e-9)] {
            let share = Share::of(ratio, &Reading::Missing(Why::TooFew { have: 1, need: 2 }));
            assert!(near(share.middle, expected), "{ratio}: {}", share.middle);
            assert_eq!(share.is_below(), ratio < 1.0, "{ratio}");
            assert_eq!(share.interval, Reading::Missing(Why::TooFew { have: 1, need: 2 }));
        }
    }

    #[test]
    fn ends_of_the_interval_keep_their_order_and_stay_open() {
        let both = share(4.0, 2.0, Some(5.0)).interval.measured().copied().unwrap();
        assert!(near(both.low.unwrap(), 0.5) && near(both.high.unwrap(), 0.8), "{both:?}");
        let across = share(1.0, 0.5, Some(2.0)).interval.measured().copied().unwrap();
        assert!(near(across.low.unwrap(), -1.0) && near(across.high.unwrap(), 0.5), "{across:?}");
        let above = share(4.0, 2.0, None).interval.measured().copied().unwrap();
        assert!(near(above.low.unwrap(), 0.5) && above.high.is_none(), "{above:?}");
        let below = share(4.0, 0.0, Some(5.0)).interval.measured().copied().unwrap();
        assert!(below.low.is_none() && near(below.high.unwrap(), 0.8), "{below:?}");
        assert!(share(4.0, 0.0, None).interval.measured().is_none(), "an interval that is open on both sides is none");
    }

    #[test]
    fn only_time_and_cpu_are_spent() {
        let spent: Vec<&str> = Metric::ALL.iter().filter(|m| not_spent(**m).is_none()).map(|m| m.name()).collect();
        assert_eq!(spent, ["time", "wall", "makespan", "cpu", "cpu.user", "cpu.system", "cpu.on", "settle.time"]);
        let costs = |name: &&str| Metric::ALL.iter().any(|m| m.name() == *name && m.better() == Better::Lower);
        assert!(spent.iter().all(costs), "each is a cost of which less is better");
        assert!(not_spent(Metric::Rate).unwrap().contains("rate"));
        assert!(not_spent(Metric::LatencyP50).is_some() && not_spent(Metric::Anon).is_some());
    }
}
