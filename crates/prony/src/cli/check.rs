//! `prony check`: checks an experiment file and prints its plan; runs nothing.

use std::path::PathBuf;

use prony_experiment::design::Experiment;
use prony_experiment::plan::{Outline, Stratum, outline, without_verdict};
use prony_model::catalog::Overrides;
use prony_model::metric::MetricName;
use prony_model::number::{count, percent, span};
use prony_model::units::{Nanos, parse_span};
use prony_stats::blocks_before_any_verdict;

use super::run::RunOverrideArguments;
use super::run_selection::DatabaseArg;
use super::{Answer, Output, plan_table};
use crate::error::Error;
use crate::output_file::OutputFiles;
use prony_analysis::verdicts::{floor as floors, names};
use prony_place::output_targets::Protected;
use prony_report::screen::one_line;
use prony_runner::budget::Bought;
use prony_runner::estimate::{self, Estimate};
use prony_runner::preflight::Here;
use prony_runner::{load, scratch};

/// Which file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  prony check experiment.toml")]
pub struct Arguments {
    /// Experiment file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    overrides: RunOverrideArguments,
    #[command(flatten)]
    database: DatabaseArg,
    /// Estimate what a time budget, such as `20 min`, allows: number of blocks, whether they suffice for a verdict,
    /// minimum detectable effect
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with = "blocks")]
    budget: Option<Nanos>,
    /// Where `prony run --scratch` would put stores; default: the folder of the database
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Prints the plan.
///
/// # Errors
/// Where the file has problems or the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let near = scratch::folder(arguments.scratch.as_deref(), &arguments.database.database);
    let overrides = Overrides { budget: arguments.budget, ..arguments.overrides.read()? };
    let (file, database) = (&arguments.file, Some(arguments.database.database.as_path()));
    let here = Here::new(&near, Protected::of(database, [file]))?;
    let experiment = load::experiment(file, &overrides, &here)?;
    // An output of one variant may be what another reads.
    OutputFiles::of(database, [file]).claim_of_programs(experiment.variants())?;
    let outline = outline(&experiment);
    // Earlier runs are known by what they recorded.
    let recorded = load::with_absolute_paths(experiment.clone())?;
    let estimate = estimate::of(&recorded, &outline, &arguments.database.database);
    let warnings = load::warnings(&experiment, &arguments.file);
    for (text, hint) in &warnings {
        let hint = hint.as_ref().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        output.print(&format!("{}\n{hint}\n", one_line(text)))?;
    }
    output.print("the plan; nothing is run\n\n")?;
    output.report(&plan_table::report(&experiment, &outline), None)?;
    output.print(&text(&experiment, &outline, &estimate))?;
    for (service, what) in here.copied_data(&experiment) {
        output.print(&format!(
            "{}\n",
            one_line(&format!("each trial copies {what} as the data of service `{service}`"))
        ))?;
    }
    let file = shell_words::quote(&arguments.file.to_string_lossy()).into_owned();
    let warned = match warnings.len() {
        0 => String::new(),
        n => format!(", with {} above", count(n, "warning")),
    };
    output.print(&format!("the file is valid{warned}: `prony run {}` runs it\n", one_line(&file)))?;
    Ok(Answer::Yes)
}

fn text(experiment: &Experiment, outline: &Outline, estimate: &Estimate) -> String {
    let mut text = format!("{}\n", amounts(experiment, outline));
    text += &extra(outline);
    text += &comparison(experiment, outline);
    text += &floor(experiment);
    match Bought::of(experiment, outline, estimate) {
        Some(bought) => {
            text + &format!("{bought}\n") + &bought.hint().map_or_else(String::new, |h| format!("hint: {h}\n"))
        }
        None => text + &format!("{estimate}\n"),
    }
}

fn amounts(experiment: &Experiment, outline: &Outline) -> String {
    let strata = match outline.strata.as_slice() {
        [] | [_] => String::new(),
        several => format!(" in {} strata{}{}", several.len(), equal(experiment, several), baselines(several)),
    };
    let variants = count(outline.variants.len(), "variant");
    if let Some(budget) = experiment.compare().budget {
        let trials = count(outline.trials_of_a_block, "trial");
        return format!("{variants}{strata}, as many blocks of {trials} as fit into {}", span(budget));
    }
    let from_to = |least: u32, most: u32, noun: &str| {
        if least == most { count(most, noun) } else { format!("{least} to {most} {noun}s") }
    };
    let blocks = from_to(outline.blocks.min, outline.blocks.max, "block");
    format!("{variants}{strata}, {blocks}, {}", from_to(outline.trials_min, outline.trials_max, "trial"))
}

/// `, each with its own baseline`; `, 2 of them with a baseline`; nothing where there is none.
fn baselines(strata: &[Stratum]) -> String {
    match strata.iter().filter(|stratum| stratum.baseline.is_some()).count() {
        0 => String::new(),
        n if n == strata.len() => ", each with its own baseline".to_owned(),
        n => format!(", {n} of them with a baseline"),
    }
}

