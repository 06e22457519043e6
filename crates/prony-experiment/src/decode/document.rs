//! Reads `document` of `[data]`.

use super::View;
use super::size::size;
use super::view::{template, unescaped};
use crate::calendar::seconds;
use crate::grammar;
use crate::node::{Entry, Node, Value};
use crate::problem::{Problem, Problems};
use crate::validate::{is_generator, via};
use prony_model::spec::{DocumentSpec, Encoding, FieldSpec, FieldValue, Generator};
use prony_model::units::Fraction;

/// How many different words there are where the file does not say.
const VOCABULARY: u64 = 10_000;

/// The documents; `view` is `[data]`.
pub(super) fn document(view: &View<'_>, problems: &mut Problems<'_>) -> Option<DocumentSpec> {
    if view.get("value").is_some() {
        let problem = Problem::new(view.key_span("document"), "`data` takes one of `value` and `document`, not both");
        problems.add(problem.label(view.key_span("value"), "`value` stands"));
    }
    let node = view.get("document")?;
    let fields = fields(node, problems)?;
    if fields.is_empty() {
        problems
            .add(Problem::new(node.span.clone(), "the documents have no fields").hint("write `name = value` in it"));
    }
    let encoding = match view.plain("encoding") {
        Some("json") => Encoding::Json,
        _ => Encoding::MsgPack,
    };
    Some(DocumentSpec { fields, encoding })
}

fn fields(node: &Node, problems: &mut Problems<'_>) -> Option<Vec<FieldSpec>> {
    let mut all = Vec::new();
    for Entry { key, key_span, node } in node.table()? {
        if key.is_empty() || key.contains('.') {
            let problem = Problem::new(key_span.clone(), format!("`{key}` cannot be the name of a field"));
            problems.add(problem.hint("use a name without full stops; they separate the names of nested fields"));
        }
        let generator = (node.table().is_some() && is_generator(node, &grammar::GENERATOR))
            .then(|| View::new(Some(node), &grammar::GENERATOR));
        let present = generator.and_then(|view| view.share("present"));
        all.push(FieldSpec {
            name: key.clone(),
            value: value(node, problems)?,
            present: present.unwrap_or(Fraction::ONE),
        });
    }
    Some(all)
}

fn value(node: &Node, problems: &mut Problems<'_>) -> Option<Generator> {
    match &node.value {
        Value::Text(_) => template(node).map(text),
        Value::List(items) => items.iter().map(|one| item(one, problems)).collect::<Option<_>>().map(Generator::Items),
        Value::Table(_) if is_generator(node, &grammar::GENERATOR) => {
            generator(&View::new(Some(node), &grammar::GENERATOR), problems)
        }
        Value::Table(_) => fields(node, problems).map(Generator::Fields),
        _ => constant(node).map(Generator::Constant),
    }
}

/// An item of a list, which is always there.
fn item(node: &Node, problems: &mut Problems<'_>) -> Option<Generator> {
    if let Some(entry) = node.entry("present").filter(|_| is_generator(node, &grammar::GENERATOR)) {
        let problem = Problem::new(entry.key_span.clone(), "`present` has no effect on an item of a list");
        problems.add(via(node, problem.hint("write the number of items as `items = [LEAST, MOST]`")));
    }
    value(node, problems)
}

/// A text without a number is a constant.
fn text(parts: Vec<String>) -> Generator {
    match <[String; 1]>::try_from(parts) {
        Ok([text]) => Generator::Constant(FieldValue::Text(text)),
        Err(parts) => Generator::Template(parts),
    }
}

fn constant(node: &Node) -> Option<FieldValue> {
    match &node.value {
        Value::Flag(flag) => Some(FieldValue::Bool(*flag)),
        Value::Whole(number) => Some(FieldValue::Int(*number)),
        Value::Number(number) => Some(FieldValue::Float(*number)),
        Value::Text(_) => unescaped(node).map(FieldValue::Text),
        Value::Date(_) | Value::List(_) | Value::Table(_) => None,
    }
}

