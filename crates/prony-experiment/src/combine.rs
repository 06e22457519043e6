//! Determines which combinations of levels run: the Cartesian product, a union of grids, or a star around the baseline,
//! without skipped combinations.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::spelling::nearest;

use super::design::ALL;
use super::factors::{FactorDef, by_key, left_out, no_level, selection};
use super::node::Node;
use super::problem::{Problem, Problems};

/// The most combinations of a design; a file with more is a mistake.
const MOST_COMBINATIONS: usize = 100_000;

/// The most variants: a trial of each would take hours.
const MOST_VARIANTS: usize = 10_000;

/// The index of a level for each factor.
pub(crate) type Combination = Vec<usize>;

/// Reads the partial baseline: factor -> level, by index. Where one change is left out at a time and the file names no
/// baseline, it is all changes together.
pub(crate) fn baseline(factors: &[FactorDef], root: &Node, problems: &mut Problems<'_>) -> BTreeMap<usize, usize> {
    let node = root.at(["compare", "baseline"]);
    let mut baseline = named(factors, node, problems);
    if let (None, Some(name)) = (node, left_out(root)) {
        let at = factors.iter().position(|factor| factor.name == name);
        baseline.extend(at.and_then(|at| Some((at, factors[at].level(ALL)?))));
    }
    baseline
}

/// Reads a level for some factors: factor -> level, by index.
pub(crate) fn named(factors: &[FactorDef], node: Option<&Node>, problems: &mut Problems<'_>) -> BTreeMap<usize, usize> {
    let mut named = BTreeMap::new();
    for entry in node.and_then(Node::table).unwrap_or_default() {
        let Some((at, factor)) = by_key(factors, entry, problems) else { continue };
        if entry.node.list().is_some() || entry.node.table().is_some() {
            continue;
        }
        match factor.level_of(&entry.node) {
            Some(level) => {
                let meant = factor.meant(level);
                named.insert(at, if let [one] = meant[..] { one } else { level });
            }
            None => problems.add(no_level(&entry.node.span, factor, &entry.node.label())),
        }
    }
    named
}

/// Every combination that runs, in the order of the file's levels.
pub(crate) fn combinations(
    factors: &[FactorDef],
    root: &Node,
    baseline: &BTreeMap<usize, usize>,
    problems: &mut Problems<'_>,
) -> Vec<Combination> {
    let design = root.get("design");
    let grid = design.and_then(|design| design.entry("grid"));
    let vary = design.and_then(|design| design.entry("vary"));
    let all: Vec<Vec<usize>> = factors.iter().map(|factor| (0..factor.levels.len()).collect()).collect();
    let parts = match (grid, vary) {
        (Some(grid), Some(vary)) => {
            let problem = Problem::new(vary.key_span.clone(), "`vary` and `grid` exclude each other");
            problems.add(problem.label(&grid.key_span, "`grid` stands"));
            return Vec::new();
        }
        (Some(grid), None) => tables(factors, &grid.node, &all, problems),
        (None, Some(vary)) => star(factors, &vary.node, &all, baseline, problems),
        (None, None) => vec![all],
    };
    let mut sizes = parts.iter().map(|lists| lists.iter().try_fold(1usize, |size, list| size.checked_mul(list.len())));
    let size = sizes.try_fold(0usize, |all, size| all.checked_add(size?)).filter(|size| *size <= MOST_COMBINATIONS);
    if size.is_none() {
        let message = format!("the factors make more than {MOST_COMBINATIONS} combinations");
        problems.add(Problem::new(root.entry("factors").map_or(0..0, |entry| entry.key_span.clone()), message));
        return Vec::new();
    }
    let mut combinations = union(&parts);
    if let Some(skip) = design.and_then(|design| design.get("skip")) {
        leave_out(factors, skip, &mut combinations, problems);
    }
    combinations.retain(|levels| factors.iter().zip(levels).all(|(factor, level)| factor.levels[*level].selected));
    if combinations.is_empty() && problems.is_empty() {
        let span = root.entry("design").or(root.entry("factors")).map_or(0..0, |entry| entry.key_span.clone());
        problems.fault(span, "no variant is left to run", "check `skip`, `grid`, `--set` and `--only`");
    }
    if combinations.len() > MOST_VARIANTS {
        let message = format!("{} variants would run; the maximum is {MOST_VARIANTS}", combinations.len());
        let span = root.entry("design").or(root.entry("factors")).map_or(0..0, |entry| entry.key_span.clone());
        problems.fault(span, message, "remove levels, or use `skip`, `grid`, `vary` or `--only`");
        return Vec::new();
    }
    combinations
}

/// Every combination of one level from each list, the last factor fastest.
fn cross(lists: &[Vec<usize>]) -> Vec<Combination> {
    lists.iter().fold(vec![Vec::new()], |heads, list| {
        let extend = |head: &Combination| {
            let head = head.clone();
            list.iter().map(move |level| head.iter().copied().chain([*level]).collect::<Combination>())
        };
        heads.iter().flat_map(extend).collect()
    })
}

