//! Runs the fuzz targets without libFuzzer, on seeds with a few parts flipped, cut, doubled and mixed, the same ones
//! each time.

use prony_fuzz::{ANSWERS, DATABASE, DOCUMENTS, EXPERIMENT, PROBE, QUERIES, TARGETS, Target, WORKER};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// What the parsers give a meaning to.
const TOKENS: [&str; 29] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'''",
    "\n",
    "\r",
    "=",
    ".",
    ",",
    ":",
    "{i}",
    "{dir}",
    "{env.X}",
    "\\u0000",
    "\u{1b}[2J",
    "\u{202e}",
    "-1",
    "0",
    "1e999",
    "4294967295",
    "18446744073709551615",
    "99999999999999999999",
    "\"0 s\"",
    "nan",
    "[[phase]]\n",
    "true",
    "#",
];

/// One change to an input.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Truncate(Index),
    Remove(Index, usize),
    Repeat(Index, usize),
    Insert(Index, Vec<u8>),
    InsertOf(Index, Index, Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let (at, length) = (any::<Index>, 0..200_usize);
    let token = proptest::sample::select(TOKENS.map(|token| token.as_bytes().to_vec()).to_vec());
    prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        at().prop_map(Change::Truncate),
        (at(), length.clone()).prop_map(|(at, length)| Change::Remove(at, length)),
        (at(), length.clone()).prop_map(|(at, length)| Change::Repeat(at, length)),
        (at(), token).prop_map(|(at, token)| Change::Insert(at, token)),
        (at(), at(), at(), length).prop_map(|(at, seed, from, length)| Change::InsertOf(at, seed, from, length)),
    ]
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        let part = |from: usize, length: usize, bytes: &[u8]| from..(from + length).min(bytes.len());
        match self {
            Self::Flip(at, bit) => {
                let at = place(at, bytes);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << bit);
            }
            Self::Truncate(at) => bytes.truncate(place(at, bytes)),
            Self::Remove(at, length) => drop(bytes.drain(part(place(at, bytes), *length, bytes))),
            Self::Repeat(at, length) => {
                let from = place(at, bytes);
                let repeated = bytes[part(from, *length, bytes)].to_vec();
                bytes.splice(from..from, repeated);
            }
            Self::Insert(at, token) => {
                let at = place(at, bytes);
                bytes.splice(at..at, token.iter().copied());
            }
            Self::InsertOf(at, seed, from, length) => {
                let (at, other) = (place(at, bytes), seed.get(seeds));
                bytes.splice(at..at, other[part(place(from, other), *length, other)].iter().copied());
            }
        }
    }
}

fn run(target: Target, cases: u32) {
    let seeds = (target.seeds)();
    assert!(seeds.len() > 5, "{} seeds of `{}`", seeds.len(), target.name);
    seeds.iter().for_each(|seed| (target.run)(seed));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 10_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRunner::deterministic().new_rng());
    let input = (any::<Index>(), proptest::collection::vec(change(), 1..5));
    let outcome = runner.run(&input, |(seed, changes)| {
        let mut bytes = seed.get(&seeds).clone();
        changes.iter().for_each(|change| change.apply(&mut bytes, &seeds));
        (target.run)(&bytes);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("`{}`: {error}", target.name));
}

#[test]
fn experiment_files_are_checked_without_panic() {
    run(EXPERIMENT, 4_000);
}

#[test]
fn worker_messages_are_received_without_panic() {
    run(WORKER, 4_000);
}

#[test]
fn probe_lines_are_read_without_panic() {
    run(PROBE, 4_000);
}

#[test]
fn database_columns_are_read_without_panic() {
    run(DATABASE, 2_000);
}

#[test]
fn mutated_queries() {
    run(QUERIES, 2_000);
}

#[test]
fn mutated_documents() {
    run(DOCUMENTS, 2_000);
}

#[test]
fn mutated_answers() {
    run(ANSWERS, 200);
}

#[test]
fn each_target_has_a_program_for_libfuzzer() {
    let manifest = include_str!("../Cargo.toml");
    for target in TARGETS {
        assert!(manifest.contains(&format!("[[example]]\nname = \"fuzz-{}\"\n", target.name)), "`{}`", target.name);
    }
}
