//! Checks that no file has more than 500 lines of production code.

use crate::source::SourceFile;

const MOST: usize = 500;

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    files
        .iter()
        .map(|file| (file, file.code.lines().filter(|line| !line.trim().is_empty()).count()))
        .filter(|(_, lines)| *lines > MOST)
        .map(|(file, lines)| {
            format!("`{}` has {lines} lines of production code, {MOST} at most: split it", file.path.display())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> SourceFile {
        SourceFile { path: "a.rs".into(), package: "p".into(), module: vec!["a".into()], code: "x\n\n".repeat(lines) }
    }

    #[test]
    fn only_long_files_are_named() {
        assert!(check(&[file(MOST)]).is_empty());
        assert_eq!(check(&[file(MOST + 1)]).len(), 1);
    }
}
