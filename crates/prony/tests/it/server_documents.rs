//! Documents in stores that are servers: their answers must be those of SQLite, through the real binary.

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::record::TrialRecord;

use crate::bench::{Bench, phase, reading};

pub(crate) const DATA: &str = "[data]\nrecords = 300\nencoding = \"json\"\n[data.document]\nid = \"/page/{i}/\"\nstep = { sequence = 0 }\n\
    isOdd = { cycle = [false, true] }\nname = { words = 3 }\n";

pub(crate) const PHASES: &str = "[[phase]]\nname = \"load\"\nput = {}\n\
    [[phase]]\nname = \"each\"\nupdate = { count = 40 }\n\
    [[phase]]\nname = \"read\"\nget = {}\n\
    [[phase]]\nname = \"range\"\nscan = { length = 7, count = 20 }\n\
    [[phase]]\nname = \"ask\"\n[phase.find]\ncount = 20\n[[phase.find.query]]\n\
    where = { isOdd = true, step = { gte = \"{doc.step}\" } }\nsort = [\"step\"]\nlimit = 9\n\
    [[phase]]\nname = \"some\"\ndelete = { count = 10 }\n\
    [[phase]]\nname = \"check\"\nverify = {}\n";

/// A store of each of these engines and of SQLite, with these indexes: the trial of the server, of which each phase has the answer
/// of SQLite's. `settings` are those of the server's level, and `body` the service, the data and the phases.
pub(crate) fn answers_as_sqlite(bench: &Bench, engine: &str, settings: &str, indexes: &str, body: &str) -> TrialRecord {
    let levels = format!(
        "[factors.at]\nserver = {{ engine = \"{engine}\", {settings} }}\nsqlite = {{ engine = \"sqlite\" }}\n\
         [compare]\nbaseline = {{ at = \"sqlite\" }}\nmetric = \"read.latency.p50\"\nblocks = 1\n"
    );
    let store = format!("[store]\nuse = \"{{at}}\"\nindexes = {indexes}\n");
    let mut data = bench.run(&format!("{levels}{store}{body}"));
    let is_of = |trial: &TrialRecord| trial.effective.as_ref().unwrap().store().unwrap().engine == engine;
    for trial in &data.trials {
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    }
    let ours = data.trials.remove(data.trials.iter().position(is_of).unwrap());
    let theirs = data.trials.iter().find(|trial| !is_of(trial)).unwrap();
    let mut answers = 0;
    for name in ours.phases.iter().map(|phase| phase.name.as_str()) {
        let operations = |trial| reading(trial, name, MetricKey::amount(Metric::Operations));
        let of = |trial| (phase(trial, name).answer.clone(), operations(trial));
        assert_eq!(of(&ours), of(theirs), "{name}");
        answers += u32::from(of(&ours).0.is_some());
    }
    assert!(answers >= 4, "{answers}");
    ours
}
