//! Checks a variant that measures services, or has services beside a program or a store: what they ask of each other, and what
//! requests, the program or the store ask of them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::combine::Combination;
use super::decode::document::Files;
use super::decode::phase::Placed;
use super::decode::program::Place;
use super::decode::{collections, data, service};
use super::grammar;
use super::node::{Node, Value};
use super::problem::{Problem, Problems, known_hint};
use super::variant::{Context, fits, known, lacking, limits, phases};
use prony_model::http::{BodySpec, HttpAmount, HttpSpec, Part};
use prony_model::program::{INSTANCE, ProgramSpec};
use prony_model::service::{CounterSource, CountersSpec, DATA, OfService, PORT, ServiceSpec, SetUp, hole, holes};
use prony_model::spec::{Action, CollectionSpec, FieldPath, PhaseSpec, RunSpec, StoreSpec, Subject, TrialSpec};
use prony_model::units::Nanos;

/// Whether the file measures services, or another server, by requests; a file with a program or a store has services beside that.
pub(crate) fn are_measured(root: &Node) -> bool {
    let requests = |phase: &Node| phase.entry("http").is_some() || phase.entry("run").is_some();
    let subject = ["program", "store"].into_iter().any(|section| root.get(section).is_some());
    root.get("service").is_some() && !subject || root.list_of("phase").iter().any(requests)
}

/// Faults between services: names that occur twice or do not exist, and an order without a begin. `nodes` are those of the
/// services.
fn together(services: &[ServiceSpec], nodes: &[Node], problems: &mut Problems<'_>) {
    let names: Vec<&str> = services.iter().map(ServiceSpec::name).collect();
    for (at, (service, node)) in services.iter().zip(nodes).enumerate() {
        let name = node.get("name").unwrap_or(node);
        if names[..at].contains(&service.name()) {
            let message = format!("two services are named `{}`", service.name());
            problems.fault(name, message, "metrics are named by service");
        }
        let after = node.get("after").unwrap_or(node);
        for other in &service.after {
            if !names.contains(&other.as_str()) {
                let message = format!("unknown service `{other}`");
                problems.add(Problem::new(after, message).maybe_hint(known_hint(other, names.iter().copied())));
            }
        }
        for text in service.texts() {
            for asked in holes(&text) {
                if let Some((message, hint)) = no_instance(&asked.0, asked.1, services) {
                    let message = format!("{message} (in a placeholder of service `{}`)", service.name());
                    let place = asking(node, &format!("\0service.{}.{}.", asked.0, asked.1)).unwrap_or(name);
                    problems.add(Problem::new(place, message).maybe_hint(hint));
                }
            }
        }
    }
    for (service, node) in services.iter().zip(nodes) {
        unused_data(service, node, services, problems);
        if service.set_up == SetUp::Once {
            set_up_once(service, node, services, problems);
        }
    }
    counted_twice(services, nodes, problems);
    if let Err(circle) = started_in_order(services) {
        let node = &nodes[circle];
        let place = node.get("after").unwrap_or(node);
        let message = format!("service `{}` is to start after itself", services[circle].name());
        problems.fault(place, message, "remove one of the names in `after`");
    }
}

/// The first text in which a placeholder stands.
fn asking<'n>(node: &'n Node, hole: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Text(text) => text.contains(hole).then_some(node),
        Value::List(items) => items.iter().find_map(|item| asking(item, hole)),
        Value::Table(entries) => entries.iter().find_map(|entry| asking(&entry.node, hole)),
        _ => None,
    }
}

