//! The compared cases, as plans of prony and as input files for the C program.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use prony_engines::phases::{Plan, phase_seed};
use prony_model::spec::{
    Action, Amount, BytesSpec, DataSpec, Durability, Grouping, KeySpec, Limits, Ops, Order, PhaseSpec, Sampling, Size,
    StoreSpec, Subject, TrialSpec, ValueSpec,
};
use prony_model::units::{Bytes, Fraction, Nanos};
use prony_workload::{Positions, Records, Share};

use crate::Result;

/// Records of each case.
pub(crate) const RECORDS: u64 = 1_000_000;

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
    /// Reads; the records are stored before.
    reads: bool,
}

#[derive(Clone, Copy, Debug)]
enum Batch {
    Of(u64),
    Single,
}

/// All of them.
pub(crate) const CASES: [Case; 6] = [
    Case::puts("put-sorted", "puts, sorted, 10,000 a transaction", Order::Record, 10_000, true),
    Case::puts("put-shuffled", "puts, shuffled, 10,000 a transaction", Order::Shuffled, 10_000, true),
    Case::puts("put-sorted-nosync", "puts, sorted, 10,000 a transaction, no sync", Order::Record, 10_000, false),
    Case::puts("put-shuffled-nosync", "puts, shuffled, 10,000 a transaction, no sync", Order::Shuffled, 10_000, false),
    Case::puts("put-each", "puts, shuffled, one a transaction, no sync", Order::Shuffled, 1, false),
    Case {
        name: "get-random",
        title: "gets, shuffled, one read transaction",
        order: Order::Shuffled,
        grouping: Batch::Single,
        sync: false,
        reads: true,
    },
];

impl Case {
    const fn puts(name: &'static str, title: &'static str, order: Order, batch: u64, sync: bool) -> Self {
        Self { name, title, order, grouping: Batch::Of(batch), sync, reads: false }
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
        let phases =
            if self.reads { vec![load, ("measured", Action::Get(ops))] } else { vec![("measured", Action::Put(ops))] };
        plan(dir, RECORDS, self.sync, phases)
    }

    /// Arguments of the C program; writes the files that it reads into `files`, where they are not there yet.
    pub(crate) fn c_arguments(&self, dir: &Path, files: &Path) -> Result<Vec<String>> {
        let text = |path: &Path| path.display().to_string();
        let measured = self.file(files, self.order, "measured", !self.reads)?;
        Ok(match self.grouping {
            Batch::Of(size) => {
                let sync = if self.sync { "sync" } else { "nosync" };
                vec!["put".into(), text(dir), sync.into(), size.to_string(), text(&measured)]
            }
            Batch::Single => {
                let load = self.file(files, Order::Record, "load", true)?;
                vec!["get".into(), text(dir), text(&load), text(&measured)]
            }
        })
    }

    /// The keys, or the records, in the order in which prony's phase of this name uses them.
    fn file(&self, files: &Path, order: Order, phase: &str, values: bool) -> Result<PathBuf> {
        let path = files.join(format!("{phase}-{order:?}-{values}"));
        if path.exists() {
            return Ok(path);
        }
        let records = Records::new(&data(RECORDS), SEED);
        let mut positions = Positions::new(&order, &records, phase_seed(SEED, phase), Share::WHOLE);
        let mut out = BufWriter::new(File::create(&path)?);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for _ in 0..RECORDS {
            let number = positions.next();
            records.key(number, &mut key);
            records.value(number, 0, &mut value);
            out.write_all(&key)?;
            if values {
                out.write_all(&value)?;
            }
        }
        out.into_inner()?.sync_all()?;
        Ok(path)
    }
}

/// Small records: 16 digits and 100 bytes.
fn data(records: u64) -> DataSpec {
    DataSpec {
        records,
        key: KeySpec::Template { parts: vec![String::new(), String::new()], pad: 16 },
        value: ValueSpec::Bytes(BytesSpec {
            bytes: Size::Fixed(Bytes::from_bytes(100)),
            compressible: Fraction::default(),
            prefix: Vec::new(),
        }),
    }
}

/// One pass over the records.
pub(crate) fn ops(order: Order, transaction: Grouping, sample: Sampling) -> Ops {
    Ops { amount: Amount::Records, transaction, order, threads: 1, pause: None, rate: None, sample, touch: true }
}

/// A plan on LMDB.
pub(crate) fn plan(dir: &Path, records: u64, sync: bool, phases: Vec<(&str, Action)>) -> Plan {
    let phase = |(name, action): (&str, Action)| PhaseSpec { name: name.to_owned(), timed: true, action, limit: None };
    let durability = Some(if sync { Durability::Strict } else { Durability::None });
    let store = StoreSpec { engine: "lmdb".to_owned(), durability, options: BTreeMap::new() };
    let spec = TrialSpec {
        subject: Subject::Store(store),
        data: Some(data(records)),
        phases: phases.into_iter().map(phase).collect(),
        limits: Limits::default(),
    };
    Plan { spec, seed: SEED, dir: dir.to_owned(), throughput: Nanos::from_millis(100) }
}
