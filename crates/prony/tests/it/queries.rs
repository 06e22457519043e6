//! Tests queries over documents through the real binary: the same answers on every engine, and what they cost.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use prony_model::finding::Finding;
use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::record::TrialRecord;
use prony_results::RunData;

use crate::bench::{Bench, PRONY, amount, reading};

const RECORDS: f64 = 300.0;

const EXPERIMENT: &str = r#"
[factors]
engine   = ["memory", "lmdb", "sqlite", "redb", "fjall"]
encoding = ["msgpack", "json"]

[store]
engine = "{engine}"

[data]
records  = 300
encoding = "{encoding}"

[data.document]
id      = "/path/{i}/"
step    = { sequence = 0 }
stepStr = "{i}"
isOdd   = { cycle = [false, true] }
text    = { text = { uniform = [10, 200] }, compressible = "50%" }

[[phase]]
name = "write"
put  = { transaction = { batch = 100 } }

[[phase]]
name = "one"
find = { query = { where = { stepStr = "{doc.stepStr}" }, select = ["step", "text"] } }

[[phase]]
name = "range"

[phase.find]
count = 20
threads = 2

[[phase.find.query]]
where = { isOdd = "{doc.isOdd}", step = { gte = "{doc.step}" } }
sort  = ["-step"]
limit = 5

[[phase.find.query]]
where = { isOdd = true }
count = true

[[phase]]
name  = "first"
find  = { count = 10, query = { limit = 3 } }

[[phase]]
name   = "change"
update = {}

[[phase]]
name   = "check"
verify = {}
"#;

fn answer(trial: &TrialRecord, phase: &str) -> String {
    let found = trial.phases.iter().find(|one| one.name == phase).unwrap();
    let answer = found.answer.as_ref().unwrap();
    assert!(answer.comparable, "{answer:?}");
    answer.digest.clone()
}

/// The same phases on documents with indexes, and without.
fn with_indexes() -> String {
    let factors = r#"engine   = ["memory", "lmdb", "redb", "fjall", "sqlite"]
[factors.indexes]
none      = []
single    = [["stepStr"], ["isOdd"]]
composite = [["stepStr"], ["isOdd", "step"]]"#;
    let (before, rest) = EXPERIMENT.split_once("engine ").unwrap();
    let (_, rest) = rest.split_once("\"json\"]").unwrap();
    let rest = rest
        .replace("{encoding}", "json")
        .replace("engine = \"{engine}\"", "engine = \"{engine}\"\nindexes = \"{indexes}\"");
    format!("{before}{factors}{rest}")
}

#[test]
fn indexes_alter_no_answer_and_spare_documents() {
    let bench = Bench::new();
    let data = bench.run(&with_indexes());
    assert_eq!(data.trials.len(), 15);
    for trial in &data.trials {
        let of = |phase, metric| amount(trial, phase, metric);
        for phase in ["one", "range", "first", "check"] {
            assert_eq!(answer(trial, phase), answer(&data.trials[0], phase), "{phase}");
        }
        let variant = &data.experiment.variants()[trial.trial.variant];
        let level = |factor: usize| data.experiment.factors()[factor].levels[variant.levels[factor]].label.as_str();
        let indexes = level(1);
        if level(0) == "sqlite" {
            let plan = trial.findings.iter().find(|finding| finding.guard == "query_plan").unwrap();
            let wanted =
                if indexes == "none" { "plan: SCAN records" } else { "plan: SEARCH records USING INDEX index_1" };
            assert!(plan.message.starts_with(wanted), "{}", plan.message);
            assert_eq!(of("one", Metric::Rows), RECORDS);
            continue;
        }
        if indexes == "none" {
            assert_eq!(of("one", Metric::Examined), RECORDS * RECORDS);
            continue;
        }
        let each = [Metric::Entries, Metric::Examined, Metric::Rows].map(|metric| of("one", metric));
        assert_eq!(each, [RECORDS; 3], "one entry and one document a query");
        assert_eq!(of("change", Metric::Examined), RECORDS, "each update reads what it replaces");
        // The count reads the odd half of the documents; the other query too, as its sort is descending.
        assert!(of("range", Metric::Examined) <= 2.0 * 20.0 * RECORDS / 2.0);
        let of_range = |finding: &&Finding| finding.phase.as_deref() == Some("range") && finding.guard == "query_plan";
        let note = trial.findings.iter().find(of_range).unwrap();
        let range = if indexes == "single" { "" } else { " and a range of the next" };
        let index = if indexes == "single" { "isOdd" } else { "isOdd, step" };
        let sorted =
            format!("plan of query 1: index `{index}`: equality of the first field{range}, all that fit are sorted");
        assert!(note.message.starts_with(&sorted), "{}", note.message);
    }
    let checked = bench.prony(&["check", "e.toml"]).stdout;
    let checked = String::from_utf8_lossy(&checked).into_owned();
    assert!(checked.contains("size of records and indexes") && !checked.contains("size of all records"), "{checked}");
    let shown = bench.prony(&["show", "--all"]).stdout;
    let shown = String::from_utf8_lossy(&shown).replace("\n         ", "");
    assert_eq!(shown.matches("plan of query 1: index").count(), 2, "each plan once: {shown}");
}

