//! What settings of a server amount to.
//!
//! With an append-only file, a command is written to it before it is answered, and with `appendfsync always` it is also synced
//! before (`flushAppendOnlyFile`, which is called before answers are sent). With `everysec` a thread syncs about once a second;
//! while it does, writes wait for up to two seconds, but not their answers.
//!
//! The file has no checksums. After a power failure its unsynced end may have pages of zeros: the server does not start before
//! `redis-check-aof --fix` has truncated it there, and a page inside a value is not noticed at all. Simulated power failures
//! show both (`prony-powercut/tests/it/redis.rs`). With `always` that end is the command under way, which was not answered;
//! otherwise it is all of the commands since the last sync. Without the file, what is on the disk is a snapshot: a file with
//! a checksum, which is synced and then takes the place of the one before.

use prony_model::record::effective::{NamedSettings, PowerCut, ProcessCrash, Promise};
use prony_model::spec::{Durability, OptionValue, StoreSpec};
use prony_servers::redis::{Connection, Failure, Value};

use crate::driver::{OptionSpec, StoreFault};
use crate::options::{self, Config, contradiction, one_of, option, promise};
use crate::server::{self, text};

/// Settings of the server that are read back.
const READ_BACK: [&str; 15] = [
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "auto-aof-rewrite-percentage",
    "auto-aof-rewrite-min-size",
    "aof-use-rdb-preamble",
    "save",
    "rdbcompression",
    "maxmemory",
    "maxmemory-policy",
    "io-threads",
    "activedefrag",
    "hz",
    "timeout",
    "lazyfree-lazy-user-del",
];

/// Facts of `INFO` that are read back.
const FACTS: [&str; 7] =
    ["redis_version", "server_name", "valkey_version", "redis_mode", "cluster_enabled", "role", "mem_allocator"];

const APPENDFSYNC: &str = "appendfsync";

/// Its values, the strongest first.
const WORDS: [&str; 3] = ["always", "everysec", "no"];

pub(super) fn promises() -> Vec<Promise> {
    vec![
        Promise {
            // What was under way may leave an end that is damaged.
            integrity: false,
            ..promise(Durability::Strict, "appendonly yes, appendfsync always, no-appendfsync-on-rewrite no", false)
        },
        promise(Durability::Volatile, "appendonly no: snapshots (`save` of the server, and `persist`)", true),
        Promise {
            // With `everysec`; with `no` a crash of the server loses nothing.
            process_crash: ProcessCrash::LosesTail,
            power_cut: PowerCut::Tail,
            ..promise(Durability::None, "appendonly yes, appendfsync everysec; or no, by the option", false)
        },
    ]
}

pub(super) fn option_specs() -> Vec<OptionSpec> {
    let doc = "When the server has to sync its append-only file, which it then has to have: `always` is durability `strict`, \
               `everysec` and `no` are `none`. The driver changes no setting of the server: one that has another is refused.";
    vec![option(APPENDFSYNC, one_of(&WORDS), "set by the class", doc)]
}

/// The class of a value.
fn class_of(appendfsync: &str) -> Durability {
    if appendfsync == WORDS[0] { Durability::Strict } else { Durability::None }
}

pub(super) fn configure(spec: &StoreSpec) -> Result<Config, Vec<StoreFault>> {
    let given = match spec.options.get(APPENDFSYNC) {
        Some(OptionValue::Text(word)) if WORDS.contains(&word.as_str()) => Some(word.as_str()),
        _ => None,
    };
    let amounts_to = given.map(class_of);
    let asked = StoreSpec { durability: spec.durability.or(amounts_to), ..spec.clone() };
    options::configure(&asked, &option_specs(), &promises(), |options, class, faults| {
        faults.extend(amounts_to.and_then(|amounts_to| contradiction(spec, amounts_to)));
        let (appendonly, appendfsync) = match class {
            Durability::Strict => ("yes", WORDS[0]),
            Durability::Volatile => ("no", "not used"),
            _ => ("yes", given.unwrap_or(WORDS[1])),
        };
        options.set("appendonly", appendonly);
        options.set(APPENDFSYNC, appendfsync);
    })
}

