//! The target `probe` under libFuzzer.
#![no_main]

prony_fuzz::libfuzzer!(prony_fuzz::PROBE);
