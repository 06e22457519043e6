//! Runs trials as fresh processes in interleaved blocks, and prints their ratios.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;

use prony_engines::answers::fold as fold_value;
use prony_engines::timed_loop::now;
use prony_workload::touch;
use serde_json::Value;

use crate::Result;
use crate::cases::{CASES, Case, RECORDS};

/// Who does the operations.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    C,
    Prony,
    PronyEvery,
}

/// Every order of the three, so that none is always first.
const ORDERS: [[Variant; 3]; 6] = {
    use Variant::{C, Prony as P, PronyEvery as E};
    [[C, P, E], [E, P, C], [P, E, C], [C, E, P], [E, C, P], [P, C, E]]
};

/// Nanoseconds inside timed sections: on the clock, and of CPU time.
#[derive(Clone, Copy, Default)]
struct Times {
    wall: f64,
    cpu: f64,
}

type Block = [Times; 3];

/// Compares the cases, all or those named, in so many blocks, and prints the ratios.
pub(crate) fn run(blocks: usize, only: &[&str]) -> Result<()> {
    let scratch = scratch()?;
    let c = build_c(&scratch)?;
    println!(
        "{blocks} blocks of C, prony untimed and prony timing every operation, in changing order, fresh processes;"
    );
    println!("inside timed sections; median [interval of at least 95 % by order statistics]\n");
    for case in CASES.iter().filter(|case| only.is_empty() || only.contains(&case.name)) {
        let mut times: Vec<Block> = Vec::new();
        for block in 0..blocks {
            let mut of_variants = Block::default();
            for variant in ORDERS[block % ORDERS.len()] {
                of_variants[variant as usize] = trial(case, variant, &c, &scratch)?;
            }
            times.push(of_variants);
        }
        print_case(case, &times);
    }
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

fn print_case(case: &Case, blocks: &[Block]) {
    let every = |value: &dyn Fn(&Block) -> f64| interval(blocks.iter().map(value).collect());
    let rate = every(&|block| RECORDS as f64 / block[Variant::C as usize].wall * 1e9);
    println!("{} ({:.0} a second in C)", case.title, rate.median);
    for (name, of) in [("wall", (|t| t.wall) as fn(Times) -> f64), ("CPU", |t| t.cpu)] {
        let ratio = |a: Variant, b: Variant| every(&|block| of(block[a as usize]) / of(block[b as usize])).text();
        let extra = every(&|block| (of(block[2]) - of(block[1])) / RECORDS as f64);
        println!(
            "  {name:<5} prony / C {}   every operation timed / none {} = {:+.0} ns an operation",
            ratio(Variant::Prony, Variant::C),
            ratio(Variant::PronyEvery, Variant::Prony),
            extra.median,
        );
    }
}

/// Runs one variant in a fresh process on a fresh store.
fn trial(case: &Case, variant: Variant, c: &Path, scratch: &Path) -> Result<Times> {
    let dir = scratch.join("store");
    std::fs::create_dir(&dir)?;
    let mut command = command(case, variant, c, scratch, &dir)?;
    let output = command.output()?;
    std::fs::remove_dir_all(&dir)?;
    // What one trial left to be written must not be written in the next one's time.
    Command::new("sync").status()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [wall, cpu, RECORDS] if output.status.success() => {
            let decoding = if variant == Variant::C { case.decoding()? } else { 0.0 };
            Ok(Times { wall: wall as f64 + decoding, cpu: cpu as f64 + decoding })
        }
        _ => {
            Err(format!("{variant:?} of `{}` failed: {text}{}", case.name, String::from_utf8_lossy(&output.stderr))
                .into())
        }
    }
}

fn command(case: &Case, variant: Variant, c: &Path, scratch: &Path, dir: &Path) -> Result<Command> {
    let mut command = Command::new(if variant == Variant::C { c.to_owned() } else { std::env::current_exe()? });
    match variant {
        Variant::C => command.args(case.c_arguments(dir, scratch)?),
        Variant::Prony => command.args(["trial", case.name]).arg(dir).arg("none"),
        Variant::PronyEvery => command.args(["trial", case.name]).arg(dir).arg("every"),
    };
    Ok(command)
}

