//! Tests profiles on the HTML page: what the flame graph contains, what it leaves out, and that names are not read as
//! markup.

use prony_model::outcome::Outcome;
use prony_model::profile::{Format, ProfileFile, ProfileRecord, Profiler};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, TrialRecord};
use prony_model::units::Nanos;
use prony_report::build;
use prony_report::export::document::document;
use prony_report::plot::{Figure, Options, draw, figures};
use prony_results::{Database, RunId};
use serde_json::{Value, json};

use crate::json_document::obeys_the_schema;
use crate::synthetic::key;
use crate::{pages, report_page};

/// A stack, outermost call first as `name@url`, and for how many samples of a hundred it is seen.
const STACKS: [(&[&str], u64); 6] = [
    (&["(program)"], 2),
    (&["build@/site/build.js", "source@/site/build.js", "transform@/site/build.js"], 45),
    (&["build@/site/build.js", "source@/site/build.js", "writeBatch@/site/node_modules/lmdb/write.js"], 30),
    (
        &[
            "build@/site/build.js",
            "source@/site/build.js",
            "writeBatch@/site/node_modules/lmdb/write.js",
            "(garbage collector)",
        ],
        8,
    ),
    (&["build@/site/build.js", "</script><img src=x onerror='hit=1'>\u{202e}@/site/a\"b.js"], 10),
    (&["(idle)"], 5),
];

/// A `.cpuprofile` that goes through the stacks once a second.
fn cpuprofile(thread: u32, begin: Nanos, end: Nanos) -> Vec<u8> {
    let mut nodes = vec![json!({"id": 1, "callFrame": {"functionName": "(root)"}, "children": []})];
    let mut places: Vec<(Vec<&str>, usize)> = vec![(vec![], 1)];
    let mut innermost = Vec::new();
    for (stack, share) in STACKS {
        for depth in 1..=stack.len() {
            if places.iter().any(|(path, _)| path == &stack[..depth]) {
                continue;
            }
            let (name, url) = stack[depth - 1].rsplit_once('@').unwrap_or((stack[depth - 1], ""));
            let id = nodes.len() + 1;
            // V8's own states have no place.
            let (line, column) = if url.is_empty() { (-1, -1) } else { (depth as i64 * 10, 0) };
            nodes.push(json!({"id": id, "children": [], "callFrame":
                {"functionName": name, "url": url, "lineNumber": line, "columnNumber": column}}));
            let above = places.iter().find(|(path, _)| path == &stack[..depth - 1]).unwrap().1;
            nodes[above - 1]["children"].as_array_mut().unwrap().push(json!(id));
            places.push((stack[..depth].to_vec(), id));
        }
        let id = places.iter().find(|(path, _)| path == stack).unwrap().1;
        innermost.extend(std::iter::repeat_n(id, share as usize));
    }
    let micros = |time: Nanos| time.as_nanos() / 1_000;
    let count = ((micros(end) - micros(begin)) / 10_000) as usize;
    let samples: Vec<usize> = innermost.into_iter().cycle().take(count).collect();
    let deltas: Vec<u64> = (0..count).map(|at| if at == 0 { 0 } else { 10_000 }).collect();
    let started = [begin.as_nanos(), begin.as_nanos() + 1_000];
    let last = [end.as_nanos(), end.as_nanos() + 1_000];
    json!({"nodes": nodes, "startTime": micros(begin), "endTime": micros(end), "samples": samples, "timeDeltas": deltas,
           "prony": {"pid": 42, "thread": thread, "name": "build.js", "started": started, "stopped": last}})
    .to_string()
    .into_bytes()
}

fn stored(name: &str) -> (Database, RunId, Vec<TrialRecord>) {
    let (experiment, trials) = pages::cache(8);
    let (mut database, run) = pages::stored(name, &experiment, &trials);
    let profiled = trials.iter().find(|trial| trial.trial.variant == 0).unwrap().clone();
    let begin = profiled.phases.iter().filter_map(|phase| phase.begin).min().unwrap();
    let end = profiled.phases.iter().filter_map(|phase| phase.end).max().unwrap();
    let files: Vec<ProfileFile> = [0, 1]
        .map(|thread| ProfileFile {
            name: format!("42-{thread}-0.cpuprofile"),
            format: Format::CpuProfile,
            body: cpuprofile(thread, begin, end),
        })
        .into();
    let interval = Reading::Measured(Nanos::from_micros(250));
    let record = |variant, interval, trial| ProfileRecord {
        variant,
        profiler: Profiler::V8,
        interval,
        trial,
        notes: vec!["worker 7 of process 42 (`<b>`) ended before it could write its profile".into()],
    };
    database.append_profile(run, &record(0, interval, Some(profiled)), &files).unwrap();
    let refused = Reading::Missing(Why::NotPermitted("perf_event_paranoid is 3".into()));
    database.append_profile(run, &record(1, refused, None), &[]).unwrap();
    (database, run, trials)
}

