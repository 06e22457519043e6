//! Estimates how long an experiment will take: from earlier trials, or else by a crude model, and says which of the
//! two.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use prony_engines::documents::{Indexes, Planned};
use prony_engines::registry;
use prony_experiment::design::{Experiment, Variant};
use prony_experiment::plan::{Outline, VariantOutline, data_bytes};
use prony_model::http::HttpAmount;
use prony_model::number::{self, span};
use prony_model::program::Care;
use prony_model::record::Spent;
use prony_model::spec::{Action, Amount, Durability, FieldPath, Grouping, Ops, PhaseSpec, TrialSpec};
use prony_model::units::Nanos;
use prony_stats::summary::median;
use prony_stats::time_budget::Times;

use prony_analysis::verdicts;
use prony_results::{Database, RunData};

/// With fewer pairs of the two baselines the spread is not estimated.
const PAIRS: usize = 4;
/// The median of the absolute value of a standard normal variable.
const NORMAL: f64 = 0.674_49;
/// The cost of a trial beside its phases: two processes, reference workloads, quiet between trials.
const TRIAL_OVERHEAD: Nanos = Nanos::from_millis(250);
/// The cost of a process of a cut, with its directory: one writes, and one reads each image.
const CUT_PROCESS: Nanos = Nanos::from_millis(30);
/// A phase of which nothing else is known.
const BRIEF: Nanos = Nanos::from_millis(20);
/// A commit that waits for the disk.
const SYNC: Nanos = Nanos::from_micros(1_500);
/// An operation in memory.
const OPERATION: Nanos = Nanos::from_micros(2);
/// A document that a query decodes and tests, beside its bytes.
const EXAMINED: Nanos = Nanos::from_micros(1);
/// Bytes a second through an engine to the disk.
const BYTES_PER_SECOND: f64 = 200e6;

/// How the time of a trial was estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// By so many trials of earlier runs.
    Trials(usize),
    /// By the simple model only.
    #[default]
    Crude,
    /// By the run itself.
    Run,
    /// Not at all: a program has not run yet, and only the steps beside it can be counted.
    Unknown,
}

/// How long a run takes, and how that was estimated. All parts of a trial are included: waits, preparation, copies,
/// bringing the machine to a quiet state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Time of the run with the fewest trials that the design allows.
    pub least: Nanos,
    /// Time of the run with the most trials.
    pub most: Nanos,
    /// Time of one block, with every variant.
    pub block: Option<Nanos>,
    /// The part of these times that is spent once: measuring the machine's limits, builds, copies, warm-up runs.
    pub once: Nanos,
    /// How these times were estimated.
    pub basis: Basis,
    /// Standard deviation of the logarithm of the primary metric of trials of one variant within a block; `None` where
    /// no earlier run has shown it.
    pub spread: Option<f64>,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (span(self.least), span(self.most));
        let range = if least == most { most } else { format!("{least} to {most}") };
        match self.basis {
            Basis::Crude => {
                write!(f, "about {range}: a forecast without earlier runs, which may be wrong by a factor of 5")
            }
            Basis::Trials(n) => {
                write!(f, "about {range}, estimated from {} of earlier runs", number::count(n, "trial"))
            }
            Basis::Run => write!(f, "about {range}"),
            Basis::Unknown => {
                if self.most > Nanos::ZERO {
                    write!(f, "at least {range} in addition to the time of the program; ")?;
                }
                let unknown = "how long the program, its preparation and its build take is not known before the first \
                               trial: `prony run` prints an estimate after that trial";
                f.write_str(unknown)
            }
        }
    }
}

/// What an earlier run of the same experiment shows.
#[derive(Default)]
struct Earlier {
    /// For each spec that ran, the times of its trials.
    times: Vec<(TrialSpec, Times)>,
    once: Nanos,
    spread: Option<f64>,
}

impl Earlier {
    fn of(&self, spec: &TrialSpec) -> Option<&Times> {
        self.times.iter().find(|(known, _)| known == spec).map(|(_, times)| times)
    }
}

