//! Reads the text that `perf script --ns -F comm,pid,tid,time,period,event,ip,sym,dso` writes: a line for each sample,
//! then its stack from the innermost call outwards, then an empty line.
//!
//! Threads choose their names: one may be empty, begin as a comment, or have several lines.

use std::sync::LazyLock;

use regex::Regex;

use super::build::Builder;
use super::model::{Function, Sample, Thread};
use super::{Damaged, package};
use prony_model::units::Nanos;

/// `node 3717/3717 11459.687952123:   5025125 cpu-clock:u: `; a command may have blanks, or no name.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^\s*(?:(?<comm>\S.*?)\s+)?(?<pid>\d+)/(?<tid>\d+)\s+(?<s>\d+)\.(?<ns>\d{6,9}):\s+(?<period>\d+)\s+\S+?:?\s*$",
    )
    .expect("a constant that tests use")
});

const NO_HEAD: &str = "not the first line of a sample";

/// Characters of a thread's name in Linux, at most.
const LONGEST_NAME: usize = 15;

struct Head {
    at: Nanos,
    time: Nanos,
    thread: Thread,
}

impl Builder {
    /// Adds a text of `perf script`. Its periods must be nanoseconds, as those of `cpu-clock` are, and its instants
    /// `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// [`Damaged`] with the line that is not in this format.
    pub fn add_perf_script(&mut self, text: &str) -> Result<(), Damaged> {
        let (mut head, mut stack) = (None, Vec::new());
        let damaged = |number: usize, what: &str| {
            Damaged(format!("line {}: {what}: `{}`", number + 1, text.lines().nth(number).unwrap_or_default()))
        };
        // The lines of a name before its last one, with the number of the first.
        let mut begun: Option<(usize, String)> = None;
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() && begun.is_none() {
                self.take(head.take(), &mut stack);
            } else if line.starts_with(['\t', ' ']) && head.is_some() {
                stack.push(call(line).ok_or_else(|| damaged(number, "not a stack frame"))?);
            } else if let Some(mut next) = self::head(line) {
                self.take(head.take(), &mut stack);
                if let Some((_, name)) = begun.take() {
                    next.thread.name = format!("{name}\n{}", next.thread.name);
                }
                head = Some(next);
            } else if begun.is_some() || !line.starts_with('#') {
                self.take(head.take(), &mut stack);
                let (first, name) = match begun {
                    Some((first, name)) => (first, format!("{name}\n{line}")),
                    None => (number, line.to_owned()),
                };
                if name.chars().count() > LONGEST_NAME {
                    return Err(damaged(first, NO_HEAD));
                }
                begun = Some((first, name));
            }
        }
        self.take(head, &mut stack);
        begun.map_or(Ok(()), |(first, _)| Err(damaged(first, NO_HEAD)))
    }

    fn take(&mut self, head: Option<Head>, stack: &mut Vec<(&str, &str)>) {
        let Some(Head { at, time, thread }) = head else { return stack.clear() };
        if stack.is_empty() {
            stack.push(("(unknown)", ""));
        }
        let stack_is_deep = stack.len() > 1;
        // The copy of the stack was too short, or could not be unwound: the callers are not known.
        if let Some(outermost @ ("[unknown]", "[unknown]")) = stack.last_mut().filter(|_| stack_is_deep) {
            *outermost = ("(callers not known)", "");
        }
        let mut frame = None;
        for (symbol, library) in stack.drain(..).rev() {
            let function = match script(symbol, library) {
                Some(Script { name, file, line, column }) => {
                    let package = self.package(package::of_script(name, file, line));
                    Function { name: name.to_owned(), file: file.to_owned(), line, column, package, idle: false }
                }
                None => {
                    let package = self.package(&package::of_library(symbol, library));
                    let (name, file) = (symbol.to_owned(), library.to_owned());
                    Function { name, file, line: None, column: None, package, idle: false }
                }
            };
            let function = self.function(function);
            frame = Some(self.frame(frame, function));
        }
        let thread = self.thread(thread);
        if let Some(frame) = frame {
            self.sample(Sample { at, time, thread, frame });
        }
    }
}

