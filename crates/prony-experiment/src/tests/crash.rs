//! Tests of phases of crash trials.

use prony_model::spec::{CrashSpec, CutKind};
use prony_model::units::Nanos;

use super::{faults, sound};

/// A store with phases of these lines, after one that writes records of two collections.
pub(crate) fn store(crash: &str) -> String {
    format!(
        "[factors]\nengine = [\"lmdb\", \"memory\"]\n[store]\nengine = \"{{engine}}\"\n\
         [data.collection.a]\nrecords = 9\nvalue = {{ bytes = 100 }}\n[data.collection.b]\nrecords = 5\nvalue = {{ bytes = 100 }}\n\
         [data.collection.short]\nrecords = 5\nvalue = {{ bytes = 15 }}\n\
         [data.collection.page]\nrecords = 5\ndocument = {{ n = {{ sequence = 0 }} }}\n\
         [[phase]]\nname = \"write\"\nput = {{ collection = \"a\", transaction = {{ batch = 3 }} }}\n\
         [[phase]]\nname = \"many\"\nput = {{ collection = \"a\", threads = 2 }}\n\
         [[phase]]\nname = \"paced\"\nupdate = {{ collection = \"a\", rate = 100 }}\n\
         [[phase]]\nname = \"beside\"\nupdate = {{ collection = \"a\" }}\nbackground = {{ get = {{ collection = \"a\" }} }}\n\
         [[phase]]\nname = \"brief\"\nput = {{ collection = \"short\" }}\n\
         [[phase]]\nname = \"pages\"\nput = {{ collection = \"page\" }}\n\
         [[phase]]\nname = \"read\"\nget = {{ collection = \"a\" }}\n\
         [[phase]]\nname = \"crash\"\n{crash}\n[compare]\nbaseline = {{ engine = \"lmdb\" }}\nmetric = \"write.rate\"\nblocks = 6\n"
    )
}

#[test]
fn crash_phase_is_no_phase_of_the_timed_trials() {
    let experiment = sound(&store("kill = { during = \"write\", cuts = 4, within = \"2 s\", also = [\"b\"] }"));
    let spec = &experiment.variants()[0].spec;
    assert_eq!(spec.phases.len(), 7);
    let crash = CrashSpec {
        name: "crash".to_owned(),
        during: "write".to_owned(),
        also: vec!["b".to_owned()],
        cut: CutKind::Kill,
        cuts: 4,
        within: Nanos::from_secs(2),
        images: 1,
        creation: false,
    };
    assert_eq!(spec.crashes, [crash]);
    let default = sound(&store("kill = { during = \"write\" }"));
    let crash = &default.variants()[0].spec.crashes[0];
    assert_eq!((crash.cuts, crash.within), (30, Nanos::from_secs(1)));
}

#[test]
fn power_failures_have_images() {
    let of = |keys: &str| {
        sound(&store(&format!("powercut = {{ during = \"write\"{keys} }}"))).variants()[0].spec.crashes[0].clone()
    };
    let default = of("");
    assert_eq!((default.cut, default.cuts, default.images, default.creation), (CutKind::PowerCut, 30, 10, false));
    let given = of(", images = 3, creation = true");
    assert_eq!((given.images, given.creation), (3, true));
    assert!(faults(&store("kill = { during = \"write\", images = 3 }")).contains("unknown key `images`"));
}

#[test]
fn faults_of_crash_phases_are_named() {
    let of = |crash: &str| faults(&store(crash));
    let during = |phase: &str| of(&format!("kill = {{ during = \"{phase}\" }}"));
    assert_eq!(during("write"), "no faults");
    assert!(during("wriet").contains("there is no phase `wriet` in this variant | did you mean `write`?"));
    assert!(during("read").contains("`kill` cannot repeat `read`: it is no phase of writes | name a phase with `put`"));
    assert!(during("many").contains("the order of commits of several threads is not known"));
    assert!(during("paced").contains("it does not write all the time"));
    assert!(during("beside").contains("it has a background"));
    assert!(during("brief").contains("`kill` needs values of 16 bytes or more of `short`"));
    assert!(during("pages").contains("`kill` needs values of bytes, and the records of `page` are documents"));
    assert!(of("kill = { during = \"write\", also = [\"x\"] }").contains("there is no collection `x`"));
    let twice = of("kill = { during = \"write\", also = [\"a\"] }");
    assert!(twice.contains("the transactions write `a` already"), "{twice}");
    let timed = of("timed = false\nkill = { during = \"write\" }");
    assert!(timed.contains("`timed` has no meaning for `kill`, whose trials are never timed"), "{timed}");
    assert!(of("kill = { during = \"write\", cuts = 0 }").contains("`cuts` cannot be `0`"));
    assert!(of("kill = {}").contains("needs the key `during`"));
    let named = faults(&store("kill = { during = \"write\" }").replace("name = \"crash\"", "name = \"read\""));
    assert!(named.contains("two phases are named `read`"), "{named}");
    let metric = store("kill = { during = \"write\" }").replace("write.rate", "crash.rate");
    assert!(faults(&metric).contains("crash"), "a crash phase has no metrics");
}
