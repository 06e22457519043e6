//! What engines document about power failures, reproduced: a thread commits one record after another, and images of cuts
//! at moments in between are opened by the engine itself.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use prony_engines::driver::{Driver, Read, Session, Store, Then, Write};
use prony_engines::lmdb::Lmdb;
use prony_model::random::{Stream, mix};
use prony_model::spec::{Durability, OptionValue, StoreSpec};
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_powercut::{MetadataOrder, Policy, Unit};
use rusqlite::Connection;

use crate::mounted::Mount;

const POLICIES: [Policy; 4] = [Policy::None, Policy::Subset, Policy::Torn, Policy::Prefix];

/// A store of numbered records.
pub(crate) trait Engine {
    type Store: Send;

    fn open(&self, directory: &Path) -> Self::Store;

    /// Returns once the commit of record `n` is acknowledged.
    fn commit(&self, store: &mut Self::Store, n: u64);

    /// The number of records, where the store is whole and these are the first ones, with their values.
    fn found(&self, directory: &Path) -> Option<u64>;
}

fn value(n: u64) -> Vec<u8> {
    let mut value = vec![0; 50 + (mix(n) % 3000) as usize];
    Stream::new(n).fill(&mut value);
    value
}

/// How many commits the committing thread may make, and the instants at which those that it has made were acknowledged.
struct Progress {
    allowed: AtomicU64,
    acknowledged: Mutex<Vec<Nanos>>,
}

impl Progress {
    /// The instant is read while nobody else reads the list: none before a cut is missing after it.
    fn acknowledge(&self) {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(monotonic());
    }

    /// How many were acknowledged before an instant.
    fn before(&self, at: Nanos) -> u64 {
        let instants = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        instants.partition_point(|instant| *instant < at) as u64
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

/// Stops the committing thread, also where the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How many records each image lacks, with the policy that made it; -1 where what it has is not whole. The first cuts come after
/// commits whose number is fixed, with nothing under way: the same in each run. The others come while commits go on.
pub(crate) fn losses<E: Engine + Sync>(engine: &E, cuts: u64) -> Option<Vec<(Policy, i64)>> {
    let mut mount = Mount::in_order(MetadataOrder::Ext4)?;
    let directory = mount.path("store");
    std::fs::create_dir(&directory).unwrap();
    // Servers run as other users.
    std::fs::set_permissions(mount.outside(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut store = engine.open(&directory);
    engine.commit(&mut store, 0);
    // Not the creation of the store is tested.
    mount.mounted.sync().unwrap();
    let progress = Progress { allowed: AtomicU64::new(1), acknowledged: Mutex::new(vec![monotonic()]) };
    let stop = AtomicBool::new(false);
    let mut lost = Vec::new();
    thread::scope(|scope| {
        let commits = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let n = progress.acknowledged();
                if n >= progress.allowed.load(Ordering::SeqCst) {
                    thread::yield_now();
                    continue;
                }
                engine.commit(&mut store, n);
                progress.acknowledge();
            }
        });
        let _stop = Stop(&stop);
        let mut stream = Stream::new(5);
        for cut in 0..cuts {
            let next = progress.acknowledged() + 1 + stream.below(20);
            let is_under_way = cut >= cuts / 2;
            progress.allowed.store(if is_under_way { u64::MAX } else { next }, Ordering::SeqCst);
            while progress.acknowledged() < next {
                assert!(!commits.is_finished(), "a commit failed");
                thread::yield_now();
            }
            let (at, report) = mount.cut_at(&POLICIES, Unit::Page, cut);
            let before = progress.before(at) as i64;
            progress.allowed.store(0, Ordering::SeqCst);
            for image in report.images {
                let found = engine.found(&image.path.join("store")).map(|found| (before - found as i64).max(0));
                lost.push((image.policy, found.unwrap_or(-1)));
                std::fs::remove_dir_all(image.path).unwrap();
            }
        }
    });
    Some(lost)
}

/// Checks that no image lost more than `most` nor is broken, and that some lost at least `least`.
fn check<E: Engine + Sync>(engine: &E, least: i64, most: i64) {
    let Some(lost) = losses(engine, 12) else { return };
    assert!(lost.iter().all(|(_, n)| (0..=most).contains(n)), "{lost:?}");
    assert!(lost.iter().any(|(_, n)| *n >= least), "{lost:?}");
}

/// A durability class, and the flags that are set in addition.
struct LmdbOf(Durability, &'static [&'static str]);

impl LmdbOf {
    fn spec(&self) -> StoreSpec {
        StoreSpec {
            engine: "lmdb".to_owned(),
            durability: Some(self.0),
            options: self.1.iter().map(|name| ((*name).to_owned(), OptionValue::Bool(true))).collect(),
            indexes: vec![],
            url: None,
        }
    }
}

impl Engine for LmdbOf {
    type Store = <Lmdb as Driver>::Store;

    fn open(&self, directory: &Path) -> Self::Store {
        Lmdb::open(directory, &self.spec()).unwrap()
    }

    fn commit(&self, store: &mut Self::Store, n: u64) {
        let mut session = store.session().unwrap();
        let mut write = session.write().unwrap();
        write.put(&n.to_be_bytes(), &value(n)).unwrap();
        write.commit().unwrap();
    }

