//! Checks a tree of values against the declared form and collects faults.

use super::calendar;
use super::examples;
use super::grammar;
use super::node::{Entry, Node, Value, via};
use super::placeholder::{self, Filled, OfRecord, Scope};
use super::problem::{Problem, Problems, known_hint, quoted};
use super::shape::{Need, Shape, TableShape};
use prony_model::units::{Nanos, parse_bytes, parse_fraction, parse_rate, parse_time};

/// How placeholders are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holes {
    /// Placeholders mean nothing here.
    None,
    /// As written: a text with placeholders may stand for any value.
    Open,
    /// Factors have been filled in: every value must fit.
    Filled,
}

/// A walk over a part of the file.
pub(crate) struct Walk<'p, 't> {
    pub(crate) problems: &'p mut Problems<'t>,
    /// The file's text.
    pub(crate) file: &'p str,
    /// The names of the factors.
    pub(crate) factors: &'p [String],
    pub(crate) holes: Holes,
}

impl Walk<'_, '_> {
    /// Checks the value of `key` against its shape.
    pub(crate) fn value(&mut self, key: &str, node: &Node, shape: &Shape) {
        if self.is_open(node, shape) {
            return self.braces(node, OfRecord::Nothing);
        }
        match shape {
            Shape::Any => {}
            Shape::Either(shapes) => self.either(key, node, shapes),
            Shape::List(item) => match node.list() {
                Some(items) => items.iter().for_each(|one| self.value(key, one, item)),
                None => self.mismatch(key, node, shape),
            },
            Shape::Pair(item) => match node.list() {
                Some(items) if items.len() == 2 => items.iter().for_each(|one| self.value(key, one, item)),
                _ => self.mismatch(key, node, shape),
            },
            Shape::Map(value) => match node.table() {
                Some(entries) => entries.iter().for_each(|entry| self.value(&entry.key, &entry.node, value)),
                None => self.mismatch(key, node, shape),
            },
            Shape::Table(table) => self.table(key, node, table),
            Shape::Field(generator) => self.field(key, node, shape, generator),
            Shape::Filter(test) => self.filter(key, node, test),
            Shape::Operand => match &node.value {
                Value::Text(_) => self.braces(node, OfRecord::Document),
                Value::Flag(_) | Value::Whole(_) | Value::Date(_) => {}
                Value::Number(number) if number.is_finite() => {}
                _ => self.mismatch(key, node, shape),
            },
            Shape::Scalar if self.holes != Holes::None && node.text().is_some() => self.braces(node, OfRecord::Nothing),
            Shape::Text | Shape::Template | Shape::Request if node.text().is_some() => {
                let of = match shape {
                    Shape::Template => OfRecord::Number,
                    Shape::Request => OfRecord::Request,
                    _ => OfRecord::Nothing,
                };
                self.braces(node, of);
            }
            Shape::Word(words) => self.word(key, node, words, &[]),
            Shape::Time | Shape::Span | Shape::Bytes | Shape::Rate | Shape::Share => self.quantity(key, node, shape),
            _ if fits(node, shape) => {}
            _ => self.mismatch(key, node, shape),
        }
    }

    /// Whether the value is a text whose placeholders may still become anything, or have faults themselves.
    fn is_open(&self, node: &Node, shape: &Shape) -> bool {
        let text = matches!(
            shape,
            Shape::Plain
                | Shape::Text
                | Shape::Template
                | Shape::Request
                | Shape::Any
                | Shape::Field(_)
                | Shape::Filter(_)
                | Shape::Operand
                | Shape::Either(_)
        );
        let is_word = matches!(shape, Shape::Word(words) if words.iter().any(|(word, _)| node.text() == Some(word)));
        !text && !is_word && self.holes != Holes::None && has_factor(node, self.factors)
    }

    /// A table with an action of `generator` is a generator; any other table has fields inside.
    fn field(&mut self, key: &str, node: &Node, shape: &Shape, generator: &'static TableShape) {
        match &node.value {
            Value::Text(_) => self.braces(node, OfRecord::Number),
            Value::List(items) => items.iter().for_each(|item| self.value(key, item, shape)),
            Value::Table(_) if is_generator(node, generator) => self.table(key, node, generator),
            Value::Table(entries) => entries.iter().for_each(|entry| self.value(&entry.key, &entry.node, shape)),
            Value::Number(number) if !number.is_finite() => self.mismatch(key, node, shape),
            Value::Date(_) => self.mismatch(key, node, shape),
            Value::Flag(_) | Value::Whole(_) | Value::Number(_) => {}
        }
    }

    /// Fields, and under `and` and `or` lists of tables of fields.
    fn filter(&mut self, key: &str, node: &Node, test: &'static TableShape) {
        let Some(entries) = node.table() else {
            return match self.may_be_filled(node) {
                true => self.braces(node, OfRecord::Nothing),
                false => self.mismatch(key, node, &Shape::Filter(test)),
            };
        };
        for entry in entries {
            match (entry.key.as_str(), entry.node.list()) {
                ("and" | "or", Some(filters)) => {
                    filters.iter().for_each(|filter| self.filter(&entry.key, filter, test));
                }
                ("and" | "or", None) if self.may_be_filled(&entry.node) => self.braces(&entry.node, OfRecord::Nothing),
                ("and" | "or", None) => self.mismatch(&entry.key, &entry.node, &Shape::List(&Shape::Map(&Shape::Any))),
                _ => self.tested(&entry.key, &entry.node, test),
            }
        }
    }

