//! `prony compare`: computes the verdicts of a stored run again, or shows two runs side by side without a verdict.

use std::collections::{BTreeMap, BTreeSet};

use prony_experiment::design::Variant;
use prony_model::metric::MetricName;
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::{self, Effective, TrialRecord};
use prony_stats::summary::median;
use prony_stats::verdict::RatioInterval;
use serde_json::{Value, json};

use super::run_selection::{DatabaseArg, RunChoice, known_metric, measured_metric};
use super::{Answer, Output, table};
use crate::error::Error;
use prony_analysis::guard::variants::disagreements;
use prony_analysis::guard::{self, findings};
use prony_analysis::verdicts::names;
use prony_analysis::verdicts::{self, Beside, Comparisons, Line, Pair, Verdicts, ratio_texts};
use prony_report::screen::one_line;
use prony_report::{FindingLine, Options, compared, facts_lines};
use prony_results::{Database, RunData};

/// The runs and the metrics to compare.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony compare
  prony compare 3 --baseline store=lmdb
  prony compare 3 4")]
pub struct Arguments {
    /// Number of the run; `-2` is the run before the latest
    #[arg(value_name = "RUN", default_value = "latest", allow_negative_numbers = true)]
    run: RunChoice,
    /// Number of a second run to show beside the first; there is no verdict, since the trials of two runs are not
    /// interleaved
    #[arg(value_name = "OTHER", allow_negative_numbers = true)]
    other: Option<RunChoice>,
    #[command(flatten)]
    database: DatabaseArg,
    /// Compare each variant with the one that has this level and the same levels of all other factors
    #[arg(long, value_name = "FACTOR=LEVEL", value_delimiter = ',', conflicts_with = "other")]
    baseline: Vec<String>,
    /// Metric to compare; may be given several times; default: those that the experiment declares
    #[arg(long, value_name = "PHASE.METRIC")]
    metric: Vec<MetricName>,
    /// Print JSON; the declared comparisons have the verdicts that `prony report --format json` writes
    #[arg(long)]
    json: bool,
}

/// Prints the comparison.
///
/// # Errors
/// Where there is no such run, factor or level, or the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let database = Database::open(&arguments.database.database)?;
    let data = database.load_run(arguments.run.find(&database)?)?;
    let other = match arguments.other {
        Some(other) => Some(database.load_run(other.find(&database)?)?),
        None => None,
    };
    for run in [Some(&data), other.as_ref()].into_iter().flatten() {
        arguments.metric.iter().try_for_each(|metric| known_metric(metric, run))?;
    }
    arguments.metric.iter().try_for_each(|metric| measured_metric(metric, &data, other.as_ref()))?;
    match other {
        Some(other) if arguments.json => output.print_json("the runs", &both(&data, &other, &arguments.metric))?,
        Some(other) => output.print(&side_by_side(&data, &other, &arguments.metric, output.width))?,
        None if arguments.json => output.print_json("the verdicts", &judged_again(&data, arguments)?)?,
        None => output.print(&again(&data, arguments)?)?,
    }
    Ok(Answer::Yes)
}

/// What is said of each metric again: the verdicts as declared, which are among all of them, or of anything else its ratios
/// without a verdict (METHOD 4.11).
struct Again {
    verdicts: Verdicts,
    /// `None` where the verdicts are those that were declared.
    metrics: Vec<(MetricName, Option<Vec<Beside>>)>,
}

impl Again {
    fn of(data: &RunData, arguments: &Arguments) -> Result<Self, Error> {
        let declared = verdicts::declared(&data.experiment);
        let baseline = arguments.baseline.iter().map(|text| level(data, text)).collect::<Result<Vec<_>, Error>>()?;
        let same: BTreeMap<String, String> = baseline.iter().cloned().collect();
        let as_declared = baseline.is_empty() || same == data.experiment.compare().baseline;
        let comparisons = Comparisons::new(data);
        let of = |metric: MetricName| {
            let beside = match as_declared {
                true if declared.contains(&metric) => None,
                true => Some(comparisons.beside(&metric)),
                false => Some(comparisons.beside_of(&metric, &baseline)),
            };
            (metric, beside)
        };
        let metrics = metrics_of(data, &arguments.metric).into_iter().map(of).collect();
        Ok(Self { verdicts: verdicts::of(data), metrics })
    }

