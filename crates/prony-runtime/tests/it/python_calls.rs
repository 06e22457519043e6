//! Tests which calls the probe of CPython finds, times and counts, with the Python of this machine.

use std::collections::BTreeMap;

use prony_model::units::Nanos;
use prony_runtime::{CallSpec, Occasion, ProbeEvent, Runtime, SuspensionCommand};

use crate::environment::{Environment, all_said_bye, call, ends, found, suspended_at};

pub(crate) const LIB: &str = "
import asyncio

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def fails():
    raise KeyError('no')

async def slow(x):
    await asyncio.sleep(0.005)
    if x < 0:
        raise ValueError('negative')
    return x + 1

def future(x):
    return asyncio.ensure_future(slow(x))

class Store:
    def put(self, x):
        return x + 1
    @staticmethod
    def fixed(x):
        return x + 2
    @classmethod
    def make(cls):
        return cls()
";

pub(crate) fn environment(calls: &[&str], main: &str) -> Option<Environment> {
    let calls: Vec<_> = calls.iter().map(|text| call(text)).collect();
    Environment::new(Runtime::Python, &calls, &[("pkg/lib.py", LIB), ("pkg/__init__.py", ""), ("main.py", main)])
}

#[test]
fn functions_and_methods_are_timed() {
    let calls = [
        "pkg.lib:fib",
        "pkg.lib:fails",
        "pkg.lib:Store.put",
        "pkg.lib:Store.fixed",
        "pkg.lib:Store.make",
        "pkg.lib:Store",
        "pkg.lib:none",
    ];
    let main = "
from pkg.lib import fib, fails, Store
import sys
try:
    fails()
except KeyError as e:
    print('key', e)
s = Store.make()
print(fib(5), s.put(1), Store.fixed(1), type(s).__name__, fib.__name__, any('a probe' in p for p in sys.path))
";
    let Some(environment) = environment(&calls, main) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "key 'no'\n5 2 3 Store fib False");
    let events = environment.events();
    assert_eq!(environment.totals("pkg.lib:fib").count(), 15);
    assert_eq!(ends(&events, "pkg.lib:fib").last(), Some(&(0, true)));
    assert_eq!(ends(&events, "pkg.lib:fails"), [(0, false)]);
    for method in ["pkg.lib:Store.put", "pkg.lib:Store.fixed", "pkg.lib:Store.make"] {
        assert_eq!(ends(&events, method), [(0, true)], "{method}");
    }
    let missed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ProbeEvent::NotFound { call, .. } => Some(call.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(missed, ["pkg.lib:Store", "pkg.lib:none"]);
    assert!(all_said_bye(&environment.lines()));
}

/// The loader of a built-in module is the class that loads all of them: each later one was searched for the function too, which
/// was then not to be found.
#[test]
fn function_of_a_built_in_module_is_timed_and_other_built_in_modules_stay_as_they_are() {
    let main = "
from importlib.machinery import BuiltinImporter
before = BuiltinImporter.__dict__['exec_module']
import faulthandler
import _symtable, _tracemalloc
print(faulthandler.is_enabled(), BuiltinImporter.__dict__['exec_module'] is before)
";
    let Some(environment) = environment(&["faulthandler:is_enabled"], main) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "False True");
    let events = environment.events();
    assert_eq!(ends(&events, "faulthandler:is_enabled"), [(0, true)]);
    let missed = events.iter().filter(|event| matches!(event, ProbeEvent::NotFound { .. })).count();
    assert_eq!((found(&events, "faulthandler:is_enabled"), missed), (vec!["faulthandler".to_owned()], 0));
}

#[test]
fn a_module_that_is_loaded_again_is_watched_again_and_names_its_file() {
    let main = "
import importlib, os, sys
sys.path.insert(0, 'a')
import work
work.f()
importlib.reload(work)
work.f()
os.symlink('a', 'linked')
for place in ['linked', 'b']:
    del sys.modules['work']
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    import work
    work.f()
os.remove('linked')
print(work.__file__.endswith('b/work.py'))
";
    let files = [("a/work.py", "def f(): pass"), ("b/work.py", "def f(): pass"), ("main.py", main)];
    let calls = [call("work:f"), CallSpec { id: "the same".into(), ..call("work:f") }];
    let Some(environment) = Environment::new(Runtime::Python, &calls, &files) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "True");
    let events = environment.events();
    for id in ["work:f", "the same"] {
        let mut files = found(&events, id);
        files.dedup();
        assert_eq!((ends(&events, id).len(), files), (4, vec!["a/work.py".to_owned(), "b/work.py".to_owned()]), "{id}");
    }
}

