//! Copies a program's directory, so that the user's own files are never changed.

use std::ffi::CStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

use prony_model::program::{OutwardLinks, ProgramSpec};
use prony_os::launch::remove_tree;
use rustix::fs::{
    AtFlags, CWD, SeekFrom, Timespec, Timestamps, UTIME_OMIT, XattrFlags, ioctl_ficlone, lgetxattr, lgetxattr_query,
    llistxattr, llistxattr_query, lsetxattr, seek, utimensat,
};
use rustix::io::Errno;

use crate::error::Error;
use crate::links::{Plan, Rules};

/// How much of a file is copied before progress is reported.
pub(crate) const PIECE: u64 = 32 << 20;

/// Receives how many bytes of how many are copied, of nothing where nothing is; an error ends the copy.
pub type Progress<'a> = dyn FnMut(u64, u64) -> Result<(), Error> + 'a;

/// Copies a directory with everything below it, links to places inside it as links to the copy, without regard to links
/// that lead out: for what is a copy already.
///
/// # Errors
/// [`Error::Copy`] with the path at fault; whatever `progress` ends it with.
pub fn copy_tree(original: &Path, copy: &Path, progress: &mut Progress<'_>) -> Result<(), Error> {
    let original = &fs::canonicalize(original).map_err(Error::copying(original))?;
    // Listed before anything is written, as the copy may lie below the original.
    let plan = Plan::of(original, &Rules { outward: OutwardLinks::Keep, ..Rules::default() })?;
    copy_plan(original, &plan, copy, progress)
}

/// Makes a planned copy: files with their modes, times of modification and extended attributes, holes as holes, sharing their
/// blocks with the original where the file system can. Sockets, FIFOs, devices, and what is prony's own are left out.
///
/// Build tools compare times of modification, `make` and `cargo` among them. With the time of the copy, in the order in
/// which files are copied, an artefact that is older than its source would be up to date, and would be measured.
///
/// # Errors
/// [`Error::Copy`] with the path at fault; whatever `progress` ends it with.
pub(crate) fn copy_plan(original: &Path, plan: &Plan, copy: &Path, progress: &mut Progress<'_>) -> Result<(), Error> {
    let (mut done, total) = (0, plan.bytes());
    fs::create_dir(copy).map_err(Error::copying(copy))?;
    for entry in &plan.entries {
        let (from, to) = (&entry.from, copy.join(&entry.to));
        if let Some(target) = &entry.target {
            symlink(target, &to).map_err(Error::copying(&to))?;
            set_modified(&to, &entry.about)?;
        } else if entry.about.is_dir() {
            fs::create_dir(&to).map_err(Error::copying(&to))?;
        } else {
            let ours =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to).map_err(Error::copying(&to))?;
            let file = File::open(from).map_err(Error::copying(from))?;
            if ioctl_ficlone(&ours, &file).is_err() {
                content(&file, &ours, from, &mut |bytes| progress(done + bytes, total))?;
            }
            // Before the mode, which may forbid it.
            copy_attributes(from, &to)?;
            ours.set_permissions(entry.about.permissions()).map_err(Error::copying(&to))?;
            // Not the time in the listing: a file written since then would appear older than it is.
            set_modified(&to, &file.metadata().map_err(Error::copying(from))?)?;
            done += entry.about.len();
            progress(done, total)?;
        }
    }
    // When all are filled, which changes their times, and what is in one before itself: its mode may forbid both.
    for entry in plan.entries.iter().rev().filter(|entry| entry.target.is_none() && entry.about.is_dir()) {
        let to = copy.join(&entry.to);
        copy_attributes(&entry.from, &to)?;
        fs::set_permissions(&to, entry.about.permissions()).map_err(Error::copying(&to))?;
        set_modified(&to, &entry.about)?;
    }
    let about = fs::metadata(original).map_err(Error::copying(original))?;
    copy_attributes(original, copy)?;
    fs::set_permissions(copy, about.permissions()).map_err(Error::copying(copy))?;
    set_modified(copy, &about)
}