    fn lines(&self, metric: &MetricName) -> impl Iterator<Item = &Line> {
        self.verdicts.lines.iter().filter(move |line| line.pair.metric == *metric)
    }
}

fn again(data: &RunData, arguments: &Arguments) -> Result<String, Error> {
    let again = Again::of(data, arguments)?;
    let mut text = String::new();
    for (metric, beside) in &again.metrics {
        let Some(beside) = beside else {
            again.lines(metric).for_each(|line| text += &format!("{}\n", one_line(&line.sentence)));
            continue;
        };
        if beside.is_empty() {
            text += &format!("`{metric}`: no variant has a baseline to be compared with\n");
            text += "hint: name one: `prony compare --baseline FACTOR=LEVEL`\n";
            continue;
        }
        beside.iter().for_each(|beside| text += &format!("{}\n", one_line(&shown(beside))));
        text +=
            "no verdict: the experiment did not declare this comparison, and its blocks were planned for other ones; ";
        text += "each interval is at 95 %, not corrected for multiple comparisons\n";
    }
    if let (true, Some(why)) = (text.is_empty(), again.verdicts.silent) {
        text = format!("{why}\n");
    }
    Ok(warnings(data, &arguments.metric) + &text)
}

/// The warnings above a run's verdicts, as `prony show` prints them where it shows these metrics.
fn warnings(data: &RunData, metrics: &[MetricName]) -> String {
    let report = prony_report::build(data, &Options { brief: true, metrics: metrics.to_vec(), ..Options::default() });
    let line = |found: &FindingLine| {
        let [text, hint] = [&found.text, &found.hint].map(|text| one_line(text));
        format!("{}: {text}\n  hint: {hint}\n", found.severity)
    };
    report.findings.iter().map(line).collect()
}

/// The same as a document: what was declared with its verdict, the rest with `verdict` null.
fn judged_again(data: &RunData, arguments: &Arguments) -> Result<Value, Error> {
    let again = Again::of(data, arguments)?;
    let declared = |line: &Line| row(&line.pair, &line.comparison.ratio, &line.comparison.interval, Some(line));
    let other = |beside: &Beside| row(&beside.pair, &beside.ratio, &beside.interval, None);
    let mut rows: Vec<Value> = Vec::new();
    for (metric, beside) in &again.metrics {
        match beside {
            None => rows.extend(again.lines(metric).map(declared)),
            Some(beside) => rows.extend(beside.iter().map(other)),
        }
    }
    Ok(json!({ "run": data.head.id.0, "comparisons": rows, "silent": again.verdicts.silent }))
}

fn row(pair: &Pair, ratio: &Reading<f64>, interval: &Reading<RatioInterval>, line: Option<&Line>) -> Value {
    let interval = interval.measured();
    let missing = match ratio {
        Reading::Measured(_) => None,
        Reading::Missing(why) => Some(why.to_string()),
    };
    let verdict = line.and_then(|line| serde_json::to_value(&line.comparison.verdict).ok());
    json!({
        "metric": pair.metric.to_string(),
        "variant": pair.names.variant,
        "baseline": pair.names.baseline,
        "at": pair.names.at,
        "ratio": ratio.measured(),
        "missing": missing,
        "low": interval.map(|interval| interval.low).filter(|low| *low > 0.0),
        "high": interval.and_then(|interval| interval.high),
        "verdict": verdict.map(|verdict| verdict["verdict"].clone()),
        "sentence": line.map(|line| line.sentence.clone()),
    })
}