/// Every combination of any of these parts once, in the same order.
fn union(parts: &[Vec<Vec<usize>>]) -> Vec<Combination> {
    match parts {
        [one] => cross(one),
        parts => parts.iter().flat_map(|lists| cross(lists)).collect::<BTreeSet<_>>().into_iter().collect(),
    }
}

/// What each table of a grid asks for.
fn tables(factors: &[FactorDef], grid: &Node, all: &[Vec<usize>], problems: &mut Problems<'_>) -> Vec<Vec<Vec<usize>>> {
    let each = |table: &Node| {
        let mut lists = all.to_vec();
        for (at, levels) in selection(factors, table, problems).into_iter().filter(|(at, _)| !factors[*at].free) {
            lists[at] = levels;
        }
        lists
    };
    grid.list().unwrap_or_default().iter().map(each).collect()
}

/// For each combination of the factors that the baseline does not name: the baseline, and what differs in one factor.
fn star(
    factors: &[FactorDef],
    vary: &Node,
    all: &[Vec<usize>],
    baseline: &BTreeMap<usize, usize>,
    problems: &mut Problems<'_>,
) -> Vec<Vec<Vec<usize>>> {
    if baseline.is_empty() && problems.is_empty() {
        let message = "`vary = \"one at a time\"` needs a baseline to vary around";
        problems.fault(&vary.span, message, "write `[compare] baseline = { factor = level }`");
    }
    if baseline.len() == 1 && problems.is_empty() {
        let hint = "name the level of each factor that is varied around the baseline, or remove `vary`";
        problems.fault(&vary.span, "`vary` excludes no variant, since the baseline names one factor only", hint);
    }
    let mut center = all.to_vec();
    let fixed = || baseline.iter().filter(|(at, _)| !factors[**at].free);
    fixed().for_each(|(at, level)| center[*at] = vec![*level]);
    let ray = |(at, level): (&usize, &usize)| {
        let mut lists = center.clone();
        lists[*at] = all[*at].iter().copied().filter(|other| other != level).collect();
        lists
    };
    let rays: Vec<_> = fixed().map(ray).collect();
    [center].into_iter().chain(rays).collect()
}

fn leave_out(factors: &[FactorDef], skip: &Node, combinations: &mut Vec<Combination>, problems: &mut Problems<'_>) {
    let before = combinations.clone();
    for table in skip.list().unwrap_or_default() {
        let faults = problems.raised();
        let chosen = selection(factors, table, problems);
        if problems.raised() > faults || chosen.iter().any(|(at, _)| factors[*at].free) {
            continue;
        }
        if table.table().is_some_and(<[_]>::is_empty) {
            problems.fault(&table.span, "this table excludes every variant", "name a level of a factor");
            continue;
        }
        let matches = |levels: &Combination| chosen.iter().all(|(at, list)| list.contains(&levels[*at]));
        if !before.iter().any(matches) {
            let message = "no variant has these levels, so nothing is skipped";
            problems.fault(&table.span, message, "remove the table, or correct its levels");
        }
        combinations.retain(|levels| !matches(levels));
    }
}

/// The stratum of each combination: equal levels of every factor that the baseline does not name.
pub(crate) fn strata(combinations: &[Combination], baseline: &BTreeMap<usize, usize>) -> Vec<usize> {
    if baseline.is_empty() {
        return vec![0; combinations.len()];
    }
    let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let stratum = |levels: &Combination| {
        let rest: Vec<usize> =
            levels.iter().enumerate().filter(|(at, _)| !baseline.contains_key(at)).map(|(_, level)| *level).collect();
        let next = known.len();
        *known.entry(rest).or_insert(next)
    };
    combinations.iter().map(stratum).collect()
}

/// Whether a combination is the baseline of its stratum.
pub(crate) fn is_baseline(levels: &Combination, baseline: &BTreeMap<usize, usize>) -> bool {
    !baseline.is_empty() && baseline.iter().all(|(at, level)| levels[*at] == *level)
}

/// Factors that nothing uses. One whose name is misspelt where it is used is reported there, as an unknown placeholder.
pub(crate) fn unused(factors: &[FactorDef], used: &[String], problems: &mut Problems<'_>) {
    let unknown = || used.iter().map(String::as_str).filter(|name| factors.iter().all(|factor| factor.name != *name));
    for factor in factors {
        if !used.contains(&factor.name) && nearest(&factor.name, unknown()).is_none() {
            let message = format!("factor `{}` is not used, so its levels make no difference", factor.name);
            let hint = format!("write `{{{}}}` where its level belongs, or remove the factor", factor.name);
            problems.fault(&factor.span, message, hint);
        }
    }
}
