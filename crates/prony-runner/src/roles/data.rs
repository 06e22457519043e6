//! Finds where a program keeps its data. Snapshots read there the size of the data on disk, as length and as blocks
//! (METHOD 1.9), and the counters of the device, which include writes that no system call shows (METHOD 5.3).
//!
//! What a program writes is known to itself only: its directory may hold a tree of packages that takes seconds to walk,
//! while the program runs on. So the place is declared, and read where phases begin and end.

use std::path::{Component, Path, PathBuf};

use prony_model::program::Care;
use prony_model::reading::Reading;
use prony_model::record::effective::ProgramStore;
use prony_place::launch_setting::Setting;

/// Why the size of a program's data is missing.
const UNDECLARED: &str = "the program does not declare where it keeps its data; set `store = \"PATH\"`";

/// Why metrics of the disk are missing with light care.
const LIGHT: &str = "with light care, the disk is not read when phases begin and end";

/// What snapshots read of the disk, or why they do not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OnDisk {
    /// The program's data.
    pub store: Reading<PathBuf>,
    /// A path on the device that holds them; the directory it works in where it declares none.
    pub device: Reading<PathBuf>,
}

impl OnDisk {
    /// For a store in its directory.
    pub(crate) fn at(directory: &Path) -> Self {
        let path = || Reading::Measured(directory.to_path_buf());
        Self { store: path(), device: path() }
    }

    /// For a program in its place.
    pub(crate) fn of(setting: &Setting<'_>, care: Care) -> Self {
        let missing = |why: &str| Reading::not_supported(why);
        if care == Care::Light {
            return Self { store: missing(LIGHT), device: missing(LIGHT) };
        }
        let path = resolved(setting);
        let device = path.as_deref().and_then(existing).unwrap_or(&setting.directory).to_path_buf();
        Self { store: path.map_or_else(|| missing(UNDECLARED), Reading::Measured), device: Reading::Measured(device) }
    }
}

/// The path that a program's `store` means, where it has one.
fn resolved(setting: &Setting<'_>) -> Option<PathBuf> {
    setting.program.store.as_deref().map(|store| setting.directory.join(setting.filled(store)))
}

/// The nearest parent directory that exists: a store is made by its program, on the same disk as its parent.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.exists())
}

/// The path of the data, for the record; `None` where they are not read. Call it while the scratch exists.
pub(crate) fn place(setting: &Setting<'_>, care: Care) -> Option<ProgramStore> {
    let path = resolved(setting).filter(|_| care == Care::Full)?;
    // Files made for this trial only lie in its scratch. A path may lead out of it, by `..` or by a link.
    let real = path.canonicalize().unwrap_or_else(|_| normal(&path));
    Some(ProgramStore { path, of_the_trial: real.starts_with(setting.scratch), ..ProgramStore::default() })
}

/// A path without its `.` and `..`, resolved literally.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
        normal
    })
}

#[cfg(test)]
mod tests {
    use prony_model::program::ProgramSpec;

    use super::*;

    fn program(keys: &str) -> ProgramSpec {
        let text = format!("[program.x]\ncommand = \"true\"\n{keys}");
        let experiment =
            crate::load::text(text, "x.toml", &Default::default(), &prony_model::catalog::Anywhere).unwrap();
        experiment.variants()[0].spec.subject.program().unwrap().clone()
    }

    #[test]
    fn paths_start_where_the_program_works() {
        let top = tempfile::tempdir().unwrap();
        let work = top.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let of = |store: &str| {
            let program = program(&format!("store = \"{store}\"\n"));
            OnDisk::of(&Setting::new(&program, top.path(), work.clone()), Care::Full)
        };
        let measured = |path: PathBuf| Reading::Measured(path);
        for store in ["data/x", "{dir}/data/x"] {
            let found = of(store);
            assert_eq!(found.store, measured(work.join("data/x")));
            assert_eq!(found.device, measured(work.clone()), "it is not there yet");
        }
        let found = of("{tmp}/x.db");
        assert_eq!((found.store, found.device), (measured(top.path().join("tmp/x.db")), measured(top.path().into())));
        assert_eq!(of("/proc/self").device, measured("/proc/self".into()), "elsewhere is another device");
    }

    #[test]
    fn what_is_not_declared_or_not_wanted_is_missing_with_its_reason() {
        let at = Path::new("/somewhere");
        let why = |reading: Reading<PathBuf>| match reading {
            Reading::Missing(why) => why.to_string(),
            Reading::Measured(path) => panic!("{path:?}"),
        };
        let of = |keys: &str, care| OnDisk::of(&Setting::new(&program(keys), at, at.into()), care);
        let plain = of("", Care::Full);
        assert!(why(plain.store).contains("`store = \"PATH\"`"));
        assert_eq!(plain.device, Reading::Measured(at.to_path_buf()), "flushes need no declaration");
        let light = of("store = \"data\"\n", Care::Light);
        assert!(why(light.store).contains("light care") && why(light.device).contains("light care"));
        let program = program("store = \"data\"\n");
        assert_eq!(place(&Setting::new(&program, at, at.into()), Care::Light), None);
    }

    #[test]
    fn only_what_lies_in_the_trials_scratch_is_its_own() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        let (scratch, shared) = (root.join("scratch"), root.join("shared"));
        let work = scratch.join("work");
        for made in [&work, &scratch.join("tmp"), &shared] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::os::unix::fs::symlink(&shared, work.join("link")).unwrap();
        let own = |store: &str, directory: &Path| {
            let program = program(&format!("store = \"{store}\"\n"));
            let place = place(&Setting::new(&program, &scratch, directory.into()), Care::Full).unwrap();
            (place.path == directory.join(store), place.of_the_trial)
        };
        assert_eq!(own("data", &work), (true, true));
        assert!(own("../data", &work).1, "beside the copy, and removed with it");
        assert!(own("{tmp}/data", &shared).1, "whatever it works in");
        for out in ["../../shared", "{dir}/../../not-there", "link", "{tmp}/../../shared/x"] {
            assert!(!own(out, &work).1, "{out}");
        }
        assert_eq!(own("data", &shared), (true, false));
    }
}
