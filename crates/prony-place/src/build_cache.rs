//! Caches the output of variants' builds across runs, by a hash of the builds' inputs.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use prony_model::program::ProgramSpec;
use prony_os::launch::{Scratch, remove_tree};
use xxhash_rust::xxh3::Xxh3Default;

use crate::copy::{Progress, copy_tree};
use crate::error::Error;
use crate::shell_text::shell_words;
use crate::startable;

/// A build that was not used for so long is removed when another is stored.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a cached build may contain: builds of an earlier number are not used. Since 2, no build is cached that names
/// the path of its copy, or wrote outside of it what a command names.
const FORMAT: u32 = 2;

/// Where builds are kept.
#[derive(Debug)]
pub(crate) struct Builds {
    directory: PathBuf,
}

impl Builds {
    /// `$PRONY_CACHE/builds`; else `prony/builds` in `$XDG_CACHE_HOME` or `~/.cache`. `None` where `PRONY_CACHE` is
    /// `off` or there is no home.
    pub(crate) fn of_user() -> Option<Self> {
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
    /// [`Error::Copy`] with the path at fault; whatever `progress` ends it with.
    pub(crate) fn take(&self, key: &str, copy: &Path, progress: &mut Progress<'_>) -> Result<bool, Error> {
        let cached = self.directory.join(key);
        // Another process may remove it meanwhile: only a directory that could be opened exists.
        let Ok(there) = File::open(&cached) else { return Ok(false) };
        let _ = there.set_modified(SystemTime::now());
        // The cached clone borrows the objects of the repository of its own run, which may be elsewhere or gone.
        let alternates = copy.join(".git/objects/info/alternates");
        let borrowed = fs::read(&alternates).ok();
        remove_tree(copy)?;
        copy_tree(&cached, copy, progress)?;
        if let Some(borrowed) = borrowed.filter(|_| alternates.exists()) {
            fs::write(&alternates, borrowed).map_err(Error::copying(&alternates))?;
        }
        Ok(true)
    }

    /// How long ago a build was stored, where the file system knows.
    pub(crate) fn age(&self, key: &str) -> Option<Duration> {
        fs::metadata(self.directory.join(key)).ok()?.created().ok()?.elapsed().ok()
    }

    /// Stores a build's output. If it cannot be stored, or `progress` ends that, the build is repeated in the next run.
    pub(crate) fn put(&self, key: &str, copy: &Path, progress: &mut Progress<'_>) {
        // Copied to a place of its own: others may keep the same build at the same time.
        let place = private(&self.directory).ok().and_then(|()| Scratch::create(&self.directory).ok());
        if let Some(new) = place {
            let whole = new.path().join(key);
            // It has the time of the copy, which may be long ago: it is kept from now on.
            let stamped = || File::open(&whole)?.set_modified(SystemTime::now());
            let _ = copy_tree(copy, &whole, progress).is_ok()
                && stamped().is_ok()
                && fs::rename(&whole, self.directory.join(key)).is_ok();
        }
        self.forget_old();
    }

    fn forget_old(&self) {
        let _ = Scratch::sweep(&self.directory);
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        // The user chooses the directory, and may have other things there.
        for entry in entries.filter(|entry| is_key(&entry.file_name())) {
            let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > RETENTION) {
                let _ = remove_tree(&entry.path());
            }
        }
    }
}

/// Whether a name is one that [`key`] gives.
fn is_key(name: &OsStr) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    name.len() == 32 && name.as_encoded_bytes().iter().all(is_digit)
}

/// Makes the directory and its parents, for this user only: builds contain whole programs.
fn private(directory: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The copy before the build.
pub(crate) struct Input<'a> {
    /// Of its files, without what git keeps for itself.
    pub(crate) digest: u64,
    /// The directory in it that is built.
    pub(crate) inside: &'a Path,
    /// Of the directory that was copied: it has the times of modification of every file. The same content with other
    /// times is another build: one in which an artefact is newer than its source does nothing, and what it leaves as it
    /// was may be of another source. Changes come after the copy and are newer than all of it, so their times say nothing
    /// more. A revision has none: its files are those of a fresh clone, without artefacts but those that are committed.
    pub(crate) state: Option<&'a str>,
    /// Its commit and those of its submodules ([`crate::revision::commits`]), which a build may ask for or check out: in the files
    /// of two revisions that differ in these only, nothing differs before it.
    pub(crate) commits: String,
    /// Paths outside of the copy that commands of the run name: a cached build may have written there, when none named them.
    pub(crate) outside: &'a BTreeSet<PathBuf>,
}