/// Faults where the counters of one server are read for two instances: they would count all that it does as the work of each.
fn counted_twice(services: &[ServiceSpec], nodes: &[Node], problems: &mut Problems<'_>) {
    let mut servers = BTreeSet::new();
    for (service, node) in services.iter().zip(nodes) {
        // A command has the environment and the directory of its instance.
        let is_command = |counters: &&CountersSpec| matches!(counters.source, CounterSource::Command(_));
        let Some(counters) = service.counters.as_ref().filter(|counters| !is_command(counters)) else { continue };
        let filled = |number: u32| {
            let text = counters.source.texts().concat();
            let own = |value| hole(service.name(), number, value);
            let text = text.replace(PORT, &own(OfService::Port)).replace(DATA, &own(OfService::Data));
            text.replace(INSTANCE, &number.to_string())
        };
        let names = || counters.totals.iter().chain(&counters.gauges);
        let mut all = (1..=service.count).flat_map(|number| names().map(move |name| (filled(number), name.clone())));
        if all.any(|(text, name)| !servers.insert((counters.source.name(), text, name))) {
            let place = node.get("counters").unwrap_or(node);
            let message = format!("the counters of service `{}` are read more than once", service.name());
            let hint = "give `counters` to the service that counts, with its own `{port}`, and to one service only";
            problems.fault(place, message, hint);
        }
    }
}

/// A fault where the data of a service is copied and no text of a service asks for it: what `setup` did would be lost.
fn unused_data(service: &ServiceSpec, node: &Node, services: &[ServiceSpec], problems: &mut Problems<'_>) {
    let is_copied = service.data.is_some() || service.set_up == SetUp::Once;
    let Some(data) = node.get("data").filter(|_| is_copied) else { return };
    let of_it = |text: &String| text.contains(&format!("service.{}.", service.name())) && text.contains(".data\0");
    let own = service.texts().iter().any(|text| text.contains(DATA));
    if !own && !services.iter().flat_map(ServiceSpec::texts).any(|text| of_it(&text)) {
        let message = format!("no text of a service asks for the data of `{}`", service.name());
        problems.fault(data, message, "write `{data}` in `command` or `env`, or remove `data`");
    }
}

/// Faults of a service, written as `node`, whose data are made once: nothing makes them, or they need a service that does not
/// run then.
fn set_up_once(service: &ServiceSpec, node: &Node, services: &[ServiceSpec], problems: &mut Problems<'_>) {
    let at = node.key_span("data");
    if service.setup.is_none() && service.program.prepare.is_none() {
        let message = "`setup = \"once\"` copies what `prepare` and `setup` left, and there is neither";
        problems.fault(&at, message, "add `prepare` or `setup`, or remove `data`");
    }
    let asked = service.texts().into_iter().flat_map(|text| holes(&text)).map(|(name, _)| name);
    let needed: BTreeSet<String> = asked.chain(service.after.iter().cloned()).collect();
    let per_trial = |other: &&ServiceSpec| other.set_up == SetUp::Each && needed.contains(other.name());
    if let Some(other) = services.iter().find(per_trial) {
        let message = format!(
            "the data of `{}` are made once, when `{}`, which it needs, is not running",
            service.name(),
            other.name()
        );
        let hint = format!("write `data = {{ setup = \"once\" }}` for `{}` too, or remove it here", other.name());
        problems.fault(at, message, hint);
    }
}

/// The indices of services in the order in which they are started: each after those that it names, otherwise as in the file;
/// or one that waits for itself.
///
/// # Errors
/// The index of a service that can never be started.
pub fn started_in_order(services: &[ServiceSpec]) -> Result<Vec<usize>, usize> {
    let mut order: Vec<usize> = Vec::new();
    while order.len() < services.len() {
        let waits = |service: &ServiceSpec| {
            let started = |name: &String| order.iter().any(|at| services[*at].name() == name);
            let exists = |name: &String| services.iter().any(|other| other.name() == name);
            service.after.iter().any(|name| exists(name) && !started(name))
        };
        let left = || (0..services.len()).filter(|at| !order.contains(at));
        match left().find(|at| !waits(&services[*at])) {
            Some(next) => order.push(next),
            None => return Err(left().next().unwrap_or_default()),
        }
    }
    Ok(order)
}

/// That there is no such instance of a service, with a hint.
fn no_instance(name: &str, number: u32, services: &[ServiceSpec]) -> Option<(String, Option<String>)> {
    match services.iter().find(|service| service.name() == name) {
        None => Some((format!("unknown service `{name}`"), known_hint(name, services.iter().map(ServiceSpec::name)))),
        Some(found) if number > found.count => {
            Some((format!("service `{name}` has no instance {number}: its `count` is {}", found.count), None))
        }
        Some(_) => None,
    }
}

