//! Reads regular expressions.

use regex::Regex;

use crate::node::Node;
use crate::problem::Problems;

pub(super) fn pattern(node: &Node, problems: &mut Problems<'_>) -> Option<Regex> {
    match Regex::new(node.text()?) {
        Ok(regex) => Some(regex),
        Err(error) => {
            // The last line of the message has the fault; those before it draw the pattern.
            let text = error.to_string();
            let what = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let hint = "`\\` before a character matches it literally; write the pattern in '...' so that TOML keeps \
                        the `\\`";
            problems.fault(node, format!("this is not a valid pattern: {what}"), hint);
            None
        }
    }
}
