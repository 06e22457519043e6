//! Faults of an experiment file, as they are shown.

use std::fmt::Write as _;

use prony_core::experiment::{Problem, render};

/// All of them with their excerpts, and how many there are.
pub fn text(problems: &[Problem], file: &str, source: &str) -> String {
    let mut out = String::new();
    for problem in problems {
        let _ = writeln!(out, "{}", render(problem, file, source));
    }
    let count = problems.len();
    let _ = writeln!(out, "`{file}`: {count} problem{}; nothing was run", if count == 1 { "" } else { "s" });
    out
}
