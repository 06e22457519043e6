//! Checks a variant and decodes it into what a trial runs, whatever the file measures.

use super::combine::Combination;
use super::decode::crash::{self, PlacedCrash};
use super::decode::document::Files;
use super::decode::phase::Placed;
use super::decode::trigger::Frame;
use super::decode::{collections, data, indexes, order, program, references, store, values};
use super::grammar;
use super::node::Node;
use super::problem::Problems;
use super::sequence;
use super::services::{self, Services};
use super::subject::{self, Chosen};
use super::variant::{Context, fits, known, lacking, limits, observed, phases};
use prony_model::catalog::EngineFacts;
use prony_model::spec::{CollectionSpec, Limits, StoreSpec, Subject, TrialSpec};

/// The specification of the variant's trials, whatever the file measures; `None` where something in it is wrong, which has
/// been reported.
pub(crate) fn variant(context: &Context<'_>, levels: &Combination, problems: &mut Problems<'_>) -> Option<TrialSpec> {
    let root = &context.raw.root;
    let are_services = services::are_measured(root) && root.get("store").is_none() && root.get("program").is_none();
    problems.set_note(context.described(levels));
    let read = if are_services { services::spec } else { spec };
    let spec = read(context, levels, problems);
    problems.set_note(None);
    spec
}

/// The specification of the trials of a store or a program.
fn spec(context: &Context<'_>, levels: &Combination, problems: &mut Problems<'_>) -> Option<TrialSpec> {
    let fill = |node: &Node, problems: &mut Problems<'_>| context.fill(node, levels, problems);
    let limits = limits(context, levels, problems);
    let of_subject = |mut node: Node, problems: &mut Problems<'_>| {
        context.outside.subject(&mut node, problems);
        fits(context, "subject", &node, &grammar::SUBJECT, problems).then_some(node)
    };
    match subject::choose(&context.raw.root, &fill, &of_subject, problems)? {
        Chosen::Store(node) => of_store(context, levels, (node, limits), problems),
        Chosen::Program { name, node, change } => of_program(context, levels, (&name, node, change, limits), problems),
    }
}

/// The limit on memory as written in `[limits]`.
fn memory(limited: Option<&Node>) -> Option<&Node> {
    limited.and_then(|node| node.get("memory"))
}

/// The specification of trials of a program, with what `[subject]` changes in it.
fn of_program(
    context: &Context<'_>,
    levels: &Combination,
    (name, mut node, change, (limits, limited)): (&str, Node, Option<Node>, (Limits, Option<Node>)),
    problems: &mut Problems<'_>,
) -> Option<TrialSpec> {
    store::enough_memory(memory(limited.as_ref()), store::LEAST_OF_A_PROGRAM, "program", problems);
    context.outside.program(&mut node, problems);
    let program = fits(context, "program", &node, &grammar::PROGRAM, problems)
        .then(|| program::program(name, &node, change.as_ref(), &context.raw.file, problems))
        .flatten();
    let of = Frame {
        limit: limits.phase,
        runtime: program.as_ref().map(|program| program.runtime),
        replicas: program.as_ref().map(|program| program.replicas.is_some()),
    };
    let phases = observed(context, levels, &of, problems);
    if let Some(program) = &program {
        order::starts_with_a_phase(program, &node, &phases, problems);
        order::hears_output(program, &node, &phases, problems);
    }
    let services = Services::declared(context, levels, problems);
    let phases = Some(phases.sound).filter(|_| phases.at_fault.is_empty())?;
    let (program, services) = (program?, services?);
    services::beside_program((&program, &node), &services, &phases, problems);
    let changes = [change.as_ref(), node.get("change")].map(|change| ("change", change));
    let own = [("program", Some(&node)), ("limits", limited.as_ref())].into_iter().chain(changes);
    let sections: Vec<(&str, Option<&Node>)> = own.chain(services.sections()).collect();
    let (subject, services) = (Subject::Program(Box::new(program)), services.specs.clone());
    let spec = TrialSpec { subject, services, data: Vec::new(), phases, limits, crashes: Vec::new() };
    lacking(context, &spec, &sections, problems);
    Some(spec)
}

