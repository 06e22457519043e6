//! Reads the requests of a phase, of one variant.

use std::collections::BTreeMap;

use regex::Regex;

use super::View;
use super::ops::{arrivals, order};
use super::pattern::pattern;
use super::view::whole;
use crate::grammar;
use crate::node::{Entry, Node, Value};
use crate::placeholder::{Part as Piece, split};
use crate::problem::{Problem, Problems};
use prony_model::http::{
    AnswerSpec, BodySpec, ExpectedStatuses, HttpAmount, HttpSpec, OPEN_CONNECTIONS, Part, RateSteps, RequestKind,
    RequestRate, RetrySpec, SaveSpec, SavedFrom, Template, too_many_parts,
};
use prony_model::service::{OfService, hole};
use prony_model::spec::{FieldPath, Order, RateStep};
use prony_model::units::Nanos;

/// Steps of a schedule, at most: the load generator has a histogram of each.
const MOST_STEPS: usize = 100;
/// How long a request may take.
const TIMEOUT: Nanos = Nanos::from_secs(10);

/// The requests of a phase, whose form was checked.
pub(crate) fn http(node: &Node, problems: &mut Problems<'_>) -> Option<HttpSpec> {
    let view = View::new(Some(node), &grammar::HTTP);
    let rate = view.get("rate").and_then(|node| rate(node, problems));
    let several = several(&view, problems);
    let kinds = match several {
        Some((key, node)) => kinds(&view, (key, node), problems)?,
        None => vec![one(&view, node, problems)?],
    };
    let amount = amount(&view, rate.as_ref(), problems);
    let session = several.is_some_and(|(key, _)| key == SESSION);
    can_be_compared(&view, &kinds, amount, problems);
    save_alike(&kinds, node, problems);
    if session {
        can_be_sessions(&view, amount, kinds.len() as u64, problems);
    }
    let retry = retry(&view, &kinds, problems);
    let threads = view.whole("threads").unwrap_or(1);
    let usual = if rate.is_some() { threads.max(u64::from(OPEN_CONNECTIONS)) } else { 1 };
    let connections = view.whole("connections").unwrap_or(usual);
    if threads > connections {
        let message = format!("there are more threads, {threads}, than connections, {connections}");
        let hint = "each thread needs a connection: raise `connections`, or lower `threads`";
        problems.fault((node, view.key_span("threads")), message, hint);
    }
    let steps = rate.as_ref().map_or(0, |rate| rate.steps().len());
    let named = kinds.iter().filter(|kind| kind.name.is_some()).count();
    if let Some((message, hint)) = too_many_parts(threads as u32, steps, named) {
        problems.fault((node, view.key_span("threads")), message, hint);
    }
    Some(HttpSpec {
        server: server(&view, problems)?,
        kinds,
        session,
        connections: connections as u32,
        threads: threads as u32,
        processors: view.numbers("processors"),
        amount,
        think: think(&view, problems),
        rate,
        warm_up: view.time("warm_up").unwrap_or(Nanos::ZERO),
        timeout: view.time("timeout").unwrap_or(TIMEOUT),
        retry,
        order: match view.get("order") {
            Some(node) => order(node, problems)?,
            None => Order::Record,
        },
        collection: view.text("collection"),
        other_machines: view.flag("other_machines").unwrap_or(false),
        writes: view.flag("writes"),
    })
}

const MIX: &str = "mix";
const SESSION: &str = "session";

/// The table of the kinds of requests, where there are several, with its key.
fn several<'n>(view: &View<'n>, problems: &mut Problems<'_>) -> Option<(&'static str, &'n Node)> {
    if view.get(MIX).is_some() && view.get(SESSION).is_some() {
        let message = "`mix` and `session` exclude each other";
        problems.fault(view.key_span(SESSION), message, "write a phase for each of the two");
    }
    [MIX, SESSION].into_iter().find_map(|key| Some((key, view.get(key)?)))
}

/// The only kind of requests.
fn one(view: &View<'_>, node: &Node, problems: &mut Problems<'_>) -> Option<RequestKind> {
    if view.get("path").is_none() {
        let message = "these requests have no `path`";
        problems.fault(node, message, "write `path`, or `mix` or `session` with several kinds of requests");
        return None;
    }
    kind(node, view, &OfAll::default(), problems)
}

/// What all kinds of requests have that have none of their own.
#[derive(Default)]
struct OfAll {
    headers: Vec<(String, Template)>,
    answer: Option<AnswerSpec>,
    expect: ExpectedStatuses,
}

