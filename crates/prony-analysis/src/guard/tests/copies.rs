//! Tests of the guard of builds that a cache had for one of two variants.

use super::super::copies::{build_reused, build_reused_in_one};
use super::*;

/// The trials of a variant in these sessions, each with whether its build was reused.
fn trials(reused: &[(u32, bool)]) -> Vec<TrialRecord> {
    let of = |(session, reused): &(u32, bool)| {
        let mut trial = record(Vec::new());
        trial.conditions.session = *session;
        trial.findings.extend(reused.then(|| build_reused(None)));
        trial
    };
    reused.iter().map(of).collect()
}

/// The base of a pull request was one that another compiler had built days before, and an innocent change failed a gate.
#[test]
fn one_of_two_variants_with_an_old_build_is_reported() {
    let found = |program: &str, base: &[(u32, bool)], head: &[(u32, bool)]| {
        let text = format!("[program.x]\ncommand = \"true\"\ndirectory = \".\"\n{program}\n");
        let raw = prony_experiment::parse(&text, "x.toml").unwrap();
        let spec = prony_experiment::check(&raw, &Engines, &Default::default()).unwrap().variants()[0].spec.clone();
        let (base, head) = (trials(base), trials(head));
        let of = |name: &str, trials| VariantTrials { name: name.to_owned(), spec: &spec, trials };
        build_reused_in_one([&of("base", base.iter().collect()), &of("head", head.iter().collect())])
    };
    let built = "build = \"make\"";
    let one = found(built, &[(0, true)], &[(0, false)]).unwrap();
    assert!(one.severity == Severity::Warning && one.message.starts_with("`base` ran a cached build"), "{one:?}");
    assert!(found(built, &[(0, false)], &[(0, true)]).unwrap().message.starts_with("`head` ran a cached build"));
    assert_eq!(found(built, &[(0, true)], &[(0, true)]), None, "both from before");
    assert_eq!(found(built, &[(0, false), (1, true)], &[(0, false), (1, true)]), None, "a resumed run finds its own");
    assert_eq!(found("", &[(0, true)], &[(0, false)]), None, "nothing is built");
}