/// The document of a run with profiles, in a database of this name.
pub(crate) fn example(name: &str) -> Value {
    let (database, run, _) = stored(name);
    let data = database.load_run(run).unwrap();
    let profiles = prony_report::profiles::load(&database, &data, |_| true).unwrap();
    let mut text = Vec::new();
    document(&data, &build(&data, &Default::default()), &profiles, None, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The Markdown report showed the profile of a failed trial as one of a good trial.
#[test]
fn markdown_says_of_a_profile_what_the_terminal_says() {
    let (experiment, trials) = pages::cache(8);
    let (mut database, run) = pages::stored("profile-failed", &experiment, &trials);
    let mut profiled = trials.iter().find(|trial| trial.trial.variant == 0).unwrap().clone();
    profiled.ending.outcome = Outcome::Failed { code: Some(3) };
    let end = profiled.phases.last().unwrap().end.unwrap();
    profiled.phases.iter_mut().for_each(|phase| phase.completion = Completion::Partial);
    let begin = profiled.phases.iter().filter_map(|phase| phase.begin).min().unwrap();
    let interval = Reading::Measured(Nanos::from_micros(250));
    let record = ProfileRecord {
        variant: 0,
        profiler: Profiler::V8,
        interval,
        trial: Some(profiled),
        notes: vec!["a note".into()],
    };
    let body = cpuprofile(0, begin, end);
    let file = ProfileFile { name: "42-0-0.cpuprofile".into(), format: Format::CpuProfile, body };
    database.append_profile(run, &record, &[file]).unwrap();
    let data = database.load_run(run).unwrap();
    let profile = &prony_report::profiles::load(&database, &data, |_| true).unwrap()[0];
    let markdown = prony_report::profile::markdown(profile, 3);
    let text = prony_report::profile::text(profile, |_| true, 3);
    for said in
        ["the profiled trial did not end well: failed (exit code 3)", "a note", "the times of samples may differ"]
    {
        assert!(text.contains(said) && markdown.contains(said), "{said}: {text}{markdown}");
    }
    assert!(!markdown.contains("neither wall nor CPU time was measured"), "{markdown}");
}

#[test]
fn the_page_has_the_functions_and_calls_of_each_profiled_phase() {
    let (database, run, trials) = stored("profile");
    let text = report_page::of_stored("profile", &database, run);
    let outside_script = text.replace(include_str!("../../../prony-report/src/html/assets/app.js"), "");
    assert!(!outside_script.contains("<img") && !outside_script.contains("\u{202e}"));
    let data = report_page::data(&text);
    assert_eq!(
        data["trials"]["variant"].as_array().unwrap().len(),
        trials.len(),
        "the profiled trial is not among them"
    );
    let [first, second] = data["profiles"].as_array().unwrap().as_slice() else { panic!("two profiles") };
    assert_eq!(second["missing"], "not permitted: perf_event_paranoid is 3");
    let phase = &first["phases"][0];
    let name = |at: &Value| phase["names"][at.as_u64().unwrap() as usize]["text"].as_str().unwrap().to_owned();
    let functions: Vec<(String, f64)> =
        phase["functions"].as_array().unwrap().iter().map(|row| (name(&row[0]), row[1].as_f64().unwrap())).collect();
    assert_eq!((functions[0].0.as_str(), functions[1].0.as_str()), ("transform", "writeBatch"));
    let own: f64 = functions.iter().map(|(_, own)| own).sum();
    assert!((own - 1.0).abs() < 1e-4, "{own}");
    let roots: Vec<String> =
        phase["calls"].as_array().unwrap().iter().filter(|call| call[0] == -1).map(|call| name(&call[1])).collect();
    assert_eq!(roots, ["build.js [42]", "build.js [42, thread 1]"], "each thread has a root");
    assert_eq!(phase["packages"].as_array().unwrap().len(), 4);
    assert!(
        phase["overhead"].as_str().unwrap().starts_with("under the profiler the phase took "),
        "{}",
        phase["overhead"]
    );
}

#[test]
fn the_json_document_has_functions_packages_and_what_profiling_cost() {
    let (database, run, trials) = stored("profile-json");
    let data = database.load_run(run).unwrap();
    let profiles = prony_report::profiles::load(&database, &data, |_| true).unwrap();
    let mut text = Vec::new();
    document(&data, &build(&data, &Default::default()), &profiles, None, &mut text).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    obeys_the_schema(&document);
    let of_variant = |variant: &Value| variant["trials"].as_array().unwrap().len();
    let all: usize = document["variants"].as_array().unwrap().iter().map(of_variant).sum();
    assert_eq!(all, trials.len(), "the profiled trial is not among them");
    let [first, second] = document["profiles"].as_array().unwrap().as_slice() else { panic!("two profiles") };
    assert_eq!(
        (&first["variant"], &first["interval_ns"], &first["missing"]),
        (&json!(0), &json!(250_000), &Value::Null)
    );
    assert!(first["notes"][0].as_str().unwrap().contains("before it could write its profile"));
    assert_eq!(
        (&second["missing"], &second["phases"]),
        (&json!("not permitted: perf_event_paranoid is 3"), &json!([]))
    );
    for phase in first["phases"].as_array().unwrap() {
        let sum = |list: &str, key: &str| -> u64 {
            phase[list].as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum()
        };
        for list in ["functions", "packages"] {
            assert_eq!(sum(list, "samples"), phase["samples"].as_u64().unwrap(), "each sample has one innermost call");
            assert_eq!(sum(list, "self_ns"), phase["busy_ns"].as_u64().unwrap());
        }
        let cost = &phase["overhead"];
        assert!(cost["sentence"].as_str().unwrap().starts_with("under the profiler the phase took"), "{cost}");
        let of_variant = trials.iter().filter(|trial| trial.trial.variant == 0).count();
        assert_eq!((&cost["trials"], &cost["cpu_trials"]), (&json!(of_variant), &json!(of_variant)));
    }
    assert!(first["phases"][0]["idle_ns"].as_u64().unwrap() > 0, "waiting is in no function");
    let top = &first["phases"][0]["functions"][0];
    let place = (&top["name"], &top["file"], &top["line"], &top["package"]);
    assert_eq!(place, (&json!("transform"), &json!("/site/build.js"), &json!(31), &json!("the program")));
    assert!(top["total_ns"].as_u64() >= top["self_ns"].as_u64());
}

#[test]
fn what_profiling_cost_is_by_the_trials_that_have_the_figure() {
    let (database, run, _) = stored("profile-cost");
    let mut data = database.load_run(run).unwrap();
    let mut trials = data.trials.iter_mut().filter(|trial| trial.trial.variant == 0);
    trials.next().unwrap().phases.remove(0);
    let readings =
        |trial: &mut TrialRecord| trial.phases[0].readings.get_mut("").unwrap().remove(&key("cpu")).is_some();
    assert!(readings(trials.next().unwrap()));
    let whole = 2 + trials.count();
    let of_variant = prony_report::profiles::load(&database, &data, |variant| variant.id == 0).unwrap();
    let cost = |phase: usize| of_variant[0].phases[phase].overhead;
    assert_eq!((cost(0).trials, cost(0).cpu_trials), (whole - 1, whole - 2));
    assert!(
        cost(0).wall.is_some()
            && cost(0).to_string().contains(&format!("of the median of {} trials without it, and", whole - 1))
    );
    assert_eq!((cost(1).trials, cost(1).cpu_trials), (whole, whole));
}

#[test]
fn a_profile_that_is_missing_keeps_what_it_cost() {
    let (experiment, trials) = pages::cache(8);
    let (mut database, run) = pages::stored("profile-missing", &experiment, &trials);
    let refused = ProfileRecord {
        variant: 1,
        profiler: Profiler::Perf,
        interval: Reading::Missing(Why::NotPermitted("perf_event_paranoid is 3".into())),
        trial: trials.iter().find(|trial| trial.trial.variant == 1).cloned(),
        notes: vec![],
    };
    database.append_profile(run, &refused, &[]).unwrap();
    let data = database.load_run(run).unwrap();
    let profiles = prony_report::profiles::load(&database, &data, |_| true).unwrap();
    let mut text = Vec::new();
    document(&data, &build(&data, &Default::default()), &profiles, None, &mut text).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    obeys_the_schema(&document);
    let phases = document["profiles"][0]["phases"].as_array().unwrap();
    assert_eq!(phases.len(), profiles[0].phases.len());
    assert!(phases[0]["overhead"]["wall"].is_number(), "{}", phases[0]);
    assert_eq!((&phases[0]["samples"], &phases[0]["functions"]), (&Value::Null, &json!([])), "not known is not none");
}

#[test]
fn the_flame_graph_is_a_picture_too_and_its_names_are_text() {
    let (database, run, _) = stored("profile-picture");
    assert!(figures(&database, run).unwrap().contains(&Figure::Flame));
    let svg = draw(&database, run, Figure::Flame, &Options::default()).unwrap();
    assert!(svg.contains(">transform\u{a0}(build.js:31)</text>") && svg.contains("<title>writeBatch"), "{svg:.2000}");
    assert!(svg.contains("&lt;/s") && !svg.contains("<img") && !svg.contains('\u{202e}'));
    assert!(!svg.contains("NaN") && !svg.contains("inf\""));
}
