//! Tests of what begins and ends the phases of programs.

use super::programs::observe;
use super::*;
use prony_model::program::Trigger;
use prony_model::spec::PhaseSpec;
use prony_model::units::Nanos;

/// Every kind of begin and end.
pub(super) const PHASES: &str = r#"
[factors]
first = ["load", "start"]
[program.server]
command = ["node", "server.js"]
runtime = "node"
[[phase]]
name = "load"
begin = { call = "lib/store.js#load" }
end = { call = "lib/store.js#Store.prototype.flush" }
at_end = { collect = true }
[[phase]]
name = "start"
end = { line = '^listening' }
[[phase]]
name = "settle"
begin = { after = "{first}" }
end = { settle = { quiet = "5 s", within = "2 min" } }
[[phase]]
name = "farewell"
begin = { after = "settle" }
[[phase]]
name = "mixed"
begin = { mark = "warm" }
end = { call = "server.js#close" }
"#;

fn phases(text: &str, variant: usize) -> Vec<PhaseSpec> {
    sound(text).variants()[variant].spec.phases.clone()
}

#[test]
fn a_phase_may_go_from_one_function_to_another() {
    let phases = phases(PHASES, 0);
    let load = observe(&phases[0]);
    let invocation = |call: &str| Some(Trigger::Invocation(call.into()));
    assert_eq!(load.begin, invocation("lib/store.js#load"));
    assert_eq!(load.end, invocation("lib/store.js#Store.prototype.flush"));
    assert_eq!(
        (load.call(), load.suspends()),
        (None, true),
        "it is not a function itself, and is suspended where one ends it"
    );
    let mixed = observe(&phases[4]);
    assert_eq!((&mixed.begin, mixed.suspends()), (&Some(Trigger::Mark("warm".into())), false));
}

#[test]
fn a_phase_may_end_when_the_program_is_quiet() {
    for (variant, first) in ["load", "start"].into_iter().enumerate() {
        let phases = phases(PHASES, variant);
        let settle = observe(&phases[2]);
        assert_eq!(settle.begin, Some(Trigger::After(first.into())));
        let quiet = settle.settle().unwrap();
        assert_eq!((quiet.quiet, quiet.within), (Nanos::from_secs(5), Nanos::from_secs(120)));
        assert_eq!(quiet.bytes, prony_model::units::Bytes::from_bytes(1_000_000), "what is not said is as for a store");
        assert!(!settle.stop && !settle.suspends());
        assert_eq!(
            (&observe(&phases[3]).begin, &observe(&phases[3]).end),
            (&Some(Trigger::After("settle".into())), &None)
        );
    }
    let text = "[program.x]\ncommand = \"x\"\n[[phase]]\nname = \"a\"\nend = { settle = {} }\n";
    assert_eq!(observe(&phases(text, 0)[0]).begin, None, "from the program's own begin");
}

