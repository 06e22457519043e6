//! Checks one variant: fills in placeholders, checks every value, and decodes it into what a trial runs.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use super::combine::Combination;
use super::decode::counters::{Counted, counters};
use super::decode::crash::{self, PlacedCrash};
use super::decode::instance::{NamedService, Started};
use super::decode::order::Phases;
use super::decode::phase::Placed;
use super::decode::trigger::Frame;
use super::decode::{order, phase, program, store};
use super::design::Variant;
use super::environment::EnvironmentValues;
use super::factors::{FactorDef, selection};
use super::grammar;
use super::node::{Node, RawExperiment, Value};
use super::problem::{Problem, Problems};
use super::shape::TableShape;
use super::substitute::{self, Levels};
use super::validate::{Holes, Walk};
use prony_model::catalog::{EngineCatalog, Lack, Surroundings};
use prony_model::http::PARTS_OF_RAMP;
use prony_model::service::ServiceSpec;
use prony_model::spec::{CollectionSpec, Limits, PhaseSpec, Subject, TrialSpec};
use prony_model::units::Nanos;

/// What all variants have in common.
pub(crate) struct Context<'a> {
    pub(crate) raw: &'a RawExperiment,
    pub(crate) engines: &'a dyn EngineCatalog,
    pub(crate) surroundings: &'a dyn Surroundings,
    pub(crate) factors: &'a [FactorDef],
    /// The names of the factors.
    pub(crate) names: &'a [String],
    /// The values of placeholders in texts of programs.
    pub(crate) outside: EnvironmentValues<'a>,
    /// The phases of the file, by index, that run in any of the variants read so far.
    pub(crate) ran: RefCell<BTreeSet<usize>>,
}

impl<'a> Context<'a> {
    /// A part of the file with the levels of a variant.
    pub(crate) fn fill(&self, node: &Node, levels: &Combination, problems: &mut Problems<'_>) -> Node {
        self.levels(levels).fill(node, problems)
    }

    fn levels<'c>(&'c self, chosen: &'c Combination) -> Levels<'c> {
        Levels { factors: self.factors, chosen, file: &self.raw.text }
    }

