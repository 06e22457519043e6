//! Builds of programs that work in one directory themselves (`copy = "none"`, as with `prony exec`). All run before the first
//! trial, so that for what they all write the last one holds, and each variant would be measured with the build of another.
//!
//! A digest of the whole directory after each build would show every such file. It is not affordable: with `prony exec` the directory is
//! any in which the user works, such as a home, and builds that share what no command needs (a log, objects between sources and programs)
//! would be refused too. Hence two rules: variants that differ in their builds only are the same program after the last one; and what a
//! command names must be what the build of its own variant left.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prony_experiment::design::{Experiment, Variant};
use prony_model::program::{CopyOf, ProgramSpec};

use crate::digest;
use crate::error::Error;
use crate::shell_text::shell_words;

/// The programs that are built in a directory which variants share, with their variants.
pub(crate) fn all(experiment: &Experiment) -> impl Iterator<Item = (&Variant, &ProgramSpec)> {
    let is_one =
        |program: &&ProgramSpec| program.copy == CopyOf::None && program.directory.is_some() && program.build.is_some();
    experiment
        .variants()
        .iter()
        .flat_map(move |variant| variant.spec.programs().filter(is_one).map(move |p| (variant, p)))
}

/// Refuses variants that execute the same in one directory and differ in their builds only.
///
/// # Errors
/// [`Error::Refused`] with the first two.
pub(crate) fn differ_in_more(experiment: &Experiment) -> Result<(), Error> {
    let rest = |program: &ProgramSpec| ProgramSpec {
        name: String::new(),
        build: None,
        cleanup: None,
        conclude: None,
        ..program.clone()
    };
    let known: Vec<_> = all(experiment).map(|(variant, program)| (variant, program, rest(program))).collect();
    for (at, (variant, program, own)) in known.iter().enumerate() {
        let same = known[..at].iter().find(|(_, other, rest)| rest == own && other.build != program.build);
        if let Some((other, ..)) = same {
            return Err(refused(format!(
                "`{}` and `{}` execute the same command in the same directory, and only their builds (`--setup`) differ: all builds run \
                 before the first trial, so that the last one holds for both",
                experiment.labels(other),
                experiment.labels(variant)
            )));
        }
    }
    Ok(())
}

fn refused(message: String) -> Error {
    let hint = "let `prepare` (`--prepare`) do this before each trial, or give each variant a copy (`copy = \"variant\"` in a file); or let each \
        build write a program of its own, such as `--setup 'cc -o prog-{n} ...'` for `./prog-{n}`";
    Error::refused(message, hint)
}

/// Builds that were run, with the files that the commands of their programs name.
#[derive(Debug, Default)]
pub(crate) struct SharedBuilds<'e>(Vec<(&'e ProgramSpec, String, BTreeMap<PathBuf, String>)>);

impl<'e> SharedBuilds<'e> {
    /// Adds the build of a variant's program that has just been run.
    ///
    /// # Errors
    /// [`Error::Refused`] where it changed a file that the command of an earlier one names.
    pub(crate) fn add(&mut self, program: &'e ProgramSpec, variant: String) -> Result<(), Error> {
        // One line for all is meant for all.
        let differing = self.0.iter().filter(|(other, ..)| other.build != program.build);
        for (_, other, files) in differing {
            if let Some((path, _)) = files.iter().find(|(path, before)| state(path).as_ref() != Some(before)) {
                return Err(refused(format!(
                    "the build (`--setup`) of `{variant}` changed `{}`, which the command of `{other}` names: all builds run before the \
                     first trial, in one directory, so that the last one holds for both",
                    path.display()
                )));
            }
        }
        let left = |path: PathBuf| Some((state(&path)?, path));
        let files = named(program).into_iter().filter_map(left).map(|(state, path)| (path, state)).collect();
        self.0.push((program, variant, files));
        Ok(())
    }
}

