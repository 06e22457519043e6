//! Checks an experiment file and turns it into an experiment that can run; collects every fault.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use super::combine::{self, Combination};
use super::decode::compare::{self, Named};
use super::decode::instance::PhaseNames;
use super::decode::program::is_observed;
use super::decode::{View, never_measured, report};
use super::design::{Blocks, Compare, Experiment, Variant};
use super::environment::EnvironmentValues;
use super::factors::{self, FactorDef, LevelDef};
use super::floor;
use super::grammar;
use super::node::{Node, RawExperiment};
use super::problem::{Problem, Problems};
use super::redacted::digest;
use super::services;
use super::shape::Shape;
use super::specification;
use super::subject;
use super::substitute;
use super::validate::{Holes, Walk};
use super::variant::{Context, never_run};
use prony_model::catalog::{Anywhere, EngineCatalog, Overrides, Surroundings};
use prony_model::program::WHOLE;
use prony_model::service::{ALL, LOAD};
use prony_model::spec::WORKER;
use prony_model::units::Nanos;

/// The sections in which placeholders of factors have a meaning.
const VARIED: [&str; 7] = ["store", "program", "service", "subject", "data", "phase", "limits"];

/// The most phases; a file with more is a mistake.
const MOST_PHASES: usize = 1_000;

/// The seed of an experiment that gives none.
const DEFAULT_SEED: u64 = 1;

/// Checks a file against the engines of this build, with what the command line changes.
///
/// # Errors
/// Every fault of the file, in its order.
pub fn check(
    raw: &RawExperiment,
    engines: &dyn EngineCatalog,
    overrides: &Overrides,
) -> Result<Experiment, Vec<Problem>> {
    check_in(raw, engines, &Anywhere, overrides)
}

/// The same, and that the files and programs which it names exist.
///
/// # Errors
/// Every fault of the file, in its order.
pub fn check_in(
    raw: &RawExperiment,
    engines: &dyn EngineCatalog,
    surroundings: &dyn Surroundings,
    overrides: &Overrides,
) -> Result<Experiment, Vec<Problem>> {
    let mut problems = Problems::new(&raw.text);
    let used = RefCell::default();
    let outside = EnvironmentValues::new(&overrides.variables, &used, &raw.text);
    let raw = &outside.fill(&subject::with_names(raw, &mut problems), &mut problems);
    let factors = factors::read(&raw.root, overrides, &mut problems);
    let names: Vec<String> = factors.iter().map(|factor| factor.name.clone()).collect();
    form(raw, &names, &mut problems);
    if raw.root.get("phase").and_then(Node::list).is_some_and(|phases| phases.len() > MOST_PHASES) {
        return Err(problems.into_list());
    }
    let mut named = Vec::new();
    // Records belong to stores and servers.
    let chooses = |subject: &Node| ["use", "store"].into_iter().any(|key| subject.entry(key).is_some());
    let has_records = raw.root.get("store").is_some()
        || raw.root.get("subject").is_some_and(chooses)
        || services::are_measured(&raw.root);
    let sections = VARIED.iter().filter(|section| **section != "data" || has_records);
    sections.filter_map(|section| raw.root.get(section)).for_each(|node| substitute::used(node, &mut named));
    combine::unused(&factors, &named, &mut problems);

    let baseline = combine::baseline(&factors, &raw.root, &mut problems);
    let combinations = combine::combinations(&factors, &raw.root, &baseline, &mut problems);
    let blocks = compare::level_blocks(raw.root.get("compare"), &factors, &mut problems);
    no_baseline(raw, &combinations, &baseline, overrides, &mut problems);
    baseline_set_aside(raw, &factors, &baseline, overrides, &mut problems);
    let floor = floor::read(raw, &factors, &combinations, overrides, &mut problems);

    let ran = RefCell::default();
    let context = Context { raw, engines, surroundings, factors: &factors, names: &names, outside, ran };
    let narrowed = is_narrowed(overrides) || !overrides.free.is_empty();
    let phases = phase_names(&raw.root, &context, &combinations, narrowed);
    let named = Named { baseline: factors::labels(&factors, &baseline), floor: factors::labels(&factors, &floor) };
    let mut compare = compare::compare(raw.root.get("compare"), named, &phases, &mut problems);
    (compare.blocks, compare.budget) = amount(&compare, overrides);
    let public = factors::public(&factors);
    let tables = report::tables(raw.root.get("report"), &factors, &public, &phases, &mut problems);
    let most = overrides.blocks;
    let blocks = |levels: &Combination| capped(compare::blocks_of(levels, &blocks, compare.blocks), most);
    let variants = variants(&context, (&combinations, &baseline), blocks, &mut problems);
    if problems.is_empty() && !narrowed {
        never_run(&context, &variants, &mut problems);
    }
    compare::given_times(raw.root.get("compare"), &variants, &mut problems);
    // A part of the experiment, or a small trial of it, may have too few operations.
    never_measured::faults(raw.root.get("compare").filter(|_| !narrowed), &variants, &mut problems);
    if !problems.is_empty() {
        return Err(problems.into_list());
    }
    compare.primary = compare.primary.or_else(|| compare::default_primary(&variants));
    let about = View::new(raw.root.get("experiment"), &grammar::EXPERIMENT);
    Ok(Experiment {
        title: about.plain("title").map_or_else(|| file_name(&raw.file), str::to_owned),
        question: about.plain("question").map(str::to_owned),
        source: raw.text.clone(),
        seed: overrides.seed.or(about.whole("seed")).unwrap_or(DEFAULT_SEED),
        factors: public,
        variants,
        compare,
        environment: used.take().iter().map(|(name, value)| (name.clone(), digest(value))).collect(),
        observe: compare::observe(raw.root.get("observe")),
        tables,
        explores: false,
        leave_one_out: factors::left_out(&raw.root).map(str::to_owned),
    })
}

