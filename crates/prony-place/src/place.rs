//! The directory where a variant's program works: copied, changed and built once, and warmed up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use prony_analysis::guard::{self, Finding};
use prony_model::event::{Event, Observer};
use prony_model::program::{CommandLine, CopyOf, ProgramSpec};
use prony_model::record::effective::Source;
use prony_model::spec::Limits;
use prony_os::interrupt::Interrupt;
use prony_os::launch::{Launch, LaunchSpec, Scratch, Status, remove_tree};
use prony_os::limits::Group;

use crate::copy::{Progress, close, copy_plan, copy_tree};
use crate::data::on_disk;
use crate::error::Error;
use crate::launch_setting::Setting;
use crate::links::Manifest;
use crate::outside::Outside;
use crate::paths::utf8;
use crate::sources::{Copying, Sources};
use crate::to_end::to_end;
use crate::{build_cache, change, digest, node_packages, originals, own_path, revision, sources};

/// The name of a copy in its scratch directory.
const COPY: &str = "copy";

/// A variant's place.
#[derive(Debug, Default)]
pub struct Place {
    /// Warm-up runs that it had.
    pub(crate) warmed: Cell<u32>,
    /// Holds the copy; `None` where the program works in the directory itself. Of a revision it is a copy of the whole
    /// repository: what is in the program's directory may link to what lies beside that.
    copy: Option<Scratch>,
    /// The directory, or the copy of it; `None` for an empty one a trial.
    pub(crate) directory: Option<PathBuf>,
    /// What the changes did, for the record.
    pub changed: Vec<String>,
    /// What else is to be known of the copy, for the record: it may differ where the copy is the same.
    pub remarks: Vec<String>,
    /// Findings for every trial of the variant.
    pub findings: Vec<Finding>,
    /// Submodules of its revision that the user's tree has, from the top of the copy, where `build` may fill them.
    submodules: Vec<PathBuf>,
    /// The top of the user's repository, and the commit of it that this is a copy of.
    revision: Option<(PathBuf, String)>,
    /// What it is a copy of, for the record; `None` where it is none.
    pub source: Option<Source>,
}

/// The builds that a run has made.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Their keys in the build cache.
    keys: RefCell<BTreeSet<String>>,
    /// What they left outside of their copies.
    outside: Outside,
    /// Whether findings name paths.
    pub(crate) commands: bool,
}

impl Built {
    /// Adds programs whose builds may write what these name; whether `commands` are recorded.
    pub(crate) fn name<'p>(&mut self, programs: impl Iterator<Item = &'p ProgramSpec>, commands: bool) {
        self.outside.name(programs);
        self.commands = commands;
    }
}

/// What every launch needs.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Starts processes.
    pub launcher: &'a dyn Launch,
    /// The folder in which scratch directories are made.
    pub near: &'a Path,
    /// Whether the user asked to stop.
    pub interrupt: &'a Interrupt,
}