/// The time of the whole plan.
pub fn of(experiment: &Experiment, outline: &Outline, database: &Path) -> Estimate {
    let past = earlier(experiment, database).unwrap_or_default();
    let known = |variant: &Variant| past.of(&variant.spec).and_then(|times| times.mean(0));
    let means: Vec<Nanos> = experiment.variants().iter().filter_map(known).collect();
    // A program of which nothing is known is taken to be as slow as the rest.
    let typical = means.iter().map(|mean| mean.as_nanos()).sum::<u64>().checked_div(means.len() as u64);
    let trials: u32 = experiment.variants().iter().filter_map(|v| past.of(&v.spec)).map(Times::count).sum();
    let blind = experiment.variants().iter().any(|v| v.spec.subject.store().is_none());
    let basis = match (means.is_empty(), blind) {
        (false, _) => Basis::Trials(trials as usize),
        (true, true) => Basis::Unknown,
        (true, false) => Basis::Crude,
    };
    let mut estimate = Estimate { once: past.once, basis, spread: past.spread, ..Estimate::default() };
    let care = experiment.observe().care;
    let mut block = Nanos::ZERO;
    for (variant, planned) in experiment.variants().iter().zip(&outline.variants) {
        let other = typical.map(Nanos::from_nanos).filter(|_| variant.spec.subject.store().is_none());
        let one = known(variant).or(other).unwrap_or_else(|| crude(&variant.spec, planned.data_bytes, care));
        let each = f64::from(planned.trials) / f64::from(planned.blocks.max.max(1));
        let of = |blocks: f64| Nanos::from_nanos((one.as_nanos() as f64 * each * blocks) as u64);
        let profiled = if outline.profiles > 0 { one } else { Nanos::ZERO };
        let beside = profiled + crude_cuts(&variant.spec, planned.data_bytes);
        estimate.most += of(planned.blocks.max.into()) + beside;
        estimate.least += of(planned.blocks.min.into()) + beside;
        block += of(1.0);
    }
    let Estimate { least, most, once, .. } = estimate;
    Estimate { least: least + once, most: most + once, block: Some(block), ..estimate }
}

/// The latest run of the experiment that has trials; `None` where there is none.
fn earlier(experiment: &Experiment, database: &Path) -> Option<Earlier> {
    if !database.exists() {
        return None;
    }
    let database = Database::open(database).ok()?;
    let heads = database.runs().ok()?;
    let head = heads.iter().rev().find(|head| head.title == experiment.title() && head.finished > 0)?;
    let run = database.load_run(head.id).ok()?;
    let mut earlier = Earlier { spread: spread(&run), ..Earlier::default() };
    for variant in run.experiment.variants() {
        let mut times = Times::default();
        let own = run.trials.iter().filter(|t| t.trial.variant == variant.id);
        own.for_each(|t| times.trial(0, Spent::of(&t.conditions, t.took).time));
        if times.count() > 0 {
            earlier.times.push((variant.spec.clone(), times));
        }
    }
    earlier.once = run.trials.iter().fold(Nanos::ZERO, |sum, t| sum + Spent::of(&t.conditions, t.took).once);
    Some(earlier)
}

/// From the two labels of the baseline, by the median so that a few disturbed trials do not dominate.
fn spread(run: &RunData) -> Option<f64> {
    let metric = verdicts::declared(&run.experiment).into_iter().next()?;
    let baselines = run.trials.iter().filter(|t| run.experiment.variants()[t.trial.variant].baseline);
    let mut blocks: BTreeMap<(u32, u32, usize), Vec<f64>> = BTreeMap::new();
    for t in baselines {
        let figure = verdicts::figure(t, &metric).filter(|value| *value > 0.0);
        let block = blocks.entry((t.trial.block, t.trial.sub_block, t.trial.variant)).or_default();
        block.extend(figure.map(f64::ln));
    }
    let gaps: Vec<f64> = blocks.values().filter(|both| both.len() == 2).map(|both| (both[0] - both[1]).abs()).collect();
    let middle = median(&gaps).filter(|gap| gaps.len() >= PAIRS && *gap > 0.0)?;
    Some(middle / NORMAL / 2f64.sqrt())
}

