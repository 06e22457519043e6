//! Escapes texts that do not come from prony for HTML.

use crate::screen::is_unsafe;

/// What turns text around or hides in it is shown by its number instead.
fn is_invisible(c: char) -> bool {
    is_unsafe(c) && !matches!(c, '\n' | '\t')
}

/// For text and for attributes in double quotes.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_invisible(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// A name, which a line may break after the signs that join its words and nowhere else.
pub(super) fn breakable(name: &str) -> String {
    name.split_inclusive(['.', '_', '/', '=', ',', ':']).map(html).collect::<Vec<_>>().join("<wbr>")
}

/// A sentence written by prony, with names in backticks: these become code elements.
pub(super) fn sentence(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html(text);
    }
    let part = |(at, part): (usize, &&str)| match at % 2 {
        1 => format!("<code>{}</code>", html(part)),
        _ => html(part),
    };
    parts.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(html("</script><img onerror='x'>&\""), "&lt;/script&gt;&lt;img onerror=&#39;x&#39;&gt;&amp;&quot;");
        assert_eq!(html("a\u{202e}b\u{0}c\nd"), "a\\u{202e}b\\u{0}c\nd");
    }

    #[test]
    fn a_name_breaks_behind_what_joins_its_words() {
        assert_eq!(breakable("processor.model_name"), "processor.<wbr>model_<wbr>name");
        assert_eq!(breakable("a<b=c&d"), "a&lt;b=<wbr>c&amp;d", "nothing stands within a reference");
    }

    #[test]
    fn names_in_backticks_become_code() {
        assert_eq!(sentence("`a<b` is slower"), "<code>a&lt;b</code> is slower");
        assert_eq!(sentence("a stray ` here"), "a stray ` here");
    }
}
