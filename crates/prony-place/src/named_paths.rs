//! The words and paths that a program's command and its variables name.

use std::collections::BTreeSet;
use std::path::PathBuf;

use prony_model::program::{CommandLine, ProgramSpec};

use crate::shell_text::shell_words;

/// The words of a program's command and of the values of its variables, as a shell might read them, and the parts of lists. A variable
/// that `build` expands and the command does not is the build's.
pub(crate) fn pieces(program: &ProgramSpec) -> impl Iterator<Item = String> {
    let expands = |line: &CommandLine, name: &str| {
        let (plain, braced) = (format!("${name}"), format!("${{{name}}}"));
        line.words().iter().any(|word| word.contains(&plain) || word.contains(&braced))
    };
    let of_build = |name: &str| {
        program.build.as_ref().is_some_and(|build| expands(build, name)) && !expands(&program.command, name)
    };
    let values = program.env.iter().filter(|(name, _)| !of_build(name)).map(|(_, value)| value.clone());
    let texts: Vec<String> = program.command.words().into_iter().chain(values).collect();
    let texts = texts.into_iter();
    texts.flat_map(|text| {
        let parts = shell_words(&text).flat_map(|word| word.split([':', ','])).map(str::to_owned);
        // A whole text may have blanks.
        parts.chain([text.clone()]).collect::<Vec<_>>()
    })
}

/// The absolute paths among them, also behind an option (`-I/path`). Nothing needs to be there.
pub(crate) fn named(program: &ProgramSpec) -> BTreeSet<PathBuf> {
    let path = |part: String| {
        let from = part.find('/').filter(|at| *at == 0 || part.starts_with('-'))?;
        // A placeholder, which has a zero byte, leads into the copy.
        (!part.contains('\0')).then(|| PathBuf::from(&part[from..]))
    };
    pieces(program).filter_map(path).collect()
}
