//! The target `queries` under libFuzzer.
#![no_main]

prony_fuzz::libfuzzer!(prony_fuzz::QUERIES);