    /// The names that a phase has over these variants, and whether it is timed.
    pub(crate) fn names_of(&self, phase: &Node, combinations: &[Combination]) -> Vec<(String, bool)> {
        let mut names: Vec<(String, bool)> = Vec::new();
        let varied =
            phase.text().is_some() || phase.get("name").and_then(Node::text).is_some_and(|text| text.contains('{'));
        for levels in combinations.iter().take(if varied { usize::MAX } else { 1 }) {
            let phase = self.whole(phase, levels);
            // Crash trials have no metrics.
            let Some(name) = self.name(&phase, levels).filter(|_| crash::of_crash(&phase).is_none()) else { continue };
            let timed = phase.get("timed").is_none_or(|node| node.value != Value::Flag(false));
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known |= timed,
                None => names.push((name, timed)),
            }
        }
        names
    }

    /// A phase in one variant, of which a level may be the whole; its keys are filled in only then.
    fn whole<'p>(&self, phase: &'p Node, levels: &Combination) -> Cow<'p, Node> {
        match phase.text() {
            Some(_) => Cow::Owned(self.quietly(phase, levels)),
            None => Cow::Borrowed(phase),
        }
    }

    /// The replicas that programs start, or that share a store in a phase, over these variants; if the command line has
    /// `narrowed` the levels of the file, what varies may be anything.
    pub(crate) fn replicas(&self, root: &Node, combinations: &[Combination], narrowed: bool) -> Vec<Started> {
        let programs = root.table_of("program");
        let of_programs = programs.iter().filter_map(|program| Some((program.node.get("replicas")?, None)));
        let phases = root.list_of("phase");
        let actions = grammar::PHASE.actions();
        // A level may be the whole table of an action.
        let of_phases = phases.iter().filter_map(|phase| {
            let action = actions.iter().find_map(|action| phase.get(action))?;
            let may = action.get("replicas").is_some() || action.text().is_some();
            may.then_some((action.get("replicas").unwrap_or(action), Some(phase)))
        });
        let mut all = Vec::new();
        for (replicas, phase) in of_programs.chain(of_phases) {
            let mut used = Vec::new();
            substitute::used(replicas, &mut used);
            if narrowed && used.iter().any(|name| self.names.contains(name)) {
                all.push(Started::ANY);
                continue;
            }
            for levels in combinations {
                let filled = self.quietly(replicas, levels);
                match phase {
                    Some(phase) => {
                        let stated = if filled.table().is_some() { filled.get("replicas") } else { Some(&filled) };
                        stated.iter().for_each(|count| Started::note(&mut all, self.name(phase, levels), Some(count)));
                    }
                    None => {
                        let phase = filled.get("phase").and_then(Node::text).map(str::to_owned);
                        Started::note(&mut all, phase, filled.get("count"));
                    }
                }
            }
        }
        all
    }

    /// The requests of each phase that has some, in each of these variants, with the phase's name.
    fn requests(&self, root: &Node, combinations: &[Combination]) -> Vec<(String, Node)> {
        let of_phase = |phase: &Node, levels: &Combination| {
            let phase = self.whole(phase, levels);
            Some((self.name(&phase, levels)?, self.quietly(phase.get("http")?, levels)))
        };
        let of_phases = root.list_of("phase").iter();
        of_phases.flat_map(|phase| combinations.iter().filter_map(move |levels| of_phase(phase, levels))).collect()
    }

    /// The phases of requests whose rate has steps, with the most of them over these variants.
    pub(crate) fn steps(&self, root: &Node, combinations: &[Combination]) -> Vec<(String, u32)> {
        let steps = |(name, http): (String, Node)| {
            let rate = http.get("rate")?;
            let listed = rate.get("steps").and_then(Node::list).map(|steps| steps.len() as u32);
            Some((name, listed.or(rate.get("ramp").map(|_| PARTS_OF_RAMP))?))
        };
        self.requests(root, combinations).into_iter().filter_map(steps).collect()
    }

    /// The kinds of requests of phases that have a mix or a session of them, over these variants.
    pub(crate) fn kinds(&self, root: &Node, combinations: &[Combination]) -> Vec<(String, String)> {
        let kinds = |(name, http): (String, Node)| {
            let kinds = http.get("mix").or(http.get("session")).and_then(Node::table).unwrap_or_default();
            kinds.iter().map(|kind| (name.clone(), kind.key.clone())).collect::<Vec<_>>()
        };
        self.requests(root, combinations).into_iter().flat_map(kinds).collect()
    }

    /// The services over these variants, with the most instances of each and all numbers that it counts.
    pub(crate) fn services(&self, root: &Node, combinations: &[Combination]) -> Vec<NamedService> {
        let mut all: Vec<NamedService> = Vec::new();
        for service in root.list_of("service") {
            for levels in combinations {
                let Some(name) = self.name(service, levels) else { continue };
                let count = service.get("count").map(|count| self.quietly(count, levels));
                let count = match count.map(|count| count.value) {
                    Some(Value::Whole(count)) => u32::try_from(count).unwrap_or(u32::MAX),
                    _ => 1,
                };
                let at = all.iter().position(|known| known.name == name).unwrap_or_else(|| {
                    all.push(NamedService { name, most: 0, counted: Counted::default() });
                    all.len() - 1
                });
                all[at].most = all[at].most.max(count);
                let counted = service.get("counters").map(|node| self.quietly(node, levels));
                let counted = counted.and_then(|node| counters(&node, &mut Problems::new("")));
                counted.into_iter().for_each(|spec| all[at].counted.add(spec));
            }
        }
        all
    }

    /// The name of a phase or a service in one variant; `None` where it is faulty.
    fn name(&self, phase: &Node, levels: &Combination) -> Option<String> {
        Some(self.quietly(phase.get("name")?, levels).text()?.to_owned())
    }

    /// A part of the file in one variant; its faults are reported elsewhere.
    fn quietly(&self, node: &Node, levels: &Combination) -> Node {
        self.levels(levels).fill(node, &mut Problems::new(""))
    }

    /// The levels of a variant as text, for notes.
    pub(crate) fn described(&self, chosen: &Combination) -> Option<String> {
        let pair = |(factor, level): (&FactorDef, &usize)| format!("{} = {}", factor.name, factor.levels[*level].label);
        let text: Vec<String> = self.factors.iter().zip(chosen).map(pair).collect();
        (!text.is_empty()).then(|| format!("in the variant {}", text.join(", ")))
    }
}

