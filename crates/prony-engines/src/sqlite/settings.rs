//! SQLite's options, and the durability class that results from `journal` and `synchronous` together.
//!
//! The table, from SQLite's documentation of both pragmas and from `pager.c` (3.5x):
//!
//! - `wal`: FULL and EXTRA sync the log with each commit (strict); NORMAL syncs it at checkpoints
//!   (relaxed: a tail is lost, what remains is a prefix); OFF syncs nothing (none).
//! - `delete`: a commit is the removal of the journal. EXTRA syncs the directory after it (strict);
//!   FULL does not, and the journal may be back after a power failure and undo the last commit (bounded).
//! - `truncate`, `persist`: the journal is cut or its header zeroed and then synced under FULL and
//!   EXTRA (`pager_end_transaction`, `zeroJournalHdr`): strict.
//! - NORMAL with a journal file: the documentation grants a chance of corruption (none); OFF: none.
//! - `memory`, `off`: there is no journal on the disk to repair a half-written commit with (none). A process that ends within a
//!   transaction may leave the database damaged then ("PRAGMA journal_mode" in the documentation).

use prony_model::record::effective::named;
use prony_model::spec::{Durability, StoreSpec};
use rusqlite::Connection;

use crate::driver::{InForce, OptionKind, OptionSpec, ProcessCrash, Promise, StoreFault, Table};
use crate::options::{self, Config, Options, one_of, option, promise};

const JOURNALS: [&str; 6] = ["wal", "delete", "truncate", "persist", "memory", "off"];
/// In the order of SQLite's numbers for them.
const SYNCHRONOUS: [&str; 4] = ["off", "normal", "full", "extra"];

pub(super) fn option_specs() -> Vec<OptionSpec> {
    let pages = OptionKind::Int { min: 0, max: i64::from(i32::MAX) };
    vec![
        option("journal", one_of(&JOURNALS), "wal", "journal_mode"),
        option("synchronous", one_of(&SYNCHRONOUS), "set by the durability class", "when SQLite syncs"),
        option("cache", OptionKind::Bytes, "2000 KiB", "size of the page cache of each connection (cache_size)"),
        option("mmap", OptionKind::Bytes, "0", "how much of the file is read through a memory map (mmap_size)"),
        option("page_size", OptionKind::Bytes, "4096", "a power of two from 512 to 65536; for a new database only"),
        option(
            "wal_autocheckpoint",
            pages,
            "1000",
            "pages in the log after which a commit checkpoints them; 0 is never",
        ),
        option(
            "locking_mode",
            one_of(&["normal", "exclusive"]),
            "normal",
            "exclusive: one session, and no shared memory for the log",
        ),
        option(
            "rowid",
            OptionKind::Bool,
            "true where records exceed a twentieth of a page",
            "a rowid table with an index on the key; false: WITHOUT ROWID",
        ),
    ]
}

pub(super) fn promises() -> Vec<Promise> {
    vec![
        promise(
            Durability::Strict,
            "`journal_mode` wal, truncate or persist with `synchronous` full, or delete with extra",
            true,
        ),
        promise(Durability::Bounded, "journal delete with synchronous full", false),
        promise(Durability::Relaxed, "journal wal with synchronous normal", false),
        promise(Durability::None, "synchronous off, or normal without wal, with a journal on the disk", false),
        Promise { process_crash: ProcessCrash::Anything, ..promise(Durability::None, "journal memory or off", false) },
    ]
}

/// The promise of these settings.
pub(super) fn promise_of(config: &Config) -> Option<Promise> {
    let on_the_disk = !matches!(config.options.word("journal"), "memory" | "off");
    let is_of = |promise: &Promise| {
        let damages = promise.process_crash == ProcessCrash::Anything;
        promise.class == config.class && damages != on_the_disk
    };
    promises().into_iter().find(is_of)
}

/// The durability class that results from a journal and a `synchronous` (0 to 3).
fn class_of(journal: &str, synchronous: usize) -> Durability {
    match (journal, synchronous) {
        ("wal", 2..) => Durability::Strict,
        ("wal", 1) => Durability::Relaxed,
        ("delete", 3) => Durability::Strict,
        ("delete", 2) => Durability::Bounded,
        ("truncate" | "persist", 2..) => Durability::Strict,
        _ => Durability::None,
    }
}

/// The lowest `synchronous` with which `journal` has a durability class.
fn synchronous_for(class: Durability, journal: &str) -> Option<usize> {
    let start = if class == Durability::None { 0 } else { 1 };
    (start..SYNCHRONOUS.len()).find(|synchronous| class_of(journal, *synchronous) == class)
}