/// What the server reports of itself and of its settings, and the id of its process.
///
/// # Errors
/// Where it refuses to.
pub(super) fn read_back(control: &mut Connection) -> Result<(NamedSettings, String), Failure> {
    let mut all = NamedSettings::new();
    for name in READ_BACK {
        // Not every version has all of them.
        if let Value::List(pair) = control.ask(&[b"CONFIG", b"GET", name.as_bytes()])? {
            let value = pair.into_iter().nth(1).and_then(Value::text);
            all.extend(value.map(|value| (name.to_owned(), value.into())));
        }
    }
    let info = control.ask(&[b"INFO"])?.text().unwrap_or_default();
    let facts = || info.lines().filter_map(|line| line.trim_end().split_once(':'));
    let named = facts().filter(|(name, _)| FACTS.contains(name));
    all.extend(named.map(|(name, value)| (name.to_owned(), value.into())));
    let run = facts().find(|(name, _)| *name == "run_id").map_or("", |(_, run)| run).to_owned();
    Ok((all, run))
}

/// The version: of Valkey its own, not that of the Redis with which it is compatible.
pub(super) fn version(read_back: &NamedSettings) -> String {
    match (text(read_back, "valkey_version"), text(read_back, "redis_version")) {
        (Some(version), _) => format!("{version} (Valkey)"),
        (None, version) => version.unwrap_or_default().to_owned(),
    }
}

/// The class of what the server reports, and the value of `appendfsync` in use; `None` where it reports something else than it
/// documents.
fn found(read_back: &NamedSettings) -> Option<(Durability, Option<&str>)> {
    let text = |name: &str| text(read_back, name);
    Some(match (text("appendonly")?, text(APPENDFSYNC)?, text("no-appendfsync-on-rewrite")?) {
        ("no", _, _) => (Durability::Volatile, None),
        ("yes", word @ "always", "no") => (Durability::Strict, Some(word)),
        // While a child rewrites the file or writes a snapshot, nothing is synced.
        ("yes", "always", "yes") => (Durability::None, Some("always, but not during rewrites")),
        ("yes", word @ ("everysec" | "no"), _) => (Durability::None, Some(word)),
        _ => return None,
    })
}

/// What of the server's settings is not what `config` requires, with what to do; `None` where all is.
pub(super) fn misfit(config: &Config, read_back: &NamedSettings) -> Option<String> {
    let fits = |(class, word): (Durability, Option<&str>)| {
        class == config.class && word.is_none_or(|word| word == config.options.word(APPENDFSYNC))
    };
    if found(read_back).is_some_and(fits) {
        return None;
    }
    let advice = match config.class {
        Durability::Volatile => "start it with `--appendonly no`".to_owned(),
        _ => format!(
            "start it with `--appendonly yes --appendfsync {} --no-appendfsync-on-rewrite no`",
            config.options.word(APPENDFSYNC)
        ),
    };
    Some(server::misfit(config, read_back, ["appendonly", APPENDFSYNC, "no-appendfsync-on-rewrite"], &advice))
}

/// Why a server cannot be measured, whatever its durability; `None` where it can.
pub(super) fn unusable(read_back: &NamedSettings) -> Option<String> {
    let text = |name: &str| text(read_back, name);
    if text("cluster_enabled") == Some("1") || text("redis_mode").is_some_and(|mode| mode != "standalone") {
        return Some("a server of a cluster, which has a part of the keys (hint: use a server of its own)".to_owned());
    }
    if text("role").is_some_and(|role| role != "master") {
        return Some("a replica, which takes no writes (hint: name its master in `url`)".to_owned());
    }
    // The connection that shows others whose database this is may have nothing to do for long.
    if let Some(timeout) = text("timeout").filter(|timeout| *timeout != "0") {
        return Some(format!(
            "a server that closes idle connections: it has timeout = {timeout} (hint: start it with `--timeout 0`)"
        ));
    }
    // With `volatile-...` only keys with an expiry are removed, and no record has one.
    let evicts = text("maxmemory-policy").filter(|policy| policy.starts_with("allkeys"));
    let policy = evicts.filter(|_| text("maxmemory").is_some_and(|most| most != "0"))?;
    Some(format!(
        "a server that removes records when its memory is full: it has maxmemory-policy = {policy} (hint: start it with \
         `--maxmemory-policy noeviction`)"
    ))
}

