//! The instances whose metrics a phase may have besides its own: roles, replicas, and its background.

use super::counters::{Counted, Fault, unknown};
use crate::node::Node;
use crate::problem::quoted;
use prony_model::http::{kind_of, step_of};
use prony_model::metric::{Metric, MetricName};
use prony_model::program::{OfReplicas, ROLES, of_replicas};
use prony_model::spec::BACKGROUND;

/// Phases by name, in order, and whether they are timed.
#[derive(Default)]
pub(crate) struct PhaseNames {
    pub(crate) list: Vec<(String, bool)>,
    /// What has metrics beside services.
    pub(crate) beside_services: Vec<&'static str>,
    /// Whether a program has a runtime, for which metrics exist by role too.
    pub(crate) roles: bool,
    /// The replicas of programs, for which metrics exist by number too.
    pub(crate) replicas: Vec<Started>,
    /// The phases that have a background.
    pub(crate) backgrounds: Vec<String>,
    /// The phases of requests whose rate has steps, with the most of them in any variant.
    pub(crate) steps: Vec<(String, u32)>,
    /// The phases with a mix or a session of requests, each with the name of one kind.
    pub(crate) kinds: Vec<(String, String)>,
    /// The services over all variants.
    pub(crate) services: Vec<NamedService>,
}

/// A service of any variant.
pub(crate) struct NamedService {
    /// Its name.
    pub(crate) name: String,
    /// The most instances that any variant has.
    pub(crate) most: u32,
    /// What it counts itself.
    pub(crate) counted: Counted,
}

/// Replicas that a program starts with a phase, or that share a store in one, over all variants.
pub(crate) struct Started {
    /// The phase; `None` where its name is faulty, so that it may be any.
    phase: Option<String>,
    /// The most of them in any variant.
    most: u32,
}

impl Started {
    /// The greatest number, with any phase.
    pub(crate) const ANY: Self = Self { phase: None, most: u32::MAX };

    /// Adds those that are written here in one variant, for a phase.
    pub(crate) fn note(all: &mut Vec<Self>, phase: Option<String>, count: Option<&Node>) {
        let count = count.and_then(super::view::whole).and_then(|count| u32::try_from(count).ok());
        let most = count.unwrap_or(u32::MAX);
        match all.iter_mut().find(|started| started.phase == phase) {
            Some(started) => started.most = started.most.max(most),
            None => all.push(Self { phase, most }),
        }
    }
}

/// The fault of a metric's instance, and a hint.
pub(super) fn fault(name: &MetricName, instance: &str, phases: &PhaseNames) -> Option<Fault> {
    let roles = phases.roles;
    if phases.services.is_empty() && name.key.metric.counter().is_some() {
        return Some(unknown(name));
    }
    if roles && ROLES.contains(&instance) {
        return None;
    }
    if instance == BACKGROUND {
        let message = format!("`{name}`: phase `{}` has no background", name.phase);
        let hint = match phases.backgrounds.as_slice() {
            [] => "add `background = { get = {} }` to the phase".to_owned(),
            some => format!("these phases have one: {}", quoted(some)),
        };
        if !phases.backgrounds.contains(&name.phase) {
            return Some((message, Some(hint)));
        }
        let message =
            format!("`{name}`: memory, CPU time and what is stored are known of the process, not of its background");
        let hint = format!("write `{}.{}`", name.phase, name.key);
        return (name.key.stat.is_some() || !name.key.metric.is_of_operations()).then_some((message, Some(hint)));
    }
    if let Some(number) = step_of(instance) {
        return no_step(name, number, &phases.steps);
    }
    if let Some(kind) = kind_of(instance) {
        return no_kind(name, kind, &phases.kinds);
    }
    if !phases.services.is_empty() {
        let found = of_services(name, instance, phases);
        let is_of_replicas = of_replicas(instance, roles).is_some() && !phases.replicas.is_empty();
        if found.is_none() || !is_of_replicas {
            return found;
        }
    }
    let replicas: Vec<&Started> = phases.replicas.iter().filter(|started| started.most > 0).collect();
    if let (Some(of), false) = (of_replicas(instance, roles), replicas.is_empty()) {
        return not_started(name, of, &replicas);
    }
    let minus = instance.contains('-').then(|| "put spaces around `-` if it means minus".to_owned());
    let none = format!("`{name}`: there is no instance `{instance}`");
    if !replicas.is_empty() {
        let hint = "instances where there are `replicas`: `replicas` for all replicas, `replica.1` for the first";
        return Some((none, minus.or_else(|| Some(hint.to_owned()))));
    }
    if roles {
        let hint = format!("instances of a program with a `runtime`: `{}`", ROLES.join("`, `"));
        return Some((none, minus.or(Some(hint))));
    }
    Some((
        format!(
            "`{name}` names the instance `{instance}`, but instances exist only with `runtime`, `replicas` or `background`"
        ),
        minus,
    ))
}

