//! A cut that is saved: a directory with the durable image and the log, from which images can be made at any time, by any
//! process, one after another. The mount goes on or is removed meanwhile.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use serde::{Deserialize, Serialize};

use crate::contents::Contents;
use crate::disk::{Disk, ROOT};
use crate::error::Error;
use crate::inode::{DirectoryImages, FileImages, Inode, Kind};
use crate::log::{Attributes, Change, Growth, Ino, Log, Seq};
use crate::payload::{Payload, Payloads};
use crate::report::{Counts, CutReport, Image, Limits, Status};
use crate::settings::{CutSettings, Draw, MetadataOrder, Settings};

/// Name of the file that describes a saved cut. It is written last: where it is missing, the directory is not one.
pub(crate) const INDEX: &str = "cut.json";
/// Name of the file with the data of pending writes.
const DATA: &str = "pending";

/// Number of the format of the directory; others are refused.
const FORMAT: u32 = 2;

fn contents_name(ino: Ino) -> String {
    format!("durable-{ino}")
}

/// What is in the index.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    format: u32,
    /// The instant of the cut, by `CLOCK_MONOTONIC` of the machine that was cut.
    at: Nanos,
    metadata: MetadataOrder,
    limits: Limits,
    counts: Counts,
    inodes: Vec<SavedInode>,
    operations: Vec<(Seq, Change)>,
    growths: Vec<(Seq, Growth)>,
    flushes: Vec<(Seq, Ino)>,
}

/// What an image needs of an inode; its pending operations are those of the log.
#[derive(Debug, Serialize, Deserialize)]
struct SavedInode {
    ino: Ino,
    kind: SavedKind,
    attributes: Attributes,
}

#[derive(Debug, Serialize, Deserialize)]
enum SavedKind {
    /// Whether it has durable contents, which are in a file of their own.
    File(bool),
    Directory(Vec<(OsString, Ino)>),
    Symlink(OsString),
    Special(u32, u32),
}

/// Writes the data of pending operations one after another.
struct Data {
    file: BufWriter<File>,
    end: u64,
}

impl Data {
    /// The operation as it is in the index.
    fn operation(&mut self, payloads: &Payloads, change: &Change) -> io::Result<Change> {
        let Change::Write { ino, offset, data, left } = change else {
            return Ok(change.clone());
        };
        let bytes = payloads.read(data, 0, data.len())?;
        self.file.write_all(&bytes)?;
        let data = Payload::File(self.end, data.len());
        self.end += data.len();
        crate::progress::step();
        Ok(Change::Write { ino: *ino, offset: *offset, data, left: left.clone() })
    }
}

impl Disk {
    /// Makes durable what is due, and saves the state at this moment.
    pub(crate) fn write_back_and_save(&mut self, into: &Path) -> Result<(), Error> {
        self.write_back().map_err(|error| self.not_durable(error))?;
        self.save(into)
    }

    /// Saves the state at this moment in the directory `into`, which is created.
    pub(crate) fn save(&self, into: &Path) -> Result<(), Error> {
        // Nobody else has the disk until it is saved: a request that was answered before this instant is in the state, and one
        // that is made after it is not.
        let at = monotonic();
        self.check_whole()?;
        fs::create_dir(into).map_err(Error::file("create", into))?;
        self.save_in(into, at).inspect_err(|_| drop(fs::remove_dir_all(into)))
    }

    fn save_in(&self, into: &Path, at: Nanos) -> Result<(), Error> {
        let path = into.join(DATA);
        let file = File::create_new(&path).map_err(Error::file("create", &path))?;
        let mut data = Data { file: BufWriter::with_capacity(1 << 20, file), end: 0 };
        let operations = self.log.iter().map(|(seq, change)| Ok((seq, data.operation(&self.payloads, change)?)));
        let operations = operations.collect::<io::Result<_>>().map_err(Error::file("write", &path))?;
        data.file.flush().map_err(Error::file("write", &path))?;
        let index = Index {
            format: FORMAT,
            at,
            metadata: self.order,
            limits: self.limits,
            counts: self.counts,
            inodes: self.inodes.iter().map(|(ino, inode)| save_inode(into, *ino, inode)).collect::<Result<_, _>>()?,
            operations,
            growths: self.log.growths(),
            flushes: self.log.flushes(),
        };
        let path = into.join(INDEX);
        let file = File::create_new(&path).map_err(Error::file("create", &path))?;
        let mut file = BufWriter::with_capacity(1 << 16, file);
        let written = serde_json::to_writer(&mut file, &index).map_err(io::Error::from).and_then(|()| file.flush());
        written.map_err(Error::file("write", &path))
    }
}

