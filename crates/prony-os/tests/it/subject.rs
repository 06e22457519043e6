//! Processes to be observed: this test binary started again, with a task in its environment.
//!
//! A subject prints `ready` when its task is done and then idles until its input closes.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a subject speaks to its test by its output")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use prony_model::units::{Bytes, Nanos};
use prony_os::clock::monotonic;
use prony_os::fixture::{Allocation, MappedFile, burst};

const TASK: &str = "PRONY_TEST_TASK";

/// A running subject; ended when dropped.
pub(crate) struct Subject {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Subject {
    /// Starts this binary again to do `task`, which begins at the first line of [`Self::go`].
    pub(crate) fn start(task: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a test knows its own path"))
            .args(["subject::does_its_task", "--exact", "--nocapture", "--test-threads=1", "--quiet"])
            .env(TASK, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary starts again");
        let said = BufReader::new(child.stdout.take().expect("stdout was asked to be a pipe"));
        let mut subject = Self { child, said };
        subject.wait_for("held");
        subject
    }

    /// A subject whose task is done.
    pub(crate) fn done(task: &str) -> Self {
        let mut subject = Self::start(task);
        subject.go();
        subject
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it do its task and returns its report.
    pub(crate) fn go(&mut self) -> String {
        self.let_go();
        self.wait_for("ready")
    }

    fn let_go(&mut self) {
        let input = self.child.stdin.as_mut().expect("stdin was asked to be a pipe");
        input.write_all(b"go\n").expect("the subject reads");
    }

    /// Closes its input, and waits for its end.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("a child can be waited for");
        assert!(status.success(), "{status}");
    }

    /// Its report after its task was done.
    pub(crate) fn then(&mut self) -> String {
        self.wait_for("then")
    }

    fn wait_for(&mut self, word: &str) -> String {
        let mut line = String::new();
        while self.said.read_line(&mut line).expect("the subject speaks UTF-8") > 0 {
            // The test harness may have written before it on the same line.
            if let Some((_, rest)) = line.split_once(&format!("<{word}>")) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the subject ended before it said `{word}`");
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Prints that a test cannot run here; where everything is required, that is a failure.
#[expect(clippy::disallowed_methods, reason = "text of a test")]
pub(crate) fn skipped(what: &str, why: &dyn std::fmt::Display) {
    assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "{what}: {why}");
    // Straight to the terminal: the harness hides what a passing test prints.
    drop(writeln!(std::io::stderr(), "SKIPPED: {what}: {why}"));
}

#[test]
fn does_its_task() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    println!("<held>");
    wait_for_line();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    match words[0] {
        "nothing" => wait_until_closed("", ()),
        "allocate" => wait_until_closed("", Allocation::touched(Bytes::from_mib(number(1)))),
        "spike" => {
            drop(Allocation::touched(Bytes::from_mib(number(1))));
            wait_until_closed("", ());
        }
        "map" => {
            let file = MappedFile::open(Path::new(words[1])).expect("the file is there");
            file.read_all();
            wait_until_closed("", file);
        }
        "burst" => wait_until_closed(&burst(Nanos::from_millis(number(1))).as_nanos().to_string(), ()),
        "answer-then-burst" => {
            println!("<ready>");
            let used = burst(Nanos::from_millis(number(1)));
            println!("<then> {} {}", monotonic().as_nanos(), used.as_nanos());
            wait_until_closed("", ());
        }
        "threads" => wait_until_closed(&threads(number(1), number(2)).to_string(), ()),
        "children" => wait_until_closed("", children(number(1), number(2))),
        "ended-child" => {
            children(1, number(1)).into_iter().for_each(Subject::end);
            wait_until_closed("", ());
        }
        "sync" => {
            sync(Path::new(words[1]), number(2));
            wait_until_closed("", ());
        }
        "syncfs" => {
            // It has nothing to write: only the call counts.
            let proc = File::open("/proc/self/stat").expect("there is a procfs");
            (0..number(1)).for_each(|_| rustix::fs::syncfs(&proc).expect("a file system can be synced"));
            wait_until_closed("", ());
        }
        "sync-by-child" => wait_until_closed("", Subject::done(&task.replace("-by-child", ""))),
        "write" => {
            write(Path::new(words[1]), number(2));
            wait_until_closed("", ());
        }
        other => panic!("`{other}` is not a task"),
    }
}

fn wait_until_closed<T>(said: &str, value: T) {
    println!("<ready> {said}");
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).expect("stdin is a pipe");
    drop(value);
}

fn wait_for_line() {
    std::io::stdin().read_line(&mut String::new()).expect("stdin is a pipe");
}

/// CPU nanoseconds used by `count` threads that each burn `each_ms`, and end.
fn threads(count: u64, each_ms: u64) -> u64 {
    let all: Vec<_> =
        (0..count).map(|_| std::thread::spawn(move || burst(Nanos::from_millis(each_ms)).as_nanos())).collect();
    all.into_iter().map(|thread| thread.join().expect("a burst does not panic")).sum()
}

/// Children that each burn `each_ms` and then idle.
fn children(count: u64, each_ms: u64) -> Vec<Subject> {
    (0..count).map(|_| Subject::done(&format!("burst {each_ms}"))).collect()
}

/// `times` calls of fsync and of fdatasync by the main thread and as many by a second one.
fn sync(dir: &Path, times: u64) {
    let path = dir.join(std::process::id().to_string());
    let calls = move || {
        let file = File::create(path).expect("the directory can be written");
        for _ in 0..times {
            file.sync_all().expect("a file can be synced");
            file.sync_data().expect("a file can be synced");
        }
    };
    calls.clone()();
    std::thread::spawn(calls).join().expect("the calls do not panic");
}

fn write(path: &Path, mib: u64) {
    let mut file = File::create(path).expect("the directory can be written");
    for _ in 0..mib {
        file.write_all(&vec![7; 1 << 20]).expect("the disk has room");
    }
    file.sync_all().expect("a file can be synced");
}
