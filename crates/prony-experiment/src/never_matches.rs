//! Finds queries that no document can match, by the kinds of values that fields have and by tests that exclude each other. Such
//! a query is valid, and measures how fast nothing is found.

use std::cmp::Ordering;

use super::design::Experiment;
use super::node::Node;
use super::problem::Problems;
use prony_model::spec::{
    Action, CollectionSpec, DocumentSpec, FieldPath, FieldValue, Filter, Kinds, Operand, QuerySpec, Test, TrialSpec,
};

/// Warns of queries that find nothing in any trial, and of an empty `select`, which selects all fields.
pub(crate) fn queries(root: &Node, experiment: &Experiment, problems: &mut Problems<'_>) {
    for spec in experiment.variants().iter().map(|variant| &variant.spec) {
        for phase in &spec.phases {
            let background = phase.background.iter().map(|action| (action, true));
            for (action, is_background) in std::iter::once((&phase.action, false)).chain(background) {
                let Action::Find(find) = action else { continue };
                for (number, query) in find.queries.iter().enumerate() {
                    let place = place(root, &phase.name, is_background, number);
                    one(place, never(spec, spec.collection(&find.ops), query), problems);
                }
            }
        }
    }
}

fn one(place: Option<&Node>, never: Option<String>, problems: &mut Problems<'_>) {
    if let Some(why) = never {
        let at = place.map_or(0..0, |node| node.span.clone());
        let message = format!("this query never finds a document: {why}");
        problems.fault(at, message, "correct `where`, or leave the query out");
    }
    if let Some(select) =
        place.and_then(|node| node.get("select")).filter(|node| node.list().is_some_and(<[Node]>::is_empty))
    {
        let message = "`select` is empty, which returns all fields";
        problems.fault(&select.span, message, "leave `select` out, or name fields; `count = true` returns none");
    }
}

/// Where the file writes a query; `None` where a factor writes it.
fn place<'n>(root: &'n Node, phase: &str, is_background: bool, number: usize) -> Option<&'n Node> {
    let phases = root.get("phase").and_then(Node::list)?;
    let phase = phases.iter().find(|node| node.get("name").and_then(Node::text) == Some(phase))?;
    let action = if is_background { phase.get("background")?.get("find")? } else { phase.get("find")? };
    let query = action.get("query")?;
    match query.list() {
        Some(list) => list.get(number),
        None => Some(query),
    }
}

/// Why a query finds nothing; `page` is the collection of its operations.
fn never(spec: &TrialSpec, page: Option<&CollectionSpec>, query: &QuerySpec) -> Option<String> {
    let queried = spec.data.iter().find(|collection| collection.name == query.collection)?;
    let (own, page) = (queried.document()?, page.and_then(CollectionSpec::document));
    Kinded { own, page }.never(&query.filter)
}

/// The documents of a query, and those of the operations' records.
#[derive(Clone, Copy)]
struct Kinded<'d> {
    own: &'d DocumentSpec,
    page: Option<&'d DocumentSpec>,
}

impl Kinded<'_> {
    fn never(self, filter: &Filter<Operand>) -> Option<String> {
        match filter {
            Filter::All(all) => all.iter().find_map(|one| self.never(one)).or_else(|| self.excluded(all)),
            Filter::Any(all) => {
                let mut each = all.iter().map(|one| self.never(one));
                let first = each.next()??;
                each.all(|why| why.is_some()).then_some(first)
            }
            Filter::Field(path, test) => self.never_passes(path, test),
        }
    }

    /// Kinds of the values with which a test compares; `None` where they are not known.
    fn of_operand(self, operand: &Operand) -> Option<Kinds> {
        let mut kinds = Kinds::default();
        match operand {
            Operand::Constant(value) => kinds.add_value(Some(value)),
            Operand::Document(path) => kinds = self.page?.kinds(path),
        }
        Some(kinds)
    }

    fn never_passes(self, path: &FieldPath, test: &Test<Operand>) -> Option<String> {
        let kinds = self.own.kinds(path);
        if let Test::Exists(false) = test {
            return (!kinds.missing).then(|| format!("each document has the field `{path}`"));
        }
        // The kinds of a list's items are not known.
        if kinds.list || matches!(test, Test::Exists(true)) {
            return None;
        }
        if let Test::Between(Operand::Constant(from), Operand::Constant(to)) = test
            && order(from, to) == Some(Ordering::Greater)
        {
            return Some(format!("the first value of `between` for `{path}` is above the second"));
        }
        let possible = |operand: &Operand| self.of_operand(operand).is_none_or(|values| common(kinds, values));
        let fits = match test {
            Test::Prefix(operand) => {
                kinds.text && self.of_operand(operand).is_none_or(|values| values.text || values.list)
            }
            Test::In(operands) => operands.iter().any(possible),
            test => test.operands().into_iter().all(possible),
        };
        let compared = match test {
            Test::Prefix(_) => "a text".to_owned(),
            test => {
                let mut all = Kinds::default();
                let known = test.operands().into_iter().filter_map(|operand| self.of_operand(operand));
                known.for_each(|one| all.add(one));
                named(all)
            }
        };
        (!fits).then(|| format!("`{path}` is {}, and is compared with {compared}", named(kinds)))
    }

    /// Why tests of one field, all of which a document must pass, exclude each other.
    fn excluded(self, all: &[Filter<Operand>]) -> Option<String> {
        let mut tests: Vec<(&FieldPath, &Test<Operand>)> = Vec::new();
        all.iter().for_each(|filter| flat(filter, &mut tests));
        tests.retain(|(path, _)| !self.own.kinds(path).list);
        let pairs =
            tests.iter().enumerate().flat_map(|(at, one)| tests[at + 1..].iter().map(move |other| (one, other)));
        let mut excluded = pairs.filter(|(one, other)| one.0 == other.0 && exclude(one.1, other.1));
        excluded.next().map(|((path, _), _)| format!("no value of `{path}` passes all of its tests"))
    }
}