/// The kinds of requests of a mix or a session, which is the value of a key.
fn kinds(view: &View<'_>, (key, node): (&str, &Node), problems: &mut Problems<'_>) -> Option<Vec<RequestKind>> {
    for own in ["path", "method", "body", "json", "save"] {
        if view.get(own).is_some() {
            let message = format!("`{own}` and `{key}` exclude each other");
            problems.fault(view.key_span(own), message, format!("write `{own}` in each kind of request of `{key}`"));
        }
    }
    let entries = node.table().unwrap_or_default();
    if entries.is_empty() {
        let example = if key == MIX { EXAMPLE_OF_MIX } else { EXAMPLE_OF_SESSION };
        problems.fault(node, format!("`{key}` is empty"), example);
        return None;
    }
    let of_all = OfAll {
        headers: headers(view, problems),
        answer: answer(view, problems),
        expect: expect(view).unwrap_or_default(),
    };
    let one = |entry: &Entry| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if entry.key.is_empty() || !entry.key.chars().all(is_name) {
            let message = format!("`{}` is no name of a kind of request", entry.key);
            problems.fault(&entry.key_span, message, "use letters, digits, `-` and `_`");
        }
        let view = View::new(Some(&entry.node), &grammar::REQUEST_KIND);
        if key == SESSION && view.get("weight").is_some() {
            let hint = "each session has all of them, in the order of the file: remove `weight`";
            problems.fault(view.key_span("weight"), "requests of a session have no weight", hint);
        }
        Some(RequestKind {
            name: Some(entry.key.clone()),
            weight: view.number("weight").unwrap_or(1.0),
            ..kind(&entry.node, &view, &of_all, problems)?
        })
    };
    entries.iter().map(one).collect()
}

/// Faults of sessions: they are sent by users, each of whom waits for an answer before the next request, and whole.
fn can_be_sessions(view: &View<'_>, amount: HttpAmount, requests: u64, problems: &mut Problems<'_>) {
    if view.get("rate").is_some() {
        let hint = "a request of a session starts after the answer to the one before: use `connections` and `think`";
        problems.fault(view.key_span("rate"), "`rate` and `session` both say when a request starts", hint);
    }
    let HttpAmount::Requests(count) = amount else { return };
    let key = view.key_span("requests");
    if count % requests != 0 {
        let next = count.next_multiple_of(requests);
        let message = format!("{count} requests are no whole sessions of {requests} requests");
        problems.fault(key, message, format!("write `requests = {next}`: {} sessions", next / requests));
    } else if view.get("warm_up").is_some() {
        let message = "with `warm_up`, some of the sessions that `requests` counts would begin before the results";
        let hint = "set `duration` instead of `requests`, or a phase of its own with `timed = false`";
        problems.fault(view.key_span("warm_up"), message, hint);
    }
}

/// Faults of values that several kinds save by one name: that is one value, or one of each answer.
fn save_alike(kinds: &[RequestKind], node: &Node, problems: &mut Problems<'_>) {
    let all: Vec<_> = kinds.iter().flat_map(|kind| &kind.save).collect();
    let differs =
        |(name, save): &&(&String, &SaveSpec)| all.iter().any(|(other, of)| other == name && of.each != save.each);
    if let Some((name, _)) = all.iter().find(differs) {
        let message = format!("`{name}` is saved once and with `each = true`");
        problems.fault(&node.span, message, "give one of the two another name");
    }
}

/// Faults of digests of answers: these are compared where the same requests are sent in each trial.
fn can_be_compared(view: &View<'_>, kinds: &[RequestKind], amount: HttpAmount, problems: &mut Problems<'_>) {
    if !kinds.iter().any(|kind| kind.answer.as_ref().is_some_and(|answer| answer.digest)) {
        return;
    }
    let by_time = matches!(amount, HttpAmount::Duration(_));
    let key = if by_time { ["duration", "rate"].into_iter().find(|key| view.get(key).is_some()) } else { None };
    if let Some(key) = key.or(view.get("warm_up").map(|_| "warm_up")) {
        let message = format!(
            "with `{key}` other requests are measured in each trial, so that digests of answers cannot be compared"
        );
        let hint = "digest answers in a phase of its own with `requests`, and `timed = false`; or count `rows`, which are \
                    compared for each answer";
        problems.fault(view.key_span(key), message, hint);
    }
}

/// How a mix is written.
const EXAMPLE_OF_MIX: &str =
    "write `mix = { read = { weight = 9, path = \"/a/{i}\" }, write = { path = \"/a\", json = \"{doc}\" } }`";
/// How a session is written.
const EXAMPLE_OF_SESSION: &str = "write `session = { create = { path = \"/a\", json = \"{doc}\", save = { id = { json = \"/id\" } } }, read = { path = \"/a/{saved.id}\" } }`";