/// Two runs as a document: medians of each variant, how its trials ended, and what differs; no verdict, and no values
/// of variants whose answers differ.
fn both(a: &RunData, b: &RunData, metrics: &[MetricName]) -> Value {
    let metrics = metrics_of(a, metrics);
    let mut rows = Vec::new();
    for (name, of) in variants_of(a, b) {
        let differing = answers_differ(a, b, of);
        let answers = differing.iter().map(|(phase, answers)| json!({ "phase": phase, "answers": answers }));
        let answers: Vec<Value> = answers.collect();
        for metric in &metrics {
            let found = [(a, of[0]), (b, of[1])].map(|(data, variant)| {
                let variant = variant?;
                let all = values(data, variant, metric);
                // JSON has no infinity: where trials have an infinite value, an end or a median among them is null.
                let value = |of: Option<f64>| of.filter(|value| differing.is_empty() && value.is_finite());
                Some(json!({
                    "median": value(median(&all)), "min": value(all.first().copied()),
                    "max": value(all.last().copied()), "n": all.len(),
                    "infinite": all.iter().filter(|value| value.is_infinite()).count(),
                    "outcomes": outcomes(data, variant),
                }))
            });
            rows.push(
                json!({ "variant": name, "metric": metric.to_string(), "runs": found, "answers_differ": answers }),
            );
        }
    }
    let differences: Vec<String> = differences(a, b).lines().map(str::to_owned).collect();
    json!({ "runs": [a.head.id.0, b.head.id.0], "verdict": null, "figures": rows, "differences": differences })
}

/// The metrics that were asked for, or those that the first run declares.
fn metrics_of(a: &RunData, metrics: &[MetricName]) -> Vec<MetricName> {
    if metrics.is_empty() { verdicts::declared(&a.experiment) } else { metrics.to_vec() }
}

/// The labels of a variant's levels by their factors.
type Levels<'a> = BTreeMap<&'a str, &'a str>;

fn levels_of(data: &RunData) -> Vec<Levels<'_>> {
    let factors = data.experiment.factors();
    let of = |variant: &Variant| -> Levels<'_> {
        let each = factors.iter().zip(&variant.levels);
        each.filter_map(|(factor, at)| Some((factor.name.as_str(), factor.levels.get(*at)?.label.as_str()))).collect()
    };
    data.experiment.variants().iter().map(of).collect()
}

/// The variants of both runs by name, with their index in each: those of the first, then those of the second alone. Two are the same
/// variant if they have the same levels of all factors that both runs have, and no other variant of either run has these.
fn variants_of(a: &RunData, b: &RunData) -> Vec<(String, [Option<usize>; 2])> {
    let (ours, theirs) = (levels_of(a), levels_of(b));
    let both: Vec<&Levels<'_>> = ours.iter().chain(&theirs).collect();
    let is_shared = |factor: &str| both.iter().all(|levels| levels.contains_key(factor));
    let are_same = |one: &Levels<'_>, other: &Levels<'_>| {
        one.iter().all(|(factor, label)| !is_shared(factor) || other.get(factor) == Some(label))
    };
    let with = |all: &[Levels<'_>], wanted: &Levels<'_>| -> Vec<usize> {
        (0..all.len()).filter(|at| are_same(wanted, &all[*at])).collect()
    };
    let other = |levels: &Levels<'_>| match (&with(&ours, levels)[..], &with(&theirs, levels)[..]) {
        ([_], [other]) => Some(*other),
        _ => None,
    };
    let first = ours.iter().enumerate().map(|(at, levels)| (named(&both, levels), [Some(at), other(levels)]));
    let mut all: Vec<(String, [Option<usize>; 2])> = first.collect();
    let is_unpaired = |at: &usize| all.iter().all(|(_, of)| of[1] != Some(*at));
    let unpaired: Vec<usize> = (0..theirs.len()).filter(is_unpaired).collect();
    all.extend(unpaired.into_iter().map(|at| (named(&both, &theirs[at]), [None, Some(at)])));
    all
}

/// A variant by the levels of the factors that vary among all of these: `store=redb, documents=1000`; `all` where none does.
fn named(all: &[&Levels<'_>], levels: &Levels<'_>) -> String {
    let varies = |factor: &str| {
        let labels: BTreeSet<&str> = all.iter().filter_map(|levels| levels.get(factor).copied()).collect();
        labels.len() > 1
    };
    let varying = levels.iter().filter(|(factor, _)| varies(factor));
    let parts: Vec<String> = varying.map(|(factor, label)| names::level(factor, label)).collect();
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}

/// The answers of a variant's phases that should agree in the two runs and do not (METHOD 1.5).
fn answers_differ<'a>(
    a: &'a RunData,
    b: &'a RunData,
    of: [Option<usize>; 2],
) -> Vec<(&'a str, [&'a record::Answer; 2])> {
    let [Some(ours), Some(theirs)] = of else { return Vec::new() };
    let trials = |data: &'a RunData, variant: usize| {
        findings::variant_trials(&data.experiment, &data.trials, &data.experiment.variants()[variant])
    };
    let found = disagreements([&trials(a, ours), &trials(b, theirs)]);
    found.into_iter().map(|(phase, a, b)| (phase, [a, b])).collect()
}

