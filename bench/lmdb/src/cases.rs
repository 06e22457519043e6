//! The compared cases, as plans of prony and as input files for the C program.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use prony_engines::phases::Plan;
use prony_engines::timed_loop::now;
use prony_model::spec::{
    Action, Amount, BytesSpec, CollectionSpec, DocumentSpec, Durability, Encoding, FieldPath, FieldSpec, FieldValue,
    Filter, FindSpec, Generator, Grouping, IndexSpec, KeySpec, Limits, Operand, Ops, Order, PhaseSpec, QuerySpec,
    References, Sampling, Sharing, Size, StoreSpec, Subject, Test, TrialSpec, ValueSpec,
};
use prony_model::units::{Bytes, Fraction, Nanos};
use prony_workload::phase_seed;
use prony_workload::{Positions, Records, Share, decode};

use crate::Result;

/// Records of each case.
pub(crate) const RECORDS: u64 = 1_000_000;

/// Bytes of each value, in the C program too.
const VALUE: usize = 100;

const SEED: u64 = 20_260_101;

/// A case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    order: Order,
    grouping: Batch,
    /// Commits are synced.
    sync: bool,
    /// What is measured; for reads, the records are stored before.
    measured: Measured,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Measured {
    Put,
    Get,
    /// Point queries through an index, over documents.
    Find,
}

#[derive(Clone, Copy, Debug)]
enum Batch {
    Of(u64),
    Single,
}

/// All of them.
pub(crate) const CASES: [Case; 7] = [
    Case::puts("put-sorted", "puts, sorted, 10,000 a transaction", Order::Record, 10_000, true),
    Case::puts("put-shuffled", "puts, shuffled, 10,000 a transaction", Order::Shuffled, 10_000, true),
    Case::puts("put-sorted-nosync", "puts, sorted, 10,000 a transaction, no sync", Order::Record, 10_000, false),
    Case::puts("put-shuffled-nosync", "puts, shuffled, 10,000 a transaction, no sync", Order::Shuffled, 10_000, false),
    Case::puts("put-each", "puts, shuffled, one a transaction, no sync", Order::Shuffled, 1, false),
    Case::reads("get-random", "gets, shuffled, one read transaction", Measured::Get),
    Case::reads(
        "find-random",
        "point queries through an index, shuffled, one read transaction; C: two gets, and the decoding alone",
        Measured::Find,
    ),
];

impl Case {
    const fn puts(name: &'static str, title: &'static str, order: Order, batch: u64, sync: bool) -> Self {
        Self { name, title, order, grouping: Batch::Of(batch), sync, measured: Measured::Put }
    }

    const fn reads(name: &'static str, title: &'static str, measured: Measured) -> Self {
        Self { name, title, order: Order::Shuffled, grouping: Batch::Single, sync: false, measured }
    }

    /// The case of this name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        CASES.into_iter().find(|case| case.name == name).ok_or_else(|| format!("there is no case `{name}`").into())
    }

    /// As prony runs it; its last phase is the one compared.
    pub(crate) fn plan(&self, dir: &Path, sample: Sampling) -> Plan {
        let load = ("load", Action::Put(ops(Order::Record, Grouping::Batch(10_000), Sampling::None)));
        let grouping = match self.grouping {
            Batch::Of(1) => Grouping::Each,
            Batch::Of(size) => Grouping::Batch(size),
            Batch::Single => Grouping::Single,
        };
        let ops = ops(self.order, grouping, sample);
        let phases = match self.measured {
            Measured::Put => vec![("measured", Action::Put(ops))],
            Measured::Get => vec![load, ("measured", Action::Get(ops))],
            Measured::Find => vec![load, ("measured", Action::Find(FindSpec { ops, queries: vec![point_query()] }))],
        };
        let mut plan = plan(dir, RECORDS, self.sync, phases);
        plan.spec.data = vec![self.data()];
        if let (Subject::Store(store), Measured::Find) = (&mut plan.spec.subject, self.measured) {
            store.indexes = vec![IndexSpec { collection: None, fields: vec![code()] }];
        }
        plan
    }

    fn data(&self) -> CollectionSpec {
        let data = data(RECORDS);
        if self.measured == Measured::Find { CollectionSpec { value: documents(), ..data } } else { data }
    }

    /// Nanoseconds in which all documents are decoded one by one, in the order of the queries: none where there are none.
    pub(crate) fn decoding(&self) -> Result<f64> {
        let records = Records::new(&self.data(), SEED)?;
        let Some(encoding) = records.encoding() else { return Ok(0.0) };
        let mut positions = Positions::new(&self.order, &records, phase_seed(SEED, "measured"), Share::WHOLE);
        let (mut value, mut all) = (Vec::new(), Vec::new());
        for _ in 0..RECORDS {
            records.value(positions.next(), 0, &mut value);
            all.extend_from_slice(&value);
        }
        let begin = now();
        for value in all.chunks_exact(VALUE) {
            black_box(decode(encoding, value).map_err(|error| error.to_string())?);
        }
        Ok((now() - begin) as f64)
    }

    /// Arguments of the C program; writes the files that it reads into `files`, where they are not there yet.
    pub(crate) fn c_arguments(&self, dir: &Path, files: &Path) -> Result<Vec<String>> {
        let text = |path: &Path| path.display().to_string();
        let measured = self.file(files, self.order, "measured", self.measured == Measured::Put)?;
        Ok(match self.grouping {
            Batch::Of(size) => {
                let sync = if self.sync { "sync" } else { "nosync" };
                vec!["put".into(), text(dir), sync.into(), size.to_string(), text(&measured)]
            }
            Batch::Single => {
                let load = self.file(files, Order::Record, "load", true)?;
                let what = if self.measured == Measured::Find { "find" } else { "get" };
                vec![what.into(), text(dir), text(&load), text(&measured)]
            }
        })
    }

    /// The keys, or the records, in the order in which prony's phase of this name uses them.
    fn file(&self, files: &Path, order: Order, phase: &str, values: bool) -> Result<PathBuf> {
        let path = files.join(format!("{:?}-{phase}-{order:?}-{values}", self.measured));
        if path.exists() {
            return Ok(path);
        }
        let records = Records::new(&self.data(), SEED)?;
        let mut positions = Positions::new(&order, &records, phase_seed(SEED, phase), Share::WHOLE);
        let mut out = BufWriter::new(File::create(&path)?);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for _ in 0..RECORDS {
            let number = positions.next();
            records.key(number, &mut key);
            records.value(number, 0, &mut value);
            if value.len() != VALUE {
                return Err(format!("a value has {} bytes, and the C program reads {VALUE}", value.len()).into());
            }
            out.write_all(&key)?;
            if values {
                out.write_all(&value)?;
            }
        }
        out.into_inner()?.sync_all()?;
        Ok(path)
    }
}

