//! Tests services through the real binary: started in order, ready, measured apart from the load generator, ended in every
//! case.

use std::process::{Command, Stdio};

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::record::{MetricKeyText, TrialRecord};

use crate::bench::{Bench, PRONY, alive, amount, eventually, phase, reading, version};
use crate::report_page;

/// A server that answers at once, works on after an answer to `/later`, and ends after `/end`.
const SERVER: &str = r#"
const http = require("http"), fs = require("fs");
const [port, data, log, name, ...others] = process.argv.slice(2);
// So much CPU time, and no less time.
let burn = (ms) => {
  const [until, begin] = [Date.now() + ms, process.cpuUsage()];
  const used = () => { const { user, system } = process.cpuUsage(begin); return (user + system) / 1000; };
  while (Date.now() < until || used() < ms);
};
// Before it listens: then connections are accepted, while what else it does may be late.
if (log) fs.appendFileSync(log, [name, process.pid, fs.readdirSync(data).length, ...others].join(" ") + "\n");
http.createServer((request, response) => {
  if (request.url === "/end") process.exit(3);
  if (request.url === "/burn") burn(20);
  if (request.url === "/later") setTimeout(() => burn(400), 600);
  if (request.url.startsWith("/write/")) fs.appendFileSync(data + "/written", request.url + "\n");
  response.end("answer\n");
}).listen(+port, "127.0.0.1", () => console.log("listening"));
process.on("SIGTERM", () => { if (log) fs.appendFileSync(log, name + " ends\n"); process.exit(0); });
"#;

/// A folder with the server; `None` where there is no Node.js.
pub(crate) fn bench() -> Option<Bench> {
    version("node")?;
    let bench = Bench::new();
    bench.write("server/server.js", SERVER);
    Some(bench)
}

/// A service that runs it.
pub(crate) fn service(name: &str, words: &str, more: &str) -> String {
    format!(
        "[[service]]\nname = \"{name}\"\ndirectory = \"server\"\ncopy = \"none\"\n\
         command = [\"node\", \"server.js\", \"{{port}}\", \"{{data}}\"{words}]\n{more}\n"
    )
}

pub(crate) fn requests(name: &str, keys: &str) -> String {
    format!("[[phase]]\nname = \"{name}\"\nhttp = {{ {keys} }}\n")
}

/// An amount of an instance.
pub(crate) fn of(trial: &TrialRecord, name: &str, instance: &str, metric: Metric) -> f64 {
    let readings = &phase(trial, name).readings;
    let found = readings.get(instance).unwrap_or_else(|| panic!("{instance} of {:?}", readings.keys()));
    let reading = &found[&MetricKeyText(MetricKey::amount(metric))];
    *reading.measured().unwrap_or_else(|| panic!("{instance}.{metric:?}: {reading:?}"))
}