fn level(data: &RunData, text: &str) -> Result<(String, String), Error> {
    let factors = data.experiment.factors();
    let wrong = |message: String, known: Vec<&str>| Error::arguments(message, format!("known: {}", known.join(", ")));
    let (name, label) = text.split_once('=').unwrap_or((text, ""));
    let Some(factor) = factors.iter().find(|factor| factor.name == name) else {
        return Err(wrong(
            format!("no factor `{name}` in this run"),
            factors.iter().map(|f| f.name.as_str()).collect(),
        ));
    };
    if factor.levels.iter().any(|level| level.label == label) {
        return Ok((name.to_owned(), label.to_owned()));
    }
    Err(wrong(format!("`{name}` has no level `{label}`"), factor.levels.iter().map(|l| l.label.as_str()).collect()))
}

fn shown(beside: &Beside) -> String {
    let names = &beside.pair.names;
    let at = if names.at.is_empty() { String::new() } else { format!(" at `{}`", names.at) };
    // From 0 without an upper bound is no bound at all.
    let bounded = |interval: &&RatioInterval| interval.low > 0.0 || interval.high.is_some();
    let interval = beside.interval.measured().filter(bounded).copied();
    let ratio = prony_report::shown(&beside.ratio, |ratio| ratio_texts(*ratio, interval).0 + " times");
    // A missing ratio may have an interval, whose numbers then follow from it alone.
    let middle = |of: RatioInterval| beside.ratio.measured().copied().or(of.high).unwrap_or(of.low);
    let within = interval.and_then(|interval| ratio_texts(middle(interval), Some(interval)).1);
    let within = within.map(|within| format!(" ({within})")).unwrap_or_default();
    format!("`{}` compared with `{}` in `{}`{at}: {ratio}{within}", names.variant, names.baseline, beside.pair.metric)
}

fn side_by_side(a: &RunData, b: &RunData, metrics: &[MetricName], width: Option<usize>) -> String {
    let metrics = metrics_of(a, metrics);
    let mut grid = table(width);
    grid.set_header([
        "variant".to_owned(),
        "metric".to_owned(),
        format!("run {}", a.head.id),
        format!("run {}", b.head.id),
    ]);
    for (name, of) in variants_of(a, b) {
        let differing = answers_differ(a, b, of);
        for metric in &metrics {
            let cells = [(a, of[0]), (b, of[1])].into_iter().enumerate().map(|(run, (data, variant))| match variant {
                None => "no such variant".to_owned(),
                Some(_) if !differing.is_empty() => {
                    let each =
                        differing.iter().map(|(phase, answers)| format!("{} in `{phase}`", answered(answers, run)));
                    one_line(&format!("answers differ: {}", each.collect::<Vec<_>>().join(", ")))
                }
                Some(variant) => cell(data, variant, metric),
            });
            grid.add_row([one_line(&name), metric.to_string()].into_iter().chain(cells));
        }
    }
    let mut text = format!("{grid}\nmedians; in brackets: the lowest and the highest trial\n");
    text +=
        "no verdict: the trials of the two runs were not interleaved; a change of the machine between the runs shows ";
    text += "as a difference of the medians\n";
    text += "hint: to get a verdict, put both variants into one experiment as two levels of a factor\n\n";
    text + &differences(a, b)
}

/// The part in which two answers differ: the number of rows, or the digest if the numbers are equal.
fn answered(answers: &[&record::Answer; 2], run: usize) -> String {
    match answers.map(|answer| answer.rows) {
        [Some(a), Some(b)] if a != b => format!("{} rows", [a, b][run]),
        _ => format!("`{}`", answers[run].digest),
    }
}

