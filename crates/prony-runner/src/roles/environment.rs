//! The environment of a program's trial: scratch, supervisor, control group, counters.
//!
//! With full care all of it is made for the trial and removed with it, except the supervisor, which the launcher keeps for
//! a later process. With light care, and without limits that need a group of the trial's own, a trial reuses what the
//! previous one left, once no process of that was left: making and removing these things takes many times as long as a
//! short program runs.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use prony_model::event::Observer;
use prony_model::program::Care;
use prony_model::reading::{Reading, Why};
use prony_model::record::ProcessSample;
use prony_model::spec::{Limits, TrialSpec};
use prony_model::units::Nanos;
use prony_os::launch::{Finished, LaunchSpec, Process, Reusable, Scratch, Started, detach_mounts};
use prony_os::limits::Group;
use prony_os::sample::snapshot::ProcessSnapshot;
use prony_os::sample::{Root, Sampler, Samplers, Settings, Snapshot};
use prony_place::launch_setting::Ends;
use rustix::fs::{AtFlags, CWD, FileType, StatxAttributes, StatxFlags, statx};

use crate::error::Error;
use crate::reused::{Common, ReusedEnvironment};
use crate::roles::data::OnDisk;
use crate::run_context::{RunContext, observes_several};
use crate::scratch::discard;
use crate::watched::replicas::with_usage;

/// How long after its begin a program's first sample is taken: shorter programs are not sampled. A store's worker is not
/// young where its phases begin, and is read at their boundaries.
const FIRST: Nanos = Nanos::from_millis(2);

/// The environment of one trial.
pub(crate) struct Environment {
    scratch: Scratch,
    /// The reused supervisor, until the program is prepared.
    supervisor: Option<Box<dyn Reusable>>,
    common: Option<Common>,
    /// The program's control group, if the trial has one of its own.
    group: Option<Group>,
}

impl Environment {
    /// Reuses what exists, or makes it. A trial that is not `reusable` has its own: a profiled one, since a profiler is
    /// attached to a suspended process, a store, and a program whose directory is made for the trial. So has one with
    /// replicas, which a reused supervisor would take for leftovers in its group; and if any variant has replicas, all
    /// variants have their own, so that all are observed alike.
    ///
    /// # Errors
    /// Where the machine refuses it.
    pub(crate) fn set(context: &RunContext, spec: &TrialSpec, reusable: bool) -> Result<Self, Error> {
        let light = context.experiment.observe().care == Care::Light && !observes_several(&context.experiment);
        if !reusable || !light || is_confined(&spec.limits) {
            let scratch = Scratch::create(&context.near)?;
            return Ok(Self { scratch, supervisor: None, common: None, group: None });
        }
        let ReusedEnvironment { supervisor, common, scratch } =
            context.environments.take(&context.near, &*context.launcher, &context.tracepoints)?;
        Ok(Self { scratch, supervisor: Some(supervisor), common: Some(common), group: None })
    }

    /// The trial's scratch directory.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The control group of the suspended process, if the trial has one of its own.
    pub(crate) const fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Attaches everything that observes a role's processes: to the first of them, suspended before its first instruction, or
    /// to where it will be made.
    ///
    /// # Errors
    /// Where it cannot be prepared, or the machine refuses what observes it.
    pub(crate) fn suspend(
        &mut self,
        context: &RunContext,
        spec: &TrialSpec,
        role: &str,
        OnDisk { store, device }: OnDisk,
        mut launch: LaunchSpec,
    ) -> Result<(Suspended, Sampler), Error> {
        let samplers = || context.environments.samplers().map_err(Error::setup("start the sampler"));
        let settings = Settings { hertz: context.experiment.observe().hertz, store, device, ..Settings::default() };
        let (Some(supervisor), Some(common)) = (self.supervisor.take(), &self.common) else {
            let group = Group::create(&spec.limits)?;
            let first = if spec.subject.program().is_some() { FIRST } else { Nanos::ZERO };
            let settings = Settings { group: group.counting(), first, ..settings };
            self.group = Some(group.clone());
            launch.group = Some(group);
            let process = context.launcher.start(launch)?;
            let supervisor = process.supervisor();
            let roots = process.suspended().map(|pid| Root { supervisor, ..Root::subject(pid, role) });
            let sampler = Sampler::idle(roots.into_iter().collect(), settings);
            if let Some(pid) = process.suspended() {
                sampler.count_syncs(role, context.tracepoints.follow(pid));
            }
            return Ok((Suspended { process, samplers: samplers()?, late: None }, sampler));
        };
        let (group, group_files) = (common.counting.clone(), common.files.clone());
        let foreign = Some(common.foreign);
        let settings = Settings { group, group_files, foreign, first: FIRST, lean: true, ..settings };
        let sampler = Sampler::idle(Vec::new(), settings);
        sampler.count_syncs(role, common.syncs.clone());
        let (samplers, late) = (samplers()?, Some(role.to_owned()));
        Ok((Suspended { process: supervisor.start(launch)?, samplers, late }, sampler))
    }