/// A guess of a trial's time; for a program the sum of the times in its file, which is a lower bound.
fn crude(spec: &TrialSpec, all_bytes: f64, care: Care) -> Nanos {
    let class = spec.subject.store().and_then(|store| Some(registry::check(store).ok()?.class));
    let synced = matches!(class, Some(Durability::Strict | Durability::Bounded));
    let phases = spec.phases.iter().map(|phase| {
        let collection = phase.action.ops().and_then(|ops| spec.collection(ops));
        let records = collection.map_or(0, |collection| collection.records);
        let per_record = collection.map_or(0.0, |collection| data_bytes(collection).mean / records.max(1) as f64);
        crude_phase(phase, (records, per_record), all_bytes, synced) + crude_queries(spec, phase)
    });
    phases.fold(if care == Care::Light { Nanos::ZERO } else { TRIAL_OVERHEAD }, |sum, time| sum + time)
}

/// The cuts of all crash trials, by the file alone.
pub(crate) fn cuts(experiment: &Experiment, outline: &Outline) -> Nanos {
    let of = |(variant, planned): (&Variant, &VariantOutline)| crude_cuts(&variant.spec, planned.data_bytes);
    experiment.variants().iter().zip(&outline.variants).map(of).fold(Nanos::ZERO, |sum, time| sum + time)
}

/// The cuts of a variant's crash trials. On the mean a cut comes in the middle of its time; beside it, a process stores records
/// beforehand, and for each image another one reads them afterwards.
fn crude_cuts(spec: &TrialSpec, all_bytes: f64) -> Nanos {
    let store = spec.subject.store();
    let persistent = store.and_then(|store| registry::capabilities(store).ok()).is_some_and(|can| can.persistent);
    let cuts = spec.crashes.iter().filter(|_| persistent).map(|crash| {
        let process = CUT_PROCESS.as_nanos().saturating_add(crude_bytes(all_bytes).as_nanos());
        let processes = process.saturating_mul(1 + u64::from(crash.images));
        let one = (crash.within.as_nanos() / 2).saturating_add(processes);
        Nanos::from_nanos(one.saturating_mul(crash.cuts.into()))
    });
    cuts.fold(Nanos::ZERO, |sum, time| sum + time)
}

fn crude_phase(phase: &PhaseSpec, (records, per_record): (u64, f64), all_bytes: f64, synced: bool) -> Nanos {
    match &phase.action {
        Action::Pause(time) => *time,
        Action::Settle(settle) => settle.quiet,
        Action::Http(http) => match http.amount {
            HttpAmount::Duration(time) => http.warm_up + time,
            HttpAmount::Requests(_) | HttpAmount::Records => http.warm_up,
        },
        Action::Observe(observe) => {
            let at_end = observe.at_end.as_ref();
            let settles = observe.settle().into_iter().chain(at_end.and_then(|at_end| at_end.settle.as_ref()));
            let waits = at_end.and_then(|at_end| at_end.wait).unwrap_or_default();
            settles.fold(waits, |sum, settle| sum + settle.quiet)
        }
        Action::Verify => crude_bytes(all_bytes),
        action => {
            action.ops().map_or(BRIEF, |ops| crude_ops(ops, records, per_record, synced && action.changes_data()))
        }
    }
}

/// The time in which the queries of a phase read documents.
fn crude_queries(spec: &TrialSpec, phase: &PhaseSpec) -> Nanos {
    let (Action::Find(find), Some(store)) = (&phase.action, spec.subject.store()) else { return Nanos::ZERO };
    let page = spec.collection(&find.ops).map_or(0, |collection| collection.records);
    let operations = match find.ops.amount {
        Amount::Records => page,
        Amount::Count(count) => count,
        Amount::Duration(_) | Amount::Background => return Nanos::ZERO,
    };
    let one = find.queries.iter().filter_map(|query| {
        let queried = spec.data.iter().find(|collection| collection.name == query.collection)?;
        let document = queried.document()?;
        let fields = store.indexes_of(queried);
        let is_list = |path: &FieldPath| document.kinds(path).list;
        let indexes = (!fields.is_empty()).then(|| Arc::new(Indexes::new(&fields, document.encoding, is_list)));
        let reads = Planned::new(query.clone(), document.encoding, indexes).expected_reads(queried.records as f64);
        let bytes = data_bytes(queried).mean / queried.records.max(1) as f64;
        Some(reads * (EXAMINED.as_secs_f64() + bytes / BYTES_PER_SECOND))
    });
    Nanos::from_nanos((operations as f64 * one.sum::<f64>() * 1e9) as u64)
}

