//! Checks before a run whether the files, commands and limits that an experiment names exist on this machine, so that
//! `prony run` can start every experiment that `prony check` accepts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use prony_engines::catalog::Catalog;
use prony_engines::registry;
use prony_engines::room::least_of_value;
use prony_experiment::design::Experiment;
use prony_experiment::plan::{data_bytes, index_bytes, least_value};
use prony_model::catalog::{EngineCatalog, Lack, Surroundings};
use prony_model::http::BodySpec;
use prony_model::program::{InputSpec, OutputTo, ProgramSpec};
use prony_model::service::{DataSpec, ServiceSpec};
use prony_model::spec::{Action, Amount, CollectionSpec, Limits, PhaseSpec, StoreSpec, Subject, TrialSpec};
use prony_model::units::Bytes;
use prony_os::limits::Limit;
use prony_os::processors::absent;
use prony_place::change;
use prony_place::data::{DataSources, amount};
use prony_place::launch_setting::open_whole;
use prony_place::output_targets::{NAME_ANOTHER, Protected};
use prony_place::paths::{FROM_FILE, for_scratch};
use prony_place::sources::Sources;
use prony_place::startable::{self, Written};
use rustix::fs::{Access, StatVfs, access, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::enforceable::{limits_nothing, unenforceable};
use crate::error::Error;

/// This machine, with scratch in a given folder.
#[derive(Debug)]
pub struct Here {
    /// Bytes free on the file system of scratch; `None` where that is not known.
    free: Option<u64>,
    /// Whether each limit can be enforced: trying takes milliseconds.
    limits: RefCell<BTreeMap<&'static str, Option<(String, String)>>>,
    /// The directories that would be copied, listed once a run.
    sources: Sources,
    /// Those of which services' data would be copies.
    data: DataSources,
    /// What no output of a program may be.
    protected: Protected,
}

impl Here {
    /// With scratch in `near`, for a command of which these files are `protected`.
    ///
    /// # Errors
    /// Where scratch cannot be put there.
    pub fn new(near: &Path, protected: Protected) -> Result<Self, Error> {
        if matches!(near.try_exists(), Ok(false)) {
            return Err(Error::Refused {
                message: format!("the folder `{}` does not exist", near.display()),
                hint: "create the folder, or name another one by `--database PATH` or `--scratch DIR`".to_owned(),
            });
        }
        let found = for_scratch(near)?;
        let free = statvfs(&found).ok().map(|disk| free(&disk));
        Ok(Self {
            free,
            limits: RefCell::default(),
            sources: Sources::default(),
            data: DataSources::default(),
            protected,
        })
    }

    /// Limits that are requested and cannot be enforced, or would limit nothing.
    fn unenforceable(&self, limits: &Limits) -> Vec<Lack> {
        let lacking = |limit: Limit| {
            let attempt = || unenforceable(limit);
            let known = self.limits.borrow_mut().entry(limit.name()).or_insert_with(attempt).clone();
            let (message, hint) = known.or_else(|| limits_nothing(limit, limits))?;
            Some(Lack { section: "limits", key: limit.name(), message, hint })
        };
        Limit::ALL.into_iter().filter(|limit| limit.is_in(limits)).filter_map(lacking).collect()
    }

    fn room(&self, store: &StoreSpec, spec: &TrialSpec) -> Option<Lack> {
        let can = registry::describe(&store.engine).ok()?.capabilities;
        if is_elsewhere(spec) {
            return None;
        }
        let least = least_stored(store, spec, can.compresses);
        if can.in_memory {
            let memory = Catalog.memory().filter(|memory| least > memory.as_bytes() as f64)?;
            // A limit below that ends the trial before the machine is out of memory, and its end is a result.
            let limits = spec.services.iter().map(|service| &service.limits).chain([&spec.limits]);
            if limits.filter_map(|limits| limits.memory).any(|limit| limit < memory) {
                return None;
            }
            let (engine, least) = (&store.engine, Bytes::from_bytes(least as u64));
            let message = format!(
                "`{engine}` stores the records and their indexes in memory, where they take at least {least}, but the machine has {memory}"
            );
            let hint = "use fewer records, or an engine that stores them on the disk".to_owned();
            return Some(lack("data", "records", (message, hint)));
        }
        let free = self.free.filter(|free| least > *free as f64)?;
        let [least, free] = [least as u64, free].map(Bytes::from_bytes);
        let message = format!(
            "the records and their indexes take at least {least}, but only {free} are free on the store's file system"
        );
        Some(lack("data", "records", (message, "use fewer records, or another folder: `--scratch DIR`".to_owned())))
    }
}

/// The expected sizes of documents and entries may be so much too large.
const EXPECTED: f64 = 0.9;

/// Bytes that are free on a file system for this process: its reserve is for root alone.
pub(crate) fn free(disk: &StatVfs) -> u64 {
    let blocks = if geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    blocks.saturating_mul(disk.f_frsize)
}

/// Whether a store is a server that prony does not start, whose disk is not known.
fn is_elsewhere(spec: &TrialSpec) -> bool {
    spec.measures_servers() && spec.services.is_empty()
}

/// Bytes that the store of a trial takes on the disk at least; `None` where it has none, or they are not known.
pub fn least_on_disk(spec: &TrialSpec) -> Option<Bytes> {
    let store = spec.subject.store().filter(|_| !is_elsewhere(spec))?;
    let can = registry::describe(&store.engine).ok()?.capabilities;
    (!can.in_memory).then(|| Bytes::from_bytes(least_stored(store, spec, can.compresses) as u64))
}

/// Bytes that a store takes at least at some time of its trial. Of the entries of indexes, most of whose bytes repeat, a compressor may
/// leave next to nothing.
fn least_stored(store: &StoreSpec, spec: &TrialSpec, compresses: bool) -> f64 {
    let least_of = |collection: &CollectionSpec| {
        let written = spec.phases.iter().map(|phase| written(phase, collection)).fold(0.0, f64::max);
        let data = data_bytes(collection);
        let entries = index_bytes(collection, &store.indexes_of(collection)).least;
        // The shortest value says how many pages each value has at least.
        let paged = collection.records as f64 * least_of_value(store, least_value(collection)) as f64;
        written * if compresses { data.least } else { (EXPECTED * data.mean).max(paged) + EXPECTED * entries }
    };
    spec.data.iter().map(least_of).sum()
}

/// Refuses to go on where a file of documents is not the one with which the experiment was checked: what a trial does with
/// another is no result of its variant. A file that was not written to is not read again.
///
/// # Errors
/// [`Error::Refused`] with the first that was changed.
pub(crate) fn documents_unchanged(spec: &TrialSpec) -> Result<(), Error> {
    let files = spec.data.iter().filter_map(CollectionSpec::document).filter_map(|document| document.file.as_ref());
    for file in files {
        let message = match Catalog.documents(Path::new(&file.path)) {
            Ok((found, _)) if found.digest == file.digest => continue,
            Ok(_) => format!("`{}` was changed after the run began; finished trials are saved", file.path),
            Err(fault) => format!("{fault}; finished trials are saved"),
        };
        let hint = "restore the file and continue with `prony run --resume`, or start a new run".to_owned();
        return Err(Error::Refused { message, hint });
    }
    Ok(())
}

/// The share of a collection's records that a phase certainly writes.
fn written(phase: &PhaseSpec, collection: &CollectionSpec) -> f64 {
    match &phase.action {
        Action::Put(ops) if ops.collection == collection.name && ops.references.are_ignored() => match ops.amount {
            Amount::Records => 1.0,
            Amount::Count(count) => (count as f64 / collection.records.max(1) as f64).min(1.0),
            Amount::Duration(_) | Amount::Background => 0.0,
        },
        _ => 0.0,
    }
}

impl Surroundings for Here {
    fn lacking(&self, spec: &TrialSpec) -> Vec<Lack> {
        let mut lacking = self.unenforceable(&spec.limits);
        let mut protected = self.protected.clone();
        protected.add_read_by(spec);
        match &spec.subject {
            Subject::Program(program) => lacking.extend(of_program(program, &self.sources, &protected)),
            Subject::Store(store) => lacking.extend(self.room(store, spec)),
            Subject::Services => {}
        }
        for service in &spec.services {
            let started = service.running.is_none().then_some(&service.program);
            let found = started.map(|program| of_program(program, &self.sources, &protected));
            lacking.extend(found.into_iter().flatten().map(|lack| Lack { section: "service", ..lack }));
            lacking.extend(service.data.as_ref().and_then(|data| self.of_data(data)));
            lacking.extend(no_processor(&service.processors, "service", "processors"));
            let counters = service.counters.as_ref().and_then(|counters| prony_counters::fault(&counters.source));
            lacking.extend(
                counters.map(|(message, example)| {
                    lack("service", "counters", (message, format!("write as in `{example}`")))
                }),
            );
            let unlimited = self.unenforceable(&service.limits).into_iter();
            lacking.extend(unlimited.map(|lack| Lack { section: "service", key: "limits", ..lack }));
        }
        let loads = || spec.phases.iter().filter_map(|phase| phase.action.http());
        lacking.extend(loads().filter_map(|http| no_processor(&http.processors, "phase", "http")));
        let files = loads().flat_map(|http| &http.kinds).filter_map(|kind| match &kind.body {
            Some(BodySpec::File { path, .. }) => unreadable(path),
            _ => None,
        });
        lacking.extend(files.map(|fault| lack("phase", "http", fault)));
        lacking
    }
}

/// A processor that is named and that prony may not use.
fn no_processor(wanted: &[u32], section: &'static str, key: &'static str) -> Option<Lack> {
    let message = format!("prony may not run on a processor {}", absent(wanted)?);
    let hint =
        "`nproc` says how many there are, and their numbers begin with 0; `taskset -p $$` shows those of this shell";
    Some(lack(section, key, (message, hint.to_owned())))
}

impl Here {
    /// What is wrong with the directory of which a service's data are a copy.
    fn of_data(&self, data: &DataSpec) -> Option<Lack> {
        let unreadable = || {
            let error = self.data.survey(data).err()?;
            Some((error.to_string(), error.hint().unwrap_or_else(|| FROM_FILE.to_owned())))
        };
        Some(lack("service", "data", not_a_directory(Path::new(&data.from)).or_else(unreadable)?))
    }

    /// What the data of the services of an experiment are copies of, by service.
    pub fn copied_data(&self, experiment: &Experiment) -> BTreeSet<(String, String)> {
        let services = experiment.variants().iter().flat_map(|variant| &variant.spec.services);
        let copied = |service: &ServiceSpec| {
            let data = service.data.as_ref()?;
            let what = format!("`{}` ({})", data.from, amount(&self.data.survey(data).ok()?));
            Some((service.name().to_owned(), what))
        };
        services.filter_map(copied).collect()
    }
}

/// What is wrong with a file that is read as a whole, and a hint.
fn unreadable(path: &str) -> Option<(String, String)> {
    let error = open_whole(Path::new(path)).err()?;
    Some((format!("cannot read `{path}`: {error}"), FROM_FILE.to_owned()))
}

fn lack(section: &'static str, key: &'static str, (message, hint): (String, String)) -> Lack {
    Lack { section, key, message, hint }
}

fn of_program(program: &ProgramSpec, sources: &Sources, protected: &Protected) -> Vec<Lack> {
    let lack = |key, fault| lack("program", key, fault);
    let mut lacking = Vec::new();
    if let Some(fault) = program.directory.as_deref().and_then(|path| not_a_directory(Path::new(path))) {
        // The store that would be in it does not exist either.
        return vec![lack("directory", fault)];
    }
    if let InputSpec::File(path) = &program.input {
        lacking.extend(unreadable(path).map(|fault| lack("input", fault)));
    }
    if let OutputTo::File(path) = &program.output
        && let Some((why, hint)) = unwritable(Path::new(path), protected)
    {
        lacking.push(lack("output", (format!("cannot write `{path}`: {why}"), hint.to_owned())));
    }
    lacking.extend(change::lacking(program));
    if let Err(error) = sources.survey(program) {
        let hint = error.hint().unwrap_or_else(|| FROM_FILE.to_owned());
        lacking.push(lack("directory", (error.to_string(), hint)));
    }
    lacking.extend(startable::lacking(program, Written::InFile).map(|fault| lack("command", fault)));
    lacking
}

/// Why a program's output could not be written to a file, or must not, and a hint; makes nothing.
fn unwritable(path: &Path, protected: &Protected) -> Option<(String, &'static str)> {
    let refusal = protected.refusal_of_program(path).map(|why| (why.to_owned(), NAME_ANOTHER));
    refusal.or_else(|| Some((inaccessible(path)?.to_string(), FROM_FILE)))
}

/// Why a file could not be written; makes and opens nothing.
fn inaccessible(path: &Path) -> Option<io::Error> {
    let errno = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Some(Errno::ISDIR),
        Ok(_) => access(path, Access::WRITE_OK).err(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            access(folder, Access::WRITE_OK | Access::EXEC_OK).err()
        }
        Err(error) => return Some(error),
    };
    errno.map(io::Error::from)
}

