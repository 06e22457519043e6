//! Reads regular expressions.

use regex::Regex;

use crate::node::Node;
use crate::problem::{Problem, Problems};
use crate::validate::via;

pub(super) fn pattern(node: &Node, problems: &mut Problems<'_>) -> Option<Regex> {
    match Regex::new(node.text()?) {
        Ok(regex) => Some(regex),
        Err(error) => {
            // The last line of the message has the fault; those before it draw the pattern.
            let text = error.to_string();
            let what = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let problem = Problem::new(node.span.clone(), format!("this is not a valid pattern: {what}"));
            problems.add(via(
                node,
                problem.hint(
                    "`\\` before a character matches it literally; write the pattern in '...' \
                                             so that TOML keeps the `\\`",
                ),
            ));
            None
        }
    }
}
