//! Tests of phases with a background.

use prony_model::metric::Metric;
use prony_model::spec::{Action, Amount, Grouping, Order};

use super::{faults, sound};

/// A store of this engine, with one phase of these lines after the records were written.
fn store(engine: &str, phase: &str) -> String {
    format!(
        "[factors]\nreaders = [1, 2]\n[store]\nengine = \"{engine}\"\n[data]\nrecords = 9\nkey = \"{{i}}\"\nvalue = \"v\"\n\
         [[phase]]\nname = \"write\"\nput = {{}}\n[[phase]]\nname = \"work\"\n{phase}\n[compare]\nbaseline = {{ readers = 1 }}\n"
    )
}

#[test]
fn background_is_read_and_lasts_as_long_as_the_phase() {
    let phase = "update = {}\nbackground = { get = { order = \"uniform\", threads = \"{readers}\" } }";
    let experiment = sound(&format!("{}metric = \"work.background.rate\"\n", store("lmdb", phase)));
    let spec = &experiment.variants()[1].spec.phases[1];
    let Some(Action::Get(ops)) = &spec.background else { panic!("{spec:?}") };
    assert_eq!((ops.amount, ops.threads, ops.order), (Amount::Background, 2, Order::Uniform));
    assert_eq!(spec.action_of(Some("background")), spec.background.as_ref().unwrap());
    assert_eq!(spec.action_of(Some("replica.1")), &spec.action);
    assert!(spec.changes_data() && experiment.variants()[0].spec.phases[0].background.is_none());
    let whole = "scan = { threads = \"{readers}\" }\nbackground = { scan = { transaction = \"single\" } }";
    let experiment = sound(&store("lmdb", whole));
    let ops = experiment.variants()[0].spec.phases[1].background.as_ref().unwrap().ops().unwrap();
    assert_eq!((ops.amount, &ops.transaction), (Amount::Background, &Grouping::Single));
}

#[test]
fn level_may_be_a_background_or_none() {
    let text = store("lmdb", "update = {}\nbackground = \"{readers}\"");
    let text = text.replace("[factors]\nreaders = [1, 2]\n", "[factors.readers]\n1 = {}\n2 = { get = {} }\n");
    let experiment = sound(&text.replace("readers = 1 }", "readers = \"1\" }"));
    let beside = |variant: usize| experiment.variants()[variant].spec.phases[1].background.is_some();
    assert_eq!((beside(0), beside(1)), (false, true));
}

#[test]
fn metrics_of_a_background_exist_where_there_is_one() {
    let of = |metric: &str| {
        faults(&format!(
            "{}metric = \"{metric}\"\n",
            store("lmdb", "update = {}\nbackground = { get = { threads = \"{readers}\" } }")
        ))
    };
    assert_eq!(of("work.background.latency.p99"), "no faults");
    assert!(of("write.background.rate").ends_with("phase `write` has no background | these phases have one: `work`"));
    let time = of("work.background.time");
    assert!(
        time.contains(
            "the background of `work` ends with the phase's own operations | compare its rate or latencies, such as \
             `work.background.latency.p50`"
        ),
        "{time}"
    );
}

#[test]
fn amounts_of_the_process_are_no_speed_beside_a_background() {
    let phase = "update = {}\nbackground = { get = { rate = \"100/s\", threads = \"{readers}\" } }";
    let experiment = sound(&store("lmdb", phase));
    let spec = &experiment.variants()[0].spec.phases[1];
    assert!(spec.prescribes(None, Metric::Cpu).is_some() && spec.prescribes(None, Metric::Time).is_none());
    let of = |phase: &str, metric: &str| faults(&format!("{}metric = \"{metric}\"\n", store("lmdb", phase)));
    let cpu = of(phase, "work.cpu");
    assert!(cpu.contains("`work` includes what its background does | compare its time, rate or latencies"), "{cpu}");
    let writer = "get = {}\nbackground = { update = { threads = \"{readers}\" } }";
    for metric in ["wall", "cpu.wait", "faults.major", "read"] {
        assert!(of(phase, &format!("work.{metric}")).contains("includes what its background does"), "{metric}");
    }
    for metric in ["fdatasync", "written", "flushes"] {
        assert_eq!(of(phase, &format!("work.{metric}")), "no faults", "readers write nothing");
        assert!(of(writer, &format!("work.{metric}")).contains("includes what its background does"), "{metric}");
    }
    for metric in ["time", "gap.cpu", "anon.max", "disk", "pressure.io"] {
        assert_eq!(of(writer, &format!("work.{metric}")), "no faults");
    }
    for metric in ["fdatasync", "anon.max", "disk", "pressure.io", "wall"] {
        let found = of(writer, &format!("work.background.{metric}"));
        assert!(found.contains("are known of the process, not of its background"), "{found}");
    }
}