#[test]
fn faults_of_begins_and_ends_are_named() {
    let text = r#"
[program.x]
command = "x"
runtime = "node"
[[phase]]
name = "whole"
begin = { line = "go" }
[[phase]]
name = "b"
begin = { after = "whole" }
end = { settle = {} }
[[phase]]
name = "c"
begin = { after = "d" }
end = { call = "a.js" }
[[phase]]
name = "d"
begin = { after = "bb" }
end = { line = "x" }
at_end = { collect = true }
[[phase]]
name = "e"
begin = { settle = {} }
end = { after = "d" }
[[phase]]
name = "f"
begin = { after = "d", line = "x" }
end = { settle = { quiet = "5" } }
"#;
    insta::assert_snapshot!(faults(text), @r#"
    10:19 phase `whole` lasts until the program ends, so no phase can follow it | give `whole` an `end`
    14:19 no earlier phase is named `d` | known: `whole`, `b`
    15:16 `a.js` is not the name of a function in the runtime `node` | write `FILE#EXPORT`; full stops separate nested names
    18:19 no earlier phase is named `bb` | known: `whole`, `b`, `c`
    20:1 `at_end` needs a `call`, at whose end it suspends the program | add `call = "FILE#EXPORT"` to the phase, or remove `at_end`
    22:8 `at_end` of phase `d` suspends the program while phase `e` is running, so `e` would have no measurements | end phase `e` earlier, or measure the two phases in two separate experiments
    23:11 unknown key `settle` | known: `line`, `mark`, `replicas`, `call`, `after`
    24:9 unknown key `after` | known: `line`, `mark`, `replicas`, `call`, `settle`
    27:11 `begin` takes one of `line` and `after`, not both
    28:28 `quiet`: `5` has no unit of time; known: ns, us, ms, s, min, h | expected a time above zero such as `"5 s"`
    "#);
}

/// What began at the stop would measure how long the kernel takes to end the program.
#[test]
fn phases_that_can_only_begin_when_the_program_is_stopped_are_refused() {
    let of = |phases: &str| {
        let program = "[program.x]\ncommand = \"x\"\nreplicas = { count = 2, phase = \"a\" }\n";
        faults(&format!("{program}{phases}"))
    };
    let stopping = "[[phase]]\nname = \"a\"\nbegin = { line = 'go' }\nend = { replicas = \"ended\" }\n";
    let after = "[[phase]]\nname = \"b\"\nbegin = { after = \"a\" }\n";
    let too = "[[phase]]\nname = \"c\"\nbegin = { replicas = \"ended\" }\n";
    insta::assert_snapshot!(of(&format!("{stopping}then = \"stop\"\n{after}{too}")), @r#"
    11:19 prony stops the program when phase `a` ends (`then = "stop"`), so no phase can follow it | remove `then` from `a`, or this phase
    14:22 prony stops the program when the replicas have ended (`then = "stop"` of phase `a`), so no phase can begin then | remove `then` from `a`, or this phase
    "#);
    assert_eq!(of(&format!("{stopping}{after}{too}")), "no faults");
}

#[test]
fn lines_and_marks_whose_order_would_matter_are_refused() {
    let of = |phases: &str| faults(&format!("[program.x]\ncommand = \"x\"\nruntime = \"node\"\n{phases}"));
    let backwards = "[[phase]]\nname = \"a\"\nbegin = { line = 'go' }\nend = { mark = \"a\" }\n";
    let pair = |first: &str, second: &str| {
        let phase = |name: &str, keys: &str| format!("[[phase]]\nname = \"{name}\"\n{keys}read = 't (?<time>.)'\n");
        format!("{}{}", phase("b", first), phase("c", second))
    };
    let (marks, call, line) = ("mark = \"m\"\n", "call = \"a.js#f\"\n", "begin = { line = 'go' }\n");
    let said = [backwards.to_owned(), pair(marks, line), pair(line, call)].map(|phases| of(&phases)).join("\n--\n");
    insta::assert_snapshot!(said, @r#"
    7:9 the phase begins with a line and ends with a mark, but their order is not known: they arrive by different channels | begin the phase with a mark too, `begin = { mark = "NAME" }`, or end it with a line
    --
    11:8 phases `b` and `c` read the same lines, and it cannot be determined in which of them a line is written: marks and calls arrive by another channel than lines | change the patterns so that each line matches the pattern of one phase only
    --
    11:8 phases `b` and `c` read the same lines, and it cannot be determined in which of them a line is written: marks and calls arrive by another channel than lines | change the patterns so that each line matches the pattern of one phase only
    "#);
    assert_eq!(of(&pair(line, "end = { line = 'x' }\n")), "no faults");
    let forwards = backwards.replace("begin = { line", "begin = { mark").replace("end = { mark", "end = { line");
    assert_eq!(of(&forwards), "no faults");
}

#[test]
fn a_suspension_inside_a_phase_that_ends_with_the_program_is_refused() {
    let of = |phases: &[&str]| {
        let phases = phases.concat().replace("[[", "\n[[").replace("; ", "\n");
        faults(&format!("[program.x]\ncommand = \"x\"\nruntime = \"node\"{phases}\n"))
    };
    let suspends = "[[phase]]; name = \"f\"; call = \"a.js#f\"; at_end = { collect = true }";
    let named = |keys: &str| format!("[[phase]]; name = \"o\"; {keys}");
    let whole = named("timed = true; begin = { call = \"a.js#f\" }");
    let later =
        "[[phase]]; name = \"g\"; begin = { after = \"o\" }; end = { call = \"a.js#g\" }; at_end = { wait = \"1 s\" }";
    let first = named("begin = { call = \"a.js#h\" }; end = { line = 'x' }");
    let chain = [&first, "[[phase]]; name = \"w\"; begin = { call = \"a.js#h\" }", later];
    let said = [of(&[&whole, suspends]), of(&[suspends, &whole]), of(&chain)].join("\n--\n");
    insta::assert_snapshot!(said, @"
    11:1 `at_end` of phase `f` suspends the program while phase `o` is running, so `o` would have no measurements | end phase `o` earlier, or measure the two phases in two separate experiments
    --
    9:8 `at_end` of phase `f` suspends the program while phase `o` is running, so `o` would have no measurements | end phase `o` earlier, or measure the two phases in two separate experiments
    --
    15:1 `at_end` of phase `g` suspends the program while phase `w` is running, so `w` would have no measurements | end phase `w` earlier, or measure the two phases in two separate experiments
    ");
    for other in [
        "begin = { after = \"f\" }",
        "begin = { call = \"a.js#g\" }",
        "begin = { line = 'go' }",
        "begin = { call = \"a.js#f\" }; end = { line = 'x' }",
        "call = \"a.js#outer\"; at_end = { wait = \"1 s\" }",
    ] {
        assert_eq!(of(&[suspends, &named(other)]), "no faults", "{other}");
    }
    assert_eq!(of(&["[[phase]]; name = \"f\"; call = \"a.js#f\"; then = \"stop\"", &whole]), "no faults");
}

#[test]
fn an_idle_boundary_that_cannot_come_is_refused() {
    let program = |keys: &str, settle: &str| {
        let phase = format!("[[phase]]\nname = \"a\"\n{keys}\nend = {{ settle = {{ {settle} }} }}\n");
        faults(&format!("[program.x]\ncommand = \"x\"\n{phase}"))
    };
    assert_eq!(program("", "quiet = \"1 s\", within = \"2 s\""), "no faults");
    assert_eq!(
        program("", "quiet = \"15 min\""),
        "6:28 `quiet` (15 min 0 s) must be shorter than `within` (default 10 min 0 s) | write a `within` \
         that is longer than `quiet`"
    );
    assert!(
        program("", "within = \"2 s\"").starts_with("6:29 `quiet` (2.000 s) must be shorter than `within` (2.000 s)")
    );
    let late = program("limit = \"5 s\"", "within = \"6 s\"");
    assert_eq!(
        late,
        "6:29 `within` (6.000 s) is longer than the limit of the phase (5.000 s), at which the trial has timed out | write a \
         shorter `within`, or give the phase a longer `limit`"
    );
    assert_eq!(program("limit = \"6 s\"", "within = \"6 s\""), "no faults");
    assert!(program("limit = \"5 min\"", "").starts_with("6:18 `within` (default 10 min 0 s) is"));
    let limits = "[limits]\ntime = { phase = \"1 min\" }\n";
    let store = "[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"s\"\n";
    let said = faults(&format!("{limits}{store}settle = {{ quiet = \"1 h\", within = \"1 min\" }}\n"));
    assert!(said.starts_with("7:20 `quiet` (60 min 0 s) must be shorter than `within` (60.000 s)"), "{said}");
    assert!(faults(&format!("{limits}{store}settle = {{}}\n")).starts_with("7:10 `within` (default 10 min 0 s)"));
    let text = "[program.x]\ncommand = \"x\"\nruntime = \"node\"\n[limits]\ntime = { phase = \"1 min\" }\n[[phase]]\nname = \"a\"\n\
                call = \"a.js#f\"\nat_end = { settle = { quiet = \"20 min\" } }\n";
    let said = faults(text);
    assert!(said.starts_with("9:31 `quiet` (20 min 0 s) must be shorter"), "{said}");
    assert!(!said.contains("longer than the limit"), "that time is in no limit: {said}");
}

#[test]
fn settle_of_and_beside_are_lists_of_signs() {
    let faults_of = |keys: &str| {
        faults(&format!("[program.x]\ncommand = \"x\"\n[[phase]]\nname = \"a\"\nend = {{ settle = {{ {keys} }} }}\n"))
    };
    assert_eq!(faults_of("of = [\"cpu\", \"dirty\"], beside = []"), "no faults");
    assert!(faults_of("of = []").contains("`of` names no sign"), "{}", faults_of("of = []"));
    assert!(faults_of("of = [\"flush\"]").contains("`of` cannot be `flush`"), "{}", faults_of("of = [\"flush\"]"));
    assert!(faults_of("beside = \"dirty\"").contains("beside"), "a list, not a word");
}

/// A phase that is a level had the name in the text of the placeholder, which is none: its metrics were refused.
#[test]
fn metrics_of_a_phase_that_is_a_level_are_known_by_its_name_there() {
    let text = |second: &str| {
        format!(
            "[factors.p]\neach = {{ name = \"write\", put = {{}} }}\nall = {{ name = \"{second}\", put = {{ count = 5 }} }}\n\
             [store]\nengine = \"lmdb\"\n[data]\nrecords = 9\n[compare]\nbaseline = {{ p = \"each\" }}\nmetric = \"write.time\"\n"
        )
    };
    let of = |second: &str| {
        let body =
            text(second).replacen("[factors.p]", "phase = [\"{p}\", { name = \"read\", get = {} }]\n[factors.p]", 1);
        faults(&body)
    };
    assert_eq!(of("write"), "no faults");
    assert_eq!(of("store"), "no faults", "one of them has it");
}

/// Every trial lacked the phase, and was a success.
#[test]
fn lines_of_output_that_prony_does_not_read_are_refused() {
    let of = |output: &str, phase: &str| {
        let program = format!("[program.x]\ncommand = \"a\"\noutput = {output}\n");
        faults(&format!("{program}[[phase]]\nname = \"p\"\n{phase}\n"))
    };
    for phase in ["begin = { line = \"x\" }", "end = { line = \"x\" }", "read = \"(?<time>1)\""] {
        for output in ["\"null\"", "\"inherit\""] {
            assert!(of(output, phase).starts_with("3:10 phase `p` needs lines of the program's output"), "{phase}");
        }
        assert_eq!(of("{ file = \"f\" }", phase), "no faults", "its messages are read");
    }
    assert_eq!(of("\"null\"", "mark = \"m\""), "no faults");
}

/// Every trial timed out.
#[test]
fn phases_that_take_longer_than_their_limit_are_refused() {
    let of = |limits: &str, phase: &str| {
        let store = "[store]\nengine = \"lmdb\"\n[data]\nrecords = 9\n";
        faults(&format!("{limits}{store}[[phase]]\nname = \"p\"\n{phase}\n"))
    };
    let get = "get = { duration = \"5 s\" }\n";
    let pause = "pause = \"5 s\"\n";
    for phase in [get, pause] {
        let own = of("", &format!("{phase}limit = \"1 s\""));
        assert!(own.contains("takes 5.000 s, and the limit of the phase is 1.000 s"), "{own}");
        assert_eq!(of("", &format!("{phase}limit = \"6 s\"")), "no faults");
    }
    assert!(
        of("[limits]\ntime = { phase = \"5 s\" }\n", get)
            .contains("takes 5.000 s, and the limit of the phase is 5.000 s")
    );
    let two = format!("{get}[[phase]]\nname = \"q\"\n{pause}");
    let said = of("[limits]\ntime = \"9 s\"\n", &two);
    assert!(said.starts_with("2:8 the phases take 10.000 s or more, and the limit of the trial is 9.000 s"), "{said}");
    assert_eq!(of("[limits]\ntime = \"11 s\"\n", &two), "no faults");
}
