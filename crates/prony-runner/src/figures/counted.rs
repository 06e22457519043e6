//! What the kernel counts of a process up to its end, as readings. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_analysis::conclude::Observed;
use prony_model::metric::{Metric, MetricKey};
use prony_model::processes::NOT_ATTRIBUTED;
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, PEAK_SLACK, ProcessSeries, TICK};
use prony_model::spec::{Action, CollectionSpec, PhaseSpec, TrialSpec};
use prony_model::units::{Bytes, Nanos};
use prony_os::launch::{CpuTime, End, Usage};
use prony_os::sample::counters::Counters;
use prony_os::sample::{Ended, Snapshot, huge_pages, left_group};

use crate::figures::readings::{Readings, hidden, nanos, set, take_away};
use crate::watched::replicas::{NEVER_BEGAN, NOT_INHERITED};

/// Reads one metric from counters.
type Count = fn(&Counters) -> Reading<f64>;

/// What the kernel counts of a process up to its end; CPU time comes first.
pub(super) const COUNTED: [(Metric, Count); 9] = [
    (Metric::Cpu, |all| nanos(all.cpu_user + all.cpu_system)),
    (Metric::CpuUser, |all| nanos(all.cpu_user)),
    (Metric::CpuSystem, |all| nanos(all.cpu_system)),
    (Metric::Read, |all| all.read.clone().map(|amount| amount.as_bytes() as f64)),
    (Metric::Written, |all| all.written.clone().map(|amount| amount.as_bytes() as f64)),
    (Metric::MajorFaults, |all| Reading::Measured(all.major_faults as f64)),
    (Metric::MinorFaults, |all| Reading::Measured(all.minor_faults as f64)),
    (Metric::SwitchesVoluntary, |all| all.switches().map(|[voluntary, _]| voluntary as f64)),
    (Metric::SwitchesForced, |all| all.switches().map(|[_, forced]| forced as f64)),
];

/// One metric of counters.
pub(super) fn counted(counters: &Reading<Counters>, count: Count) -> Reading<f64> {
    match counters {
        Reading::Measured(counters) => count(counters),
        Reading::Missing(why) => Reading::Missing(why.clone()),
    }
}

/// No parent inherits these of a process that has ended.
pub(super) fn without_schedule(readings: &mut Readings) {
    for metric in [Metric::OnCpu, Metric::CpuWait] {
        set(readings, metric, Reading::not_supported(NOT_INHERITED));
    }
}

/// Sets what the kernel counted of ended processes; what only samples have is missing.
pub(super) fn set_counted(readings: &mut Readings, metrics: &[(Metric, Count)], counters: &Reading<Counters>) {
    metrics.iter().for_each(|(metric, count)| set(readings, *metric, counted(counters, *count)));
    without_schedule(readings);
}

/// Phases without the bytes read where the worker itself reads a file of documents: those are among them.
pub(crate) fn without_reads_of_documents(mut observed: Vec<Observed>, spec: &TrialSpec) -> Vec<Observed> {
    let why = Why::NotSupported("the worker also reads the file of the documents in this phase".into());
    for one in &mut observed {
        let phase = spec.phases.iter().find(|phase| phase.name == one.phase.name);
        if phase.is_some_and(|phase| reads_documents(phase, spec)) {
            one.phase.readings.values_mut().for_each(|readings| take_away(readings, [Metric::Read], &why));
        }
    }
    observed
}

/// Whether operations of the phase need documents that are rows of a file.
fn reads_documents(phase: &PhaseSpec, spec: &TrialSpec) -> bool {
    let is_file = |collection: &CollectionSpec| collection.document().is_some_and(|d| d.file.is_some());
    phase.actions().any(|action| match action {
        Action::Verify => spec.data.iter().any(is_file),
        Action::Find(find) => spec.collection(&find.ops).is_some_and(is_file),
        action if action.writes() => action.ops().and_then(|ops| spec.collection(ops)).is_some_and(is_file),
        _ => false,
    })
}

/// From this share of the CPU time of a control group on, children that nobody waited for are a part of the program whose other
/// counters matter.
const UNWAITED: f64 = 0.1;