/// The tests that all documents of a filter pass.
fn flat<'f>(filter: &'f Filter<Operand>, tests: &mut Vec<(&'f FieldPath, &'f Test<Operand>)>) {
    match filter {
        Filter::All(all) => all.iter().for_each(|one| flat(one, tests)),
        Filter::Field(path, test) => tests.push((path, test)),
        Filter::Any(_) => {}
    }
}

/// Whether no value passes both tests.
fn exclude(one: &Test<Operand>, other: &Test<Operand>) -> bool {
    match (one, other) {
        (Test::Exists(a), Test::Exists(b)) => a != b,
        (Test::Exists(exists), _) | (_, Test::Exists(exists)) => !exists,
        (Test::In(values), test) | (test, Test::In(values)) => {
            let constants: Option<Vec<&FieldValue>> = values.iter().map(constant).collect();
            constants.is_some_and(|values| values.iter().all(|value| passes(value, test) == Some(false)))
        }
        (one, other) => {
            let ((low, high), (other_low, other_high)) = (bounds(one), bounds(other));
            beyond(low, other_high) || beyond(other_low, high)
        }
    }
}

fn constant(operand: &Operand) -> Option<&FieldValue> {
    match operand {
        Operand::Constant(value) => Some(value),
        Operand::Document(_) => None,
    }
}

/// A bound of values, and whether it is one of them.
type Bound<'v> = Option<(&'v FieldValue, bool)>;

/// The least and the greatest value that pass a test, where they are constant.
fn bounds(test: &Test<Operand>) -> (Bound<'_>, Bound<'_>) {
    let at = |operand, included| constant(operand).map(|value| (value, included));
    match test {
        Test::Gt(low) => (at(low, false), None),
        Test::Gte(low) => (at(low, true), None),
        Test::Lt(high) => (None, at(high, false)),
        Test::Lte(high) => (None, at(high, true)),
        Test::Between(low, high) => (at(low, true), at(high, true)),
        Test::In(_) | Test::Prefix(_) | Test::Exists(_) => (None, None),
    }
}

/// Whether no value is above the one and below the other.
fn beyond(low: Bound<'_>, high: Bound<'_>) -> bool {
    let Some(((low, with_low), (high, with_high))) = low.zip(high) else { return false };
    match order(low, high) {
        None | Some(Ordering::Greater) => true,
        Some(Ordering::Equal) => !(with_low && with_high),
        Some(Ordering::Less) => false,
    }
}

/// Whether a value passes a test; `None` where that depends on the operation's record.
fn passes(value: &FieldValue, test: &Test<Operand>) -> Option<bool> {
    if let Test::In(values) = test {
        let equal = |other: &Operand| Some(order(value, constant(other)?) == Some(Ordering::Equal));
        let each: Option<Vec<bool>> = values.iter().map(equal).collect();
        return each.map(|each| each.contains(&true));
    }
    if let Test::Prefix(prefix) = test {
        return Some(match (value, constant(prefix)?) {
            (FieldValue::Text(value), FieldValue::Text(prefix)) => value.starts_with(prefix.as_str()),
            _ => false,
        });
    }
    let at = Some((value, true));
    let (low, high) = bounds(test);
    let known = test.operands().into_iter().all(|operand| constant(operand).is_some());
    (known || beyond(low, at) || beyond(at, high)).then(|| !beyond(low, at) && !beyond(at, high))
}