/// The name of a file without the directories of its path, by which it may be named in several ways.
fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The variants of these combinations.
fn variants(
    context: &Context<'_>,
    (combinations, baseline): (&[Combination], &BTreeMap<usize, usize>),
    blocks: impl Fn(&Combination) -> Blocks,
    problems: &mut Problems<'_>,
) -> Vec<Variant> {
    let (places, strata) = (places(context.factors), combine::strata(combinations, baseline));
    let mut variants = Vec::with_capacity(combinations.len());
    for (id, levels) in combinations.iter().enumerate() {
        let Some(spec) = specification::variant(context, levels, problems) else { continue };
        variants.push(Variant {
            id,
            levels: places.iter().zip(levels).map(|(places, level)| places[*level]).collect(),
            spec,
            stratum: strata[id],
            baseline: combine::is_baseline(levels, baseline),
            blocks: blocks(levels),
        });
    }
    all_are_read(variants.len(), combinations.len(), problems);
    beside_all(&mut variants);
    variants
}

/// A baseline runs in every block in which a variant of its stratum runs: alone, that variant would be compared with nothing.
fn beside_all(variants: &mut [Variant]) {
    let mut most: BTreeMap<usize, Blocks> = BTreeMap::new();
    for Variant { stratum, blocks, .. } in variants.iter() {
        let known = most.entry(*stratum).or_insert(*blocks);
        *known = Blocks { min: known.min.max(blocks.min), max: known.max.max(blocks.max) };
    }
    for variant in variants.iter_mut().filter(|variant| variant.baseline) {
        variant.blocks = most.get(&variant.stratum).copied().unwrap_or(variant.blocks);
    }
}

/// A variant that cannot be read has a fault of its own: without one, the others would silently be fewer than the file's.
fn all_are_read(read: usize, written: usize, problems: &mut Problems<'_>) {
    if read < written && problems.is_empty() {
        problems.add(Problem::new(0..0, "a variant cannot be read, and no reason is known: this is an error in prony"));
    }
}

