//! The places of a run's variants: which of them a trial uses, made at the first request and cleaned up at the end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use prony_analysis::guard::{Finding, copies as guard};
use prony_experiment::design::{Experiment, Variant};
use prony_model::event::Observer;
use prony_model::program::{Care, Change, CopyOf, ProgramSpec};
use prony_model::spec::{Subject, TrialSpec};
use prony_model::trial::{Label, PlannedTrial};
use prony_model::units::Nanos;

use crate::data::DataSources;
use crate::error::Error;
use crate::launch_setting::Setting;
use crate::place::{Built, Means, Place, finally};
use crate::shared_builds::SharedBuilds;
use crate::sources::{Sources, canonical};
use crate::{call_matches, shared_builds};

/// The places of a run's variants, made when they are first needed and removed when this is dropped.
#[derive(Debug, Default)]
pub struct Places {
    made: RefCell<BTreeMap<Key, Rc<Place>>>,
    /// By variant.
    turns: RefCell<BTreeMap<usize, Turns>>,
    /// Variants that are the same commit as their baseline, under another name.
    same_commits: BTreeMap<usize, Finding>,
    /// The builds that this run has made.
    built: Built,
    sources: Sources,
    /// What services' data are copies of.
    pub data: DataSources,
    /// The time that making them took.
    took: Cell<Duration>,
}

/// The trials of which a place is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    variant: usize,
    /// Of a copy: for the first, the second ... trial of the variant in each block, since what a program keeps in its directory must
    /// not age faster in that of a baseline, which runs several times in a block.
    nth: usize,
    program: String,
}

/// The block in which a variant runs, and its trials there so far.
type Turns = (u32, Vec<(Label, u32)>);

impl Places {
    /// Of an experiment; `own` are files of prony, which no copy contains.
    ///
    /// # Errors
    /// Where a directory cannot be copied, so that nothing is begun.
    pub fn of_experiment(experiment: &Experiment, own: &[&Path]) -> Result<Self, Error> {
        shared_builds::differ_in_more(experiment)?;
        let mut places = Self { sources: Sources::new(own), ..Self::default() };
        places.grow(experiment)?;
        let data = DataSources::new(places.sources.own());
        for data_of in experiment.variants().iter().flat_map(|variant| &variant.spec.services) {
            data_of.data.iter().try_for_each(|spec| data.survey(spec).map(drop))?;
        }
        Ok(Self { data, ..places })
    }

    /// Goes on with an experiment that has more variants.
    ///
    /// # Errors
    /// Where a directory of theirs cannot be copied.
    pub fn grow(&mut self, experiment: &Experiment) -> Result<(), Error> {
        let programs = || experiment.variants().iter().flat_map(|variant| variant.spec.programs());
        programs().try_for_each(|program| self.sources.survey(program))?;
        self.built.name(programs(), experiment.records_commands());
        self.same_commits = same_commits(experiment, &self.sources);
        Ok(())
    }

    /// A finding for a trial if the directory of its program has changed since the run began; the directory is named
    /// only where `commands` are recorded.
    pub fn source_changed(&self, program: &ProgramSpec, care: Care, commands: bool) -> Option<Finding> {
        self.sources.changed(program, care, commands)
    }

    /// Runs the builds of all programs of the planned variants that work in a directory which variants share, before the first trial:
    /// later they would change what earlier trials were measured with.
    ///
    /// # Errors
    /// Where a build fails, or changes what the command of another variant names.
    pub fn build_shared(
        &self,
        means: Means<'_>,
        experiment: &Experiment,
        planned: &BTreeSet<usize>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let (began, mut built) = (Instant::now(), SharedBuilds::default());
        for (variant, program) in shared_builds::all(experiment).filter(|(variant, _)| planned.contains(&variant.id)) {
            let key = Key { variant: variant.id, nth: 0, program: program.name.clone() };
            if !self.made.borrow().contains_key(&key) {
                self.make(means, key, &variant.spec, program, observer)?;
                built.add(program, experiment.labels(variant))?;
            }
        }
        self.took.set(self.took.get() + began.elapsed());
        Ok(())
    }

