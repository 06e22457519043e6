//! A bound that a setting must respect: `source.rss.peak < 600 MB`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use prony_experiment::design::Expr;
use prony_experiment::expr::{self, ExprError};
use prony_model::metric::MetricName;
use prony_model::reading::Reading;
use prony_model::units::{Dimension, QuantityError, Unit, parse_bytes, parse_fraction, parse_rate, parse_time};

/// A bound on an expression over metrics. It is displayed as it was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Constraint {
    text: String,
    expr: Expr,
    relation: Relation,
    /// The bound, in the unit in which values of this dimension are stored.
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Longer ones first: `<=` begins with `<`.
const RELATIONS: [(&str, Relation); 4] =
    [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Below), (">", Relation::Above)];

/// Why a text is not a constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// The text has no relation sign.
    #[error(
        "`{0}` is not a bound; write a metric, then `<`, `<=`, `>` or `>=`, then a quantity, such as `source.rss.peak \
         < 600 MB`"
    )]
    Form(String),
    /// The left side is not an expression.
    #[error(transparent)]
    Expr(#[from] ExprError),
    /// The right side is not a quantity of the same dimension.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

impl Constraint {
    /// The names of all metrics in the expression.
    pub fn metrics(&self) -> Vec<&MetricName> {
        expr::metrics(&self.expr)
    }

    /// The value that is bounded, in the stored unit of its dimension.
    pub fn value(&self, lookup: &mut dyn FnMut(&MetricName) -> Reading<f64>) -> Reading<f64> {
        expr::evaluate(&self.expr, lookup)
    }

    /// Whether a value respects it.
    pub fn is_met(&self, value: f64) -> bool {
        match self.relation {
            Relation::Below => value < self.bound,
            Relation::AtMost => value <= self.bound,
            Relation::Above => value > self.bound,
            Relation::AtLeast => value >= self.bound,
        }
    }

    /// The one of two values that is nearer to violating it, or further beyond its bound.
    pub const fn worse(&self, a: f64, b: f64) -> f64 {
        match self.relation {
            Relation::Below | Relation::AtMost => a.max(b),
            Relation::Above | Relation::AtLeast => a.min(b),
        }
    }

    /// The bounded expression.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The unit of its value.
    pub fn unit(&self) -> Unit {
        // Checked when it was parsed.
        expr::dimension(&self.expr).map_or(Unit::Ratio, Dimension::unit)
    }
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        let form = || ConstraintError::Form(text.to_owned());
        let (sign, relation) = RELATIONS.into_iter().find(|(sign, _)| text.contains(sign)).ok_or_else(form)?;
        let (left, right) = text.split_once(sign).ok_or_else(form)?;
        let expr = expr::parse(left)?;
        let bound = bound(expr::dimension(&expr)?, right.trim())?;
        Ok(Self { text: text.trim().to_owned(), expr, relation, bound })
    }
}

fn bound(dimension: Dimension, text: &str) -> Result<f64, QuantityError> {
    // Elsewhere a bare number is bytes, or a rate per second: `disk < 100` was a bound of 100 bytes.
    let kind = match dimension {
        Dimension::Unit(Unit::Bytes) => Some("memory or storage"),
        Dimension::BytesPerSecond => Some("memory or storage per second"),
        Dimension::Unit(Unit::PerSecond) => Some("rate"),
        Dimension::Unit(_) => None,
    };
    if let Some(kind) = kind.filter(|_| !text.contains(|c: char| c.is_alphabetic() || c == '/')) {
        let known = match dimension {
            Dimension::Unit(Unit::PerSecond) => "/s, /min".to_owned(),
            _ => dimension.unit_names().join(", "),
        };
        return Err(QuantityError::NoUnit { number: text.to_owned(), kind, known });
    }
    let plain = || text.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
    Ok(match dimension {
        Dimension::Unit(Unit::Nanos) => parse_time(text)?.as_nanos() as f64,
        Dimension::Unit(Unit::Bytes) => parse_bytes(text)?.as_bytes() as f64,
        Dimension::Unit(Unit::PerSecond) => parse_rate(text)?.get(),
        Dimension::BytesPerSecond => parse_bytes(text.strip_suffix("/s").unwrap_or(text).trim())?.as_bytes() as f64,
        Dimension::Unit(Unit::Ratio) if text.ends_with('%') => parse_fraction(text)?.get(),
        Dimension::Unit(Unit::Ratio | Unit::Count) => plain().ok_or_else(|| QuantityError::Number(text.to_owned()))?,
    })
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Constraint> for String {
    fn from(constraint: Constraint) -> Self {
        constraint.text
    }
}

impl TryFrom<String> for Constraint {
    type Error = ConstraintError;

    fn try_from(text: String) -> Result<Self, ConstraintError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::reading::Why;

    fn constraint(text: &str) -> Constraint {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn bounds_are_read_in_the_unit_of_what_they_bound() {
        for (text, bound) in [
            ("source.rss.peak < 600 MB", 6e8),
            ("source.time + persist.time <= 1.5 s", 1.5e9),
            ("write.rate >= 5_000/s", 5000.0),
            ("write.written / write.time < 20 MB/s", 2e7),
            ("write.fsyncs <= 12", 12.0),
            ("write.fsyncs / write.operations < 1%", 0.01),
        ] {
            assert_eq!(constraint(text).bound, bound, "{text}");
            let json = serde_json::to_string(&constraint(text)).unwrap();
            assert_eq!(serde_json::from_str::<Constraint>(&json).unwrap(), constraint(text));
        }
    }

    #[test]
    fn a_value_keeps_it_or_not_and_a_missing_one_is_neither() {
        let memory = constraint("source.rss.peak < 600 MB");
        assert!(memory.is_met(599e6) && !memory.is_met(600e6));
        assert!(constraint("source.rss.peak <= 600 MB").is_met(600e6));
        assert!(constraint("source.rate > 10/s").is_met(11.0) && !constraint("source.rate >= 10/s").is_met(9.9));
        assert_eq!((memory.worse(0.0, 7e6), memory.worse(-1.0, -2.0)), (7e6, -1.0));
        assert_eq!(constraint("source.rate >= 10/s").worse(5.0, 20.0), 5.0);
        let missing = memory.value(&mut |_| Reading::Missing(Why::NotReached));
        assert_eq!(missing, Reading::Missing(Why::NotReached));
        assert_eq!(memory.metrics()[0].to_string(), "source.rss.peak");
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Constraint>().unwrap_err().to_string();
        assert!(error("source.rss.peak 600 MB").contains("is not a bound"));
        assert!(error("source.rss.peek < 1").contains("`rss.peek` is not a metric"));
        assert!(error("source.rss.peak < 600 ms").contains("not a unit of memory"));
        for (text, kind) in [
            ("source.time < 600", "time"),
            ("source.disk < 100", "memory or storage"),
            ("source.disk < 1_000.5", "memory or storage"),
            ("source.rate > 10", "rate"),
            ("source.written / source.time < 20", "memory or storage per second"),
        ] {
            assert!(error(text).contains(&format!("has no unit of {kind}; known: ")), "{}", error(text));
        }
        assert_eq!(error("source.time + source.rss.end < 1 s"), "a time + an amount of bytes has no meaning");
    }
}
