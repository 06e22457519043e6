//! `--parameter-list` and `--parameter-scan`: turns each parameter, which replaces `{VAR}` in commands, into a factor.

use prony_experiment::NAMESPACES;
use toml::{Table, Value};

use crate::error::Error;

/// More values than anyone waits for; the variants of a file have the same bound.
const MOST: i128 = 10_000;

/// A factor that `{name}` stands for in the texts of commands.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Between the braces.
    pub name: String,
    /// Numbers where all of them are, else as typed.
    pub values: Vec<Value>,
}

impl Parameter {
    /// Whether it makes several variants of a command.
    pub(crate) const fn varies(&self) -> bool {
        self.values.len() > 1
    }

    /// The factor's levels. Texts with braces stand under themselves: their own name is what is shown of them, and the
    /// file doubles the braces of a value.
    pub(crate) fn levels(&self) -> Value {
        let texts: Vec<&str> = self.values.iter().filter_map(Value::as_str).collect();
        if !texts.iter().any(|text| text.contains(['{', '}'])) {
            return self.values.clone().into();
        }
        texts.into_iter().map(|text| (text.to_owned(), filled(text, &[]).into())).collect::<Table>().into()
    }
}

/// The parameters of `--parameter-list VAR VALUES ...`.
///
/// # Errors
/// Where a name or a value is there twice, or a name cannot be one.
pub fn lists(words: &[String]) -> Result<Vec<Parameter>, Error> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for pair in words.chunks_exact(2) {
        let (name, texts) = (named(&pair[0])?, tokens(&pair[1]));
        if parameters.iter().any(|known| known.name == name) {
            return Err(Error::arguments(
                format!("the parameter `{name}` is given twice"),
                "give each parameter one list",
            ));
        }
        if let Some((_, twice)) = texts.iter().enumerate().find(|(at, text)| texts[..*at].contains(text)) {
            let message = format!("the parameter `{name}` has the value `{twice}` twice");
            return Err(Error::arguments(
                message,
                "list each value once: each value is a variant with the same number of trials",
            ));
        }
        let numbers: Option<Vec<Value>> = texts.iter().map(|text| number(text)).collect();
        let values = numbers.unwrap_or_else(|| texts.into_iter().map(Value::from).collect());
        parameters.push(Parameter { name, values });
    }
    Ok(parameters)
}

/// The parameter of `--parameter-scan VAR MIN MAX`, with `--parameter-step-size`.
///
/// # Errors
/// Where one is no number, the step leads nowhere, or it is missing between numbers that are not whole.
pub fn scan(words: &[String], step: Option<&str>) -> Result<Vec<Parameter>, Error> {
    let (name, from, to) = match words {
        [] => return Ok(Vec::new()),
        [name, from, to] => (name, from, to),
        _ => {
            let hint = "write each as `--parameter-list VAR 1,2,3`: every combination runs";
            return Err(Error::arguments("`--parameter-scan` is given more than once", hint));
        }
    };
    let name = named(name)?;
    let ends = [decimal(from)?, decimal(to)?];
    let step = match step {
        Some(step) => decimal(step)?,
        None if ends.iter().all(|(_, digits)| *digits == 0) => (1, 0),
        None => {
            let hint = "give the step with `--parameter-step-size`, such as `-D 0.1`";
            return Err(Error::arguments(format!("no step is given for the values from {from} to {to}"), hint));
        }
    };
    let digits = ends[0].1.max(ends[1].1).max(step.1);
    let scaled = |(number, of): (i128, u32)| number * 10_i128.pow(digits - of);
    let (from_scaled, to_scaled, step) = (scaled(ends[0]), scaled(ends[1]), scaled(step));
    if step <= 0 || from_scaled > to_scaled {
        let message = format!("from {from} to {to}, there is no value");
        return Err(Error::arguments(message, "MIN must be at most MAX, and the step greater than 0"));
    }
    let more = (to_scaled - from_scaled) / step;
    if more >= MOST {
        return Err(Error::arguments(
            format!("the parameter `{name}` has more than {MOST} values"),
            "take a larger step",
        ));
    }
    let value = |at: i128| {
        let number = from_scaled + at * step;
        match i64::try_from(number) {
            Ok(whole) if digits == 0 => Value::from(whole),
            _ => Value::from(number as f64 / 10_f64.powi(digits as i32)),
        }
    };
    Ok(vec![Parameter { name, values: (0..=more).map(value).collect() }])
}

/// A text whose braces are no placeholders but for those of the parameters.
pub fn filled(text: &str, parameters: &[Parameter]) -> String {
    let known = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    replaced(text, |name| known(name).then(|| format!("{{{name}}}")), |brace| brace.repeat(2))
}

/// A text with what stands for each `{name}`, and for each brace that belongs to none. What is put in is not read again.
pub fn replaced(text: &str, mut named: impl FnMut(&str) -> Option<String>, brace: impl Fn(&str) -> String) -> String {
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        replaced.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest.strip_prefix('{').and_then(|inner| Some(&inner[..inner.find(['{', '}'])?]));
        let hole = name.filter(|name| rest[1 + name.len()..].starts_with('}'));
        let put = hole.and_then(|name| Some((name.len() + 2, named(name)?)));
        let (taken, put) = put.unwrap_or_else(|| (1, brace(&rest[..1])));
        replaced.push_str(&put);
        rest = &rest[taken..];
    }
    replaced + rest
}