/// The values of all trials, rising, infinite ones last.
fn values(data: &RunData, variant: usize, metric: &MetricName) -> Vec<f64> {
    let trials = data.trials.iter().filter(|trial| trial.trial.variant == variant);
    let mut values: Vec<f64> = trials.filter_map(|trial| trial.figure(metric).ordered()).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn cell(data: &RunData, variant: usize, metric: &MetricName) -> String {
    let values = values(data, variant, metric);
    let unit = metric.key.metric.unit();
    let text = |value: f64| if value.is_infinite() { "infinite".to_owned() } else { compared(value, unit) };
    let ends = values.first().zip(values.last());
    let figure = median(&values)
        .zip(ends)
        .map(|(middle, (low, high))| format!("{} [{}..{}] n={}", text(middle), text(*low), text(*high), values.len()));
    // A median of few of the trials is not said to be that of all.
    let is_without = |trial: &&TrialRecord| trial.ending.outcome.is_ok() && trial.figure(metric).ordered().is_none();
    let trials = data.trials.iter().filter(|trial| trial.trial.variant == variant);
    let without = Some(trials.filter(is_without).count()).filter(|n| *n > 0 && figure.is_some());
    let without = without.map(|n| format!("{n} without a value"));
    let said: Vec<String> = figure.into_iter().chain(without).chain(unfinished(data, variant)).collect();
    if said.is_empty() { "-".to_owned() } else { said.join(", ") }
}

/// How many trials ended in which way that is not well (METHOD 1.3).
fn unfinished(data: &RunData, variant: usize) -> Vec<String> {
    let ways = outcomes(data, variant).into_iter().filter(|(way, _)| *way != Outcome::Ok.to_string());
    ways.map(|(way, count)| format!("{count} {way}")).collect()
}

/// How many trials ended in which way.
fn outcomes(data: &RunData, variant: usize) -> BTreeMap<String, usize> {
    let mut ways = BTreeMap::new();
    for trial in data.trials.iter().filter(|trial| trial.trial.variant == variant) {
        *ways.entry(trial.ending.outcome.to_string()).or_default() += 1;
    }
    ways
}

/// Everything about host, versions, experiment and what ran that is not the same in both.
fn differences(a: &RunData, b: &RunData) -> String {
    let (ours, theirs) = (facts(a), facts(b));
    let mut text = String::new();
    for (run, own, other) in [(a, &ours, &theirs), (b, &theirs, &ours)] {
        for line in own.iter().filter(|line| !other.contains(line)) {
            text += &format!("only in run {}: {}\n", run.head.id, one_line(line));
        }
    }
    if a.experiment.source() != b.experiment.source() {
        text += "the text of the experiment file differs\n";
        text += &lines_that_differ(a.experiment.source(), b.experiment.source());
    } else if a.head.hash != b.head.hash {
        text +=
            "the experiment differs although the text of its file is the same: it was read with other options of the ";
        text += "command line or other inputs\n";
    }
    text += &what_ran_differs(a, b);
    if text.is_empty() {
        text += "host, versions, experiment and all that is recorded about what ran are the same in both runs\n";
    }
    text
}

/// What is known of a run beside its trials, a line each.
fn facts(data: &RunData) -> Vec<String> {
    let mut lines = Vec::new();
    let resumed = data.head.resumed.iter().map(|session| (&session.host, &session.version));
    for (host, version) in [(&data.head.host, &data.head.version)].into_iter().chain(resumed) {
        let own = facts_lines(host).into_iter().chain([format!("prony: {version}")]);
        own.for_each(|line| {
            if !lines.contains(&line) {
                lines.push(line)
            }
        });
    }
    lines.push(format!("seed: {}", data.head.seed));
    lines.extend(data.experiment.factors().iter().map(|factor| {
        let levels: Vec<&str> = factor.levels.iter().map(|level| level.label.as_str()).collect();
        format!("factor {}: {}", factor.name, levels.join(", "))
    }));
    let blocks = |bound: fn(&Variant) -> u32| data.experiment.variants().iter().map(bound).max().unwrap_or(0);
    lines.push(match (blocks(|variant| variant.blocks.min), blocks(|variant| variant.blocks.max)) {
        (min, max) if min == max => format!("blocks: {max}"),
        (min, max) => format!("blocks: {min} to {max}"),
    });
    lines
}

/// What the trials of a variant are known by that is not the same in both runs: a line each, with all variants of which it
/// is true.
fn what_ran_differs(a: &RunData, b: &RunData) -> String {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, of) in variants_of(a, b) {
        let [Some(ours), Some(theirs)] = of else { continue };
        let (ours, theirs) = (what_ran(a, ours), what_ran(b, theirs));
        // Of a run without trials nothing is known.
        if ours.is_empty() || theirs.is_empty() {
            continue;
        }
        let none = BTreeSet::new();
        for what in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
            let states = [&ours, &theirs].map(|known| known.get(what).unwrap_or(&none));
            if states[0] != states[1] {
                let [x, y] = states.map(|states| states.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
                let [x, y] = [x, y].map(|text| if text.is_empty() { "none".to_owned() } else { text });
                let line = format!("{what}: {x} in run {}, {y} in run {}", a.head.id, b.head.id);
                lines.entry(line).or_default().push(format!("`{name}`"));
            }
        }
    }
    lines
        .iter()
        .map(|(line, names)| one_line(&format!("what ran differs in {}: {line}", names.join(", "))) + "\n")
        .collect()
}

