//! Tests servers that run already: they are observed, and neither started nor ended.

use std::process::{Child, Command, Stdio};

use prony_model::metric::Metric;
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::{MetricKeyText, TrialRecord};

use crate::bench::{Bench, amount, eventually, phase, version};
use crate::services::{bench, of, requests};

/// A server that runs beside prony, and is ended with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn server(bench: &Bench) -> Server {
    // The listener ends with this statement: the server is awaited by a connection.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    server_on(bench, port)
}

fn server_on(bench: &Bench, port: u16) -> Server {
    std::fs::create_dir_all(bench.path("data")).unwrap();
    let (script, data) = (bench.path("server/server.js"), bench.path("data"));
    let mut command = Command::new("node");
    command.arg(script).args([port.to_string()]).arg(data).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    eventually("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    Server { child, port }
}

fn run(bench: &Bench, port: u16, observe: &str, phases: &str) -> TrialRecord {
    let ready = format!("ready = {{ tcp = \"127.0.0.1:{port}\", within = \"2 s\" }}\n");
    let service =
        format!("[[service]]\nname = \"db\"\nurl = \"http://127.0.0.1:{port}\"\nobserve = {{ {observe} }}\n{ready}");
    bench.trial(&format!("{service}{phases}"))
}

/// CPU time of a process so far, in seconds, by the kernel's count.
fn cpu_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[test]
fn server_that_runs_already_is_measured_and_goes_on() {
    let Some(bench) = bench() else { return };
    let server = server(&bench);
    let pid = server.child.id();
    bench.write("pid", format!("{pid}\n"));
    let phases = [
        requests("burn", "service = \"db\", path = \"/burn\", requests = 20"),
        requests("write", "service = \"db\", path = \"/write/{i}\", requests = 10"),
    ];
    let before = cpu_of(pid);
    let trial = run(&bench, server.port, "pid_file = \"pid\"", &phases[0]);
    let used = cpu_of(pid) - before;
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let cpu = of(&trial, "burn", "db", Metric::Cpu) / 1e9;
    // The kernel counts in ticks, and prony's look at the port before the phase takes the server some time too.
    assert!(cpu > 0.05 && cpu < used + 0.03 && cpu > 0.8 * used - 0.03, "{cpu} of {used}");
    let anon = phase(&trial, "burn").readings["db"][&MetricKeyText("anon.max".parse().unwrap())].measured().copied();
    assert!(anon.is_some_and(|anon| anon > 5e6), "the memory of Node.js: {anon:?}");
    assert!(of(&trial, "burn", "load", Metric::Cpu) < 0.5e9 * cpu, "the load generator is apart");
    assert_eq!(amount(&trial, "burn", Metric::Operations), 20.0);
    let recorded = &trial.effective.as_ref().unwrap().services()[0];
    assert!(recorded.executable.as_ref().unwrap().ends_with("/node"), "{:?}", recorded.executable);
    assert_eq!(recorded.listens, Some(true));
    assert!(recorded.remarks.iter().any(|remark| remark.contains("did not start")), "{:?}", recorded.remarks);

    let by_pid = run(&bench, server.port, &format!("pid = {pid}"), &phases.concat());
    assert_eq!(by_pid.ending.outcome, Outcome::Ok, "{:?}", by_pid.ending);
    let written = std::fs::read_to_string(bench.path("data/written")).unwrap();
    assert_eq!(written.lines().count(), 10, "by its requests");
}

#[test]
fn server_that_ends_or_is_not_there_is_the_outcome() {
    let Some(bench) = bench() else { return };
    let end = requests("end", "service = \"db\", path = \"/end\", requests = 1");
    let more = requests("more", "service = \"db\", path = \"/\", requests = 5");
    let server = server(&bench);
    let pid = server.child.id();
    let failed = |trial: TrialRecord, expected: &str| {
        assert!(matches!(trial.ending.outcome, Outcome::Failed { .. }), "{:?}", trial.ending);
        let said = trial.ending.evidence.join("; ");
        assert!(said.contains(expected), "{said}");
    };
    failed(run(&bench, server.port, &format!("pid = {}", std::process::id()), &more), "prony itself is below process");
    failed(run(&bench, server.port, "pid_file = \"none\"", &more), "cannot read");
    let same = format!(
        "[[service]]\nname = \"again\"\nurl = \"http://127.0.0.1:{}\"\nobserve = {{ pid = {pid} }}\n",
        server.port
    );
    failed(
        run(&bench, server.port, &format!("pid = {pid}"), &format!("{same}{more}")),
        "`again`: its processes are those of service `db`",
    );
    let thread = |task: std::fs::DirEntry| task.file_name().into_string().unwrap().parse::<u32>().unwrap();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| thread(task.unwrap()));
    let other = threads.max().filter(|thread| *thread != pid).unwrap();
    failed(run(&bench, server.port, &format!("pid = {other}"), &more), "cannot be observed as a process");
    let ended = run(&bench, server.port, &format!("pid = {pid}"), &format!("{end}{more}"));
    assert_eq!(ended.ending.outcome, Outcome::Failed { code: None }, "prony does not know how it ended");
    failed(ended, "service `db` ended before the trial did; how is not known");
}

