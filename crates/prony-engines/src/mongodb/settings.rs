//! What settings of a server amount to.
//!
//! With the write concern `j: true` a write is answered when the journal is on the disk up to it. With `j: false` it is answered
//! before: the journal is written about every 100 ms (`commitIntervalMs`), so that the last writes are lost also where the server
//! itself crashes ("Journaling" in MongoDB's manual). Of a replica set, what only one member has is rolled back when another one
//! becomes the primary ("Rollbacks During Replica Set Failover"): `w: majority` waits for the journals of most members. Of a
//! server that is no member of a set, and of the only member of one, that is its own journal. A server without a journal (`--nojournal`, before version 6.1) keeps
//! what its last checkpoint has, which may be a minute old.

use prony_model::record::effective::{NamedSettings, Promise, Setting};
use prony_model::spec::{Durability, StoreSpec};
use prony_servers::mongodb::bson::{self, Value, Writer};
use prony_servers::mongodb::{Connection, Failure};

use crate::driver::StoreFault;
use crate::options::{self, Config, promise};

/// Facts that are read back: where each is in the answer of the server to a command.
const READ_BACK: [(&str, &str, &[&str]); 9] = [
    ("version", "buildInfo", &["version"]),
    ("allocator", "buildInfo", &["allocator"]),
    ("storage_engine", "serverStatus", &["storageEngine", "name"]),
    ("persistent", "serverStatus", &["storageEngine", "persistent"]),
    ("cache_bytes", "serverStatus", &["wiredTiger", "cache", "maximum bytes configured"]),
    ("journal", "getCmdLineOpts", &["parsed", "storage", "journal", "enabled"]),
    ("journal_interval_ms", "getCmdLineOpts", &["parsed", "storage", "journal", "commitIntervalMs"]),
    ("replica_set", "isMaster", &["setName"]),
    ("takes_writes", "isMaster", &["ismaster"]),
];

pub(super) fn promises() -> Vec<Promise> {
    vec![
        promise(Durability::Strict, "write concern w: majority, j: true", true),
        promise(Durability::Volatile, "write concern w: 1, j: false, on a server with a journal", false),
    ]
}

pub(super) fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    options::configure(spec, &[], &promises(), |options, class, _| {
        options.set("write_concern", if is_strict(class) { "w: majority, j: true" } else { "w: 1, j: false" });
    })
}

const fn is_strict(class: Durability) -> bool {
    matches!(class, Durability::Strict)
}

/// Adds what a write of this class waits for to its command.
#[inline]
pub(super) fn write_concern(class: Durability, command: &mut Writer<'_>) {
    let strict = is_strict(class);
    command.document("writeConcern", |concern| {
        if strict {
            concern.text("w", "majority");
        } else {
            concern.int32("w", 1);
        }
        concern.flag("j", strict);
    });
}

/// What the server reports of itself and of its settings; what it does not report, as far as defaults are concerned, is missing.
///
/// # Errors
/// Where it refuses to.
pub(super) fn read_back(control: &mut Connection) -> Result<NamedSettings, Failure> {
    let mut all = NamedSettings::new();
    for (name, command, path) in READ_BACK {
        let answer = control.ask_admin(|fields| fields.int32(command, 1))?;
        let value = match bson::at(answer, path) {
            Some(Value::Text(text)) => Setting::from(text),
            Some(Value::Bool(flag)) => flag.into(),
            Some(Value::Int(number)) => number.into(),
            Some(Value::Double(number)) => (number as i64).into(),
            _ => continue,
        };
        all.insert(name.to_owned(), value);
    }
    // A server of several parts says so in a message.
    let is_router = bson::text(control.ask_admin(|fields| fields.int32("isMaster", 1))?, "msg") == Some("isdbgrid");
    all.insert("router".to_owned(), is_router.into());
    Ok(all)
}

/// Why a server cannot be measured; `None` where it can.
pub(super) fn unusable(read_back: &NamedSettings) -> Option<String> {
    let is = |name: &str, value: bool| read_back.get(name) == Some(&Setting::Bool(value));
    let what = if is("router", true) {
        "a router of a sharded cluster, which keeps no records (hint: name a server in `url`)"
    } else if is("takes_writes", false) {
        "a secondary, which takes no writes (hint: name the primary in `url`)"
    } else if is("persistent", false) {
        "a server whose storage engine keeps nothing on the disk (hint: start it with `--storageEngine wiredTiger`)"
    } else if is("journal", false) {
        "a server without a journal (hint: start it without `--nojournal`)"
    } else {
        return None;
    };
    Some(what.to_owned())
}

#[cfg(test)]
mod tests {
    use prony_model::record::effective::named;

    use super::*;

    #[test]
    fn servers_that_lose_or_refuse_records_are_refused() {
        let said = |name: &str, value: bool| unusable(&named([(name, value.into())])).unwrap_or_default();
        assert!(said("router", true).contains("router") && said("router", false).is_empty());
        assert!(said("takes_writes", false).contains("primary") && said("takes_writes", true).is_empty());
        assert!(said("persistent", false).contains("disk") && said("persistent", true).is_empty());
        assert!(said("journal", false).contains("journal") && said("journal", true).is_empty());
    }

    #[test]
    fn class_is_that_of_the_write_concern() {
        let of = |durability| {
            let config = configure(&StoreSpec { durability, ..StoreSpec::of("mongodb") }).ok()?;
            Some((config.class, config.options.word("write_concern").to_owned()))
        };
        assert_eq!(of(None), Some((Durability::Strict, "w: majority, j: true".to_owned())));
        assert_eq!(of(Some(Durability::Volatile)), Some((Durability::Volatile, "w: 1, j: false".to_owned())));
        assert_eq!(of(Some(Durability::None)), None);
    }

    /// A write that only the primary had was acknowledged, and rolled back after a failover.
    #[test]
    fn strict_write_waits_for_the_majority_of_a_replica_set() {
        let of = |class| {
            let (mut command, mut json) = (Vec::new(), Vec::new());
            bson::write(&mut command, |command| write_concern(class, command));
            super::super::values::push_json(&command, &mut json).unwrap();
            String::from_utf8(json).unwrap()
        };
        assert_eq!(of(Durability::Strict), r#"{"writeConcern":{"w":"majority","j":true}}"#);
        assert_eq!(of(Durability::Volatile), r#"{"writeConcern":{"w":1,"j":false}}"#);
    }
}
