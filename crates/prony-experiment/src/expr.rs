//! Expressions over metrics, as table cells contain them: `source.time + persist.time`.
//!
//! `+ - * /` with the usual precedence, parentheses, numbers and metric names. A phase's name may
//! hold spaces and hyphens, so a `-` is an operator only beside a space or a parenthesis.

use prony_model::metric::MetricName;
use prony_model::reading::{Reading, Why};
use prony_model::units::{Dimension, Unit};

use super::design::{CellPart, Experiment, Expr, Operator};

/// Parentheses within parentheses, at most.
const DEEPEST: usize = 64;

/// Operators, at most: the results are JSON, which is read to 128 levels, and each operator may take two.
const MOST: usize = 50;

/// Why a text is not an expression, or an expression has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// A metric, number or `(` should be here.
    #[error("expected a metric such as `write.time`, a number or `(`, found {0}")]
    Operand(String),
    /// Something is left over.
    #[error("expected an operator or the end, found {0}")]
    Operator(String),
    /// A parenthesis is not closed.
    #[error("`(` is not closed")]
    Unclosed,
    /// Too many parentheses within parentheses.
    #[error("parentheses are nested more than 64 deep")]
    Deep,
    /// Too many operators.
    #[error("an expression has at most 50 operators")]
    Long,
    /// A metric's name is wrong.
    #[error(transparent)]
    Metric(#[from] prony_model::metric::MetricError),
    /// Two kinds of values that this operator cannot combine.
    #[error("{left} {operator} {right} has no meaning")]
    Dimension {
        /// The left side: `a time`.
        left: &'static str,
        /// The operator as written.
        operator: &'static str,
        /// The right side.
        right: &'static str,
    },
}