impl Place {
    pub(crate) fn make(
        means: Means<'_>,
        program: &ProgramSpec,
        sources: &Sources,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let in_place = |directory| Self { directory, ..Self::default() };
        let Some(directory) = &program.directory else { return Ok(in_place(None)) };
        let original = sources::canonical(directory)?;
        utf8(&original)?;
        if program.copy == CopyOf::None {
            return Ok(in_place(Some(original)));
        }
        let scratch = Scratch::create(means.near)?;
        let folder = scratch.path().to_path_buf();
        let top = folder.join(COPY);
        let mut place = Self { copy: Some(scratch), ..Self::default() };
        let failed = |step, message| Error::Step { program: program.name.clone(), step, message };
        let mut progress = progress(means, program, observer);
        let (copy, state) = if let Some(of) = revision::of(program) {
            let clone = folder.join("clone");
            let commit = sources.commit(&original, of);
            let out = commit.and_then(|commit| revision::check_out(&original, of, &commit, &clone));
            let out = out.map_err(|message| failed("change", message))?;
            let mut plan = sources.plan(&clone, program, Some(out.top.clone()))?;
            // Where the link is in the clone and where it leads from there means nothing to the user, who knows it as
            // written in the repository.
            for (link, to) in &mut plan.outward {
                *to = std::fs::read_link(&*link).unwrap_or_default();
                *link = link.strip_prefix(&clone).map_or_else(|_| link.clone(), |inside| out.top.join(inside));
            }
            let plan = plan.allowed(&out.top, Some(format!("revision `{of}` of `{}`", out.top.display())))?;
            copy_plan(&clone, &plan, &top, &mut progress)?;
            remove_tree(&clone)?;
            place.changed.push(out.said);
            // The copy is the whole repository, whatever the program's directory in it.
            let uncommitted = sources.uncommitted(&out.top).map_err(|message| failed("change", message))?;
            let left_out =
                uncommitted.counts(false).map(|counts| format!("not part of it: uncommitted changes of {counts}"));
            place.remarks.extend(left_out);
            if uncommitted.tracked > 0 && uncommitted.head == out.commit {
                place.findings.push(guard::copies::uncommitted_left_out(uncommitted.tracked));
            }
            place.submodules = out.submodules;
            place.revision = Some((out.top, out.commit));
            (top.join(out.inside), None)
        } else {
            let plan = sources.plan(&original, program, None)?.allowed(&original, None)?;
            let state = Manifest::of(&plan).digest();
            place.findings.extend(sources.beside_revisions(&original, program));
            copy_plan(&original, &plan, &top, &mut progress)?;
            (top.clone(), Some(state))
        };
        let run = |words: &[String]| tool(means, program, &folder, &copy, words);
        let (made, found) = change::apply(program, &top, &copy, &run, &mut progress)?;
        place.changed.extend(made);
        place.findings.extend(found);
        place.directory = Some(copy);
        place.source = Some(Source { directory: original, state });
        Ok(place)
    }

    /// The top of the copy, and the program's directory from there.
    fn top(&self) -> Option<(PathBuf, &Path)> {
        let top = self.copy.as_ref()?.path().join(COPY);
        let inside = self.directory.as_ref()?.strip_prefix(&top).ok()?;
        Some((top, inside))
    }

    /// Runs the build, or reuses the cached output of an identical build.
    pub(crate) fn build(
        &mut self,
        means: Means<'_>,
        program: &ProgramSpec,
        line: &CommandLine,
        (built, observer): (&Built, &mut dyn Observer),
    ) -> Result<(), Error> {
        let Some((top, inside)) = self.top() else { return self.run_build(means, program, line) };
        let copy = top.join(inside);
        let made = change::Made::of(program, &copy);
        let state = self.source.as_ref().and_then(|source| source.state.as_deref());
        let mut copying = progress(means, program, observer);
        let digest = digest::of_tree(&top, &mut copying)?;
        let key = |builds| {
            let (commits, outside) = (revision::commits(&top), &built.outside.key);
            let input = build_cache::Input { digest, inside, state, commits, outside };
            (build_cache::key(program, &line.words(), &input), builds)
        };
        let builds = build_cache::Builds::of_user().map(key);
        let before = built.outside.versions(&top);
        let earlier = match &builds {
            Some((key, builds)) if builds.take(key, &top, &mut copying)? => Some((key, builds)),
            _ => None,
        };
        if let Some((key, builds)) = earlier {
            self.remarks.push(format!("the output of build {key} was reused from the build cache"));
            if !built.keys.borrow().contains(key) {
                self.findings.push(guard::copies::build_reused(builds.age(key)));
            }
            close(&top, program, "`build` (reused from the build cache)", &mut copying)?;
        } else {
            drop(copying);
            self.run_build(means, program, line)?;
            built.keys.borrow_mut().extend(builds.iter().map(|(key, _)| key.clone()));
            copying = progress(means, program, observer);
            close(&top, program, "`build`", &mut copying)?;
        }
        self.findings.extend(made.outlasts_build(program, &copy)?);
        let scratch = self.scratch_name();
        let (wrote_outside, found) = built.outside.add(program, (&top, &scratch), &before)?;
        self.findings
            .extend(found.map(|path| guard::copies::build_wrote_outside(sources::shown(&path, built.commands))));
        if earlier.is_some() {
            return Ok(());
        }
        if digest::of_tree(&top, &mut copying)? == digest {
            self.findings.push(guard::copies::build_changed_nothing(!program.changes.is_empty()));
        } else if wrote_outside {
            self.remarks.push("the build is not cached: it wrote outside of the copy what a command names".to_owned());
        } else if let Some((key, builds)) = builds.as_ref() {
            match own_path::named_in(&top, &scratch, &mut copying)? {
                None => builds.put(key, &top, &mut copying),
                Some(file) => {
                    let file = file.strip_prefix(&top).unwrap_or(&file).display();
                    self.remarks.push(format!("the build is not cached: `{file}` names the path of the copy"));
                }
            }
        }
        Ok(())
    }