/// The paths of files that a program's command names, and that of its input.
fn named(program: &ProgramSpec) -> Vec<PathBuf> {
    let directory = Path::new(program.directory.as_deref().unwrap_or_default());
    let lines = program.command.words();
    let parts = lines.iter().flat_map(|line| without_outputs(line).flat_map(shell_words).chain([line.as_str()]));
    // A placeholder that is filled in a trial only has a zero byte.
    let paths = parts.filter(|word| !word.is_empty() && !word.contains('\0')).map(Path::new);
    paths.chain(program.input.file()).map(|path| directory.join(path)).collect()
}

/// The parts of a text for a shell around the files into which it redirects output: what they contain before does not matter to
/// the command.
fn without_outputs(text: &str) -> impl Iterator<Item = &str> {
    fn behind_file(part: &str) -> &str {
        let target = part.trim_start_matches(['|', '&', ' ']);
        &target[target.find(|c: char| c.is_whitespace() || ";|&()".contains(c)).unwrap_or(target.len())..]
    }
    let mut parts = text.split('>');
    parts.next().into_iter().chain(parts.map(behind_file))
}

/// A file as a build left it; `None` where there is no such file.
fn state(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    // Of a file that may not be read the size and the time stand for the content.
    let unread = || format!("{} {} {}", about.len(), about.mtime(), about.mtime_nsec());
    Some(digest::of_file(path, &about).unwrap_or_else(|_| unread()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(text: &str) -> Experiment {
        let raw = prony_experiment::parse(text, "x.toml").unwrap();
        prony_experiment::check(&raw, &prony_engines::catalog::Catalog, &Default::default()).unwrap()
    }

    /// Both branches measured the one that was checked out last.
    #[test]
    fn variants_that_differ_in_their_builds_only_are_refused() {
        let of = |command: &str, build: &str, more: &str| {
            let text = format!(
                "[factors]\nx = [1, 2]\n[program.a]\ncommand = {command}\nshell = true\ndirectory = \".\"\nbuild = {build}\n{more}"
            );
            differ_in_more(&experiment(&text))
        };
        let none = "copy = \"none\"\n";
        let message = of("\"node main.js\"", "\"git switch b{x}\"", none).unwrap_err().to_string();
        assert!(message.starts_with("`x=1` and `x=2` execute the same command in the same directory"), "{message}");
        of("\"./prog-{x}\"", "\"cc -o prog-{x} a.c\"", none).unwrap();
        of("\"./prog\"", "\"make\"", &format!("{none}prepare = \"cp prog-{{x}} prog\"\n")).unwrap();
        of("\"./prog\"", "\"make\"", &format!("{none}env = {{ N = \"{{x}}\" }}\n")).unwrap();
        of("\"node main.js\"", "\"git switch b{x}\"", "").unwrap();
    }

    #[test]
    fn build_that_changes_a_file_of_an_earlier_command_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let text = format!(
            "[factors]\nx = [1, 2]\n[program.a]\ncommand = \"cat main 'note' 2> log | wc -l {{x}} >>log\"\nshell = true\ndirectory = {:?}\n\
             copy = \"none\"\nbuild = \"make {{x}}\"\n",
            top.path()
        );
        let experiment = experiment(&text);
        let programs: Vec<&ProgramSpec> = all(&experiment).map(|(_, program)| program).collect();
        let write = |name: &str, text: &str| fs::write(top.path().join(name), text).unwrap();
        for (changed, refuses) in [("note", true), ("prog-2", false), ("main", true), ("log", false)] {
            ["main", "note", "log"].into_iter().for_each(|name| write(name, "one"));
            let mut built = SharedBuilds::default();
            built.add(programs[0], "x=1".into()).unwrap();
            write("main", "one");
            write(changed, "two");
            let added = built.add(programs[1], "x=2".into()).map_err(|error| error.to_string());
            assert_eq!(added.is_err(), refuses, "{changed}: {added:?}");
            assert!(
                added.err().is_none_or(|text| text.contains(&format!("{changed}`, which the command of `x=1` names")))
            );
        }
        // The same line for several commands is run for each of them, and its last result is meant.
        let mut built = SharedBuilds::default();
        built.add(programs[0], "a".into()).unwrap();
        write("main", "three");
        built.add(programs[0], "b".into()).unwrap();
    }
}
