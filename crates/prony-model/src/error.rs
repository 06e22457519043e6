//! Formats an error for the user.

use std::error::Error;

/// An error with its causes in one line, and the hint in a second line; ends with a newline.
pub fn message(error: &dyn Error, hint: Option<String>) -> String {
    let mut text = format!("error: {}\n", chain(error));
    if let Some(hint) = hint {
        text += &format!("hint: {hint}\n");
    }
    text
}

/// An error and its causes, joined by `: `.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
