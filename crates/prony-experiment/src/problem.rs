//! Faults of an experiment file, each with message, place and hint. All faults are collected before any is reported.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use prony_model::spelling::nearest;

/// Characters of a message, hint or note that are shown: a name in it may be a megabyte long.
const LONGEST: usize = 1_000;

/// Words that a hint lists.
const LISTED: usize = 20;

/// A fault of an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The fault: lower-case start, names in backticks, no full stop.
    pub message: String,
    /// Where: a range of bytes of the file's text.
    pub span: Range<usize>,
    /// Line of the span's start, from 1.
    pub line: usize,
    /// Column of the span's start in characters, from 1.
    pub column: usize,
    /// What to do, if there is advice.
    pub hint: Option<String>,
    /// Other places that are involved.
    pub labels: Vec<Label>,
    /// More about it, such as the variant in which it occurs.
    pub note: Option<String>,
}

/// Another place in the file, and its part in a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where: a range of bytes of the file's text.
    pub span: Range<usize>,
    /// Its part in the problem.
    pub text: String,
}

/// A place in the file to which a problem refers: a range of bytes, or a value.
pub(crate) trait At {
    fn problem(self, message: String) -> Problem;
}

impl At for Range<usize> {
    fn problem(self, message: String) -> Problem {
        Problem { message, span: self, line: 0, column: 0, hint: None, labels: Vec::new(), note: None }
    }
}

impl At for &Range<usize> {
    fn problem(self, message: String) -> Problem {
        self.clone().problem(message)
    }
}

impl Problem {
    /// A problem at this place; line and column are filled in when it is collected.
    pub(crate) fn new(at: impl At, message: impl Into<String>) -> Self {
        at.problem(message.into())
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    pub(crate) fn label(mut self, span: &Range<usize>, text: impl Into<String>) -> Self {
        self.labels.push(Label { span: span.clone(), text: text.into() });
        self
    }
}

/// Collects problems; each (place, message) once.
#[derive(Debug)]
pub(crate) struct Problems<'t> {
    text: &'t str,
    reported: BTreeSet<(usize, usize, String)>,
    list: Vec<Problem>,
    note: Option<String>,
    raised: usize,
    /// Values with a placeholder that has no value.
    unfilled: Vec<Range<usize>>,
}

impl<'t> Problems<'t> {
    /// None so far, for a file with this text.
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, reported: BTreeSet::new(), list: Vec::new(), note: None, raised: 0, unfilled: Vec::new() }
    }

    /// The note that problems get from now on, unless they have one.
    pub(crate) fn set_note(&mut self, mut note: Option<String>) {
        note.iter_mut().for_each(|text| cut(text, LONGEST));
        self.note = note;
    }

    pub(crate) fn add(&mut self, problem: Problem) {
        self.raised += 1;
        self.add_harmless(problem);
    }

    /// Adds a fault and what to do about it.
    pub(crate) fn fault(&mut self, at: impl At, message: impl Into<String>, hint: impl Into<String>) {
        self.add(Problem::new(at, message).hint(hint));
    }

    /// A fault after which the surrounding text can still be understood.
    pub(crate) fn add_harmless(&mut self, mut problem: Problem) {
        cut(&mut problem.message, LONGEST);
        problem.hint.iter_mut().for_each(|text| cut(text, LONGEST));
        problem.labels.iter_mut().for_each(|label| cut(&mut label.text, LONGEST));
        if !self.reported.insert((problem.span.start, problem.span.end, problem.message.clone())) {
            return;
        }
        problem.note = problem.note.or_else(|| self.note.clone());
        self.list.push(problem);
    }

    /// A fault of a placeholder in the value at `value`.
    pub(crate) fn add_unfilled(&mut self, value: Range<usize>, problem: Problem) {
        self.unfilled.push(value);
        self.add(problem);
    }

    /// Whether a value in this part of the file has a placeholder without a value: what else is wrong there may follow from that.
    pub(crate) fn is_unfilled(&self, part: &Range<usize>) -> bool {
        self.unfilled.iter().any(|value| part.start <= value.start && value.end <= part.end)
    }

    /// Whether there is no fault.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The number of faults that are not harmless, repeats included: unchanged by a check that found nothing.
    pub(crate) fn raised(&self) -> usize {
        self.raised
    }

    /// All of them, in the file's order.
    pub(crate) fn into_list(mut self) -> Vec<Problem> {
        self.list.sort_by_key(|problem| (problem.span.start, problem.span.end));
        let mut place = Place::new(self.text);
        for problem in &mut self.list {
            (problem.line, problem.column) = place.of(problem.span.start);
        }
        self.list
    }
}

