//! LMDB through prony's timed loop against a C program on the same liblmdb, doing the same operations.
//!
//! `run [BLOCKS [CASE...]]` compares; `memory` shows the worker's anonymous memory against the number of records; `fold` what
//! digesting a value costs above touching it. `bench/lmdb/README.md` says how to read it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the binary speaks")]

mod cases;
mod compare;
mod trial;

use std::process::ExitCode;

/// What can go wrong: said and done.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["run"] => compare::run(12, &[]),
        ["run", blocks, only @ ..] => blocks.parse().map_err(Into::into).and_then(|blocks| compare::run(blocks, only)),
        ["trial", case, dir, sampled] => trial::print(case, dir, *sampled == "every"),
        ["memory"] => trial::memory(),
        ["fold"] => compare::fold(),
        _ => Err("usage: prony-bench-lmdb run [BLOCKS [CASE...]] | memory | fold".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