    /// The place of a trial's program; made, changed, built and warmed up at the first request.
    ///
    /// # Errors
    /// Where the directory cannot be copied, a change does not apply, or the build fails.
    pub fn of(
        &self,
        means: Means<'_>,
        trial: &PlannedTrial,
        spec: &TrialSpec,
        program: &ProgramSpec,
        observer: &mut dyn Observer,
    ) -> Result<Rc<Place>, Error> {
        let key = self.key(trial, program);
        let made = self.made.borrow().get(&key).map(Rc::clone);
        let began = Instant::now();
        let place = made.map_or_else(|| self.make(means, key, spec, program, observer), Ok)?;
        for warmed in place.warmed.get()..program.warmup {
            place.warm_up(means, program, &spec.limits, observer)?;
            place.warmed.set(warmed + 1);
        }
        self.took.set(self.took.get() + began.elapsed());
        Ok(place)
    }

    fn key(&self, trial: &PlannedTrial, program: &ProgramSpec) -> Key {
        let nth = if program.directory.is_some() && program.copy == CopyOf::Variant { self.turn(trial) } else { 0 };
        Key { variant: trial.variant, nth, program: program.name.clone() }
    }

    /// How many trials of the variant began before this one in its block.
    fn turn(&self, trial: &PlannedTrial) -> usize {
        let mut turns = self.turns.borrow_mut();
        let (block, all) = turns.entry(trial.variant).or_default();
        if *block != trial.block {
            (*block, *all) = (trial.block, Vec::new());
        }
        let own = (trial.label, trial.sub_block);
        all.iter().position(|known| *known == own).unwrap_or_else(|| {
            all.push(own);
            all.len() - 1
        })
    }

    /// From here on the variant has a `cleanup`, whatever comes of its build and its warm-up runs.
    fn make(
        &self,
        means: Means<'_>,
        key: Key,
        spec: &TrialSpec,
        program: &ProgramSpec,
        observer: &mut dyn Observer,
    ) -> Result<Rc<Place>, Error> {
        let mut place = Place::make(means, program, &self.sources, observer)?;
        let build = program.build.as_ref();
        let built = build.map_or(Ok(()), |build| place.build(means, program, build, (&self.built, observer)));
        place.miss_submodules();
        place.miss_originals(program, self.built.commands);
        place.miss_packages(program, self.built.commands);
        place.findings.extend(self.same_commits.get(&key.variant).cloned());
        let place = Rc::new(place);
        self.made.borrow_mut().insert(key, Rc::clone(&place));
        built?;
        if let Some(directory) = &place.directory {
            call_matches::unambiguous(program, &spec.phases, directory)?;
        }
        Ok(place)
    }

