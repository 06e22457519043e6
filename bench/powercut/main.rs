//! Measures what the file system of `prony powercut` costs.
//!
//! `cargo bench -p prony-powercut --bench powercut -- rates` runs each workload on tmpfs and on the file system (its state
//! directory on tmpfs), in turn in one process, 15 rounds after one that does not count; another argument chooses the workloads
//! whose names contain it. It prints the median of the ratios of rates within a round, and the 4th and 12th of the 15: an interval that contains the true
//! median with a probability of 96.5 %, whatever the distribution. `-- sync` does the same with commits that are synced, also on
//! the disk of the working directory, in microseconds per commit. `-- cuts` saves 30 cuts of a store of 100 MB, makes 10
//! images of each on that disk, and lets the engine open and check each; a store of LMDB and one of SQLite.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark speaks")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_engines::driver::{Driver, Read, Session, Store, Then, Write};
use prony_engines::lmdb::Lmdb;
use prony_model::spec::{Durability, StoreSpec};
use prony_model::units::Fraction;
use prony_powercut::{CutSettings, Mounted, Policy, Settings, Unit};
use rusqlite::Connection;

const ROUNDS: usize = 15;
const INTERVAL: [usize; 2] = [3, 11];

type Failure = Box<dyn std::error::Error>;

/// A name, the number of commits, and what is timed.
type Workload = (&'static str, u64, fn(&Path, u64) -> Result<(), Failure>);

const WITHOUT_SYNC: [Workload; 6] = [
    ("writes of 4 KiB", 20_000, write_pages),
    ("rename over a file whose pages of 4 KiB were all overwritten", 20_000, rename_over),
    ("SQLite, WAL, no sync, 100 rows per transaction", 200, |path, n| sqlite(path, "OFF", n, 100)),
    ("SQLite, WAL, no sync, 1 row per transaction", 4000, |path, n| sqlite(path, "OFF", n, 1)),
    ("LMDB, no sync, 100 puts per transaction", 200, |path, n| lmdb(path, Durability::None, n, 100)),
    ("LMDB, no sync, 1 put per transaction", 4000, |path, n| lmdb(path, Durability::None, n, 1)),
];

const WITH_SYNC: [Workload; 2] = [
    ("SQLite, WAL, FULL, 1 row per transaction", 300, |path, n| sqlite(path, "FULL", n, 1)),
    ("LMDB, synced, 1 put per transaction", 300, |path, n| lmdb(path, Durability::Strict, n, 1)),
];

const CUTS: u64 = 30;
const IMAGES: u32 = 10;

fn main() -> Result<(), Failure> {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|argument| argument == name);
    if is_chosen("rates") {
        rates(&chosen)?;
    }
    if is_chosen("sync") {
        sync()?;
    }
    if is_chosen("cuts") {
        cuts("LMDB", |path| Ok(Box::new(LmdbStore::open(path)?)))?;
        cuts("SQLite", |path| Ok(Box::new(SqliteStore::open(path)?)))?;
    }
    Ok(())
}

fn mount(top: &Path) -> Result<Mounted, Failure> {
    let [point, state] = ["point", "state"].map(|name| top.join(name));
    fs::create_dir(&point)?;
    let program = Path::new(env!("CARGO_BIN_EXE_prony-powercut-server"));
    Ok(Mounted::start(program, &point, &state, &Settings::default())?)
}

fn rates(chosen: &[String]) -> Result<(), Failure> {
    let top = tempfile::tempdir_in("/dev/shm")?;
    let mounts = vec![mount(top.path())?];
    let places = [top.path().join("plain"), mounts[0].point().to_path_buf()];
    fs::create_dir(&places[0])?;
    let is_chosen = |name: &str| chosen.iter().skip(1).all(|part| name.contains(part.as_str()));
    for (name, commits, workload) in WITHOUT_SYNC.into_iter().filter(|(name, ..)| is_chosen(name)) {
        let times = rounds(&places, &mounts, |path| workload(path, commits))?;
        let (median, low, high) = summary(times.iter().map(|times| times[0] / times[1]));
        println!("{name}: {median:.3} times the rate on tmpfs ({low:.3} to {high:.3})");
    }
    mounts.into_iter().try_for_each(|mounted| mounted.unmount().map_err(Into::into))
}

