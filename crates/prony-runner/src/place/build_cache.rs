//! Caches the builds of variants, across runs, by a hash of their inputs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use prony_model::program::ProgramSpec;
use prony_os::launch::{Scratch, remove_tree};
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::Error;
use crate::place::copy::copy_tree;

/// A build that was not used for so long is removed when another is stored.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The directory where builds are stored.
#[derive(Debug)]
pub struct Builds {
    directory: PathBuf,
}

impl Builds {
    /// `$PRONY_CACHE/builds`; else `prony/builds` in `$XDG_CACHE_HOME` or `~/.cache`. `None` where `PRONY_CACHE` is
    /// `off` or there is no home.
    pub fn of_user() -> Option<Self> {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::place(var("PRONY_CACHE"), var("XDG_CACHE_HOME"), var("HOME")).map(|directory| Self { directory })
    }

    fn place(ours: Option<OsString>, caches: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
        if ours.as_ref().is_some_and(|value| value == "off") {
            return None;
        }
        let caches = caches.map(PathBuf::from).or_else(|| Some(Path::new(&home?).join(".cache")));
        ours.map(PathBuf::from).or_else(|| Some(caches?.join("prony"))).map(|place| place.join("builds"))
    }

    /// Replaces the copy by the output of an earlier build; `false` where there was none.
    ///
    /// # Errors
    /// [`Error::Copy`] with the path at fault.
    pub fn take(&self, key: &str, copy: &Path) -> Result<bool, Error> {
        let cached = self.directory.join(key);
        // Another process may remove it meanwhile: only a directory that could be opened exists.
        let Ok(there) = File::open(&cached) else { return Ok(false) };
        let _ = there.set_modified(SystemTime::now());
        remove_tree(copy)?;
        copy_tree(&cached, copy)?;
        Ok(true)
    }

    /// Stores a build's output. If it cannot be stored, the build is repeated in the next run.
    pub fn put(&self, key: &str, copy: &Path) {
        // Copied to a directory of its own: other processes may store the same build at the same time.
        let place = private(&self.directory).ok().and_then(|()| Scratch::create(&self.directory).ok());
        if let Some(new) = place {
            let whole = new.path().join(key);
            let _ = copy_tree(copy, &whole).is_ok() && fs::rename(&whole, self.directory.join(key)).is_ok();
        }
        self.forget_old();
    }

    fn forget_old(&self) {
        let _ = Scratch::sweep(&self.directory);
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > RETENTION) {
                let _ = remove_tree(&entry.path());
            }
        }
    }
}

