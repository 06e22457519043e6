//! The target `experiment` under libFuzzer.
#![no_main]

prony_fuzz::libfuzzer!(prony_fuzz::EXPERIMENT);
