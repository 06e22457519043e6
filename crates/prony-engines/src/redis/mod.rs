//! The driver of Redis and Valkey: a server, at the URL of the store.
//!
//! A record is a key with a string, in a database that has no other keys than those of prony ([`database`]). Every session is a
//! connection of its own. The writes of a transaction are one round trip with its commit ([`transaction`]). The server carries
//! none of them out before, so that there are no reads of own writes here. A read transaction is a command for each read,
//! without a snapshot.
//! Keys have no order: there are no scans. (A sorted set of the keys beside the records would have one, at the price of another
//! write for each and more memory than small records take.)
//!
//! [`settings`] has the options and what settings of the server amount to.

mod database;
mod settings;
mod transaction;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_model::record::effective::NamedSettings;
use prony_model::spec::{Durability, StoreSpec};
use prony_servers::redis::{Address, Connection, Failure, Reply};

pub use self::transaction::RedisWrite;
use crate::driver::{
    Capabilities, Description, Driver, EngineError, InForce, Read, Session, Settings, Store, StoreFault, Table, Then,
};
use crate::failure::{disk_full, failed, refused, unsupported};
use crate::options::Config;
use crate::server;

const ENGINE: &str = "redis";

/// In the trial's directory: which database has its store.
const MARKER: &str = "redis-database";

/// The longest key and value, by the server's default (`proto-max-bulk-len`).
const LONGEST: u64 = 512 << 20;

/// How long a snapshot of the server's own may take while another one is asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Redis, and Valkey.
pub struct Redis;

/// A database of a server.
pub struct RedisStore {
    address: Address,
    config: Config,
    in_force: InForce,
    control: Mutex<Connection>,
    /// The file that says which database has the trial's store.
    marker: PathBuf,
    /// What its key says since it was opened.
    mark: String,
}

/// A connection.
pub struct RedisSession {
    connection: Connection,
}

/// Reads of the present state.
pub struct RedisRead<'t> {
    connection: &'t mut Connection,
}

impl Driver for Redis {
    type Store = RedisStore;

    fn describe() -> Description {
        Description {
            name: ENGINE.to_owned(),
            version: "a server of Redis 6.2 or newer, or Valkey, by version 2 of their protocol".to_owned(),
            library: format!("prony-servers {}", env!("CARGO_PKG_VERSION")),
            capabilities: Capabilities {
                batches: true,
                persistent: true,
                in_memory: true,
                concurrent_writers: true,
                collects_writes: true,
                server: true,
                max_key: Some(LONGEST),
                ..Capabilities::default()
            },
            promises: settings::promises(),
            options: settings::option_specs(),
            idiom: "one string for each record, by SET, GET and DEL; a connection per session; the writes of a transaction are sent \
                    together in one round trip: several puts as MSET, several removals as one DEL, both of them or more than \
                    256 KiB between MULTI and EXEC; each read is one round trip"
                .to_owned(),
        }
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        server::check(spec, settings::configure(spec), address, "redis://HOST:PORT/DATABASE")
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<RedisStore, EngineError> {
        let config = settings::configure(spec).map_err(|faults| refused(ENGINE, &faults))?;
        let address = server::address(ENGINE, spec, address)?;
        let control = Connection::open(&address, None).map_err(while_("opening the store"))?;
        let (in_force, marker) = (config.in_force(NamedSettings::new()), dir.join(MARKER));
        Ok(RedisStore { address, config, in_force, marker, mark: String::new(), control: Mutex::new(control) })
    }
}

fn address(url: &str) -> Result<Address, &'static str> {
    if !url.contains("://") {
        return Err("the URL does not begin with `redis://`");
    }
    Address::parse(url)
}

/// Errors of the connection and of the server as ours.
fn while_(doing: &'static str) -> impl Fn(Failure) -> EngineError {
    move |failure| match &failure {
        Failure::Server(text) if text.starts_with("OOM ") => EngineError::OutOfMemory { engine: ENGINE, doing },
        // The text of the system's error is behind that.
        Failure::Server(text) if text.starts_with("MISCONF ") && text.contains("No space left") => {
            disk_full(ENGINE, doing, failure)
        }
        _ => failed(ENGINE, doing, failure),
    }
}