/// Faults of the requests of phases: services that do not exist, values that no earlier phase saves, and documents or fields
/// that no collection has.
struct Requests<'a> {
    services: &'a [ServiceSpec],
    data: &'a [CollectionSpec],
    /// Names that earlier phases save.
    saved: Vec<String>,
}

impl Requests<'_> {
    /// The faults of one phase, whose action is written `at`.
    fn check(&mut self, spec: &mut HttpSpec, timed: bool, at: &Range<usize>, problems: &mut Problems<'_>) {
        if let Some((name, number)) = holes(&spec.server).first()
            && let Some((message, hint)) = no_instance(name, *number, self.services)
        {
            problems.fault(at, message, hint.unwrap_or_else(|| "add a `[[service]]` of this name".to_owned()));
        }
        let fields = self.used(spec, at, problems);
        let whole = spec.kinds.iter().any(|kind| kind.body == Some(BodySpec::Document));
        let documents = whole || !fields.is_empty();
        if self.data.is_empty() {
            if documents {
                let message = "these requests need documents, and the file has no `[data]`";
                problems.fault(at, message, "add `[data]` with `records`, and `[data.document]`");
            } else if spec.amount == HttpAmount::Records && !timed && spec.warm_up == Nanos::ZERO {
                spec.amount = HttpAmount::Requests(if spec.session { spec.kinds.len() as u64 } else { 1 });
            } else if spec.amount == HttpAmount::Records {
                // A default of one request was a verdict on one request of a trial.
                let message =
                    "nothing says how many requests are sent, and the file has no `[data]` with a record for each";
                let many = 100 * if spec.session { spec.kinds.len() } else { 1 };
                problems.fault(at, message, format!("write `requests = {many}` or `duration = \"10 s\"`"));
            }
            return;
        }
        if spec.amount == HttpAmount::Records && spec.warm_up > Nanos::ZERO {
            let message = "one request for each record leaves none for `warm_up`";
            problems.fault(at, message, "set `requests` or `duration`, or a phase of its own with `timed = false`");
        }
        let Some(collection) = collections::found(spec.collection.as_deref(), self.data, at, problems) else { return };
        spec.collection.clone_from(&collection.name);
        match collection.document() {
            None if documents => {
                let message = "these requests need documents, and the values of `[data]` are bytes without fields";
                problems.fault(at, message, "write `[data.document]` instead of `value`");
            }
            None => {}
            Some(document) => {
                let known = document.paths();
                for field in fields.iter().filter(|field| !known.contains(field)) {
                    problems.add(collections::unknown(field, collection, &known, at));
                }
            }
        }
    }

    /// The fields of documents that requests use. Saved values that they use must be those of an earlier phase, or of an
    /// earlier request of the session.
    fn used(&mut self, spec: &HttpSpec, at: &Range<usize>, problems: &mut Problems<'_>) -> Vec<FieldPath> {
        let (mut fields, mut missing, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for kind in &spec.kinds {
            for part in kind.texts().flat_map(|text| &text.0) {
                match part {
                    Part::Saved(name) if !self.saved.contains(name) => missing.push(name),
                    Part::Field(field) => fields.push(field.clone()),
                    Part::Saved(_) | Part::Text(_) | Part::Number => {}
                }
            }
            let saved = if spec.session { &mut self.saved } else { &mut later };
            saved.extend(kind.save.keys().cloned());
        }
        self.saved.append(&mut later);
        missing.sort_unstable();
        missing.dedup();
        let (before, place) = if spec.session {
            ("no earlier request of the session, and no earlier phase,", "such a request, or in `http` of such a phase")
        } else {
            ("no earlier phase", "`http` of an earlier phase")
        };
        for name in missing {
            let hint = format!("write `save = {{ {name} = {{ header = \"location\" }} }}` in {place}");
            problems.fault(at, format!("{before} saves `{name}`"), hint);
        }
        fields
    }
}

/// Faults of a command that runs as a phase: there must be services beside it, and those that it names.
fn can_run(run: &RunSpec, services: &[ServiceSpec], at: &Range<usize>, problems: &mut Problems<'_>) {
    if services.is_empty() {
        let message = "`run` runs a command beside services, and the file has none";
        problems.fault(at, message, "add `[[service]]`; to measure a command, use `[program.NAME]`");
    }
    clients(&run.command.words(), services, at, problems);
}

