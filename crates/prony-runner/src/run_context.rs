//! What all trials of a run share: the launcher, open tracepoints, the place for scratch directories.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prony_experiment::design::{Experiment, Variant};
use prony_model::event::{Event, Observer};
use prony_model::program::{Care, CopyOf, ProgramSpec};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Facts, MachineLimits, ReferenceTimes};
use prony_model::units::{Bytes, Nanos};
use prony_os::clock::monotonic;
use prony_os::host::{ReferenceWorkload, facts, machine_limits, moment, warm_memory};
use prony_os::interrupt::Interrupt;
use prony_os::launch::{Launch, Launcher};
use prony_os::limits::Limit;
use prony_os::runs::{self, Announced};
use prony_os::write_unit::write_unit;
use prony_place::external_files::Files;
use prony_place::paths::for_scratch;
use prony_place::place::Means;
use prony_place::places::Places;
use prony_place::startable::{Written, startable};

use crate::enforceable::{limits_nothing, unenforceable};
use crate::error::Error;
use crate::initial_data::InitialData;
use crate::reused::{Environments, Tracing};
use crate::scratch::sweep;

/// Touched before the first block: pages that the machine has never handed out can be several times slower.
const WARM: Bytes = Bytes::from_mib(1024);

/// What every trial of a run shares.
pub struct RunContext {
    /// The experiment.
    pub experiment: Experiment,
    /// Starts processes.
    pub launcher: Arc<dyn Launch>,
    /// One event of each tracepoint stays open until this is dropped: closing the last one costs 150 ms.
    pub tracepoints: Tracing,
    /// What one trial of a program leaves for the next, with light care. Dropped after the tracepoints: its supervisor,
    /// which has them open too, must be the last to close them, so that their closing delays nobody.
    pub environments: Environments,
    /// The reference workloads beside each trial; their memory is touched when they first run.
    reference_workload: OnceCell<ReferenceWorkload>,
    /// Their last results, and when.
    last_reference: RefCell<Option<(Nanos, ReferenceTimes)>>,
    /// How many bytes the kernel counts as written where one page is, once that was needed.
    write_unit: OnceCell<Reading<Bytes>>,
    /// Where scratch directories are made: on the file system of the results.
    pub near: PathBuf,
    /// Whether the user asked to stop.
    pub interrupt: Interrupt,
    /// The cost of reading the clock.
    pub clock_cost: Nanos,
    /// The directories in which programs work, by variant.
    pub places: Places,
    /// What data directories of services begin with, by variant.
    pub initial_data: InitialData,
    /// What programs execute and read beside that.
    pub files: Files,
    /// Facts about the machine.
    pub host: Facts,
    /// What the machine can do at most; missing with light care.
    pub limits: Reading<MachineLimits>,
    /// Makes the run visible to other runs on this machine; `None` where they share no directory.
    pub announced: Option<Announced>,
}

impl RunContext {
    /// Reads the state of the machine, removes what killed runs left, and touches memory. Scratch is made in `near`;
    /// `own` are files of prony, such as the database, which no copy of a program's directory contains.
    ///
    /// # Errors
    /// Where the experiment has limits that cannot be enforced here, or directories that cannot be copied.
    pub fn new(
        experiment: Experiment,
        near: &Path,
        own: &[&Path],
        interrupt: Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        Self::launching(Arc::new(Launcher::this_program(["supervise"])), experiment, near, own, interrupt, observer)
    }

    /// The same, whose processes `launcher` starts.
    ///
    /// # Errors
    /// As [`RunContext::new`].
    pub(crate) fn launching(
        launcher: Arc<dyn Launch>,
        experiment: Experiment,
        near: &Path,
        own: &[&Path],
        interrupt: Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        for_scratch(near)?;
        enforceable(&experiment)?;
        startable(&experiment, Written::InFile)?;
        let places = Places::of_experiment(&experiment, own)?;
        sweep(near, observer)?;
        let (environments, tracepoints) = (Environments::default(), Tracing::of(&experiment));
        if experiment.variants().iter().any(|variant| reuses(&experiment, variant)) {
            environments.begin(near, &launcher, &tracepoints);
        }
        // Before the machine's limits are measured, which disturbs other processes most.
        let announced = runs::directory().map(|directory| Announced::new(&directory)).transpose();
        let announced = announced.unwrap_or_else(|error| {
            let text = format!("cannot determine whether other runs of prony are under way: {error}");
            let hint = Some("set `PRONY_RUNS` to a directory that all users of this machine can write".to_owned());
            observer.event(&Event::Notice { text, hint });
            None
        });
        let mut probing = |what: &str| observer.event(&Event::HostProbe { what: what.to_owned() });
        probing("facts");
        let host = facts(near);
        let light = experiment.observe().care == Care::Light;
        let (clock_cost, limits) = if light {
            (Nanos::ZERO, Reading::Missing(Why::NotSupported("the experiment sets light care".into())))
        } else {
            probing("disk and memory");
            let limits = machine_limits(near);
            probing("touching memory");
            let available = moment().available;
            let half = available.measured().map_or(WARM, |bytes| Bytes::from_bytes(bytes.as_bytes() / 2));
            warm_memory(half.min(WARM));
            (limits.clock_cost, Reading::Measured(limits))
        };
        Ok(Self {
            experiment,
            launcher,
            environments,
            tracepoints,
            reference_workload: OnceCell::new(),
            last_reference: RefCell::new(None),
            write_unit: OnceCell::new(),
            near: near.to_path_buf(),
            interrupt,
            places,
            initial_data: InitialData::default(),
            files: Files::default(),
            clock_cost,
            host,
            limits,
            announced,
        })
    }

