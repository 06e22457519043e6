//! Tests queries over documents through the real binary: the same answers on every engine, and what they cost.

use prony_model::metric::Metric;
use prony_model::record::TrialRecord;

use crate::bench::{Bench, amount};

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

#[test]
fn queries_have_the_same_answers_on_every_engine_and_in_every_encoding() {
    let data = Bench::new().run(EXPERIMENT);
    assert_eq!(data.trials.len(), 10);
    for trial in &data.trials {
        let of = |phase, metric| amount(trial, phase, metric);
        assert_eq!((of("one", Metric::Rows), of("one", Metric::Operations)), (RECORDS, RECORDS));
        assert_eq!(of("one", Metric::Examined), RECORDS * RECORDS, "without an index every query reads everything");
        // Two clients answer 20 pages: of each at most five rows and a number.
        let rows = of("range", Metric::Rows);
        assert!((40.0..=120.0).contains(&rows), "{rows}");
        assert_eq!(of("range", Metric::Examined), 2.0 * 20.0 * RECORDS);
        assert_eq!((of("first", Metric::Rows), of("first", Metric::Examined)), (30.0, 30.0));
        assert!(of("one", Metric::Decode) > 0.0 && of("one", Metric::Decode) <= of("one", Metric::Time));
        assert!(of("write", Metric::Encode) > 0.0 && of("change", Metric::Encode) > 0.0);
        for phase in ["one", "range", "first"] {
            assert_eq!(answer(trial, phase), answer(&data.trials[0], phase), "{phase}");
        }
    }
}