fn chosen(given: &Options, name: &str, words: &[&'static str]) -> Option<usize> {
    words.iter().position(|known| given.is_given(name) && *known == given.word(name))
}

fn journal_and_synchronous(spec: &StoreSpec, given: &Options) -> Result<(&'static str, usize), StoreFault> {
    let class = options::class(spec, &promises())?;
    let journal = chosen(given, "journal", &JOURNALS).map(|at| JOURNALS[at]);
    let asked = chosen(given, "synchronous", &SYNCHRONOUS);
    let usual = if class == Durability::Bounded { "delete" } else { "wal" };
    let journal = journal.unwrap_or(usual);
    let synchronous = asked.or_else(|| synchronous_for(class, journal));
    match synchronous {
        Some(synchronous) => match options::contradiction(spec, class_of(journal, synchronous)) {
            None => Ok((journal, synchronous)),
            Some(fault) => Err(fault),
        },
        // Without a requested class, a journal that cannot be strict gets SQLite's default.
        None if spec.durability.is_none() => Ok((journal, 2)),
        None => Err(StoreFault {
            option: Some("journal".to_owned()),
            message: format!("journal `{journal}` cannot have durability `{}`", class.name()),
            hint: Some("set only one of `journal` and `durability`".to_owned()),
        }),
    }
}

pub(super) fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    let (mut options, mut faults) = options::read(spec, &option_specs());
    let (journal, synchronous) = journal_and_synchronous(spec, &options).unwrap_or_else(|fault| {
        faults.push(fault);
        ("wal", 2)
    });
    let page_size = options.bytes("page_size");
    if !page_size.is_power_of_two() || !(512..=65_536).contains(&page_size) {
        let message = "`page_size` must be a power of two from 512 to 65536".to_owned();
        faults.push(options::out_of_range("page_size", message));
    }
    options.set("journal", journal);
    options.set("synchronous", SYNCHRONOUS[synchronous]);
    if faults.is_empty() { Ok(Config { class: class_of(journal, synchronous), options }) } else { Err(faults) }
}

pub(super) fn is_exclusive(config: &Config) -> bool {
    config.options.word("locking_mode") == "exclusive"
}

/// Whether it has a write-ahead log.
pub(super) fn has_log(config: &Config) -> bool {
    config.options.word("journal") == "wal"
}

/// Whether a table has row identifiers, and an index on its keys. A table without is an index itself, of whose rows more than
/// a quarter of a page goes to a page of its own: SQLite advises it for rows below a twentieth of a page
/// (<https://www.sqlite.org/withoutrowid.html>, "When To Use WITHOUT ROWID").
pub(super) fn has_rowid(Config { options, .. }: &Config, table: &Table) -> bool {
    match options.is_given("rowid") {
        true => options.flag("rowid"),
        false => table.record > options.bytes("page_size") / 20,
    }
}

/// Sets what belongs to a connection, and what a new database gets from its first one.
pub(super) fn apply(Config { options, .. }: &Config, connection: &Connection) -> rusqlite::Result<()> {
    let set = |name: &str, value: &dyn std::fmt::Display| {
        connection.pragma_update_and_check(None, name, value.to_string(), |_| Ok(())).or_else(no_answer)
    };
    if options.is_given("page_size") {
        set("page_size", &options.bytes("page_size"))?;
    }
    set("locking_mode", &options.word("locking_mode"))?;
    set("journal_mode", &options.word("journal"))?;
    set("synchronous", &options.word("synchronous"))?;
    if options.is_given("cache") {
        // A negative number is KiB, a positive one pages.
        set("cache_size", &-i64::try_from(options.bytes("cache").div_ceil(1024)).unwrap_or(i64::MAX))?;
    }
    if options.is_given("mmap") {
        set("mmap_size", &options.bytes("mmap"))?;
    }
    if options.is_given("wal_autocheckpoint") {
        set("wal_autocheckpoint", &options.int("wal_autocheckpoint"))?;
    }
    Ok(())
}

/// Some pragmas return the new value and some do not; neither is an error.
fn no_answer(error: rusqlite::Error) -> rusqlite::Result<()> {
    match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        error => Err(error),
    }
}

/// The settings that SQLite reports for a connection; it does not report which sync call it was built with.
pub(super) fn in_force(connection: &Connection) -> rusqlite::Result<InForce> {
    let text = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, String>(0));
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let journal = text("journal_mode")?;
    let synchronous = usize::try_from(number("synchronous")?).unwrap_or(0);
    let mut compiled = connection.prepare("PRAGMA compile_options")?;
    let compiled: Vec<String> = compiled.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let source: String = connection.query_row("SELECT sqlite_source_id()", [], |row| row.get(0))?;
    let durability = class_of(&journal, synchronous);
    let read_back = named([
        ("journal_mode", journal.into()),
        ("synchronous", SYNCHRONOUS.get(synchronous).map_or_else(|| synchronous.into(), |name| (*name).into())),
        ("cache_size", number("cache_size")?.into()),
        ("mmap_size", number("mmap_size")?.into()),
        ("page_size", number("page_size")?.into()),
        ("wal_autocheckpoint", number("wal_autocheckpoint")?.into()),
        ("locking_mode", text("locking_mode")?.into()),
        ("source_id", source.into()),
        ("compile_options", compiled.into()),
    ]);
    Ok(InForce { durability, read_back, as_set: named([("sync_call", sync_call().into())]) })
}