fn headers(view: &View<'_>, problems: &mut Problems<'_>) -> Vec<(String, Template)> {
    let mut header = |entry: &Entry| {
        let value = template(&entry.node)?;
        let mut fault = |message: &str, hint: &str| {
            problems.fault((&entry.node, entry.key_span.clone()), format!("`{}` {message}", entry.key), hint);
        };
        if !is_token(&entry.key) {
            fault("is not a valid name of a header field", "use letters, digits and `-`");
        } else if ["content-length", "transfer-encoding"].iter().any(|own| entry.key.eq_ignore_ascii_case(own)) {
            fault("is set by the load generator", "leave it out; the length is that of the body");
        } else if fixed_text(&value).any(|c| c.is_ascii_control() && c != '\t') {
            fault("has a value with a control character", "remove the character");
        }
        Some((entry.key.clone(), value))
    };
    view.table_of("headers").iter().filter_map(&mut header).collect()
}

/// Whether a text can be a method or the name of a header field (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The characters of a text outside of its placeholders.
fn fixed_text(template: &Template) -> impl Iterator<Item = char> {
    template.0.iter().flat_map(|part| if let Part::Text(text) = part { text.chars() } else { "".chars() })
}

/// The path of a request.
fn path(node: &Node, problems: &mut Problems<'_>) -> Option<Template> {
    let path = template(node)?;
    let begins = match path.0.first() {
        Some(Part::Text(text)) => text.starts_with('/'),
        first => matches!(first, Some(Part::Saved(_) | Part::Field(_))),
    };
    if !begins {
        let message = "`path` does not begin with `/`";
        problems.fault(node, message, "write it as `/schools/{i}`, or begin it with `{saved.NAME}` or `{doc.FIELD}`");
    }
    if let Some(c) = fixed_text(&path).find(|c| !c.is_ascii_graphic()) {
        let bytes: String = c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        problems.fault(node, format!("`path` contains the character {c:?}"), format!("write it as `{bytes}`"));
    }
    Some(path)
}

/// One kind of request, with the header fields of all kinds before its own.
fn kind(node: &Node, view: &View<'_>, of_all: &OfAll, problems: &mut Problems<'_>) -> Option<RequestKind> {
    let own = headers(view, problems);
    let replaced = |name: &str| own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let mut headers: Vec<_> = of_all.headers.iter().filter(|(name, _)| !replaced(name)).cloned().collect();
    headers.extend(own);
    if let (Some(_), Some(json)) = (view.get("body"), node.entry("json")) {
        let message = "a request has one body: `body` and `json` exclude each other";
        problems.fault(&json.key_span, message, "remove one of the two keys");
    }
    let body = match (view.get("json"), view.get("body")) {
        (Some(_), _) => {
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                let json = Template(vec![Part::Text("application/json".to_owned())]);
                headers.push(("content-type".to_owned(), json));
            }
            Some(BodySpec::Document)
        }
        (None, Some(node)) => Some(body(node, problems)?),
        (None, None) => None,
    };
    let path = path(view.get("path")?, problems)?;
    let default_method = if body.is_some() { "POST" } else { "GET" };
    let method = view.text("method").unwrap_or_else(|| default_method.to_owned());
    if let (Some(node), false) = (view.get("method"), is_token(&method)) {
        problems.fault(node, format!("`{method}` is not a valid HTTP method"), "write it as `POST`");
    }
    let has_body = !method.eq_ignore_ascii_case("HEAD");
    let answer_of_all = of_all.answer.clone().filter(|_| has_body);
    let answer = if view.get("answer").is_some() { answer(view, problems) } else { answer_of_all };
    let save = saves(view, problems);
    let in_body = save.values().any(|save| !matches!(save.from, SavedFrom::Header(_)));
    if !has_body && (answer.is_some() || in_body) {
        let at = view.key_span(if answer.is_some() { "answer" } else { "save" });
        let message = "answers to HEAD have no body that could be read";
        problems.fault(at, message, "use `GET`, or save the value of a `header`");
    }
    let expect = expect(view).unwrap_or_else(|| of_all.expect.clone());
    Some(RequestKind { name: None, weight: 1.0, path, method, headers, body, expect, answer, save })
}

