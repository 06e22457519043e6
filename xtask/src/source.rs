//! Reads the sources as text, without tests and comments.

use std::io;
use std::path::{Path, PathBuf};

/// A Rust source file of one of the crates.
pub(crate) struct SourceFile {
    /// Path relative to the workspace's root.
    pub(crate) path: PathBuf,
    /// The crate's folder name.
    pub(crate) package: String,
    /// The module path within the crate: empty for `lib.rs` and `main.rs`.
    pub(crate) module: Vec<String>,
    /// The text without comments and without unit tests.
    pub(crate) code: String,
}

/// Every file below `crates/*/src`.
pub(crate) fn rust_files(root: &Path) -> io::Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let package = entry?.path();
        let src = package.join("src");
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut found = Vec::new();
        collect(&src, &mut found)?;
        for path in found {
            let text = std::fs::read_to_string(&path)?;
            let inside = path.strip_prefix(&src).unwrap_or(&path);
            files.push(SourceFile {
                module: module_path(inside),
                path: path.strip_prefix(root).unwrap_or(&path).to_path_buf(),
                package: name.clone(),
                code: production(&text),
            });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// A Rust source file of the repository, tests and comments included.
pub(crate) struct Text {
    /// Path relative to the workspace's root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Every Rust source file: also tests, benchmarks, fuzz targets and this crate.
pub(crate) fn texts(root: &Path) -> io::Result<Vec<Text>> {
    let mut found = Vec::new();
    for folder in ["bench", "crates", "fuzz", "xtask"] {
        collect(&root.join(folder), &mut found)?;
    }
    found.sort();
    let text = |path: PathBuf| {
        let text = std::fs::read_to_string(&path)?;
        Ok(Text { path: path.strip_prefix(root).unwrap_or(&path).to_path_buf(), text })
    };
    found.into_iter().map(text).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn module_path(inside: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        inside.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The text without line comments and without what `#[cfg(test)]` guards.
fn production(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("#[cfg(test)]") || trimmed.starts_with("#[cfg(all(test") {
            skip_item(&mut lines);
        } else if !trimmed.starts_with("//") {
            out.push_str(line.split(" // ").next().unwrap_or(line));
            out.push('\n');
        }
    }
    out
}

/// Skips the item after an attribute: up to its closing brace at the item's own indentation, or its semicolon.
fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let Some(mut first) = lines.next() else { return };
    while first.trim_start().starts_with("#[") {
        let Some(next) = lines.next() else { return };
        first = next;
    }
    if first.trim_end().ends_with(';') || first.trim_end().ends_with('}') {
        return;
    }
    let close = format!("{}}}", &first[..first.len() - first.trim_start().len()]);
    for line in lines {
        if line.trim_end() == close {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_comments_do_not_count() {
        let text = "fn a() {}\n// note\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\nfn b() {}\n";
        assert_eq!(production(text), "fn a() {}\nfn b() {}\n");
        assert_eq!(production("#[cfg(test)]\nmod testing;\nfn c() {}\n"), "fn c() {}\n");
    }

    #[test]
    fn files_have_module_paths() {
        assert_eq!(module_path(Path::new("lib.rs")), Vec::<String>::new());
        assert_eq!(module_path(Path::new("stats/mod.rs")), ["stats"]);
        assert_eq!(module_path(Path::new("stats/looks.rs")), ["stats", "looks"]);
    }
}