fn crude_ops(ops: &Ops, records: u64, per_record: f64, synced: bool) -> Nanos {
    let count = match ops.amount {
        Amount::Records => records,
        Amount::Count(count) => count,
        Amount::Duration(time) => return time,
        // It ends with the phase.
        Amount::Background => return Nanos::ZERO,
    };
    let commits = match ops.transaction {
        Grouping::Each => count,
        Grouping::Batch(size) => count.div_ceil(size.max(1)),
        Grouping::Single | Grouping::Open => 1,
    };
    let pauses = ops.pause.map_or(0, |pause| (count / pause.every.max(1)).saturating_mul(pause.time.as_nanos()));
    let syncs = if synced { commits.saturating_mul(SYNC.as_nanos()) } else { 0 };
    let work = count.saturating_mul(OPERATION.as_nanos());
    Nanos::from_nanos(pauses.saturating_add(syncs).saturating_add(work)) + crude_bytes(count as f64 * per_record)
}

fn crude_bytes(bytes: f64) -> Nanos {
    Nanos::from_nanos((bytes / BYTES_PER_SECOND * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use prony_engines::catalog::Catalog;
    use prony_experiment::{check, parse};
    use prony_model::catalog::Overrides;

    use super::*;

    /// 20,000 pages over 20,000 documents without an index were "about 15 s", and took hours.
    #[test]
    fn documents_that_queries_read_are_in_the_crude_estimate() {
        let of = |indexes: &str, query: &str| {
            let text = format!(
                "[store]\nengine = \"memory\"\nindexes = {indexes}\n[data]\nrecords = 20_000\n[data.document]\nid = \"k{{i}}\"\n\
                 n = {{ sequence = 0 }}\n[[phase]]\nname = \"load\"\nput = {{}}\n[[phase]]\nname = \"q\"\nfind.query = {query}\n"
            );
            let experiment = check(&parse(&text, "x.toml").unwrap(), &Catalog, &Overrides::default()).unwrap();
            crude(&experiment.variants()[0].spec, 1e6, Care::Full).as_secs_f64()
        };
        let equal = "{ where = { n = \"{doc.n}\" } }";
        let (scan, index) = (of("[]", equal), of("[[\"n\"]]", equal));
        assert!(scan > 20_000.0 * 20_000.0 * 1e-6 && index < 3.0, "{scan} s by scans, {index} s by an index");
        let range = of("[[\"n\"]]", "{ where = { n = { gte = \"{doc.n}\" } } }");
        assert!(range > 0.4 * scan && range < scan, "{range} s: half of the documents");
        let first = of("[]", "{ limit = 10 }");
        assert!(first < 3.0, "{first} s: a limit ends the scan");
        assert!(of("[]", &format!("[{equal}, {equal}]")) > 1.9 * scan);
    }

    /// 10 cuts of 100 images each took as long in the forecast as 10 of one, 1.6 s, and in fact two minutes.
    #[test]
    fn each_image_of_a_cut_is_read_in_the_estimate() {
        let of = |cut: &str, images: &str| {
            let text = format!(
                "[store]\nengine = \"lmdb\"\n[data]\nrecords = 10\n[[phase]]\nname = \"write\"\nput = {{}}\n\
                 [[phase]]\nname = \"cut\"\n{cut} = {{ during = \"write\", cuts = 10, within = \"200 ms\"{images} }}\n"
            );
            let experiment = check(&parse(&text, "x.toml").unwrap(), &Catalog, &Overrides::default()).unwrap();
            crude_cuts(&experiment.variants()[0].spec, 1e6).as_secs_f64()
        };
        let (kill, one) = (of("kill", ""), of("powercut", ", images = 1"));
        let hundred = of("powercut", ", images = 100");
        assert!((kill - one).abs() < 1e-9, "{kill} s, {one} s: one process reads what was left");
        assert!(hundred - one > 990.0 * CUT_PROCESS.as_secs_f64(), "{hundred} s");
    }
}