/// Builds the C program from the source of LMDB that this binary's heed was built from, with its flags.
fn build_c(scratch: &Path) -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let metadata = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(here.join("Cargo.toml"))
        .output()?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo names no packages")?;
    let lmdb = packages.iter().find(|package| package["name"] == "lmdb-master-sys");
    let manifest =
        lmdb.and_then(|package| package["manifest_path"].as_str()).ok_or("cargo knows no `lmdb-master-sys`")?;
    let source = Path::new(manifest).with_file_name("lmdb").join("libraries/liblmdb");
    let program = scratch.join("lmdb-c");
    let status = Command::new("cc")
        .args(["-O3", "-DNDEBUG", "-DMDB_IDL_LOGN=16", "-fPIC", "-ffunction-sections", "-fdata-sections", "-pthread"])
        // Of `.cargo/config.toml`, as heed's build has them.
        .args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace())
        .arg("-I")
        .arg(&source)
        .arg(here.join("lmdb.c"))
        .args([source.join("mdb.c"), source.join("midl.c")])
        .arg("-o")
        .arg(&program)
        .status()?;
    if status.success() { Ok(program) } else { Err("the C program does not build".into()) }
}

/// An empty directory below the working directory, so that the stores lie on a real file system.
pub(crate) fn scratch() -> Result<PathBuf> {
    let dir = std::env::current_dir()?.join(format!("bench-lmdb-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    Ok(dir)
}

/// A median and an interval for it.
struct Interval {
    low: f64,
    median: f64,
    high: f64,
}

impl Interval {
    fn text(&self) -> String {
        format!("{:.3} [{:.3}, {:.3}]", self.median, self.low, self.high)
    }
}

/// The median, and the narrowest pair of order statistics, equally far from both ends, that covers it with at least
/// 95 %, whatever the distribution; below six values the whole range.
fn interval(mut values: Vec<f64>) -> Interval {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let median = (values[(n - 1) / 2] + values[n / 2]) / 2.0;
    let (mut cut, mut tail, mut term) = (0, 0.0, 0.5_f64.powi(n as i32));
    // `tail` is the chance that at most `cut` of n fair coins show heads.
    loop {
        tail += term;
        if tail > 0.025 || cut >= n / 2 {
            break;
        }
        cut += 1;
        term *= (n - cut + 1) as f64 / cut as f64;
    }
    let cut = cut.saturating_sub(1);
    Interval { low: values[cut], median, high: values[n - 1 - cut] }
}

/// What digesting a value costs above touching its cache lines, in memory and in cache.
pub(crate) fn fold() -> Result<()> {
    println!("{:>8} {:>10} {:>10} {:>10}", "bytes", "working set", "touch", "fold");
    for (size, set) in [(100, 64 << 10), (100, 256 << 20), (4000, 1 << 20), (4000, 256 << 20), (40_000, 256 << 20)] {
        let memory = vec![1u8; set];
        let values = set / size;
        let rounds = ((1usize << 28) / set).max(1);
        let timed = |work: fn(&[u8]) -> u64| {
            let started = now();
            for _ in 0..rounds {
                black_box(memory.chunks_exact(size).map(work).fold(0, u64::wrapping_add));
            }
            (now() - started) as f64 / (rounds * values) as f64
        };
        // In turn, so that a disturbance meets both; the least of several is what the work takes.
        let passes: Vec<_> = (0..9).map(|_| (timed(touch), timed(fold_value))).collect();
        let touched = passes.iter().map(|pass| pass.0).fold(f64::INFINITY, f64::min);
        let folded = passes.iter().map(|pass| pass.1).fold(f64::INFINITY, f64::min);
        println!("{size:>8} {set:>11} {touched:>7.1} ns {folded:>7.1} ns");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // n: the ranks, from the ends, of tables of the sign test at 95 %.
        for (n, rank) in [(5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (20, 5), (30, 9)] {
            let found = interval((0..n).map(f64::from).collect());
            assert_eq!((found.low, found.high), (f64::from(rank), f64::from(n - 1 - rank)), "{n}");
            assert_eq!(found.median, f64::from(n - 1) / 2.0);
        }
    }
}
