//! Tests of phases with several kinds of requests: mixes and sessions.

use prony_model::http::{BodySpec, HttpAmount, Part, RequestKind};

use super::services::at_rate;
use super::*;

/// A phase with a mix of these kinds of requests.
fn of_mix(mix: &str, more: &str) -> String {
    format!(
        "[data]\nrecords = 9\n[data.document]\nx = 1\n[[phase]]\nname = \"p\"\nhttp = {{ url = \"http://127.0.0.1:9\", mix = {mix}{more} }}\n"
    )
}

const MIX: &str = "{ read = { weight = 9, path = \"/a/{i}\" }, write = { path = \"/a\", json = \"{doc}\", headers = { X-A = \"own\" } } }";

/// An open loop had one connection by default, as a closed one has, so that answers came one after another.
#[test]
fn open_loop_has_many_connections_unless_they_are_named() {
    for (more, expected) in [
        ("", 1),
        (", rate = 50", 100),
        (", rate = 50, connections = 3", 3),
        (", rate = 50, threads = 120", 120),
        (", rate = { steps = [{ rate = 5, for = \"1 s\" }] }", 100),
    ] {
        let amount = if more.contains("steps") { "" } else { ", requests = 9" };
        let http = format!("http = {{ url = \"http://127.0.0.1:9\", path = \"/\"{amount}{more} }}");
        let experiment = sound(&format!("[[phase]]\nname = \"p\"\n{http}\n"));
        let connections = experiment.variants()[0].spec.phases[0].action.http().unwrap().connections;
        assert_eq!(connections, expected, "{more}");
    }
}

