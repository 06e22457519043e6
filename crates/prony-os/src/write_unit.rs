//! Measures how many bytes the kernel counts as written where one page is.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use prony_model::reading::Reading;
use prony_model::units::Bytes;

use crate::launch::Scratch;
use crate::sample::parse;
use crate::why::reading;

/// The largest folio of most file systems.
const SIZE: usize = 2 << 20;

/// How many places are tried: where memory is fragmented, the kernel makes smaller folios.
const PLACES: u64 = 4;

/// By how much `write_bytes` of `/proc/PID/io` grows where one page of a file in `directory` is overwritten. It counts pages
/// that become dirty, and of a large folio all its pages at once (`folio_account_dirtied` in mm/page-writeback.c): a page, or
/// up to 2 MiB where the file system has large folios (XFS since Linux 5.18, ext4 since 6.16) and the file was written in
/// large pieces. Nothing in memory file systems. The largest of a few places of a file; writes 8 MiB, syncs and removes them.
pub fn write_unit(directory: &Path) -> Reading<Bytes> {
    reading("the bytes that the kernel counts as written", measured(directory))
}

/// Whether a [`write_unit`] is more than a page.
pub fn is_coarse(unit: &Reading<Bytes>) -> bool {
    unit.measured().is_some_and(|unit| unit.as_bytes() > rustix::param::page_size() as u64)
}

fn measured(directory: &Path) -> io::Result<Bytes> {
    let scratch = Scratch::create(directory).map_err(io::Error::other)?;
    let path = scratch.path().join("folio");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    // Zeros may be stored as a hole.
    let piece = vec![7; SIZE];
    for place in 0..PLACES {
        file.write_all_at(&piece, place * SIZE as u64)?;
    }
    file.sync_all()?;
    let units = (0..PLACES).map(|place| unit_at(&file, place * SIZE as u64 + SIZE as u64 / 2));
    let largest = units.reduce(|largest, unit| Ok(largest?.max(unit?))).unwrap_or(Ok(Bytes::default()))?;
    // A page of the file system's own, such as that of the inode, may become dirty in the same call.
    Ok(largest.min(Bytes::from_bytes(SIZE as u64)))
}

/// By how much the count grows where one byte is overwritten.
fn unit_at(file: &File, offset: u64) -> io::Result<Bytes> {
    let before = counted()?;
    file.write_all_at(&[8], offset)?;
    Ok(Bytes::from_bytes(counted()?.as_bytes().saturating_sub(before.as_bytes())))
}

/// What this thread has written, by the kernel's account.
fn counted() -> io::Result<Bytes> {
    let text = fs::read_to_string("/proc/thread-self/io")?;
    parse::io(&text)
        .map(|(_, written)| written)
        .ok_or_else(|| io::Error::other("`/proc/thread-self/io` has an unexpected form"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_is_counted_as_whole_pages() {
        let unit = write_unit(&std::env::temp_dir());
        let page = rustix::param::page_size() as u64;
        let unit = unit.measured().unwrap().as_bytes();
        assert!(unit.is_multiple_of(page) && unit <= SIZE as u64, "{unit}");
        assert!(write_unit(Path::new("/proc/nowhere")).measured().is_none());
    }
}