#[test]
fn backgrounds_that_cannot_run_are_refused() {
    let of = |engine: &str, phase: &str| {
        let text = store(engine, phase).replace("[factors]\nreaders = [1, 2]\n", "");
        faults(&text.replace("[compare]\nbaseline = { readers = 1 }\n", ""))
    };
    let all = [
        of("lmdb", "update = {}\nbackground = { get = { count = 3 } }"),
        of("lmdb", "update = {}\nbackground = { get = { duration = \"1 s\", replicas = 2, share = \"queue\" } }"),
        of("lmdb", "update = {}\nbackground = { get = {}, scan = {} }"),
        of("lmdb", "update = {}\nbackground = { put = {} }"),
        of("lmdb", "update = {}\nbackground = { find = {} }"),
        of("lmdb", "persist = {}\nbackground = { get = {} }"),
        of("lmdb", "update = {}\nbackground = { mix = { read = 1, insert = 1 } }"),
        of("lmdb", "get = { replicas = 2 }\nbackground = { get = {} }"),
        of("lmdb", "update = {}\nbackground = { get = { sample = { operations = 10 } } }"),
        of("lmdb", "get = {}\nbackground = { update = { transaction = \"open\" } }"),
        of("logfile", "get = {}\nbackground = { scan = {} }"),
        of("memory", "update = {}\nbackground = { get = { transaction = \"single\" } }"),
        of(
            "lmdb",
            "update = { transaction = \"open\" }\n[[phase]]\nname = \"more\"\nget = {}\nbackground = { update = {} }\n[[phase]]\nname = \"end\"\ncommit = {}",
        ),
        of("memory", "get = { transaction = \"single\" }\nbackground = { update = {} }"),
        of("memory", "update = {}\nbackground = { get = { transaction = { batch = 5 } } }"),
        of(
            "memory",
            "update = { transaction = \"open\" }\n[[phase]]\nname = \"more\"\nget = {}\nbackground = { get = {} }\n[[phase]]\nname = \"end\"\ncommit = {}",
        ),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    13:24 a background ends with the phase: it has no `count` | leave `count` out
    13:24 a background ends with the phase: it has no `duration` | leave `duration` out
    13:42 a background runs in the process of the phase: it has no `replicas` | leave `replicas` out
    13:56 a background has no number of operations that its clients could share | leave `share` out
    13:26 a background has operations of one kind, not `get` and `scan` | write a `mix` for several kinds
    13:16 unknown key `put` | known: `get`, `scan`, `find`, `update`, `mix`
    13:23 `find` needs the key `query` | the query of each operation, or several that it runs in order: `[[phase.find.query]]`
    13:16 `persist` repeats no operations, so it has no background | give the background to a phase with operations
    13:16 `update` and its background both write, so it would not be known which version of a record is stored | let one of the two only read
    13:16 a phase with `replicas` has no background | leave one of the two out
    13:16 groups of operations (`sample`) are not recorded of a background | leave `sample` out: latencies of single operations are recorded
    13:16 the transaction of a background ends with the phase | write `transaction = "single"`
    13:16 `logfile` does not keep keys in order, so it cannot scan | leave the variant out with `[design] skip`, or the phase with `when`
    13:16 commits of `memory` wait for readers: with a transaction that lasts as long as the phase, the phase and its background would wait for each other | leave the variant out with `[design] skip`, or the phase with `when`
    16:16 the background would wait for the transaction of phase `work`, which is open | put a phase with `commit = {}` before it
    13:16 commits of `memory` wait for readers: with a transaction that lasts as long as the phase, the phase and its background would wait for each other | leave the variant out with `[design] skip`, or the phase with `when`
    no faults
    16:16 commits of `memory` wait for readers: with a transaction that lasts as long as the phase, the phase and its background would wait for each other | leave the variant out with `[design] skip`, or the phase with `when`
    "#);
}

#[test]
fn phase_of_a_program_has_no_background() {
    let of = |phase: &str| faults(&format!("[program.x]\ncommand = \"a\"\n[[phase]]\nname = \"p\"\n{phase}\n"));
    let found = of("begin = { line = \"x\" }\nbackground = { get = {} }");
    assert_eq!(found, "6:1 only a phase with operations on a store has a `background` | remove `background`");
}
