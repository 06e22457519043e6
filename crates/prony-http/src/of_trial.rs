//! The load of a trial's phase, from its specification.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use prony_model::http::{AnswerSpec, BodySpec, HttpAmount, HttpSpec, Part, RequestKind, Template};
use prony_model::number::count;
use prony_model::spec::{CollectionSpec, PhaseSpec, TrialSpec};
use prony_model::units::Nanos;
use prony_workload::{Records, phase_seed};

use crate::answer_check::AnswerCheck;
use crate::asked::{Asked, Bound, Loop};
use crate::capture::Capture;
use crate::checked_load::{Load, of_file};
use crate::content::{Content, Needs, Over};
use crate::error::Fault;
use crate::kinds::{Kind, Kinds};
use crate::request::{self, Body, Parts};
use crate::saved::{List, Saved};
use crate::target::Target;
use crate::text::{Piece, Text};

/// The trial whose load is hosted.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'t> {
    /// The whole trial.
    pub spec: &'t TrialSpec,
    /// Seeds records, orders and arrivals.
    pub seed: u64,
    /// Interval of the throughput series.
    pub throughput: Nanos,
}

/// The load of a phase.
///
/// # Errors
/// All faults; a saved value that does not exist is one.
pub(crate) fn load(trial: Trial<'_>, phase: &PhaseSpec, spec: &HttpSpec, saved: &Saved) -> Result<Load, Vec<Fault>> {
    let in_phase = |fault: Fault| Fault { message: format!("phase `{}`: {}", phase.name, fault.message), ..fault };
    let data = trial.spec.data.iter().find(|collection| collection.name == spec.collection);
    let (lists, names, of_session) = (Vec::new(), BTreeMap::new(), Vec::new());
    let draft = Draft { spec, saved, data, lists, names, of_session, missing: Vec::new(), faults: Vec::new() };
    let load = draft.load(trial.seed, phase_seed(trial.seed, &phase.name), trial.throughput);
    load.map_err(|faults| faults.into_iter().map(in_phase).collect())
}

/// A load that is put together.
struct Draft<'d> {
    spec: &'d HttpSpec,
    saved: &'d Saved,
    data: Option<&'d CollectionSpec>,
    /// The lists that it uses, and the place of each name.
    lists: Vec<Arc<List>>,
    names: BTreeMap<&'d str, usize>,
    /// What the requests of the session so far save.
    of_session: Vec<&'d str>,
    /// Values that no answer gave. Other faults may follow from them.
    missing: Vec<Fault>,
    faults: Vec<Fault>,
}

impl<'d> Draft<'d> {
    fn load(mut self, data_seed: u64, seed: u64, throughput: Nanos) -> Result<Load, Vec<Fault>> {
        let spec = self.spec;
        let target = Target::parse(&spec.server).map_err(|fault| self.faults.push(fault)).ok();
        let mut drafts: Vec<Parts> = Vec::new();
        for kind in &spec.kinds {
            drafts.push(self.parts(kind));
            for name in kind.save.keys().map(String::as_str).filter(|_| spec.session) {
                if !self.of_session.contains(&name) {
                    self.of_session.push(name);
                }
            }
        }
        if !self.missing.is_empty() {
            return Err(self.missing);
        }
        let used: Vec<BTreeSet<usize>> = drafts.iter().map(lists).collect();
        let together = [used.iter().flatten().copied().collect()];
        let notes = self.join(if spec.session { &together } else { &used });
        let captures: Vec<Vec<Capture>> = spec.kinds.iter().map(|kind| self.captures(kind, target.as_ref())).collect();
        let checks: Vec<Option<AnswerCheck>> = spec.kinds.iter().map(|kind| self.answer_check(kind)).collect();
        if let Some(target) = &target {
            drafts.iter_mut().for_each(|parts| self.make_path(target, &mut parts.path));
        }
        drafts.iter().for_each(|parts| self.check_values(&parts.fields));
        let (needs, works_on_numbers) = needs(&drafts);
        let over = self.over(&needs, works_on_numbers);
        let records = self.records(&over, &needs, data_seed);
        let kinds = target.as_ref().and_then(|target| {
            let kind = |(((parts, kind), captures), answer_check): (((Parts, &RequestKind), _), _)| {
                let list = lists(&parts).first().copied();
                let template = request::Template::new(&target.authority, parts);
                let template = template.map_err(|found| self.faults.extend(found)).ok()?;
                let RequestKind { name, weight, expect, .. } = kind.clone();
                Some(Kind { name, weight, template, list, expect, answer_check, captures })
            };
            let all: Option<Vec<Kind>> =
                drafts.into_iter().zip(&spec.kinds).zip(captures).zip(checks).map(kind).collect();
            all.map(|all| Kinds::of(all, spec.session, seed))
        });
        let Self { lists, mut faults, .. } = self;
        let content = kinds.map(|kinds| Content { kinds, records, lists, notes, over, order: spec.order, seed, needs });
        let bound = content.as_ref().map_or(Ok(Bound::Requests(1)), |content| bound(spec, self.data, content));
        let bound = bound.unwrap_or_else(|fault| {
            faults.push(fault);
            Bound::Requests(1)
        });
        let load = Load::new(asked(spec, bound, seed), target, content, faults)?;
        Ok(load.of_trial(throughput))
    }

