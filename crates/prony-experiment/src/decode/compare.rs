//! Reads `[experiment]`, `[compare]` and `[observe]`.

use std::collections::BTreeMap;

use super::View;
use super::instance::{self, PhaseNames};
use super::view::whole;
use crate::combine::Combination;
use crate::design::{AllowedErrors, Blocks, Compare, Observe, Variant};
use crate::factors::{FactorDef, by_key, no_level};
use crate::grammar;
use crate::node::{Node, Value};
use crate::problem::{Problem, Problems, known_hint};
use prony_model::latency::highest;
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::program::REPLICAS;
use prony_model::spec::{Amount, Ops, PhaseSpec};
use prony_model::units::Fraction;

/// The default number of blocks: the least with which a verdict is possible (METHOD 4.7).
const DEFAULT_BLOCKS: u32 = prony_stats::MIN_BLOCKS;

/// The most blocks of a run.
const MOST_BLOCKS: u32 = 10_000;

/// A level for some factors in `[compare]`: factor -> label.
pub(crate) struct Named {
    pub(crate) baseline: BTreeMap<String, String>,
    pub(crate) floor: BTreeMap<String, String>,
}

/// `[compare]` without baseline and floor, which the design has read already.
pub(crate) fn compare(node: Option<&Node>, named: Named, phases: &PhaseNames, problems: &mut Problems<'_>) -> Compare {
    let view = View::new(node, &grammar::COMPARE);
    let errors = allowed_errors(&view, problems);
    Compare {
        baseline: named.baseline,
        floor: named.floor,
        primary: view.get("metric").and_then(|node| metric(node, phases, problems)),
        metrics: view.list_of("metrics").iter().filter_map(|node| metric(node, phases, problems)).collect(),
        margin: margin(&view, problems),
        alpha: alpha(&view, problems),
        blocks: default_blocks(&view, problems),
        budget: view.time("budget"),
        twice: view.flag("twice").unwrap_or(true),
        errors,
        none_may_fail: errors == AllowedErrors::default() && view.get("errors").is_some(),
    }
}

/// A whole number is a count; a number with a percent sign or a point is a share. What would be all operations as a share, and one of
/// them as a count, is neither.
fn allowed_errors(view: &View<'_>, problems: &mut Problems<'_>) -> AllowedErrors {
    if let Some(node) = view.get("errors") {
        let is_bare = node.text().is_some_and(|text| text.trim().parse().is_ok_and(|number: f64| number >= 1.0));
        if is_bare || node.value == Value::Number(1.0) {
            let message = format!("`errors`: `{}` may be a number of operations or a share of them", node.label());
            let hint = "write a number of operations without quotes and point, such as `1`, or a share with `%`, such as `\"1%\"`";
            problems.fault(&node.span, message, hint);
        }
    }
    let count = view.whole("errors").map(AllowedErrors::Count);
    count.or_else(|| view.share("errors").map(AllowedErrors::Share)).unwrap_or_default()
}

/// The blocks of a run with a time budget: at least as many as a range asks for before it may end early, and more than
/// any budget holds.
pub(crate) fn within_a_budget(blocks: Blocks) -> Blocks {
    let min = if blocks.min < blocks.max { blocks.min } else { DEFAULT_BLOCKS };
    Blocks { min, max: MOST_BLOCKS }
}

/// From 100 % on, no difference matters.
fn margin(view: &View<'_>, problems: &mut Problems<'_>) -> Fraction {
    let margin = view.share("margin").or(Fraction::new(0.03)).unwrap_or_default();
    if let (Some(node), true) = (view.get("margin"), margin.get() >= 1.0) {
        let hint = "expected a share below 1, such as `\"3%\"`: differences below it do not matter";
        problems.fault(&node.span, format!("`margin` cannot be `{}`", node.label()), hint);
    }
    margin
}