#[cfg(test)]
mod tests {
    use prony_model::record::effective::{Setting, named};

    use super::*;

    fn spec(durability: Option<Durability>, appendfsync: Option<&str>) -> StoreSpec {
        let options = appendfsync.map(|word| (APPENDFSYNC.to_owned(), OptionValue::Text(word.to_owned())));
        StoreSpec { durability, options: options.into_iter().collect(), ..StoreSpec::of("redis") }
    }

    fn server(appendonly: &str, appendfsync: &str, not_on_rewrite: &str) -> NamedSettings {
        named([
            ("appendonly", appendonly.into()),
            (APPENDFSYNC, appendfsync.into()),
            ("no-appendfsync-on-rewrite", not_on_rewrite.into()),
        ])
    }

    #[test]
    fn class_follows_from_the_option_and_contradicts_no_other() {
        use Durability::{None as Nothing, Strict, Volatile};
        for (durability, appendfsync, class) in [
            (None, None, Some(Volatile)),
            (None, Some("always"), Some(Strict)),
            (None, Some("everysec"), Some(Nothing)),
            (Some(Nothing), Some("no"), Some(Nothing)),
            (Some(Strict), Some("always"), Some(Strict)),
            (Some(Strict), Some("no"), None),
            (Some(Volatile), Some("everysec"), None),
            (Some(Durability::Relaxed), None, None),
            (None, Some("sometimes"), None),
        ] {
            let found = configure(&spec(durability, appendfsync)).ok().map(|config| config.class);
            assert_eq!(found, class, "{durability:?} {appendfsync:?}");
        }
    }

    #[test]
    fn server_that_does_not_have_what_is_required_is_named_with_what_to_do() {
        use Durability::{None as Nothing, Strict, Volatile};
        for (durability, appendfsync, server, part) in [
            (Strict, None, server("yes", "always", "no"), None),
            (Strict, None, server("yes", "always", "yes"), Some("no-appendfsync-on-rewrite = yes")),
            (Strict, None, server("no", "always", "no"), Some("`--appendonly yes --appendfsync always")),
            (Nothing, None, server("yes", "everysec", "yes"), None),
            (Nothing, None, server("yes", "no", "no"), Some("appendfsync = no")),
            (Nothing, Some("no"), server("yes", "no", "no"), None),
            (Nothing, None, server("no", "everysec", "no"), Some("appendonly = no")),
            (Volatile, None, server("no", "everysec", "no"), None),
            (Volatile, None, server("yes", "everysec", "no"), Some("`--appendonly no`")),
            (Volatile, None, NamedSettings::new(), Some("appendonly is not known")),
        ] {
            let config = configure(&spec(Some(durability), appendfsync)).unwrap();
            let said = misfit(&config, &server);
            assert_eq!(said.is_some(), part.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().contains(part.unwrap_or_default()), "{part:?}");
        }
    }

    #[test]
    fn servers_that_lose_or_refuse_records_are_refused() {
        let usable = |name: &str, value: &str, more: &str| {
            unusable(&named([(name, value.into()), ("maxmemory", more.into())])).is_none()
        };
        assert!(usable("role", "master", "0") && !usable("role", "slave", "0"));
        assert!(usable("timeout", "0", "0") && !usable("timeout", "60", "0"));
        assert!(usable("redis_mode", "standalone", "0") && !usable("redis_mode", "cluster", "0"));
        assert!(usable("maxmemory-policy", "noeviction", "1") && usable("maxmemory-policy", "allkeys-lru", "0"));
        assert!(!usable("maxmemory-policy", "allkeys-lru", "1") && usable("maxmemory-policy", "volatile-lru", "1"));
    }

    #[test]
    fn version_is_that_of_the_server_itself() {
        let redis = ("redis_version", Setting::from("7.2.4"));
        assert_eq!(version(&named([redis.clone()])), "7.2.4");
        assert_eq!(version(&named([redis, ("valkey_version", "8.0.1".into())])), "8.0.1 (Valkey)");
    }
}
