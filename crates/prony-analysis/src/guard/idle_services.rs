//! Whether sums over all services contain servers that only the other one of two variants uses. Services run in the trials of every
//! variant: where a factor chooses the server that is loaded, the sum of each variant has the idle servers of the others.

use super::used_services::{Use, Used};
use super::variant_trials::Compared;
use prony_model::metric::{Metric, MetricName};
use prony_model::service::{ALL, ServiceSpec};

/// Why a sum over all services is not compared: that of one variant includes services that only the other one uses, or it is not
/// known which it uses. What neither uses, both have alike.
pub(super) fn unequal(both: Compared<'_>, name: &MetricName) -> Option<String> {
    let is_sum = match name.instance.as_deref() {
        // Beside a program, and in a worker with an embedded store, it is their own.
        None => both.iter().all(|all| all.spec.measures_servers()),
        Some(instance) => instance == ALL,
    };
    let has_services = both.iter().any(|all| !all.spec.services.is_empty());
    if !is_sum || !has_services || !is_of_services(name.key.metric) {
        return None;
    }
    let [ours, theirs] = both.map(|all| (all.name.as_str(), Used::of(all.spec, &name.phase)));
    if ours.1.says_as(&theirs.1) {
        return None;
    }
    let either = [(&ours, &theirs), (&theirs, &ours)];
    let idle = || either.into_iter().find_map(|(of, other)| idle(of, other, name));
    let unknown = || either.into_iter().find_map(|(of, _)| unknown(of, name));
    idle().or_else(unknown).or_else(|| elsewhere(&ours, &theirs, name))
}

/// Whether a metric is one of processes, of their memory, or of the files of services.
fn is_of_services(metric: Metric) -> bool {
    use Metric::{Cached, CachedBytes, Disk, DiskLength, Makespan, Skew, Wall};
    let is_time_of_phase = matches!(metric, Wall | Makespan | Skew);
    let is_level = metric.is_gauge() || matches!(metric, Disk | DiskLength | Cached | CachedBytes);
    is_level || metric.is_of_process() && !is_time_of_phase
}

/// A variant's name, and what it uses.
type Variant<'s> = (&'s str, Used<'s>);

/// Services run in the trials of a variant that the other one is more certain to use.
fn idle((of, used): &Variant<'_>, (other, theirs): &Variant<'_>, name: &MetricName) -> Option<String> {
    let uses = |service: &ServiceSpec| {
        let mut pairs = used.uses(service.name()).into_iter().zip(theirs.uses(service.name()));
        pairs.find(|(ours, theirs)| ours < theirs)
    };
    let first = used.services().iter().find_map(uses)?;
    let idle: Vec<&str> =
        used.services().iter().filter(|service| uses(service) == Some(first)).map(ServiceSpec::name).collect();
    let how = match first {
        (Use::No, Use::Yes) => "uses",
        (Use::No, _) => "may use",
        _ => "is known to use",
    };
    Some(format!(
        "`{name}` of `{of}` includes services that run in its trials too, and that only `{other}` {how}: {}. {}",
        quoted(idle.iter().copied()),
        instead(idle[0], name)
    ))
}

/// Several services run, and nothing says which of them the variant uses: the other one may use another.
fn unknown((of, used): &Variant<'_>, name: &MetricName) -> Option<String> {
    let [first, _, ..] = used.services() else { return None };
    used.is_unknown().then(|| {
        format!(
            "`{name}` of `{of}` adds up {}, and which of them it uses is not known: none is named, as by `{{service.{}.port}}`, in {}. {}",
            quoted(used.services().iter().map(ServiceSpec::name)),
            first.name(),
            used.silent.join(", "),
            instead(first.name(), name)
        )
    })
}

/// The operations of two variants go to different servers, of which it is not known whether they are services.
fn elsewhere((of, ours): &Variant<'_>, (other, theirs): &Variant<'_>, name: &MetricName) -> Option<String> {
    let first = [ours, theirs].into_iter().find_map(|used| used.services().first())?.name();
    let to = |used: &Used<'_>| match used.elsewhere.len() {
        0 => "services".to_owned(),
        _ => quoted(used.elsewhere.iter().map(String::as_str)),
    };
    (ours.works() && theirs.works() && ours.elsewhere != theirs.elsewhere).then(|| {
        format!(
            "the operations of `{of}` go to {}, but those of `{other}` to {}: whether these are servers that `{name}` adds up is not \
             known, unless the address of a service is written as `{{service.{first}.port}}`. {}",
            to(ours),
            to(theirs),
            instead(first, name)
        )
    })
}

fn quoted<'s>(names: impl Iterator<Item = &'s str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Where the metrics of a single service are.
fn instead(service: &str, name: &MetricName) -> String {
    let own = MetricName { instance: Some(service.to_owned()), ..name.clone() };
    format!("The metrics of each service, such as `{own}`, are in the tables")
}
