//! What a file system and a cut are asked to do, checked.

use std::path::{Path, PathBuf};

use prony_model::random::{GOLDEN, mix};
use prony_model::units::{Bytes, Fraction, Nanos};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Which changes of metadata an `fsync` makes durable, and in which order the others may survive a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetadataOrder {
    /// As ext4 with its default options, `data=ordered` and delayed allocation: one journal, so that the changes that survive
    /// are a prefix of all changes. `fsync` of a file or directory also makes durable every change before the last one that
    /// concerns it. A rename over an existing file does not survive without the data of the file that was renamed, nor
    /// does a later change without the data of a file that was truncated to nothing, written and closed (`auto_da_alloc`);
    /// both only where a page of these data has no place yet, neither of data that it replaces nor by `fallocate`.
    #[default]
    Ext4,
    /// The same with the option `noauto_da_alloc`: a rename may survive without the data.
    Ext4NoAutoDaAlloc,
    /// What POSIX promises and no more: `fsync` of a file makes its contents and attributes durable, `fsync` of a
    /// directory its entries. Changes of different names survive independently of each other.
    Posix,
}

impl MetadataOrder {
    pub(crate) const fn is_posix(self) -> bool {
        matches!(self, Self::Posix)
    }

    /// Whether the option `auto_da_alloc` is simulated.
    pub(crate) const fn flushes_replacements(self) -> bool {
        matches!(self, Self::Ext4)
    }
}

/// How a file system behaves until a cut.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Order of metadata.
    pub metadata: MetadataOrder,
    /// Memory of the server for pending operations with their data, for files, and for names. Data beyond it go to a file in
    /// the state directory; where that does not suffice, the oldest operations are made durable, and where that does not
    /// suffice either, nothing can be created: [`crate::CutReport::limits`] says so.
    pub memory: Bytes,
    /// Pending data and operations beyond which the oldest are made durable, as a kernel does at its limit of dirty pages.
    pub pending: Bytes,
    /// Interval at which all pending operations are made durable in the background; without it they wait for an `fsync`.
    pub writeback: Option<Nanos>,
    /// Allocated bytes beyond which a write fails with `ENOSPC`.
    pub quota: Option<Bytes>,
    /// Time that is added to each request.
    pub latency: Nanos,
    /// Time that is added to each `fsync`, `fdatasync`, `msync` and synchronous write.
    pub sync_latency: Nanos,
    /// Time after which the mount is removed where its server does not answer, or no request makes progress.
    pub patience: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            metadata: MetadataOrder::Ext4,
            memory: Bytes::from_mib(256),
            pending: Bytes::from_mib(4096),
            writeback: None,
            quota: None,
            latency: Nanos::ZERO,
            sync_latency: Nanos::ZERO,
            patience: Nanos::from_secs(30),
        }
    }
}

/// Which pending operations survive a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// None: what was made durable and nothing else.
    None,
    /// The first ones, in the order in which they were issued; how many is random.
    Prefix,
    /// A random subset: of each unit of a file one of its states since it was last made durable; of the metadata what
    /// [`MetadataOrder`] allows.
    Subset,
    /// A prefix, and of the next write only a part: it is cut at a boundary of a unit, and one side survives.
    Torn,
}

/// What a disk writes whole or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// 512 bytes.
    Sector,
    /// 4096 bytes.
    #[default]
    Page,
}

impl Unit {
    /// In bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Sector => 512,
            Self::Page => 4096,
        }
    }
}

/// What decides which pending operations are in an image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    /// Which survive.
    pub policy: Policy,
    /// Under [`Policy::Subset`] the probability that a unit has a later state than the durable one, and by
    /// [`MetadataOrder::Posix`] that a change of metadata survives.
    pub keep: Fraction,
    /// What the disk writes whole.
    pub unit: Unit,
    /// All randomness comes from it.
    pub seed: u64,
}

/// A cut, and the images to make of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CutSettings {
    pub(crate) into: PathBuf,
    pub(crate) images: u32,
    pub(crate) policies: Vec<Policy>,
    pub(crate) keep: Fraction,
    pub(crate) unit: Unit,
    pub(crate) seed: u64,
}