/// `[limits]` of a variant where it has no fault, and as written.
pub(crate) fn limits(
    context: &Context<'_>,
    levels: &Combination,
    problems: &mut Problems<'_>,
) -> (Limits, Option<Node>) {
    let limits = context.raw.root.get("limits").map(|node| context.fill(node, levels, problems));
    let limits = limits.filter(|node| fits(context, "limits", node, &grammar::LIMITS, problems));
    (store::limits(limits.as_ref()), limits)
}

/// Files and programs that the variant needs and that do not exist, at the values that name them. `sections` has those of
/// services and of phases in their order.
pub(crate) fn lacking(
    context: &Context<'_>,
    spec: &TrialSpec,
    sections: &[(&str, Option<&Node>)],
    problems: &mut Problems<'_>,
) {
    let mut add = |sections: &[&Node], lack: Lack| {
        let node = place_of(&lack, sections).or(sections.first().copied()).unwrap_or(&context.raw.root);
        let problem = Problem::new(node, lack.message).hint(lack.hint);
        if !problems.is_unfilled(&problem.span) {
            problems.add(problem);
        }
    };
    let named = |name: &'static str| sections.iter().filter(move |(own, _)| *own == name).filter_map(|(_, node)| *node);
    for lack in context.surroundings.lacking(spec).into_iter().filter(|lack| !LISTS.contains(&lack.section)) {
        add(&named(lack.section).collect::<Vec<_>>(), lack);
    }
    // What each of several services and phases lacks is what it would lack alone.
    let only = |services: &[ServiceSpec], phases: &[PhaseSpec]| TrialSpec {
        subject: Subject::Services,
        services: services.to_vec(),
        data: Vec::new(),
        phases: phases.to_vec(),
        limits: Limits::default(),
        crashes: Vec::new(),
    };
    let services = spec.services.iter().map(|service| only(std::slice::from_ref(service), &[]));
    let phases = spec.phases.iter().map(|phase| only(&[], std::slice::from_ref(phase)));
    for (part, section) in services.zip(named("service")).chain(phases.zip(named("phase"))) {
        context.surroundings.lacking(&part).into_iter().for_each(|lack| add(&[section], lack));
    }
}

/// The value that lacks something. Of several changes with its key it is the only one with a text that the message has; those of a
/// service are in a table of it.
fn place_of<'n>(lack: &Lack, sections: &[&'n Node]) -> Option<&'n Node> {
    let of_changes = lack.section == "change";
    if let Some(own) = sections.iter().find_map(|section| section.get(lack.key)).filter(|_| !of_changes) {
        return Some(own);
    }
    let changes = sections.iter().filter_map(|section| if of_changes { Some(*section) } else { section.get("change") });
    let all: Vec<&Node> =
        changes.flat_map(Node::items).filter_map(|change| change.get(lack.key)).flat_map(Node::items).collect();
    let is_named = |value: &&Node| {
        let text = value.text().or_else(|| value.get("file").and_then(Node::text));
        text.is_some_and(|text| lack.message.contains(text))
    };
    let named: Vec<&Node> = all.iter().copied().filter(is_named).collect();
    match (named.as_slice(), all.as_slice()) {
        ([one], _) | (_, [one]) => Some(one),
        // Which of them it is, is not known.
        _ => None,
    }
}

/// Sections of which there may be several.
const LISTS: [&str; 2] = ["service", "phase"];

/// Data with a fault is not the same as no data.
pub(crate) fn known(root: &Node, data: Option<Vec<CollectionSpec>>) -> Option<Vec<CollectionSpec>> {
    if root.get("data").is_none() { Some(Vec::new()) } else { data }
}

