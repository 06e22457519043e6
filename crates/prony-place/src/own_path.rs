//! Finds files of a copy in which the path of this copy stands: in another copy they would lead to the first one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;

use crate::copy::{Progress, data};
use crate::error::Error;

/// Intermediate results and notes for people, which no program reads when it runs.
const NOT_RUN: [&str; 10] = ["a", "d", "lo", "log", "map", "o", "pyc", "rlib", "rmeta", "tsbuildinfo"];

/// A directory with this file, such as `target` of cargo, is a build tool's own: of what is in it only executables and libraries are
/// run.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// How much is read at once.
const PIECE: usize = 1 << 20;

/// The first file below a directory in which a name occurs, other than where only a build tool or a debugger reads it, and but for what
/// git keeps for itself.
///
/// # Errors
/// [`Error::Copy`] with a file that cannot be read; whatever `progress` ends it with, which gets no amounts.
pub(crate) fn named_in(top: &Path, name: &str, progress: &mut Progress<'_>) -> Result<Option<PathBuf>, Error> {
    let pattern = Regex::new(&regex::escape(name)).map_err(|error| Error::copying(top)(io::Error::other(error)))?;
    let mut open = vec![(top.to_path_buf(), false)];
    while let Some((directory, is_cache)) = open.pop() {
        let is_cache = is_cache || directory.join(CACHE_TAG).is_file();
        let entries = fs::read_dir(&directory).map_err(Error::copying(&directory))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| !path.ends_with(".git")) {
            let about = fs::symlink_metadata(&path).map_err(Error::copying(&path))?;
            // pip notes in `direct_url.json` what it installed from.
            let is_left_out = path.ends_with("direct_url.json")
                || path.extension().is_some_and(|end| NOT_RUN.iter().any(|known| end == *known));
            if about.is_dir() {
                open.push((path, is_cache));
            } else if about.is_file() && !is_left_out {
                progress(0, 0)?;
                let file = File::open(&path).map_err(Error::copying(&path))?;
                if is_in(&file, about.len(), (name, &pattern), is_cache).map_err(Error::copying(&path))? {
                    return Ok(Some(path));
                }
            }
        }
    }
    Ok(None)
}

/// Whether a name occurs in the data of a file; of an executable or a library, in what is loaded.
fn is_in(file: &File, length: u64, (name, pattern): (&str, &Regex), is_cache: bool) -> io::Result<bool> {
    let parts = match loaded(file) {
        Some(parts) => parts,
        None if is_cache => return Ok(false),
        None => vec![(0, length)],
    };
    let mut buffer = vec![0; PIECE];
    for (from, to) in parts {
        let mut at = from;
        while let Some((begin, end)) = data(file, at, to.min(length)) {
            at = begin;
            while at < end {
                let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
                let read = file.read_at(&mut buffer[..wanted], at)?;
                if read == 0 || pattern.is_match(&buffer[..read]) {
                    return Ok(read > 0);
                }
                // The name may begin in this piece and end in the next.
                let next = if read < wanted || at + read as u64 == end { read } else { read - name.len() };
                at += next.max(1) as u64;
            }
        }
    }
    Ok(false)
}

/// The parts of an ELF file, of 64 bits and this machine's order of bytes, that are loaded: none of an object that is not linked. `None`
/// of another file.
fn loaded(file: &File) -> Option<Vec<(u64, u64)>> {
    const HEAD: usize = 64;
    const ENTRY: usize = 56;
    const OBJECT: u16 = 1;
    const LOAD: u32 = 1;
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).ok()?;
    let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    if !head.starts_with(b"\x7fELF") || head[4..6] != [2, order] {
        return None;
    }
    let long = |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (table, size) = (long(&head, 32)?, u64::from(half(54)));
    let mut parts = Vec::new();
    for number in 0..if half(16) == OBJECT { 0 } else { u64::from(half(56)) } {
        let mut entry = [0; ENTRY];
        file.read_exact_at(&mut entry, table.checked_add(number * size)?).ok()?;
        if entry[..4] == LOAD.to_ne_bytes() {
            let from = long(&entry, 8)?;
            parts.push((from, from.checked_add(long(&entry, 32)?)?));
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = ".prony-run-1-2-3";

    #[test]
    fn path_of_a_copy_counts_where_something_that_runs_may_read_it() {
        let top = tempfile::tempdir().unwrap();
        let text = format!("DATA=/home/u/{NAME}/copy/data\n");
        let write = |path: &str, content: &[u8]| {
            fs::create_dir_all(top.path().join(path).parent().unwrap()).unwrap();
            fs::write(top.path().join(path), content).unwrap();
        };
        let found = || named_in(top.path(), NAME, &mut |_, _| Ok(())).unwrap();
        for path in [".git/config", "a.d", "a.o", "x/lib.map", "target/CACHEDIR.TAG", "target/debug/output"] {
            write(path, text.as_bytes());
        }
        assert_eq!(found(), None);
        // Across the border of two pieces, and behind a hole.
        for before in [PIECE - 20, PIECE - 1, 0, 7] {
            write("run.sh", &[vec![b'.'; before], text.clone().into_bytes()].concat());
            assert_eq!(found(), Some(top.path().join("run.sh")), "{before}");
        }
        let file = File::create(top.path().join("run.sh")).unwrap();
        file.write_all_at(text.as_bytes(), 1 << 40).unwrap();
        assert_eq!(found(), Some(top.path().join("run.sh")));
        fs::remove_file(top.path().join("run.sh")).unwrap();
        // An executable: a part that is loaded, and one that only a debugger reads.
        let mut elf = vec![0; 64 + 56];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[4..6].copy_from_slice(&[2, if cfg!(target_endian = "little") { 1 } else { 2 }]);
        elf[16..18].copy_from_slice(&2_u16.to_ne_bytes());
        elf[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        elf[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        elf[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        elf[64..68].copy_from_slice(&1_u32.to_ne_bytes());
        for (size, is_found) in [(120_u64, false), (120 + text.len() as u64, true)] {
            elf[96..104].copy_from_slice(&size.to_ne_bytes());
            write("target/debug/prog", &[elf.as_slice(), text.as_bytes()].concat());
            assert_eq!(found().is_some(), is_found, "{size}");
        }
    }
}