fn sync() -> Result<(), Failure> {
    let (memory, disk) = (tempfile::tempdir_in("/dev/shm")?, tempfile::tempdir_in(".")?);
    let mounts = vec![mount(disk.path())?];
    let plain = [memory.path(), disk.path()].map(|path| path.join("plain"));
    plain.iter().try_for_each(fs::create_dir)?;
    let places = [&plain[..], &[mounts[0].point().to_path_buf()]].concat();
    for (name, commits, workload) in WITH_SYNC {
        let times = rounds(&places, &mounts, |path| workload(path, commits))?;
        for (at, place) in ["tmpfs", "the disk", "the file system"].iter().enumerate() {
            let (median, low, high) = summary(times.iter().map(|times| 1e6 * times[at] / commits as f64));
            println!("{name}, on {place}: {median:.1} us per commit ({low:.1} to {high:.1})");
        }
    }
    mounts.into_iter().try_for_each(|mounted| mounted.unmount().map_err(Into::into))
}

/// Seconds on each place, for each round.
fn rounds(
    places: &[PathBuf],
    mounts: &[Mounted],
    workload: impl Fn(&Path) -> Result<(), Failure>,
) -> Result<Vec<Vec<f64>>, Failure> {
    let mut all = Vec::new();
    for round in 0..=ROUNDS {
        let mut times = vec![0.0; places.len()];
        // Each place is first, second and last equally often.
        for turn in 0..places.len() {
            let at = (turn + round) % places.len();
            times[at] = time(&places[at], &workload)?;
        }
        all.push(times);
        mounts.iter().try_for_each(|mounted| mounted.sync().map(drop))?;
    }
    all.remove(0);
    Ok(all)
}

/// Median and interval.
fn summary(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let [low, high] = INTERVAL.map(|at| values[at]);
    (values[ROUNDS / 2], low, high)
}

/// Seconds that a workload takes in a new directory.
fn time(place: &Path, workload: &impl Fn(&Path) -> Result<(), Failure>) -> Result<f64, Failure> {
    let directory = place.join("store");
    fs::create_dir(&directory)?;
    let begin = Instant::now();
    workload(&directory)?;
    let seconds = begin.elapsed().as_secs_f64();
    fs::remove_dir_all(&directory)?;
    Ok(seconds)
}

fn write_pages(directory: &Path, pages: u64) -> Result<(), Failure> {
    let file = File::create(directory.join("data"))?;
    for at in 0..pages {
        file.write_all_at(&[at as u8; 4096], at * 4096)?;
    }
    Ok(())
}

fn rename_over(directory: &Path, pages: u64) -> Result<(), Failure> {
    write_pages(directory, pages)?;
    File::open(directory.join("data"))?.sync_all()?;
    write_pages(directory, pages)?;
    fs::write(directory.join("other"), "")?;
    Ok(fs::rename(directory.join("other"), directory.join("data"))?)
}

fn sqlite(directory: &Path, synchronous: &str, transactions: u64, rows: u64) -> Result<(), Failure> {
    let mut connection = open_sqlite(directory, synchronous)?;
    (0..transactions).try_for_each(|n| sqlite_commit(&mut connection, n * rows..(n + 1) * rows, 100))
}

fn open_sqlite(directory: &Path, synchronous: &str) -> Result<Connection, Failure> {
    let connection = Connection::open(directory.join("db"))?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
         CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, v BLOB)"
    ))?;
    Ok(connection)
}

fn sqlite_commit(connection: &mut Connection, rows: std::ops::Range<u64>, len: usize) -> Result<(), Failure> {
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO t VALUES (?1, ?2)")?;
        for n in rows {
            insert.execute((n as i64, vec![n as u8; len]))?;
        }
    }
    Ok(transaction.commit()?)
}

fn open_lmdb(directory: &Path, durability: Durability) -> Result<<Lmdb as Driver>::Store, Failure> {
    let durability = Some(durability);
    let spec =
        StoreSpec { engine: "lmdb".to_owned(), durability, options: Default::default(), indexes: vec![], url: None };
    Ok(Lmdb::open(directory, &spec)?)
}

fn lmdb(directory: &Path, durability: Durability, transactions: u64, puts: u64) -> Result<(), Failure> {
    let store = open_lmdb(directory, durability)?;
    let mut session = store.session()?;
    for n in 0..transactions {
        let mut write = session.write()?;
        for n in n * puts..(n + 1) * puts {
            write.put(&n.to_be_bytes(), &[n as u8; 100])?;
        }
        write.commit()?;
    }
    Ok(())
}

/// A store that is cut.
trait Cuttable {
    /// Adds records of 1000 bytes in one transaction.
    fn commit(&mut self, records: std::ops::Range<u64>) -> Result<(), Failure>;

    /// How many records an image has, where it is whole.
    fn check(&self, image: &Path) -> Result<u64, Failure>;
}

