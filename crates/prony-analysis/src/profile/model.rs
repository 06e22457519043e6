//! The model of a profile: functions, stacks, threads and samples.

use std::collections::{BTreeMap, HashMap};

use prony_model::units::Nanos;

/// Everything that was sampled in one trial, of all its threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Every function that was sampled, each once.
    pub functions: Vec<Function>,
    /// Names of packages; [`Function::package`] is an index into it.
    pub packages: Vec<String>,
    /// Every stack that was sampled, as a forest; a parent comes before its children.
    pub frames: Vec<Frame>,
    /// Every thread that was sampled.
    pub threads: Vec<Thread>,
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// How far the clock of the samples may be from `CLOCK_MONOTONIC`, at most.
    pub uncertainty: Nanos,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name; in parentheses where it does not belong to the program: `(garbage collector)`.
    pub name: String,
    /// Where it is from: a file, a URL, or a library; empty where that is not known.
    pub file: String,
    /// Line of its begin, from 1.
    pub line: Option<u32>,
    /// Column of its begin, from 1; two functions may begin in one line.
    pub column: Option<u32>,
    /// Index of its package.
    pub package: usize,
    /// Whether the thread waits here: V8's `(idle)`.
    pub idle: bool,
}

impl Function {
    /// The name with the place: `persist (store.js:12)`.
    pub fn label(&self) -> String {
        self.placed(0, false)
    }

    /// Where it begins, as exactly as that is known: `/site/store.js:12:3`.
    pub fn place(&self) -> String {
        place(&self.file, self.line, self.column)
    }

    /// The label with so many folders of the file, and with the column or without.
    fn placed(&self, folders: usize, has_column: bool) -> String {
        match place(end_of(&self.file, folders), self.line, self.column.filter(|_| has_column)).as_str() {
            "" => self.name.clone(),
            place => format!("{} ({place})", self.name),
        }
    }

    /// The shortest label that none of those functions has whose plain label is the same: with as many folders as
    /// distinguish its file from theirs, and with its column where some are of its own file.
    fn label_among(&self, files: &BTreeMap<&str, usize>) -> String {
        let differs = |folders: &usize| {
            let own = end_of(&self.file, *folders);
            files.keys().all(|file| *file == self.file || end_of(file, *folders) != own)
        };
        // This ends: with all of their folders, files differ.
        let folders = (0..).find(differs).unwrap_or_default();
        self.placed(folders, files.get(self.file.as_str()).is_some_and(|functions| *functions > 1))
    }
}

fn place(file: &str, line: Option<u32>, column: Option<u32>) -> String {
    let line = match (file, line) {
        (_, None) => String::new(),
        // Of a text that was compiled at run time.
        ("", Some(line)) => format!("line {line}"),
        (_, Some(line)) => format!(":{line}"),
    };
    let column = column.map(|column| format!(":{column}")).unwrap_or_default();
    format!("{file}{line}{column}")
}

/// A file with so many of its innermost folders.
fn end_of(file: &str, folders: usize) -> &str {
    file.rmatch_indices('/').nth(folders).map_or(file, |(at, slash)| &file[at + slash.len()..])
}

/// A call in a stack: a function, called from the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Index of the caller's frame; `None` at the bottom of the stack.
    pub parent: Option<usize>,
    /// Index of the function.
    pub function: usize,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Process id.
    pub pid: u32,
    /// The kernel's thread id for `perf`; the number of the worker thread for Node, 0 for the main thread.
    pub tid: u32,
    /// Its name: the command, or the script.
    pub name: String,
}

/// One sample of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, by `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// The time for which it stands.
    pub time: Nanos,
    /// Index of the thread.
    pub thread: usize,
    /// Index of the innermost call's frame.
    pub frame: usize,
}

impl Profile {
    /// The function of a frame.
    pub fn function_of(&self, frame: usize) -> &Function {
        &self.functions[self.frames[frame].function]
    }

    /// A label for each function, which no other function has: tools that read folded stacks know functions by nothing else.
    pub fn labels(&self) -> Vec<String> {
        let mut files: HashMap<String, BTreeMap<&str, usize>> = HashMap::new();
        for function in &self.functions {
            *files.entry(function.label()).or_default().entry(&function.file).or_default() += 1;
        }
        self.functions.iter().map(|function| function.label_among(&files[&function.label()])).collect()
    }

    /// The frames of a stack from its innermost call outwards.
    pub(crate) fn outwards(&self, frame: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(frame), |frame| self.frames[*frame].parent)
    }

    /// The display name of a thread where there are several.
    pub fn thread_name(&self, thread: usize) -> String {
        let Thread { pid, tid, name } = &self.threads[thread];
        let number = match tid {
            0 => format!("[{pid}]"),
            tid if tid == pid => format!("[{pid}]"),
            tid => format!("[{pid}, thread {tid}]"),
        };
        if name.is_empty() { number } else { format!("{name} {number}") }
    }
}