#[test]
fn coroutines_and_futures_end_when_they_are_done() {
    let main = "
import asyncio, inspect
from pkg import lib
async def main():
    try:
        await lib.slow(-1)
    except ValueError as e:
        print(e)
    print(await lib.slow(1), await lib.future(2))
print(inspect.iscoroutinefunction(lib.slow))
asyncio.run(main())
";
    let Some(environment) = environment(&["pkg.lib:slow", "pkg.lib:future"], main) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "True\nnegative\n2 3");
    let events = environment.events();
    assert_eq!(ends(&events, "pkg.lib:slow"), [(0, false), (0, true), (0, true)]);
    assert_eq!(ends(&events, "pkg.lib:future"), [(0, true)]);
    assert!(environment.totals("pkg.lib:future").min().as_nanos() > 4_000_000);
}

/// As in Node.
#[test]
fn times_of_counted_calls_are_known_within_a_percent() {
    let files =
        [("lib.py", "def f(): return sum(range(1000))"), ("main.py", "import lib\nfor i in range(200): lib.f()")];
    let Some(environment) = Environment::with(Runtime::Python, &[call("lib:f")], &files, BTreeMap::new(), 2) else {
        return;
    };
    environment.succeed(&["main.py"]);
    let totals = environment.totals("lib:f");
    assert_eq!(totals.aggregated, 198);
    totals.assert_fine_classes();
}

/// As in Node.
#[test]
fn failed_calls_are_counted_in_no_class() {
    let lib = "
import time
def f(fail):
    time.sleep(fail * 0.003)
    if fail: raise ValueError()
";
    let main = "
import lib
for i in range(52):
    try: lib.f((i + 1) % 2)
    except ValueError: pass
";
    let files = [("lib.py", lib), ("main.py", main)];
    let Some(environment) = Environment::with(Runtime::Python, &[call("lib:f")], &files, BTreeMap::new(), 2) else {
        return;
    };
    environment.succeed(&["main.py"]);
    environment.totals("lib:f").assert_no_failed_call_is_classed((50, 25));
}

/// 20,000 calls of which 1,001 had been reported were 1,001 where prony then ended the program.
#[test]
fn counted_calls_are_reported_before_a_stop_with_the_instant_of_the_last() {
    let lib = "
def f(n): return n
def g(n): return n
";
    let main = "
import lib, time
for i in range(50): lib.f(i)
time.sleep(0.3)
lib.g(1)
print('went on')
";
    let calls = [call("lib:f"), suspended_at("lib:g")];
    let files = [("lib.py", lib), ("main.py", main)];
    let Some(environment) = Environment::with(Runtime::Python, &calls, &files, BTreeMap::new(), 2) else { return };
    let child = environment.start(&["main.py"]);
    let _thread = environment.send(0, SuspensionCommand::Stop);
    assert_eq!(child.wait_with_output().unwrap().stdout, b"");
    let counted = environment.counted("lib:f");
    let (at, last) = counted.last().unwrap();
    assert_eq!((last.count, last.open), (48, 0));
    assert!(at.since(last.last) >= Nanos::from_millis(290), "it ended before the work that followed");
    assert!(last.last >= environment.lines()[0].at && counted[0].1.last <= last.last);
}

/// The time of such a call was that of handing the work over.
#[test]
fn futures_of_executors_end_when_they_are_done() {
    let lib = "
from concurrent.futures import Future, ThreadPoolExecutor
import time
pool = ThreadPoolExecutor(2)
def job(n):
    time.sleep(0.1)
    return 1 / n
def put(n): return pool.submit(job, n)
def cancelled():
    future = Future()
    future.cancel()
    return future
";
    let main = "
import lib
print(lib.put(1).result(), lib.put(0).exception(), lib.cancelled().cancelled())
";
    let calls = ["lib:put", "lib:cancelled"].map(call);
    let Some(environment) = Environment::new(Runtime::Python, &calls, &[("lib.py", lib), ("main.py", main)]) else {
        return;
    };
    assert_eq!(environment.succeed(&["main.py"]), "1.0 division by zero True");
    let events = environment.events();
    assert_eq!(ends(&events, "lib:put"), [(0, true), (0, false)]);
    assert_eq!(ends(&events, "lib:cancelled"), [(0, false)]);
    assert!(environment.totals("lib:put").min() >= Nanos::from_millis(100));
}