    /// Ends what is left of the tree. If nothing is left, the environment is kept for the next trial, else removed.
    ///
    /// # Errors
    /// Where the supervisor has ended.
    pub(crate) fn clear(
        self,
        context: &RunContext,
        process: Box<dyn Process>,
        observer: &mut dyn Observer,
    ) -> Result<Finished, Error> {
        let (finished, supervisor) = process.finish()?;
        match (supervisor, self.common) {
            (Some(supervisor), Some(common)) if empty(self.scratch.path()).is_ok() => {
                *context.environments.left.borrow_mut() =
                    Some(ReusedEnvironment { supervisor, common, scratch: self.scratch });
            }
            (supervisor, _) => {
                drop(supervisor);
                discard(self.scratch, observer);
            }
        }
        Ok(finished)
    }
}

/// A role's first process, and the sampler that starts when it is released.
pub(crate) struct Suspended {
    process: Box<dyn Process>,
    /// The thread that samples it from its release on.
    samplers: Rc<Samplers>,
    /// The role of a process that is made when it is released.
    late: Option<String>,
}

impl Suspended {
    /// Its pid; `None` where it is made when it is released.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.suspended()
    }

    /// Lets it begin, whose streams have these ends, and corrects the snapshot before that by what it reported itself.
    ///
    /// # Errors
    /// Where it cannot be executed, or its supervisor has ended.
    pub(crate) fn release(
        self,
        sampler: &Sampler,
        ends: &Ends,
        before: &mut Snapshot,
    ) -> Result<(Box<dyn Process>, Started), prony_os::Error> {
        let Self { mut process, samplers, late } = self;
        process.release()?;
        let started = process.started(&ends.open().collect::<Vec<_>>())?;
        begin_at(before, &started);
        if let Some(role) = &late {
            deduct_preparation(before, &started);
            // A process that has ended already is not sampled: its pid may be reused by now.
            if process.wait(Some(Duration::ZERO))?.is_some() {
                return Ok((process, started));
            }
            sampler.watch(Root { supervisor: process.supervisor(), ..Root::subject(started.pid, role) });
        }
        samplers.begin(sampler, started.released);
        Ok((process, started))
    }
}

/// Whether limits need a group of the trial's own.
const fn is_confined(limits: &Limits) -> bool {
    limits.memory.is_some() || limits.cpus.is_some() || limits.pids.is_some()
}

/// Removes all that a trial left in its scratch directory except the FIFO for marks, which nobody has open, and the
/// directory for temporary files. A program may have put anything in their places: the targets of links are not ours,
/// and are never changed.
fn empty(scratch: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(scratch)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // Reading the list of mounts takes a tenth of the time in which a short program runs.
    if is_bare(scratch)? {
        return Ok(());
    }
    detach_mounts(scratch).map_err(io::Error::other)?;
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        let kind = fs::symlink_metadata(&path)?.file_type();
        if path.ends_with("tmp") && kind.is_dir() {
            for entry in fs::read_dir(&path)? {
                remove(&entry?.path())?;
            }
        } else if !(path.ends_with("marks") && kind.is_fifo()) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Whether a scratch directory contains nothing that [`empty`] would remove, and nothing is mounted there.
fn is_bare(scratch: &Path) -> io::Result<bool> {
    let mut bare = is_unmounted(scratch, FileType::Directory);
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        bare &= if path.ends_with("tmp") {
            is_unmounted(&path, FileType::Directory) && fs::read_dir(&path)?.next().is_none()
        } else {
            path.ends_with("marks") && is_unmounted(&path, FileType::Fifo)
        };
    }
    Ok(bare)
}

