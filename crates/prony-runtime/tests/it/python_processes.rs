//! Tests what the probe of CPython reports of processes: their heap, collections, suspension, threads and children.

use std::collections::BTreeMap;

use prony_runtime::{Occasion, ProbeEvent, ProbeLine, Runtime, SuspensionCommand};

use crate::environment::{Environment, all_said_bye, call, ends, hellos, suspended_at};
use crate::python_calls::{LIB, environment};

/// It had an instant of its own, after that of the end, and was never the heap at the end of the call.
#[test]
fn heap_that_is_read_at_the_end_of_a_call_has_the_instant_of_the_end() {
    let files =
        [("lib.py", "import time\ndef f(): time.sleep(0.15)"), ("main.py", "import gc, lib\ngc.disable()\nlib.f()")];
    let Some(environment) = Environment::new(Runtime::Python, &[call("lib:f")], &files) else { return };
    environment.succeed(&["main.py"]);
    let lines = environment.lines();
    let end = lines.iter().find(|line| matches!(line.event, ProbeEvent::End { .. })).unwrap().at;
    let sampled = |line: &&ProbeLine| matches!(line.event, ProbeEvent::Heap { why: Occasion::Sample, .. });
    assert_eq!(lines.iter().rfind(sampled).unwrap().at, end);
}

#[test]
fn collections_are_reported_one_by_one_with_their_instants() {
    let main = "
import gc, time
gc.disable()
for _ in range(5):
    gc.collect()
    time.sleep(0.003)
gc.collect(0)
";
    let Some(environment) = environment(&[], main) else { return };
    environment.succeed(&["main.py"]);
    let lines = environment.lines();
    let points: Vec<_> = lines
        .iter()
        .flat_map(|line| match &line.event {
            ProbeEvent::Gc { points } => points.clone(),
            _ => Vec::new(),
        })
        .collect();
    let mine: Vec<_> = points.iter().rev().take(6).rev().collect();
    let steps: Vec<_> =
        mine.windows(2).map(|pair| (pair[1].count - pair[0].count, pair[1].major - pair[0].major)).collect();
    assert_eq!(steps, [(1, 1), (1, 1), (1, 1), (1, 1), (1, 0)], "{points:?}");
    assert!(mine.windows(2).all(|pair| pair[0].until < pair[1].until && pair[0].time < pair[1].time));
    assert!(lines[0].at < mine[0].until && mine[5].until < lines.last().unwrap().at, "by the clock of the lines");
}

#[test]
fn suspended_python_program_collects_and_stops() {
    let main = "
import atexit, gc
from pkg.lib import Store, fib
atexit.register(print, 'atexit')
gc.disable()
class Node: pass
for _ in range(1000):
    a = Node(); a.me = a
Store().put(1)
Store().put(1)
print('went on', flush=True)
for _ in range(9): Store().put(1)
fib(1)
print('never', flush=True)
";
    let files = [("pkg/lib.py", LIB), ("pkg/__init__.py", ""), ("main.py", main)];
    let calls = ["pkg.lib:Store.put", "pkg.lib:fib"].map(suspended_at);
    let Some(environment) = Environment::new(Runtime::Python, &calls, &files) else { return };
    let child = environment.start(&["main.py"]);
    let mut thread = environment.thread(0);
    thread.send(SuspensionCommand::Collect).unwrap();
    let blocks = |event: &ProbeEvent| match event {
        ProbeEvent::Suspended { heap, .. } | ProbeEvent::Collected { heap, .. } => heap.blocks.measured().copied(),
        _ => None,
    };
    let was = environment.wait(0, "suspended", |line| blocks(&line.event));
    let is = environment.wait(1, "collected", |line| blocks(&line.event));
    assert!(is + 1000 < was, "{was} -> {is}");
    thread.send(SuspensionCommand::Go).unwrap();
    let _second = environment.send(1, SuspensionCommand::Release);
    let _third = environment.send(2, SuspensionCommand::Stop);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(0), "went on\n"));
}

/// The call of a thread that went on while another was suspended was shorter by that time, and could take less than nothing; and two
/// threads that were suspended at once waited for the same answer.
#[test]
fn one_thread_is_suspended_at_a_time_while_the_rest_goes_on() {
    let module = "
def put(x):
    return x
def other(x):
    return x
def spans(begun, over):
    begun.set()
    over.wait()
";
    let main = "
import threading
from pkg.lib import other, put, spans
begun, over = threading.Event(), threading.Event()
def first():
    begun.wait()
    put(1)
    over.set()
def second():
    begun.wait()
    other(2)
all = [threading.Thread(target=f) for f in (first, second, lambda: spans(begun, over))]
for one in all: one.start()
for one in all: one.join()
";
    let files = [("pkg/lib.py", module), ("pkg/__init__.py", ""), ("main.py", main)];
    // Two functions: calls of one that overlap are suspended at the end of the last only.
    let calls = [suspended_at("pkg.lib:put"), suspended_at("pkg.lib:other"), call("pkg.lib:spans")];
    let Some(environment) = Environment::new(Runtime::Python, &calls, &files) else { return };
    let child = environment.start(&["main.py"]);
    let mut thread = environment.thread(0);
    let ended =
        |line: &ProbeLine| matches!(&line.event, ProbeEvent::End { call, .. } if call != "pkg.lib:spans").then_some(());
    environment.wait(1, "the other end", ended);
    std::thread::sleep(std::time::Duration::from_millis(50));
    thread.send(SuspensionCommand::Go).unwrap();
    let _second = environment.send(1, SuspensionCommand::Go);
    assert!(child.wait_with_output().unwrap().status.success());
    let lines = environment.lines();
    let is_suspension =
        |line: &&ProbeLine| matches!(line.event, ProbeEvent::Suspended { .. } | ProbeEvent::Resumed { .. });
    let all: Vec<&ProbeLine> = lines.iter().filter(is_suspension).collect();
    let resumes: Vec<bool> = all.iter().map(|line| matches!(line.event, ProbeEvent::Resumed { .. })).collect();
    assert_eq!(resumes, [false, true, false, true], "{all:?}");
    let took = lines.iter().find_map(|line| match &line.event {
        ProbeEvent::End { call, took, .. } if call == "pkg.lib:spans" => Some(*took),
        _ => None,
    });
    let suspended = all[1].at.since(all[0].at);
    assert!(took.is_some_and(|took| took >= suspended), "{took:?} with a suspension of {suspended}");
}