    /// A value of a field, a table with tests of it, or fields inside.
    fn tested(&mut self, key: &str, node: &Node, test: &'static TableShape) {
        match node.table() {
            None => self.value(key, node, &Shape::Operand),
            Some(_) if is_test(node, test) => self.table(key, node, test),
            Some(_) => self.filter(key, node, test),
        }
    }

    /// Whether a level may come in the text's place.
    fn may_be_filled(&self, node: &Node) -> bool {
        self.holes == Holes::Open && has_factor(node, self.factors)
    }

    fn either(&mut self, key: &str, node: &Node, shapes: &'static [Shape]) {
        let fits_kind = |shape: &&Shape| match shape {
            Shape::Table(_) | Shape::Map(_) => node.table().is_some(),
            Shape::List(_) | Shape::Pair(_) => node.list().is_some(),
            // A number that is not whole, or a text, may be a share; a text may be a word.
            Shape::Whole(..) if shapes.iter().any(|other| matches!(other, Shape::Share | Shape::Word(_))) => {
                matches!(node.value, Value::Whole(_))
            }
            _ => node.table().is_none() && node.list().is_none(),
        };
        match shapes.iter().find(fits_kind) {
            Some(shape @ Shape::Word(words)) if !self.is_open(node, shape) => self.word(key, node, words, shapes),
            Some(shape) => self.value(key, node, shape),
            None if self.holes != Holes::None && has_factor(node, self.factors) => self.braces(node, OfRecord::Nothing),
            None => self.mismatch(key, node, &Shape::Either(shapes)),
        }
    }

    fn table(&mut self, key: &str, node: &Node, shape: &'static TableShape) {
        let Some(entries) = node.table() else {
            return self.mismatch(key, node, &Shape::Table(shape));
        };
        let mut unknown = 0;
        for entry in entries {
            match (shape.field(&entry.key), shape.rest) {
                (Some(field), _) => self.value(&entry.key, &entry.node, &field.shape),
                (None, Some(rest)) => self.value(&entry.key, &entry.node, rest),
                (None, None) => {
                    unknown += 1;
                    self.unknown_key(node, entry, shape);
                }
            }
        }
        if unknown == 0 {
            self.complete(node, shape);
        }
    }

    /// Reports a key that the table does not have.
    pub(crate) fn unknown_key(&mut self, table: &Node, entry: &Entry, shape: &'static TableShape) {
        let hint = known_hint(&entry.key, shape.all().map(|field| field.name));
        let problem = Problem::new(entry.key_span.clone(), format!("unknown key `{}`", entry.key));
        self.problems.add_harmless(via(table, problem.maybe_hint(hint)));
    }

    /// Checks that required keys are there, and exactly one action where there are any.
    pub(crate) fn complete(&mut self, node: &Node, shape: &'static TableShape) {
        let owner = if shape.name == grammar::ROOT.name { "the file".to_owned() } else { format!("`{}`", shape.name) };
        let missing = shape.all().filter(|field| field.need == Need::Required && node.get(field.name).is_none());
        for field in missing {
            self.problems.fault(node, format!("{owner} needs the key `{}`", field.name), lower(field.doc));
        }
        let actions = shape.actions();
        let mut present = actions.iter().filter_map(|name| node.entry(name));
        match (present.next(), present.next()) {
            (None, _) if !actions.is_empty() => self.needs_one_of(&actions, node, shape),
            (Some(first), Some(second)) => {
                let message = format!("`{}` takes one of `{}` and `{}`, not both", shape.name, first.key, second.key);
                let problem = Problem::new(second.key_span.clone(), message);
                self.problems.add(problem.label(&first.key_span, format!("`{}` stands", first.key)));
            }
            _ => {}
        }
        let some = shape.some();
        if !some.is_empty() && !some.iter().any(|name| node.entry(name).is_some()) {
            self.needs_one_of(&some, node, shape);
        }
    }

    fn needs_one_of(&mut self, keys: &[&str], node: &Node, shape: &TableShape) {
        self.problems.add(Problem::new(node, format!("`{}` needs one of {}", shape.name, quoted(keys))));
    }

    fn braces(&mut self, node: &Node, of: OfRecord) {
        let filled = match (self.holes, &node.via) {
            (Holes::Filled, Some(_)) => Filled::Level,
            (Holes::Filled, None) => Filled::Text,
            _ => Filled::No,
        };
        let scope = Scope { factors: self.factors, filled, of };
        for problem in placeholder::faults(node, self.file, scope) {
            self.problems.add(via(node, problem));
        }
    }