/// What is wrong with a directory that a program works in, and a hint.
fn not_a_directory(path: &Path) -> Option<(String, String)> {
    let found: Result<PathBuf, _> = std::fs::canonicalize(path);
    let what = match found {
        Err(error) => format!("cannot find the directory `{}`: {error}", path.display()),
        Ok(found) if !found.is_dir() => format!("`{}` is not a directory", path.display()),
        Ok(found) if found.to_str().is_none() => {
            format!("cannot use `{}`: the path is not valid UTF-8, and records are text", found.display())
        }
        Ok(_) => return None,
    };
    Some((what, FROM_FILE.to_owned()))
}

#[cfg(test)]
mod tests {
    use prony_model::spec::{
        BytesSpec, DocumentSpec, Encoding, FieldSpec, Generator, Grouping, IndexSpec, KeySpec, Limits, Ops, Order,
        References, Sampling, Sharing, Size, ValueSpec,
    };
    use prony_model::units::Fraction;
    use prony_os::processors::usable;

    use super::*;

    fn put(references: References) -> TrialSpec {
        let ops = Ops {
            amount: Amount::Count(500),
            transaction: Grouping::Each,
            order: Order::Record,
            replicas: None,
            threads: 1,
            share: Sharing::Equal,
            pause: None,
            rate: None,
            sample: Sampling::None,
            touch: true,
            collection: None,
            references,
        };
        let action = Action::Put(ops);
        let phase = PhaseSpec { name: "load".to_owned(), timed: true, action, background: None, limit: None };
        TrialSpec {
            services: Vec::new(),
            subject: Subject::Store(StoreSpec::of("lmdb")),
            data: Vec::new(),
            phases: vec![phase],
            limits: Limits::default(),
            crashes: Vec::new(),
        }
    }