/// How many blocks run, and the time that they have; both may be given on the command line.
fn amount(compare: &Compare, overrides: &Overrides) -> (Blocks, Option<Nanos>) {
    match (overrides.blocks, overrides.budget.or(compare.budget)) {
        (Some(n), _) => (Blocks { min: n, max: n }, None),
        (None, Some(budget)) => (compare::within_a_budget(compare.blocks), Some(budget)),
        (None, None) => (compare.blocks, None),
    }
}

/// Checks the form of the file as written.
fn form(raw: &RawExperiment, names: &[String], problems: &mut Problems<'_>) {
    let Some(entries) = raw.root.table() else { return };
    for entry in entries {
        let holes = if VARIED.contains(&entry.key.as_str()) { Holes::Open } else { Holes::None };
        let mut walk = Walk { problems, file: &raw.text, factors: names, holes };
        match grammar::ROOT.field(&entry.key) {
            Some(_) if entry.key == "phase" => walk.value(&entry.key, &entry.node, phase_shape(&raw.root)),
            Some(field) => walk.value(&entry.key, &entry.node, &field.shape),
            None => walk.unknown_key(&raw.root, entry, &grammar::ROOT),
        }
    }
    let mut walk = Walk { problems, file: &raw.text, factors: names, holes: Holes::None };
    walk.complete(&raw.root, &grammar::ROOT);
    let programs = raw.root.get("program").is_some();
    let servers = services::are_measured(&raw.root);
    if !programs && raw.root.get("store").is_none() && !servers {
        let message = "the file has nothing to measure";
        problems.fault(&raw.root.span, message, "add `[store]`, `[program.NAME]` or `[[service]]`");
    }
    if let (true, Some(other)) = (servers, raw.root.entry("store").or(raw.root.entry("program"))) {
        let hint = match other.key.as_str() {
            "program" => "a program can use services, but `http` and `run` are phases of services: write two files",
            _ => "a store can use services, but `http` and `run` are phases of services: write two files",
        };
        problems.fault(&other.key_span, format!("a file measures services or a {}, not both", other.key), hint);
    }
    let phases =
        raw.root.entry("phase").filter(|phases| phases.node.list().is_some_and(|list| list.len() > MOST_PHASES));
    if let Some(phases) = phases {
        let message = format!(
            "the experiment has {} phases; the maximum is {MOST_PHASES}",
            phases.node.list().map_or(0, <[_]>::len)
        );
        problems.fault(&phases.key_span, message, "let one phase run many operations");
    }
    if !programs
        && (raw.root.get("store").is_some() || servers)
        && raw.root.get("phase").is_none_or(|phases| phases.list().is_none_or(<[_]>::is_empty))
    {
        problems.fault(&raw.root.span, "the experiment has no phase", "add `[[phase]]` with a name and an action");
    }
}

/// The form of phases in this file.
fn phase_shape(root: &Node) -> &'static Shape {
    if root.get("program").is_some() { &grammar::PROGRAM_PHASES } else { &grammar::STORE_PHASES }
}

/// Whether the command line changed the levels that run.
fn is_narrowed(overrides: &Overrides) -> bool {
    !overrides.only.is_empty() || !overrides.set.is_empty()
}

/// A baseline that is in no stratum, unless the command line removed it.
fn no_baseline(
    raw: &RawExperiment,
    combinations: &[Combination],
    baseline: &BTreeMap<usize, usize>,
    overrides: &Overrides,
    problems: &mut Problems<'_>,
) {
    let missing = !baseline.is_empty() && !combinations.iter().any(|levels| combine::is_baseline(levels, baseline));
    if missing && !is_narrowed(overrides) && !combinations.is_empty() {
        let span = raw.root.at(["compare", "baseline"]).map_or(0..0, |node| node.span.clone());
        let message = "no variant is the baseline, so nothing can be compared";
        problems.fault(span, message, "`[design]` excludes these levels: name other levels, or let these run");
    }
}