/// To make a generator takes no time, whatever its values take.
#[test]
fn what_does_its_work_after_the_call_is_reported_once() {
    let work = "
import contextlib
def items(): yield 1
class Wait:
    def __await__(self):
        return iter(())
def wait(): return Wait()
async def made(): return Wait()
@contextlib.contextmanager
def entered(): yield 1
@contextlib.asynccontextmanager
async def opening(): yield 1
async def pages(): yield 1
async def later(): return items()
def mapped(): return map(abs, [1])
def listed(): return [1]
def opened(): return open(__file__)
";
    let main = "
import asyncio, work
async def main():
    made = [*work.items(), *work.items(), *work.mapped(), *work.listed()]
    made += [page async for page in work.pages()]
    made += await work.later()
    work.opened().close()
    for _ in range(2): await work.wait()
    await work.made()
    with work.entered(): pass
    async with work.opening(): pass
    print(*made)
asyncio.run(main())
";
    let calls = ["items", "pages", "later", "mapped", "listed", "opened", "wait", "made", "entered", "opening"]
        .map(|name| call(&format!("work:{name}")));
    let files = [("work.py", work), ("main.py", main)];
    let Some(environment) = Environment::new(Runtime::Python, &calls, &files) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "1 1 1 1 1 1");
    let event = |event| match event {
        ProbeEvent::Deferred { call, returned } => Some((call, returned)),
        _ => None,
    };
    let found: Vec<(String, String)> = environment.events().into_iter().filter_map(event).collect();
    let of = |call: &str, returned: &str| (format!("work:{call}"), returned.to_owned());
    let generators = [of("items", "a generator"), of("mapped", "an iterator")];
    // One of `later` is made by `items`, which has been reported.
    let later = [of("pages", "a generator"), of("later", "a generator"), of("wait", "an awaitable")];
    let entered = ["entered", "opening"].map(|name| of(name, "a context manager"));
    assert_eq!(found, generators.into_iter().chain(later).chain(entered).collect::<Vec<_>>());
}

#[test]
fn a_hot_function_is_counted_and_collections_too() {
    let main = "
from pkg.lib import Store
s, n, keep = Store(), 0, []
for i in range(20000):
    n = s.put(n)
    keep.append([i])
print(n)
";
    let Some(environment) = environment(&["pkg.lib:Store.put"], main) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "20000");
    let totals = environment.totals("pkg.lib:Store.put");
    assert_eq!((totals.count(), totals.aggregated), (20_000, 19_000));
    assert_eq!(totals.buckets().iter().map(|(.., count)| count).sum::<u64>(), 19_000);
    let heap = environment.events().into_iter().rev().find_map(|event| match event {
        ProbeEvent::Heap { why: Occasion::Exit, heap, .. } => Some(heap),
        _ => None,
    });
    let heap = heap.unwrap();
    assert!(heap.gc.measured().is_some_and(|gc| gc.count > 0 && gc.time.as_nanos() > 0));
    assert!(heap.blocks.measured().is_some_and(|blocks| *blocks > 20_000));
    assert_eq!(heap.used.measured(), None, "CPython does not report bytes");
}

/// As in Node; threads of a process count as one.
#[test]
fn counted_calls_report_how_many_are_running_and_whether_they_overlap() {
    let lib = "
import asyncio, threading
together = threading.Barrier(5)
async def one():
    await asyncio.sleep(0.002)
async def pool():
    await asyncio.sleep(0.002)
def threads():
    together.wait()
def never(event):
    event.wait()
";
    let main = "
import asyncio, threading, time
import lib
async def several(function):
    for _ in range(10):
        await function()
async def main():
    await several(lib.one)
    await asyncio.gather(several(lib.pool), several(lib.pool))
asyncio.run(main())
all = [threading.Thread(target=lib.threads) for _ in range(5)]
for thread in all: thread.start()
for thread in all: thread.join()
done = threading.Event()
done.set()
for _ in range(4): lib.never(done)
threading.Thread(target=lib.never, args=(threading.Event(),), daemon=True).start()
time.sleep(0.5)
print('done')
";
    let calls = ["one", "pool", "threads", "never"].map(|name| call(&format!("lib:{name}")));
    let files = [("lib.py", lib), ("main.py", main)];
    let Some(environment) = Environment::with(Runtime::Python, &calls, &files, BTreeMap::new(), 2) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "done");
    let counted = |name: &str| environment.counted(&format!("lib:{name}"));
    let last = |name: &str| counted(name).last().map(|(_, last)| (last.count, last.open, last.overlapped));
    assert_eq!(last("one"), Some((8, 0, false)));
    assert_eq!(last("pool"), Some((18, 0, true)));
    assert_eq!(last("threads"), Some((3, 0, true)));
    assert_eq!(last("never"), Some((2, 1, false)), "the probe reports it at the end of the program");
    let (ended, bye) = (counted("pool").last().unwrap().0, environment.lines().last().unwrap().at);
    assert!(bye.since(ended) >= Nanos::from_millis(400), "the end of the last of several is reported at once");
}