/// Walks a text once, computing line and column (both from 1, the column in characters) of ascending offsets.
struct Place<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    column: usize,
}

impl<'t> Place<'t> {
    const fn new(text: &'t str) -> Self {
        Self { text, at: 0, line: 1, column: 1 }
    }

    fn of(&mut self, offset: usize) -> (usize, usize) {
        let to = floor(self.text, offset);
        for c in self.text.get(self.at..to).unwrap_or_default().chars() {
            (self.line, self.column) = if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.at = self.at.max(to);
        (self.line, self.column)
    }
}

/// The offset of the character that contains, or begins at, an offset.
fn floor(text: &str, offset: usize) -> usize {
    let from = offset.min(text.len());
    (0..=from).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    Place::new(text).of(offset)
}

/// Characters of a line of the file that are shown before and after the place of a problem.
const BESIDE: (usize, usize) = (60, 100);

/// A problem as plain text with its line of the file: for logs and places without colour.
pub fn render(problem: &Problem, file: &str, text: &str) -> String {
    let (before, line) = excerpt(problem, text);
    let number = problem.line.to_string();
    let margin = " ".repeat(number.len());
    let width =
        text.get(problem.span.clone()).map_or(1, |spanned| spanned.lines().next().unwrap_or("").chars().count());
    let room = line.chars().count().saturating_sub(before).max(1);
    let mut out = format!("error: {}\n{margin}--> {file}:{}:{}\n", problem.message, problem.line, problem.column);
    let marks = "^".repeat(width.clamp(1, room));
    let _ = writeln!(out, "{margin} |\n{number} | {line}\n{margin} | {}{marks}", " ".repeat(before));
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
    out
}

/// The shown part of the problem's line, and the number of characters in it before the problem.
fn excerpt(problem: &Problem, text: &str) -> (usize, String) {
    let start = floor(text, problem.span.start);
    let begin = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let head: Vec<char> = text[begin..start].chars().rev().take(BESIDE.0 + 1).collect();
    let mut tail: String = text[start..].lines().next().unwrap_or("").chars().take(BESIDE.1 + 1).collect();
    cut(&mut tail, BESIDE.1);
    let mut line: String = head.iter().take(BESIDE.0).rev().collect();
    if head.len() > BESIDE.0 {
        line.insert_str(0, "...");
    }
    let before = line.chars().count();
    (before, line + &tail)
}

/// Shortens a text to so many characters.
fn cut(text: &mut String, most: usize) {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push_str("...");
    }
}

/// The hint for an unknown word: the nearest known one, or all of them.
pub(crate) fn known_hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if known.is_empty() => None,
        None if known.len() > LISTED => {
            Some(format!("known: {} and {} more", quoted(&known[..LISTED]), known.len() - LISTED))
        }
        None => Some(format!("known: {}", quoted(&known))),
    }
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
    }

    #[test]
    fn problem_in_a_long_line_shows_an_excerpt() {
        let text = format!("a = [{}\"x\"{}]\n", "\"é\", ".repeat(1_000), ", 1".repeat(1_000));
        let at = text.find("\"x\"").unwrap();
        let mut problems = Problems::new(&text);
        problems.add(Problem::new(at..at + 3, format!("`{}` is no name", "n".repeat(10_000))).hint("h".repeat(10_000)));
        let list = problems.into_list();
        assert_eq!((list[0].line, list[0].column), (1, 5_006));
        let shown = render(&list[0], "x.toml", &text);
        assert!(shown.len() < 3_000, "{} bytes", shown.len());
        let lines: Vec<&str> = shown.lines().collect();
        let marked: String = lines[3].chars().skip(lines[4].find('^').unwrap()).take(3).collect();
        assert_eq!(marked, "\"x\"", "{shown}");
        assert!(lines[3].contains("| ...") && lines[3].ends_with("..."), "{shown}");
    }

    #[test]
    fn a_rendered_problem_marks_its_line() {
        let text = "[store]\nengin = \"lmdb\"\n";
        let mut problems = Problems::new(text);
        problems.add(
            Problem::new(8..13, "unknown key `engin`").hint("did you mean `engine`?").label(&(0..7), "in this table"),
        );
        let list = problems.into_list();
        assert_eq!(
            render(&list[0], "x.toml", text),
            "error: unknown key `engin`\n --> x.toml:2:1\n  |\n2 | engin = \"lmdb\"\n  | ^^^^^\n  = in this table at \
             x.toml:1:1\nhint: did you mean `engine`?\n"
        );
    }
}