/// A baseline's level that `--set` removes: the user wants to compare levels, but nothing would be compared.
fn baseline_set_aside(
    raw: &RawExperiment,
    factors: &[FactorDef],
    baseline: &BTreeMap<usize, usize>,
    overrides: &Overrides,
    problems: &mut Problems<'_>,
) {
    let entries = raw.root.at(["compare", "baseline"]).and_then(Node::table);
    for (path, levels) in &overrides.set {
        let (name, key) = path.split_once('.').map_or((path.as_str(), None), |(name, key)| (name, Some(key)));
        let named = baseline.iter().map(|(at, level)| (&factors[*at], *level)).find(|(factor, _)| factor.name == name);
        // A search compares nothing before it has a result.
        let aside = |(factor, level): &(&FactorDef, usize)| {
            let own = |key| factor.levels[*level].node.get(key);
            let is_made =
                |key| factor.meant(*level) != [*level] && own(key).is_some_and(|own| !factors::is_given(levels, own));
            let is_replaced = key.is_none_or(is_made);
            !factor.free && !factor.levels[*level].selected && is_replaced
        };
        let Some((factor, level)) = named.filter(aside) else { continue };
        // `leave_one_out` sets the baseline if the file names none.
        let named = entries.and_then(|all| all.iter().find(|entry| entry.key == *name)).map(|entry| &entry.node);
        let span = named.or_else(|| factors::left_out_node(&raw.root)).map(|node| node.span.clone());
        let LevelDef { label, node, .. } = &factor.levels[level];
        let own = key.map_or_else(|| Some(label.clone()), |key| Some(node.get(key)?.label()));
        let (own, given) = (own.unwrap_or_default(), levels.join(","));
        let message = format!("--set {path}={given} removes the baseline `{label}`, so nothing would be compared");
        let hint = format!("write `--set {path}={own},{given}`, or `--only` for a run without a comparison");
        problems.fault(span.unwrap_or(0..0), message, hint);
    }
}

/// Every phase's name, in the order of the file, over all variants.
fn phase_names(root: &Node, context: &Context<'_>, combinations: &[Combination], narrowed: bool) -> PhaseNames {
    let programs = root.table_of("program");
    let roles = programs.iter().any(|program| program.node.get("runtime").is_some());
    let replicas = context.replicas(root, combinations, narrowed);
    let services = context.services(root, combinations);
    let (steps, kinds) = (context.steps(root, combinations), context.kinds(root, combinations));
    let beside = match (programs, root.get("store")) {
        ([], None) => vec![LOAD],
        ([], Some(_)) => vec![WORKER, ALL],
        _ => vec![ALL],
    };
    let mut names =
        PhaseNames { beside_services: beside, roles, replicas, services, steps, kinds, ..PhaseNames::default() };
    for phase in root.list_of("phase") {
        // A level may be the whole phase.
        let beside = phase.get("background").is_some() || phase.text().is_some();
        for name in context.names_of(phase, combinations) {
            names.backgrounds.extend(beside.then(|| name.0.clone()));
            match names.list.iter_mut().find(|(known, _)| *known == name.0) {
                Some((_, timed)) => *timed |= name.1,
                None => names.list.push(name),
            }
        }
    }
    if root.get("program").is_some() && !root.list_of("phase").iter().any(is_observed) {
        names.list.push((WHOLE.to_owned(), true));
    }
    names
}

/// For each level of each factor, its index among the levels that run.
fn places(factors: &[FactorDef]) -> Vec<Vec<usize>> {
    let of = |factor: &FactorDef| {
        let mut running = 0;
        let place = |level: &LevelDef| {
            running += usize::from(level.selected);
            running - usize::from(level.selected)
        };
        factor.levels.iter().map(place).collect()
    };
    factors.iter().map(of).collect()
}

fn capped(blocks: Blocks, most: Option<u32>) -> Blocks {
    match most {
        Some(most) => Blocks { min: blocks.min.min(most), max: blocks.max.min(most) },
        None => blocks,
    }
}