/// `sched_getaffinity(2)`: what a process may use it passes on to its threads and children.
#[test]
fn service_runs_on_its_processors_and_one_that_does_not_exist_is_refused() {
    let Some(bench) = bench() else { return };
    let allowed = |text: &str| text.split_whitespace().last().unwrap_or_default().to_owned();
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = allowed(own.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap());
    let first = own.split(['-', ',']).next().unwrap().to_owned();
    let log = bench.path("log").display().to_string();
    let script = format!("grep Cpus_allowed_list /proc/self/status > {log}; exec node server.js {{port}} {{data}}");
    let api = |processors: &str| {
        format!(
            "[[service]]\nname = \"api\"\ndirectory = \"server\"\ncopy = \"none\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\nprocessors = [{processors}]\n{}",
            requests("get", &format!("service = \"api\", path = \"/\", requests = 10, processors = [{processors}]"))
        )
    };
    let data = bench.run(&api(&first));
    assert_eq!(data.trials[0].ending.outcome, Outcome::Ok, "{:?}", data.trials[0].ending);
    assert_eq!(allowed(&std::fs::read_to_string(bench.path("log")).unwrap()), first);
    bench.write("none.toml", api("999"));
    let output = bench.prony(&["check", "none.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("prony may not run on a processor 999"), "{said}");
}

#[test]
fn services_start_in_order_and_end_in_reverse() {
    let Some(bench) = bench() else { return };
    let log = bench.path("log").display().to_string();
    let words = |name: &str, other: &str| format!(", \"{log}\", \"{name}\"{other}");
    let setup = format!("setup = \"echo set up {{service.first.2.port}} >> {log}\"");
    let first = service("first", &words("first{instance}", ""), &format!("count = 2\n{setup}"));
    let second = service("second", &words("second", ", \"{service.first.2.port}\""), "after = [\"first\"]");
    let trial =
        bench.trial(&format!("{second}{first}{}", requests("get", "service = \"second\", path = \"/\", requests = 1")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let text = std::fs::read_to_string(bench.path("log")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let names: Vec<&str> = lines.iter().map(|line| line[0]).collect();
    // The two instances of a service start together.
    let mut started = names[..2].to_vec();
    started.sort_unstable();
    assert_eq!(started, ["first1", "first2"], "{text}");
    assert_eq!(names[2..], ["set", "second", "second", "first2", "first1"], "{text}");
    assert_eq!(lines[2][2], lines[3][3], "the port of the second instance: {text}");
    assert!(lines[..2].iter().all(|line| line[2] == "0"), "data directories begin empty: {text}");
}

#[test]
fn each_service_has_metrics_of_its_own_without_the_load_generator() {
    let Some(bench) = bench() else { return };
    let phases = [
        requests("burn", "service = \"api\", path = \"/burn\", requests = 40"),
        requests("write", "service = \"api\", path = \"/write/{i}\", requests = 100"),
    ];
    let limits = "limits = { memory = \"1 GB\" }";
    let body = format!("{}{}{}", service("api", "", limits), service("idle", "", ""), phases.concat());
    let trial = bench.trial(&body);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let cpu = |instance: &str| of(&trial, "burn", instance, Metric::Cpu) / 1e9;
    // 40 requests keep a thread busy for 20 ms each, unless the machine takes the processor away.
    assert!(cpu("api") > 0.2, "{}", cpu("api"));
    assert!(cpu("idle") < 0.3 * cpu("api"), "{} {}", cpu("idle"), cpu("api"));
    let sum = cpu("api") + cpu("idle");
    assert!((cpu("") - sum).abs() < 0.01 * sum + 0.001, "the services together: {} {sum}", cpu(""));
    assert!(of(&trial, "burn", "load", Metric::Cpu) > 0.0);
    assert_eq!((amount(&trial, "burn", Metric::Operations), amount(&trial, "burn", Metric::Errors)), (40.0, 0.0));
    assert!(amount(&trial, "burn", Metric::Rate) <= 50.0, "20 ms each, one after another");
    let disk = reading(&trial, "write", MetricKey::amount(Metric::DiskLength)).unwrap();
    let written = (0..100).map(|i| format!("/write/{i}\n").len()).sum::<usize>();
    assert_eq!(disk as usize, written, "each number once, and the size of the services' data");
    assert_eq!(trial.effective.as_ref().unwrap().services().len(), 2);
}

/// A thread that was busy all the time had used three times the wall time of its phase.
#[test]
fn what_services_use_for_the_warm_up_is_not_of_the_phase() {
    let Some(bench) = bench() else { return };
    let phase = requests("burn", "service = \"api\", path = \"/burn\", warm_up = \"800 ms\", duration = \"400 ms\"");
    let trial = bench.trial(&format!("{}{phase}", service("api", "", "")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let [cpu, wall] = [of(&trial, "burn", "api", Metric::Cpu), amount(&trial, "burn", Metric::Wall)];
    assert!(cpu > 0.0 && cpu < 1.6 * wall, "{cpu} in {wall}");
}

/// A loader of somebody else's: what it and its children use is the load's, what the server does for it the server's.
#[test]
fn command_beside_services_is_a_phase_whose_end_is_its_exit() {
    let Some(bench) = bench() else { return };
    bench.write(
        "loader.js",
        "const [url, times] = process.argv.slice(2); const http = require(\"http\"); let left = +times;\n\
         const one = () => left-- > 0 && http.get(url + \"/burn\", (r) => r.resume().on(\"end\", one)); one();\n",
    );
    let run = |command: &str| format!("[[phase]]\nname = \"fill\"\nrun = {command}\n");
    let api = service("api", "", "");
    let get = requests("get", "service = \"api\", path = \"/\", requests = 1");
    let trial = bench.trial(&format!("{api}{}{get}", run("[\"node\", \"loader.js\", \"{service.api.url}\", \"20\"]")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let (took, cpu) = (amount(&trial, "fill", Metric::Time) / 1e9, of(&trial, "fill", "api", Metric::Cpu) / 1e9);
    assert!(took >= 0.4, "20 requests of 20 ms, one after another: {took}");
    assert!(cpu > 0.1, "the server's work for the command: {cpu}");
    assert!(of(&trial, "fill", "load", Metric::Cpu) > 0.0, "Node.js is the load");
    assert_eq!(amount(&trial, "get", Metric::Operations), 1.0, "later phases go on");

    // A path of the file is relative to its folder, whatever the directory of the load generator.
    bench.write("body.json", "{}");
    let post = requests("post", "service = \"api\", path = \"/\", requests = 1, body = { file = \"body.json\" }");
    let trial = bench.trial(&format!("{api}{post}"));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);

    let failing = run("\"echo first; echo no such table >&2; exit 7\"");
    let trial = bench.trial(&format!("{api}{failing}{get}"));
    assert!(matches!(trial.ending.outcome, Outcome::Failed { .. }), "{:?}", trial.ending);
    let said = trial.ending.evidence.join("; ");
    assert!(said.contains("the command: the process exited with code 7") && said.contains("no such table"), "{said}");
}

/// A command that goes on in the background was 72 times faster than the one that waits for its work.
#[test]
fn what_a_command_leaves_running_ends_with_its_phase_and_is_not_compared() {
    let bench = Bench::new();
    let body = "[factors]\nand = [\"\", \"&\"]\n[compare]\nbaseline = { and = \"\" }\nmetric = \"fill.time\"\n\
                metrics = [\"after.time\"]\nblocks = 6\n[[service]]\nname = \"any\"\ncommand = [\"sleep\", \"600\"]\n\
                [[phase]]\nname = \"fill\"\nrun = \"sleep 0.5 {and}\"\n[[phase]]\nname = \"after\"\nrun = \"true\"\n";
    let data = bench.run(body);
    let left = |trial: &TrialRecord| -> Vec<(String, u64)> {
        let all = trial.effective.as_ref().unwrap().left_by_commands();
        all.map(|(phase, left)| (phase.to_owned(), left)).collect()
    };
    for trial in &data.trials {
        let expected = if trial.trial.variant == 0 { vec![] } else { vec![("fill".to_owned(), 1)] };
        assert_eq!((trial.ending.outcome, left(trial)), (Outcome::Ok, expected.clone()));
        assert_eq!(trial.findings.iter().any(|found| found.guard == "left_behind"), !expected.is_empty());
        // One that ends by itself meanwhile is not killed.
        assert!(trial.conditions.killed_at_the_end <= expected.len() as u64);
    }
    let shown = bench.prony(&["show", "1"]);
    let shown = String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("commands left processes behind in `fill`") && !shown.contains("faster"), "{shown}");
}

/// What a command used is counted by its control group or where the kernel reaped it, whoever its parent is.
#[test]
fn cpu_time_of_orphans_of_a_command_is_that_of_the_load() {
    let bench = Bench::new();
    bench.write(
        "burn.sh",
        "i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done; cut -d' ' -f14 /proc/$$/stat > new; mv new used",
    );
    bench.write("main.sh", "(setsid sh burn.sh &); until [ -e used ]; do sleep 0.05; done");
    let service = "[[service]]\nname = \"any\"\ncommand = [\"sleep\", \"600\"]\n";
    let trial = bench.trial(&format!("{service}[[phase]]\nname = \"burn\"\nrun = [\"sh\", \"main.sh\"]\n"));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let ticks: f64 = std::fs::read_to_string(bench.path("used")).unwrap().trim().parse().unwrap();
    let cpu = of(&trial, "burn", "load", Metric::Cpu);
    assert!(ticks > 5.0 && cpu >= (ticks - 1.0) * 10e6, "{cpu} ns of {ticks} ticks of 10 ms");
    let rss = phase(&trial, "burn").readings["load"][&MetricKeyText("rss.max".parse().unwrap())].clone();
    assert!(rss.measured().is_none_or(|rss| *rss < 10e6), "none of it is that of the load generator: {rss:?}");
}

/// A server that leaves something out answers sooner: its answers are compared, and not its times.
#[test]
fn server_that_answers_with_less_is_not_faster() {
    let Some(bench) = bench() else { return };
    bench.write(
        "map/server.js",
        "const [port, nodes] = process.argv.slice(2); \
         const node = (_, n) => `<node id=\"${Math.random()}\" v=\"${n}\"/>`;\n\
         require(\"http\").createServer((_, response) => response.end(Array.from({ length: parseInt(nodes) }, node).join(\"\")))\n\
         .listen(+port, \"127.0.0.1\");\n",
    );
    let run = |other: &str, answer: &str| {
        let body = format!(
            "[factors]\nnodes = [\"40\", \"{other}\"]\n\
             [compare]\nbaseline = {{ nodes = \"40\" }}\nmetric = \"read.time\"\nblocks = 6\n\
             [[service]]\nname = \"map\"\ndirectory = \"map\"\ncopy = \"none\"\n\
             command = [\"node\", \"server.js\", \"{{port}}\", \"{{nodes}}\"]\n{}",
            requests("read", &format!("service = \"map\", path = \"/\", requests = 20, answer = {{ {answer} }}"))
        );
        let data = bench.run(&body);
        assert_eq!(data.trials[0].ending.outcome, Outcome::Ok, "{:?}", data.trials[0].ending);
        (amount(&data.trials[0], "read", Metric::Rows), String::from_utf8(bench.prony(&["show"]).stdout).unwrap())
    };
    let (_, less) = run("30", "rows = \"<node \"");
    assert!(less.contains("`nodes=40` returned 800 rows, but `nodes=30` returned 600"), "{less}");
    assert!(!less.contains("faster"), "{less}");
    let ids = "rows = \"<node \", digest = true";
    let (_, random) = run("40 too", ids);
    assert!(random.contains("returned 800 rows each, but not the same rows"), "{random}");
    let (rows, same) = run("40 too", &format!("{ids}, without = ['id=\"[^\"]*\"']"));
    assert_eq!(rows, 800.0);
    assert!(!same.contains("returned"), "{same}");
}

#[test]
fn settling_waits_for_work_after_the_answer() {
    let Some(bench) = bench() else { return };
    let settle = "[[phase]]\nname = \"settle\"\nsettle = { quiet = \"1500 ms\", within = \"60 s\" }\n";
    let phases = format!("{}{settle}", requests("ask", "service = \"api\", path = \"/later\", requests = 1"));
    let trial = bench.trial(&format!("{}{phases}", service("api", "", "")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let settled = amount(&trial, "settle", Metric::SettleTime) / 1e9;
    assert!(settled > 0.8, "600 ms of waiting and 400 ms of work follow the answer: {settled}");
    assert!(amount(&trial, "settle", Metric::Cpu) / 1e9 > 0.1, "the work after the answer");
}

#[test]
fn service_that_ends_is_the_outcome_with_its_last_lines() {
    let Some(bench) = bench() else { return };
    let phases = [
        requests("get", "service = \"api\", path = \"/\", requests = 1"),
        requests("end", "service = \"api\", path = \"/end\", requests = 1"),
    ];
    let trial = bench.trial(&format!("{}{}", service("api", "", ""), phases.concat()));
    assert_eq!(trial.ending.outcome, Outcome::Failed { code: Some(3) }, "{:?}", trial.ending);
    assert_eq!(trial.ending.phase.as_deref(), Some("end"));
    let evidence = &trial.ending.evidence;
    assert_eq!(evidence[0], "service `api` ended before the trial did", "{evidence:?}");
    assert!(evidence.iter().any(|text| text.contains("`listening`")), "{evidence:?}");
}

#[test]
fn service_that_never_gets_ready_or_does_not_start_is_an_outcome() {
    let Some(bench) = bench() else { return };
    let phases = requests("get", "service = \"api\", path = \"/\", requests = 1");
    let never = service("api", "", "ready = { line = '^never$', within = \"1 s\" }");
    let absent = service("api", "", "").replace("server.js", "nosuch.js");
    // It listens elsewhere: the trial "took 3.40 ms" and failed "at 0 us", without a reason.
    let elsewhere = "[[service]]\nname = \"api\"\ncommand = [\"sleep\", \"60\"]\nenv = { PORT = \"{port}\" }\n\
                     ready = { http = \"/\", within = \"1 s\" }\n"
        .to_owned();
    let failing = service("api", "", "ready = { command = \"echo no such role; exit 3\", within = \"1 s\" }");
    let late = "service `api` was not ready within 1.000 s";
    for (service, said) in [
        (never, late),
        (absent, "Cannot find module"),
        (elsewhere, ": connection refused at 127.0.0.1:"),
        (failing, "its `ready` failed: "),
    ] {
        let trial = bench.trial(&format!("{service}{phases}"));
        let is_late = trial.ending.evidence[0].starts_with(late);
        assert!(
            !is_late || trial.took >= prony_model::units::Nanos::from_secs(1),
            "waiting was all of it: {}",
            trial.took
        );
        assert!(matches!(trial.ending.outcome, Outcome::Failed { .. }), "{:?}", trial.ending);
        assert!(trial.ending.evidence.iter().any(|text| text.contains(said)), "{:?}", trial.ending);
        assert!(trial.phases.iter().all(|phase| phase.begin.is_none()));
        let shown = String::from_utf8(bench.prony(&["show"]).stdout).unwrap();
        assert!(!shown.contains(" at 0 us"), "{shown}");
    }
}

#[test]
fn no_service_outlives_a_killed_run() {
    let Some(bench) = bench() else { return };
    let log = bench.path("log").display().to_string();
    let pause = "[[phase]]\nname = \"wait\"\npause = \"60 s\"\n[[phase]]\nname = \"get\"\n\
                 http = { service = \"api\", path = \"/\", requests = 1 }\n";
    bench.write("x.toml", format!("{}{pause}", service("api", &format!(", \"{log}\", \"api\""), "")));
    let mut command = Command::new(PRONY);
    command.args(["run", "x.toml", "--quiet"]).current_dir(bench.dir.path()).env("PRONY_RUNS", bench.path("runs"));
    let mut prony = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = || {
        let text = std::fs::read_to_string(bench.path("log")).unwrap_or_default();
        Some(text.lines().next()?.split(' ').nth(1)?.to_owned())
    };
    eventually("the service starts", || pid().is_some());
    prony.kill().unwrap();
    prony.wait().unwrap();
    let pid = pid().unwrap();
    eventually("the service ends with the run", || !alive(&pid));
}

#[test]
fn failing_setup_is_an_outcome_and_a_ready_command_ends_in_time() {
    let Some(bench) = bench() else { return };
    let phases = requests("get", "service = \"api\", path = \"/\", requests = 1");
    for (more, said) in [
        ("setup = \"echo no such table >&2; exit 4\"", "no such table"),
        ("ready = { command = \"sleep 60\", within = \"1 s\" }", "was not ready within 1.000 s"),
    ] {
        let trial = bench.trial(&format!("{}{phases}", service("api", "", more)));
        assert!(matches!(trial.ending.outcome, Outcome::Failed { .. }), "{:?}", trial.ending);
        assert!(trial.ending.evidence.iter().any(|text| text.contains(said)), "{:?}", trial.ending);
    }
}

#[test]
fn server_that_was_not_started_has_no_metrics_of_processes() {
    let Some(bench) = bench() else { return };
    let api = service("api", "", "");
    let url = "url = \"http://127.0.0.1:9\", path = \"/\", requests = 1, timeout = \"1 s\"";
    let trial = bench.trial(&requests("get", url));
    let cpu = phase(&trial, "get").reading(MetricKey::amount(Metric::Cpu));
    assert!(cpu.is_none_or(|cpu| cpu.measured().is_none()), "{cpu:?}");
    // Nothing of the services' data is known where none of them uses a data directory.
    let other = api.replace(", \"{data}\"", "");
    let trial = bench.trial(&format!("{other}{}", requests("get", "service = \"api\", path = \"/\", requests = 1")));
    assert_eq!(reading(&trial, "get", MetricKey::amount(Metric::Disk)), None);
}

/// A variant that stores less, since its requests fail, was faster in what followed.
#[test]
fn phases_after_unequal_numbers_of_stored_requests_are_not_compared() {
    let Some(bench) = bench() else { return };
    let write =
        |count: &str| format!("service = \"api\", method = \"POST\", path = \"/write/{{i}}\", requests = {count}");
    let phases =
        [requests("write", &write("\"{count}\"")), requests("read", "service = \"api\", path = \"/\", requests = 1")];
    let compare =
        "[factors]\ncount = [3, 5]\n[compare]\nbaseline = { count = 3 }\nmetric = \"read.time\"\nblocks = 1\n";
    bench.run(&format!("{compare}{}{}", service("api", "", ""), phases.concat()));
    let shown = String::from_utf8(bench.prony(&["show", "--all"]).stdout).unwrap().replace('\n', " ");
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("other amounts may be stored"), "{shown}");
}

/// Requests one after another; ends with an error if one is not answered.
const CLIENT: &str = r#"
const http = require("http");
const [url, times] = process.argv.slice(2);
let left = +times;
const one = () => left-- > 0 && http.get(url, (response) => response.resume().on("end", one));
one();
"#;

/// A program beside a service that asks it for this path, so many times.
fn client(bench: &Bench, path: &str, times: u32, more: &str) -> String {
    bench.write("client.js", CLIENT);
    let script = bench.path("client.js").display().to_string();
    format!(
        "[program.client]\nshell = true\ncommand = \"node {script} {{service.api.url}}{path} {times}\"\n{}\n",
        more.replace("CLIENT", &script)
    )
}

#[test]
fn program_and_the_services_beside_it_are_measured_apart_and_together() {
    let Some(bench) = bench() else { return };
    let prepare = "prepare = \"node CLIENT {service.api.url}/write/once 1 && test -s {service.api.data}/written\"";
    let program = client(&bench, "/burn", 30, prepare);
    let trial = bench.trial(&format!("{}{program}", service("api", "", "limits = { memory = \"1 GB\" }")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let cpu = |instance: &str| of(&trial, "run", instance, Metric::Cpu) / 1e9;
    // 30 requests keep a thread of the server busy for 20 ms each, unless the machine takes the processor away.
    assert!(cpu("api") > 0.15, "{}", cpu("api"));
    assert!(cpu("") > 0.0, "Node.js has started");
    let sum = cpu("") + cpu("api");
    assert!((cpu("all") - sum).abs() < 1e-6 * sum, "{} {sum}", cpu("all"));
    let max = |instance: &str| {
        let key = MetricKeyText(MetricKey::gauge(Metric::Anon, prony_model::metric::Stat::Max));
        *phase(&trial, "run").readings[instance][&key].measured().unwrap()
    };
    assert!(max("all") >= max("api").max(max("")) && max("all") <= max("api") + max(""), "{}", max("all"));
    let processes = phase(&trial, "run").readings.keys().filter(|name| name.starts_with("process.api")).count();
    assert_eq!(processes, 0, "processes of the service are not the program's");
    let effective = trial.effective.as_ref().unwrap();
    assert_eq!((effective.services().len(), effective.program().unwrap().program.as_str()), (1, "client"));
    assert!(effective.program().unwrap().command.iter().any(|word| word.contains("http://127.0.0.1:")), "the address");
}

/// The chart showed 158.8 MB beside a table with 0.2 MB: it added the services to the program, as did `prony show --all`.
#[test]
fn what_is_drawn_over_time_is_what_the_metrics_of_the_phase_are_of() {
    let Some(bench) = bench() else { return };
    bench.write("server/big.js", "globalThis.kept = Buffer.alloc(150e6, 1);\nrequire(\"./server.js\");\n");
    let service = service("api", "", "").replace("server.js", "big.js");
    let program = "[program.idle]\ncommand = [\"sleep\", \"0.4\"]\n";
    let trial = bench.trial(&format!("{service}{program}"));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert!(bench.prony(&["report", "--output", "page.html"]).status.success());
    let page = report_page::data(&std::fs::read_to_string(bench.path("page.html")).unwrap());
    let charts = page["sections"]["timeline"]["charts"].as_array().unwrap();
    let memory = charts.iter().find(|chart| chart["title"] == "Anonymous memory").unwrap();
    let line = memory["marks"].as_array().unwrap().iter().find(|mark| mark["kind"] == "line").unwrap();
    let most =
        report_page::numbers(&page, &line["y"]).into_iter().filter(|bytes| bytes.is_finite()).fold(0.0, f32::max);
    assert!(most < 100e6, "{most} bytes are the service's");
    let captions = memory["caption"].to_string();
    assert!(captions.contains("Not drawn: the processes of `api`, which have metrics of their own."), "{captions}");
    let shown = String::from_utf8(bench.prony(&["show", "--all"]).stdout).unwrap();
    let line = shown.lines().find(|line| line.contains("anonymous memory, at most")).unwrap();
    assert!(line.ends_with(" kB") || line.ends_with(" B"), "{line}");
    assert!(shown.contains("without the services beside the program"), "{shown}");
}

#[test]
fn service_beside_a_program_that_ends_is_the_outcome_before_the_programs_error() {
    let Some(bench) = bench() else { return };
    for prepare in [false, true] {
        let program = match prepare {
            true => client(&bench, "/", 1, "prepare = \"node CLIENT {service.api.url}/end 1\""),
            false => client(&bench, "/end", 1, ""),
        };
        let trial = bench.trial(&format!("{}{program}", service("api", "", "")));
        assert_eq!(trial.ending.outcome, Outcome::Failed { code: Some(3) }, "{:?}", trial.ending);
        assert_eq!(trial.ending.evidence[0], "service `api` ended before the trial did");
        assert_eq!(trial.ending.phase.as_deref(), (!prepare).then_some("run"));
    }
}

#[test]
fn program_is_not_started_where_a_service_does_not_get_ready() {
    let Some(bench) = bench() else { return };
    let started = bench.path("started").display().to_string();
    let program = format!("[program.x]\ncommand = [\"touch\", \"{started}\"]\nprepare = \"touch {started}\"\n");
    let trial =
        bench.trial(&format!("{}{program}", service("api", "", "ready = { line = '^never$', within = \"1 s\" }")));
    assert!(matches!(trial.ending.outcome, Outcome::Failed { code: None }), "{:?}", trial.ending);
    assert!(trial.ending.evidence.iter().any(|text| text.contains("was not ready within 1.000 s")));
    assert!(trial.phases.iter().all(|phase| phase.begin.is_none()) && trial.phases.len() == 1);
    assert!(!bench.path("started").exists());
    assert_eq!(trial.effective.as_ref().unwrap().services().len(), 1);
}

/// A server waited for prony's reader, had a seventh of its rate, and nothing said so.
#[test]
fn service_and_replica_that_wait_for_the_reader_of_their_output_are_named() {
    let bench = Bench::new();
    let said = |trial: &TrialRecord| {
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        let found = trial.findings.iter().filter(|found| found.guard == "output_flooded");
        found.map(|found| found.message.clone()).collect::<Vec<_>>().join("; ")
    };
    // Lines are split for what looks for them, so that prony is slower than the writer.
    let service =
        "[[service]]\nname = \"api\"\ncommand = [\"yes\", \"0123456789abcdef\"]\nready = { line = '^0123' }\n";
    let found = said(&bench.trial(&format!("{service}[[phase]]\nname = \"wait\"\npause = \"0.5 s\"\n")));
    assert!(found.starts_with("service `api` wrote "), "{found}");
    let replica = "[program.x]\nshell = true\ncommand = \"echo ready; exec sleep 600\"\n[program.x.replicas]\ncount = 1\nphase = \"work\"\n\
         command = \"yes 0123456789abcdef | head -c 8000000; echo total 5\"\nread = '^total (?<rows>\\d+)$'\n[[phase]]\nname = \"work\"\n\
         begin = { line = '^ready$' }\nend = { replicas = \"ended\" }\nthen = \"stop\"\n";
    let found = said(&bench.trial(replica));
    assert!(found.starts_with("`replica.1` wrote 8.0 MB"), "{found}");
}

/// A server that crashes while it closes its data had ended well, by all that was said.
#[test]
fn service_that_fails_when_it_is_asked_to_end_is_named() {
    let bench = Bench::new();
    let end = |name: &str, then: &str| {
        let script = format!("trap '{then}' TERM; echo up; while :; do sleep 0.05; done");
        format!(
            "[[service]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\nready = {{ line = '^up' }}\n"
        )
    };
    let services =
        [end("crash", "kill -SEGV $$"), end("fail", "exit 7"), end("stop", "exit 0"), end("shell", "exit 143")];
    let trial = bench.trial(&format!("{}[[phase]]\nname = \"wait\"\npause = \"0.2 s\"\n", services.concat()));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let found = trial.findings.iter().filter(|found| found.guard == "service_failed_at_end");
    let mut found: Vec<&str> = found.map(|found| found.message.as_str()).collect();
    found.sort_unstable();
    let expected = [
        "service `crash` ended by signal 11 after SIGTERM: what it stored may be incomplete",
        "service `fail` ended with exit code 7 after SIGTERM: what it stored may be incomplete",
    ];
    assert_eq!(found, expected);
}