    /// The name of the scratch directory that holds the copy, which no other copy has.
    fn scratch_name(&self) -> String {
        let name = self.copy.as_ref().and_then(|copy| copy.path().file_name());
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Whether a path lies in the copy.
    pub(crate) fn made(&self, path: &Path) -> bool {
        self.copy.as_ref().is_some_and(|copy| path.starts_with(copy.path()))
    }

    /// Records which submodules of its revision nobody filled.
    pub(crate) fn miss_submodules(&mut self) {
        let Some((top, _)) = self.top() else { return };
        self.submodules.retain(|path| revision::is_empty(&top.join(path)));
        let missed = self.submodules.iter().map(|path| format!("submodule `{}` is empty", path.display()));
        self.changed.extend(missed);
        if !self.submodules.is_empty() {
            self.findings.push(guard::copies::submodules_empty(self.submodules.len()));
        }
    }

    /// Notes what the program's command and variables name in the user's own directory although the copy has something else there.
    pub(crate) fn miss_originals(&mut self, program: &ProgramSpec, commands: bool) {
        let (Some((top, _)), Some(source)) = (self.top(), &self.source) else { return };
        let (of, commit) = self.revision.as_ref().map(|(top, commit)| (top, commit.as_str())).unzip();
        let tops = (of.unwrap_or(&source.directory).as_path(), top.as_path());
        let changed = || change::changed(program, &source.directory, commit);
        let mut named = originals::shadowed(program, tops, changed);
        named.iter_mut().for_each(|path| *path = sources::shown(path, commands).to_owned());
        self.findings.extend(guard::copies::names_the_original(&named));
    }

    /// Notes what Node would load from the user's working tree, since the copy of a revision has no packages.
    pub(crate) fn miss_packages(&mut self, program: &ProgramSpec, commands: bool) {
        let (Some((top, inside)), Some((tree, commit))) = (self.top(), &self.revision) else { return };
        let found = node_packages::of_the_tree(program, (&top, &top.join(inside)), tree, commit);
        let found = found.map(|(modules, other)| {
            let [modules, other] = [&modules, &other].map(|path| sources::shown(path, commands));
            guard::copies::packages_of_the_tree(modules, other)
        });
        self.findings.extend(found);
    }

    /// Whether trials work in the place itself, and make nothing of it in their scratch.
    pub fn is_itself(&self, program: &ProgramSpec) -> bool {
        self.directory.is_some() && (program.copy != CopyOf::Trial || self.copy.is_none())
    }

    /// Where a trial with this scratch works.
    ///
    /// # Errors
    /// Where its own copy cannot be made, or `progress` ends that.
    pub fn directory(
        &self,
        program: &ProgramSpec,
        scratch: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<PathBuf, Error> {
        let own = own_copy(scratch);
        match (&self.directory, self.top()) {
            (Some(_), Some((top, inside))) if program.copy == CopyOf::Trial => {
                copy_tree(&top, &own, progress)?;
                Ok(own.join(inside))
            }
            (Some(directory), _) => Ok(directory.clone()),
            (None, _) => {
                std::fs::create_dir(&own).map_err(Error::setup("make a directory"))?;
                Ok(own)
            }
        }
    }

    /// Runs the program's `prepare`, as before each trial with these limits.
    ///
    /// # Errors
    /// Where it fails, the user interrupts it, or a link that leads out of the copy refuses the run.
    pub fn prepare(
        &self,
        means: Means<'_>,
        setting: &Setting<'_>,
        limits: &Limits,
        stop: &mut dyn FnMut() -> bool,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.run_prepare(means, setting, stop, observer)?;
        if limits.memory.is_some() { self.evict(setting) } else { Ok(()) }
    }

    /// Evicts its copy and the program's input from the page cache. The kernel charges a page to the group that reads or writes it
    /// first: what prony, a build, `prepare` or an earlier trial did would be free under the limit.
    fn evict(&self, setting: &Setting<'_>) -> Result<(), Error> {
        let program = setting.program;
        let own = self.directory.is_none() || (program.copy == CopyOf::Trial && self.copy.is_some());
        let copy = if own { Some(own_copy(setting.scratch)) } else { self.top().map(|(top, _)| top) };
        let input = program.input.file().filter(|path| path.is_file());
        let done = copy.as_deref().into_iter().chain(input).try_for_each(on_disk);
        done.map_err(Error::setup("evict the files of a program from the page cache"))
    }

    /// Links that lead out of the copy are handled twice: before `prepare`, those that the previous trial may have made; after
    /// it, those that `prepare` made.
    fn run_prepare(
        &self,
        means: Means<'_>,
        setting: &Setting<'_>,
        stop: &mut dyn FnMut() -> bool,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let program = setting.program;
        let Some(prepare) = &program.prepare else { return Ok(()) };
        let prepare = ("prepare", prepare);
        let Some((shared, _)) = self.top() else { return step_until(means, setting, prepare, stop) };
        let own = program.copy == CopyOf::Trial;
        let top = if own { own_copy(setting.scratch) } else { shared };
        let mut progress = progress(means, program, observer);
        if !own {
            close(&top, program, "an earlier trial", &mut progress)?;
        }
        step_until(means, setting, prepare, stop)?;
        close(&top, program, "`prepare`", &mut progress)
    }

    /// Does its `build` in the variant's place; its output is shown where it fails.
    ///
    /// # Errors
    /// Where it fails or the user interrupts it.
    fn run_build(&self, means: Means<'_>, program: &ProgramSpec, line: &CommandLine) -> Result<(), Error> {
        let build =
            |setting: &Setting<'_>| step_until(means, setting, ("build", line), &mut || means.interrupt.asked());
        let built = self.beside(means, program, build);
        match (built, revision::of(program)) {
            // Of two revisions one may build and the other not.
            (Err(Error::Step { program, step, message }), Some(of)) => {
                Err(Error::Step { program, step, message: format!("revision `{of}`, {message}") })
            }
            (built, _) => built,
        }
    }

    /// Does something beside the trials in the variant's place.
    pub(crate) fn beside(
        &self,
        means: Means<'_>,
        program: &ProgramSpec,
        work: impl FnOnce(&Setting<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let scratch = Scratch::create(means.near)?;
        // Nothing is copied where the place has no directory.
        let own = || self.directory(program, scratch.path(), &mut |_, _| Ok(()));
        let directory = self.directory.clone().map_or_else(own, Ok)?;
        work(&Setting::new(program, scratch.path(), directory))
    }

    /// One warm-up run. Its measurements are discarded. A failure is only said: the trials may succeed, but then nothing is warm.
    pub(crate) fn warm_up(
        &self,
        means: Means<'_>,
        program: &ProgramSpec,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let scratch = Scratch::create(means.near)?;
        let directory = self.directory(program, scratch.path(), &mut progress(means, program, observer))?;
        let setting = Setting::new(program, scratch.path(), directory);
        self.prepare(means, &setting, limits, &mut || means.interrupt.asked(), observer)?;
        let mut spec = setting.beside(&program.command)?;
        (spec.stdin, spec.group) = (setting.input()?, Some(Group::create(limits)?));
        let deadline = limits.trial.map(|limit| Instant::now() + limit.to_duration());
        let conclude = || {
            let of = program.conclude.as_ref();
            let concluded = of.map(|conclude| finally(means, &setting, "conclude", conclude, observer));
            // It fails with the run: the first trial will show it.
            drop(concluded);
        };
        let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let why = match launch(means, spec, &mut || means.interrupt.asked() || late(), conclude)? {
            Some((Status::Exited(code), _)) if program.success.is_empty() || program.success.contains(&code) => {
                return Ok(());
            }
            None if means.interrupt.asked() => return Ok(()),
            Some((Status::Exited(code), said)) => format!("exit code {code}{said}"),
            Some((Status::Signalled(signal), said)) => format!("signal {signal}{said}"),
            None => "it was ended at the limit on a trial's time".to_owned(),
        };
        let text = format!("a warm-up run of program `{}` failed: {why}", program.name);
        observer.event(&Event::Notice { text, hint: None });
        Ok(())
    }
}

/// Reports a copy that takes long, and ends it where the user interrupts it.
pub fn progress<'p>(
    means: Means<'p>,
    program: &'p ProgramSpec,
    observer: &'p mut dyn Observer,
) -> impl FnMut(u64, u64) -> Result<(), Error> + use<'p> {
    progress_of(means, program, program.directory.as_deref().unwrap_or_default(), observer)
}

/// The same of another directory than the program's own, which is copied for it.
pub fn progress_of<'p>(
    means: Means<'p>,
    program: &'p ProgramSpec,
    directory: &'p str,
    observer: &'p mut dyn Observer,
) -> impl FnMut(u64, u64) -> Result<(), Error> + use<'p> {
    let mut copying = Copying::new(directory, observer);
    move |done, total| {
        copying.report(done, total);
        if means.interrupt.asked() {
            let message = "interrupted by the user".to_owned();
            return Err(Error::Step { program: program.name.clone(), step: "copy", message });
        }
        Ok(())
    }
}