/// ` (compared at equal documents and size)`: the factors by which variants belong together.
fn equal(experiment: &Experiment, strata: &[Stratum]) -> String {
    let varying: Vec<&str> =
        names::varying(experiment).into_iter().map(|at| experiment.factors()[at].name.as_str()).collect();
    let named = strata.first().map(|stratum| stratum.levels.as_slice()).unwrap_or_default();
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).filter(|name| varying.contains(name)).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" (compared at equal {one})"),
        [before @ .., last] => format!(" (compared at equal {} and {last})", before.join(", ")),
    }
}

/// The trials that are not included in the results.
fn extra(outline: &Outline) -> String {
    let cuts = match outline.cuts {
        0 => String::new(),
        n => format!(
            "{} of crash trials come after the blocks; no result of the timed trials includes them\n",
            count(n, "cut")
        ),
    };
    cuts + &match outline.profiles {
        0 => String::new(),
        1 => "1 more trial runs under a profiler after the blocks; no result includes this trial\n".to_owned(),
        n => format!(
            "{n} more trials, one of each variant, run under a profiler after the blocks; no result includes them\n"
        ),
    }
}

fn comparison(experiment: &Experiment, outline: &Outline) -> String {
    let compare = experiment.compare();
    if compare.baseline.is_empty() {
        return "nothing is compared: to compare variants, name the levels of the baseline in \
                `[compare] baseline = { ... }`\n"
            .to_owned();
    }
    let baseline: Vec<String> = compare.baseline.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    let metrics: Vec<String> = compare.figures().into_iter().map(MetricName::to_string).collect();
    let compared = format!("compared with {} by {}", one_line(&baseline.join(", ")), metrics.join(", "));
    let uncompared = not_compared(experiment);
    let family = outline.family;
    if family == 0 {
        let Some(prony_model::event::NoVerdict { why, hint }) = without_verdict(experiment, outline) else {
            return format!("{compared}\n{uncompared}");
        };
        let hint = hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        return format!("{compared}: {why}\n{uncompared}{hint}");
    }
    let needed = needed(experiment, outline);
    let comparisons = count(family, "comparison");
    // Readers asked why the baseline has twice the trials of others.
    let twice = match compare.twice {
        true => "the baseline runs twice in each block, and is compared with itself too (A/A check)\n",
        false => "",
    };
    format!(
        "{compared}: {comparisons}\n{uncompared}{twice}where the interval shows that a difference is smaller than {}, the verdict says so, without a direction; the level of {} holds \
         for all verdicts together\n{needed}\n",
        percent(compare.margin.get()),
        percent(1.0 - compare.alpha.get()),
    )
}

/// How many blocks a verdict needs, whichever the variant: levels may set the blocks of their variants.
fn needed(experiment: &Experiment, outline: &Outline) -> String {
    let compare = experiment.compare();
    let judged = outline.variants.iter().filter(|variant| !variant.baseline && variant.no_verdict.is_none());
    let each: Vec<(u32, Option<u32>)> = judged
        .map(|variant| {
            let analyses = compare.analyses(variant.blocks);
            let needed = blocks_before_any_verdict(outline.family as usize, compare.alpha.get(), &analyses);
            (variant.blocks.max, needed)
        })
        .collect();
    if let Some(blocks) = each.iter().filter(|(_, needed)| needed.is_none()).map(|(blocks, _)| *blocks).min() {
        let blocks = count(blocks, "block");
        return format!("{blocks} show only differences far beyond the noise: plan more blocks or fewer comparisons");
    }
    let most = each.iter().filter_map(|(_, needed)| *needed).max().unwrap_or(0);
    format!("a verdict needs at least {most} blocks, and more where values are noisy")
}

/// The phases that are timed and get no verdict.
fn not_compared(experiment: &Experiment) -> String {
    let compared = experiment.compare().figures();
    let is_other = |name: &&str| !compared.iter().any(|metric| metric.phase == **name);
    let mut names: Vec<&str> = Vec::new();
    let phases = experiment.variants().iter().flat_map(|variant| &variant.spec.phases).filter(|phase| phase.timed);
    for name in phases.map(|phase| phase.name.as_str()).filter(is_other) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.is_empty() {
        true => String::new(),
        false => format!("measured and not compared: {}\n", one_line(&names.join(", "))),
    }
}

/// Which variants are compared with the floor, and where no floor runs.
fn floor(experiment: &Experiment) -> String {
    if experiment.compare().floor.is_empty() {
        return String::new();
    }
    let floor = one_line(&floors::name(experiment));
    let is_above = |variant: &usize| experiment.floor_of(*variant).is_some_and(|floor| floor != *variant);
    let above = match (0..experiment.variants().len()).filter(is_above).count() {
        0 => return format!("the floor, {floor}, is not among the variants that run\n"),
        1 => "1 variant takes".to_owned(),
        n => format!("{n} variants take"),
    };
    let nowhere = floors::nowhere(experiment).map(|text| format!("; {}", one_line(&text))).unwrap_or_default();
    format!(
        "the floor, which the file names as the least that the work takes, is {floor} at the same levels of all other \
         factors: by how much {above} longer is shown, without a verdict{nowhere}\n"
    )
}