    fn data(value: ValueSpec) -> CollectionSpec {
        CollectionSpec { name: None, records: 1000, key: KeySpec::Integer { bytes: 8 }, value }
    }

    #[test]
    fn cpus_above_those_that_prony_may_use_are_lacking() {
        let limits = Limits { cpus: usable().map(|most| most + 0.5), ..Limits::default() };
        let folder = tempfile::tempdir().unwrap();
        let lacks = Here::new(folder.path(), Protected::default()).unwrap().unenforceable(&limits);
        assert_eq!(lacks.iter().map(|lack| (lack.section, lack.key)).collect::<Vec<_>>(), [("limits", "cpus")]);
    }

    #[test]
    fn entries_of_indexes_need_room_unless_the_engine_compresses() {
        let field = FieldSpec { name: "id".to_owned(), value: Generator::Uuid, present: Fraction::ONE };
        let document = DocumentSpec { fields: vec![field], encoding: Encoding::Json, file: None };
        let spec = TrialSpec { data: vec![data(ValueSpec::Document(document))], ..put(References::Ignored) };
        let plain = StoreSpec::of("lmdb");
        let index = IndexSpec { collection: None, fields: vec!["id".parse().unwrap()] };
        let indexed = StoreSpec { indexes: vec![index], ..plain.clone() };
        let entries = least_stored(&indexed, &spec, false) - least_stored(&plain, &spec, false);
        let one = 1.0 + (3.0 + 36.0) + 8.0;
        assert!((entries / (0.9 * 500.0 * one) - 1.0).abs() < 1e-9, "{entries}");
        assert_eq!(least_stored(&indexed, &spec, true), least_stored(&plain, &spec, true));
        let refused = TrialSpec { data: spec.data, ..put(References::Checked) };
        assert_eq!(least_stored(&indexed, &refused, false), 0.0, "references may refuse all of them");
    }

