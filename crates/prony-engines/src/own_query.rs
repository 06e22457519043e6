//! Queries in an engine's own language.

use prony_model::query::{Filter, Operand, QuerySpec};
use prony_model::spec::{DocumentSpec, FieldValue};

/// A query in an engine's own language.
#[derive(Clone, Debug)]
pub struct OwnQuery {
    /// The text, the same for every operation; empty where all of it is in what is bound.
    pub text: String,
    /// What an operation binds, in order.
    pub bound: Vec<Bound>,
}

/// What is bound for an operand, or for all of them.
#[derive(Clone, Debug)]
pub enum Bound {
    /// Its value if it is of this kind, else null.
    Of(Operand, Kind),
    /// Its value, but null for lists and nested fields.
    Any(Operand),
    /// Its value.
    Whole(Operand),
    /// Its value as JSON, but null for lists and nested fields, and for what no document has that is stored by its values.
    Json(Operand),
    /// If it is text, the least text above all that begin with it; U+10FFFF where there is none, below which such documents are.
    Above(Operand),
    /// Which kind it is: 1 null, 2 flag, 3 number, 4 text; 9 for what has no order.
    Rank(Operand),
    /// The whole query, in the language of an engine whose queries are values and no text.
    Command(Box<Command>),
}

/// A query that is built for each operation.
#[derive(Clone, Debug)]
pub struct Command {
    /// What is asked for.
    pub query: QuerySpec,
    /// The documents.
    pub document: DocumentSpec,
    /// Where the engine has them.
    pub collection: String,
    /// Builds it with the filter in which the operation's values stand.
    pub build: fn(&Self, &Filter<FieldValue>) -> FieldValue,
}

/// A kind of values that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A number.
    Number,
    /// Text.
    Text,
}

impl Bound {
    /// What is bound in an operation; `value` gives the value of an operand, and `filter` has them all in place.
    pub(crate) fn value(&self, filter: &Filter<FieldValue>, value: impl Fn(&Operand) -> FieldValue) -> FieldValue {
        match self {
            Self::Command(command) => (command.build)(command, filter),
            Self::Of(operand, kind) => {
                let value = value(operand);
                let fits = match &value {
                    FieldValue::Bool(_) => *kind == Kind::Flag,
                    FieldValue::Int(_) | FieldValue::Float(_) => *kind == Kind::Number,
                    FieldValue::Text(_) => *kind == Kind::Text,
                    _ => false,
                };
                if fits { value } else { FieldValue::Null }
            }
            Self::Any(operand) => match value(operand) {
                FieldValue::List(_) | FieldValue::Fields(_) => FieldValue::Null,
                value => value,
            },
            Self::Whole(operand) => value(operand),
            Self::Json(operand) => match value(operand) {
                FieldValue::List(_) | FieldValue::Fields(_) => FieldValue::Null,
                FieldValue::Text(text) if text.contains('\0') => FieldValue::Null,
                FieldValue::Float(number) => FieldValue::Text(decimal(number)),
                value => FieldValue::Text(serde_json::to_string(&value).unwrap_or_default()),
            },
            Self::Above(operand) => match value(operand) {
                FieldValue::Text(text) => FieldValue::Text(above(&text).unwrap_or_else(|| char::MAX.to_string())),
                _ => FieldValue::Null,
            },
            Self::Rank(operand) => FieldValue::Int(match value(operand) {
                FieldValue::Null => 1,
                FieldValue::Bool(_) => 2,
                FieldValue::Int(_) | FieldValue::Float(_) => 3,
                FieldValue::Text(_) => 4,
                FieldValue::List(_) | FieldValue::Fields(_) => 9,
            }),
        }
    }
}

/// A number as a decimal. A whole one has all its digits: the shortest decimal for which a float is the nearest is another number
/// above 2^53, which whole numbers may lie between.
pub(crate) fn decimal(number: f64) -> String {
    // As documents write it: of a tie, other formatters may take the other of two decimals that are as short.
    if number.fract() == 0.0 { format!("{number:.0}") } else { serde_json::to_string(&number).unwrap_or_default() }
}

/// A step of a plan, with the index that it uses, before those that it reads from.
pub(crate) fn plan_step(step: Option<&str>, index: Option<&str>, inputs: &[String]) -> String {
    let step = step.unwrap_or("?");
    let index = index.map(|name| format!(" ({name})")).unwrap_or_default();
    match inputs {
        [] => format!("{step}{index}"),
        [input] => format!("{step}{index} of {input}"),
        several => format!("{step}{index} of [{}]", several.join(", ")),
    }
}

/// The least text above all that begin with this one; `None` where all above it begin so.
pub(crate) fn above(prefix: &str) -> Option<String> {
    let mut prefix = prefix.to_owned();
    while let Some(last) = prefix.pop() {
        // Surrogates are no characters.
        let next = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            prefix.push(next);
            return Some(prefix);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_those_of_documents_also_of_ties() {
        // Each lies in the midst of two decimals that are as short.
        for number in [2f64.powi(-25), 2f64.powi(50) + 0.25, 667_020_902_720_176.0 + 0.25, 0.1, -1e-7] {
            assert_eq!(decimal(number), serde_json::to_string(&number).unwrap());
        }
        assert_eq!(decimal(1e20), "100000000000000000000", "documents have no such number");
    }

    #[test]
    fn least_text_above_a_beginning_skips_surrogates() {
        assert_eq!(above("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(above("\u{D7FF}").as_deref(), Some("\u{E000}"));
        assert_eq!(above("\u{10FFFF}"), None);
        assert_eq!(above(""), None);
    }

    #[test]
    fn decimals_have_the_value_of_the_float() {
        assert_eq!(decimal(1_234_567_890_123_456_768.0), "1234567890123456768");
        assert_eq!(decimal(-0.0), "-0");
        assert_eq!(decimal(1.5e-300), "1.5e-300");
    }
}