/// At 0 no verdict is possible; from a half on, verdicts are wrong as often as right.
fn alpha(view: &View<'_>, problems: &mut Problems<'_>) -> Fraction {
    let alpha = view.share("alpha").or(Fraction::new(0.05)).unwrap_or_default();
    if let (Some(node), true) = (view.get("alpha"), alpha.get() <= 0.0 || alpha.get() >= 0.5) {
        let message = format!("`alpha` cannot be `{}`", node.label());
        problems.fault(&node.span, message, "expected a share above 0 and below a half, such as `\"5%\"`");
    }
    alpha
}

/// The default primary metric: the time of the first timed phase that every variant has, so that all can be compared,
/// or else of the first timed one. Of one that lasts a given time it is the rate; of an open loop the highest percentile of
/// latency for which its operations suffice. `time`, and with it the rate, leaves out gaps of one client that are in `time`
/// where others work meanwhile: where compared variants have different numbers of clients it is the whole of the phase.
pub(crate) fn default_primary(variants: &[Variant]) -> Option<MetricName> {
    let phases = || variants.iter().flat_map(|variant| &variant.spec.phases).filter(|phase| phase.timed);
    let in_all = |name: &str| variants.iter().all(|variant| variant.spec.phases.iter().any(|phase| phase.name == name));
    let name = phases().find(|phase| in_all(&phase.name)).or(phases().next())?.name.clone();
    let open = variants.iter().filter_map(|variant| offered(variant, &name)).reduce(f64::min);
    let lasts = phases().any(|phase| phase.name == name && phase.action.is_bounded_by_time());
    let metric = match open {
        Some(offered) => highest(offered),
        None if clients_differ(variants, &name) => instead_of_time(variants, &name),
        None if lasts => Metric::Rate,
        None => Metric::Time,
    };
    Some(MetricName { phase: name, instance: None, key: MetricKey::amount(metric) })
}

/// What each variant that has operations in a phase does in it.
fn operations<'v>(variants: &'v [Variant], phase: &'v str) -> impl Iterator<Item = (usize, &'v PhaseSpec, &'v Ops)> {
    variants.iter().filter_map(move |variant| {
        let found = variant.spec.phases.iter().find(|one| one.name == phase)?;
        Some((variant.stratum, found, found.action.ops()?))
    })
}

/// Whether variants that are compared have different numbers of clients in a phase: threads, or processes on one store.
fn clients_differ(variants: &[Variant], phase: &str) -> bool {
    let mut of_stratum: BTreeMap<usize, u32> = BTreeMap::new();
    operations(variants, phase)
        .any(|(stratum, _, ops)| *of_stratum.entry(stratum).or_insert(ops.clients()) != ops.clients())
}

/// The metric that has all gaps of a phase in which numbers of clients differ. The background of a phase is in its `wall` too.
fn instead_of_time(variants: &[Variant], phase: &str) -> Metric {
    let all = |are: fn(&PhaseSpec, &Ops) -> bool| operations(variants, phase).all(|(_, phase, ops)| are(phase, ops));
    if operations(variants, phase).any(|(_, phase, _)| phase.action.is_bounded_by_time()) {
        // Numbers of operations are compared only if all have as long for them.
        if last_alike(variants, phase) { Metric::Operations } else { Metric::Rate }
    } else if all(|_, ops| ops.replicas.is_some()) {
        Metric::Makespan
    } else if all(|phase, _| phase.background.is_none()) {
        Metric::Wall
    } else {
        Metric::Time
    }
}

/// Whether variants that are compared all have a phase that lasts for the same time.
fn last_alike(variants: &[Variant], phase: &str) -> bool {
    let mut of_stratum: BTreeMap<usize, Amount> = BTreeMap::new();
    operations(variants, phase).all(|(stratum, _, ops)| {
        matches!(ops.amount, Amount::Duration(_)) && *of_stratum.entry(stratum).or_insert(ops.amount) == ops.amount
    })
}

/// The metrics that `[compare]` names, with their places.
pub(super) fn named_metrics(compare: Option<&Node>) -> impl Iterator<Item = (&Node, MetricName)> {
    let listed = ["metric", "metrics"].into_iter().filter_map(move |key| compare?.get(key));
    listed.flat_map(Node::items).filter_map(|node| Some((node, node.text()?.parse::<MetricName>().ok()?)))
}

