//! Reads and writes the small files of a control group.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use prony_model::reading::Reading;

use crate::why::{kernel_text, read_text};

/// Writes to a file that must exist: creating one would hide that the kernel does not offer it.
pub(super) fn write(dir: &Path, file: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(dir.join(file))?.write_all(text.as_bytes())
}

/// A file that holds one number.
pub(super) fn number(dir: &Path, file: &str) -> Reading<u64> {
    read_text(dir.join(file)).and_then(|text| {
        let not_a_number = |_| Reading::failed(format!("`{file}` contains `{}`, which is not a number", text.trim()));
        text.trim().parse().map_or_else(not_a_number, Reading::Measured)
    })
}

/// A file of lines, each a key and a number.
pub(super) fn table(dir: &Path, file: &str) -> Reading<BTreeMap<String, u64>> {
    read_text(dir.join(file)).map(|text| parse_table(&text))
}

fn parse_table(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (key, value) = line.rsplit_once(' ')?;
        Some((key.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// One entry of a table.
pub(super) fn entry(table: &Reading<BTreeMap<String, u64>>, key: &str) -> Reading<u64> {
    let unknown = || Reading::not_supported(format!("the kernel does not report `{key}`"));
    match table {
        Reading::Measured(table) => table.get(key).copied().map_or_else(unknown, Reading::Measured),
        Reading::Missing(why) => Reading::Missing(why.clone()),
    }
}

/// Numbers of the processes in a group itself.
pub(super) fn processes(dir: &Path) -> Vec<i32> {
    let text = kernel_text(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

/// The group and everything below it, deepest first.
pub(super) fn subgroups(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        found.extend(subgroups(&entry.path()));
    }
    found.push(dir.to_owned());
    found
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::*;

    #[test]
    fn tables_keep_what_reads() {
        let table = parse_table("anon 5\nfile 7\nunder_oom x\n8:0 Read 100\nTotal 3\n\n");
        assert_eq!(table.len(), 4);
        assert_eq!(table["8:0 Read"], 100);
        let table = Reading::Measured(table);
        assert_eq!(entry(&table, "anon"), Reading::Measured(5));
        assert!(matches!(entry(&table, "shmem"), Reading::Missing(Why::NotSupported(_))));
    }

    #[test]
    fn numbers_come_from_files_or_say_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        put("one", "12\n");
        put("max", "max\n");
        assert_eq!(number(dir.path(), "one"), Reading::Measured(12));
        assert!(matches!(number(dir.path(), "max"), Reading::Missing(Why::Failed(_))));
        assert!(matches!(number(dir.path(), "none"), Reading::Missing(Why::NotSupported(_))));
    }

    #[test]
    fn writing_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write(dir.path(), "memory.max", "1").is_err());
        assert!(!dir.path().join("memory.max").exists());
    }

    #[test]
    fn subgroups_come_deepest_first() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let found = subgroups(dir.path());
        assert_eq!(found, [dir.path().join("a/b"), dir.path().join("a"), dir.path().to_owned()]);
    }
}