impl CutSettings {
    /// Checks what a cut is to do: `images` directories in the directory `into`, which is created, beside the saved cut; image
    /// number `i` follows policy `i` of `policies`, and again from the first one. Under [`Policy::Subset`] `keep` is the probability
    /// that a unit has a later state than the durable one, and by [`MetadataOrder::Posix`] that a change of metadata
    /// survives. All randomness comes from `seed`.
    ///
    /// # Errors
    /// Where there is no image, no policy, or `into` is no absolute path.
    pub fn check(
        into: &Path,
        images: u32,
        policies: &[Policy],
        (keep, unit): (Fraction, Unit),
        seed: u64,
    ) -> Result<Self, Error> {
        if images == 0 {
            return Err(Error::setting("a cut makes no image", "ask for one image at least"));
        }
        if policies.is_empty() {
            return Err(Error::setting("a cut has no policy", "choose from none, prefix, subset and torn"));
        }
        Ok(Self { into: checked(into)?, images, policies: policies.to_vec(), keep, unit, seed })
    }

    /// The images of crash trials, in units of pages: of four images one has nothing of what was pending, one a prefix, one a
    /// random half of the pages, and one a prefix with a torn write. Which of these comes first follows from the seed, so that
    /// cuts of fewer than four images have all of them together.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn of_trials(into: &Path, images: u32, seed: u64) -> Result<Self, Error> {
        let mut policies = [Policy::None, Policy::Prefix, Policy::Subset, Policy::Torn];
        policies.rotate_left((mix(seed) % 4) as usize);
        let half = Fraction::new(0.5).unwrap_or(Fraction::ONE);
        Self::check(into, images, &policies, (half, Unit::Page), seed)
    }

    /// The directory of the images.
    pub(crate) fn directory(&self) -> &Path {
        &self.into
    }

    pub(crate) fn with_directory(self, into: PathBuf) -> Result<Self, Error> {
        Ok(Self { into: checked(&into)?, ..self })
    }

    /// How image number `number` is drawn; the first one is 1.
    pub fn draw(&self, number: u32) -> Draw {
        let policy = self.policies[(number.max(1) - 1) as usize % self.policies.len()];
        let seed = mix(self.seed.wrapping_add(u64::from(number).wrapping_mul(GOLDEN)));
        Draw { policy, keep: self.keep, unit: self.unit, seed }
    }

    /// Where image number `number` is.
    pub fn path(&self, number: u32) -> PathBuf {
        self.into.join(format!("image-{number:03}"))
    }
}

/// A path that can be in a report: these are text, and read by processes with other working directories.
pub(crate) fn checked(into: &Path) -> Result<PathBuf, Error> {
    if !into.is_absolute() {
        return Err(Error::setting("the directory for images is a relative path", "give the whole path"));
    }
    if into.to_str().is_none() {
        let message = format!("the name of the directory for images is not UTF-8: `{}`", into.display());
        return Err(Error::setting(message, "choose another directory"));
    }
    Ok(into.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty cuts of two images had none with a subset of the pages or a torn write.
    #[test]
    fn cuts_of_few_images_have_all_policies_together_and_a_seed_has_the_same_again() {
        let policies = |images: u32, seed: u64| -> Vec<Policy> {
            let settings = CutSettings::of_trials(Path::new("/images"), images, seed).unwrap();
            (1..=images).map(|number| settings.draw(number).policy).collect()
        };
        let all = [Policy::None, Policy::Prefix, Policy::Subset, Policy::Torn];
        for images in 1..=3 {
            let of_cuts: Vec<Policy> = (0..30).flat_map(|seed| policies(images, seed)).collect();
            assert!(all.iter().all(|policy| of_cuts.contains(policy)), "{images}: {of_cuts:?}");
        }
        for seed in 0..30 {
            let four = policies(4, seed);
            assert!(all.iter().all(|policy| four.contains(policy)), "{four:?}");
            assert_eq!(policies(9, seed)[..4], four, "`replay` asks for one image of a cut only");
        }
    }
}
