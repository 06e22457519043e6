//! Metrics of which no trial could have a value cost all blocks of a run, and there was no verdict at its end.

use super::*;
use crate::warnings::warnings;

fn of(metric: &str, rest: &str) -> String {
    faults(&format!("[compare]\nmetric = \"{metric}\"\n{rest}"))
}

fn warned(metric: &str, rest: &str) -> Vec<String> {
    let found = warnings(&sound(&format!("[compare]\nmetric = \"{metric}\"\n{rest}")), &|_| false);
    found.into_iter().map(|problem| problem.message).collect()
}

/// A program that leaves a process behind has values, which were refused.
#[test]
fn memory_at_the_end_of_a_program_is_warned_about() {
    let program = "[program.x]\ncommand = \"a\"\n";
    let said = |metric: &str| format!("`{metric}` is measured only where a process is left when the program has ended");
    for (metric, name) in
        [("run.rss", "run.rss.end"), ("run.pss.end", "run.pss.end"), ("run.threads.before", "run.threads.before")]
    {
        assert_eq!((of(metric, program).as_str(), warned(metric, program)), ("no faults", vec![said(name)]));
    }
    for metric in ["run.rss.peak", "run.anon.max"] {
        assert_eq!((of(metric, program).as_str(), warned(metric, program)), ("no faults", vec![]), "{metric}");
    }
    // The phase before ends while the program lives.
    let phases = "[[phase]]\nname = \"a\"\nend = { line = \"a\" }\n[[phase]]\nname = \"b\"\nbegin = { line = \"a\" }\n";
    let of_phases = |metric: &str| warned(metric, &format!("{program}{phases}"));
    assert_eq!((of_phases("a.rss.end"), of_phases("b.rss.end")), (vec![], vec![said("b.rss.end")]));
    let heap = format!("{program}directory = \".\"\nruntime = \"node\"\n");
    assert_eq!(warned("run.heap.used.end", &heap), [""; 0]);
    assert_eq!(warned("run.main.anon.end", &heap), [said("run.main.anon.end")]);
}

#[test]
fn rates_of_a_program_that_reports_none_are_refused() {
    let program = "[program.x]\ncommand = \"a\"\n";
    for metric in ["run.rate", "run.latency.p99", "run.operations"] {
        let expected = format!(
            "2:10 `{metric}` is never measured: nothing says what the program's operations are | compare `run.time`, or let `read` in \
             a `[[phase]]` read it from the output"
        );
        assert_eq!(of(metric, program), expected);
        let read = "[[phase]]\nname = \"run\"\nread = '(?<operations>\\d+)'\n";
        assert_eq!(of(metric, &format!("{program}{read}")), "no faults");
    }
}

#[test]
fn percentiles_of_too_few_operations_are_refused() {
    let store = |records: u32, keys: &str| {
        format!(
            "[store]\nengine = \"lmdb\"\n[data]\nrecords = {records}\n[[phase]]\nname = \"w\"\nput = {{}}\n[[phase]]\nname = \"r\"\nget = {{ {keys} }}\n"
        )
    };
    let http = |keys: &str| {
        format!("[[phase]]\nname = \"r\"\nhttp = {{ url = \"http://127.0.0.1:9\", path = \"/\", {keys} }}\n")
    };
    let at_most = |most: u32, lower: &str| {
        format!(
            "2:10 `r.latency.p99` needs 1000 timed operations in a trial, and `r` has {most} | {lower}raise their number to 1000"
        )
    };
    let p50 = "compare `r.latency.p50`, or ";
    for (rest, expected) in [
        (http("rate = 500, requests = 100"), at_most(100, "compare `r.latency.p90`, or ")),
        (http("rate = 90, duration = \"1 s\""), at_most(90, p50)),
        (http("rate = { ramp = { from = 10, to = 30, over = \"2 s\" } }"), at_most(40, p50)),
        (http("requests = 1000"), "no faults".to_owned()),
        (http("duration = \"1 s\""), "no faults".to_owned()),
        (store(19, ""), at_most(19, "")),
        (store(90, ""), at_most(90, p50)),
        (store(90, "count = 1000"), "no faults".to_owned()),
        (store(90, "count = 5000, order = \"uniform\", sample = { one_in = 100 }"), at_most(51, p50)),
        (store(90, "duration = \"1 s\""), "no faults".to_owned()),
    ] {
        assert_eq!(of("r.latency.p99", &rest), expected, "{rest}");
    }
}

/// The first value of a search and a small trial of a sound file were refused.
#[test]
fn percentiles_of_a_part_of_an_experiment_are_not_refused() {
    let text = "[factors]\nn = [100, 1000]\n[compare]\nmetric = \"r.latency.p99\"\n\
                [[phase]]\nname = \"r\"\nhttp = { url = \"http://127.0.0.1:9\", path = \"/\", requests = \"{n}\" }\n";
    let only = vec![("n".to_owned(), vec!["100".to_owned()])];
    assert_eq!(faults_with(text, &Overrides { only, ..Overrides::default() }), "no faults");
}

#[test]
fn percentiles_that_only_some_variants_have_are_warned_about() {
    let varied = "[factors]\nn = [100, 1000]\n[[phase]]\nname = \"r\"\nhttp = { url = \"http://127.0.0.1:9\", path = \"/\", requests = \"{n}\" }\n";
    let said = "`r.latency.p99` needs 1000 timed operations in a trial, and `r` has 100 in 1 of 2 variants";
    assert_eq!(warned("r.latency.p99", varied), [said]);
    assert_eq!(warned("r.latency.p90", varied), [""; 0]);
    // How many arrive at random is random.
    let rate = "rate = { rate = 990, arrivals = \"poisson\" }, duration = \"1 s\"";
    let random = format!("[[phase]]\nname = \"r\"\nhttp = {{ url = \"http://127.0.0.1:9\", path = \"/\", {rate} }}\n");
    assert_eq!(
        warned("r.latency.p99", &random),
        ["`r.latency.p99` needs 1000 timed operations in a trial, and `r` has 990"]
    );
}