impl RedisStore {
    fn control(&self) -> MutexGuard<'_, Connection> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a snapshot, once one that the server is writing is complete.
    fn save(&self) -> Result<(), EngineError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.control().ask(&[b"SAVE"]) {
                Err(Failure::Server(text)) if text.contains("save already in progress") && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                saved => return saved.map(drop).map_err(while_("writing a snapshot")),
            }
        }
    }

    /// Waits for the sync of the append-only file that the server makes about once a second.
    fn await_sync(&self) -> Result<(), EngineError> {
        let mut control = self.control();
        let waiting = while_("waiting for the sync of the append-only file");
        // What is waited for is the last write of this connection, which is after all others.
        control.ask(&[b"SET", database::KEY, self.mark.as_bytes()]).map_err(&waiting)?;
        match control.ask(&[b"WAITAOF", b"1", b"0", b"0"]) {
            Err(Failure::Server(text)) if text.contains("unknown command") => {
                let what = "`persist` here: the server has no `WAITAOF`, which came with Redis 7.2";
                Err(unsupported(ENGINE, what))
            }
            waited => waited.map(drop).map_err(waiting),
        }
    }
}

impl Store for RedisStore {
    type Session<'s> = RedisSession;

    fn session(&self) -> Result<RedisSession, EngineError> {
        let connection = Connection::open(&self.address, None).map_err(while_("opening a session"))?;
        Ok(RedisSession { connection })
    }

    fn set_up_tables(&mut self, _: &[Table], _: bool) -> Result<(), EngineError> {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (read_back, run) = settings::read_back(control).map_err(while_("reading the server's settings"))?;
        if let Some(what) = settings::unusable(&read_back).or_else(|| settings::misfit(&self.config, &read_back)) {
            return Err(unsupported(ENGINE, what));
        }
        self.mark = database::claim(control, (self.address.database, &run), &self.marker)?;
        self.in_force.read_back = read_back;
        Ok(())
    }

    fn version(&self) -> Option<String> {
        Some(settings::version(&self.in_force.read_back))
    }

    fn in_force(&self) -> Result<InForce, EngineError> {
        Ok(self.in_force.clone())
    }

    fn persist(&self) -> Result<(), EngineError> {
        match (self.config.class, self.config.options.word("appendfsync")) {
            // What was answered is on the disk.
            (Durability::Strict, _) => Ok(()),
            (Durability::Volatile, _) => self.save(),
            (_, "everysec") => self.await_sync(),
            _ => {
                let what = "`persist` on a server that leaves syncs to the kernel (`appendfsync no`)";
                Err(unsupported(ENGINE, what))
            }
        }
    }

    fn confirm(&self) -> Result<(), EngineError> {
        // That the server has ended the other connection says nothing of the database.
        let mut connection = Connection::open(&self.address, None).map_err(while_("looking for the store"))?;
        database::verify(&mut connection, self.address.database, &self.mark)
    }
}

impl Session for RedisSession {
    type Read<'t> = RedisRead<'t>;
    type Write<'t> = RedisWrite<'t>;

    fn read(&mut self) -> Result<RedisRead<'_>, EngineError> {
        Ok(RedisRead { connection: &mut self.connection })
    }

    fn write(&mut self) -> Result<RedisWrite<'_>, EngineError> {
        Ok(RedisWrite::begin(&mut self.connection))
    }
}

impl Read for RedisRead<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
        let doing = while_("reading a value");
        self.connection.add(&[b"GET", key]);
        self.connection.send().map_err(&doing)?;
        match self.connection.reply().map_err(doing)? {
            Reply::Bulk(Some(value)) => {
                found(self.connection.bytes(value));
                Ok(true)
            }
            Reply::Bulk(None) => Ok(false),
            _ => Err(unexpected("reading a value")),
        }
    }

    fn scan(&mut self, _: &[u8], _: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        Err(unsupported(ENGINE, "scans: its keys have no order"))
    }
}

fn unexpected(doing: &'static str) -> EngineError {
    failed(ENGINE, doing, "the server answered something else than was asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_needs_its_scheme() {
        let fault = |url: &str| {
            let spec = StoreSpec { url: Some(url.to_owned()), ..StoreSpec::of(ENGINE) };
            Redis::check(&spec).err().map(|faults| (faults[0].option.clone(), faults.len()))
        };
        assert_eq!(fault("redis://127.0.0.1:6379/1"), None);
        assert_eq!(fault("127.0.0.1:6379"), Some((Some("url".to_owned()), 1)));
        assert_eq!(fault("redis://127.0.0.1:6379/x"), Some((Some("url".to_owned()), 1)));
    }

    #[test]
    fn lack_of_memory_and_of_space_are_errors_of_their_own() {
        let of = |text: &str| while_("storing a value")(Failure::Server(text.to_owned()));
        assert!(matches!(
            of("OOM command not allowed when used memory > 'maxmemory'."),
            EngineError::OutOfMemory { .. }
        ));
        let full = "MISCONF Errors writing to the AOF file: No space left on device";
        assert!(matches!(of(full), EngineError::DiskFull { .. }));
        assert!(matches!(of("ERR other"), EngineError::Engine { .. }));
    }
}