/// The fault of a step of a schedule.
fn no_step(name: &MetricName, number: u32, steps: &[(String, u32)]) -> Option<Fault> {
    let most = steps.iter().filter(|(phase, _)| *phase == name.phase).map(|(_, most)| *most).max().unwrap_or(0);
    if most < number {
        let message = match most {
            0 => format!("`{name}`: the requests of phase `{}` have no steps", name.phase),
            most => format!("`{name}`: no variant has a step {number}, the last is `step.{most}`"),
        };
        return Some((message, Some("steps are those of `rate = { steps = [...] }` or `{ ramp = {...} }`".to_owned())));
    }
    of_all_requests(name, "step")
}

/// The fault of a kind of request.
fn no_kind(name: &MetricName, kind: &str, kinds: &[(String, String)]) -> Option<Fault> {
    let known: Vec<&str> =
        kinds.iter().filter(|(phase, _)| *phase == name.phase).map(|(_, kind)| kind.as_str()).collect();
    match known.as_slice() {
        [] => {
            let message = format!("`{name}`: the requests of phase `{}` are of one kind", name.phase);
            Some((message, Some("kinds are those of `mix = { ... }` in `http`".to_owned())))
        }
        some if !some.contains(&kind) => {
            Some((format!("`{name}`: there is no kind `{kind}`"), Some(format!("kinds: {}", quoted(some)))))
        }
        _ => of_all_requests(name, "kind"),
    }
}

/// The fault of a metric that is not known of a part of a phase's requests.
fn of_all_requests(name: &MetricName, part: &str) -> Option<Fault> {
    let hint = format!("write `{}.{}`", name.phase, name.key);
    let counted = [Metric::Ok, Metric::Operations, Metric::Errors, Metric::Skipped, Metric::Rate];
    let has = counted.iter().chain(&Metric::LATENCY).any(|metric| *metric == name.key.metric);
    let message = format!("`{name}` is not known by {part}: a {part} has `ok errors skipped rate latency`");
    (!has || name.key.stat.is_some()).then_some((message, Some(hint)))
}

/// The fault of an instance in a file with services.
fn of_services(name: &MetricName, instance: &str, phases: &PhaseNames) -> Option<Fault> {
    let services = &phases.services;
    let outer = ROLES.iter().find_map(|role| instance.strip_suffix(role)?.strip_suffix('.')).unwrap_or(instance);
    let is_meant = |service: &&NamedService| match outer.strip_prefix(service.name.as_str()) {
        Some("") => true,
        Some(rest) => {
            let number = rest.strip_prefix('.').and_then(|number| number.parse::<u32>().ok());
            number.is_some_and(|number| service.most > 1 && (1..=service.most).contains(&number))
        }
        None => false,
    };
    if let Some(service) = services.iter().find(is_meant) {
        return service.counted.fault(name, &service.name);
    }
    if name.key.metric.counter().is_some() {
        return Some(unknown(name));
    }
    if phases.beside_services.contains(&instance) {
        return None;
    }
    let own = services.iter().map(|service| service.name.as_str());
    let known: Vec<&str> = own.chain(phases.beside_services.iter().copied()).collect();
    Some((format!("`{name}`: there is no instance `{instance}`"), Some(format!("instances: {}", quoted(&known)))))
}

/// The fault where replicas have metrics, but not those that the name means.
fn not_started(name: &MetricName, of: OfReplicas, replicas: &[&Started]) -> Option<Fault> {
    let here = replicas.iter().filter(|started| started.phase.as_ref().is_none_or(|phase| *phase == name.phase));
    let Some(most) = here.map(|started| started.most).max() else {
        let phases: Vec<&str> = replicas.iter().filter_map(|started| started.phase.as_deref()).collect();
        let message = format!("`{name}`: phase `{}` has no replicas, so it has no metrics of them", name.phase);
        return Some((message, Some(format!("replicas are in {}", quoted(&phases)))));
    };
    match of {
        OfReplicas::One(number) if number > most => {
            let message = format!("`{name}`: no variant has a replica {number}");
            Some((message, Some(format!("the last replica is `replica.{most}`"))))
        }
        _ => None,
    }
}
