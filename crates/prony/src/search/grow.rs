//! `grow`: raises a factor until the subject fails, separately for each combination of the other factors' levels.

use std::collections::BTreeMap;

use prony_analysis::guard::disturbances::limited_by_generator;
use prony_analysis::search::{Ask, End, Grow, GrowSettings, Growth, TrialEnd};
use prony_experiment::design::{Experiment, Variant};
use prony_model::record::TrialRecord;

use super::default_setting::one_level;
use super::found::{GrowWanted, Grown};
use super::grow_text;
use super::journal::{Asked, Entry};
use super::source::{Source, other_levels};
use super::trial_runner::{Means, TrialRunner, no_result};
use crate::error::Error;
use prony_model::finding::Finding;
use prony_results::RunId;
use prony_runner::run::Summary;

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its run.
    pub run: RunId,
    /// Each combination of the other factors that was finished.
    pub grown: Vec<Grown>,
    /// That not all trials ran the same program or engine: no limit is known then.
    pub changed: Option<Finding>,
    /// How it ended.
    pub summary: Summary,
    /// As a text for the terminal.
    pub said: String,
}

impl Found {
    /// Whether a value succeeds in every combination, and disturbances ended none of their searches.
    pub(crate) fn all_succeed(&self) -> bool {
        let succeeds = |growth: &Growth| growth.largest_success.is_some() && growth.end != End::Disturbed;
        self.changed.is_none() && self.grown.iter().all(|grown| succeeds(&grown.growth))
    }
}

/// Raises the factor; `resume` resumes a run.
///
/// # Errors
/// Where the file or the range is at fault, or the machine refuses.
pub fn run(mut wanted: GrowWanted, resume: Option<RunId>, mut means: Means<'_>) -> Result<Found, Error> {
    let mut source = Source::read(&wanted.file, wanted.overrides.clone())?;
    source.complete(&mut wanted.settings.range)?;
    source.free(std::iter::once(wanted.settings.range.name.as_str()));
    one_level(&source.plain()?, &wanted.settings.range.name)?;
    let mut checked = CheckedValues { source, wanted: wanted.clone(), known: BTreeMap::new() };
    let first = checked.at(wanted.settings.range.low)?.clone();
    bounded(&first, &wanted.settings)?;
    // Known before anything runs.
    wanted.settings.range.high.map_or(Ok(()), |end| checked.at(end).map(|_| ()))?;
    means.files.claim_of_programs(first.variants())?;
    let mut experiment = first.emptied(format!("{}: how far `{}` grows", first.title(), wanted.settings.range.name));
    experiment.admit(&first, 0);
    let option = means.option;
    let mut runner = match resume {
        Some(run) => TrialRunner::resume(run, experiment, &wanted.file, means.lend())?,
        None => TrialRunner::begin(experiment, means.lend())?,
    };
    let run = runner.run();
    let command = format!("prony grow --resume {run}{option}");
    let grown = match all(&mut runner, &mut checked, &first) {
        Ok(grown) => grown,
        Err(error) => return Err(runner.fail(error, &command)),
    };
    let changed = runner.changed().cloned();
    let mut said = match &changed {
        Some(finding) => no_result("limit", finding),
        None => grow_text::grown(&wanted.settings, &grown),
    };
    if changed.is_some() || grown.len() == first.variants().len() {
        runner.note(&Entry::Concluded { confirmation: None, said: said.clone() })?;
    } else {
        said += &format!("interrupted; finished trials are saved\nhint: to resume: `{command}`\n");
    }
    Ok(Found { run, grown, changed, summary: runner.end()?, said })
}

/// Without a limit and without an end, the search would raise the factor until the machine runs out of memory.
fn bounded(experiment: &Experiment, settings: &GrowSettings) -> Result<(), Error> {
    let limited = |variant: &Variant| {
        let limits = &variant.spec.limits;
        limits.memory.is_some() || limits.trial.is_some() || limits.phase.is_some()
    };
    if settings.range.high.is_some() || experiment.variants().iter().all(limited) {
        return Ok(());
    }
    let range = &settings.range;
    Err(Error::arguments(
        format!("the range `{range}` has no end, and the experiment has no limit of memory or time"),
        format!(
            "add `[limits] memory = \"1 GiB\"` to the file, or write an end: `{}={}..{}`",
            range.name,
            range.text(range.low),
            range.text(range.low * 1000.0)
        ),
    ))
}

/// The experiment at each value, checked once.
struct CheckedValues {
    source: Source,
    wanted: GrowWanted,
    known: BTreeMap<String, Experiment>,
}