/// Takes away what the kernel counts of processes where their group used more CPU time than those that somebody waited for: the
/// difference is that of children whose other counters are in none. Where it used less, processes left it; of what was `waited` for
/// so much may be that of an earlier phase.
pub(super) fn without_unwaited(readings: &mut Readings, all: f64, (waited, earlier): (f64, Nanos)) {
    let slack = (TICK + earlier).as_nanos() as f64;
    if waited - all > (UNWAITED * waited).max(slack) {
        let [used, counted] = [waited, all].map(|time| Nanos::from_nanos(time as u64));
        take_away(readings, [Metric::Cpu], &left_group(counted, used));
    }
    let lost = all - waited;
    if lost > UNWAITED * all && lost > TICK.as_nanos() as f64 {
        let why = format!("children that nobody waited for used {} of CPU time", Nanos::from_nanos(lost as u64));
        let parts = COUNTED.into_iter().map(|(metric, _)| metric).filter(|metric| *metric != Metric::Cpu);
        take_away(readings, parts, &Why::NotSupported(why.into()));
    }
}

/// The part of the CPU time of samples that may be none of the sum by rounding, and no loss.
const ROUNDED: f64 = 0.01;

/// Takes away what was counted of a tree whose processes had used more CPU time when they were sampled last.
pub(super) fn without_uninherited(readings: &mut Readings, processes: &BTreeMap<String, Readings>) {
    let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
    let used = |readings: &Readings| readings.get(&key).and_then(|cpu| cpu.measured().copied());
    let of_processes = processes.iter().filter(|(name, _)| *name != NOT_ATTRIBUTED);
    let sampled: f64 = of_processes.filter_map(|(_, readings)| used(readings)).sum();
    let Some(all) = used(readings) else { return };
    if sampled - all <= (ROUNDED * sampled).max(TICK.as_nanos() as f64) {
        return;
    }
    let [sampled, all] = [sampled, all].map(|time| Nanos::from_nanos(time as u64));
    let why = format!(
        "processes had used {sampled} of CPU time when they were sampled last, and {all} were counted: nobody inherits the counters of \
         children whose parent ignores SIGCHLD, and no control group counts them here"
    );
    take_away(readings, COUNTED.into_iter().map(|(metric, _)| metric), &Why::NotSupported(why.into()));
}

/// What the kernel reported at the end of a process that was suspended `before`; `several` says whether of more than one process.
pub(super) fn known_end(before: Option<&(CpuTime, Usage)>, end: &End, several: bool) -> Option<Ended> {
    let (_, suspended) = before?;
    let peak = end.usage.measured()?.peak;
    Some(Ended { at: end.at, peak, reached: several && peak > suspended.peak + PEAK_SLACK })
}

/// The kernel's own peak of a tree that was launched by itself, where it was one process.
pub(super) fn peak_of(
    what: &str,
    role: &str,
    (end, before): (Option<&End>, Option<&(CpuTime, Usage)>),
    (snapshots, series): (&[Snapshot], &[ProcessSeries]),
) -> Reading<f64> {
    if let [first, .., last] = snapshots
        && let Some(why) = huge_pages(first, last, |of| of == role)
    {
        return Reading::Missing(why);
    }
    let all = || snapshots.iter().flat_map(|snapshot| &snapshot.processes);
    let in_snapshots = || all().filter(|process| process.role == role);
    let sampled = series.iter().filter(|process| process.role == role).map(|process| process.pid);
    let pids: BTreeSet<u32> = in_snapshots().map(|process| process.pid).chain(sampled).collect();
    if pids.len() > 1 {
        let why =
            format!("the kernel keeps a peak for each process, and {what} had {} processes; see `rss.max`", pids.len());
        return Reading::not_supported(why);
    }
    let reaped = match end.map_or(Reading::Missing(Why::NotReached), |end| end.usage.clone()) {
        Reading::Measured(usage) => usage.peak,
        Reading::Missing(why) => return Reading::Missing(why),
    };
    let Some((_, Usage { peak: suspended, .. })) = before else { return Reading::failed(NEVER_BEGAN) };
    let most = in_snapshots().map(|process| process.peak).fold(reaped, Bytes::max);
    if most <= *suspended + PEAK_SLACK {
        return Reading::Missing(hidden(*suspended));
    }
    Reading::Measured(most.as_bytes() as f64)
}

#[cfg(test)]
mod tests {
    use prony_analysis::conclude::Reached;
    use prony_model::document::{DocumentFile, DocumentSpec, Encoding, RowForm};
    use prony_model::record::PhaseRecord;
    use prony_model::spec::KeySpec;
    use prony_model::spec::{
        Amount, FindSpec, Grouping, Limits, Ops, Order, References, Sampling, Sharing, StoreSpec, Subject, ValueSpec,
    };
    use prony_model::units::Bytes;

