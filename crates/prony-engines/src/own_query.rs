//! Queries in an engine's own language.

use prony_model::query::Operand;
use prony_model::spec::FieldValue;

/// A query in an engine's own language.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnQuery {
    /// The text, the same for every operation.
    pub text: String,
    /// What an operation binds, in order.
    pub bound: Vec<Bound>,
}

/// What is bound for an operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Its value if it is of this kind, else null.
    Of(Operand, Kind),
    /// Its value, but null for lists and nested fields.
    Any(Operand),
    /// Its value.
    Whole(Operand),
    /// Which kind it is: 1 null, 2 flag, 3 number, 4 text; 9 for what has no order.
    Rank(Operand),
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
    /// What is bound in an operation; `value` gives the value of an operand.
    pub(crate) fn value(&self, value: impl Fn(&Operand) -> FieldValue) -> FieldValue {
        match self {
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