#[test]
fn children_of_every_kind_are_probed_and_say_bye() {
    let main = "
import multiprocessing, subprocess, sys
from pkg.lib import fib
if __name__ == '__main__':
    for method in ['fork', 'spawn']:
        context = multiprocessing.get_context(method)
        child = context.Process(target=fib, args=(1,))
        child.start(); child.join()
        assert child.exitcode == 0
    subprocess.run([sys.executable, '-c', 'from pkg.lib import fib; fib(1)'], check=True)
";
    let Some(environment) = environment(&["pkg.lib:fib"], main) else { return };
    environment.succeed(&["main.py"]);
    let lines = environment.lines();
    let mut who = hellos(&lines);
    who.sort();
    who.dedup();
    // The additional process is the resource tracker that `spawn` starts, a Python too.
    assert!(who.len() >= 4, "{who:?}");
    assert_eq!(ends(&environment.events(), "pkg.lib:fib").len(), 3);
    for source in lines.iter().filter(|line| matches!(line.event, ProbeEvent::End { .. })).map(|line| line.source) {
        let last = lines.iter().rfind(|line| line.source == source).unwrap();
        assert_eq!(last.event, ProbeEvent::Bye {}, "{source:?}");
    }
}

#[test]
fn forked_child_reports_nothing_of_a_call_of_its_parent() {
    let module = "
import os
def forks():
    child = os.fork()
    if child == 0:
        raise KeyError('in the child')
    os.waitpid(child, 0)
def own():
    pass
";
    let main = "
from pkg import module
try:
    module.forks()
except KeyError:
    module.own()
";
    let calls: Vec<_> = ["pkg.module:forks", "pkg.module:own"].map(call).into();
    let files = [("pkg/__init__.py", ""), ("pkg/module.py", module), ("main.py", main)];
    let Some(environment) = Environment::new(Runtime::Python, &calls, &files) else { return };
    environment.succeed(&["main.py"]);
    let events = environment.events();
    assert_eq!(ends(&events, "pkg.module:forks"), [(0, true)], "the parent's only");
    assert_eq!(ends(&events, "pkg.module:own"), [(0, true)], "the child's own");
}

#[test]
fn child_that_only_executes_another_program_reports_nothing() {
    let main = "
import os, subprocess
subprocess.run(['true'], preexec_fn=lambda: None, check=True)
child = os.fork()
if child == 0:
    os.execvp('true', ['true'])
os.waitpid(child, 0)
child = os.fork()
if child:
    os.waitpid(child, 0)
";
    let Some(environment) = environment(&[], main) else { return };
    environment.succeed(&["main.py"]);
    let lines = environment.lines();
    let who = hellos(&lines);
    assert_eq!(who.len(), 2, "the program, and the child that goes on: {who:?}");
    let of_child: Vec<&ProbeLine> = lines.iter().filter(|line| line.source != who[0]).collect();
    let ProbeEvent::Hello(hello) = &of_child[0].event else { panic!("{of_child:?}") };
    assert_eq!(hello.parent, who[0].pid);
    assert!(matches!(of_child[1].event, ProbeEvent::Heap { .. }), "{of_child:?}");
    assert!(of_child.windows(2).all(|pair| pair[0].at <= pair[1].at), "{of_child:?}");
    assert!(all_said_bye(&lines));
}

#[test]
fn user_sitecustomize_and_path_stay_in_force() {
    let files = [
        ("own/sitecustomize.py", "import builtins\nbuiltins.own = __name__ + ' ' + __file__.rsplit('/', 2)[1]"),
        ("own/mine.py", "x = 3"),
        (
            "main.py",
            "import mine, sys, sitecustomize\nprint(own, mine.x, sitecustomize.__file__.endswith('own/sitecustomize.py'))",
        ),
    ];
    let env = BTreeMap::from([("PYTHONPATH".into(), "own".into())]);
    let Some(environment) = Environment::with(Runtime::Python, &[], &files, env, 10) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "sitecustomize own 3 True");
    assert_eq!(hellos(&environment.lines()).len(), 1);
    assert_eq!(environment.succeed(&["-I", "-c", "print(1)"]), "1");
    assert_eq!(hellos(&environment.lines()).len(), 1, "an isolated Python is not probed");
}