    fn found(&self, directory: &Path) -> Option<u64> {
        let store = Lmdb::open(directory, &self.spec()).ok()?;
        let mut session = store.session().ok()?;
        let mut read = session.read().ok()?;
        let (mut count, mut whole) = (0_u64, true);
        read.scan(&[0], |key, data| {
            whole &= key == count.to_be_bytes() && data == value(count);
            count += 1;
            Then::Continue(())
        })
        .ok()?;
        whole.then_some(count)
    }
}

#[test]
fn lmdb_with_full_sync_loses_nothing() {
    check(&LmdbOf(Durability::Strict, &[]), 0, 0);
}

#[test]
fn lmdb_without_sync_of_the_meta_page_loses_at_most_the_last_commit() {
    check(&LmdbOf(Durability::Bounded, &[]), 1, 1);
}

/// Opens images in processes of their own: the map of a store that is corrupt may end the process that reads it.
struct LmdbWithoutSync(LmdbOf);

/// The image for `counts_the_records_of_an_image`.
const IMAGE: &str = "PRONY_POWERCUT_IMAGE";

impl Engine for LmdbWithoutSync {
    type Store = <Lmdb as Driver>::Store;

    fn open(&self, directory: &Path) -> Self::Store {
        self.0.open(directory)
    }

    fn commit(&self, store: &mut Self::Store, n: u64) {
        self.0.commit(store, n);
    }

    fn found(&self, directory: &Path) -> Option<u64> {
        let mut checker = std::process::Command::new(std::env::current_exe().unwrap());
        checker.args(["--exact", "--ignored", "--nocapture", "engines::counts_the_records_of_an_image"]);
        let output = checker.env(IMAGE, directory).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find_map(|line| line.rsplit_once("found: ")?.1.parse().ok())
    }
}

#[test]
#[ignore = "a part of another test"]
fn counts_the_records_of_an_image() {
    let Some(image) = std::env::var_os(IMAGE) else { return };
    if let Some(found) = LmdbOf(Durability::None, &[]).found(Path::new(&image)) {
        println!("found: {found}");
    }
}

#[test]
fn lmdb_without_sync_loses_commits_and_can_be_corrupted() {
    // Through its map it writes pages that the kernel would send much later.
    for flags in [&[][..], &["write_map", "map_async"]] {
        let Some(lost) = losses(&LmdbWithoutSync(LmdbOf(Durability::None, flags)), 12) else { return };
        assert!(lost.iter().any(|(_, n)| *n > 0) && lost.iter().any(|(_, n)| *n < 0), "{flags:?}: {lost:?}");
    }
}

struct Sqlite {
    journal: &'static str,
    synchronous: &'static str,
}

impl Engine for Sqlite {
    type Store = Connection;

    fn open(&self, directory: &Path) -> Connection {
        let connection = Connection::open(directory.join("db")).unwrap();
        let settings = format!("PRAGMA journal_mode = {}; PRAGMA synchronous = {};", self.journal, self.synchronous);
        connection.execute_batch(&settings).unwrap();
        connection.execute_batch("CREATE TABLE records (n INTEGER PRIMARY KEY, value BLOB NOT NULL)").unwrap();
        connection
    }

    fn commit(&self, connection: &mut Connection, n: u64) {
        connection.execute("INSERT INTO records VALUES (?1, ?2)", (n as i64, value(n))).unwrap();
    }

    fn found(&self, directory: &Path) -> Option<u64> {
        let connection = Connection::open(directory.join("db")).ok()?;
        let check: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).ok()?;
        let mut rows = connection.prepare("SELECT n, value FROM records ORDER BY n").ok()?;
        let rows = rows.query_map((), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))).ok()?;
        let rows: Vec<(i64, Vec<u8>)> = rows.collect::<Result<_, _>>().ok()?;
        let whole = rows.iter().zip(0..).all(|((n, data), at)| *n == at && *data == value(at as u64));
        (check == "ok" && whole).then_some(rows.len() as u64)
    }
}

#[test]
fn sqlite_with_a_rollback_journal_loses_at_most_the_last_commit_by_full_sync() {
    check(&Sqlite { journal: "DELETE", synchronous: "FULL" }, 1, 1);
}

#[test]
fn sqlite_with_a_rollback_journal_loses_nothing_by_extra_sync() {
    check(&Sqlite { journal: "DELETE", synchronous: "EXTRA" }, 0, 0);
}

#[test]
fn sqlite_with_a_write_ahead_log_loses_nothing_by_full_sync() {
    check(&Sqlite { journal: "WAL", synchronous: "FULL" }, 0, 0);
}

#[test]
fn sqlite_with_a_write_ahead_log_loses_a_tail_by_normal_sync() {
    check(&Sqlite { journal: "WAL", synchronous: "NORMAL" }, 2, i64::MAX);
}

#[test]
fn sqlite_without_sync_is_found_broken_or_short() {
    let Some(lost) = losses(&Sqlite { journal: "DELETE", synchronous: "OFF" }, 12) else { return };
    assert!(lost.iter().any(|(_, n)| *n != 0), "{lost:?}");
}