/// The order of two values of one kind.
fn order(a: &FieldValue, b: &FieldValue) -> Option<Ordering> {
    match (a, b) {
        (FieldValue::Null, FieldValue::Null) => Some(Ordering::Equal),
        (FieldValue::Bool(a), FieldValue::Bool(b)) => Some(a.cmp(b)),
        (FieldValue::Int(a), FieldValue::Int(b)) => Some(a.cmp(b)),
        (FieldValue::Float(a), FieldValue::Float(b)) => a.partial_cmp(b),
        // Rounded: a warning may be missed where two numbers differ by less.
        (FieldValue::Int(a), FieldValue::Float(b)) => (*a as f64).partial_cmp(b),
        (FieldValue::Float(a), FieldValue::Int(b)) => a.partial_cmp(&(*b as f64)),
        (FieldValue::Text(a), FieldValue::Text(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Whether values of one kind may be on both sides. Items of a list may be of any kind.
fn common(field: Kinds, value: Kinds) -> bool {
    value.list
        || field.null && value.null
        || field.flag && value.flag
        || field.number && value.number
        || field.text && value.text
}

/// `a number or a text`.
fn named(kinds: Kinds) -> String {
    let all = [
        (kinds.null, "null"),
        (kinds.flag, "`true` or `false`"),
        (kinds.number, "a number"),
        (kinds.text, "a text"),
        (kinds.fields, "a table of fields"),
    ];
    let names: Vec<&str> = all.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
    if names.is_empty() { "missing".to_owned() } else { names.join(" or ") }
}

#[cfg(test)]
mod tests {
    use crate::tests::sound;
    use crate::warnings::warnings;

    fn of(query: &str) -> Vec<(usize, String)> {
        let text = format!(
            "[data]\nrecords = 9\n[data.document]\nid = \"k{{i}}\"\nstep = {{ sequence = 0 }}\nodd = {{ cycle = [true, 1, \"x\"] }}\n\
             some = {{ sequence = 0, present = \"50%\" }}\ntags = {{ list = {{ words = 1 }}, items = [0, 2] }}\n[store]\nengine = \"lmdb\"\n\
             [[phase]]\nname = \"q\"\nfind.query = [{{}}, {query}]\n"
        );
        warnings(&sound(&text), &|_| false).into_iter().map(|found| (found.line, found.message)).collect()
    }

    #[test]
    fn queries_that_no_document_can_match_are_warned_about() {
        for (test, why) in [
            ("step = { prefix = \"a\" }", "`step` is a number, and is compared with a text"),
            ("step = { gte = \"5\" }", "`step` is a number, and is compared with a text"),
            ("step = \"{doc.id}\"", "`step` is a number, and is compared with a text"),
            ("id = { in = [1, true] }", "`id` is a text, and is compared with `true` or `false` or a number"),
            ("step = { between = [5, 3] }", "the first value of `between` for `step` is above the second"),
            ("step = { gt = 5, lt = 5 }", "no value of `step` passes all of its tests"),
            ("step = { gte = 7, lte = 6.5 }", "no value of `step` passes all of its tests"),
            ("and = [{ step = 1 }, { step = { in = [2, 3] } }]", "no value of `step` passes all of its tests"),
            ("id = { eq = \"k1\", prefix = \"j\" }", "no value of `id` passes all of its tests"),
            ("step = { exists = false }", "each document has the field `step`"),
            ("some = { exists = false, gt = 3 }", "no value of `some` passes all of its tests"),
            ("or = [{ step = \"a\" }, { id = 1 }]", "`step` is a number, and is compared with a text"),
        ] {
            let wanted = vec![(13, format!("this query never finds a document: {why}"))];
            assert_eq!(of(&format!("{{ where = {{ {test} }} }}")), wanted, "{test}");
        }
        let all = "`select` is empty, which returns all fields".to_owned();
        assert_eq!(of("{ select = [] }"), [(13, all)]);
    }

    #[test]
    fn queries_that_some_document_may_match_are_not() {
        for test in [
            "step = { gte = 5, lte = 5 }",
            "step = { gt = 5, lt = \"{doc.step}\" }",
            "odd = { in = [true, 7] }",
            "odd = { prefix = \"a\" }",
            "some = { exists = false }",
            "tags = 5",
            "tags = { gt = \"b\", lt = \"a\" }",
            "step = { in = [1, \"a\"] }",
            "or = [{ step = \"a\" }, { step = 1 }]",
            "step = { in = [1, 9], gt = 5 }",
            "step = \"{doc.odd}\"",
        ] {
            assert_eq!(of(&format!("{{ where = {{ {test} }} }}")), [], "{test}");
        }
    }
}