/// A name that a factor can have beside that of commands.
fn named(name: &str) -> Result<String, Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match name {
        _ if name == "command" || NAMESPACES.contains(&name) => {
            let message = format!("a parameter cannot be named `{name}`: other placeholders begin with this name");
            Err(Error::arguments(message, "choose another name"))
        }
        name if name.is_empty() || !name.chars().all(plain) => Err(Error::arguments(
            format!("`{name}` is not a valid name of a parameter"),
            "use letters, digits, `-` and `_`",
        )),
        name => Ok(name.to_owned()),
    }
}

/// The values between commas; `\,` is a comma and `\\` a backslash.
fn tokens(list: &str) -> Vec<String> {
    let (mut tokens, mut token, mut characters) = (Vec::new(), String::new(), list.chars().peekable());
    while let Some(c) = characters.next() {
        match (c, characters.peek()) {
            ('\\', Some(escaped @ (',' | '\\'))) => {
                token.push(*escaped);
                characters.next();
            }
            (',', _) => tokens.push(std::mem::take(&mut token)),
            _ => token.push(c),
        }
    }
    tokens.push(token);
    tokens
}

/// A number that the file writes as it is typed: the command gets the same text. A whole number of more than 64 bits and
/// `-0` would be floating-point numbers there, which have a point.
fn number(text: &str) -> Option<Value> {
    let whole = text.parse::<i64>().ok().map(Value::from);
    let real = || text.parse::<f64>().ok().filter(|x| x.is_finite() && x.to_string() == text).map(Value::from);
    whole.filter(|n| n.to_string() == text).or_else(|| real().filter(|x| x.to_string() == text))
}

/// A decimal number without its point, and the digits behind that: steps of 0.1 add up without error.
fn decimal(text: &str) -> Result<(i128, u32), Error> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.chars().all(|c| c.is_ascii_digit()) && part.len() <= 9 && whole.len() <= 18;
    match format!("{whole}{part}").parse() {
        Ok(number) if digits => Ok((number, part.len() as u32)),
        _ => Err(Error::arguments(format!("`{text}` is not a number"), "write a number such as `3` or `0.25`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn scanned(from: &str, to: &str, step: Option<&str>) -> Result<Vec<String>, String> {
        let found = scan(&words(&["x", from, to]), step).map_err(|error| error.to_string())?;
        Ok(found[0].values.iter().map(Value::to_string).collect())
    }

    #[test]
    fn scan_has_both_ends_and_no_error_of_addition() {
        assert_eq!(scanned("1", "4", None).unwrap(), ["1", "2", "3", "4"]);
        assert_eq!(scanned("30", "46", Some("5")).unwrap(), ["30", "35", "40", "45"]);
        assert_eq!(scanned("0.3", "0.7", Some("0.2")).unwrap(), ["0.3", "0.5", "0.7"]);
        assert_eq!(scanned("-1", "0", Some("0.5")).unwrap(), ["-1.0", "-0.5", "0.0"]);
        assert_eq!(scanned("0", "1", Some("0.1")).unwrap().len(), 11);
        assert_eq!(scanned("0.1", "1", None).unwrap_err(), "no step is given for the values from 0.1 to 1");
        assert_eq!(scanned("2", "1", None).unwrap_err(), "from 2 to 1, there is no value");
        assert_eq!(scanned("1", "2", Some("0")).unwrap_err(), "from 1 to 2, there is no value");
        assert_eq!(scanned("a", "2", None).unwrap_err(), "`a` is not a number");
        let twice = words(&["x", "1", "2", "y", "1", "2"]);
        assert!(scan(&twice, None).unwrap_err().to_string().contains("more than once"));
        assert_eq!(scanned("0", "10000", None).unwrap_err(), "the parameter `x` has more than 10000 values");
    }

    #[test]
    fn list_is_of_numbers_where_all_are_written_as_numbers() {
        let listed = |values: &str| {
            let found = lists(&words(&["x", values])).map_err(|error| error.to_string())?;
            Ok(found[0].values.iter().map(Value::to_string).collect::<Vec<_>>())
        };
        assert_eq!(listed("1,2.5"), Ok(words(&["1", "2.5"])));
        for odd in ["10000000000000000000", "-0"] {
            let typed = format!("\"{odd}\"");
            assert_eq!(listed(&format!("{odd},1")), Ok(vec![typed, "\"1\"".to_owned()]), "it got `.0` at its end");
        }
        assert_eq!(listed("1,02"), Ok(words(&["\"1\"", "\"02\""])), "the command gets what was typed");
        assert_eq!(listed(r"a\,b,c\d,\\"), Ok(words(&["\"a,b\"", "'c\\d'", "'\\'"])));
        assert_eq!(listed("").unwrap(), ["\"\""]);
        assert_eq!(listed("a,a"), Err("the parameter `x` has the value `a` twice".to_owned()));
    }

    #[test]
    fn parameter_names_are_names_of_factors_and_differ() {
        let fault = |list: &[&str]| lists(&words(list)).unwrap_err().to_string();
        assert_eq!(fault(&["x", "1", "x", "2"]), "the parameter `x` is given twice");
        assert_eq!(fault(&["a b", "1"]), "`a b` is not a valid name of a parameter");
        for name in ["command", "i", "doc", "port", "data", "service", "saved", "env"] {
            assert!(fault(&[name, "1"]).contains(&format!("a parameter cannot be named `{name}`")), "{name}");
        }
        assert_eq!(lists(&words(&["x", "1", "y", "2"])).unwrap().len(), 2);
    }
}
