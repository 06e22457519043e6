//! Options of the PostgreSQL driver, and what settings of the server amount to.
//!
//! With `synchronous_commit = on` a commit is answered when its record is on the disk. With `off` it is answered before: the
//! last commits are lost also where the server itself crashes ("asynchronous commit" in the documentation, 30.4), and those that
//! survive are a prefix of the commit order. With `fsync = off`, or pages that are not written whole to the log
//! (`full_page_writes = off`), a power failure may damage the database ("write ahead log" in its chapter 20.5).

use prony_model::record::effective::{NamedSettings, Promise};
use prony_model::spec::{Durability, StoreSpec};

use super::ENGINE;
use crate::driver::{EngineError, OptionSpec, StoreFault};
use crate::failure::unsupported;
use crate::options::{self, Config, one_of, option, promise};
use crate::server::text;

/// Settings that are read back.
pub(super) const READ_BACK: [&str; 18] = [
    "server_version",
    "server_encoding",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "wal_sync_method",
    "wal_level",
    "wal_compression",
    "wal_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "commit_delay",
    "shared_buffers",
    "work_mem",
    "block_size",
    "data_checksums",
    "autovacuum",
];

/// Isolation levels: the word in files, which is that of SQL.
const LEVELS: [&str; 3] = ["repeatable read", "serializable", "read committed"];

pub(super) fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Strict, "fsync = on, full_page_writes = on, synchronous_commit = on", true),
        promise(Durability::Volatile, "fsync = on, full_page_writes = on, synchronous_commit = off", false),
        promise(Durability::None, "the server runs with fsync = off or full_page_writes = off", false),
    ]
}

pub(super) fn option_specs() -> Vec<OptionSpec> {
    let doc = "Isolation level of transactions. `read committed`, the default of PostgreSQL, gives no snapshot: a transaction that \
               reads several records may see commits between them, and updates of records that it has read may be lost. At \
               `repeatable read`, a transaction that only writes, of at most 256 KiB, is at `read committed`, since it depends \
               on nothing that it has read.";
    vec![option("isolation", one_of(&LEVELS), LEVELS[0], doc)]
}

pub(super) fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &option_specs(), &promises(), |_, _, _| ())
}

/// The isolation levels as in SQL, of transactions that read and of single statements and transactions that only write. At
/// `repeatable read` these would fail where another transaction has changed the same record, although they depend on nothing
/// that they have read: at `read committed` they wait for it.
pub(super) fn isolation(config: &Config) -> (String, String) {
    let level = config.options.word("isolation");
    let implicit = if level == LEVELS[0] { LEVELS[2] } else { level };
    (level.to_uppercase(), implicit.to_uppercase())
}

/// Whether a read transaction sees one consistent state.
pub(super) fn has_snapshots(config: &Config) -> bool {
    config.options.word("isolation") != LEVELS[2]
}

/// Whether the end of a read transaction may be refused.
pub(super) fn may_be_refused(config: &Config) -> bool {
    config.options.word("isolation") == LEVELS[1]
}

/// What a session sets for a class.
pub(super) const fn synchronous_commit(class: Durability) -> &'static str {
    if matches!(class, Durability::Volatile) { "off" } else { "on" }
}

/// Whether the order of texts by their bytes (`COLLATE "C"`) is that of their characters: the server compares them in the database's
/// encoding.
pub(super) fn compares_texts_by_bytes(read_back: &NamedSettings) -> Result<(), EngineError> {
    match text(read_back, "server_encoding") {
        Some(encoding) if !matches!(encoding, "UTF8" | "SQL_ASCII") => {
            let what = format!(
                "JSON documents in a database whose encoding is {encoding} (hint: use one with `ENCODING UTF8`)"
            );
            Err(unsupported(ENGINE, what))
        }
        _ => Ok(()),
    }
}

/// The class of what the server reports; `None` where it reports something else than it documents.
pub(super) fn class(read_back: &NamedSettings) -> Option<Durability> {
    let text = |name: &str| text(read_back, name);
    Some(match (text("fsync")?, text("full_page_writes")?, text("synchronous_commit")?) {
        ("on", "on", "off") => Durability::Volatile,
        ("on", "on", "on" | "local" | "remote_write" | "remote_apply") => Durability::Strict,
        ("off", _, _) | (_, "off", _) => Durability::None,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_need_an_encoding_in_the_order_of_characters() {
        let of = |encoding: &str| compares_texts_by_bytes(&[("server_encoding".to_owned(), encoding.into())].into());
        assert!(of("UTF8").is_ok() && of("SQL_ASCII").is_ok() && of("WIN1252").is_err());
    }

    #[test]
    fn class_follows_from_what_the_server_reports() {
        let of = |fsync: &str, pages: &str, commit: &str| {
            let all = [("fsync", fsync), ("full_page_writes", pages), ("synchronous_commit", commit)];
            class(&all.map(|(name, value)| (name.to_owned(), value.into())).into())
        };
        assert_eq!(of("on", "on", "on"), Some(Durability::Strict));
        assert_eq!(of("on", "on", "remote_apply"), Some(Durability::Strict), "without standbys it is `on`");
        assert_eq!(of("on", "on", "off"), Some(Durability::Volatile));
        assert_eq!(of("off", "on", "on"), Some(Durability::None));
        assert_eq!(of("on", "off", "off"), Some(Durability::None));
        assert_eq!(of("on", "on", "maybe"), None);
        assert_eq!(class(&NamedSettings::new()), None);
    }
}
