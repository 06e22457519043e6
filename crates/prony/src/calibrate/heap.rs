//! A fixture with a known amount of heap: caches behind strong and weak references, read after a forced garbage
//! collection.

use std::fs;
use std::path::Path;
use std::process::Command;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::Reading;
use prony_os::launch::Scratch;

use super::Ran;
use super::bench::{Bench, no_reading};
use super::check_line::{Line, Unit};
use crate::error::Error;

const FILE: &str = "weak_cache.toml";
const CACHE: [(&str, &str); 2] =
    [("cache.js", include_str!("weak_cache/cache.js")), ("main.js", include_str!("weak_cache/main.js"))];

/// What a cache of `cache.js` holds: its arrays of 100,000 numbers.
const RETAINED: f64 = 50.0 * 800_000.0;

/// 2 % of it, and 1 MB that the runtime itself may take.
const ALLOWED: f64 = 0.02 * RETAINED + 1e6;

/// Asks for the version, where there are weak references.
const ASK: &str = "if (typeof WeakRef !== 'function') throw new Error(process.version)";

/// Caches behind strong references, weak ones, and as many of both, each with a program that ends at the collection and
/// one that goes on: a cache to which only weak references lead is none of the heap (METHOD 8.3).
///
/// # Errors
/// Where the machine refuses what every trial needs.
pub(super) fn weak_cache(bench: &Bench) -> Result<Ran, Error> {
    if let Some(why) = without_weak_references() {
        return Ok(Ran::NotRun(why));
    }
    let scratch = Scratch::create(&bench.near)?;
    for (name, text) in CACHE {
        let path = scratch.path().join(name);
        fs::write(&path, text).map_err(Error::write_file(&path))?;
    }
    let mut lines = Vec::new();
    for (what, then) in [("the program ends", "then = \"stop\""), ("the program goes on", "")] {
        let nothing = used(bench, scratch.path(), "nothing", then)?;
        for (kind, truth) in [("strong", RETAINED), ("weak", 0.0), ("both", RETAINED)] {
            let above = used(bench, scratch.path(), kind, then)?.and(nothing.clone(), |used, nothing| used - nothing);
            let name = format!("{kind} cache, {what}: `heap.used.end` added");
            lines.push(Line::figure(name, Unit::Bytes, truth, above, ALLOWED));
        }
    }
    Ok(Ran::Lines(lines))
}

/// Why there is nothing to run.
fn without_weak_references() -> Option<String> {
    match Command::new("node").args(["-e", ASK]).output() {
        Err(_) => Some("`node` is not in PATH".to_owned()),
        Ok(output) if output.status.success() => None,
        Ok(_) => Some("the `node` in PATH has no WeakRef: version 14.6 or later is needed".to_owned()),
    }
}

/// The heap in use after the collection.
fn used(bench: &Bench, directory: &Path, kind: &str, then: &str) -> Result<Reading<f64>, Error> {
    let directory = toml::Value::from(directory.to_string_lossy().into_owned());
    let text = format!(
        "[observe]\ncare = \"light\"\n[program.cache]\ncommand = [\"node\", \"main.js\", \"{kind}\"]\nruntime = \"node\"\n\
         directory = {directory}\ncopy = \"none\"\n[[phase]]\nname = \"fill\"\ncall = \"cache.js#fill\"\n\
         at_end = {{ collect = true }}\n{then}\n"
    );
    let Some(record) = bench.trial(FILE, text)? else { return Ok(Reading::failed("the plan is empty")) };
    let reading = record.phases.first().and_then(|phase| phase.reading(MetricKey::gauge(Metric::HeapUsed, Stat::End)));
    Ok(reading.cloned().unwrap_or_else(no_reading))
}