#[test]
fn callable_object_with_methods_of_its_own_stays_as_it_is() {
    let main = "
from pkg import cached
cached.of(1); cached.of.cache_clear(); cached.plain(1)
print(cached.plain.cost)
";
    let cached = "
import functools
@functools.lru_cache
def of(x):
    return x
def plain(x):
    return x
plain.cost = 7
";
    let calls: Vec<_> = ["pkg.cached:of", "pkg.cached:plain"].map(call).into();
    let files = [("pkg/__init__.py", ""), ("pkg/cached.py", cached), ("main.py", main)];
    let Some(environment) = Environment::new(Runtime::Python, &calls, &files) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "7");
    let missed = |event: &ProbeEvent| match event {
        ProbeEvent::NotFound { call, why, .. } => Some((call.clone(), why.clone())),
        _ => None,
    };
    let missed: Vec<_> = environment.events().iter().filter_map(missed).collect();
    assert!(missed.len() == 1 && missed[0].0 == "pkg.cached:of", "{missed:?}");
    assert!(
        missed[0].1.contains("is a callable object, not a function") && missed[0].1.contains("cache_clear"),
        "{missed:?}"
    );
    assert_eq!(ends(&environment.events(), "pkg.cached:plain"), [(0, true)]);
}

/// A timed function took the place of the object, and the program had no `cache_clear` any more.
#[test]
fn callable_object_inside_a_static_or_class_method_stays_as_it_is() {
    let main = "
from pkg.cached import Store
Store.fixed(1); Store.fixed.cache_clear(); Store.make(1); print(Store.make.cache_info().misses)
";
    let cached = "
import functools
class Store:
    fixed = staticmethod(functools.lru_cache(abs))
    make = classmethod(functools.lru_cache(lambda cls, x: x))
";
    let calls: Vec<_> = ["pkg.cached:Store.fixed", "pkg.cached:Store.make"].map(call).into();
    let files = [("pkg/__init__.py", ""), ("pkg/cached.py", cached), ("main.py", main)];
    let Some(environment) = Environment::new(Runtime::Python, &calls, &files) else { return };
    assert_eq!(environment.succeed(&["main.py"]), "1");
    let why = |event: &ProbeEvent| match event {
        ProbeEvent::NotFound { why, .. } => Some(why.clone()),
        _ => None,
    };
    let whys: Vec<_> = environment.events().iter().filter_map(why).collect();
    assert!(whys.len() == 2 && whys.iter().all(|why| why.contains("would have no `cache_clear`")), "{whys:?}");
}

/// `SubSub.make(2)` returned `('Sub', 2)`, and an instance could not call the static method.
#[test]
fn inherited_class_and_static_methods_stay_what_they_are() {
    let work = "
class Base:
    @classmethod
    def make(cls, n): return (cls.__name__, n)
    @staticmethod
    def helper(n): return n
    def own(self, n): return (type(self).__name__, n)
class Sub(Base, dict): pass
class SubSub(Sub): pass
";
    let main = "
import work
print(work.Sub.make(1), work.SubSub.make(2), work.Sub().make(3), work.Sub().helper(4), work.SubSub().own(5), work.Base.make(6))
print(work.SubSub.fromkeys([7]))
";
    let calls = ["make", "helper", "own", "fromkeys"].map(|name| call(&format!("work:Sub.{name}")));
    let Some(environment) = Environment::new(Runtime::Python, &calls, &[("work.py", work), ("main.py", main)]) else {
        return;
    };
    let printed = "('Sub', 1) ('SubSub', 2) ('Sub', 3) 4 ('SubSub', 5) ('Base', 6)\n{7: None}";
    assert_eq!(environment.succeed(&["main.py"]), printed);
    let events = environment.events();
    assert_eq!(calls.each_ref().map(|call| ends(&events, &call.id).len()), [3, 1, 1, 0]);
}
