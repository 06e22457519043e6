//! Writes names and sentences in HTML.

pub(super) use crate::escape::html;
use crate::escape::with_code;

/// A name, which a line may break after the signs that join its words and nowhere else.
pub(super) fn breakable(name: &str) -> String {
    name.split_inclusive(['.', '_', '/', '=', ',', ':']).map(html).collect::<Vec<_>>().join("<wbr>")
}

/// A sentence written by prony, with names in backticks: these become code elements.
pub(super) fn sentence(text: &str) -> String {
    with_code(text, |code| format!("<code>{}</code>", html(code)), html).unwrap_or_else(|| html(text))
}

#[cfg(test)]
mod tests {
    use super::*;

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