/// All states of what ran as a variant, by what it is called.
fn what_ran(data: &RunData, variant: usize) -> BTreeMap<String, BTreeSet<String>> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for trial in data.trials.iter().filter(|trial| trial.trial.variant == variant) {
        let sources = guard::run::sources(trial).into_iter().map(|(what, state)| (what, state.to_owned()));
        let programs = trial.effective.iter().flat_map(Effective::programs);
        let variables = programs.flat_map(|program| &program.inherited);
        let variables = variables
            .map(|(name, value)| (format!("environment variable `{name}` (digest of its value)"), value.clone()));
        let all = guard::run::identity(trial).into_iter().chain(sources).chain(variables);
        all.for_each(|(what, state)| _ = known.entry(what).or_default().insert(state));
    }
    known
}

fn lines_that_differ(a: &str, b: &str) -> String {
    let only = |mark: char, ours: &str, theirs: &str| -> String {
        let missing =
            ours.lines().filter(|line| !line.trim().is_empty() && !theirs.lines().any(|other| other == *line));
        missing.map(|line| format!("{mark} {line}\n")).collect()
    };
    only('-', a, b) + &only('+', b, a)
}

#[cfg(test)]
mod tests {
    use prony_analysis::verdicts::names::Names;
    use prony_model::reading::Why;

    use super::*;

    #[test]
    fn an_interval_without_a_bound_is_left_out() {
        let said = |ratio, low, high| {
            let names = Names { variant: "b".into(), baseline: "a".into(), at: String::new() };
            let pair = Pair { metric: "read.latency.p99".parse().unwrap(), variant: 1, baseline: 0, names };
            let interval = Reading::Measured(RatioInterval { low, high });
            let text = shown(&Beside { pair, ratio, interval });
            text.split_once(": ").unwrap().1.to_owned()
        };
        let measured = Reading::Measured;
        let none = || Reading::Missing(Why::NotReached);
        assert_eq!(said(none(), 0.0, None), "- (not reached)");
        assert_eq!(said(none(), 1.5, None), "- (not reached) (1.50 or more)");
        assert_eq!(said(none(), 0.5, Some(2.0)), "- (not reached) (0.500 to 2.00)");
        assert_eq!(said(measured(2.0), 0.0, None), "2.00 times");
        assert_eq!(said(measured(0.7), 0.0, Some(2.0)), "0.700 times (at most 2.00)");
        // `0.000 times (0.000 to 0.000)`
        let small = said(measured(1.0 / 19_400.0), 1.0 / 20_000.0, Some(1.0 / 17_100.0));
        assert_eq!(small, "1/19,400 times (1/20,000 to 1/17,100)");
    }

    #[test]
    fn interval_from_zero_has_no_lower_end_in_json() {
        let low = |low| {
            let names = Names { variant: "b".into(), baseline: "a".into(), at: String::new() };
            let pair = Pair { metric: "read.latency.p99".parse().unwrap(), variant: 1, baseline: 0, names };
            let interval = Reading::Measured(RatioInterval { low, high: Some(3.0) });
            row(&pair, &Reading::Measured(2.0), &interval, None)["low"].clone()
        };
        assert_eq!((low(0.0), low(1.5)), (Value::Null, json!(1.5)));
    }

    #[test]
    fn only_lines_that_differ_are_listed() {
        assert_eq!(lines_that_differ("a = 1\nb = 2\n", "a = 1\nb = 3\n"), "- b = 2\n+ b = 3\n");
        assert_eq!(lines_that_differ("a\n\n", "a\n"), "");
    }
}
