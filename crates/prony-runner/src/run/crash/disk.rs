//! What survives a cut: after a process crash the directory of the store, after a power failure images of a simulated disk.

use std::fs;
use std::path::{Path, PathBuf};

use prony_model::crash::{CutEnding, CutKind};
use prony_model::error::chain;
use prony_model::number::count;
use prony_model::spec::CrashSpec;
use prony_model::units::Nanos;
use prony_powercut::{Cut, CutSettings, Limits, Mounted, Policy, Settings};

use crate::error::Error;

/// The name of the store's directory.
const STORE: &str = "store";

/// Where a store lies.
pub(super) enum Disk {
    /// In a directory.
    Plain(PathBuf),
    /// On a simulated disk.
    Simulated {
        /// The mount.
        mounted: Box<Mounted>,
        /// Where cuts and images are made.
        scratch: PathBuf,
        /// How images are drawn.
        settings: CutSettings,
        /// How many.
        images: u32,
        /// Whether the new store is made durable.
        creation: bool,
    },
}

/// What a power failure left.
pub(super) struct Saved {
    cut: Cut,
    /// Why images may be less severe than a power failure.
    pub(super) remarks: Vec<String>,
    /// Where it is saved.
    pub(super) path: PathBuf,
}

/// An image of the disk.
pub(super) struct Image {
    /// What it contains of what was pending.
    contains: String,
    /// The store's directory in it.
    pub(super) store: PathBuf,
    path: PathBuf,
}

impl Disk {
    /// Makes the place of a store in a scratch directory; or how the trial ends where power failures cannot be simulated.
    pub(super) fn new(scratch: &Path, crash: &CrashSpec, seed: u64) -> Result<Result<Self, CutEnding>, Error> {
        let made = |path: &Path| fs::create_dir(path).map_err(Error::setup("make a directory for a crash trial"));
        if crash.cut == CutKind::Kill {
            let store = scratch.join(STORE);
            made(&store)?;
            return Ok(Ok(Self::Plain(store)));
        }
        let scratch = scratch.canonicalize().map_err(Error::setup("find a scratch directory"))?;
        let point = scratch.join("disk");
        made(&point)?;
        let (program, settings) = (Path::new("/proc/self/exe"), Settings::default());
        let mounted = match Mounted::start(program, &point, &scratch.join("state"), &settings) {
            Ok(mounted) => mounted,
            Err(error @ prony_powercut::Error::Mount { .. }) => {
                let why = format!("power failures cannot be simulated here: {}", chain(&error));
                return Ok(Err(CutEnding::Unsupported { why }));
            }
            Err(error) => return Ok(Err(CutEnding::Failed { message: chain(&error) })),
        };
        let settings = match CutSettings::of_trials(&scratch.join("images"), crash.images, seed) {
            Ok(settings) => settings,
            Err(error) => return Ok(Err(CutEnding::Failed { message: chain(&error) })),
        };
        made(&mounted.point().join(STORE))?;
        // The store's directory is made by prony, and not by the engine whose creation is tested.
        if let Err(error) = mounted.sync() {
            return Ok(Err(CutEnding::Failed { message: chain(&error) }));
        }
        made(&scratch.join("images"))?;
        let (images, creation) = (crash.images, crash.creation);
        let mounted = Box::new(mounted);
        Ok(Ok(Self::Simulated { mounted, scratch, settings, images, creation }))
    }

    /// The directory of the store.
    pub(super) fn store(&self) -> PathBuf {
        match self {
            Self::Plain(store) => store.clone(),
            Self::Simulated { mounted, .. } => mounted.point().join(STORE),
        }
    }

    /// Makes the new store durable, unless its creation is tested.
    ///
    /// # Errors
    /// What the simulated disk says.
    pub(super) fn settle(&self) -> Result<(), String> {
        match self {
            Self::Simulated { mounted, creation: false, .. } => mounted.sync().map(drop).map_err(|error| chain(&error)),
            Self::Plain(_) | Self::Simulated { .. } => Ok(()),
        }
    }

    /// Cuts the power, where it is simulated.
    ///
    /// # Errors
    /// What the simulated disk says.
    pub(super) fn cut(&self) -> Result<Option<Saved>, String> {
        let Self::Simulated { mounted, scratch, .. } = self else { return Ok(None) };
        let path = scratch.join("cut");
        let cut = mounted.save(&path).map_err(|error| chain(&error))?;
        let remarks = remarks(cut.status().limits);
        Ok(Some(Saved { cut, remarks, path }))
    }

    /// How many states of the disk there are after a cut.
    pub(super) const fn images(&self) -> u32 {
        match self {
            Self::Plain(_) => 1,
            Self::Simulated { images, .. } => *images,
        }
    }

    /// A state of the disk after a cut, from 0 on.
    ///
    /// # Errors
    /// Where the image cannot be made.
    pub(super) fn image(&self, saved: Option<&Saved>, number: u32) -> Result<Image, String> {
        let (Self::Simulated { settings, .. }, Some(saved)) = (self, saved) else {
            let (contains, store) = ("all that the process had written".to_owned(), self.store());
            return Ok(Image { contains, path: PathBuf::new(), store });
        };
        let (draw, path) = (settings.draw(number + 1), settings.path(number + 1));
        let image = saved.cut.image(&draw, &path).map_err(|error| chain(&error))?;
        let contains = match image.policy {
            Policy::None => "nothing that was pending",
            Policy::Prefix => "the first of the pending operations",
            Policy::Subset => "a random subset of the pending pages",
            Policy::Torn => "the first of the pending operations, and a part of a write",
        };
        Ok(Image { contains: contains.to_owned(), store: path.join(STORE), path })
    }
}

impl Saved {
    /// The instant of the power failure.
    pub(super) const fn at(&self) -> Nanos {
        self.cut.at()
    }
}

impl Image {
    /// Removes it, where it was made; returns what it contained.
    pub(super) fn discard(self) -> String {
        if !self.path.as_os_str().is_empty() {
            // What remains goes with the scratch directory.
            let _ = fs::remove_dir_all(&self.path);
        }
        self.contains
    }
}

/// What makes images less severe than a power failure could be.
fn remarks(limits: Limits) -> Vec<String> {
    let Limits { made_durable, refused, parts_as_whole, unsent_maps } = limits;
    let all = [
        (made_durable, "operation", "made durable early, at the limit of pending data"),
        (refused, "file", "refused, at the limit of memory or of open files"),
        (parts_as_whole, "sync", "that may have been of a part of a file, and made all of it durable"),
        (
            unsent_maps,
            "map",
            "whose changed pages may be missing from the images: opening the file needs `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`",
        ),
    ];
    let of = |(number, noun, what)| format!("{} {what}", count::<u64>(number, noun));
    all.into_iter().filter(|(number, ..)| *number > 0).map(of).collect()
}
