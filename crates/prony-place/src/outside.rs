//! What the builds of copies leave outside of them. All variants find it there, so that what was built last is what each of them
//! measures, and from the build cache nothing comes there at all.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use prony_model::program::ProgramSpec;

use crate::digest;
use crate::error::Error;
use crate::named_paths::{named, pieces};
use crate::startable;

/// Device, inode, and the time of the last change of either content or inode.
type Version = (u64, u64, i64, i64);

/// The builds of a run, with what each left of what commands name outside of the copies.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// What the commands and variables of all its programs name, also where nothing is yet.
    paths: BTreeSet<PathBuf>,
    /// Those that a cached build may have written, from a time when no command named them.
    pub(crate) key: BTreeSet<PathBuf>,
    built: RefCell<Vec<(ProgramSpec, BTreeMap<PathBuf, String>)>>,
}

impl Outside {
    /// Adds what these programs name.
    pub(crate) fn name<'p>(&mut self, programs: impl Iterator<Item = &'p ProgramSpec>) {
        for program in programs {
            let (named, of_path) = (named(program), programs_of_path(program));
            let is_of_system = |path: &Path| ["/bin", "/usr/bin"].iter().any(|folder| path.starts_with(folder));
            self.key.extend(of_path.iter().filter(|path| path.is_file() && !is_of_system(path)).chain(&named).cloned());
            self.paths.extend(of_path.into_iter().chain(named));
        }
    }

    /// The files that commands and variables name outside of the copy.
    pub(crate) fn versions(&self, top: &Path) -> BTreeMap<PathBuf, Version> {
        let version = |path: &PathBuf| {
            let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
            Some((path.clone(), (about.dev(), about.ino(), about.ctime(), about.ctime_nsec())))
        };
        // Builds may write into one log.
        let is_used = |path: &&PathBuf| !path.starts_with(top) && path.extension().is_none_or(|end| end != "log");
        self.paths.iter().filter(is_used).filter_map(version).collect()
    }

    /// Adds what the build of a copy in the scratch directory of this name left, where `before` is what was there before. Returns whether
    /// it wrote any of it, and a path at which an earlier build of other code had left something else.
    ///
    /// # Errors
    /// [`Error::Refused`] where that is what a command executes.
    pub(crate) fn add(
        &self,
        program: &ProgramSpec,
        (top, scratch): (&Path, &str),
        before: &BTreeMap<PathBuf, Version>,
    ) -> Result<(bool, Option<PathBuf>), Error> {
        let after = self.versions(top);
        let content = |path: &PathBuf| digest::of_file(path, &fs::metadata(path).ok()?).ok();
        // What only other programs name is theirs: a folder for the build of each variant is no shared place.
        let mut own = Self::default();
        own.name(std::iter::once(program));
        let named = after.keys().filter(|path| own.paths.contains(*path));
        let mut left: BTreeMap<PathBuf, String> =
            named.filter_map(|path| Some((path.clone(), content(path)?))).collect();
        let mut written: Vec<PathBuf> = after
            .iter()
            .filter(|(path, version)| before.get(*path) != Some(version))
            .map(|(path, _)| path.clone())
            .collect();
        for package in installed(program, scratch) {
            // Of one code it is the same, whatever its scratch directory.
            left.insert(package.clone(), format!("{:?}", (&program.directory, &program.changes, &program.build)));
            written.push(package);
        }
        let mut known = self.built.borrow_mut();
        let differing =
            known.iter().filter(|(other, _)| other.name == program.name && !builds_the_same(other, program));
        let is_other = |path: &&PathBuf| {
            let mut before = differing.clone().filter_map(|(_, files)| files.get(*path));
            before.any(|state| left.get(*path) != Some(state))
        };
        let other = written.iter().find(is_other).cloned();
        let code = |of: &ProgramSpec| (of.directory.clone(), of.changes.clone(), of.build.clone());
        let is_of_other_code = other.as_ref().is_some_and(|path| {
            differing.clone().any(|(of, files)| files.contains_key(path) && code(of) != code(program))
        });
        known.push((program.clone(), left));
        let Some(path) = other else { return Ok((!written.is_empty(), None)) };
        let is_program =
            fs::metadata(&path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
        if is_program && is_of_other_code {
            return Err(Error::refused(
                format!(
                    "the builds of two variants of program `{}` write `{}`, an executable that the command names: it lies outside of their \
                     copies, so that both would execute what was built last",
                    program.name,
                    path.display()
                ),
                "have `build` write into the copy, and name the file there: `./NAME` or `{dir}/NAME`",
            ));
        }
        Ok((true, Some(path)))
    }
}

