//! The target `answers` under libFuzzer.
#![no_main]

prony_fuzz::libfuzzer!(prony_fuzz::ANSWERS);
