//! The target `database` under libFuzzer.
#![no_main]

prony_fuzz::libfuzzer!(prony_fuzz::DATABASE);