/// Warns of a `time` or `rate` that is compared where numbers of clients differ.
pub(crate) fn gaps_differ(root: &Node, variants: &[Variant], problems: &mut Problems<'_>) {
    for (node, name) in named_metrics(root.get("compare")) {
        let is_of_gaps = name.instance.is_none() && matches!(name.key.metric, Metric::Time | Metric::Rate);
        let instead = instead_of_time(variants, &name.phase);
        // Where operations start by a rate, `time` has the gaps too.
        let is_open = operations(variants, &name.phase).any(|(_, _, ops)| ops.rate.is_some());
        let has_other = !matches!(instead, Metric::Time | Metric::Rate);
        if !is_of_gaps || is_open || !has_other || !clients_differ(variants, &name.phase) {
            continue;
        }
        let message = format!(
            "`{name}` leaves out the time in which all clients of `{}` prepare operations, and the variants have different \
             numbers of clients",
            name.phase
        );
        problems.fault(&node.span, message, format!("compare `{}.{instead}`", name.phase, instead = instead.name()));
    }
}

/// The operations that an open loop does at least, where it keeps its rate: it may skip 1 % of those that are due in a given
/// time, and of arrivals at random their number is random, too.
fn offered(variant: &Variant, phase: &str) -> Option<f64> {
    let ops = variant.spec.phases.iter().find(|one| one.name == phase)?.action.ops()?;
    let arrivals = ops.rate?;
    Some(match ops.amount {
        Amount::Duration(time) => {
            let due = arrivals.rate.get() * time.as_secs_f64();
            let spread = if arrivals.poisson { 5.0 * due.sqrt() } else { 0.0 };
            0.99 * (due - spread)
        }
        Amount::Count(count) => count as f64,
        Amount::Records => variant.spec.collection(ops)?.records as f64,
        Amount::Background => return None,
    })
}

/// Metrics that show nothing when compared: times of phases whose duration the file sets.
pub(crate) fn given_times(node: Option<&Node>, variants: &[Variant], problems: &mut Problems<'_>) {
    for (node, name) in named_metrics(node) {
        let phases = variants.iter().flat_map(|variant| &variant.spec.phases);
        let mut own = phases.filter(|phase| phase.name == name.phase);
        if let Some((message, instead)) = own.find_map(|phase| phase.is_no_speed(&name)) {
            problems.fault(&node.span, message, format!("compare {instead}"));
        }
    }
}

fn metric(node: &Node, phases: &PhaseNames, problems: &mut Problems<'_>) -> Option<MetricName> {
    let text = node.text()?;
    match text.parse::<MetricName>() {
        Ok(name) => {
            if let Some((message, hint)) = phase_fault(&name, phases) {
                problems.add(Problem::new(&node.span, message).maybe_hint(hint));
            }
            Some(name)
        }
        Err(error) => {
            problems.add(Problem::new(&node.span, error.to_string()));
            None
        }
    }
}

/// The fault of the phase in a metric's name, and a hint.
pub(crate) fn phase_fault(name: &MetricName, phases: &PhaseNames) -> Option<(String, Option<String>)> {
    match phases.list.iter().find(|(phase, _)| *phase == name.phase) {
        None if phases.list.is_empty() => None,
        None => {
            let hint = known_hint(&name.phase, phases.list.iter().map(|(phase, _)| phase.as_str()));
            Some((format!("`{name}`: unknown phase `{}`", name.phase), hint))
        }
        Some((_, true)) => no_statistic(name).or_else(|| match &name.instance {
            Some(instance) => instance::fault(name, instance, phases),
            None if name.key.metric == Metric::OperationsPerOk => {
                let hint = format!("write `{}.SERVICE.{}`", name.phase, name.key);
                Some((format!("`{name}` names no service"), Some(hint)))
            }
            None => None,
        }),
        Some((phase, false)) => Some((
            format!("`{name}`: phase `{phase}` has `timed = false`, so it has no metrics"),
            Some("remove `timed = false` from the phase".to_owned()),
        )),
    }
}