fn save_inode(into: &Path, ino: Ino, inode: &Inode) -> Result<SavedInode, Error> {
    let kind = match &inode.kind {
        Kind::File(FileImages { durable, .. }) => {
            if let Some(durable) = durable {
                let path = into.join(contents_name(ino));
                durable.copy_to(&path).map_err(Error::file("write", &path))?;
            }
            SavedKind::File(durable.is_some())
        }
        Kind::Directory(images) => {
            SavedKind::Directory(images.durable.iter().map(|(name, ino)| (name.clone(), *ino)).collect())
        }
        Kind::Symlink(target) => SavedKind::Symlink(target.clone()),
        Kind::Special(kind, number) => SavedKind::Special(*kind, *number),
    };
    Ok(SavedInode { ino, kind, attributes: inode.durable_attributes })
}

/// A saved cut. The same cut, policy and seed make the same image.
#[derive(Debug)]
pub struct Cut {
    at: Nanos,
    disk: Disk,
}

impl Cut {
    /// Opens the directory of a saved cut.
    ///
    /// # Errors
    /// Where it is none, or a file in it cannot be read.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(INDEX);
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::setting(
                format!("`{}` is no saved cut: it has no file `{INDEX}`", directory.display()),
                "save one: `prony powercut cut DIR --into DIR`",
            ),
            _ => Error::file("read", &path)(error),
        })?;
        let index: Index = serde_json::from_reader(BufReader::with_capacity(1 << 16, file))
            .map_err(|error| Error::file("read", &path)(error.into()))?;
        if index.format != FORMAT {
            let format = index.format;
            let message = format!("`{}` has format {format}, and this program reads {FORMAT}", path.display());
            return Err(Error::setting(message, "use the version of prony that saved it"));
        }
        let path = directory.join(DATA);
        let data = File::open(&path).map_err(Error::file("read", &path))?;
        Ok(Self { at: index.at, disk: load(directory, index, data)? })
    }

    /// The instant of the cut, by `CLOCK_MONOTONIC` of the machine that was cut: what a program did on the file system before it
    /// is in the cut, and nothing that it began to do after it.
    pub const fn at(&self) -> Nanos {
        self.at
    }

    /// What was not durable, and what had happened since the mount.
    pub fn status(&self) -> Status {
        self.disk.status()
    }

    /// The order of metadata.
    pub const fn metadata(&self) -> MetadataOrder {
        self.disk.order
    }

    /// Makes one image in the directory `into`, which is created.
    ///
    /// # Errors
    /// Where the image cannot be written, or the saved cut cannot be read.
    pub fn image(&self, draw: &Draw, into: &Path) -> Result<Image, Error> {
        self.disk.image(draw, into)
    }

    /// Makes the images that settings describe, in their directory, which is created.
    ///
    /// # Errors
    /// As [`Self::image`].
    pub fn images(&self, settings: &CutSettings) -> Result<CutReport, Error> {
        let into = settings.directory();
        fs::create_dir(into).map_err(Error::file("create", into))?;
        // A part of the images would look like all of them.
        self.images_in(settings).inspect_err(|_| drop(fs::remove_dir_all(into)))
    }

    /// Makes the images in a directory that exists.
    pub(crate) fn images_in(&self, settings: &CutSettings) -> Result<CutReport, Error> {
        let images = self.disk.images(settings)?;
        let saved = self.disk.files.directory().to_path_buf();
        Ok(CutReport { at: self.at, metadata: self.metadata(), status: self.status(), saved, images })
    }
}