/// The name of a build: a hash of its input, and of everything else on which a build depends.
pub(crate) fn key(program: &ProgramSpec, build: &[String], input: &Input<'_>) -> String {
    let Input { digest, inside, state, commits, outside } = input;
    let mut hash = Xxh3Default::new();
    let path = startable::path(program);
    // A command as one text is words of a shell: each executable that it names is a tool.
    let words = build.iter().flat_map(|text| shell_words(text));
    let tool = |word: &str| {
        let about = startable::find(program, None, word.as_ref())?.metadata().ok()?;
        Some((about.size(), about.mtime(), about.mtime_nsec()))
    };
    let tools: Vec<_> = words.map(tool).collect();
    let inherited: Vec<_> = program.inherit.iter().map(std::env::var_os).collect();
    hash.update(
        format!(
            "{FORMAT} {build:?} {:?} {inherited:?} {path:?} {tools:?} {inside:?} {state:?} {digest:x} {commits:?} {outside:?}",
            program.env
        )
        .as_bytes(),
    );
    format!("{:032x}", hash.digest128())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::digest;

    static NONE: BTreeSet<PathBuf> = BTreeSet::new();

    fn input<'a>(copy: &Path, inside: &'a str, state: Option<&'a str>) -> Input<'a> {
        let digest = digest::of_tree(copy, &mut |_, _| Ok(())).unwrap();
        Input { digest, inside: Path::new(inside), state, commits: String::new(), outside: &NONE }
    }

    fn program() -> ProgramSpec {
        crate::tests::program("[program.x]\ncommand = \"true\"\n")
    }

    #[test]
    fn what_was_built_is_taken_and_what_differs_is_not() {
        let top = tempfile::tempdir().unwrap();
        let (copy, builds) = (top.path().join("copy"), Builds { directory: top.path().join("cache/builds") });
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("a"), "one").unwrap();
        let build = vec!["make".to_owned()];
        let key =
            |program: &ProgramSpec, build: &[String], copy: &Path| key(program, build, &input(copy, "", Some("a")));
        let first = key(&program(), &build, &copy);
        assert!(!builds.take(&first, &copy, &mut |_, _| Ok(())).unwrap());
        fs::write(copy.join("made"), "of one").unwrap();
        // Nothing was added at the top of the program for longer than builds are kept.
        File::open(&copy).unwrap().set_modified(SystemTime::now() - 2 * RETENTION).unwrap();
        builds.put(&first, &copy, &mut |_, _| Ok(()));
        fs::remove_file(copy.join("made")).unwrap();
        assert_eq!(key(&program(), &build, &copy), first, "the same content has the same name");
        assert!(builds.take(&first, &copy, &mut |_, _| Ok(())).unwrap());
        assert_eq!(fs::read_to_string(copy.join("made")).unwrap(), "of one");
        fs::remove_file(copy.join("made")).unwrap();
        // What another prony copies there meanwhile, which may have the same process number in another PID namespace.
        let second = key(&program(), &["cc".to_owned()], &copy);
        let theirs = top.path().join(format!("cache/builds/{second}.{}", std::process::id()));
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("half"), "").unwrap();
        builds.put(&second, &copy, &mut |_, _| Ok(()));
        assert!(theirs.join("half").exists() && builds.take(&second, &copy, &mut |_, _| Ok(())).unwrap());
        assert_eq!(fs::read_dir(top.path().join("cache/builds")).unwrap().count(), 3, "nothing else is left there");
        let mut other = program();
        other.env.insert("MODE".into(), "fast".into());
        fs::write(copy.join("b"), "").unwrap();
        let more = key(&program(), &build, &copy);
        let names = [key(&other, &build, &copy), key(&program(), &["cc".to_owned()], &copy), more];
        for (inside, state) in [("sub", Some("a")), ("", Some("b")), ("", None)] {
            assert_ne!(super::key(&program(), &build, &input(&copy, inside, state)), names[2]);
        }
        let submodules = Input { commits: "160000 1 0\tlib\0".to_owned(), ..input(&copy, "", Some("a")) };
        assert_ne!(super::key(&program(), &build, &submodules), names[2]);
        let outside = Input { outside: &BTreeSet::from(["/inst/prog".into()]), ..input(&copy, "", Some("a")) };
        assert_ne!(super::key(&program(), &build, &outside), names[2], "nothing would be written there");
        assert!(names.iter().all(|name| *name != first) && names[0] != names[2] && names[1] != names[2]);
    }

    /// A repository that had been moved or deleted since made the copy one in which git fails.
    #[test]
    fn cached_clone_borrows_the_objects_of_the_repository_of_this_run() {
        let top = tempfile::tempdir().unwrap();
        let builds = Builds { directory: top.path().join("cache") };
        let (clone, plain) = (top.path().join("clone"), top.path().join("plain"));
        let alternates = clone.join(".git/objects/info/alternates");
        let borrow = |from: &str| {
            fs::create_dir_all(alternates.parent().unwrap()).unwrap();
            fs::write(&alternates, from).unwrap();
        };
        borrow("/old/.git/objects\n");
        builds.put("a", &clone, &mut |_, _| Ok(()));
        borrow("/new/.git/objects\n");
        assert!(builds.take("a", &clone, &mut |_, _| Ok(())).unwrap());
        assert_eq!(fs::read_to_string(&alternates).unwrap(), "/new/.git/objects\n");
        fs::create_dir(&plain).unwrap();
        builds.put("b", &plain, &mut |_, _| Ok(()));
        assert!(builds.take("b", &clone, &mut |_, _| Ok(())).unwrap() && !clone.join(".git").exists());
    }

    /// The directory may be any of the user's: everything in it that was old was removed.
    #[test]
    fn old_builds_are_removed_and_nothing_else() {
        let top = tempfile::tempdir().unwrap();
        let builds = Builds { directory: top.path().to_path_buf() };
        let (old, new) = ("0123456789abcdef0123456789abcdef", "f".repeat(32));
        let theirs = ["notes", "0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef0123456789abcde"];
        for name in [&[old, new.as_str()][..], &theirs].concat() {
            fs::create_dir(top.path().join(name)).unwrap();
            let age = if name == new { Duration::ZERO } else { 2 * RETENTION };
            File::open(top.path().join(name)).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
        builds.forget_old();
        let left = |name: &str| top.path().join(name).exists();
        assert!(!left(old) && left(&new) && theirs.into_iter().all(left));
    }

    #[test]
    fn every_tool_that_a_build_names_is_in_its_key() {
        let bin = tempfile::tempdir().unwrap();
        let tool = |name: &str, text: &str| {
            fs::write(bin.path().join(name), text).unwrap();
            let mode = if name == "data" { 0o644 } else { 0o755 };
            fs::set_permissions(bin.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let mut program = program();
        program.env.insert("PATH".into(), bin.path().display().to_string());
        let [link, data] = ["link", "data"].map(|name| bin.path().join(name).display().to_string());
        let build = ["sh", "-c", &format!("A=1 cc a.c && (as a.s); {link} >> {data}")].map(str::to_owned);
        ["sh", "cc", "as", "link", "data", "other"].into_iter().for_each(|name| tool(name, "1"));
        let input = Input { digest: 0, inside: Path::new(""), state: None, commits: String::new(), outside: &NONE };
        let key = || key(&program, &build, &input);
        let mut keys = vec![key()];
        for name in ["sh", "cc", "as", "link"] {
            tool(name, "version 2");
            keys.push(key());
        }
        tool("other", "version 2");
        tool("data", "version 2");
        assert_eq!(keys[4], key(), "one is not named, one is no executable");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
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