    /// Checks that a text is one of these words; a hint names forms of the other `shapes` that the key takes, too.
    fn word(&mut self, key: &str, node: &Node, words: &'static [(&'static str, &'static str)], shapes: &[Shape]) {
        let Some(text) = node.text() else { return self.mismatch(key, node, &Shape::Word(words)) };
        if !words.iter().any(|(word, _)| *word == text) {
            let forms = shapes.iter().filter(|shape| !matches!(shape, Shape::Word(_))).map(examples::of_shape);
            let forms: Vec<String> = forms.collect();
            let known = words.iter().map(|(word, _)| *word).chain(forms.iter().map(String::as_str));
            let known = known_hint(text, known);
            let hint = match key {
                "runtime" => known.map(|hint| format!("{hint} (programs of other languages need no `runtime`)")),
                _ => known,
            };
            self.problems.add(Problem::new(node, format!("`{key}` cannot be `{text}`")).maybe_hint(hint));
        }
    }

    fn quantity(&mut self, key: &str, node: &Node, shape: &Shape) {
        let text = match &node.value {
            Value::Text(_) => node.quantity(),
            Value::Whole(_) | Value::Number(_) if !matches!(shape, Shape::Time | Shape::Span) => node.quantity(),
            _ => return self.mismatch(key, node, shape),
        };
        let text = text.unwrap_or_default();
        let fault = match shape {
            Shape::Time | Shape::Span => match parse_time(&text) {
                Ok(time) if time == Nanos::ZERO && matches!(shape, Shape::Span) => {
                    let problem = Problem::new(node.span.clone(), format!("`{key}` cannot be zero"));
                    return self.problems.add(via(node, problem.hint(format!("expected {}", shape.words()))));
                }
                read => read.err(),
            },
            Shape::Bytes => parse_bytes(&text).err(),
            Shape::Rate => parse_rate(&text).err(),
            _ => parse_fraction(&text).err(),
        };
        if let Some(fault) = fault {
            let hint = match &node.value {
                Value::Whole(percent @ 2..=100) if matches!(shape, Shape::Share) => {
                    format!("for {percent} percent: `\"{percent}%\"`")
                }
                _ => format!("expected {}", shape.words()),
            };
            self.problems.fault(node, format!("`{key}`: {fault}"), hint);
        }
    }

    fn mismatch(&mut self, key: &str, node: &Node, shape: &Shape) {
        let message = match &node.value {
            Value::Whole(_) | Value::Number(_) | Value::Flag(_) => format!("`{key}` cannot be `{}`", node.label()),
            Value::Text(text) => format!("`{key}` cannot be the text `{text}`"),
            Value::Date(date) => format!("`{key}` cannot be the date `{date}`"),
            _ => format!("`{key}` cannot be {}", node.kind()),
        };
        let words = shape.words();
        let is_number = |text: &str| text.replace('_', "").parse::<f64>().is_ok();
        let hint = match &node.value {
            Value::Text(text) if words.contains("number") && is_number(text) => {
                format!("leave out the quotes: expected {words}")
            }
            _ => format!("expected {words}"),
        };
        self.problems.fault(node, message, hint);
    }
}

/// A sentence of the declaration as a hint: lower-case start, no full stop.
fn lower(doc: &str) -> String {
    let mut chars = doc.trim_end_matches('.').chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Whether a text has a placeholder of a factor, or braces that do not fit.
fn has_factor(node: &Node, factors: &[String]) -> bool {
    let is_factor = |part: &placeholder::Part| match part {
        placeholder::Part::Hole(name, _) => {
            let head = placeholder::head(name);
            head != "i" || factors.iter().any(|factor| factor == head)
        }
        placeholder::Part::Text(_) => false,
    };
    node.text().is_some_and(|text| placeholder::split(text).is_ok_and(|parts| parts.iter().any(is_factor)))
}

/// Whether a table of a document's field describes how its values are made, and is not itself the value.
pub(crate) fn is_generator(node: &Node, generator: &TableShape) -> bool {
    generator.actions().iter().any(|action| node.entry(action).is_some())
}

/// Whether a table tests a field, and does not name fields inside.
pub(crate) fn is_test(node: &Node, test: &TableShape) -> bool {
    test.all().any(|field| node.entry(field.name).is_some())
}

fn fits(node: &Node, shape: &Shape) -> bool {
    match (shape, &node.value) {
        (Shape::Plain | Shape::Text | Shape::Template | Shape::Request, Value::Text(_))
        | (Shape::Flag, Value::Flag(_)) => true,
        (Shape::Whole(min, max), Value::Whole(n)) => u64::try_from(*n).is_ok_and(|n| (*min..=*max).contains(&n)),
        (Shape::Integer, Value::Whole(_)) => true,
        (Shape::Date, Value::Date(text) | Value::Text(text)) => calendar::seconds(text).is_some(),
        (Shape::Positive, _) => node.number().is_some_and(|x| x.is_finite() && x > 0.0),
        (Shape::Between(min, max), _) => node.number().is_some_and(|x| (*min..=*max).contains(&x)),
        (Shape::Scalar, Value::Number(number)) => number.is_finite(),
        (Shape::Scalar, value) => !matches!(value, Value::List(_) | Value::Table(_) | Value::Date(_)),
        _ => false,
    }
}
