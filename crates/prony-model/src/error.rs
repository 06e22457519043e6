//! Formats an error for the user.

use std::error::Error;

/// An error with its causes in one line, and the hint in a second line; ends with a newline.
pub fn message(error: &dyn Error, hint: Option<String>) -> String {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text.push('\n');
    if let Some(hint) = hint {
        text += &format!("hint: {hint}\n");
    }
    text
}
