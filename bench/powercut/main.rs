//! Measures how fast programs write through the file system of `prony powercut`, as a ratio to tmpfs.
//!
//! `cargo bench -p prony-powercut --bench powercut` runs each workload on tmpfs and on the file system, served by one
//! thread and by four (its state directory on tmpfs), in turn in one process, 15 rounds after one that does not count. It prints the median of the ratios of rates within
//! a round, and the 4th and 12th of the 15: an interval that contains the true median with a probability of 96.5 %, whatever
//! the distribution.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark speaks")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use prony_engines::driver::{Driver, Session, Store, Write};
use prony_engines::lmdb::Lmdb;
use prony_model::spec::{Durability, StoreSpec};
use prony_powercut::{Mounted, Settings};
use rusqlite::Connection;

const ROUNDS: usize = 15;
const INTERVAL: [usize; 2] = [3, 11];

type Failure = Box<dyn std::error::Error>;
type Workload = (&'static str, fn(&Path) -> Result<(), Failure>);

const WORKLOADS: [Workload; 5] = [
    ("writes of 4 KiB", write_pages),
    ("SQLite, WAL, no sync, 100 rows per transaction", |path| sqlite(path, 200, 100)),
    ("SQLite, WAL, no sync, 1 row per transaction", |path| sqlite(path, 4000, 1)),
    ("LMDB, no sync, 100 puts per transaction", |path| lmdb(path, 200, 100)),
    ("LMDB, no sync, 1 put per transaction", |path| lmdb(path, 4000, 1)),
];

/// Threads of the server, one mount each.
const THREADS: [u32; 2] = [1, 4];

fn main() -> Result<(), Failure> {
    let top = tempfile::tempdir_in("/dev/shm")?;
    let mount = |threads: u32| -> Result<Mounted, Failure> {
        let [point, state] = ["point", "state"].map(|name| top.path().join(format!("{name}-{threads}")));
        fs::create_dir(&point)?;
        let program = Path::new(env!("CARGO_BIN_EXE_prony-powercut-server"));
        Ok(Mounted::start(program, &point, &state, &Settings { threads, ..Settings::default() })?)
    };
    let mounts = THREADS.map(mount);
    let plain = top.path().join("plain");
    fs::create_dir(&plain)?;
    let mut places = vec![plain];
    for mounted in mounts.iter().flatten() {
        places.push(mounted.point().to_path_buf());
    }
    let mounts = mounts.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (name, workload) in WORKLOADS {
        let mut ratios = vec![Vec::new(); THREADS.len()];
        for round in 0..=ROUNDS {
            let mut times = vec![0.0; places.len()];
            // Each place is first, second and last equally often.
            for turn in 0..places.len() {
                let at = (turn + round) % places.len();
                times[at] = time(&places[at], workload)?;
            }
            for (at, ratios) in ratios.iter_mut().enumerate().filter(|_| round > 0) {
                ratios.push(times[0] / times[at + 1]);
            }
            mounts.iter().try_for_each(|mounted| mounted.sync().map(drop))?;
        }
        for (threads, mut ratios) in THREADS.iter().zip(ratios) {
            ratios.sort_by(f64::total_cmp);
            let [low, high] = INTERVAL.map(|at| ratios[at]);
            println!(
                "{name}, {threads} threads: {:.3} times the rate on tmpfs ({low:.3} to {high:.3})",
                ratios[ROUNDS / 2]
            );
        }
    }
    for mounted in mounts {
        mounted.unmount()?;
    }
    Ok(())
}

/// Seconds that a workload takes in a new directory.
fn time(place: &Path, workload: fn(&Path) -> Result<(), Failure>) -> Result<f64, Failure> {
    let directory = place.join("store");
    fs::create_dir(&directory)?;
    let begin = Instant::now();
    workload(&directory)?;
    let seconds = begin.elapsed().as_secs_f64();
    fs::remove_dir_all(&directory)?;
    Ok(seconds)
}

fn write_pages(directory: &Path) -> Result<(), Failure> {
    let file = File::create(directory.join("data"))?;
    for at in 0..20_000_u64 {
        file.write_all_at(&[at as u8; 4096], at * 4096)?;
    }
    Ok(())
}

fn sqlite(directory: &Path, transactions: u64, rows: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(directory.join("db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE t (n INTEGER PRIMARY KEY, v BLOB)",
    )?;
    for first in 0..transactions {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO t VALUES (?1, ?2)")?;
            for n in first * rows..(first + 1) * rows {
                insert.execute((n as i64, [n as u8; 100]))?;
            }
        }
        transaction.commit()?;
    }
    Ok(())
}

fn lmdb(directory: &Path, transactions: u64, puts: u64) -> Result<(), Failure> {
    let durability = Some(Durability::None);
    let spec = StoreSpec { engine: "lmdb".to_owned(), durability, options: Default::default(), indexes: vec![] };
    let store = Lmdb::open(directory, &spec)?;
    let mut session = store.session()?;
    for first in 0..transactions {
        let mut write = session.write()?;
        for n in first * puts..(first + 1) * puts {
            write.put(&n.to_be_bytes(), &[n as u8; 100])?;
        }
        write.commit()?;
    }
    Ok(())
}
