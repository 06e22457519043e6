//! Tests of programs with replicas.

use super::*;
use crate::warnings::warnings;
use prony_model::program::{CommandLine, DIR, INSTANCE, ReplicasSpec, TMP, Trigger};
use prony_model::spec::Action;

const WORKERS: &str = r#"
[factors]
workers = [1, 3]
[program.site]
command = "main --load"
env = { STORE = "{dir}/store" }
[program.site.replicas]
count = "{workers}"
phase = "queries"
env = { WORKER = "{instance} of {workers} in {dir} and {tmp}", SHARE = 2 }
command = ["worker", "{instance}", "{workers}"]
read = '(?<time>[\d.]+)s - (?<operations>\d{1,9})/'
[[phase]]
name = "queries"
begin = { line = "ready" }
end = { replicas = "ended" }
then = "stop"
[compare]
metric = "queries.makespan"
metrics = ["queries.replica.3.rss.max", "queries.replicas.rate"]
"#;

fn replicas(text: &str) -> Vec<Option<ReplicasSpec>> {
    let experiment = sound(text);
    let of = |spec: &prony_model::spec::TrialSpec| spec.subject.program().unwrap().replicas.clone();
    experiment.variants().iter().map(|variant| of(&variant.spec)).collect()
}

#[test]
fn every_key_of_replicas_is_read() {
    let found = replicas(WORKERS);
    let env = [("SHARE", "2".to_owned()), ("WORKER", format!("{INSTANCE} of 3 in {DIR} and {TMP}"))];
    let expected = ReplicasSpec {
        count: 3,
        phase: "queries".into(),
        env: env.map(|(name, value)| (name.to_owned(), value)).into(),
        command: Some(CommandLine::Words(vec!["worker".into(), INSTANCE.into(), "3".into()])),
        read: Some(r"(?<time>[\d.]+)s - (?<operations>\d{1,9})/".into()),
    };
    assert_eq!(found[1].as_ref(), Some(&expected), "braces of a pattern are no placeholders");
    assert_eq!(found[0].as_ref().map(|replicas| replicas.count), Some(1));
    let experiment = sound(WORKERS);
    let Action::Observe(observe) = &experiment.variants()[0].spec.phases[0].action else { panic!() };
    assert_eq!((&observe.end, observe.stop), (&Some(Trigger::Replicas), true));
    let json = serde_json::to_string(&experiment).unwrap();
    assert_eq!(serde_json::from_str::<Experiment>(&json).unwrap(), experiment);
}

#[test]
fn none_of_them_is_a_level_too() {
    let text = "[factors]\nn = [0, 2]\n[program.x]\ncommand = \"a\"\nreplicas = { count = \"{n}\", phase = \"run\" }\n";
    let found = replicas(text);
    assert_eq!(found.iter().map(|found| found.as_ref().map(|found| found.count)).collect::<Vec<_>>(), [None, Some(2)]);
    assert_eq!(found[1].as_ref().unwrap().command, None);
}

