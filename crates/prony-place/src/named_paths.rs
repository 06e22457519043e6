//! The words and paths that a program's command and its variables name.

use std::collections::BTreeSet;
use std::path::PathBuf;

use prony_model::program::ProgramSpec;

use crate::shell_text::shell_words;

/// The words of a program's command and of the values of its variables, as a shell might read them, and the parts of lists.
pub(crate) fn pieces(program: &ProgramSpec) -> impl Iterator<Item = String> {
    let texts = program.command.words().into_iter().chain(program.env.values().cloned());
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
