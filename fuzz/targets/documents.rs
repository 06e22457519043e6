//! The target `documents` under libFuzzer.
#![no_main]

prony_fuzz::libfuzzer!(prony_fuzz::DOCUMENTS);
