//! What is wrong with a file: message, place, hint. All of it is collected before anything is said.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

/// Something wrong in an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong: lower-case start, names in backticks, no full stop.
    pub message: String,
    /// Where: a range of bytes of the file's text.
    pub span: Range<usize>,
    /// Line of the span's start, from 1.
    pub line: usize,
    /// Column of the span's start in characters, from 1.
    pub column: usize,
    /// What to do, where something can be said.
    pub hint: Option<String>,
    /// Other places that have to do with it.
    pub labels: Vec<Label>,
    /// More about it, such as the variant in which it shows.
    pub note: Option<String>,
}

/// Another place in the file, and what it has to do with a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where: a range of bytes of the file's text.
    pub span: Range<usize>,
    /// What is there.
    pub text: String,
}

impl Problem {
    /// A problem at a range of bytes; line and column are filled in when it is collected.
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, line: 0, column: 0, hint: None, labels: Vec::new(), note: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    pub(crate) fn label(mut self, span: Range<usize>, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }
}

/// Collects problems; says each (place, message) once.
#[derive(Debug)]
pub(crate) struct Problems<'t> {
    text: &'t str,
    seen: BTreeSet<(usize, usize, String)>,
    list: Vec<Problem>,
    note: Option<String>,
    raised: usize,
}

impl<'t> Problems<'t> {
    /// None so far, for a file with this text.
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, seen: BTreeSet::new(), list: Vec::new(), note: None, raised: 0 }
    }

    /// The note that problems get from now on, unless they have one.
    pub(crate) fn set_note(&mut self, note: Option<String>) {
        self.note = note;
    }

    pub(crate) fn add(&mut self, problem: Problem) {
        self.raised += 1;
        self.add_harmless(problem);
    }

    /// A fault that does not keep what stands around it from being understood.
    pub(crate) fn add_harmless(&mut self, mut problem: Problem) {
        if !self.seen.insert((problem.span.start, problem.span.end, problem.message.clone())) {
            return;
        }
        (problem.line, problem.column) = line_and_column(self.text, problem.span.start);
        problem.note = problem.note.or_else(|| self.note.clone());
        self.list.push(problem);
    }

    /// Whether nothing was wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How often something was wrong that is not harmless, repeats included: unchanged over a check that found nothing.
    pub(crate) fn raised(&self) -> usize {
        self.raised
    }

    /// All of them, in the file's order.
    pub(crate) fn into_list(mut self) -> Vec<Problem> {
        self.list.sort_by_key(|problem| (problem.span.start, problem.span.end));
        self.list
    }
}

/// Line and column (both from 1, the column in characters) of a byte offset.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// A problem as plain text with its line of the file: for logs and places without colour.
pub fn render(problem: &Problem, file: &str, text: &str) -> String {
    let line = text.lines().nth(problem.line.saturating_sub(1)).unwrap_or("");
    let number = problem.line.to_string();
    let margin = " ".repeat(number.len());
    let width =
        text.get(problem.span.clone()).map_or(1, |spanned| spanned.lines().next().unwrap_or("").chars().count());
    let room = line.chars().count().saturating_sub(problem.column - 1).max(1);
    let mut out = format!("error: {}\n{margin}--> {file}:{}:{}\n", problem.message, problem.line, problem.column);
    let marks = "^".repeat(width.clamp(1, room));
    let _ = writeln!(out, "{margin} |\n{number} | {line}\n{margin} | {}{marks}", " ".repeat(problem.column - 1));
    for label in &problem.labels {
        let (line, column) = line_and_column(text, label.span.start);
        let _ = writeln!(out, "{margin} = {} at {file}:{line}:{column}", label.text);
    }
    if let Some(note) = &problem.note {
        let _ = writeln!(out, "{margin} = {note}");
    }
    if let Some(hint) = &problem.hint {
        let _ = writeln!(out, "hint: {hint}");
    }
    harmless(&out)
}

/// A file's own control characters would act on the terminal.
fn harmless(text: &str) -> String {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    text.chars().flat_map(|c| if acts(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

/// The hint for a word that is not known: the nearest known one, or all of them.
pub(crate) fn known_hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if known.is_empty() => None,
        None => Some(format!("known: {}", quoted(&known))),
    }
}

/// The known word that a typing slip away from `word`.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .filter(|(distance, k)| {
            *distance <= 1.max(word.chars().count().max(k.chars().count()) / 3) && *distance < k.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// `` `a`, `b` `` for a list of words.
pub(crate) fn quoted<S: AsRef<str>>(words: &[S]) -> String {
    words.iter().map(|word| format!("`{}`", word.as_ref())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let text = "a\nüb = 1\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 2), (2, 1));
        assert_eq!(line_and_column(text, 4), (2, 2));
        assert_eq!(line_and_column(text, 3), (2, 1), "inside a character is its start");
        assert_eq!(line_and_column(text, 999), (3, 1));
    }

    #[test]
    fn the_same_fault_is_said_once_and_in_file_order() {
        let mut problems = Problems::new("one\ntwo\n");
        problems.add(Problem::new(4..7, "second"));
        problems.add(Problem::new(0..3, "first"));
        problems.add(Problem::new(4..7, "second").hint("again"));
        let list = problems.into_list();
        assert_eq!(list.iter().map(|p| p.message.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        assert_eq!((list[1].line, list[1].column), (2, 1));
    }

    #[test]
    fn near_words_are_offered_and_far_ones_listed() {
        assert_eq!(known_hint("durabilty", ["engine", "durability"]).unwrap(), "did you mean `durability`?");
        assert_eq!(known_hint("zzz", ["engine", "use"]).unwrap(), "known: `engine`, `use`");
        assert_eq!(known_hint("zzz", []), None);
        assert_eq!(nearest("x", ["a", "b"]), None, "one letter is no slip of another");
    }

    #[test]
    fn control_characters_of_the_file_do_not_reach_the_terminal() {
        let text = "[a]\nb = 1\n";
        let mut problems = Problems::new(text);
        problems.add(Problem::new(4..5, "`\u{1b}[31m` is no name"));
        let shown = render(&problems.into_list()[0], "x.toml", text);
        assert!(shown.starts_with("error: `\\u{1b}[31m` is no name\n"), "{shown}");
    }

    #[test]
    fn a_rendered_problem_marks_its_line() {
        let text = "[store]\nengin = \"lmdb\"\n";
        let mut problems = Problems::new(text);
        problems.add(
            Problem::new(8..13, "unknown key `engin`").hint("did you mean `engine`?").label(0..7, "in this table"),
        );
        let list = problems.into_list();
        assert_eq!(
            render(&list[0], "x.toml", text),
            "error: unknown key `engin`\n --> x.toml:2:1\n  |\n2 | engin = \"lmdb\"\n  | ^^^^^\n  = in this table at x.toml:1:1\nhint: did you mean `engine`?\n"
        );
    }
}
