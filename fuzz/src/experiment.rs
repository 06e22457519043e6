//! Fuzzes experiment files: TOML text -> checked experiment -> variants, plan.
//!
//! The checker once printed 848 MB for one file, and took 20 s for another.

use prony_experiment::plan::{outline, plan, profiles};
use prony_experiment::{render, templates};
use prony_model::catalog::{Anywhere, Overrides};
use prony_runner::load;

/// Bytes of the longest report of faults: more than any 20 of them take.
const LONGEST: usize = 128 << 10;

/// Trials whose order is computed; a plan of more is valid and takes long.
const PLANNED: u64 = 100_000;

pub(super) fn run(data: &[u8]) {
    let text = match std::str::from_utf8(data) {
        Ok(text) => text.to_owned(),
        Err(error) => {
            let text = String::from_utf8_lossy(data);
            for problem in prony_experiment::not_utf8(&text, error.valid_up_to()) {
                assert!(render(&problem, "x.toml", &text).len() < LONGEST);
            }
            return;
        }
    };
    match load::text(text, "x.toml", &Overrides::default(), &Anywhere) {
        Err(error) => {
            let report = error.text();
            assert!(!report.is_empty() && report.len() < LONGEST, "a report of {} bytes", report.len());
        }
        Ok(experiment) => {
            let stored = serde_json::to_string(&experiment).expect("an experiment is JSON");
            let read = serde_json::from_str(&stored).expect("what was written is read");
            assert!(experiment == read, "an experiment is stored unchanged");
            outline(&experiment);
            profiles(&experiment);
            let trials: u64 = experiment.variants().iter().map(|variant| 2 * u64::from(variant.blocks.max)).sum();
            if trials < PLANNED {
                let planned = plan(&experiment);
                assert!(
                    planned.iter().map(|trial| trial.position).eq(0..planned.len() as u32),
                    "positions have no gap"
                );
            }
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = super::files(&super::repository("experiments"), "toml");
    seeds.extend([templates::STORE, templates::PROGRAM, templates::BRANCHES].map(Into::into));
    seeds.extend(super::files(&super::repository("fuzz/seeds"), "toml"));
    seeds
}