#[test]
fn queries_have_the_same_answers_on_every_engine_and_in_every_encoding() {
    let data = Bench::new().run(EXPERIMENT);
    assert_eq!(data.trials.len(), 10);
    let mut own_answers = 0;
    for trial in &data.trials {
        let of = |phase, metric| amount(trial, phase, metric);
        assert_eq!((of("one", Metric::Rows), of("one", Metric::Operations)), (RECORDS, RECORDS));
        // SQLite examines JSON documents itself, and does not say how many.
        let examined = |phase| reading(trial, phase, MetricKey::amount(Metric::Examined));
        let own = examined("one").is_none();
        assert!(own || examined("one") == Some(RECORDS * RECORDS), "without an index every query reads everything");
        own_answers += u32::from(own);
        // Two clients answer 20 pages: of each at most five rows and a number.
        let rows = of("range", Metric::Rows);
        assert!((40.0..=120.0).contains(&rows), "{rows}");
        assert!(own || examined("range") == Some(2.0 * 20.0 * RECORDS));
        assert_eq!(of("first", Metric::Rows), 30.0);
        assert!(own || examined("first") == Some(30.0));
        assert!(of("one", Metric::Decode) > 0.0 && of("one", Metric::Decode) <= of("one", Metric::Time));
        assert!(of("write", Metric::Encode) > 0.0 && of("change", Metric::Encode) > 0.0);
        for phase in ["one", "range", "first"] {
            assert_eq!(answer(trial, phase), answer(&data.trials[0], phase), "{phase}");
        }
    }
    assert_eq!(own_answers, 1, "SQLite answers queries over JSON itself, and over MessagePack prony does");
}

/// The answers of the phases that query, and that `verify` found nothing wrong.
fn answers(data: &RunData) -> Vec<[String; 4]> {
    data.trials.iter().map(|trial| ["one", "range", "first", "check"].map(|phase| answer(trial, phase))).collect()
}

#[test]
fn documents_of_a_file_are_those_from_which_it_was_written() {
    let bench = Bench::new();
    let generated = with_indexes().replace("stepStr = \"{i}\"", "stepStr = \"s{i}\"");
    let data = bench.run(&generated);
    let expected = answers(&data)[0].clone();
    let read = |data: &RunData, phase| reading(&data.trials[0], phase, MetricKey::amount(Metric::Read));
    assert!(read(&data, "write").is_some());
    let (before, rest) = generated.split_once("[data]").unwrap();
    let (_, phases) = rest.split_once("[[phase]]").unwrap();
    for (form, name) in [("ndjson", "d.ndjson"), ("csv", "d.csv")] {
        let written = bench.prony(&["data", "e.toml", "--to", form, "--output", name, "--only", "indexes=none"]);
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        let of_file = format!(
            "{before}[data]\nfile = \"{name}\"\nkey = \"/path/{{i}}/\"\nencoding = \"json\"\n\n[[phase]]{phases}"
        );
        let data = bench.run(&of_file);
        assert_eq!(read(&data, "write"), None, "the worker's own reads of the file are among them");
        let found = answers(&data);
        assert_eq!(found.len(), 15);
        for one in &found {
            assert_eq!(one[..3], expected[..3], "{form}");
            // An update stores other rows of the file, and not what generators would make.
            assert_eq!(one[3], found[0][3], "the updates of every engine and index, {form}");
        }
    }
    bench.write("d.csv", "id,step\n1,2\n");
    let refused = bench.prony(&["run", "e.toml"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("the documents of `[data]` have no field `stepStr`"), "{said}");
}

/// A trial that met another file would say something about the file, and not about its variant.
#[test]
fn a_file_of_documents_that_changes_ends_the_run_which_can_be_resumed() {
    let bench = Bench::new();
    bench.write("d.ndjson", "{\"n\":1}\n{\"n\":2}\n");
    bench.write("m.ndjson", "{\"n\":3}\n");
    let text = "[store]\nengine = \"memory\"\n[data.collection.a]\nfile = \"d.ndjson\"\n[data.collection.b]\nfile = \
                \"m.ndjson\"\n[[phase]]\nname = \"w\"\nput = { collection = \"a\" }\n[[phase]]\nname = \"hold\"\npause = \"200 ms\"\n";
    bench.write("e.toml", format!("[compare]\nblocks = 6\n{text}"));
    let mut run = Command::new(PRONY);
    let run = run.args(["run", "e.toml"]).current_dir(bench.dir.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = run.env("PRONY_RUNS", bench.path("runs")).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("[1/6]")), "the first trial has been stored");
    bench.write("other.ndjson", "{\"n\":4}\n");
    std::fs::rename(bench.path("other.ndjson"), bench.path("m.ndjson")).unwrap();
    let said: Vec<String> = lines.collect();
    assert_eq!(run.wait().unwrap().code(), Some(2), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("m.ndjson` was changed after the run began")), "{said:#?}");
    let refused = bench.prony(&["run", "--resume"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    bench.write("m.ndjson", "{\"n\":3}\n");
    let resumed = bench.prony(&["run", "--resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    let data = bench.data();
    assert_eq!(data.trials.len(), 6);
    assert!(data.trials.iter().all(|trial| trial.ending.outcome == Outcome::Ok));
}
