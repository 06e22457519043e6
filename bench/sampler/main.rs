//! Measures what the sampler costs: its CPU time as a share of one core while it samples 20 processes.
//!
//! `cargo bench -p prony-os --bench sampler` starts 20 processes of 4 threads each (10 asleep, 10 that
//! wake a hundred times a second), samples them for five seconds at 10 Hz and at 100 Hz, twenty times in turn,
//! and prints the median share with its 95 % interval. Each subject also holds 8 MiB, touched.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "a benchmark speaks")]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use prony_model::units::Bytes;
use prony_os::clock::monotonic;
use prony_os::fixture::{Allocation, burst};
use prony_os::sample::{Root, Sampler, Settings};

const PROCESSES: usize = 20;
const THREADS: usize = 4;
const ROUNDS: usize = 20;
/// Of the sorted shares, those between which the median of all rounds lies with 95 % (binomial: 95.9 %), counted from 0.
const INTERVAL: [usize; 2] = [5, 14];
const SPAN: Duration = Duration::from_secs(5);
const TASK: &str = "PRONY_BENCH_TASK";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    if let Ok(task) = std::env::var(TASK) {
        return subject(task == "awake");
    }
    let mut subjects = (0..PROCESSES).map(|n| start(n % 2 == 0)).collect::<Result<Vec<_>, _>>()?;
    let pids: Vec<u32> = subjects.iter().map(Child::id).collect();
    let measured = measure(&pids);
    for subject in &mut subjects {
        subject.kill()?;
        subject.wait()?;
    }
    for (hertz, mut shares, snapshot) in measured? {
        shares.sort_by(f64::total_cmp);
        let percent = |at: usize| shares[at] * 100.0;
        println!(
            "{hertz:>3} Hz over {PROCESSES} processes: {:.3} % of a core (median of {ROUNDS}; 95 % interval: {:.3} to {:.3}); a snapshot takes {snapshot}",
            (percent(ROUNDS / 2 - 1) + percent(ROUNDS / 2)) / 2.0,
            percent(INTERVAL[0]),
            percent(INTERVAL[1]),
        );
    }
    Ok(())
}

type Measured = (u32, Vec<f64>, prony_model::units::Nanos);

fn measure(pids: &[u32]) -> Result<Vec<Measured>, Failure> {
    let mut all: Vec<Measured> = [10, 100].map(|hertz| (hertz, Vec::new(), Default::default())).into();
    for _ in 0..ROUNDS {
        for (hertz, shares, snapshot) in &mut all {
            let roots = pids.iter().map(|pid| Root::subject(*pid, "worker")).collect();
            let sampler = Sampler::start(roots, Settings { hertz: *hertz, ..Settings::default() })?;
            let began = monotonic();
            std::thread::sleep(SPAN);
            let wall = monotonic().since(began);
            // Its cost is counted apart: a snapshot is no part of the rate.
            let other =
                Sampler::start(pids.iter().map(|pid| Root::subject(*pid, "worker")).collect(), Settings::default())?;
            *snapshot = other.snapshot().took;
            drop(other);
            let sampled = sampler.finish();
            let samples: usize = sampled.series.iter().map(|process| process.samples.len()).sum();
            let expected = PROCESSES * *hertz as usize * SPAN.as_secs() as usize;
            if samples < expected * 9 / 10 {
                eprintln!("only {samples} of {expected} samples at {hertz} Hz: {} instants missed", sampled.missed);
            }
            let cpu = sampled.cpu.measured().ok_or("the sampler's thread panicked")?;
            shares.push(cpu.as_secs_f64() / wall.as_secs_f64());
        }
    }
    Ok(all)
}

fn start(awake: bool) -> Result<Child, Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .env(TASK, if awake { "awake" } else { "asleep" })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready = [0];
    child.stdout.as_mut().ok_or("no pipe")?.read_exact(&mut ready)?;
    Ok(child)
}

fn subject(awake: bool) -> Result<(), Failure> {
    let _memory = Allocation::touched(Bytes::from_mib(8));
    for _ in 1..THREADS {
        std::thread::spawn(move || live(awake));
    }
    std::io::stdout().write_all(b"r")?;
    std::io::stdout().flush()?;
    if awake {
        std::thread::spawn(move || live(true));
    }
    // Ends with the benchmark, however that ends.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn live(awake: bool) {
    loop {
        if awake {
            burst(prony_model::units::Nanos::from_micros(20));
            std::thread::sleep(Duration::from_millis(10));
        } else {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}