/// Where a trial with this scratch has a copy of its own.
fn own_copy(scratch: &Path) -> PathBuf {
    scratch.join("work")
}

/// Runs a tool in a copy; returns its output, or what failed.
fn tool(
    means: Means<'_>,
    program: &ProgramSpec,
    scratch: &Path,
    copy: &Path,
    words: &[String],
) -> Result<String, String> {
    let setting = Setting::new(program, scratch, copy.to_path_buf());
    let ran = setting
        .beside(&CommandLine::Words(words.to_vec()))
        .and_then(|spec| launch(means, spec, &mut || means.interrupt.asked(), || ()));
    let line = words.join(" ");
    match ran.map_err(|error| error.text().trim().to_owned())? {
        Some((Status::Exited(0), said)) => Ok(said.trim_start_matches(": ").to_owned()),
        Some((status, said)) => Err(format!("`{line}` ended with {status:?}{said}")),
        None => Err(format!("`{line}` was interrupted")),
    }
}

/// Does something after trials, also where the user asked to stop: then it is said what is waited for, and asking again ends
/// that too.
///
/// # Errors
/// As [`step_until`].
pub fn finally(
    means: Means<'_>,
    setting: &Setting<'_>,
    what: &'static str,
    line: &CommandLine,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let text = || format!("waiting for `{what}` of program `{}`", setting.program.name);
    let hint = || Some("press Ctrl-C to end that step; finished trials are kept".to_owned());
    let wait = || observer.event(&Event::Notice { text: text(), hint: hint() });
    means.interrupt.nevertheless(wait, |stop| step_until(means, setting, (what, line), stop))
}