impl CheckedValues {
    fn at(&mut self, value: f64) -> Result<&Experiment, Error> {
        let range = &self.wanted.settings.range;
        let text = range.text(range.round(value));
        if !self.known.contains_key(&text) {
            let experiment = self.source.at(&[(range.name.clone(), text.clone())])?;
            self.known.insert(text.clone(), experiment);
        }
        Ok(&self.known[&text])
    }
}

/// Every combination of the other factors, up to where the user interrupted it, or the program changed.
fn all(runner: &mut TrialRunner<'_>, checked: &mut CheckedValues, first: &Experiment) -> Result<Vec<Grown>, Error> {
    runner.note(&Entry::Asked(Box::new(Asked::Grow(checked.wanted.clone()))))?;
    let mut grown = Vec::new();
    for variant in first.variants() {
        match one(runner, checked, first, variant)? {
            Some(done) => grown.push(done),
            None => break,
        }
    }
    Ok(grown)
}

/// One combination of the other factors, to its end; `None` where the user interrupted it, or the program changed.
fn one(
    runner: &mut TrialRunner<'_>,
    checked: &mut CheckedValues,
    first: &Experiment,
    like: &Variant,
) -> Result<Option<Grown>, Error> {
    let settings = checked.wanted.settings.clone();
    let other_levels = other_levels(first, like, &settings.range.name);
    let mut grow = Grow::new(settings.clone());
    let mut records: Vec<(f64, TrialRecord)> = Vec::new();
    let mut refused = None;
    let growth = loop {
        let value = match grow.ask() {
            Ask::Done(growth) => break growth,
            Ask::Try(value) => value,
        };
        let experiment = match checked.at(value) {
            Ok(experiment) => experiment,
            Err(error) => {
                let Some(why) = error.first_problem().filter(|_| grow.refuse(value)) else { return Err(error) };
                refused = Some(format!("{} cannot be tried: {why}", settings.range.text(value)));
                continue;
            }
        };
        let variant = same(experiment, &other_levels, &settings.range.name)?;
        let variant = runner.admit(experiment, variant)?;
        let Some(record) = runner.run_trial(variant, grow.trials_of(value))? else { return Ok(None) };
        let beside: Vec<&TrialRecord> = records.iter().map(|(_, record)| record).collect();
        if !runner.goes_on(&record, &beside) {
            return Ok(None);
        }
        let Some(end) = TrialEnd::of_trial(&record) else { return Ok(None) };
        grow.record(value, end);
        runner.note(&Entry::Raised {
            trial: record.trial.position,
            value: settings.range.text(value),
            levels: other_levels.iter().cloned().collect(),
            end,
            ending: record.ending.clone(),
        })?;
        records.push((value, record));
    };
    runner.note(&Entry::Grown { levels: other_levels.iter().cloned().collect(), grown: growth.clone() })?;
    let of = |value: Option<f64>, end: TrialEnd| {
        let wanted =
            |(tried, record): &&(f64, TrialRecord)| Some(*tried) == value && TrialEnd::of_trial(record) == Some(end);
        records.iter().filter(wanted).map(|(_, record)| record.clone()).collect()
    };
    let succeeded = of(growth.largest_success.map(|tried| tried.value), TrialEnd::Succeeded);
    let failed = of(growth.smallest_failure.map(|tried| tried.value), TrialEnd::Failed);
    let is_disturbed = |(tried, record): &&(f64, TrialRecord)| {
        growth.given_up == Some(*tried) && TrialEnd::of_trial(record) == Some(TrialEnd::Disturbed)
    };
    // Where something else ended one of them, it may be the cause of all.
    let mut given_up = records.iter().filter(is_disturbed).map(|(_, record)| limited_by_generator(record));
    let by_generator = given_up.next().flatten().filter(|_| given_up.all(|phase| phase.is_some())).map(str::to_owned);
    Ok(Some(Grown { other_levels, growth, succeeded, failed, by_generator, refused }))
}

/// The variant with the same other factors: a `when` or `skip` may take it out at some values.
fn same(experiment: &Experiment, wanted: &[(String, String)], name: &str) -> Result<usize, Error> {
    let found = experiment.variants().iter().position(|variant| other_levels(experiment, variant, name) == wanted);
    found.ok_or_else(|| {
        Error::arguments(
            format!("`[design]` excludes {} at a value of `{name}`", grow_text::levels(wanted)),
            "a search needs every value: remove the restriction, or choose other levels with `--only`",
        )
    })
}