    /// The parts of a kind of request.
    fn parts(&mut self, kind: &'d RequestKind) -> Parts {
        let path = self.text(&kind.path).of_path();
        self.check_path(&path);
        let fields = kind.headers.iter().map(|(name, value)| (name.clone(), self.text(value))).collect();
        Parts { method: Some(kind.method.clone()), path, fields, body: self.body(kind) }
    }

    fn text(&mut self, template: &'d Template) -> Text {
        let pieces = template.0.iter().map(|part| match part {
            Part::Text(text) => Piece::Bytes(text.clone().into_bytes()),
            Part::Number => Piece::Number,
            Part::Field(path) => Piece::Field(path.clone()),
            Part::Saved(name) if self.of_session.contains(&name.as_str()) => {
                Piece::OfSession { place: self.place_of_session(name), is_path: false }
            }
            Part::Saved(name) => match self.saved.get(name) {
                None => {
                    self.missing(name);
                    Piece::Number
                }
                Some(list) if list.is_single => Piece::Value(list.value(0).unwrap_or_default().into()),
                Some(list) => {
                    let place = *self.names.entry(name).or_insert_with(|| {
                        self.lists.push(Arc::clone(list));
                        self.lists.len() - 1
                    });
                    Piece::Saved(place)
                }
            },
        });
        Text::new(pieces.collect())
    }

    /// The place of a name among those that the session saves.
    fn place_of_session(&self, name: &str) -> usize {
        self.of_session.iter().position(|own| *own == name).unwrap_or_default()
    }

    /// The values that are saved of the answers to a kind of request.
    fn captures(&mut self, kind: &RequestKind, target: Option<&Target>) -> Vec<Capture> {
        let mut all = Vec::new();
        for (name, save) in &kind.save {
            let place = self.place_of_session(name);
            let server = target.map(Target::server).unwrap_or_default();
            match Capture::new(name, save) {
                Ok(capture) => all.push(capture.of_session(place, server)),
                Err(fault) => self.faults.push(fault),
            }
        }
        all
    }

    fn answer_check(&mut self, kind: &RequestKind) -> Option<AnswerCheck> {
        // Of `any` nothing is read: the body is only counted, whatever its length.
        let spec = kind.answer.as_ref().filter(|spec| **spec != AnswerSpec::default())?;
        AnswerCheck::new(spec).map_err(|fault| self.faults.push(fault)).ok()
    }

    fn missing(&mut self, name: &str) {
        let message = format!("there is no saved value `{name}`: no answer of an earlier phase gave one");
        let fault = Fault::new(message, "see the errors of the phase that saves it");
        if !self.missing.contains(&fault) {
            self.missing.push(fault);
        }
    }

    fn body(&mut self, kind: &'d RequestKind) -> Body {
        match &kind.body {
            None => Body::None,
            Some(BodySpec::Text(template)) => Body::Text(self.text(template)),
            Some(BodySpec::Document) => Body::Document,
            Some(BodySpec::File { path, fill }) => {
                let fill: Vec<_> =
                    fill.iter().map(|(find, with)| (find.clone().into_bytes(), self.text(with))).collect();
                if fill.iter().any(|(find, _)| find.is_empty()) {
                    self.faults.push(Fault::new("a text to replace is empty", "name the text that is in the file"));
                    return Body::None;
                }
                match of_file(Path::new(path), fill) {
                    Ok((body, absent)) => {
                        self.faults.extend(absent.iter().map(|text| {
                            let text = String::from_utf8_lossy(text);
                            Fault::new(format!("`{path}` does not contain `{text}`"), "`fill` names texts of the file")
                        }));
                        body
                    }
                    Err(fault) => {
                        self.faults.push(fault);
                        Body::None
                    }
                }
            }
        }
    }

