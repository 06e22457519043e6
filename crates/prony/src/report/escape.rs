//! Texts from outside made harmless for each medium.

use std::fmt::Write as _;

/// Whether a character would move the cursor, start an escape sequence or turn the text around.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// For a terminal: what could act on it is spelled out, `\u{1b}`.
pub(super) fn terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_unsafe(c) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// For GitHub's Markdown, inside a table cell or a sentence: nothing in it is markup.
pub(super) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in terminal(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// For Markdown where our own sentences set names in backticks: those stay code, all else is escaped.
pub(super) fn markdown_sentence(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) || parts.iter().skip(1).step_by(2).any(|code| code.contains(['|', '\n', '\\'])) {
        return markdown(text);
    }
    let part = |(at, part): (usize, &&str)| if at % 2 == 1 { format!("`{}`", terminal(part)) } else { markdown(part) };
    parts.iter().enumerate().map(part).collect()
}

/// One field of a CSV file (RFC 4180).
pub(super) fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_acted_on() {
        assert_eq!(terminal("a\u{1b}[31mb\r\n\u{202e}c\u{7f}é日"), "a\\u{1b}[31mb\\u{d}\\n\\u{202e}c\\u{7f}é日");
    }

    #[test]
    fn markdown_takes_nothing_for_markup() {
        assert_eq!(markdown("a|b*c\n<script>&[x](y)"), "a\\|b\\*c\\\\n&lt;script&gt;&amp;\\[x\\](y)");
        assert_eq!(markdown_sentence("see `a_b` and <c>"), "see `a_b` and &lt;c&gt;");
        assert_eq!(markdown_sentence("a stray ` and `x|y`"), "a stray \\` and \\`x\\|y\\`");
    }

    #[test]
    fn csv_fields_keep_commas_quotes_and_lines() {
        assert_eq!(csv("plain"), "plain");
        assert_eq!(csv("a,\"b\"\nc"), "\"a,\"\"b\"\"\nc\"");
    }
}
