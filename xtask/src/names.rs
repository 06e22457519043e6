//! Lists the identifiers and keywords of a Rust source, without comments, texts and lifetimes.

/// A name, and its line from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'t> {
    pub(crate) text: &'t str,
    pub(crate) line: usize,
}

/// Every name of a source, in its order.
pub(crate) fn names(source: &str) -> Vec<Name<'_>> {
    let (mut names, mut rest, mut line) = (Vec::new(), source, 1);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => block_comment(rest),
            '"' => text(rest),
            '\'' => character(rest),
            _ if is_name(first) => {
                let word = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let after = &rest[word..];
                let hashes = after.len() - after.trim_start_matches('#').len();
                match &rest[..word] {
                    "r" | "br" | "cr" if after[hashes..].starts_with('"') => word + raw_text(after, hashes),
                    "b" | "c" if after.starts_with('"') => word + text(after),
                    "b" if after.starts_with('\'') => word + character(after),
                    "r" if hashes == 1 => word + 1,
                    name => {
                        names.push(Name { text: name, line });
                        word
                    }
                }
            }
            other => other.len_utf8(),
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    names
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Bytes of the comment that begins here; comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// Bytes of the text that begins with this quote.
fn text(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    rest.len()
}

/// Bytes of the hashes, and of the raw text after them.
fn raw_text(rest: &str, hashes: usize) -> usize {
    let end = format!("\"{}", &rest[..hashes]);
    rest[hashes + 1..].find(&end).map_or(rest.len(), |at| hashes + 1 + at + end.len())
}

/// Bytes of the character that begins with this quote, or of the lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_), _) => rest[3..].find('\'').map_or(rest.len(), |at| 3 + at + 1),
        (Some(_), Some((at, '\'')), _) => at + 1,
        _ => rest[1..].find(|c| !is_name(c)).map_or(rest.len(), |at| 1 + at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        names(source).into_iter().map(|name| name.text).collect()
    }

    #[test]
    fn comments_texts_and_lifetimes_have_no_names() {
        assert_eq!(texts("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(texts(r##"a("b\"c", r"d", r#"e"f"#, b"g", '"', '\'', '\\', b'h', 'i') j"##), ["a", "j"]);
        assert_eq!(texts("fn a<'held>(b: &'held str)"), ["fn", "a", "b", "str"]);
        assert_eq!(texts("r#type(\"unclosed"), ["type"]);
    }

    #[test]
    fn lines_are_counted_through_comments_and_texts() {
        let found = names("/* \n */ a\n\"\n\n\" b");
        assert_eq!(found, [Name { text: "a", line: 2 }, Name { text: "b", line: 5 }]);
    }
}
