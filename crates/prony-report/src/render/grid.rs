//! Lays out texts in columns for a terminal.

use unicode_width::UnicodeWidthStr;

use crate::screen::wrap;

/// How wide a text stands on a terminal.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// A text, and where it stands in its column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// Right-aligned against the heads of the other fields.
    pub(super) head: String,
    /// Left-aligned after it.
    pub(super) tail: String,
    /// A text that takes the whole column instead, and may be broken into lines.
    pub(super) whole: Option<String>,
}

impl Field {
    /// A text that takes the whole column.
    pub(super) fn whole(text: impl Into<String>) -> Self {
        Self { whole: Some(text.into()), ..Self::default() }
    }
}

/// A column laid out: lines of equal width, for the heading and for each field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Laid {
    /// Width of all lines.
    pub(super) width: usize,
    /// The heading.
    pub(super) heading: String,
    /// The lines of each field.
    pub(super) fields: Vec<Vec<String>>,
}

/// Whole texts are broken so that they do not make a column much wider than its numbers.
pub(super) const WHOLE: usize = 26;

/// Lays out a column; `least` is the least width, and whole texts are broken where they are wider than `room` and all others.
pub(super) fn lay(heading: &str, fields: &[Field], left: bool, least: usize, room: usize) -> Laid {
    let heads = fields.iter().filter(|f| f.whole.is_none()).map(|f| width(&f.head)).max().unwrap_or(0);
    let tails = fields.iter().map(|f| width(&f.tail)).max().unwrap_or(0);
    let figures = heads + tails + usize::from(tails > 0);
    let room = figures.max(width(heading)).max(room);
    let broken: Vec<Option<Vec<String>>> =
        fields.iter().map(|f| f.whole.as_ref().map(|text| wrap_clauses(text, room))).collect();
    let wholes = broken.iter().flatten().flatten().map(|line| width(line)).max().unwrap_or(0);
    let all = figures.max(width(heading)).max(wholes).max(least);
    let pad = |text: &str| if left { pad_right(text, all) } else { pad_left(text, all) };
    let fields = fields
        .iter()
        .zip(broken)
        .map(|(field, whole)| match whole {
            Some(lines) => lines.iter().map(|line| pad(line)).collect(),
            None => vec![figure(field, heads, tails, all)],
        })
        .collect();
    Laid { width: all, heading: pad(heading), fields }
}

fn figure(field: &Field, heads: usize, tails: usize, all: usize) -> String {
    let mut text = pad_left(&field.head, heads);
    if tails > 0 {
        text.push(' ');
        text += &pad_right(&field.tail, tails);
    }
    pad_left(&text, all)
}

/// Fills with spaces on the right.
pub(super) fn pad_right(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

fn pad_left(text: &str, to: usize) -> String {
    format!("{}{text}", " ".repeat(to.saturating_sub(width(text))))
}

/// Breaks a text at its commas, and between words only where that is not enough.
fn wrap_clauses(text: &str, to: usize) -> Vec<String> {
    if width(text) <= to {
        return vec![text.to_owned()];
    }
    text.split_inclusive(", ").flat_map(|clause| wrap(clause.trim_end(), to)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(head: &str, tail: &str) -> Field {
        Field { head: head.into(), tail: tail.into(), whole: None }
    }

    #[test]
    fn decimals_are_aligned() {
        let laid = lay("time, s", &[figure("1.5", "[1.4..1.6]"), figure("110.0", "")], false, 0, WHOLE);
        assert_eq!(laid.fields, [["  1.5 [1.4..1.6]"], ["110.0           "]]);
        assert_eq!((laid.width, laid.heading.as_str()), (16, "         time, s"));
    }

    #[test]
    fn outcomes_are_broken_at_their_commas() {
        let fields = [figure("1.5", ""), Field::whole("OOM in persist at 48.3 s, >= 16.0 GB")];
        let laid = lay("time, s", &fields, false, 0, WHOLE);
        assert_eq!(laid.fields[1], ["OOM in persist at 48.3 s,", "               >= 16.0 GB"]);
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(lay("", &[figure("日本", ""), figure("ab", "")], false, 0, WHOLE).fields, [["日本"], ["  ab"]]);
    }
}