/// The fault of a statistic that no trial has: every value would be missing.
fn no_statistic(name: &MetricName) -> Option<(String, Option<String>)> {
    let of_replicas = name.instance.as_deref() == Some(REPLICAS);
    let (why, instead) = match (name.key.metric, name.key.stat?) {
        (Metric::Rss | Metric::Open(_), _) | (Metric::Pss, Stat::End | Stat::Before) => return None,
        (Metric::Pss, Stat::Max) if of_replicas => return None,
        (Metric::Pss, _) => ("PSS is read at boundaries of phases only", Stat::End),
        (_, Stat::Peak) => ("exact peaks exist of resident memory (`rss.peak`) only", Stat::Max),
        _ => return None,
    };
    let hint = MetricName { key: MetricKey::gauge(name.key.metric, instead), ..name.clone() };
    Some((format!("`{name}`: {why}"), Some(format!("compare `{hint}`"))))
}

fn default_blocks(view: &View<'_>, problems: &mut Problems<'_>) -> Blocks {
    let Some(node) = view.get("blocks") else { return Blocks { min: DEFAULT_BLOCKS, max: DEFAULT_BLOCKS } };
    let blocks = View::new(Some(node), &grammar::BLOCKS);
    let Some(default) = blocks.get("default") else { return range(node, problems) };
    for bound in ["min", "max"].into_iter().filter(|bound| blocks.get(bound).is_some()) {
        let message = format!("`{bound}` and `default` exclude each other");
        problems.fault(blocks.key_span(bound), message, "write `default = { min = 6, max = 12 }`");
    }
    range(default, problems)
}

fn range(node: &Node, problems: &mut Problems<'_>) -> Blocks {
    if let Some(n) = whole(node) {
        return Blocks { min: n as u32, max: n as u32 };
    }
    let view = View::new(Some(node), &grammar::LEVEL_BLOCKS);
    let max = view.whole("max").map(|n| n as u32);
    let min = view.whole("min").map_or_else(|| max.map_or(DEFAULT_BLOCKS, |max| max.min(DEFAULT_BLOCKS)), |n| n as u32);
    let max = max.unwrap_or(min);
    if max < min {
        problems.add(Problem::new(&node.span, format!("`max`, {max}, is below `min`, {min}")));
    }
    Blocks { min, max }
}

/// Blocks that single levels set: factor, level, blocks.
pub(crate) fn level_blocks(
    node: Option<&Node>,
    factors: &[FactorDef],
    problems: &mut Problems<'_>,
) -> Vec<(usize, usize, Blocks)> {
    let blocks = View::new(node, &grammar::COMPARE).table_of("blocks");
    let mut set = Vec::new();
    for entry in blocks.iter().filter(|entry| grammar::BLOCKS.field(&entry.key).is_none()) {
        let Some((at, factor)) = by_key(factors, entry, problems) else { continue };
        for level in entry.node.table().unwrap_or_default() {
            match factor.level(&level.key) {
                Some(found) => {
                    let blocks = range(&level.node, problems);
                    set.extend(factor.meant(found).into_iter().map(|found| (at, found, blocks)));
                }
                None => problems.add(no_level(&level.key_span, factor, &level.key)),
            }
        }
    }
    set
}

/// The blocks of one variant: the fewest that its levels ask for, else the default.
pub(crate) fn blocks_of(levels: &Combination, set: &[(usize, usize, Blocks)], default: Blocks) -> Blocks {
    let own = set.iter().filter(|(factor, level, _)| levels[*factor] == *level).map(|(_, _, blocks)| *blocks);
    own.min_by_key(|blocks| (blocks.max, blocks.min)).unwrap_or(default)
}

/// `[observe]`.
pub(crate) fn observe(node: Option<&Node>) -> Observe {
    let view = View::new(node, &grammar::OBSERVE);
    let default = Observe::default();
    Observe {
        hertz: view.whole("hertz").map_or(default.hertz, |hertz| hertz as u32),
        throughput: view.time("throughput").unwrap_or(default.throughput),
        care: view.word("care").unwrap_or_default(),
        profile: view.word("profile"),
        record_commands: view.flag("record_commands").unwrap_or(true),
        syncs: view.flag("syncs"),
    }
}
