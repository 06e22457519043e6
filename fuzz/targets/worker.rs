//! The target `worker` under libFuzzer.
#![no_main]

prony_fuzz::libfuzzer!(prony_fuzz::WORKER);
