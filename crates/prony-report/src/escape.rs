//! Escapes texts that do not come from prony, so that they are not read as markup in any output format.

use std::borrow::Cow;

use crate::screen::is_unsafe;
pub(super) use crate::screen::one_line as terminal;

/// Characters that reverse the text direction or are invisible are shown by their number instead.
fn is_invisible(c: char) -> bool {
    is_unsafe(c) && !matches!(c, '\n' | '\t')
}

/// For XML, in text and in attributes in double quotes.
pub(super) fn xml(text: &str) -> String {
    let entities = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;")];
    entities.iter().fold(text.to_owned(), |text, (sign, entity)| text.replace(*sign, entity))
}

/// The text with some characters written otherwise.
fn rewritten(text: &str, sign: impl Fn(char) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match sign(c) {
            Some(sign) => out += &sign,
            None => out.push(c),
        }
    }
    out
}

/// For HTML, in text and in attributes in quotes.
pub(super) fn html(text: &str) -> String {
    rewritten(&xml(text), |c| match c {
        '\'' => Some("&#39;".to_owned()),
        c => is_invisible(c).then(|| format!("\\u{{{:x}}}", c as u32)),
    })
}

/// For GitHub's Markdown, inside a table cell or a sentence: nothing in it is markup.
pub(super) fn markdown(text: &str) -> String {
    rewritten(&terminal(text), |c| match c {
        '&' => Some("&amp;".to_owned()),
        '<' => Some("&lt;".to_owned()),
        '>' => Some("&gt;".to_owned()),
        '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '~' | '#' | '$' => Some(format!("\\{c}")),
        _ => None,
    })
}

/// A sentence of ours, in which names are in backticks: what is within them by one function, all else by another; `None`
/// where a backtick has no partner.
pub(super) fn with_code(text: &str, code: impl Fn(&str) -> String, prose: impl Fn(&str) -> String) -> Option<String> {
    let parts: Vec<&str> = text.split('`').collect();
    let part = |(at, part): (usize, &&str)| if at % 2 == 1 { code(part) } else { prose(part) };
    (parts.len() % 2 == 1).then(|| parts.iter().enumerate().map(part).collect())
}

/// For Markdown where our own sentences set names in backticks: those stay code, all else is escaped.
pub(super) fn markdown_sentence(text: &str) -> String {
    let is_code = text.split('`').skip(1).step_by(2).all(|code| !code.contains(['|', '\n', '\\']));
    let code = |text: &str| format!("`{}`", terminal(text));
    with_code(text, code, markdown).filter(|_| is_code).unwrap_or_else(|| markdown(text))
}

/// For AsciiDoc, inside a table cell or a sentence: nothing in it is markup.
pub(super) fn asciidoc(text: &str) -> String {
    let is_sign = |c| "&<>|*_`#+{^~['\"".contains(c);
    let out = rewritten(&terminal(text), |c| is_sign(c).then(|| format!("&#{};", u32::from(c))));
    // What would become a dash, an ellipsis, a sign of rights or an entry of an index.
    let signs = [("--", "&#45;&#45;"), ("...", "&#46;&#46;&#46;"), ("((", "&#40;&#40;")];
    let signs = signs.into_iter().chain([("(C)", "&#40;C)"), ("(R)", "&#40;R)"), ("(TM)", "&#40;TM)")]);
    signs.fold(out, |out, (sign, plain)| out.replace(sign, plain))
}

/// For org-mode, inside a table cell or a sentence, where emphasis is switched off.
pub(super) fn orgmode(text: &str) -> String {
    let out = rewritten(&terminal(text), |c| match c {
        '|' => Some("\\vert{}".to_owned()),
        '$' => Some("\\dollar{}".to_owned()),
        // A name behind it would be that of an entity or of a command.
        '\\' => Some("\\\u{200b}".to_owned()),
        _ => None,
    });
    // Links, targets, footnotes and macros begin with these: a space of no width stands within.
    let signs = [("[[", "[\u{200b}["), ("<<", "<\u{200b}<"), ("[fn", "[\u{200b}fn"), ("{{{", "{\u{200b}{{")];
    let out = signs.into_iter().fold(out, |out, (sign, plain)| out.replace(sign, plain));
    // At the begin of a line these are a heading or a keyword; a space of no width is no such begin.
    if out.starts_with(['*', '#']) { format!("\u{200b}{out}") } else { out }
}

/// For a field of a CSV file. A text that a spreadsheet would take for a formula begins with an apostrophe, by which it
/// knows a text.
pub(super) fn no_formula(text: &str) -> Cow<'_, str> {
    if is_formula(text) { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

/// Whether a spreadsheet would compute the text; a number is shown as it is.
fn is_formula(text: &str) -> bool {
    let number = text.parse::<f64>().is_ok_and(f64::is_finite);
    text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && !number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_takes_nothing_for_markup() {
        assert_eq!(html("</script><img onerror='x'>&\""), "&lt;/script&gt;&lt;img onerror=&#39;x&#39;&gt;&amp;&quot;");
        assert_eq!(html("a\u{202e}b\u{0}c\nd"), "a\\u{202e}b\\u{0}c\nd");
    }

    #[test]
    fn markdown_takes_nothing_for_markup() {
        assert_eq!(markdown("a|b*c\n<script>&[x](y)"), "a\\|b\\*c\\\\n&lt;script&gt;&amp;\\[x\\](y)");
        assert_eq!(markdown_sentence("see `a_b` and <c>"), "see `a_b` and &lt;c&gt;");
        assert_eq!(markdown_sentence("a stray ` and `x|y`"), "a stray \\` and \\`x\\|y\\`");
    }

    #[test]
    fn asciidoc_and_orgmode_take_nothing_for_markup() {
        assert_eq!(asciidoc("a|*b* <<x>>"), "a&#124;&#42;b&#42; &#60;&#60;x&#62;&#62;");
        assert_eq!(orgmode("* a|b"), "\u{200b}* a\\vert{}b");
        assert_eq!(orgmode("a * b"), "a * b");
        assert_eq!(
            asciidoc("a -- b ... (C) ((x)) 1.5 (2)"),
            "a &#45;&#45; b &#46;&#46;&#46; &#40;C) &#40;&#40;x)) 1.5 (2)"
        );
        let inert = "\\dollar{}a\\dollar{} [\u{200b}[x]] \\\u{200b}alpha {\u{200b}{{m}}}";
        assert_eq!(orgmode("$a$ [[x]] \\alpha {{{m}}}"), inert);
    }

    #[test]
    fn csv_fields_are_no_formulas_and_numbers_stay_numbers() {
        for formula in ["=1+2", "@SUM(A1,A2)", "+cmd", "-x", "\t=1", "\r=1", "-inf"] {
            assert_eq!(no_formula(formula), format!("'{formula}"));
        }
        for number in ["-1.5", "+2", "-1e9", "1-2", "a=b"] {
            assert_eq!(no_formula(number), number);
        }
    }
}