/// What a point query asks for: the record's number, which its key has too.
fn code() -> FieldPath {
    FieldPath(["code".to_owned()].into())
}

fn point_query() -> QuerySpec {
    QuerySpec {
        collection: None,
        filter: Filter::Field(code(), Test::In(vec![Operand::Document(code())])),
        sort: Vec::new(),
        skip: 0,
        limit: None,
        select: Vec::new(),
        count: false,
    }
}

/// Documents that take as many bytes as the other values.
fn documents() -> ValueSpec {
    let field =
        |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::new(1.0).unwrap_or_default() };
    let text = Generator::Text {
        bytes: Size::Fixed(Bytes::from_bytes(75)),
        compressible: Fraction::new(Generator::LEAST_COMPRESSIBLE).unwrap_or_default(),
    };
    let fields = vec![
        // Large, so that all take as many bytes.
        field("code", Generator::Sequence { start: 1_000_000_000, step: 1 }),
        field("isOdd", Generator::Cycle(vec![FieldValue::Bool(false), FieldValue::Bool(true)])),
        field("text", text),
    ];
    ValueSpec::Document(DocumentSpec { fields, encoding: Encoding::MsgPack, file: None })
}

/// Small records: 16 digits and 100 bytes.
fn data(records: u64) -> CollectionSpec {
    CollectionSpec {
        name: None,
        records,
        key: KeySpec::Template { parts: vec![String::new(), String::new()], pad: 16 },
        value: ValueSpec::Bytes(BytesSpec {
            bytes: Size::Fixed(Bytes::from_bytes(VALUE as u64)),
            compressible: Fraction::default(),
            prefix: Vec::new(),
        }),
    }
}

/// One pass over the records.
pub(crate) fn ops(order: Order, transaction: Grouping, sample: Sampling) -> Ops {
    Ops {
        amount: Amount::Records,
        transaction,
        order,
        replicas: None,
        threads: 1,
        share: Sharing::Equal,
        pause: None,
        rate: None,
        sample,
        touch: true,
        collection: None,
        references: References::Ignored,
    }
}

/// A plan on LMDB.
pub(crate) fn plan(dir: &Path, records: u64, sync: bool, phases: Vec<(&str, Action)>) -> Plan {
    let phase = |(name, action): (&str, Action)| PhaseSpec {
        name: name.to_owned(),
        timed: true,
        action,
        background: None,
        limit: None,
    };
    let durability = Some(if sync { Durability::Strict } else { Durability::None });
    let store = StoreSpec { durability, ..StoreSpec::of("lmdb") };
    let spec = TrialSpec {
        subject: Subject::Store(store),
        services: Vec::new(),
        data: vec![data(records)],
        phases: phases.into_iter().map(phase).collect(),
        crashes: Vec::new(),
        limits: Limits::default(),
    };
    let throughput = Nanos::from_millis(100);
    Plan { spec, seed: SEED, dir: dir.to_owned(), replica: 1, queue: None, throughput }
}
