use super::*;
use crate::experiment::spec::{Action, Amount, Grouping, KeySpec, Order, Sampling, Size, Subject};
use crate::units::{Bytes, Nanos};

/// DESIGN 4, the cache, but for the power cut.
pub(super) const CACHE: &str = r#"
[experiment]
title = "What durability costs a cache"

[factors]
transaction = ["each", "single"]
[factors.store]
lmdb-sync        = { engine = "lmdb", durability = "strict" }
lmdb-nometasync  = { engine = "lmdb", durability = "bounded" }
lmdb-nosync      = { engine = "lmdb", durability = "none" }
lmdb-nosync-nometasync = { engine = "lmdb", options = { no_sync = true, no_meta_sync = true } }
sqlite-wal       = { engine = "sqlite", durability = "strict", options = { journal = "wal" } }
redb             = { engine = "redb", durability = "strict" }
fjall            = { engine = "fjall", durability = "relaxed" }

[design]
skip = [{ store = "fjall", transaction = "single" }]

[compare]
baseline = { store = "lmdb-sync", transaction = "each" }
margin   = "5%"
blocks   = { min = 6, max = 30 }

[store]
use = "{store}"

[data]
records = 20_000
key     = "{i}"
value   = { bytes = 128, compressible = "0%" }

[[phase]]
name    = "write"
compute = { transaction = "{transaction}", sample = { operations = 10 } }

[[phase]]
name   = "commit"
commit = {}

[[phase]]
name = "read"
get  = { order = "shuffled", transaction = "{transaction}", sample = { operations = 10 } }
"#;

/// DESIGN 4, sourcing, with key and value instead of documents.
pub(super) const SOURCING: &str = r#"
[factors]
engine    = ["memory", "lmdb"]
documents = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
[factors.chunking]
large = { batch = 10_000, pause = "0 ms" }
small = { batch = 50, pause = "3 ms" }
[compare]
baseline = { engine = "memory" }
blocks = { min = 6, max = 8, documents.10_000_000 = 1 }
[limits]
memory = "16 GiB"
time   = { trial = "30 min" }
[store]
engine  = "{engine}"
[data]
records = "{documents}"
key     = "/path/{i}/"
value   = { bytes = "40 kB", compressible = "60%" }
[[phase]]
name = "source"
put  = { transaction = { batch = "{chunking.batch}" }, pause = { every = "{chunking.batch}", for = "{chunking.pause}" } }
[[phase]]
name    = "persist"
persist = {}
[[report.table]]
rows  = "documents"
tables = ["engine", "chunking"]
cells = { "source, s" = "{source.time + persist.time:s} ({source.time:s})" }
columns = ["source, s", "source.rss.end", "source.rss.peak", "source.anon.end", "source.file.end"]
"#;

#[test]
fn the_cache_of_the_design_is_read_in_full() {
    let experiment = sound(CACHE);
    assert_eq!(experiment.title(), "What durability costs a cache");
    assert_eq!(experiment.variants().len(), 13, "fourteen less the one that is skipped");
    let baselines: Vec<&_> = experiment.variants().iter().filter(|variant| variant.baseline).collect();
    assert_eq!(baselines.len(), 1);
    assert!(experiment.variants().iter().all(|variant| variant.stratum == 0 && variant.blocks.max == 30));
    assert_eq!(experiment.compare().primary.as_ref().unwrap().to_string(), "write.time");
    let single = experiment.variants().iter().find(|variant| variant.levels == [1, 3]).unwrap();
    let Subject::Store(store) = &single.spec.subject;
    assert_eq!((store.durability, store.options["no_meta_sync"].clone()), (None, OptionValue::Bool(true)));
    let phases = &single.spec.phases;
    let Action::Compute(write) = &phases[0].action else { panic!("{:?}", phases[0].action) };
    assert_eq!(write.transaction, Grouping::Open, "it stays open until `commit`");
    assert_eq!((write.order, write.sample, write.amount), (Order::Record, Sampling::Group(10), Amount::Records));
    assert_eq!(phases[2].action.ops().unwrap().transaction, Grouping::Single);
    let each = experiment.variants().iter().find(|variant| variant.baseline).unwrap();
    assert_eq!(each.spec.phases[0].action.ops().unwrap().transaction, Grouping::Each);
    let data = each.spec.data.as_ref().unwrap();
    assert_eq!(data.key, KeySpec::Template { parts: vec![String::new(), String::new()], pad: 0 });
    assert_eq!(data.value.bytes, Size::Fixed(Bytes::from_bytes(128)));
}

#[test]
fn sourcing_of_the_design_is_read_in_full() {
    let experiment = sound(SOURCING);
    assert_eq!(experiment.variants().len(), 20);
    assert_eq!(experiment.variants().iter().filter(|variant| variant.baseline).count(), 10);
    assert_eq!(experiment.factors()[1].levels[4].number, Some(1e7));
    let largest: Vec<_> = experiment.variants().iter().filter(|variant| variant.levels[1] == 4).collect();
    assert!(largest.iter().all(|variant| (variant.blocks.min, variant.blocks.max) == (1, 1)));
    let small = &experiment.variants()[1];
    assert_eq!((small.levels.as_slice(), small.blocks.max), ([0, 0, 1].as_slice(), 8));
    let ops = small.spec.phases[0].action.ops().unwrap();
    assert_eq!(ops.transaction, Grouping::Batch(50));
    assert_eq!(ops.pause.unwrap().time, Nanos::from_millis(3));
    assert_eq!(small.spec.limits.trial, Some(Nanos::from_secs(1800)));
    assert_eq!(small.spec.data.as_ref().unwrap().records, 1000);
    assert_eq!(small.stratum, experiment.variants()[11].stratum, "memory and lmdb at the same size and chunking");
}