/// Makes the directory and its parents, for this user only: builds contain whole programs.
fn private(directory: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The name of a build: a hash of the copy as it is before, of the directory `inside` it that is built, and of all
/// other inputs of a build.
///
/// # Errors
/// [`Error::Copy`] with a file that cannot be read.
pub fn key(program: &ProgramSpec, build: &[String], copy: &Path, inside: &Path) -> Result<String, Error> {
    let mut hash = Xxh3Default::new();
    let path = program.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let tool = std::env::split_paths(&path).map(|dir| dir.join(build.first().map_or("", String::as_str)));
    let tool = tool.filter_map(|path| path.metadata().ok()).map(|about| (about.size(), about.mtime())).next();
    let inherited: Vec<_> = program.inherit.iter().map(std::env::var_os).collect();
    hash.update(format!("{build:?} {:?} {inherited:?} {path:?} {tool:?} {inside:?}", program.env).as_bytes());
    tree(copy, &mut hash)?;
    Ok(format!("{:032x}", hash.digest128()))
}

/// A hash of every path below a directory with its mode and content; what git keeps for itself is left out.
///
/// # Errors
/// [`Error::Copy`] with a file that cannot be read.
pub fn digest(directory: &Path) -> Result<u64, Error> {
    let mut hash = Xxh3Default::new();
    tree(directory, &mut hash)?;
    Ok(hash.digest())
}

/// Every path below with its mode and content, in order; what git keeps for itself is left out.
fn tree(copy: &Path, hash: &mut Xxh3Default) -> Result<(), Error> {
    let mut open = vec![copy.to_path_buf()];
    while let Some(directory) = open.pop() {
        let fault = |path: &Path| {
            let path = path.to_path_buf();
            |source| Error::Copy { path, source }
        };
        let entries = fs::read_dir(&directory).map_err(fault(&directory))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.into_iter().filter(|path| !path.ends_with(".git")) {
            let about = fs::symlink_metadata(&path).map_err(fault(&path))?;
            let name = path.strip_prefix(copy).unwrap_or(&path);
            hash.update(format!("{name:?} {:o} {}\n", about.permissions().mode(), about.len()).as_bytes());
            if about.is_dir() {
                open.push(path);
            } else if about.is_symlink() {
                let target = fs::read_link(&path).map_err(fault(&path))?;
                hash.update(target.strip_prefix(copy).unwrap_or(&target).as_os_str().as_encoded_bytes());
            } else if about.is_file() {
                content(&path, hash).map_err(fault(&path))?;
            }
        }
    }
    Ok(())
}

fn content(path: &Path, hash: &mut Xxh3Default) -> std::io::Result<()> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> ProgramSpec {
        let text = "[program.x]\ncommand = \"true\"\n";
        let experiment =
            crate::load::text(text.into(), "x.toml", &Default::default(), &prony_model::catalog::Anywhere).unwrap();
        experiment.variants()[0].spec.subject.program().unwrap().clone()
    }

    #[test]
    fn what_was_built_is_taken_and_what_differs_is_not() {
        let top = tempfile::tempdir().unwrap();
        let (copy, builds) = (top.path().join("copy"), Builds { directory: top.path().join("cache/builds") });
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("a"), "one").unwrap();
        let build = vec!["make".to_owned()];
        let key = |program: &ProgramSpec, build: &[String], copy: &Path| key(program, build, copy, Path::new(""));
        let first = key(&program(), &build, &copy).unwrap();
        assert!(!builds.take(&first, &copy).unwrap());
        fs::write(copy.join("made"), "of one").unwrap();
        builds.put(&first, &copy);
        fs::remove_file(copy.join("made")).unwrap();
        assert_eq!(key(&program(), &build, &copy).unwrap(), first, "the same content has the same name");
        assert!(builds.take(&first, &copy).unwrap());
        assert_eq!(fs::read_to_string(copy.join("made")).unwrap(), "of one");
        fs::remove_file(copy.join("made")).unwrap();
        // What another prony copies there meanwhile, which may have the same process number in another PID namespace.
        let second = key(&program(), &["cc".to_owned()], &copy).unwrap();
        let theirs = top.path().join(format!("cache/builds/{second}.{}", std::process::id()));
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("half"), "").unwrap();
        builds.put(&second, &copy);
        assert!(theirs.join("half").exists() && builds.take(&second, &copy).unwrap());
        assert_eq!(fs::read_dir(top.path().join("cache/builds")).unwrap().count(), 3, "nothing else is left there");
        let mut other = program();
        other.env.insert("MODE".into(), "fast".into());
        fs::write(copy.join("b"), "").unwrap();
        let more = key(&program(), &build, &copy).unwrap();
        let names = [key(&other, &build, &copy).unwrap(), key(&program(), &["cc".to_owned()], &copy).unwrap(), more];
        assert_ne!(super::key(&program(), &build, &copy, Path::new("sub")).unwrap(), names[2]);
        assert!(names.iter().all(|name| *name != first) && names[0] != names[2] && names[1] != names[2]);
    }

    #[test]
    fn places_follow_the_users_wishes() {
        let place = |ours: &str, caches: &str, home: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
            Builds::place(some(ours), some(caches), some(home)).map(|path| path.display().to_string())
        };
        assert_eq!(place("", "/c", "/h").as_deref(), Some("/c/prony/builds"));
        assert_eq!(place("", "", "/h").as_deref(), Some("/h/.cache/prony/builds"));
        assert_eq!(place("/p", "/c", "/h").as_deref(), Some("/p/builds"));
        assert_eq!((place("off", "/c", "/h"), place("", "", "")), (None, None));
    }
}
