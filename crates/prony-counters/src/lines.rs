//! Numbers as text: lines `name value` that a command prints, and the text format of Prometheus, whose lines may have labels,
//! instants and comments.

use std::collections::BTreeMap;

use prony_model::reading::Why;

use crate::{Numbers, chosen};

/// The numbers of these names that a command has printed.
///
/// # Errors
/// Where a line is none of a name and a number.
pub fn printed(text: &str, names: &[String]) -> Result<Numbers, Why> {
    let mut values = BTreeMap::new();
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once(char::is_whitespace);
        let Some((name, value)) = pair.and_then(|(name, value)| Some((name, value.trim().parse().ok()?))) else {
            return Err(Why::Failed(format!("line {number} of the output is no `name value`").into()));
        };
        if values.insert(name.to_owned(), value).is_some() {
            return Err(Why::Failed(format!("line {number} of the output has the name of a line before it").into()));
        }
    }
    Ok(chosen(names, &values, "", "the output"))
}

/// The numbers of a page in the text format of Prometheus; of one name with different labels their sum, which is not finite where
/// one of them is no number.
pub(crate) fn exposed(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some((name, value)) = sample(line) {
            *values.entry(name.to_owned()).or_insert(0.0) += value;
        }
    }
    values
}

/// The name and the value of a line `name{label="text"} value instant`; one that cannot be read is not a number.
fn sample(line: &str) -> Option<(&str, f64)> {
    let end = line.find(|c: char| c == '{' || c.is_whitespace()).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = match rest.strip_prefix('{') {
        Some(labels) => after_labels(labels),
        None => Some(rest),
    };
    let value = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    (!name.is_empty()).then_some((name, value.unwrap_or(f64::NAN)))
}

/// What follows the `}` of labels, whose texts may have braces and escaped quotation marks.
fn after_labels(labels: &str) -> Option<&str> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in labels.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(&labels[at + 1..]),
            _ => {}
        }
    }
    None
}