/// Faults of texts, written `at`, of a command that is no service: it has no port and no data, and the services that it names
/// must exist.
fn clients(texts: &[String], services: &[ServiceSpec], at: &Range<usize>, problems: &mut Problems<'_>) {
    for (own, name) in [(PORT, "port"), (DATA, "data")] {
        if texts.iter().any(|text| text.contains(own)) {
            let message = format!("`{{{name}}}` has no meaning here");
            problems.fault(at, message, format!("name the service: `{{service.NAME.{name}}}`"));
        }
    }
    for (name, number) in texts.iter().flat_map(|text| holes(text)) {
        if let Some((message, hint)) = no_instance(&name, number, services) {
            problems.add(Problem::new(at, message).maybe_hint(hint));
        }
    }
}

/// Faults of a program, written as `node`, and its phases beside the services of its trials.
pub(crate) fn beside_program(
    (program, node): (&ProgramSpec, &Node),
    services: &Services,
    phases: &[PhaseSpec],
    problems: &mut Problems<'_>,
) {
    clients(&program.texts(), &services.specs, &node.span, problems);
    let Services { specs, nodes } = services;
    for (service, written) in specs.iter().zip(nodes) {
        let at = |key: &str| written.key_span(key);
        if service.name() == program.name {
            let message = format!("a service and the program are both named `{}`", program.name);
            problems.fault(at("name"), message, "give one of them another name");
        }
        if service.counters.is_some() {
            let message = "`counters` are read between phases that prony leads, and a program leads its own phases";
            problems.fault(at("counters"), message, "remove `counters`");
        }
    }
    if specs.is_empty() {
        return;
    }
    if program.warmup > 0 {
        let message = "warm-up runs start no services, which the program may need";
        problems.fault(node.key_span("warmup"), message, "remove `warmup`");
    }
    let suspends = |phase: &&PhaseSpec| matches!(&phase.action, Action::Observe(observe) if observe.suspends());
    if let Some(phase) = phases.iter().find(suspends) {
        let message = format!(
            "phase `{}` suspends the program at its end, while services continue: what they do then belongs to no phase",
            phase.name
        );
        let hint = "remove `at_end`, or end the program by a line or a mark instead of a call";
        problems.fault(&node.span, message, hint);
    }
}

/// Limits of one process tree, in `[limits]`, where each server has one of its own.
fn not_limited(limited: Option<&Node>, problems: &mut Problems<'_>) {
    for key in ["memory", "cpus", "pids"] {
        if let Some(entry) = limited.and_then(|limits| limits.entry(key)) {
            let message = format!("`{key}` limits one process tree, and each service has one of its own");
            let hint = format!("write `limits = {{ {key} = ... }}` in `[[service]]`");
            problems.fault((&entry.node, entry.key_span.clone()), message, hint);
        }
    }
}

/// Faults of a store at a URL, written as `node`, and its phases.
pub(crate) fn beside_store(
    (store, node): (&StoreSpec, &Node),
    services: &Services,
    (phases, limited): (&[Placed], Option<&Node>),
    problems: &mut Problems<'_>,
) {
    let Some(url) = &store.url else { return };
    clients(std::slice::from_ref(url), &services.specs, &node.span_of("url"), problems);
    not_limited(limited, problems);
    if let Some(placed) = phases.iter().find(|placed| placed.spec.action == Action::Evict) {
        let message = format!("`{}` is a server, whose memory `evict` cannot empty", store.engine);
        problems.fault(placed.action(), message, "remove the phase");
    }
}

/// The services of a variant, and what is written of each.
#[derive(Default)]
pub(crate) struct Services {
    pub(crate) specs: Vec<ServiceSpec>,
    nodes: Vec<Node>,
}