/// A function of JavaScript.
#[derive(Debug, PartialEq, Eq)]
struct Script<'a> {
    name: &'a str,
    file: &'a str,
    line: Option<u32>,
    column: Option<u32>,
}

/// The function that V8 named in the map of its machine code (`--perf-basic-prof`): `JS:*inner /site/a.js:1:15`, or
/// `LazyCompile:*inner /site/a.js:1:15` before Node 18. The sign says how well it is compiled, and the library is a map of
/// one process: the same function is one function however often it is compiled, in every process.
fn script<'a>(symbol: &'a str, library: &str) -> Option<Script<'a>> {
    const KINDS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
    if !is_map(library) {
        return None;
    }
    let named = KINDS.iter().find_map(|kind| symbol.strip_prefix(kind))?.trim_start_matches(['*', '~', '^', '+', '\'']);
    let number = |text: &str| text.parse::<u32>().ok();
    let placed = |text: &'a str| text.rsplit_once(':').and_then(|(rest, last)| Some((rest, number(last)?)));
    let (rest, line, column) = match placed(named) {
        None => (named, None, None),
        Some((rest, last)) => match placed(rest) {
            Some((rest, line)) => (rest, Some(line), Some(last)),
            None => (rest, Some(last), None),
        },
    };
    // A function without a name has only a place; a path may have blanks, and so begins at its root.
    let cut = [" file://", " node:", " /"].iter().filter_map(|root| rest.find(root)).min();
    let (name, file) = cut.or_else(|| rest.rfind(' ')).map_or(("", rest), |at| (&rest[..at], &rest[at + 1..]));
    let name = if name.is_empty() { "(anonymous)" } else { name };
    Some(Script { name, file, line, column })
}