#[test]
fn what_cannot_be_started_is_named_all_at_once() {
    let said = faults(
        "[program.x]\ncommand = \"a {instance}\"\n[program.x.replicas]\ncount = \"many\"\nphase = \"{instance}\"\n\
         read = '(?<speed>x)'\nenv = { A = \"{instance}\" }\nprocesses = 3\n",
    );
    for expected in [
        "2:14 `{instance}` has no meaning here | `{instance}`, the number of a replica, can be used in `command` and `env`",
        "4:9 `count` cannot be the text `many` | expected a whole number from 0 to 1000",
        "5:10 `{instance}` has no meaning here",
        "8:1 unknown key `processes`",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let of = |replicas: &str, phases: &str| {
        faults(&format!("[program.x]\ncommand = \"a\"\nshell = true\nreplicas = {{ {replicas} }}\n{phases}"))
    };
    let queries = "[[phase]]\nname = \"queries\"\n";
    assert_eq!(
        of("count = 1, phase = \"querys\"", queries),
        "4:33 program `x` has no phase `querys` with which replicas could start | did you mean `queries`?"
    );
    assert_eq!(of("count = 0, phase = \"querys\"", queries), "no faults");
    let env = of("count = 1, phase = \"queries\", env = { PRONY_MARKS = 1, \"A=B\" = 2 }", queries);
    assert!(
        env.contains("4:52 the variable `PRONY_MARKS` is set by prony")
            && env.contains("4:69 `A=B` is not a valid name"),
        "{env}"
    );
    let words = of("count = 1, phase = \"queries\", command = [\"b\"], read = 'x'", queries);
    assert!(
        words.contains("4:54 with `shell`, `command` must be one text") && words.contains("has no named group"),
        "{words}"
    );
    assert!(of("phase = \"queries\"", queries).contains("`replicas` needs the key `count`"));
}

/// Where the hint led, `shell` was an unknown key.
#[test]
fn hint_on_a_shell_of_replicas_names_the_table_that_has_it() {
    let hint = |shell: &str| {
        let program = format!("[program.x]\ncommand = \"a\"\n{shell}[program.x.replicas]\ncount = 1\nphase = \"q\"\n");
        let text = format!("{program}command = \"b | c\"\n[[phase]]\nname = \"q\"\n");
        warnings(&sound(&text), &|_| false).into_iter().map(|found| found.hint.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(hint(""), ["add `shell = true` to `[program.x]`, or write the command as a list of words"]);
    assert_eq!(hint("shell = true\n"), [""; 0]);
}

#[test]
fn phases_end_with_replicas_where_there_are_any() {
    let ends = "[[phase]]\nname = \"queries\"\nbegin = { line = \"x\" }\nend = { replicas = \"ended\" }\n";
    let of = |replicas: &str| faults(&format!("[program.x]\ncommand = \"a\"\n{replicas}\n{ends}"));
    assert_eq!(of("replicas = { count = 1, phase = \"queries\" }"), "no faults");
    let none = "7:9 the program has no replicas that could end | add `replicas` to the program; if their `count` is 0, \
                exclude the phase with its `when`";
    assert_eq!(of(""), none);
    assert_eq!(of("replicas = { count = 0, phase = \"queries\" }"), none);
    let found = faults(&format!("[program.x]\ncommand = \"a\"\n{}", ends.replace("ended", "gone")));
    assert!(found.contains("`replicas` cannot be `gone`"), "{found}");
}

#[test]
fn figures_may_be_those_of_a_replica() {
    let of = |more: &str, metric: &str| {
        let body = "replicas = { count = 2, phase = \"run\" }";
        faults(&format!("[program.x]\ncommand = \"a\"\n{body}\n{more}[compare]\nmetric = \"run.{metric}\"\n"))
    };
    assert_eq!(of("", "replica.2.rss.max"), "no faults");
    assert_eq!(of("runtime = \"node\"\n", "replica.2.worker.heap.used.max"), "no faults");
    let unknown = of("", "replica.2.worker.heap.used.max");
    assert!(unknown.contains("no instance `replica.2.worker` | instances where there are `replicas`"), "{unknown}");
    let without = faults("[program.x]\ncommand = \"a\"\n[compare]\nmetric = \"run.replicas.rate\"\n");
    assert!(without.contains("names the instance `replicas`"), "{without}");
}

/// A program whose two replicas start with the phase of this name.
fn started(phase: &str, phases: &str) -> String {
    faults(&format!("[program.x]\ncommand = \"a\"\nreplicas = {{ count = 2, phase = \"{phase}\" }}\n{phases}"))
}

fn phase(name: &str, keys: &str) -> String {
    format!("[[phase]]\nname = \"{name}\"\n{keys}\n")
}

const ENDED: &str = "{ replicas = \"ended\" }";

#[test]
fn replicas_do_not_wait_for_their_own_end() {
    let queries = phase("q", &format!("begin = {ENDED}\nend = {{ line = \"x\" }}"));
    let hint = "start the replicas with an earlier phase, or begin that phase with a line, a mark or a call";
    assert_eq!(
        started("q", &queries),
        format!("3:33 replicas would start with phase `q`, which begins only after the replicas have ended | {hint}")
    );
    let chain = [
        phase("a", &format!("begin = {{ line = \"x\" }}\nend = {ENDED}")),
        phase("b", "begin = { after = \"a\" }\nend = { line = \"y\" }"),
        phase("c", "begin = { after = \"b\" }"),
    ];
    for last in ["b", "c"] {
        let said = format!(
            "3:33 replicas would start with phase `{last}`, which comes after `a`, and `a` waits until the replicas have ended | {hint}"
        );
        assert_eq!(started(last, &chain.concat()), said);
    }
    assert_eq!(started("a", &chain.concat()), "no faults");
    let begun = chain.concat().replace("begin = { line = \"x\" }\nend", "end = { line = \"x\" }\nbegin");
    assert!(
        started("c", &begun).contains("comes after `a`"),
        "a begin may wait as an end may: {}",
        started("c", &begun)
    );
}

#[test]
fn no_phase_ends_by_what_it_waited_for() {
    let first = phase("q", &format!("begin = {{ line = \"x\" }}\nend = {ENDED}"));
    let again = phase("r", &format!("begin = {{ after = \"q\" }}\nend = {ENDED}"));
    let hint = "end the phase with a line, a mark, `settle`, or with the program";
    assert_eq!(
        started("q", &format!("{first}{again}")),
        format!("11:20 phase `r` begins when the replicas have ended, so the same event cannot end it | {hint}")
    );
    let both = phase("r", &format!("begin = {ENDED}\nend = {ENDED}"));
    assert!(started("q", &format!("{first}{both}")).contains("11:20 phase `r` begins when"));
    let other = phase("r", &format!("begin = {{ line = \"x\" }}\nend = {ENDED}"));
    assert_eq!(started("q", &format!("{first}{other}")), "no faults", "what began before them may end with them");
}

#[test]
fn phase_faults_hide_no_other_faults() {
    let broken = phase("a", "begin = { lime = 3, line = 3 }");
    let follows = phase("b", "begin = { after = \"c\" }");
    let said = started("querys", &format!("{broken}{follows}{}", phase("queries", "")));
    for expected in [
        "3:33 program `x` has no phase `querys` with which replicas could start | did you mean `queries`?",
        "`line` cannot be `3`",
        "9:19 no earlier phase is named `c`",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let known = started("a", &format!("{broken}{}", phase("b", "begin = { after = \"a\" }")));
    assert!(!known.contains("no phase") && !known.contains("no earlier phase"), "a phase at fault is there: {known}");
    let nameless = started("q", &format!("[[phase]]\nname = 3\n{}", phase("b", "begin = { after = \"a\" }")));
    assert!(
        !nameless.contains("no phase") && !nameless.contains("no earlier phase"),
        "it may be the one that is meant: {nameless}"
    );
}

#[test]
fn a_phase_that_is_left_out_is_said_to_be() {
    let text = "[factors]\nn = [0, 2]\n[program.x]\ncommand = \"a {n}\"\nreplicas = { count = 2, phase = \"q\" }\n";
    let phases = [
        phase("q", "when = { n = 2 }\nbegin = { line = \"x\" }\nend = { line = \"y\" }"),
        phase("r", "begin = { after = \"q\" }"),
    ];
    let hint = "the `when` of `q` excludes the phase from this variant: give the phases and programs that name it the same `when`, or give `replicas` a `count` of 0";
    assert_eq!(
        faults(&format!("{text}{}", phases.concat())),
        format!(
            "5:33 program `x` has no phase `q` with which replicas could start | {hint}\n\
             13:19 no earlier phase is named `q` | {hint}"
        )
    );
}

#[test]
fn a_level_may_say_what_only_a_trial_knows() {
    let text = r#"
[factors.reps]
none = { count = 0, phase = "run" }
three = { count = 3, phase = "run", command = "w {instance}", env = { W = "{instance} in {dir}", P = "{env.PLACE}" } }
[program.x]
command = "a"
replicas = "{reps}"
"#;
    let variables = [("PLACE".to_owned(), "{here}".to_owned())].into();
    let found = sound_with(text, &Overrides { variables, ..Overrides::default() });
    let three = found.variants()[1].spec.subject.program().unwrap().replicas.as_ref().unwrap();
    assert_eq!(three.command, Some(CommandLine::Words(vec!["w".into(), INSTANCE.into()])));
    let env = [("P", "{here}".to_owned()), ("W", format!("{INSTANCE} in {DIR}"))];
    assert_eq!(three.env, env.map(|(name, value)| (name.to_owned(), value)).into());
    assert!(faults(text).contains("4:103 the environment variable `PLACE` is not set"), "{}", faults(text));
    let elsewhere = faults(&text.replace("phase = \"run\", command", "phase = \"{dir}\", command"));
    assert!(elsewhere.contains("4:31 `{dir}` has no meaning here"), "{elsewhere}");
}

#[test]
fn figures_of_replicas_that_no_variant_starts_are_refused() {
    let text = |metric: &str| {
        let phases = [phase("load", "end = { line = \"x\" }"), phase("q", "begin = { after = \"load\" }")].concat();
        let replicas = "replicas = { count = \"{n}\", phase = \"q\" }";
        format!(
            "[compare]\nmetrics = [\"{metric}\"]\n[factors]\nn = [0, 3]\n[program.x]\ncommand = \"a\"\n{replicas}\n{phases}"
        )
    };
    assert_eq!(faults(&text("q.replica.3.rss.max")), "no faults");
    assert_eq!(
        faults(&text("q.replica.9.rss.max")),
        "2:12 `q.replica.9.rss.max`: no variant has a replica 9 | the last replica is `replica.3`"
    );
    for (instance, metric) in [("replica.1", "rss.max"), ("replicas", "rate")] {
        let name = format!("load.{instance}.{metric}");
        let said =
            format!("2:12 `{name}`: phase `load` has no replicas, so it has no metrics of them | replicas are in `q`");
        assert_eq!(faults(&text(&name)), said);
    }
    let none = text("q.replica.1.rss.max").replace("[0, 3]", "[0]");
    assert!(faults(&none).contains("names the instance `replica.1`"), "{}", faults(&none));
    let fewer = Overrides { set: vec![("n".to_owned(), vec!["1".to_owned()])], ..Overrides::default() };
    assert_eq!(faults_with(&text("q.replica.3.rss.max"), &fewer), "no faults", "the file has more of them");
    let fixed = text("q.replica.9.rss.max").replace("\"{n}\"", "3").replace("\"a\"", "\"a {n}\"");
    assert!(faults_with(&fixed, &fewer).contains("no variant has a replica 9"));
    let wrong = text("load.replica.9.rss.max").replace("phase = \"q\"", "phase = 3");
    assert!(!faults(&wrong).contains("metrics of replicas"), "it may be this phase that is meant: {}", faults(&wrong));
}

/// A store of this engine with one phase of this action after the records were written.
fn shared(engine: &str, action: &str) -> String {
    format!(
        "[store]\nengine = \"{engine}\"\n[data]\nrecords = 9\nkey = \"{{i}}\"\nvalue = \"v\"\n[[phase]]\nname = \"write\"\n\
         put = {{}}\n[[phase]]\nname = \"read\"\n{action}\n"
    )
}

#[test]
fn replicas_of_a_store_are_read() {
    let text = format!(
        "[factors]\nworkers = [1, 3]\n{}[compare]\nbaseline = {{ workers = 1 }}\nmetric = \"read.replica.3.rate\"\n\
         metrics = [\"read.replicas.pss.max\", \"read.makespan\"]\n",
        shared("lmdb", "get = { replicas = \"{workers}\", threads = 2, share = \"queue\" }")
    );
    let experiment = sound(&text);
    let of = |variant: usize| experiment.variants()[variant].spec.phases[1].action.ops().unwrap().clone();
    assert_eq!((of(0).replicas, of(1).replicas, of(1).threads), (Some(1), Some(3), 2));
    assert_eq!(of(1).share, prony_model::spec::Sharing::Queue);
    assert_eq!(experiment.variants()[1].spec.phases[1].action.replicas(), 3);
    let metric = |name: &str| faults(&text.replace("read.replica.3.rate", name));
    assert!(metric("read.replica.4.rate").contains("no variant has a replica 4"));
    assert!(metric("write.replica.1.rate").contains("phase `write` has no replicas"));
    let narrowed = faults(&text.replace("[1, 3]", "[1, 2]"));
    assert!(narrowed.contains("no variant has a replica 3 | the last replica is `replica.2`"), "{narrowed}");
}

#[test]
fn phases_that_processes_or_clients_cannot_share_are_refused() {
    let of = |engine: &str, action: &str| faults(&shared(engine, action));
    let all = [
        of("memory", "get = { replicas = 2 }"),
        of("lmdb", "update = { replicas = 2 }"),
        of("lmdb", "mix = { read = 1, replicas = 2 }"),
        of("lmdb", "get = { replicas = 2, sample = { operations = 10 } }"),
        of("lmdb", "get = { replicas = 0 }"),
        of("lmdb", "put = { threads = 2, share = \"queue\" }"),
        of("lmdb", "get = { threads = 2, share = \"queue\", order = \"uniform\" }"),
        of("lmdb", "get = { threads = 2, share = \"queue\", duration = \"1 s\" }"),
        of("lmdb", "get = { threads = 2, share = \"queue\", rate = 10 }"),
        of("lmdb", "get = { share = \"fair\" }"),
        faults(&format!(
            "{}[[phase]]\nname = \"end\"\ncommit = {{}}\n",
            shared("lmdb", "get = { replicas = 2 }").replace("put = {}", "put = { transaction = \"single\" }")
        )),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    12:20 `memory` lets only one process open this store, so `replicas` can only be 1 | leave the variant out with `[design] skip`, or the phase with `when`
    12:23 `update` runs in one process: only `get`, `scan` and `find` have `replicas` | write `threads` for several clients in one process
    12:30 `mix` runs in one process: only `get`, `scan` and `find` have `replicas` | write `threads` for several clients in one process
    12:20 groups of operations (`sample`) are not recorded where several processes share them | leave `sample` out: latencies of single operations are recorded in each process
    12:20 `replicas` cannot be `0` | expected a whole number from 1 to 1024
    12:30 only `get` and `find` take their operations from a queue | leave `share` out: each client has an equal share
    12:30 a queue needs an order that visits each record once | write `order = "shuffled"`, `"record"` or `"key"`
    12:30 a queue needs a number of operations, and `duration` sets none | write `count` instead of `duration`
    12:30 `rate` sets when each client starts its operations, so there is no queue | leave `share` out: each client has an equal share
    12:17 `share` cannot be `fair` | known: `equal`, `queue`
    12:20 other processes cannot read inside the transaction of phase `write`, which is open | put a phase with `commit = {}` before it
    "#);
    sound(&shared("memory", "get = { replicas = 1 }"));
}

/// Three threads took "82 % more time" than one by `time`, and 20 % more by the clock on the wall.
#[test]
fn times_that_leave_out_gaps_are_not_compared_by_default_where_clients_differ() {
    let file = |compare: &str, action: &str| {
        format!(
            "[factors]\nw = [1, 3]\nx = [1, 2]\n[compare]\n{compare}\n[store]\nengine = \"lmdb\"\n[data]\nkey = \"{{i}}\"\nrecords = \
             9\nvalue = \"v\"\n[[phase]]\nname = \"q\"\nget = {{ {action} }}\n"
        )
    };
    let both = "baseline = { w = 1, x = 1 }";
    let primary = |compare, action| sound(&file(compare, action)).compare().primary.as_ref().unwrap().to_string();
    assert_eq!(primary(both, "threads = \"{w}\", count = \"{x}\""), "q.wall");
    assert_eq!(primary(both, "replicas = \"{w}\", count = \"{x}\""), "q.makespan");
    assert_eq!(
        primary(both, "replicas = \"{w}\", duration = \"1 s\", transaction = { batch = \"{x}\" }"),
        "q.operations"
    );
    assert_eq!(
        primary(both, "replicas = \"{w}\", duration = \"{x} s\""),
        "q.rate",
        "twice the time has twice the operations"
    );
    assert_eq!(primary(both, "threads = 3, count = \"{w}\", transaction = { batch = \"{x}\" }"), "q.time");
    assert_eq!(primary("baseline = { x = 1 }", "threads = \"{w}\", count = \"{x}\""), "q.time", "of as many threads");
    let warned = |compare: &str, action: &str| {
        let found = warnings(&sound(&file(compare, action)), &|_| false).into_iter();
        found.map(|problem| (problem.line, problem.message, problem.hint.unwrap_or_default())).collect::<Vec<_>>()
    };
    let named = format!("{both}\nmetric = \"q.time\"\nmetrics = [\"q.wall\", \"q.rate\", \"q.rss.max\"]");
    let found = warned(&named, "threads = \"{w}\", count = \"{x}\"");
    assert_eq!(found.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), [6, 7], "{found:?}");
    assert!(found[0].1.contains("`q.time` leaves out") && found[0].2 == "compare `q.wall`", "{found:?}");
    assert_eq!(warned(&named, "count = \"{w}\", transaction = { batch = \"{x}\" }"), []);
}