fn load(directory: &Path, index: Index, data: File) -> Result<Disk, Error> {
    let Index { metadata, limits, counts, inodes, operations, growths, flushes, .. } = index;
    let mut pending: HashMap<Ino, Vec<Seq>> = HashMap::new();
    for (seq, change) in &operations {
        change.ino().into_iter().for_each(|ino| pending.entry(ino).or_default().push(*seq));
    }
    let none = Contents::new(data.try_clone().map_err(Error::file("read", directory))?);
    let load = |SavedInode { ino, kind, attributes }| {
        let kind = match kind {
            SavedKind::File(has_contents) => {
                let path = directory.join(contents_name(ino));
                let saved = has_contents.then(|| fs::metadata(&path).map(|_| path.clone())).transpose();
                let saved = saved.map_err(Error::file("read", &path))?;
                // Nobody reads the current contents.
                Kind::File(FileImages { current: none.clone(), durable: None, saved })
            }
            SavedKind::Directory(names) => {
                Kind::Directory(DirectoryImages { durable: names.into_iter().collect(), ..DirectoryImages::new(ROOT) })
            }
            SavedKind::Symlink(target) => Kind::Symlink(target),
            SavedKind::Special(kind, number) => Kind::Special(kind, number),
        };
        let mut inode = Inode::new(kind, attributes);
        inode.pending = pending.remove(&ino).unwrap_or_default().into();
        Ok((ino, inode))
    };
    let inodes: HashMap<Ino, Inode> = inodes.into_iter().map(load).collect::<Result<_, Error>>()?;
    let settings = Settings { metadata, ..Settings::default() };
    let mut disk = Disk::with(directory, &settings, (0, 0), Payloads::new(data));
    disk.inodes = inodes;
    disk.log = Log::of(operations, growths, flushes);
    (disk.limits, disk.counts) = (limits, counts);
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use prony_model::units::Fraction;

    use super::*;
    use crate::settings::{Policy, Unit};

    #[test]
    fn directory_that_is_no_saved_cut_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let refusal = || Cut::open(top.path()).unwrap_err().to_string();
        assert!(refusal().ends_with("is no saved cut: it has no file `cut.json`"), "{}", refusal());
        let disk = Disk::new(top.path(), &Settings::default(), (0, 0)).unwrap();
        let into = top.path().join("saved");
        disk.save(&into).unwrap();
        let index = into.join(INDEX);
        let text = fs::read_to_string(&index).unwrap();
        fs::write(&index, text.replacen(r#""format":2"#, r#""format":1"#, 1)).unwrap();
        let refusal = Cut::open(&into).unwrap_err().to_string();
        assert!(refusal.ends_with("has format 1, and this program reads 2"), "{refusal}");
        fs::write(&index, &text[..text.len() / 2]).unwrap();
        let refusal = Cut::open(&into).unwrap_err().whole();
        assert!(refusal.contains("cannot read") && refusal.contains("EOF"), "{refusal}");
    }

    #[test]
    fn file_that_is_missing_in_a_saved_cut_is_named() {
        let top = tempfile::tempdir().unwrap();
        let mut disk = Disk::new(top.path(), &Settings::default(), (0, 0)).unwrap();
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };
        let ino = disk.create(ROOT, "a".as_ref(), crate::inode::New::File, attributes).unwrap();
        disk.write(ino, 0, b"durable").unwrap();
        disk.sync(ino, false).unwrap();
        let into = top.path().join("saved");
        disk.save(&into).unwrap();
        assert!(disk.save(&into).unwrap_err().to_string().contains("cannot create"));
        fs::remove_file(into.join(contents_name(ino))).unwrap();
        let error = Cut::open(&into).unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains("durable-2"), "{error}");
    }

    #[test]
    fn image_of_a_saved_cut_depends_on_its_draw_only() {
        let top = tempfile::tempdir().unwrap();
        let mut disk = Disk::new(top.path(), &Settings::default(), (0, 0)).unwrap();
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };
        let ino = disk.create(ROOT, "a".as_ref(), crate::inode::New::File, attributes).unwrap();
        disk.sync_all().unwrap();
        for at in 0..64 {
            disk.write(ino, at * 4096, &[at as u8 + 1; 4096]).unwrap();
        }
        disk.save(&top.path().join("saved")).unwrap();
        drop(disk);
        let cut = Cut::open(&top.path().join("saved")).unwrap();
        let image = |seed, name: &str| {
            let keep = Fraction::new(0.5).unwrap();
            let draw = Draw { policy: Policy::Subset, keep, unit: Unit::Page, seed };
            let image = cut.image(&draw, &top.path().join(name)).unwrap();
            (image.bytes, fs::read(image.path.join("a")).unwrap())
        };
        let (bytes, contents) = image(1, "first");
        assert!(bytes > 0 && bytes < 64 * 4096, "{bytes}");
        assert_ne!(image(2, "second").1, contents);
        assert_eq!(image(1, "third"), (bytes, contents));
    }
}