/// The phases that run in this variant, and those of crash trials; `None` where one is faulty.
pub(crate) fn phases(
    context: &Context<'_>,
    levels: &Combination,
    limits: &Limits,
    problems: &mut Problems<'_>,
) -> Option<(Vec<Placed>, Vec<PlacedCrash>)> {
    let mut list: Vec<Placed> = Vec::new();
    let mut crashes: Vec<PlacedCrash> = Vec::new();
    let mut sound = true;
    let programs = context.raw.root.get("program").is_some();
    let nodes = context.raw.root.list_of("phase");
    for (index, node) in nodes.iter().enumerate() {
        // A phase that is a level itself has its `when` only once it has been filled in.
        let filled = node.text().map(|_| context.levels(levels).fill(node, problems));
        let node = filled.as_ref().unwrap_or(node);
        let of_store = !programs || grammar::PHASE.actions().iter().any(|action| node.entry(action).is_some());
        if !of_store || !runs(context, node, levels, problems) {
            continue;
        }
        context.ran.borrow_mut().insert(index);
        // A variant that measures a store ignores what is for programs.
        let of_programs = grammar::observed_keys().chain(["when"]).collect::<Vec<_>>();
        let mut filled = context.levels(levels).fill(&without(node, &of_programs), problems);
        context.outside.phase(&mut filled, problems);
        let fits = fits(context, "phase", &filled, &grammar::PHASE, problems);
        let of_crash = crash::of_crash(&filled).filter(|_| fits).map(|entry| crash::crash(&filled, entry, problems));
        let placed = (fits && of_crash.is_none()).then(|| phase::phase(&filled, limits.phase, problems)).flatten();
        let name = placed.as_ref().map(|placed| &placed.spec.name);
        let name = name.or(of_crash.iter().flatten().next().map(|crash| &crash.spec.name));
        let Some(name) = name else {
            sound = false;
            continue;
        };
        let known = list.iter().map(|other| &other.spec.name).chain(crashes.iter().map(|other| &other.spec.name));
        twice(&known.cloned().collect::<Vec<String>>(), name, &filled, problems);
        list.extend(placed);
        crashes.extend(of_crash.flatten());
    }
    if list.is_empty() && sound && (programs || !nodes.is_empty()) {
        let span = nodes.first().map_or(0..0, |node| node.span.clone());
        problems.fault(span, "this variant has no phase", "check `when` of the phases");
    }
    end_in_time(context, &list, limits, problems);
    sound.then_some((list, crashes))
}

/// Phases that take a time which their limit, or that of the trial, does not leave them: every trial would time out.
fn end_in_time(context: &Context<'_>, phases: &[Placed], limits: &Limits, problems: &mut Problems<'_>) {
    let timed_out = "at which the trial has timed out";
    for placed in phases {
        let spec = &placed.spec;
        if let (Some(time), Some(limit)) = (spec.action.duration(), spec.limit)
            && time >= limit
        {
            let message =
                format!("`{}` takes {time}, and the limit of the phase is {limit}, {timed_out}", spec.action.name());
            problems.fault(placed.action(), message, "write a shorter time, or give the phase a longer `limit`");
        }
    }
    let times = phases.iter().filter_map(|placed| placed.spec.action.duration());
    let all = times.fold(Nanos::ZERO, |all, time| all + time);
    if let Some(limit) = limits.trial.filter(|limit| all >= *limit) {
        let place = context.raw.root.get("limits").map_or(0..0, |all| all.get("time").unwrap_or(all).span.clone());
        let message = format!("the phases take {all} or more, and the limit of the trial is {limit}, {timed_out}");
        problems.fault(place, message, "write shorter times in the phases, or a longer `time`");
    }
}