/// Scheme and authority.
fn server(view: &View<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let number = view.whole("instance").unwrap_or(1) as u32;
    if let Some(name) = view.text("service") {
        return Some(hole(&name, number, OfService::Url));
    }
    let url = view.text("url")?;
    view.needs("instance", "service", problems);
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if authority.is_none_or(|authority| authority.is_empty() || authority.trim_end_matches('/').contains('/')) {
        let node = view.get("url")?;
        let message = format!("`{url}` is no server");
        problems.fault(node, message, "write it as `http://127.0.0.1:8080`, and the rest as `path`");
    }
    Some(url.trim_end_matches('/').to_owned())
}

/// The schedule of an open loop.
fn rate(node: &Node, problems: &mut Problems<'_>) -> Option<RequestRate> {
    let view = View::new(Some(node), &grammar::REQUEST_RATE);
    let poisson = view.plain("arrivals") == Some("poisson");
    if let Some(ramp) = view.get("ramp") {
        let ramp = View::new(Some(ramp), &grammar::RAMP);
        let (from, to, over) = (ramp.rate("from")?, ramp.rate("to")?, ramp.time("over")?);
        return Some(RequestRate::Steps(RateSteps::ramp(from, to, over, poisson)));
    }
    let Some(steps) = view.get("steps") else { return arrivals(node).map(RequestRate::Constant) };
    let all = steps.list().unwrap_or_default();
    if !(1..=MOST_STEPS).contains(&all.len()) {
        let message = format!("`steps` has {} steps", all.len());
        problems.fault(steps, message, format!("write 1 to {MOST_STEPS} of them: `{{ rate = 100, for = \"10 s\" }}`"));
        return None;
    }
    let step = |node: &Node| {
        let view = View::new(Some(node), &grammar::RATE_STEP);
        let rate = view.rate("rate")?;
        Some(RateStep { from: rate, to: rate, time: view.time("for")? })
    };
    let steps = all.iter().map(step).collect::<Option<Vec<RateStep>>>()?;
    Some(RequestRate::Steps(RateSteps { steps, poisson }))
}

fn amount(view: &View<'_>, rate: Option<&RequestRate>, problems: &mut Problems<'_>) -> HttpAmount {
    if let Some(RequestRate::Steps(steps)) = rate {
        for key in ["requests", "duration"] {
            if view.get(key).is_some() {
                let message = format!("`{key}` and the steps of `rate` both say when the requests end");
                let hint = format!("leave `{key}` out: the requests last {}", steps.time());
                problems.fault(view.key_span(key), message, hint);
            }
        }
        return HttpAmount::Duration(steps.time());
    }
    match (view.whole("requests"), view.time("duration")) {
        (Some(_), Some(_)) => {
            let problem = Problem::new(view.key_span("duration"), "`requests` and `duration` exclude each other");
            problems.add(problem.label(&view.key_span("requests"), "`requests` stands"));
            HttpAmount::Records
        }
        (Some(count), None) => HttpAmount::Requests(count),
        (None, Some(time)) => HttpAmount::Duration(time),
        (None, None) => HttpAmount::Records,
    }
}

/// The time between an answer and the next request of its connection.
fn think(view: &View<'_>, problems: &mut Problems<'_>) -> Nanos {
    if let (Some(_), true) = (view.get("think"), view.get("rate").is_some()) {
        let hint = "leave out `rate` for a closed loop of connections, or `think` for an open one";
        problems.fault(view.key_span("think"), "`think` and `rate` both say when a request starts", hint);
    }
    view.time("think").unwrap_or(Nanos::ZERO)
}

/// The statuses of answers that are no errors; `None` where none are named.
fn expect(view: &View<'_>) -> Option<ExpectedStatuses> {
    Some(ExpectedStatuses(statuses(view.get("expect")?)))
}

fn retry(view: &View<'_>, kinds: &[RequestKind], problems: &mut Problems<'_>) -> Option<RetrySpec> {
    let table = View::new(Some(view.get("retry")?), &grammar::RETRY);
    let on = table.get("on")?;
    let named = |word: &str| on.list().unwrap_or_default().iter().any(|node| node.text() == Some(word));
    let retry = RetrySpec {
        statuses: statuses(on),
        timeout: named("timeout"),
        connection: named("connection"),
        times: table.whole("times")? as u32,
        wait: table.time("wait").unwrap_or(Nanos::ZERO),
    };
    if on.list().is_some_and(<[Node]>::is_empty) {
        let message = "`on` is empty, so that nothing is repeated";
        problems.fault(on, message, "write `on = [503, \"timeout\", \"connection\"]`, or remove `retry`");
    }
    let expected = |status: &u16| kinds.iter().any(|kind| kind.expect.contains(*status));
    if let Some(status) = retry.statuses.iter().find(|status| expected(status)) {
        let message = format!("status {status} is expected, so that no attempt with it fails");
        problems.fault(on, message, "an expected answer ends its request: remove the status from `on`");
    }
    Some(retry)
}