/// Whether two builds make the same of one directory.
fn builds_the_same(one: &ProgramSpec, other: &ProgramSpec) -> bool {
    let what = |of: &ProgramSpec| (of.directory.clone(), of.changes.clone(), of.build.clone(), of.env.clone());
    what(one) == what(other)
}

/// The files of PATH that words of the command and of variables may be.
fn programs_of_path(program: &ProgramSpec) -> BTreeSet<PathBuf> {
    let names: BTreeSet<String> = pieces(program).filter(|word| !word.contains(['/', '\0'])).collect();
    let path = startable::path(program);
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.flat_map(|folder| names.iter().map(move |name| folder.join(name))).collect()
}

/// Packages that were installed, where programs of PATH or those that are named find them, from a copy in the scratch directory of this
/// name: those of Python name their source, and npm links it.
fn installed(program: &ProgramSpec, scratch: &str) -> BTreeSet<PathBuf> {
    let path = startable::path(program);
    let home = program.env.get("HOME").map(PathBuf::from).or_else(|| Some(std::env::var_os("HOME")?.into()));
    // Those of PATH, and those of executables that are named by their paths.
    let named = named(program).into_iter().filter_map(|path| Some(path.parent()?.to_path_buf()));
    let folders = std::env::split_paths(&path).chain(named.filter(|folder| folder.ends_with("bin")));
    let prefixes = folders.filter_map(|bin| Some(bin.parent()?.to_path_buf()));
    let prefixes: BTreeSet<PathBuf> = prefixes.chain(home.map(|home| home.join(".local"))).collect();
    let is_linked = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(scratch));
    let mut found = BTreeSet::new();
    for lib in prefixes.iter().map(|prefix| prefix.join("lib")) {
        let of_node = entries(&lib.join("node_modules"))
            .flat_map(|path| entries(&path).chain([path.clone()]).collect::<Vec<_>>());
        found.extend(of_node.filter(is_linked));
        let is_python =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"));
        let sites = entries(&lib)
            .filter(is_python)
            .flat_map(|lib| ["site-packages", "dist-packages"].map(|name| lib.join(name)));
        for package in sites.flat_map(|site| entries(&site)) {
            let source = fs::read_to_string(package.join("direct_url.json"));
            // Without its version, which may differ.
            let name = package.file_name().and_then(|name| name.to_str()?.split('-').next());
            if let (Some(name), true) = (name, source.is_ok_and(|source| source.contains(scratch))) {
                found.insert(package.with_file_name(name));
            }
        }
    }
    found
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in which the builds of a program leave what it names.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str, mode: u32) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // As installers do, which replace what is there.
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }

        /// With a change, and a further word of its command.
        fn program(&self, change: &str, word: &str) -> ProgramSpec {
            crate::tests::program(&format!(
                "[program.p]\ncommand = [\"prog\", {script:?}, {python:?}, {word:?}]\ndirectory = \".\"\n\
                 env = {{ PATH = {bin:?}, HOME = \"/nowhere\" }}\nbuild = [\"make\"]\n\
                 change = {{ replace = {{ file = \"a\", find = \"{change}\", with = \"\" }} }}\n",
                script = self.path("script.sh"),
                bin = self.path("prefix/bin"),
                python = self.path("venv/bin/python")
            ))
        }

        /// Whether a build wrote outside, and whether that is a finding.
        fn built(
            &self,
            outside: &Outside,
            program: &ProgramSpec,
            scratch: &str,
            build: &dyn Fn(),
        ) -> Result<(bool, bool), String> {
            let copy = self.path(scratch);
            let before = outside.versions(&copy);
            build();
            let added = outside.add(program, (&copy, scratch), &before);
            added.map(|(wrote, found)| (wrote, found.is_some())).map_err(|error| error.to_string())
        }

        /// What the builds of `one` and then of `two` were found to leave.
        fn of_two(&self, one: &dyn Fn(), two: &dyn Fn()) -> Result<(bool, bool), String> {
            let (programs, mut outside) = (["one", "two"].map(|change| self.program(change, "")), Outside::default());
            outside.name(programs.iter());
            assert!(!self.built(&outside, &programs[0], "scratch-1", one).unwrap().1);
            self.built(&outside, &programs[1], "scratch-2", two)
        }
    }

    /// What was installed last was measured for both, and only the first run with an executable said so.
    #[test]
    fn file_that_builds_of_two_variants_leave_outside_is_refused_or_a_finding() {
        let machine = Machine(tempfile::tempdir().unwrap());
        let script = |text: &'static str| {
            let machine = &machine;
            move || machine.write("script.sh", text, 0o644)
        };
        let ([one, two], mut outside) = (["one", "two"].map(|change| machine.program(change, "")), Outside::default());
        outside.name([&one, &two].into_iter());
        let built = |program, scratch, build: &dyn Fn()| machine.built(&outside, program, scratch, build);
        assert_eq!(built(&one, "scratch-1", &script("one")), Ok((true, false)));
        assert_eq!(built(&one, "scratch-2", &script("one")), Ok((true, false)), "a second copy of a baseline");
        assert_eq!(built(&two, "scratch-3", &script("one")), Ok((true, false)), "the same for both");
        assert_eq!(built(&two, "scratch-4", &|| ()), Ok((false, false)));
        // A trial may have written there.
        machine.write("script.sh", "of a trial", 0o644);
        assert_eq!(built(&two, "scratch-5", &|| ()), Ok((false, false)));
        assert_eq!(built(&two, "scratch-6", &script("two")), Ok((true, true)));
        let executable = |text| machine.write("prefix/bin/prog", text, 0o755);
        let message = machine.of_two(&|| executable("one"), &|| executable("two")).unwrap_err();
        assert!(message.contains("prefix/bin/prog`, an executable that the command names"), "{message}");
    }

    /// A folder for what each variant's build installs was taken for a shared one where it was there from an earlier run.
    #[test]
    fn files_that_only_another_variant_names_are_its_own() {
        let machine = Machine(tempfile::tempdir().unwrap());
        let names = ["inst/one/prog", "inst/two/prog"];
        let programs = names.map(|name| machine.program(name, &machine.path(name).to_string_lossy()));
        let mut outside = Outside::default();
        outside.name(programs.iter());
        names.iter().for_each(|name| machine.write(name, "of an earlier run", 0o755));
        for turn in ["1", "2", "3"] {
            for (name, program) in names.iter().zip(&programs) {
                let build = || machine.write(name, turn, 0o755);
                assert_eq!(machine.built(&outside, program, turn, &build), Ok((true, false)), "{name}");
            }
        }
    }

    #[test]
    fn packages_that_builds_of_two_variants_install_in_one_place_are_a_finding() {
        let machine = Machine(tempfile::tempdir().unwrap());
        let package = |scratch: &str, version: &str| {
            let about = format!("venv/lib/python3.9/site-packages/site-{version}.dist-info/direct_url.json");
            machine.write(&about, &format!("{{\"url\": \"file:///x/{scratch}/copy\"}}"), 0o644);
        };
        let found = machine.of_two(&|| package("scratch-1", "1.0"), &|| package("scratch-2", "1.1"));
        assert_eq!(found, Ok((true, true)));
        let link = |scratch: &str| {
            let link = machine.path("prefix/lib/node_modules/@m/core");
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(format!("/x/{scratch}/copy"), link).unwrap();
        };
        assert_eq!(machine.of_two(&|| link("scratch-1"), &|| link("scratch-2")), Ok((true, true)));
        let elsewhere = || {
            link("other");
            package("other", "1.1");
        };
        assert_eq!(machine.of_two(&elsewhere, &elsewhere), Ok((false, false)));
    }
}