    fn check_path(&mut self, path: &Text) {
        if path.fixed().flatten().any(|byte| !byte.is_ascii_graphic()) {
            let message = "the path contains a space, a control character or a character outside ASCII";
            self.faults.push(Fault::new(message, "write it as `%20`"));
        }
        let begins = match path.pieces().first() {
            Some(Piece::Bytes(bytes)) => bytes.starts_with(b"/"),
            Some(Piece::Value(_) | Piece::Saved(_) | Piece::OfSession { .. } | Piece::Field(_)) => true,
            Some(Piece::Number) | None => false,
        };
        if !begins {
            self.faults.push(Fault::new("the path does not begin with `/`", "write it as `/path`"));
        }
    }

    /// Has the lists that a request uses, or the requests of a session, name the same records in the same order, so that the
    /// values in one place are of one record: where an answer gave none, the values after it are in other places. Which values
    /// are left out.
    fn join(&mut self, used: &[BTreeSet<usize>]) -> Vec<String> {
        let mut notes = Vec::new();
        for group in groups(used) {
            let lists: Vec<Arc<List>> = group.iter().map(|place| Arc::clone(&self.lists[*place])).collect();
            let Some(joined) = List::join(&lists) else { continue };
            let left = joined.first().map_or(0, List::len);
            notes.push(format!(
                "{}: those of {} are used, which are in all of them",
                lengths(&lists),
                count(left, "record")
            ));
            if left == 0 {
                let names = self.names.iter().filter(|(_, place)| group.contains(place));
                let names: Vec<String> = names.map(|(name, _)| format!("`{name}`")).collect();
                let message = format!("the saved values {} are of different records", names.join(", "));
                let hint = "save values of the same records, or use one of them only in a request";
                self.faults.push(Fault::new(message, hint));
            }
            group.iter().zip(joined).for_each(|(place, list)| self.lists[*place] = Arc::new(list));
        }
        let shortest = self.lists.iter().map(|list| list.len()).min().unwrap_or_default();
        if self.lists.iter().any(|list| list.len() > shortest) {
            notes.push(format!("{}: the first {shortest} of each are used", lengths(&self.lists)));
        }
        notes
    }

    /// Where a path begins with a saved value, this may be a URL of the same server; then its path is used. Other texts use the
    /// value as it was saved.
    fn make_path(&mut self, target: &Target, path: &mut Text) {
        let server = target.server();
        let made = |value: &str| match value.strip_prefix(&server).unwrap_or(value) {
            path if path.starts_with('/') => Ok(path.to_owned()),
            _ => Err(Fault::new(
                format!("the saved value `{value}` is no path of `{server}`"),
                "save what begins with `/`, or with the server's URL",
            )),
        };
        let done = match path.first_mut() {
            Some(Piece::Value(value)) => made(value).map(|path| *value = path.into()),
            Some(Piece::Saved(place)) => self.lists[*place].map(made).map(|list| {
                if list != *self.lists[*place] {
                    *place = self.lists.len();
                    self.lists.push(Arc::new(list));
                }
            }),
            _ => Ok(()),
        };
        self.faults.extend(done.err());
    }

    /// Values in header fields are checked once, before the load.
    fn check_values(&mut self, fields: &[(String, Text)]) {
        for (name, text) in fields {
            let breaks = |value: &&str| value.bytes().any(request::is_breaking);
            let breaking = text.pieces().iter().find_map(|piece| match piece {
                Piece::Value(value) => Some(&**value).filter(breaks),
                Piece::Saved(place) => {
                    let entries = self.lists.get(*place).into_iter().flat_map(|list| list.entries());
                    entries.map(|entry| &*entry.value).find(breaks)
                }
                _ => None,
            });
            if let Some(value) = breaking {
                let message = format!("the saved value {value:?} cannot be in the header field `{name}`");
                self.faults.push(Fault::new(message, "save a value without control characters"));
            }
        }
    }

    /// What the order goes over: saved values before records, records where a request contains something of them.
    fn over(&self, needs: &Needs, works_on_numbers: bool) -> Over {
        let works_on_records = needs.any() || works_on_numbers || self.spec.amount == HttpAmount::Records;
        match (self.lists.is_empty(), self.data) {
            (false, _) => Over::Lists,
            (true, Some(_)) if works_on_records => Over::Records,
            _ => Over::Requests,
        }
    }