#[test]
fn mix_has_kinds_of_requests_with_weights_and_metrics_of_their_own() {
    let experiment = sound(&of_mix(MIX, ", headers = { x-a = \"of all\", X-B = \"b\" }, requests = 20"));
    let http = experiment.variants()[0].spec.phases[0].action.http().unwrap();
    let of = |kind: &RequestKind| {
        let headers: Vec<String> = kind.headers.iter().map(|(name, value)| format!("{name}: {:?}", value.0)).collect();
        (kind.name.clone().unwrap(), kind.weight, kind.method.clone(), headers)
    };
    let text = |text: &str| format!("{:?}", [Part::Text(text.to_owned())]);
    let read = vec![format!("x-a: {}", text("of all")), format!("X-B: {}", text("b"))];
    let write = vec![
        format!("X-B: {}", text("b")),
        format!("X-A: {}", text("own")),
        format!("content-type: {}", text("application/json")),
    ];
    let expected =
        [("read".to_owned(), 9.0, "GET".to_owned(), read), ("write".to_owned(), 1.0, "POST".to_owned(), write)];
    assert_eq!(http.kinds.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!((http.kinds[0].body.clone(), http.kinds[1].body.clone()), (None, Some(BodySpec::Document)));
    for (mix, more, metric, expected) in [
        (MIX, "", "p.kind.read.latency.p99", "no faults"),
        (MIX, "", "p.kind.write.rate", "no faults"),
        (MIX, ", think = \"1 s\"", "p.rate", "no faults"),
        (MIX, ", think = \"1 s\", rate = 9", "p.rate", "`think` and `rate` both say when a request starts"),
        (MIX, "", "p.kind.delete.rate", "there is no kind `delete` | kinds: `read`, `write`"),
        (MIX, "", "p.kind.read.timeouts", "is not known by kind"),
        (MIX, ", path = \"/\"", "p.rate", "`path` and `mix` exclude each other"),
        (MIX, ", json = \"{doc}\"", "p.rate", "`json` and `mix` exclude each other"),
        (MIX, ", save = { x = \"body\" }", "p.rate", "`save` and `mix` exclude each other | write `save` in each kind"),
        ("{}", "", "p.rate", "`mix` is empty"),
        ("{ read = { weight = 0, path = \"/\" } }", "", "p.rate", "`weight` cannot be `0`"),
        ("{ read = { weight = 1 } }", "", "p.rate", "`path`"),
        ("{ \"a b\" = { path = \"/\" } }", "", "p.rate", "`a b` is no name of a kind of request"),
        ("{ read = { path = \"x\" } }", "", "p.rate", "`path` does not begin with `/`"),
        ("{ read = { path = \"/{doc.y}\" } }", "", "p.rate", "`y`"),
        ("{ read = { path = \"{doc.x}\" } }", "", "p.rate", "no faults"),
    ] {
        let found = faults(&format!("[compare]\nmetric = \"{metric}\"\n{}", of_mix(mix, more)));
        assert!(found.contains(expected), "{mix} {more} {metric}\n  expected {expected}\n  found    {found}");
    }
    let single = faults(&format!("[compare]\nmetric = \"p.kind.read.rate\"\n{}", at_rate("100")));
    assert!(single.contains("the requests of phase `p` are of one kind"), "{single}");
    let neither = faults("[[phase]]\nname = \"p\"\nhttp = { url = \"http://127.0.0.1:9\" }\n");
    assert!(neither.contains("these requests have no `path` | write `path`, or `mix` or `session`"), "{neither}");
}

#[test]
fn mix_has_answers_and_saved_values_of_its_kinds() {
    let mix = "{ a = { path = \"/a\", answer = { match = \"own\" }, save = { x = \"body\" } }, b = { path = \"/b\" } }";
    let experiment = sound(&of_mix(mix, ", answer = { match = \"of all\" }"));
    let http = experiment.variants()[0].spec.phases[0].action.http().unwrap();
    let of = |kind: &RequestKind| {
        let matches = kind.answer.as_ref().and_then(|answer| answer.matches.clone());
        (matches.unwrap(), kind.save.keys().cloned().collect::<Vec<_>>())
    };
    let expected = [("own".to_owned(), vec!["x".to_owned()]), ("of all".to_owned(), Vec::new())];
    assert_eq!(http.kinds.iter().map(of).collect::<Vec<_>>(), expected);
    let own = of_mix("{ a = { path = \"/{saved.x}\", save = { x = \"body\" } }, b = { path = \"/{saved.x}\" } }", "");
    let found = faults(&own);
    assert!(found.contains("no earlier phase saves `x`") && found.matches("saves `x`").count() == 1, "{found}");
}

#[test]
fn kinds_of_requests_have_statuses_of_their_own() {
    let mix =
        "{ a = { path = \"/a\", expect = 201 }, b = { path = \"/b\" }, c = { path = \"/c\", expect = [200, 503] } }";
    let statuses = |more: &str| {
        let experiment = sound(&of_mix(mix, more));
        let http = experiment.variants()[0].spec.phases[0].action.http().unwrap();
        http.kinds.iter().map(|kind| kind.expect.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(statuses(""), ["201", "200 to 399", "200, 503"]);
    assert_eq!(statuses(", expect = 404"), ["201", "404", "200, 503"]);
    let found = faults(&of_mix(mix, ", retry = { on = [503], times = 1 }"));
    assert!(found.contains("status 503 is expected, so that no attempt with it fails"), "{found}");
}

#[test]
fn session_uses_what_its_earlier_requests_save() {
    let phase = |session: &str, more: &str| of_mix(session, more).replacen("mix = ", "session = ", 1);
    let create = "create = { path = \"/a\", json = \"{doc}\", save = { x = { json = \"/id\" } } }";
    let good = format!("{{ {create}, read = {{ path = \"/a/{{saved.x}}\" }} }}");
    let experiment = sound(&phase(&good, ", requests = 20, connections = 5, think = \"1 s\""));
    let http = experiment.variants()[0].spec.phases[0].action.http().unwrap();
    let names: Vec<_> = http.kinds.iter().filter_map(|kind| kind.name.as_deref()).collect();
    assert_eq!((http.session, names, http.amount), (true, vec!["create", "read"], HttpAmount::Requests(20)));
    let later = format!("{{ read = {{ path = \"/a/{{saved.x}}\" }}, {create} }}");
    let missing = "no earlier request of the session, and no earlier phase, saves `x`";
    for (session, more, metric, expected) in [
        (good.as_str(), "", "p.kind.read.latency.p99", "no faults"),
        (&good, ", duration = \"9 s\", warm_up = \"1 s\"", "p.rate", "no faults"),
        (&later, "", "p.rate", missing),
        (&good, "", "p.kind.write.rate", "there is no kind `write` | kinds: `create`, `read`"),
        (&good, ", requests = 7", "p.rate", "7 requests are no whole sessions of 2 requests | write `requests = 8`"),
        (&good, ", requests = 8, warm_up = \"1 s\"", "p.rate", "some of the sessions that `requests` counts"),
        (&good, ", rate = 9", "p.rate", "`rate` and `session` both say when a request starts"),
        (&good, ", mix = { a = { path = \"/\" } }", "p.rate", "`mix` and `session` exclude each other"),
        (&good, ", path = \"/\"", "p.rate", "`path` and `session` exclude each other"),
        ("{}", "", "p.rate", "`session` is empty"),
        (
            "{ a = { path = \"/\", save = { x = \"body\" } }, b = { path = \"/\", save = { x = { json = \"/x\", each = true } } } }",
            "",
            "p.rate",
            "`x` is saved once and with `each = true`",
        ),
        (
            "{ a = { method = \"HEAD\", path = \"/\", save = { x = \"body\" } } }",
            "",
            "p.rate",
            "answers to HEAD have no body that could be read",
        ),
        ("{ a = { path = \"/\", weight = 2 } }", "", "p.rate", "requests of a session have no weight"),
    ] {
        let found = faults(&format!("[compare]\nmetric = \"{metric}\"\n{}", phase(session, more)));
        assert!(found.contains(expected), "{session} {more} {metric}\n  expected {expected}\n  found    {found}");
    }
    let plain = "{ a = { path = \"/\" }, b = { path = \"/b\" } }";
    let without_data = phase(plain, "").replace("[data]\nrecords = 9\n[data.document]\nx = 1\n", "");
    assert_eq!(
        faults(&without_data),
        "3:1 nothing says how many requests are sent, and the file has no `[data]` with a record for each | write \
         `requests = 200` or `duration = \"10 s\"`"
    );
    let next = "[[phase]]\nname = \"q\"\nhttp = { url = \"http://127.0.0.1:9\", path = \"/{saved.x}\" }\n";
    assert_eq!(faults(&format!("{}{next}", phase(&good, ""))), "no faults");
}

/// Each was found only by the first trial.
#[test]
fn requests_that_no_trial_can_send_are_refused() {
    for (keys, expected) in [
        (
            "path = \"/\", connections = 2, threads = 3",
            "there are more threads, 3, than connections, 2 | each thread needs",
        ),
        (
            "path = \"/\", threads = 101, rate = { ramp = { from = 1, to = 9, over = \"9 s\" } }",
            "101 threads have a histogram of each of 10 steps and kinds of requests: these are more than 1000 of 0.3 MB | use 100 threads",
        ),
        ("path = \"/\", threads = 2", "there are more threads, 2, than connections, 1"),
        ("path = \"/a b\"", "`path` contains the character ' ' | write it as `%20`"),
        ("path = \"/ü{i}\"", "`path` contains the character 'ü' | write it as `%C3%BC`"),
        ("path = \"/\", method = \"G T\"", "`G T` is not a valid HTTP method"),
        ("path = \"/\", headers = { \"a b\" = \"c\" }", "`a b` is not a valid name of a header field"),
        ("path = \"/\", headers = { Content-Length = \"1\" }", "`Content-Length` is set by the load generator"),
        ("path = \"/\", headers = { a = \"b\\n{i}\" }", "`a` has a value with a control character"),
        ("path = \"/\", body = { file = \"f\", fill = { \"\" = \"x\" } }", "a text to replace is empty"),
    ] {
        let found = faults(&format!("[[phase]]\nname = \"p\"\nhttp = {{ url = \"http://127.0.0.1:9\", {keys} }}\n"));
        assert!(found.contains(expected), "{keys}\n  expected {expected}\n  found    {found}");
    }
    let sound = "[[phase]]\nname = \"p\"\nhttp = { url = \"http://127.0.0.1:9\", path = \"/%20\", headers = { a = \"b\\tc\" }, threads = 2, connections = 2, requests = 9 }\n";
    assert_eq!(faults(sound), "no faults");
}