struct LmdbStore(<Lmdb as Driver>::Store);

impl LmdbStore {
    fn open(directory: &Path) -> Result<Self, Failure> {
        Ok(Self(open_lmdb(directory, Durability::Bounded)?))
    }
}

impl Cuttable for LmdbStore {
    fn commit(&mut self, records: std::ops::Range<u64>) -> Result<(), Failure> {
        let mut session = self.0.session()?;
        let mut write = session.write()?;
        for n in records {
            write.put(&n.to_be_bytes(), &[n as u8; 1000])?;
        }
        Ok(write.commit()?)
    }

    fn check(&self, image: &Path) -> Result<u64, Failure> {
        let store = open_lmdb(image, Durability::Bounded)?;
        let mut session = store.session()?;
        let mut read = session.read()?;
        let (mut count, mut whole) = (0_u64, true);
        read.scan(&[0], |key, data| {
            whole &= key == count.to_be_bytes() && data.iter().all(|byte| *byte == count as u8);
            count += 1;
            Then::Continue(())
        })?;
        if whole { Ok(count) } else { Err("a record is wrong".into()) }
    }
}

struct SqliteStore(Connection);

impl SqliteStore {
    fn open(directory: &Path) -> Result<Self, Failure> {
        Ok(Self(open_sqlite(directory, "NORMAL")?))
    }
}

impl Cuttable for SqliteStore {
    fn commit(&mut self, records: std::ops::Range<u64>) -> Result<(), Failure> {
        sqlite_commit(&mut self.0, records, 1000)
    }

    fn check(&self, image: &Path) -> Result<u64, Failure> {
        let connection = Connection::open(image.join("db"))?;
        let check: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
        let count = connection.query_row("SELECT count(*) FROM t", (), |row| row.get::<_, i64>(0))?;
        if check == "ok" { Ok(count as u64) } else { Err(check.into()) }
    }
}

fn cuts(name: &str, open: fn(&Path) -> Result<Box<dyn Cuttable>, Failure>) -> Result<(), Failure> {
    let top = tempfile::tempdir_in(".")?;
    let mounted = mount(top.path())?;
    let path = mounted.point().join("store");
    fs::create_dir(&path)?;
    let mut store = open(&path)?;
    let begin = Instant::now();
    let mut records = 0;
    while records < 100_000 {
        store.commit(records..records + 1000)?;
        records += 1000;
    }
    mounted.sync()?;
    println!("{name}: a store of 100 MB of values filled in {:.1} s", begin.elapsed().as_secs_f64());
    let (mut saving, mut making, mut checking) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let begin = Instant::now();
    let mut lost = 0;
    for number in 0..CUTS {
        for _ in 0..20 {
            store.commit(records..records + 10)?;
            records += 10;
        }
        let settings = CutSettings::check(
            &top.path().canonicalize()?.join("images"),
            IMAGES,
            &[Policy::None, Policy::Prefix, Policy::Subset, Policy::Torn],
            (Fraction::new(0.5).ok_or("no fraction")?, Unit::Page),
            number,
        )?;
        fs::create_dir(top.path().join("images"))?;
        let at = Instant::now();
        let cut = mounted.save(&top.path().canonicalize()?.join("cut"))?;
        saving += at.elapsed();
        for number in 1..=IMAGES {
            let at = Instant::now();
            let image = cut.image(&settings.draw(number), &settings.path(number))?;
            making += at.elapsed();
            let at = Instant::now();
            lost = lost.max(records - store.check(&image.path.join("store"))?.min(records));
            checking += at.elapsed();
            fs::remove_dir_all(&image.path)?;
        }
        ["cut", "images"].iter().try_for_each(|name| fs::remove_dir_all(top.path().join(name)))?;
    }
    let seconds = |time: Duration| time.as_secs_f64();
    println!(
        "{name}: {CUTS} cuts of {IMAGES} images in {:.1} s: saved in {:.1} s, made in {:.1} s, opened and checked in {:.1} s; \
         at most {lost} records lost; peak memory of the server {}",
        seconds(begin.elapsed()),
        seconds(saving),
        seconds(making),
        seconds(checking),
        peak(&mounted)?,
    );
    drop(store);
    Ok(mounted.unmount()?)
}

/// Resident memory of the server at its peak.
fn peak(mounted: &Mounted) -> Result<String, Failure> {
    let [_, server] = mounted.processes();
    let status = fs::read_to_string(format!("/proc/{server}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak")?;
    Ok(line.trim().to_owned())
}