impl Services {
    /// Those that the file declares; `None` where one has a fault, which has been reported.
    pub(crate) fn declared(context: &Context<'_>, levels: &Combination, problems: &mut Problems<'_>) -> Option<Self> {
        let mut all = Self::default();
        let mut sound = true;
        for written in context.raw.root.list_of("service") {
            let mut node = context.fill(written, levels, problems);
            context.outside.service(&mut node, problems);
            let service = fits(context, "service", &node, &grammar::SERVICE, problems)
                .then(|| service::service(&node, &context.raw.file, problems))
                .flatten();
            sound &= service.is_some();
            all.specs.extend(service);
            all.nodes.push(node);
        }
        if !sound {
            return None;
        }
        together(&all.specs, &all.nodes, problems);
        Some(all)
    }

    /// Where each of them is written.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (&'static str, Option<&Node>)> {
        self.nodes.iter().map(|node| ("service", Some(node)))
    }
}

/// Faults of what phases do; paths get their folder, that of the `file`.
fn check_phases(
    phases: &mut [Placed],
    (services, data): (&[ServiceSpec], &[CollectionSpec]),
    file: &str,
    problems: &mut Problems<'_>,
) {
    let mut requests = Requests { services, data, saved: Vec::new() };
    for placed in phases {
        let timed = placed.spec.timed;
        let Some((action, written)) = placed.actions_mut().next() else { continue };
        let at = &written.key_span;
        match action {
            Action::Http(http) => {
                requests.check(http, timed, at, problems);
                for kind in &mut http.kinds {
                    if let Some(BodySpec::File { path, .. }) = &mut kind.body {
                        *path = Place { file }.resolve(path);
                    }
                }
            }
            Action::Run(run) => {
                run.directory = Place { file }.resolve(".");
                can_run(run, services, at, problems);
            }
            Action::Settle(_) | Action::Pause(_) => {}
            action => {
                let message = format!("`{}` works on a store, but the file measures services", action.name());
                problems.fault(at, message, "phases of services are `http`, `run`, `settle` and `pause`");
            }
        }
    }
}

/// The specification of the variant's trials; `None` where something in it is wrong, which has been reported.
pub(crate) fn spec(context: &Context<'_>, levels: &Combination, problems: &mut Problems<'_>) -> Option<TrialSpec> {
    let (limits, limited) = limits(context, levels, problems);
    let limited = limited.as_ref();
    let root = &context.raw.root;
    let services = Services::declared(context, levels, problems)?;
    if !services.specs.is_empty() {
        not_limited(limited, problems);
    }
    let records = root.get("data").map(|node| context.fill(node, levels, problems));
    let files = Files { catalog: context.engines, file: &context.raw.file };
    let data = records.as_ref().and_then(|node| {
        fits(context, "data", node, &grammar::DATA, problems).then(|| data::data(node, &files, problems))?
    });
    let (mut phases, crashes) = phases(context, levels, &limits, problems)?;
    for crash in &crashes {
        let message = format!("`{}` works on a store", crash.spec.action());
        let hint = "it needs `[store]`, which a file that measures services does not have";
        problems.fault(&crash.action.key_span, message, hint);
    }
    let data = known(root, data)?;
    check_phases(&mut phases, (&services.specs, &data), &context.raw.file, problems);
    let actions: Vec<Node> =
        phases.iter().map(|placed| Node::new(placed.action().clone(), Value::Table(Vec::new()))).collect();
    let phases = phases.into_iter().map(|placed| placed.spec).collect();
    let of_phases = actions.iter().map(|action| ("phase", Some(action)));
    let of_file = [("data", records.as_ref()), ("limits", limited)];
    let sections: Vec<(&str, Option<&Node>)> = services.sections().chain(of_phases).chain(of_file).collect();
    let spec = TrialSpec {
        subject: Subject::Services,
        services: services.specs.clone(),
        data,
        phases,
        limits,
        crashes: Vec::new(),
    };
    lacking(context, &spec, &sections, problems);
    Some(spec)
}

#[cfg(test)]
mod tests {
    use prony_model::service::{OfService, hole};

    use super::*;

    #[test]
    fn placeholders_of_services_are_found_in_texts() {
        let text = format!("a{}b{}", hole("x", 2, OfService::Port), hole("y-1", 1, OfService::Url));
        assert_eq!(holes(&text), [("x".to_owned(), 2), ("y-1".to_owned(), 1)]);
        assert!(holes(PORT).is_empty());
    }
}
