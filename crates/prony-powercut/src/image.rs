//! Makes directories of a cut: the disk as it may look afterwards.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use crate::contents::Contents;
use crate::disk::{Disk, PAGE, ROOT};
use crate::error::Error;
use crate::inode::{DirectoryImages, FileImages, Inode, Kind};
use crate::log::{Attributes, Change, Ino, Seq};
use crate::progress;
use crate::report::Image;
use crate::settings::{CutSettings, Draw};
use crate::survivors::{Piece, Step, Survivors};

type Names = HashMap<OsString, Ino>;

impl Disk {
    /// Refuses images of what could not be written.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        let Some(error) = self.failure else { return Ok(()) };
        Err(Error::setting(
            format!("a file in `{}` could not be written: {error}", self.files.directory().display()),
            "images would be wrong: mount again, with a state directory that has more space",
        ))
    }

    /// Makes all images of a cut in a directory that exists.
    pub(crate) fn images(&self, settings: &CutSettings) -> Result<Vec<Image>, Error> {
        (1..=settings.images).map(|number| self.image(&settings.draw(number), &settings.path(number))).collect()
    }

    /// Makes one image in the directory `into`, which is created.
    pub(crate) fn image(&self, draw: &Draw, into: &Path) -> Result<Image, Error> {
        self.check_whole()?;
        let Draw { policy, keep, unit, seed } = *draw;
        let survivors = Survivors::draw(&self.log, self.order, policy, (keep, unit), seed);
        let metadata = survivors.metadata();
        // A part of an image would look like a whole one.
        let bytes = Builder::new(self, &survivors).build(into).inspect_err(|_| drop(fs::remove_dir_all(into)))?;
        Ok(Image { path: into.to_path_buf(), policy, seed, metadata, bytes })
    }
}

/// Makes one image.
struct Builder<'d> {
    disk: &'d Disk,
    survivors: &'d Survivors,
    /// Directories that surviving operations change.
    changed: HashMap<Ino, Names>,
    /// Where a file is already.
    made: HashMap<Ino, PathBuf>,
    bytes: u64,
    owner: (u32, u32),
}

impl<'d> Builder<'d> {
    fn new(disk: &'d Disk, survivors: &'d Survivors) -> Self {
        let mut changed: HashMap<Ino, Names> = HashMap::new();
        for (_, change) in disk.log.metadata().filter(|(seq, _)| survivors.has(*seq)) {
            let Change::Entries { changes, .. } = change else { continue };
            for entry in changes {
                let durable = || disk.directory(entry.dir).map(|images| images.durable.clone()).unwrap_or_default();
                let names = changed.entry(entry.dir).or_insert_with(durable);
                match entry.target {
                    Some(ino) => names.insert(entry.name.clone(), ino),
                    None => names.remove(&entry.name),
                };
            }
        }
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { disk, survivors, changed, made: HashMap::new(), bytes: 0, owner }
    }

    /// Makes the tree; the bytes of pending writes in it.
    fn build(mut self, top: &Path) -> Result<u64, Error> {
        let mut left = vec![(ROOT, top.to_path_buf())];
        let mut directories = Vec::new();
        while let Some((ino, path)) = left.pop() {
            let Ok(inode) = self.disk.inode(ino) else { continue };
            match &inode.kind {
                Kind::Directory(images) => {
                    fs::create_dir(&path).map_err(Error::file("create", &path))?;
                    left.extend(self.names(ino, images).iter().map(|(name, ino)| (*ino, path.join(name))));
                    directories.push((self.attributes(inode), path));
                }
                Kind::File(images) => self.file(ino, (inode, images), path)?,
                Kind::Symlink(target) => symlink(target, &path).map_err(Error::file("create", &path))?,
                Kind::Special(..) => {}
            }
        }
        // Nothing can be created in a directory once it may not be written.
        directories.iter().rev().try_for_each(|(attributes, path)| self.set(*attributes, path))?;
        Ok(self.bytes)
    }

    fn names(&self, ino: Ino, images: &'d DirectoryImages) -> &Names {
        self.changed.get(&ino).unwrap_or(&images.durable)
    }

    fn file(&mut self, ino: Ino, (inode, images): (&'d Inode, &'d FileImages), path: PathBuf) -> Result<(), Error> {
        if let Some(first) = self.made.get(&ino) {
            return fs::hard_link(first, &path).map_err(Error::file("link", &path));
        }
        let durable = images.for_image()?;
        let contents = match &durable {
            Some(durable) => durable.copy_to(&path),
            None => fs::OpenOptions::new().write(true).create_new(true).open(&path).map(Contents::new),
        };
        let mut contents = contents.map_err(Error::file("create", &path))?;
        let operations: Vec<Seq> = inode.pending.iter().copied().collect();
        let has_place = |page: u64| durable.as_ref().is_some_and(|durable| durable.is_allocated(page * PAGE, 1));
        let steps = self.survivors.of_file(ino, (&self.disk.log, &operations), has_place);
        self.apply(&steps, &mut contents).map_err(Error::file("write", &path))?;
        self.set(self.attributes(inode), &path)?;
        self.made.insert(ino, path);
        progress::step();
        Ok(())
    }

    fn apply(&mut self, steps: &[Step], contents: &mut Contents) -> std::io::Result<()> {
        let mut end_of_file = contents.size();
        for step in steps {
            match step {
                Step::Resize(size) => {
                    contents.resize(*size)?;
                    end_of_file = *size;
                }
                Step::Grow(size) => end_of_file = end_of_file.max(*size),
                Step::Piece(Piece { seq, begin, end, is_in_place }) => {
                    let is_write = self.apply_piece(*seq, (*begin, *end), contents)?;
                    if is_write && !is_in_place {
                        end_of_file = end_of_file.max(*end);
                    }
                }
            }
        }
        // What was written behind the end of a file in its last page is not part of it.
        if contents.size() == end_of_file { Ok(()) } else { contents.resize(end_of_file) }
    }

    /// Applies a part of a write or of a hole; says whether it was a write.
    fn apply_piece(&mut self, seq: Seq, (begin, end): (u64, u64), contents: &mut Contents) -> std::io::Result<bool> {
        if let Some(Change::Write { offset, data, .. }) = self.disk.log.get(seq) {
            let data = self.disk.payloads.read(data, begin - offset, end - offset)?;
            self.bytes += end - begin;
            contents.write(begin, &data)?;
            return Ok(true);
        }
        contents.zero(begin, end - begin)?;
        Ok(false)
    }

    /// The attributes of an inode in the image.
    fn attributes(&self, inode: &Inode) -> Attributes {
        let surviving = inode.pending.iter().rev().filter(|seq| self.survivors.has(**seq));
        let attributes = |seq: &Seq| match self.disk.log.get(*seq) {
            Some(Change::Attributes { attributes, .. }) => Some(*attributes),
            _ => None,
        };
        surviving.filter_map(attributes).next().unwrap_or(inode.durable_attributes)
    }

    fn set(&self, Attributes { mode, uid, gid }: Attributes, path: &Path) -> Result<(), Error> {
        if (uid, gid) != self.owner {
            lchown(path, Some(uid), Some(gid)).map_err(Error::file("change the owner of", path))?;
        }
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::file("set the permissions of", path))
    }
}
