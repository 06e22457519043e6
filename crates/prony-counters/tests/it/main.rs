//! Tests of sources against real servers, which the tests start themselves.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

mod postgresql;
mod redis;
mod server;

use prony_counters::{Numbers, Source};
use prony_model::reading::Reading;

/// A number, or why it is missing.
fn value(numbers: &Numbers, name: &str) -> Result<f64, String> {
    match &numbers.values[name] {
        Reading::Measured(number) => Ok(number.value),
        Reading::Missing(why) => Err(why.to_string()),
    }
}

/// What distinguishes a number from one that began anew.
fn since(numbers: &Numbers, name: &str) -> String {
    match &numbers.values[name] {
        Reading::Measured(number) => number.since.clone(),
        Reading::Missing(why) => panic!("{name}: {why}"),
    }
}

fn read(source: &mut dyn Source) -> Numbers {
    source.read().unwrap_or_else(|why| panic!("{why}"))
}
