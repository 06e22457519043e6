//! A mount for a test.

use std::io::Write;
use std::path::{Path, PathBuf};

use prony_model::units::{Fraction, Nanos};
use prony_powercut::{CutReport, CutSettings, Error, MetadataOrder, Mounted, Policy, Settings, Unit};
use tempfile::TempDir;

/// A mounted file system, and the directories for it and for images.
pub(crate) struct Mount {
    // In this order: the mount goes before its directory.
    pub(crate) mounted: Mounted,
    top: TempDir,
    cuts: u32,
}

/// The program that serves mounts.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_prony-powercut-server"))
}

/// Says why a test is skipped where FUSE is missing; on standard error itself, since the test runner hides what tests print. A
/// machine without `/dev/fuse` cannot run these tests, whatever is required of it; with it, mounting is required.
pub(crate) fn skip(error: &Error) {
    let has_device = Path::new("/dev/fuse").exists();
    let is_required = has_device && std::env::var("PRONY_REQUIRE_ALL").as_deref() == Ok("1");
    assert!(!is_required, "FUSE is required where `/dev/fuse` is: {error}");
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {error}");
}

/// Says that a test is skipped where a program is missing.
pub(crate) fn skip_without(program: &str) {
    assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`{program}` is required and missing");
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: `{program}` is not there");
}

impl Mount {
    /// Mounts; `None` where FUSE is missing.
    pub(crate) fn with(settings: &Settings) -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        let point = top.path().join("point");
        std::fs::create_dir(&point).unwrap();
        match Mounted::start(program(), &point, &top.path().join("state"), settings) {
            Ok(mounted) => Some(Self { mounted, top, cuts: 0 }),
            Err(error @ Error::Mount { .. }) => {
                skip(&error);
                None
            }
            Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
        }
    }

    pub(crate) fn in_order(metadata: MetadataOrder) -> Option<Self> {
        Self::with(&Settings { metadata, ..Settings::default() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mounted.point().join(name)
    }

    /// A directory outside of the mount.
    pub(crate) fn outside(&self) -> &Path {
        self.top.path()
    }

    /// Images of a cut now, as many as policies.
    pub(crate) fn cut(&mut self, policies: &[Policy], unit: Unit, seed: u64) -> CutReport {
        let settings = self.settings(policies, unit, seed);
        self.mounted.cut(&settings).unwrap()
    }

    /// The same, and the instant of the cut.
    pub(crate) fn cut_at(&mut self, policies: &[Policy], unit: Unit, seed: u64) -> (Nanos, CutReport) {
        let settings = self.settings(policies, unit, seed);
        let cut = self.mounted.save(&self.top.path().join(format!("saved-{}", self.cuts))).unwrap();
        (cut.at(), cut.images(&settings).unwrap())
    }

    fn settings(&mut self, policies: &[Policy], unit: Unit, seed: u64) -> CutSettings {
        self.cuts += 1;
        let into = self.top.path().join(format!("cut-{}", self.cuts));
        let chances = (Fraction::new(0.5).unwrap(), unit);
        CutSettings::check(&into, policies.len() as u32, policies, chances, seed).unwrap()
    }

    /// The image with what is durable and nothing else.
    pub(crate) fn durable(&mut self) -> PathBuf {
        self.cut(&[Policy::None], Unit::Page, 1).images.remove(0).path
    }
}