/// The phases of a program in this variant: the observed ones, or the program as a whole.
pub(crate) fn observed(
    context: &Context<'_>,
    levels: &Combination,
    frame: &Frame,
    problems: &mut Problems<'_>,
) -> Phases {
    let mut all = Phases::default();
    let mut watched = false;
    let root = &context.raw.root;
    for (index, node) in root.list_of("phase").iter().enumerate() {
        let filled = node.text().map(|_| context.levels(levels).fill(node, problems));
        let node = filled.as_ref().unwrap_or(node);
        if !program::is_observed(node) {
            if !of_a_store(root, node, problems) {
                all.at_fault.push(context.name(node, levels));
            }
            continue;
        }
        if !runs(context, node, levels, problems) {
            all.left_out.extend(context.name(node, levels));
            continue;
        }
        watched = true;
        context.ran.borrow_mut().insert(index);
        let filled = context.levels(levels).fill(&without(node, &["when"]), problems);
        let phase = fits(context, "phase", &filled, &grammar::PROGRAM_PHASE, problems)
            .then(|| program::phase(&filled, frame, problems))
            .flatten();
        order::follows(&filled, &all, problems);
        let name = phase.as_ref().map(|phase| phase.name.clone()).or_else(|| context.name(node, levels));
        let known: Vec<String> = all.names().map(str::to_owned).collect();
        name.iter().for_each(|name| twice(&known, name, &filled, problems));
        match phase {
            Some(phase) => {
                all.sound.push(phase);
                order::ends_later(&filled, &all, frame, problems);
                order::begins_before_the_stop(&filled, &all, problems);
                order::no_shared_read(&filled, &all, problems);
                order::no_shared_suspension(&filled, &all, problems);
            }
            None => all.at_fault.push(name),
        }
    }
    if !watched {
        all.sound.push(program::whole_program(frame.limit));
    }
    all
}

/// Phases that run in no variant, of which none has a fault: what they were to do would be left out in silence.
pub(crate) fn never_run(context: &Context<'_>, variants: &[Variant], problems: &mut Problems<'_>) {
    let ran = context.ran.borrow();
    let nodes = context.raw.root.list_of("phase");
    for (_, node) in nodes.iter().enumerate().filter(|(index, _)| !ran.contains(index)) {
        let name = node.get("name").and_then(Node::text).map(|name| format!("`{name}` ")).unwrap_or_default();
        let action = grammar::PHASE.actions().into_iter().find(|action| node.entry(action).is_some());
        let are_programs = variants.iter().all(|variant| variant.spec.subject.program().is_some());
        let hint = match action.filter(|_| are_programs && !program::is_observed(node)) {
            Some(action) => {
                format!("`{action}` works on a store, and each variant measures a program: remove the phase")
            }
            None => "correct `when` of the phase, or let a variant with these levels run".to_owned(),
        };
        problems.fault(&node.span, format!("phase {name}runs in no variant"), hint);
    }
}

/// A phase of operations belongs to the stores of the file, where it has any.
fn of_a_store(root: &Node, phase: &Node, problems: &mut Problems<'_>) -> bool {
    let action = grammar::PHASE.actions().into_iter().find_map(|action| phase.entry(action));
    let has_store = root.get("store").is_some() || root.get("subject").is_some();
    if let (Some(action), false) = (action, has_store) {
        let message = format!("`{}` works on a store, but the file measures a program", action.key);
        let hint = "give the phase of a program `begin` and `end`, or marks with its name";
        problems.fault(&action.key_span, message, hint);
        return false;
    }
    true
}

fn twice(known: &[String], name: &str, node: &Node, problems: &mut Problems<'_>) {
    if known.iter().any(|other| other == name) {
        let message = format!("two phases are named `{name}`");
        problems.fault(node.span_of("name"), message, "metrics are named by phase: give each phase a name of its own");
    }
}

/// Whether `when` lets the phase run in this variant.
fn runs(context: &Context<'_>, phase: &Node, levels: &Combination, problems: &mut Problems<'_>) -> bool {
    let Some(when) = phase.get("when") else { return true };
    let chosen = selection(context.factors, when, problems);
    chosen.iter().all(|(factor, list)| list.contains(&levels[*factor]))
}

fn without(phase: &Node, keys: &[&str]) -> Node {
    let Some(entries) = phase.table() else { return phase.clone() };
    let rest = entries.iter().filter(|entry| !keys.contains(&entry.key.as_str())).cloned().collect();
    Node { value: Value::Table(rest), ..phase.clone() }
}

pub(crate) fn fits(
    context: &Context<'_>,
    key: &str,
    node: &Node,
    shape: &'static TableShape,
    problems: &mut Problems<'_>,
) -> bool {
    let before = problems.raised();
    let mut walk = Walk { problems, file: &context.raw.text, factors: context.names, holes: Holes::Filled };
    walk.value(key, node, &super::shape::Shape::Table(shape));
    problems.raised() == before
}