/// Does something beside the trials until `stop` says otherwise, which is asked about ten times a second. What it printed is in
/// the error where it fails.
///
/// # Errors
/// Where it fails, cannot be started, or was stopped.
pub fn step_until(
    means: Means<'_>,
    setting: &Setting<'_>,
    (what, line): (&'static str, &CommandLine),
    stop: &mut dyn FnMut() -> bool,
) -> Result<(), Error> {
    let spec = setting.beside(line)?;
    let failed = |message: String| Error::Step { program: setting.program.name.clone(), step: what, message };
    match launch(means, spec, stop, || ())? {
        Some((Status::Exited(0), _)) => Ok(()),
        Some((Status::Exited(code), said)) => Err(failed(format!("exit code {code}{said}"))),
        Some((Status::Signalled(signal), said)) => Err(failed(format!("signal {signal}{said}"))),
        None => Err(failed("interrupted by the user".to_owned())),
    }
}

/// Runs a command to its end, calls `conclude`, and ends the processes that the command left; `None` if `stop` ended
/// the command.
fn launch(
    means: Means<'_>,
    spec: LaunchSpec,
    stop: &mut dyn FnMut() -> bool,
    conclude: impl FnOnce(),
) -> Result<Option<(Status, String)>, Error> {
    let end = to_end(means.launcher, spec, stop, conclude)?;
    Ok(end.map(|end| {
        let said = [end.stderr, end.stdout].into_iter().flatten().map(|captured| captured.text());
        let said: String = said.collect::<Vec<_>>().join("").trim().chars().take(2000).collect();
        (end.status, if said.is_empty() { said } else { format!(": {said}") })
    }))
}

#[cfg(test)]
mod tests;