    /// 5,000 documents of 2.1 kB were 10.9 MB, of which LMDB stores 21.3 MB, SQLite 28.5 MB and redb 21.6 MB.
    #[test]
    fn pages_that_long_values_leave_unfilled_need_room() {
        let bytes = Size::Fixed(Bytes::from_bytes(2_100));
        let value = ValueSpec::Bytes(BytesSpec { bytes, compressible: Fraction::default(), prefix: Vec::new() });
        let spec = TrialSpec { data: vec![data(value)], ..put(References::Ignored) };
        let of = |engine: &str| least_stored(&StoreSpec::of(engine), &spec, false);
        assert_eq!([of("lmdb"), of("redb"), of("sqlite")], [500.0 * 4096.0; 3]);
        assert_eq!(of("memory"), 500.0 * 2_100.0, "no pages");
        let on_disk =
            |engine: &str| least_on_disk(&TrialSpec { subject: Subject::Store(StoreSpec::of(engine)), ..spec.clone() });
        assert_eq!((on_disk("lmdb"), on_disk("memory")), (Some(Bytes::from_bytes(2_048_000)), None));
    }

    #[test]
    fn records_in_memory_need_as_much_as_the_machine_has() {
        let bytes = Size::Fixed(Bytes::from_bytes(1 << 50));
        let value = ValueSpec::Bytes(BytesSpec { bytes, compressible: Fraction::default(), prefix: Vec::new() });
        let spec = |records| {
            let value = value.clone();
            TrialSpec { data: vec![CollectionSpec { records, ..data(value) }], ..put(References::Ignored) }
        };
        let folder = tempfile::tempdir().unwrap();
        let here = Here::new(folder.path(), Protected::default()).unwrap();
        let lack = here.room(&StoreSpec::of("memory"), &spec(500)).unwrap();
        assert!(
            lack.message.contains("take at least") && lack.message.contains("but the machine has"),
            "{}",
            lack.message
        );
        let limited = |memory| {
            let limits = Limits { memory: Some(Bytes::from_bytes(memory)), ..Limits::default() };
            here.room(&StoreSpec::of("memory"), &TrialSpec { limits, ..spec(500) })
        };
        assert!(limited(1 << 20).is_none(), "the limit ends it");
        assert!(limited(1 << 50).is_some(), "the machine has less");
        let small = TrialSpec {
            data: vec![data(ValueSpec::Bytes(BytesSpec {
                bytes: Size::Fixed(Bytes::from_bytes(10)),
                compressible: Fraction::default(),
                prefix: Vec::new(),
            }))],
            ..put(References::Ignored)
        };
        assert!(here.room(&StoreSpec::of("memory"), &small).is_none());
    }

    #[test]
    fn what_a_compressor_may_leave_out_needs_room_in_an_engine_that_has_none() {
        let bytes = Size::Fixed(Bytes::from_bytes(992));
        let value =
            ValueSpec::Bytes(BytesSpec { bytes, compressible: Fraction::new(0.5).unwrap(), prefix: Vec::new() });
        let spec = TrialSpec { data: vec![data(value)], ..put(References::Ignored) };
        let least = |compresses| least_stored(&StoreSpec::of("lmdb"), &spec, compresses);
        assert!((least(false) - 496_000.0).abs() < 1.0 && (least(true) - 250_000.0).abs() < 1.0);
    }
}
