//! What requests of the kernel and requests of other processes have in common.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::report::{CutReport, Pending};
use crate::settings::CutSettings;

/// A disk that is mounted.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<Mutex<Disk>>,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Device number of the mount.
    pub(crate) device: u64,
}

impl Shared {
    /// Makes the images of a cut; programs wait until they are made.
    pub(crate) fn cut(&self, settings: &CutSettings) -> Result<CutReport, Error> {
        let above = settings.into.parent().unwrap_or(Path::new("/"));
        let device = fs::metadata(above).map_err(Error::file("read", above))?.dev();
        if device == self.device {
            return Err(Error::Setting {
                message: format!("the images would lie in the file system that is cut: `{}`", settings.into.display()),
                hint: format!("choose a directory outside of `{}`", self.point.display()),
            });
        }
        let mut disk = lock(&self.disk);
        disk.write_back().map_err(|error| self.failed(error))?;
        disk.cut(settings)
    }

    pub(crate) fn sync(&self) -> Result<Pending, Error> {
        let mut disk = lock(&self.disk);
        let pending = disk.pending();
        disk.sync_all().map_err(|error| self.failed(error))?;
        Ok(pending)
    }

    fn failed(&self, error: rustix::io::Errno) -> Error {
        Error::file("make everything durable on", &self.point)(error.into())
    }
}