/// Parses an expression.
///
/// # Errors
/// What does not fit; its dimensions are not checked, see [`dimension`].
pub fn parse(text: &str) -> Result<Expr, ExprError> {
    let tokens = tokens(text)?;
    if tokens.iter().filter(|token| matches!(token, Token::Operator(_))).count() > MOST {
        return Err(ExprError::Long);
    }
    let mut parser = Parser { tokens: &tokens, depth: 0 };
    let expr = parser.sum()?;
    match parser.tokens.first() {
        None => Ok(expr),
        Some(token) => Err(ExprError::Operator(token.found())),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Metric(MetricName),
    Operator(Operator),
    Open,
    Close,
}

impl Token {
    fn found(&self) -> String {
        match self {
            Self::Number(number) => format!("`{number}`"),
            Self::Metric(name) => format!("`{name}`"),
            Self::Operator(operator) => format!("`{}`", symbol(*operator)),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, ExprError> {
    let mut tokens = Vec::new();
    let mut word_from = None;
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    for (place, (at, c)) in chars.iter().copied().enumerate() {
        let beside = |offset: Option<usize>| {
            offset.and_then(|at| chars.get(at)).is_none_or(|(_, c)| c.is_whitespace() || matches!(c, '(' | ')'))
        };
        let token = match c {
            '+' => Some(Token::Operator(Operator::Add)),
            '*' => Some(Token::Operator(Operator::Mul)),
            '/' => Some(Token::Operator(Operator::Div)),
            '-' if beside(place.checked_sub(1)) || beside(Some(place + 1)) => Some(Token::Operator(Operator::Sub)),
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            _ => None,
        };
        match token {
            Some(token) => {
                tokens.extend(word(&text[word_from.take().unwrap_or(at)..at])?);
                tokens.push(token);
            }
            None => word_from = word_from.or(Some(at)),
        }
    }
    tokens.extend(word(&text[word_from.unwrap_or(text.len())..])?);
    Ok(tokens)
}

/// A number or a metric's name; nothing where there are only blanks.
fn word(text: &str) -> Result<Option<Token>, ExprError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| text.replace('_', "").parse().ok());
    if let Some(number) = number.flatten().filter(|number: &f64| number.is_finite()) {
        return Ok(Some(Token::Number(number)));
    }
    Ok(Some(Token::Metric(text.parse()?)))
}

struct Parser<'t> {
    tokens: &'t [Token],
    depth: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first.clone())
    }

    fn operator(&mut self, wanted: [Operator; 2]) -> Option<Operator> {
        match self.tokens.first() {
            Some(Token::Operator(operator)) if wanted.contains(operator) => {
                self.tokens = &self.tokens[1..];
                Some(*operator)
            }
            _ => None,
        }
    }

    fn sum(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator([Operator::Add, Operator::Sub]) {
            left = Expr::Binary(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.operand()?;
        while let Some(operator) = self.operator([Operator::Mul, Operator::Div]) {
            left = Expr::Binary(Box::new(left), operator, Box::new(self.operand()?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expr, ExprError> {
        match self.next() {
            Some(Token::Number(number)) => Ok(Expr::Number(number)),
            Some(Token::Metric(name)) => Ok(Expr::Metric(name)),
            Some(Token::Open) if self.depth == DEEPEST => Err(ExprError::Deep),
            Some(Token::Open) => {
                self.depth += 1;
                let inner = self.sum()?;
                self.depth -= 1;
                match self.next() {
                    Some(Token::Close) => Ok(inner),
                    Some(token) => Err(ExprError::Operator(token.found())),
                    None => Err(ExprError::Unclosed),
                }
            }
            Some(token) => Err(ExprError::Operand(token.found())),
            None => Err(ExprError::Operand("the end".to_owned())),
        }
    }
}

const fn symbol(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Sub => "-",
        Operator::Mul => "*",
        Operator::Div => "/",
    }
}

/// The expression as text from which [`parse`] makes the same again.
pub fn print(expr: &Expr) -> String {
    match expr {
        Expr::Metric(name) => name.to_string(),
        Expr::Number(number) => number.to_string(),
        Expr::Binary(left, operator, right) => {
            let inner = |side: &Expr, bracket: bool| if bracket { format!("({})", print(side)) } else { print(side) };
            let weak = |side: &Expr| matches!(side, Expr::Binary(_, Operator::Add | Operator::Sub, _));
            let strong = matches!(operator, Operator::Mul | Operator::Div);
            let right_bracket = matches!(**right, Expr::Binary(..)) && (!strong_side(right) || strong);
            format!("{} {} {}", inner(left, strong && weak(left)), symbol(*operator), inner(right, right_bracket))
        }
    }
}

fn strong_side(expr: &Expr) -> bool {
    matches!(expr, Expr::Binary(_, Operator::Mul | Operator::Div, _))
}

/// The kind of the expression's value.
///
/// # Errors
/// Metrics combined in a way that has no meaning, such as bytes added to seconds.
pub fn dimension(expr: &Expr) -> Result<Dimension, ExprError> {
    match expr {
        Expr::Metric(name) => Ok(Dimension::Unit(name.key.metric.unit())),
        Expr::Number(_) => Ok(Dimension::Unit(Unit::Ratio)),
        Expr::Binary(left, operator, right) => {
            let (left, right) = (dimension(left)?, dimension(right)?);
            let fault = ExprError::Dimension { left: left.words(), operator: symbol(*operator), right: right.words() };
            combined(left, *operator, right).map(|(dimension, _)| dimension).ok_or(fault)
        }
    }
}

/// The dimension of `left operator right`, and the scale of the stored numbers' result: times are in nanoseconds and
/// rates in events per second.
fn combined(left: Dimension, operator: Operator, right: Dimension) -> Option<(Dimension, f64)> {
    use Unit::{Bytes, Count, Nanos, PerSecond, Ratio};
    let unit = Dimension::Unit;
    let plain = |dimension| matches!(dimension, Dimension::Unit(Count | Ratio));
    Some(match (operator, left, right) {
        (Operator::Add | Operator::Sub, l, r) if l == r => (l, 1.0),
        (Operator::Add | Operator::Sub, l, r) if plain(l) && plain(r) => (unit(Count), 1.0),
        (Operator::Mul, Dimension::Unit(Ratio), r) => (r, 1.0),
        (Operator::Mul, l, r) if plain(r) => (l, 1.0),
        (Operator::Mul, Dimension::Unit(Count), r) => (r, 1.0),
        (Operator::Mul, Dimension::Unit(Nanos), Dimension::Unit(PerSecond))
        | (Operator::Mul, Dimension::Unit(PerSecond), Dimension::Unit(Nanos)) => (unit(Count), 1e-9),
        (Operator::Mul, Dimension::Unit(Nanos), Dimension::BytesPerSecond)
        | (Operator::Mul, Dimension::BytesPerSecond, Dimension::Unit(Nanos)) => (unit(Bytes), 1e-9),
        (Operator::Div, l, r) if l == r => (unit(Ratio), 1.0),
        (Operator::Div, l, r) if plain(r) => (l, 1.0),
        (Operator::Div, l, Dimension::Unit(Nanos)) if plain(l) => (unit(PerSecond), 1e9),
        (Operator::Div, Dimension::Unit(Bytes), Dimension::Unit(Nanos)) => (Dimension::BytesPerSecond, 1e9),
        (Operator::Div, l, Dimension::Unit(PerSecond)) if plain(l) => (unit(Nanos), 1e9),
        (Operator::Div, Dimension::Unit(Bytes), Dimension::BytesPerSecond) => (unit(Nanos), 1e9),
        (Operator::Div, Dimension::BytesPerSecond, Dimension::Unit(PerSecond)) => (unit(Bytes), 1.0),
        _ => return None,
    })
}

/// The expression's value in the unit of its [`dimension`], metrics looked up by name; the first missing metric's
/// reason where one is missing, and a reason of its own where the divisor is zero.
pub fn evaluate(expr: &Expr, lookup: &mut dyn FnMut(&MetricName) -> Reading<f64>) -> Reading<f64> {
    valued(expr, lookup).map(|(value, _)| value)
}

fn valued(expr: &Expr, lookup: &mut dyn FnMut(&MetricName) -> Reading<f64>) -> Reading<(f64, Dimension)> {
    let (left, operator, right, divisor) = match expr {
        Expr::Metric(name) => return lookup(name).map(|value| (value, Dimension::Unit(name.key.metric.unit()))),
        Expr::Number(number) => return Reading::Measured((*number, Dimension::Unit(Unit::Ratio))),
        Expr::Binary(left, operator, right) => (valued(left, lookup), *operator, valued(right, lookup), right),
    };
    let (left, right) = match left.and(right, |left, right| (left, right)) {
        Reading::Measured(sides) => sides,
        Reading::Missing(why) => return Reading::Missing(why),
    };
    let Some((dimension, scale)) = combined(left.1, operator, right.1) else {
        let text = format!("{} {} {} has no meaning", left.1.words(), symbol(operator), right.1.words());
        return Reading::Missing(Why::Failed(text.into()));
    };
    let value = match operator {
        Operator::Add => left.0 + right.0,
        Operator::Sub => left.0 - right.0,
        Operator::Mul => left.0 * right.0,
        Operator::Div if right.0 == 0.0 => return Reading::Missing(is_zero(divisor)),
        Operator::Div => left.0 / right.0,
    };
    Reading::Measured((value * scale, dimension))
}

/// Why nothing is divided by it.
fn is_zero(divisor: &Expr) -> Why {
    Why::Failed(format!("`{}` is 0", print(divisor)).into())
}

/// The names of all metrics in the expression.
pub fn metrics(expr: &Expr) -> Vec<&MetricName> {
    match expr {
        Expr::Metric(name) => vec![name],
        Expr::Number(_) => Vec::new(),
        Expr::Binary(left, _, right) => metrics(left).into_iter().chain(metrics(right)).collect(),
    }
}

/// The metrics that an experiment names: those that are compared, and those in its tables.
pub fn named(experiment: &Experiment) -> Vec<&MetricName> {
    let parts = experiment.tables().iter().flat_map(|table| &table.columns).flat_map(|column| &column.parts);
    let expressions = parts.filter_map(|part| match part {
        CellPart::Figure { expr, .. } => Some(expr),
        CellPart::Text(_) => None,
    });
    experiment.compare().figures().into_iter().chain(expressions.flat_map(metrics)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Reading<f64> {
        let expr = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        evaluate(&expr, &mut |name| match (name.phase.as_str(), name.key.metric.unit()) {
            ("gone", _) => Reading::Missing(Why::NotReached),
            ("zero", _) => Reading::Measured(0.0),
            ("read", Unit::Nanos) => Reading::Measured(2e9),
            (_, Unit::Nanos) => Reading::Measured(4e9),
            (_, Unit::Bytes) => Reading::Measured(1000.0),
            _ => Reading::Measured(20.0),
        })
    }

    fn dimension_of(text: &str) -> Result<Dimension, String> {
        dimension(&parse(text).map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }

    #[test]
    fn values_keep_precedence_and_units() {
        assert_eq!(value("write.time + read.time * 2"), Reading::Measured(8e9));
        assert_eq!(value("(write.time + read.time) * 2"), Reading::Measured(12e9));
        assert_eq!(value("write.time - read.time - read.time"), Reading::Measured(0.0));
        assert_eq!(value("write.time / read.time"), Reading::Measured(2.0));
        assert_eq!(value("write.operations / write.time"), Reading::Measured(5.0));
        assert_eq!(value("write.written / write.time"), Reading::Measured(250.0));
        assert_eq!(value("write.time / write.operations"), Reading::Measured(2e8));
        assert_eq!(value("write.rate * write.time"), Reading::Measured(80.0));
        assert_eq!(value("1_000 / write.rate"), Reading::Measured(50e9));
    }

    #[test]
    fn what_is_missing_says_why() {
        assert_eq!(value("write.time + gone.time"), Reading::Missing(Why::NotReached));
        assert_eq!(value("write.time / zero.time"), Reading::Missing(Why::Failed("`zero.time` is 0".into())));
    }

    #[test]
    fn dimensions_are_checked() {
        assert_eq!(dimension_of("write.time + read.wall"), Ok(Dimension::Unit(Unit::Nanos)));
        assert_eq!(dimension_of("write.written / write.time"), Ok(Dimension::BytesPerSecond));
        assert_eq!(dimension_of("write.fsyncs / write.operations"), Ok(Dimension::Unit(Unit::Ratio)));
        assert_eq!(
            dimension_of("write.time + write.rss.end").unwrap_err(),
            "a time + an amount of bytes has no meaning"
        );
        assert_eq!(dimension_of("write.time + 1").unwrap_err(), "a time + a plain number has no meaning");
        assert_eq!(dimension_of("write.time * write.time").unwrap_err(), "a time * a time has no meaning");
    }

    #[test]
    fn hyphens_belong_to_names_and_minus_is_separate() {
        let name = |text: &str| Expr::Metric(text.parse().unwrap());
        assert_eq!(parse("no-sync write.time"), Ok(name("no-sync write.time")));
        let difference = Expr::Binary(Box::new(name("a.time")), Operator::Sub, Box::new(name("b.time")));
        assert_eq!(parse("a.time - b.time"), Ok(difference.clone()));
        assert_eq!(parse("(a.time)-(b.time)"), Ok(difference));
        assert_eq!(
            parse("a.time-b.time"),
            Ok(name("a.time-b.time")),
            "an instance `time-b`, which the checker refuses"
        );
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(error("a.time +"), "expected a metric such as `write.time`, a number or `(`, found the end");
        assert_eq!(error("(a.time"), "`(` is not closed");
        assert_eq!(error("a.time)"), "expected an operator or the end, found `)`");
        assert_eq!(error("a.time * * b.time"), "expected a metric such as `write.time`, a number or `(`, found `*`");
        assert_eq!(error("a.tiem"), "`tiem` is not a metric; did you mean `a.time`?");
        for terms in [52, 20_000] {
            assert_eq!(error(&vec!["1"; terms].join(" + ")), "an expression has at most 50 operators");
        }
        assert_eq!(error(&"(".repeat(200)), "parentheses are nested more than 64 deep");
    }

    fn exprs() -> impl Strategy<Value = Expr> {
        let names = ["write.time", "page queries.rss.end", "no-sync.latency.p99.9", "load.mongo.0.cpu.user"];
        let leaf = prop_oneof![
            (0..names.len()).prop_map(move |at| Expr::Metric(names[at].parse().unwrap())),
            (0u32..100_000).prop_map(|n| Expr::Number(f64::from(n) / 8.0)),
        ];
        let operators = [Operator::Add, Operator::Sub, Operator::Mul, Operator::Div];
        leaf.prop_recursive(5, 32, 2, move |inner| {
            (inner.clone(), 0..4usize, inner)
                .prop_map(move |(left, at, right)| Expr::Binary(Box::new(left), operators[at], Box::new(right)))
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_as_itself(expr in exprs()) {
            prop_assert_eq!(parse(&print(&expr)), Ok(expr));
        }

        #[test]
        fn a_value_is_there_exactly_where_the_dimension_is(expr in exprs()) {
            let value = evaluate(&expr, &mut |_| Reading::Measured(3.0));
            let by_zero = matches!(&value, Reading::Missing(Why::Failed(why)) if why.ends_with("` is 0"));
            prop_assert_eq!(dimension(&expr).is_ok(), value.measured().is_some() || (by_zero && dimension(&expr).is_ok()));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[a.z()+*/ 0-9-]{0,20}") {
            let _ = parse(&text);
        }
    }
}
