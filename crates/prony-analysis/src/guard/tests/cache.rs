//! Tests of guards on the page cache.

use super::*;

#[test]
fn a_cold_store_that_is_warm_is_named() {
    let mut cold = spec("lmdb");
    cold.phases = vec![
        phase_spec("evict", Action::Evict),
        phase_spec("read", Action::Get(ops(Amount::Records))),
        phase_spec("again", Action::Get(ops(Amount::Records))),
    ];
    let cached = |share| {
        let all = [(Metric::Cached, share)];
        record(vec![phase("evict", &all), phase("read", &all), phase("again", &all)])
    };
    let found = trial::cache_state(&cold, &cached(0.4));
    assert_eq!(names(&found), ["cache_not_as_declared"]);
    assert_eq!(found[0].phase.as_deref(), Some("read"), "only the phase after `evict` was declared cold");
    assert_eq!(trial::cache_state(&cold, &cached(0.005)), []);
    assert_eq!(trial::cache_state(&spec("lmdb"), &cached(0.4)), []);
    // One variant read from memory what the other read from the disk, and had a verdict.
    let mut warm = cached(0.4);
    warm.findings = found;
    let (of_warm, of_cold) = (variant_trials("b", &cold, &warm), cached(0.0));
    let of_cold = variant_trials("a", &cold, &of_cold);
    let why = variants::unequal_cache(&of_cold, &of_warm, &"read.time".parse().unwrap()).unwrap();
    assert!(why.ends_with("in 1 of 1 trial of `b` and in 0 of 1 trial of `a`"), "{why}");
    assert_eq!(variants::unequal_cache(&of_warm, &of_warm, &"read.time".parse().unwrap()), None, "both are as warm");
    assert_eq!(variants::unequal_cache(&of_cold, &of_warm, &"read.rows".parse().unwrap()), None, "no time");
    assert_eq!(variants::unequal_cache(&of_cold, &of_warm, &"again.time".parse().unwrap()), None, "another phase");
}