    use super::*;

    #[test]
    fn less_than_processes_had_used_is_not_the_cpu_time_of_the_tree() {
        let cpu =
            |used: f64| Readings::from([(MetricKeyText(MetricKey::amount(Metric::Cpu)), Reading::Measured(used))]);
        let of = |all: f64, processes: &[(&str, f64)]| {
            let mut readings = cpu(all);
            let processes = processes.iter().map(|(name, used)| ((*name).to_owned(), cpu(*used))).collect();
            without_uninherited(&mut readings, &processes);
            readings.into_values().next().unwrap().measured().copied()
        };
        assert_eq!(of(117e6, &[("process.x.perl", 117e6), ("process.x.perl.2", 273e6)]), None);
        assert_eq!(of(1_000e6, &[("process.x.sh", 90e6), ("process.x.perl", 1_000e6)]), None, "8 % less");
        assert_eq!(of(390e6, &[("process.x.perl", 117e6), ("process.x.perl.2", 273e6)]), Some(390e6));
        assert_eq!(of(117e6, &[("process.x.perl", 117e6), (NOT_ATTRIBUTED, 300e6)]), Some(117e6));
        assert_eq!(of(5e6, &[("process.x.perl", 9e6)]), Some(5e6), "within a tick of the scheduler");
    }

    fn ops(collection: &str) -> Ops {
        Ops {
            collection: Some(collection.to_owned()),
            amount: Amount::Records,
            transaction: Grouping::Each,
            order: Order::Record,
            replicas: None,
            threads: 1,
            share: Sharing::Equal,
            pause: None,
            rate: None,
            sample: Sampling::Every,
            touch: true,
            references: References::Ignored,
        }
    }

    fn collection(name: &str, file: bool) -> CollectionSpec {
        let rows = DocumentFile {
            path: "/a.ndjson".into(),
            form: RowForm::Ndjson,
            rows: 2,
            digest: String::new(),
            json: Bytes::default(),
            longest: Bytes::default(),
            unnamed: None,
            names: Default::default(),
            altered: None,
        };
        let file = Some(rows).filter(|_| name == "rows" && file);
        let document = DocumentSpec { fields: vec![], encoding: Encoding::Json, file };
        let key = KeySpec::Integer { bytes: 8 };
        CollectionSpec { name: Some(name.to_owned()), records: 2, key, value: ValueSpec::Document(document) }
    }

    /// Whether the bytes read remain of a phase with this action, where documents of the collection `rows` are in a `file`.
    fn remain(action: Action, file: bool) -> bool {
        let phase = PhaseSpec { name: "p".into(), timed: true, action, background: None, limit: None };
        let spec = TrialSpec {
            services: Vec::new(),
            subject: Subject::Store(StoreSpec::of("memory")),
            data: vec![collection("rows", file), collection("made", file)],
            phases: vec![phase],
            limits: Limits::default(),
            crashes: Vec::new(),
        };
        let mut readings = Readings::new();
        set(&mut readings, Metric::Read, Reading::Measured(5.0));
        set(&mut readings, Metric::Written, Reading::Measured(6.0));
        let record =
            PhaseRecord { name: "p".into(), readings: [(String::new(), readings)].into(), ..PhaseRecord::default() };
        let observed = without_reads_of_documents(vec![Observed::new(record, Reached::OwnEnd)], &spec).remove(0);
        let of = |metric| observed.phase.reading(MetricKey::amount(metric)).unwrap().measured().is_some();
        assert!(of(Metric::Written));
        of(Metric::Read)
    }

    /// The worker's own reads of the file would be the store's.
    #[test]
    fn bytes_read_are_missing_where_documents_are_rows_of_a_file() {
        let find = |name| Action::Find(FindSpec { ops: ops(name), queries: vec![] });
        assert!(!remain(Action::Put(ops("rows")), true) && remain(Action::Put(ops("made")), true));
        assert!(!remain(find("rows"), true) && remain(find("made"), true));
        assert!(remain(Action::Get(ops("rows")), true), "a key is no row");
        assert!(!remain(Action::Verify, true));
        assert!(remain(Action::Verify, false) && remain(Action::Put(ops("rows")), false));
    }
}