fn generator(view: &View<'_>, problems: &mut Problems<'_>) -> Option<Generator> {
    for (key, owner) in [("step", "sequence"), ("compressible", "text"), ("vocabulary", "words"), ("items", "list")] {
        view.needs(key, owner, problems);
    }
    let (action, node) = grammar::GENERATOR.actions().into_iter().find_map(|key| Some((key, view.get(key)?)))?;
    Some(match action {
        "sequence" => {
            Generator::Sequence { start: integer(node)?, step: view.get("step").and_then(integer).unwrap_or(1) }
        }
        "cycle" => Generator::Cycle(cycle(node, problems)?),
        "uniform" => pair(node, action, integer, problems).map(|(least, most)| Generator::Uniform(least, most))?,
        "zipfian" => pair(node, action, integer, problems).map(|(least, most)| Generator::Zipfian(least, most))?,
        "text" => random_text(view, node, problems)?,
        "words" => {
            Generator::Words { count: view.whole("words")?, vocabulary: view.whole("vocabulary").unwrap_or(VOCABULARY) }
        }
        "date" => pair(node, action, date, problems).map(|(from, to)| Generator::Date { from, to })?,
        "list" => list(view, node, problems)?,
        "fields" => Generator::Fields(fields(node, problems)?),
        "template" => text(template(node)?),
        "constant" => Generator::Constant(constant(node)?),
        _ => Generator::Uuid,
    })
}

fn cycle(node: &Node, problems: &mut Problems<'_>) -> Option<Vec<FieldValue>> {
    let values: Vec<FieldValue> = node.list()?.iter().filter_map(constant).collect();
    if values.is_empty() {
        problems.add(via(node, Problem::new(node.span.clone(), "`cycle` has no values")));
        return None;
    }
    Some(values)
}

fn random_text(view: &View<'_>, node: &Node, problems: &mut Problems<'_>) -> Option<Generator> {
    let least = Fraction::new(Generator::LEAST_COMPRESSIBLE)?;
    let compressible = view.share("compressible").unwrap_or(least);
    if compressible.get() < least.get() {
        let percent = least.get() * 100.0;
        let message = format!("`compressible` of a text cannot be below {percent} %: its characters have 6 bits in 8");
        let problem = Problem::new(view.key_span("compressible"), message);
        problems.add(problem.hint("use `value = { bytes = ..., compressible = ... }` for bytes that do not compress"));
    }
    Some(Generator::Text { bytes: size(node, problems)?, compressible })
}

fn list(view: &View<'_>, node: &Node, problems: &mut Problems<'_>) -> Option<Generator> {
    let of = Box::new(item(node, problems)?);
    let items = match view.get("items") {
        None => (1, 1),
        Some(items) => match items.list() {
            Some(_) => {
                let (least, most) = pair(items, "items", integer, problems)?;
                (least as u64, most as u64)
            }
            None => view.whole("items").map(|count| (count, count))?,
        },
    };
    Some(Generator::List { of, items })
}

/// Two ends, the first not above the second.
fn pair(
    node: &Node,
    key: &str,
    read: impl Fn(&Node) -> Option<i64>,
    problems: &mut Problems<'_>,
) -> Option<(i64, i64)> {
    let ends: Vec<i64> = node.list()?.iter().filter_map(read).collect();
    let [first, second] = <[i64; 2]>::try_from(ends).ok()?;
    if first > second {
        let problem = Problem::new(node.span.clone(), format!("the first value of `{key}` must be the lowest"));
        problems.add(via(node, problem));
        return None;
    }
    Some((first, second))
}

fn integer(node: &Node) -> Option<i64> {
    match node.value {
        Value::Whole(number) => Some(number),
        _ => None,
    }
}

fn date(node: &Node) -> Option<i64> {
    match &node.value {
        Value::Date(text) | Value::Text(text) => seconds(text),
        _ => None,
    }
}