    fn records(&mut self, over: &Over, needs: &Needs, seed: u64) -> Option<Records> {
        let needs_documents = needs.any();
        if !needs_documents && !matches!(over, Over::Records) {
            return None;
        }
        let Some(data) = self.data else {
            let name = self.spec.collection.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
            let message = format!("there is no collection{name} whose documents requests could contain");
            self.faults.push(Fault::new(message, "describe it in `[data]`"));
            return None;
        };
        if needs_documents && data.document().is_none() {
            let message = "the values of the records are no documents, of which requests could contain something";
            self.faults.push(Fault::new(message, "describe `[data.document]`"));
            return None;
        }
        let without_document = |entry: &crate::saved::Entry| entry.number >= data.records;
        let first = self.lists.first().filter(|_| needs_documents);
        if let Some(entry) = first.and_then(|list| list.entries().iter().find(|entry| without_document(entry))) {
            let message =
                format!("the saved value `{}` is of record {}, which has no document", entry.value, entry.number);
            self.faults.push(Fault::new(message, "save values of requests that work on the same records"));
        }
        Records::new(data, seed).map_err(|error| self.faults.push(Fault::new(error.to_string(), ""))).ok()
    }
}

/// What requests need of documents, and whether they contain a number.
fn needs(kinds: &[Parts]) -> (Needs, bool) {
    let mut needs = Needs { whole: kinds.iter().any(|parts| matches!(parts.body, Body::Document)), ..Needs::default() };
    let mut has_number = false;
    for text in kinds.iter().flat_map(texts) {
        needs.add(text);
        has_number |= text.pieces().contains(&Piece::Number);
    }
    (needs, has_number)
}

/// All texts of a kind of request.
fn texts(parts: &Parts) -> impl Iterator<Item = &Text> {
    let of_body: Vec<&Text> = match &parts.body {
        Body::Text(text) => vec![text],
        Body::File(file) => file.withs().collect(),
        Body::None | Body::Document => Vec::new(),
    };
    [&parts.path].into_iter().chain(parts.fields.iter().map(|(_, value)| value)).chain(of_body)
}

/// The places of the lists that a kind of request uses.
fn lists(parts: &Parts) -> BTreeSet<usize> {
    let place = |piece: &Piece| if let Piece::Saved(place) = piece { Some(*place) } else { None };
    texts(parts).flat_map(Text::pieces).filter_map(place).collect()
}

/// The lists that are used together, directly or by other lists.
fn groups(used: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let mut groups = Vec::<BTreeSet<usize>>::new();
    for lists in used {
        let (same, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| !group.is_disjoint(lists));
        groups = apart;
        groups.push(same.into_iter().flatten().chain(lists.iter().copied()).collect());
    }
    groups
}

fn lengths(lists: &[Arc<List>]) -> String {
    let lengths = || lists.iter().map(|list| list.len());
    let (shortest, longest) = (lengths().min().unwrap_or_default(), lengths().max().unwrap_or_default());
    let some = if shortest == longest { longest.to_string() } else { format!("{shortest} to {longest}") };
    format!("lists of saved values have {some} values")
}

fn bound(spec: &HttpSpec, data: Option<&CollectionSpec>, content: &Content) -> Result<Bound, Fault> {
    match spec.amount {
        HttpAmount::Requests(requests) => Ok(Bound::Requests(requests)),
        HttpAmount::Duration(duration) => Ok(Bound::Duration(duration)),
        HttpAmount::Records if spec.warm_up > Nanos::ZERO => Err(Fault::new(
            "with a warm-up, some records would be sent before those that are counted",
            "give a number of requests, or warm up in a phase before",
        )),
        HttpAmount::Records => match content.count().or(data.map(|data| data.records)) {
            Some(count) => Ok(Bound::Requests(count.saturating_mul(content.kinds.session()))),
            None => Err(Fault::new("there are no records", "give a number of requests")),
        },
    }
}

fn asked(spec: &HttpSpec, bound: Bound, seed: u64) -> Asked {
    Asked {
        connections: spec.connections,
        threads: spec.threads,
        processors: spec.processors.clone(),
        pace: spec.rate.clone().map_or(Loop::Closed, Loop::Open),
        think: spec.think,
        bound,
        warm_up: spec.warm_up,
        timeout: spec.timeout,
        retry: spec.retry.clone(),
        seed,
        other_machines: spec.other_machines,
        ..Asked::of(&spec.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kinds of a mix may use lists of different records; a request uses those of one record.
    #[test]
    fn lists_of_one_request_are_together_and_those_of_two_requests_apart() {
        let of = |used: &[&[usize]]| {
            let used: Vec<BTreeSet<usize>> = used.iter().map(|lists| lists.iter().copied().collect()).collect();
            groups(&used).into_iter().map(Vec::from_iter).filter(|group| !group.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(of(&[&[0, 1], &[2], &[]]), [vec![0, 1], vec![2]]);
        assert_eq!(of(&[&[0, 1], &[2], &[3], &[2, 1]]), [vec![3], vec![0, 1, 2]]);
    }
}