#[test]
fn processes_of_another_program_are_named_and_a_server_may_come_late() {
    let Some(bench) = bench() else { return };
    let server = server(&bench);
    let mut other = Command::new("sleep").arg("300").spawn().unwrap();
    let read = requests("read", "service = \"db\", path = \"/\", requests = 5");
    let trial = run(&bench, server.port, &format!("pid = {}", other.id()), &read);
    other.kill().unwrap();
    other.wait().unwrap();
    let guards: Vec<&str> = trial.findings.iter().map(|finding| finding.guard.as_str()).collect();
    assert!(guards.contains(&"observed_elsewhere"), "{guards:?}");
    let (pid, late) = (server.child.id(), bench.path("late"));
    let writer = std::thread::spawn(move || {
        // Before it is there, the trial has to wait for it.
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::fs::write(late, format!("{pid}\n")).unwrap();
    });
    let trial = run(&bench, server.port, "pid_file = \"late\"", &read);
    writer.join().unwrap();
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert!(trial.findings.iter().all(|finding| finding.guard != "observed_elsewhere"));
}

/// The figures were those of the client.
#[test]
fn service_that_is_the_client_of_a_server_elsewhere_is_named() {
    let Some(bench) = bench() else { return };
    let port = bench.path("port");
    let service = format!(
        "[[service]]\nname = \"db\"\nshell = true\ncommand = \"echo {{port}} > {}; exec sleep 300\"\n",
        port.display()
    );
    let read = requests("read", "service = \"db\", path = \"/\", requests = 5");
    let trial = std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            let asked = || std::fs::read_to_string(&port).is_ok_and(|text| text.ends_with('\n'));
            eventually("prony has started the client", asked);
            server_on(&bench, std::fs::read_to_string(&port).unwrap().trim().parse().unwrap())
        });
        let trial = bench.trial(&format!("{service}{read}"));
        drop(starter.join().unwrap());
        trial
    });
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert_eq!(trial.effective.as_ref().unwrap().services()[0].listens, Some(false));
    let named = trial.findings.iter().filter(|finding| finding.guard == "observed_elsewhere");
    assert_eq!(named.count(), 1, "{:?}", trial.findings);
}

/// Forks a process for each request, which uses CPU time, and waits for none of them.
const FORKS: &str = r#"
import os, signal, socket, sys, time
if sys.argv[2] == "ignores":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    stream, _ = listener.accept()
    if os.fork() == 0:
        while stream.recv(65536):
            end = time.process_time() + 0.05
            while time.process_time() < end:
                pass
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            os._exit(0)
        os._exit(0)
    stream.close()
    if sys.argv[2] != "ignores":
        os.wait()
"#;

/// 4.2 times less CPU time was read of a server whose children nobody waited for, and it was called cheaper.
#[test]
fn server_that_ignores_the_ends_of_its_children_has_no_cpu_time() {
    let Some(bench) = bench().filter(|_| version("python3").is_some()) else { return };
    bench.write("forks.py", FORKS);
    let cpu = |how: &str| {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("python3");
        command.arg(bench.path("forks.py")).args([port.to_string().as_str(), how]);
        let server = Server { child: command.spawn().unwrap(), port };
        eventually("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        let read = requests("read", "service = \"db\", path = \"/\", requests = 10, connections = 1");
        let trial = run(&bench, port, &format!("pid = {}", server.child.id()), &read);
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        phase(&trial, "read").readings[""][&MetricKeyText("cpu".parse().unwrap())].clone()
    };
    let Reading::Missing(why) = cpu("ignores") else { panic!("children of 0.5 s are in no counter") };
    assert!(why.to_string().contains("a process ignores SIGCHLD"), "{why}");
    let waits = cpu("waits");
    assert!(waits.measured().is_some_and(|cpu| *cpu > 0.4e9), "{waits:?}");
}