/// Gives a file, directory or link the time of modification of another.
fn set_modified(path: &Path, as_of: &Metadata) -> Result<(), Error> {
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: as_of.mtime(), tv_nsec: as_of.mtime_nsec() };
    let times = Timestamps { last_access, last_modification };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(failed(path))
}

/// Extended attributes of users, capabilities of executables, and access lists. Others belong to the machine.
fn is_copied(name: &CStr) -> bool {
    let all = [c"security.capability", c"system.posix_acl_access", c"system.posix_acl_default"];
    name.to_bytes().starts_with(b"user.") || all.contains(&name)
}

/// Gives a file or directory the extended attributes of another, but for those that its file system does not have or this user
/// may not give it.
fn copy_attributes(from: &Path, to: &Path) -> Result<(), Error> {
    let size = match llistxattr_query(from) {
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
        size => size.map_err(failed(from))?,
    };
    let mut names = vec![0; size];
    let size = llistxattr(from, &mut names[..]).map_err(failed(from))?;
    for name in names[..size].split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
    {
        if is_copied(name) {
            let mut value = vec![0; lgetxattr_query(from, name).map_err(failed(from))?];
            let size = lgetxattr(from, name, &mut value[..]).map_err(failed(from))?;
            match lsetxattr(to, name, &value[..size], XattrFlags::empty()) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
                Err(errno) => return Err(failed(to)(errno)),
            }
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::copying(path)(errno.into())
}

/// Copies the data of a file, and leaves its holes out.
fn content(
    from: &File,
    mut to: &File,
    path: &Path,
    report: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let length = from.metadata().map_err(Error::copying(path))?.len();
    let mut at = 0;
    while let Some((begin, end)) = data(from, at, length) {
        for mut side in [from, to] {
            side.seek(io::SeekFrom::Start(begin)).map_err(Error::copying(path))?;
        }
        at = begin;
        while at < end {
            let copied = io::copy(&mut from.take(PIECE.min(end - at)), &mut to).map_err(Error::copying(path))?;
            at += copied;
            report(at)?;
            if copied == 0 {
                // The file became shorter meanwhile.
                return Ok(());
            }
        }
    }
    to.set_len(length).map_err(Error::copying(path))
}

/// The next piece of data from a place on; `None` where only a hole is left. Where the file system knows no holes, all
/// is data.
pub(crate) fn data(file: &File, at: u64, length: u64) -> Option<(u64, u64)> {
    let begin = match seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return None,
        begin => begin.unwrap_or(at),
    };
    let end = seek(file, SeekFrom::Hole(begin)).unwrap_or(length).min(length);
    (begin < end).then_some((begin, end))
}

/// Takes from a copy, `top`, links that lead out of it, when `step` has written there and before anything else does: they
/// are treated as the program's `links` wants those of its directory treated. Where links are kept, no step writes.
///
/// # Errors
/// [`Error::LinkOut`] with the first that refuses the run; [`Error::Copy`] with the path at fault; whatever `progress` ends
/// it with, and then `top` is as it was.
pub(crate) fn close(top: &Path, program: &ProgramSpec, step: &str, progress: &mut Progress<'_>) -> Result<(), Error> {
    let here = fs::canonicalize(top).map_err(Error::copying(top))?;
    // `prepare` may have evicted the files, so that the program reads them from the disk.
    let links = || Plan::of(&here, &Rules { without_files: true, ..Rules::default() });
    if program.links == OutwardLinks::Keep || links()?.outward.is_empty() {
        return Ok(());
    }
    let mut plan = Plan::of(&here, &Rules { outward: program.links, ..Rules::default() })?;
    // By their paths in the copy, which is removed before this is read.
    for (link, _) in &mut plan.outward {
        *link = link.strip_prefix(&here).unwrap_or(link).to_path_buf();
    }
    let of = format!("the copy into which {step} of program `{}` wrote", program.name);
    let plan = plan.allowed(&here, Some(of))?;
    let closed = here.with_extension("closed");
    copy_plan(&here, &plan, &closed, progress)?;
    remove_tree(&here)?;
    fs::rename(&closed, &here).map_err(Error::copying(&here))
}