fn statuses(node: &Node) -> Vec<u16> {
    node.items().iter().filter_map(whole).map(|status| status as u16).collect()
}

fn body(node: &Node, problems: &mut Problems<'_>) -> Option<BodySpec> {
    if node.text().is_some() {
        return Some(BodySpec::Text(template(node)?));
    }
    let view = View::new(Some(node), &grammar::BODY);
    let fill = view.table_of("fill");
    if let Some(entry) = fill.iter().find(|entry| entry.key.is_empty()) {
        problems.fault((node, entry.key_span.clone()), "a text to replace is empty", "name a text that is in the file");
    }
    let fill = fill.iter().filter_map(|entry| Some((entry.key.clone(), template(&entry.node)?))).collect();
    Some(BodySpec::File { path: view.text("file")?, fill })
}

/// What is read of answers.
fn answer(view: &View<'_>, problems: &mut Problems<'_>) -> Option<AnswerSpec> {
    let node = view.get("answer")?;
    let table = View::new(Some(node), &grammar::ANSWER);
    let mut sound = |node: &Node| pattern(node, problems).and_then(|regex| Some((node.text()?.to_owned(), regex)));
    let matches = table.get("match").and_then(&mut sound).map(|(text, _)| text);
    let rows = table.get("rows").and_then(&mut sound);
    let without = table.list_of("without").iter().filter_map(|node| Some(sound(node)?.0)).collect();
    let digest = table.flag("digest").unwrap_or(false);
    if let (Some(node), Some((_, regex))) = (table.get("rows"), &rows)
        && regex.captures_len() > 2
    {
        let message = "the pattern has several groups: which one is the number of rows?";
        problems.fault(node, message, "write the others as `(?:...)`");
    }
    if let Some(entry) = node.entry("without").filter(|_| !digest) {
        let message = "`without` changes nothing, since bodies are not digested";
        problems.fault(&entry.key_span, message, "add `digest = true`, or remove `without`");
    }
    let reads = digest || table.get("match").is_some() || table.get("rows").is_some();
    let any = table.flag("any").unwrap_or(false);
    if let Some(entry) = node.entry("any").filter(|_| any && reads) {
        let message = "any body is right, and `answer` says what one has";
        problems.fault(&entry.key_span, message, "remove `any`, or the other keys of `answer`");
    }
    if !reads && !any {
        problems.fault(node, "`answer` reads nothing", "give it `match`, `rows`, `digest = true` or `any = true`");
    }
    Some(AnswerSpec { matches, rows: rows.map(|(text, _)| text), digest, without })
}

fn saves(view: &View<'_>, problems: &mut Problems<'_>) -> BTreeMap<String, SaveSpec> {
    let mut all = BTreeMap::new();
    for entry in view.table_of("save") {
        let save = match &entry.node.value {
            Value::Text(_) => Some(SaveSpec { from: SavedFrom::Body, each: false }),
            _ => save(&entry.node, problems),
        };
        all.extend(save.map(|save| (entry.key.clone(), save)));
    }
    all
}

fn save(node: &Node, problems: &mut Problems<'_>) -> Option<SaveSpec> {
    let view = View::new(Some(node), &grammar::SAVE);
    let from = if let Some(name) = view.text("header") {
        SavedFrom::Header(name)
    } else if let Some(pointer) = view.plain("json") {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            problems.fault(view.key_span("json"), format!("`{pointer}` is no JSON pointer"), "write it as `/id`");
        }
        SavedFrom::Json(pointer.to_owned())
    } else if let Some(node) = view.get("pattern") {
        let regex = pattern(node, problems)?;
        if Regex::captures_len(&regex) < 2 {
            let message = "the pattern has no group, so nothing is saved";
            problems.fault(&node.span, message, "put the part to save into parentheses: `id=([0-9]+)`");
        }
        SavedFrom::Pattern(node.text()?.to_owned())
    } else {
        SavedFrom::Body
    };
    Some(SaveSpec { from, each: view.flag("each").unwrap_or(false) })
}

/// A text with placeholders of a request.
fn template(node: &Node) -> Option<Template> {
    let part = |piece| match piece {
        Piece::Text(text) => Part::Text(text),
        Piece::Hole(name, _) => match name.split_once('.') {
            Some(("saved", name)) => Part::Saved(name.to_owned()),
            Some((_, field)) => Part::Field(FieldPath(field.split('.').map(str::to_owned).collect())),
            None => Part::Number,
        },
    };
    Some(Template(split(node.text()?).ok()?.into_iter().map(part).collect()))
}