/// The call behind a sync: decided when SQLite was compiled, and not reported by it.
fn sync_call() -> &'static str {
    match option_env!("LIBSQLITE3_FLAGS") {
        Some(flags) if flags.contains("HAVE_FDATASYNC") || flags.contains("fdatasync=fdatasync") => "fdatasync",
        _ => "fsync",
    }
}

#[cfg(test)]
mod tests {
    use prony_model::spec::OptionValue;

    use super::*;

    fn spec(durability: Option<Durability>, options: &[(&str, &str)]) -> StoreSpec {
        let options = options.iter().map(|(name, word)| ((*name).to_owned(), OptionValue::Text((*word).to_owned())));
        StoreSpec { durability, options: options.collect(), ..StoreSpec::of("sqlite") }
    }

    fn settled(durability: Option<Durability>, options: &[(&str, &str)]) -> (&'static str, &'static str, Durability) {
        let config = configure(&spec(durability, options)).unwrap();
        let word = |name: &str, words: &[&'static str]| {
            *words.iter().find(|word| **word == config.options.word(name)).unwrap()
        };
        (word("journal", &JOURNALS), word("synchronous", &SYNCHRONOUS), config.class)
    }

    #[test]
    fn the_table_of_journals_is_that_of_the_method() {
        use Durability::{Bounded, None, Relaxed, Strict};
        let rows = [
            ("wal", [None, Relaxed, Strict, Strict]),
            ("delete", [None, None, Bounded, Strict]),
            ("truncate", [None, None, Strict, Strict]),
            ("persist", [None, None, Strict, Strict]),
            ("memory", [None; 4]),
            ("off", [None; 4]),
        ];
        for (journal, classes) in rows {
            assert_eq!([0, 1, 2, 3].map(|synchronous| class_of(journal, synchronous)), classes, "{journal}");
        }
    }

    #[test]
    fn a_class_brings_its_settings() {
        use Durability::{Bounded, None, Relaxed, Strict};
        assert_eq!(settled(Option::None, &[]), ("wal", "full", Strict));
        assert_eq!(settled(Some(Strict), &[("journal", "delete")]), ("delete", "extra", Strict));
        assert_eq!(settled(Some(Bounded), &[]), ("delete", "full", Bounded));
        assert_eq!(settled(Some(Relaxed), &[]), ("wal", "normal", Relaxed));
        assert_eq!(settled(Some(None), &[]), ("wal", "off", None));
    }

    #[test]
    fn process_crash_may_damage_what_has_no_journal_on_the_disk() {
        let crash = |durability, options: &[(&str, &str)]| {
            promise_of(&configure(&spec(durability, options)).unwrap()).unwrap().process_crash
        };
        assert_eq!(crash(Some(Durability::None), &[]), ProcessCrash::Keeps);
        assert_eq!(crash(None, &[]), ProcessCrash::Keeps);
        assert_eq!(crash(None, &[("journal", "truncate"), ("synchronous", "off")]), ProcessCrash::Keeps);
        assert_eq!(crash(None, &[("journal", "memory")]), ProcessCrash::Anything);
        assert_eq!(crash(None, &[("journal", "off"), ("synchronous", "off")]), ProcessCrash::Anything);
    }

    #[test]
    fn options_bring_their_class() {
        use Durability::{None, Relaxed, Strict};
        assert_eq!(settled(Option::None, &[("synchronous", "normal")]), ("wal", "normal", Relaxed));
        assert_eq!(settled(Option::None, &[("journal", "delete")]), ("delete", "extra", Strict));
        assert_eq!(settled(Option::None, &[("journal", "off")]), ("off", "full", None));
    }

    #[test]
    fn rowid_table_is_chosen_by_the_size_of_records_unless_the_option_is_given() {
        let has_rowid = |record, options: &[(&str, OptionValue)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let config = configure(&StoreSpec { options, ..StoreSpec::of("sqlite") }).unwrap();
            super::has_rowid(&config, &Table { record, ..Table::default() })
        };
        assert_eq!([0, 116, 204, 205, 1016].map(|record| has_rowid(record, &[])), [false, false, false, true, true]);
        let pages = ("page_size", OptionValue::Int(65_536));
        assert_eq!([1016, 4000].map(|record| has_rowid(record, std::slice::from_ref(&pages))), [false, true]);
        let [with, without] = [true, false].map(|on| [("rowid", OptionValue::Bool(on))]);
        assert!(has_rowid(116, &with) && !has_rowid(1016, &without));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let refused = |durability, options: &[(&str, &str)]| configure(&spec(durability, options)).is_err();
        assert!(refused(Some(Durability::Volatile), &[]));
        assert!(refused(Some(Durability::Strict), &[("synchronous", "normal")]));
        assert!(refused(Some(Durability::Relaxed), &[("journal", "delete")]));
        assert!(refused(Some(Durability::Strict), &[("journal", "memory")]));
        assert!(refused(None, &[("page_size", "5000")]));
    }
}