/// Whether a path is a file of this kind on which nothing is mounted; `false` where the kernel, before 5.8, does not say whether.
fn is_unmounted(path: &Path, kind: FileType) -> bool {
    let mounted = StatxAttributes::MOUNT_ROOT;
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE).is_ok_and(|about| {
        FileType::from_raw_mode(about.stx_mode.into()) == kind
            && about.stx_attributes_mask.contains(mounted)
            && !about.stx_attributes.contains(mounted)
    })
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// The preparation of a program that was made after the snapshot is included in the group's count.
fn deduct_preparation(before: &mut Snapshot, started: &Started) {
    if let (Reading::Measured(group), Some((cpu, _))) = (&mut before.group, &started.before) {
        group.total += cpu.user + cpu.system;
    }
}

/// Puts into the snapshot at which a program was suspended what its process reported when it began to execute: values
/// up to the last instruction before, instead of those read some time earlier.
fn begin_at(before: &mut Snapshot, started: &Started) {
    let Some((cpu, usage)) = &started.before else { return };
    let sample = ProcessSample {
        at: before.at,
        cpu_user: cpu.user,
        cpu_system: cpu.system,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        switches_voluntary: usage.switches_voluntary,
        switches_forced: usage.switches_forced,
        read: Some(usage.read),
        written: Some(usage.written),
        ..ProcessSample::default()
    };
    let earlier = before.totals.get("").cloned().unwrap_or_default();
    before.totals.insert(String::new(), with_usage(earlier, *cpu, usage));
    let pss = Reading::Missing(Why::NotApplicable);
    let process =
        ProcessSnapshot { pid: started.pid, role: String::new(), sample, pss, peak: usage.peak, peak_reset: false };
    before.processes = vec![process];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_trial_are_removed_before_the_next() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("tmp/deep/er")).unwrap();
        fs::write(top.path().join("tmp/deep/er/file"), "x").unwrap();
        fs::write(top.path().join("input"), "x").unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, top.path().join("marks"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::os::unix::fs::symlink("/nowhere", top.path().join("tmp/link")).unwrap();
        empty(top.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(top.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["marks", "tmp"]);
        assert_eq!(fs::read_dir(top.path().join("tmp")).unwrap().count(), 0);
    }

    /// The next trial would have written to another file system.
    #[test]
    fn what_is_mounted_on_an_empty_directory_goes_too() {
        let (top, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tmp = top.path().join("tmp");
        fs::create_dir(&tmp).unwrap();
        if let Err(error) = rustix::mount::mount_bind(user.path(), &tmp) {
            return eprintln!("SKIPPED: this user cannot mount: {error}");
        }
        empty(top.path()).unwrap();
        fs::write(tmp.join("file"), "x").unwrap();
        assert_eq!(fs::read_dir(user.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_program_put_in_the_place_of_ours_goes_and_what_it_points_to_stays() {
        let (top, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("precious"), "x").unwrap();
        let link = |name: &Path| std::os::unix::fs::symlink(elsewhere.path(), name).unwrap();
        let precious = || fs::read(elsewhere.path().join("precious")).is_ok();
        link(&top.path().join("tmp"));
        fs::write(top.path().join("marks"), "no FIFO").unwrap();
        empty(top.path()).unwrap();
        assert!(precious());
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 0, "the next trial makes them again");
        link(&top.path().join("marks"));
        fs::write(top.path().join("tmp"), "no directory").unwrap();
        empty(top.path()).unwrap();
        assert!(precious() && fs::read_dir(top.path()).unwrap().count() == 0);
        link(&top.path().join("scratch"));
        empty(&top.path().join("scratch")).unwrap_err();
        assert!(precious());
    }

    #[test]
    fn limits_of_the_group_need_one_and_times_do_not() {
        assert!(!is_confined(&Limits { trial: Some(Nanos::from_millis(1)), ..Limits::default() }));
        assert!(is_confined(&Limits { pids: Some(3), ..Limits::default() }));
    }
}