/// The specification of trials of a store.
fn of_store(
    context: &Context<'_>,
    levels: &Combination,
    (mut node, (limits, limited)): (Node, (Limits, Option<Node>)),
    problems: &mut Problems<'_>,
) -> Option<TrialSpec> {
    let root = &context.raw.root;
    context.outside.store(&mut node, problems);
    store::enough_memory(memory(limited.as_ref()), store::LEAST_OF_A_STORE, "store", problems);
    let opened = fits(context, "store", &node, &grammar::STORE, problems)
        .then(|| store::store(&node, context.engines, problems))
        .flatten();
    let records = root.get("data").map(|node| context.fill(node, levels, problems));
    let files = Files { catalog: context.engines, file: &context.raw.file };
    let data = records.as_ref().and_then(|node| {
        fits(context, "data", node, &grammar::DATA, problems).then(|| data::data(node, &files, problems))?
    });
    fit(context, records.as_ref().zip(data.as_deref()), opened.as_ref(), problems);
    let phases = phases(context, levels, &limits, problems);
    let services = Services::declared(context, levels, problems);
    let (mut store, facts) = opened?;
    let ((mut phases, crashes), services) = (phases?, services?);
    without_server(&crashes, &services, &facts, problems);
    services::beside_store((&store, &node), &services, (&phases, limited.as_ref()), problems);
    needs_data(&phases, root.get("data").is_some(), problems);
    names(&node, &mut phases, &mut store, &facts, data.as_deref(), problems);
    sequence::settle(&mut phases, &store, &facts, problems);
    crash::fit(&crashes, &phases, data.as_deref(), problems);
    let crashes = crashes.into_iter().map(|placed| placed.spec).collect();
    let phases = phases.into_iter().map(|placed| placed.spec).collect();
    let data = known(root, data)?;
    let own = [("data", records.as_ref()), ("limits", limited.as_ref())];
    let sections: Vec<(&str, Option<&Node>)> = own.into_iter().chain(services.sections()).collect();
    let (subject, services) = (Subject::Store(store), services.specs.clone());
    let spec = TrialSpec { subject, services, data, phases, limits, crashes };
    lacking(context, &spec, &sections, problems);
    Some(spec)
}

/// Refuses crash trials of what is not in the worker's files: a kill of the worker leaves a server running.
fn without_server(crashes: &[PlacedCrash], services: &Services, facts: &EngineFacts, problems: &mut Problems<'_>) {
    if !facts.can.server && services.specs.is_empty() {
        return;
    }
    for crash in crashes {
        let message = format!("`{}` works on the files of an engine inside the worker's process", crash.spec.action());
        problems.fault(&crash.action.key_span, message, "leave it out where the store uses a server");
    }
}

/// Keys and values that the machine or the engine cannot store.
fn fit(
    context: &Context<'_>,
    data: Option<(&Node, &[CollectionSpec])>,
    opened: Option<&(StoreSpec, EngineFacts)>,
    problems: &mut Problems<'_>,
) {
    for (at, collection) in data.into_iter().flat_map(|(node, data)| data::places(node, data)) {
        if let Some(memory) = context.engines.memory() {
            data::value_length(at, collection, memory, problems);
        }
        if let Some((store, facts)) = opened {
            let several = data.is_some_and(|(_, data)| data.len() > 1) || !store.indexes.is_empty();
            data::key_length(at, collection, several && !facts.can.own_documents, (&store.engine, facts), problems);
            values::come_back(at, collection, (&store.engine, facts), problems);
        }
    }
}

/// Finds the collections that phases and indexes name, and checks what they ask of them; `node` is `[store]`.
fn names(
    node: &Node,
    phases: &mut [Placed],
    store: &mut StoreSpec,
    facts: &EngineFacts,
    data: Option<&[CollectionSpec]>,
    problems: &mut Problems<'_>,
) {
    if let Some(data) = data {
        collections::settle(phases, data, problems);
    }
    indexes::fit(node, store, facts, data, problems);
    if let Some(data) = data {
        references::Check { data, store, facts }.phases(phases, problems);
    }
}

fn needs_data(phases: &[Placed], declared: bool, problems: &mut Problems<'_>) {
    let needs = |placed: &&Placed| placed.spec.action.ops().is_some() || placed.spec.action.name() == "verify";
    if let Some(placed) = phases.iter().find(needs).filter(|_| !declared) {
        let message = format!("`{}` needs records, but the file has no `[data]`", placed.spec.action.name());
        problems.fault(placed.action(), message, "add `[data] records = 10_000`");
    }
}