    /// Goes on with an experiment that has grown by variants; known ones keep their places.
    ///
    /// # Errors
    /// Where new variants have limits that cannot be enforced here, or a directory that cannot be copied: the experiment is as it was.
    pub fn grow(&mut self, experiment: Experiment) -> Result<(), Error> {
        enforceable(&experiment)?;
        self.places.grow(&experiment)?;
        self.experiment = experiment;
        Ok(())
    }

    /// The reference workloads before a trial: those after the trial before, where that is less than a second ago.
    pub(crate) fn reference_before(&self) -> ReferenceTimes {
        let recent = |(at, _): &(Nanos, ReferenceTimes)| monotonic().since(*at) < Nanos::from_secs(1);
        let last = self.last_reference.borrow().clone().filter(recent);
        last.map_or_else(|| self.reference_after(), |(_, times)| times)
    }

    /// How many bytes the kernel counts as written where one page of a file is: measured when it is first needed.
    pub(crate) fn write_unit(&self) -> &Reading<Bytes> {
        self.write_unit.get_or_init(|| write_unit(&self.near))
    }

    /// Runs the reference workloads now.
    pub(crate) fn reference_after(&self) -> ReferenceTimes {
        let times = self.reference_workload.get_or_init(ReferenceWorkload::default).run(&self.near);
        *self.last_reference.borrow_mut() = Some((monotonic(), times.clone()));
        times
    }

    /// What launching a program needs.
    pub fn means(&self) -> Means<'_> {
        Means { launcher: &*self.launcher, near: &self.near, interrupt: &self.interrupt }
    }
}

/// Whether any variant starts replicas, or services beside its program. Their trials reuse nothing of earlier trials, and then
/// no variant's trials do: all variants must be observed in the same way.
pub(crate) fn observes_several(experiment: &Experiment) -> bool {
    let replicas = |variant: &Variant| variant.spec.subject.program().is_some_and(|program| program.replicas.is_some());
    experiment.variants().iter().any(|variant| replicas(variant) || !variant.spec.services.is_empty())
}

/// Whether a variant's trials reuse what the one before left, as far as that is known beforehand.
fn reuses(experiment: &Experiment, variant: &Variant) -> bool {
    let itself = |program: &ProgramSpec| program.directory.is_some() && program.copy != CopyOf::Trial;
    experiment.observe().care == Care::Light
        && !observes_several(experiment)
        && variant.spec.subject.program().is_some_and(itself)
        && !Limit::ALL.into_iter().any(|limit| limit.is_in(&variant.spec.limits))
}

/// Limits that are requested and cannot be enforced, or limit nothing, refuse the run before it begins, and are never silently ignored.
/// Other limits are not tried: making groups takes longer than many a trial.
fn enforceable(experiment: &Experiment) -> Result<(), Error> {
    let specs = || experiment.variants().iter().map(|variant| &variant.spec);
    let all = || specs().flat_map(|spec| spec.services.iter().map(|service| &service.limits).chain([&spec.limits]));
    for limit in Limit::ALL.into_iter().filter(|limit| all().any(|limits| limit.is_in(limits))) {
        let unlimited = unenforceable(limit).or_else(|| all().find_map(|limits| limits_nothing(limit, limits)));
        if let Some((message, hint)) = unlimited {
            return Err(Error::Refused { message, hint });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variant_with_replicas_keeps_all_from_taking_over() {
        let reusing = |counts: &str| {
            let text = format!(
                "[factors]\nn = [{counts}]\n[observe]\ncare = \"light\"\n[program.x]\ncommand = \"true\"\ndirectory = \".\"\n\
                 copy = \"none\"\nreplicas = {{ count = \"{{n}}\", phase = \"run\" }}\n"
            );
            let experiment =
                crate::load::text(text, "x.toml", &Default::default(), &prony_model::catalog::Anywhere).unwrap();
            let each = experiment.variants().iter().map(|variant| reuses(&experiment, variant));
            (observes_several(&experiment), each.collect::<Vec<_>>())
        };
        assert_eq!(reusing("0, 2"), (true, vec![false, false]));
        assert_eq!(reusing("0"), (false, vec![true]));
    }
}