    /// The time for making all places so far: copies, changes, builds, warm-up runs, which no later trial repeats.
    pub fn made_in(&self) -> Nanos {
        Nanos::from_nanos(u64::try_from(self.took.get().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Runs every variant's `cleanup`, even if some of them fail.
    ///
    /// # Errors
    /// The first that fails.
    pub fn clean_up<'s>(
        &self,
        means: Means<'_>,
        program_of: impl Fn(usize, &str) -> Option<&'s ProgramSpec>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let mut done = Ok(());
        for (Key { variant, program: name, .. }, place) in self.made.take() {
            if let Some((program, cleanup)) =
                program_of(variant, &name).and_then(|program| Some((program, program.cleanup.as_ref()?)))
            {
                let clean = |setting: &Setting<'_>| finally(means, setting, "cleanup", cleanup, observer);
                done = done.and(place.beside(means, program, clean));
            }
        }
        done
    }
}

/// A finding for each variant that differs from its baseline by the names of revisions only, which are names of one commit. Under the
/// same name, an A/A comparison is meant.
fn same_commits(experiment: &Experiment, sources: &Sources) -> BTreeMap<usize, Finding> {
    let resolved = |spec: &TrialSpec| {
        let mut spec = spec.clone();
        let own = if let Subject::Program(program) = &mut spec.subject { Some(&mut **program) } else { None };
        for program in own.into_iter().chain(spec.services.iter_mut().map(|service| &mut service.program)) {
            if let (Some(directory), Some(Change::Revision { of })) = (&program.directory, program.changes.first_mut())
                && let Ok(original) = canonical(directory)
                && let Ok(commit) = sources.commit(&original, of)
            {
                *of = commit;
            }
        }
        spec
    };
    let found = |variant: &Variant| {
        let baseline = experiment.baseline_of(variant).filter(|baseline| baseline.spec != variant.spec)?;
        let is_same = resolved(&variant.spec) == resolved(&baseline.spec);
        is_same.then(|| (variant.id, guard::same_commit(&experiment.labels(variant), &experiment.labels(baseline))))
    };
    experiment.variants().iter().filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::git;
    use crate::tests::program;

    /// Two tags of one commit were compared as if they were two versions.
    #[test]
    fn variant_of_the_commit_of_its_baseline_is_a_finding_where_their_names_differ() {
        if std::process::Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let run = |args: &[&str]| {
            let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
            git(top.path(), &[&who[..], args].concat()).unwrap()
        };
        run(&["init", "--quiet"]);
        for tags in [["a", "b"], ["c", "d"]] {
            run(&["commit", "--quiet", "--allow-empty", "-m", "empty"]);
            tags.iter().for_each(|tag| drop(run(&["tag", tag])));
        }
        let found = |levels: &str| {
            let text = format!(
                "[factors.code]\n{levels}\n[compare]\nbaseline = {{ code = \"x\" }}\n[program.p]\ncommand = \"true\"\n\
                 directory = {:?}\nchange = \"{{code}}\"\n",
                top.path()
            );
            let raw = prony_experiment::parse(&text, "x.toml").unwrap();
            let experiment =
                prony_experiment::check(&raw, &prony_engines::catalog::Catalog, &Default::default()).unwrap();
            let places = Places::of_experiment(&experiment, &[]).unwrap();
            places.same_commits.into_values().map(|finding| finding.message).collect::<Vec<_>>()
        };
        let level = |name: &str, of: &str| format!("{name} = {{ revision = \"{of}\" }}\n");
        let said = found(&(level("x", "a") + &level("y", "b") + &level("z", "c")));
        assert_eq!(said, ["`y` and its baseline `x` are one commit under two names: they are the same code"]);
        assert!(found(&(level("x", "a") + &level("y", "a"))).is_empty(), "A/A");
        let replaced = "y = [{ revision = \"b\" }, { replace = { file = \"n\", find = \"1\", with = \"2\" } }]\n";
        assert!(found(&(level("x", "a") + replaced)).is_empty());
    }

    /// A baseline has as many copies as trials in a block, each used once there; all others have one.
    #[test]
    fn copies_are_used_equally_often() {
        let places = Places::default();
        let program = program("[program.p]\ncommand = \"true\"\ndirectory = \".\"\n");
        let mut used: BTreeMap<Key, u32> = BTreeMap::new();
        for block in 0..4_u32 {
            // Sub-blocks and labels are in another order in each block, and the variant is in another sub-block.
            let sub_blocks = [block % 2, 1 - block % 2];
            for sub_block in sub_blocks {
                let trial = |variant, label| PlannedTrial { block, sub_block, position: 0, variant, label, seed: 1 };
                let mut trials = vec![trial(0, Label::A), trial(0, Label::A2)];
                trials.rotate_left((block / 2) as usize % 2);
                trials.extend((sub_block == block / 2).then(|| trial(1, Label::A)));
                for trial in trials {
                    *used.entry(places.key(&trial, &program)).or_default() += 1;
                    assert_eq!(places.key(&trial, &program), places.key(&trial, &program), "of one trial");
                }
            }
        }
        let of = |variant| {
            used.iter().filter(|(key, _)| key.variant == variant).map(|(_, times)| *times).collect::<Vec<_>>()
        };
        assert_eq!((of(0), of(1)), (vec![4; 4], vec![4]));
    }
}