/// Whether a library is the map of machine code that a process made while it ran: `/tmp/perf-PID.map`.
fn is_map(library: &str) -> bool {
    let inside = library.rsplit('/').next().and_then(|file| file.strip_prefix("perf-")?.strip_suffix(".map"));
    inside.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

fn head(line: &str) -> Option<Head> {
    let found = HEAD.captures(line)?;
    let number = |name: &str| found[name].parse::<u64>().ok();
    let fraction = format!("{:0<9}", &found["ns"]).parse::<u64>().ok()?;
    let name = found.name("comm").map_or("", |comm| comm.as_str()).to_owned();
    let thread = Thread { pid: found["pid"].parse().ok()?, tid: found["tid"].parse().ok()?, name };
    let at = Nanos::from_secs(number("s")?) + Nanos::from_nanos(fraction);
    Some(Head { at, time: Nanos::from_nanos(number("period")?), thread })
}

/// Symbol and library of `\tffffffff816b7f72 __x64_sys_close ([kernel.kallsyms])`.
fn call(line: &str) -> Option<(&str, &str)> {
    let (address, rest) = line.trim().split_once(' ')?;
    if !address.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let rest = rest.trim();
    let inside = rest.strip_suffix(')')?;
    // The library stands in the last parentheses; `(deleted)` may stand inside them.
    let cut = inside.trim_end_matches(" (deleted)").rfind(" (").map(|at| (&inside[..at], &inside[at + 2..]));
    Some(cut.unwrap_or(("[unknown]", inside.trim_start_matches('('))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_whatever_its_command_is_called() {
        let head = head("tokio runtime 3/w 3717/3718 11459.687952123:    5025125 cpu-clock:u: ").unwrap();
        assert_eq!((head.at.as_nanos(), head.time.as_nanos()), (11_459_687_952_123, 5_025_125));
        assert_eq!((head.thread.pid, head.thread.tid, head.thread.name.as_str()), (3717, 3718, "tokio runtime 3/w"));
        assert_eq!(super::head("sh 1/1 7.000001: 1 cpu-clock:").unwrap().at.as_nanos(), 7_000_001_000);
        assert!(super::head("sh 1/1 7.000001: cpu-clock:").is_none());
    }

    /// One thread of such a name, and the whole profile was "not a valid profile".
    #[test]
    fn threads_may_have_any_name() {
        let names = ["", "#1", "# a b", "a\nb", "a\n", "a\n\nb c", "12/13", "1/2 3.4", "x: "];
        let sample = |(at, name): (usize, &&str)| {
            format!("{name} 7/{} 1.000000001:    1000 cpu-clock: \n\t 1a f (/lib/a.so)\n\n", 10 + at)
        };
        let text: String = names.iter().enumerate().map(sample).collect();
        let mut builder = Builder::default();
        builder.add_perf_script(&format!("# a comment\n{text}")).unwrap();
        let profile = builder.finish();
        let found: Vec<&str> = profile.threads.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(found, names.map(|name| name.trim_end_matches(' ')));
        assert_eq!((profile.samples.len(), profile.thread_name(0).as_str()), (names.len(), "[7, thread 10]"));
        for text in ["hello", "a\nb\n\n", "a name that is far too long\nsh 7/7 1.000000001: 5 cpu-clock: \n"] {
            let error = Builder::default().add_perf_script(text).unwrap_err().to_string();
            assert!(error.contains("line 1: not the first line of a sample"), "{error}");
        }
    }

    /// Frames of JavaScript were functions called `JS:*inner /site/a.js:1:15` of a library `perf-717.map`, another one in
    /// each process and for each degree of compilation.
    #[test]
    fn frames_of_javascript_are_functions_of_their_files() {
        let map = "/tmp/perf-717.map";
        let is = |name, file, line, column| Some(Script { name, file, line: Some(line), column: Some(column) });
        for (symbol, expected) in [
            ("JS:*inner /site/a.js:1:15", is("inner", "/site/a.js", 1, 15)),
            ("JS:^inner /site/a.js:1:15", is("inner", "/site/a.js", 1, 15)),
            ("LazyCompile:~get a /my site/b.js:20:3", is("get a", "/my site/b.js", 20, 3)),
            ("JS:~ file:///site/c.mjs:4:9", is("(anonymous)", "file:///site/c.mjs", 4, 9)),
            ("JS:*emit node:events:466:44", is("emit", "node:events", 466, 44)),
            ("LazyCompile:*emit events.js:300:44", is("emit", "events.js", 300, 44)),
        ] {
            assert_eq!(script(symbol, map), expected, "{symbol}");
        }
        assert_eq!(script("JS:*inner /site/a.js:1:15", "/usr/bin/node"), None);
        assert_eq!(script("Builtin:ArrayPush", map), None);
        assert_eq!(script("BytecodeHandler:Return", map), None);
        let stack = |pid: u32, sign: char| {
            format!(
                "node {pid}/{pid} 7.000001: 5 cpu-clock:\n\t 1a JS:{sign}f /s/node_modules/x/a.js:1:9 (/tmp/perf-{pid}.map)\n\n"
            )
        };
        let mut builder = Builder::default();
        builder.add_perf_script(&(stack(5, '*') + &stack(5, '~') + &stack(6, '*'))).unwrap();
        let profile = builder.finish();
        let [function] = profile.functions.as_slice() else { panic!("{:?}", profile.functions) };
        assert_eq!((function.label().as_str(), profile.packages[function.package].as_str()), ("f (a.js:1)", "x"));
    }

    #[test]
    fn perf_lines_accept_symbols_with_blanks_and_deleted_libraries() {
        assert_eq!(call("\t   f89f0 __close (/lib/libc.so.6)"), Some(("__close", "/lib/libc.so.6")));
        assert_eq!(call("\t 1 f(int, char (*)()) (/lib/x y.so)"), Some(("f(int, char (*)())", "/lib/x y.so")));
        assert_eq!(call("\t 7a [unknown] (/tmp/a (deleted))"), Some(("[unknown]", "/tmp/a (deleted)")));
        assert_eq!(call("\t 7a ([vdso])"), Some(("[unknown]", "[vdso]")));
        assert_eq!(call("\t nothing at all"), None);
    }
}
