//! The text that `perf script --ns -F comm,pid,tid,time,period,event,ip,sym,dso` writes: a line for each sample, then its
//! stack from the innermost call outwards, then an empty line.

use std::sync::LazyLock;

use regex::Regex;

use super::build::Builder;
use super::model::{Function, Sample, Thread};
use super::{Damaged, package};
use crate::units::Nanos;

/// `node 3717/3717 11459.687952123:   5025125 cpu-clock:u: `; a command may have blanks.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^\s*(?<comm>\S.*?)\s+(?<pid>\d+)/(?<tid>\d+)\s+(?<s>\d+)\.(?<ns>\d{6,9}):\s+(?<period>\d+)\s+\S+?:?\s*$",
    )
    .expect("a constant that tests use")
});

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
    /// [`Damaged`] with the line where it is none.
    pub fn add_perf_script(&mut self, text: &str) -> Result<(), Damaged> {
        let (mut head, mut stack) = (None, Vec::new());
        for (number, line) in text.lines().enumerate() {
            let damaged = |what: &str| Damaged(format!("line {}: {what}: `{line}`", number + 1));
            if line.trim().is_empty() {
                self.take(head.take(), &mut stack);
            } else if line.starts_with(['\t', ' ']) && head.is_some() {
                stack.push(call(line).ok_or_else(|| damaged("no call of a stack"))?);
            } else if line.starts_with('#') {
                continue;
            } else {
                self.take(head.take(), &mut stack);
                head = Some(self::head(line).ok_or_else(|| damaged("no sample"))?);
            }
        }
        self.take(head, &mut stack);
        Ok(())
    }

    fn take(&mut self, head: Option<Head>, stack: &mut Vec<(&str, &str)>) {
        let Some(Head { at, time, thread }) = head else { return stack.clear() };
        if stack.is_empty() {
            stack.push(("(unknown)", ""));
        }
        let stack_is_deep = stack.len() > 1;
        // The copy of the stack was too short, or its tables did not lead on: no function, and not nothing either.
        if let Some(outermost @ ("[unknown]", "[unknown]")) = stack.last_mut().filter(|_| stack_is_deep) {
            *outermost = ("(callers not known)", "");
        }
        let mut frame = None;
        for (symbol, library) in stack.drain(..).rev() {
            let package = self.package(&package::of_library(symbol, library));
            let (name, file) = (symbol.to_owned(), library.to_owned());
            let function = self.function(Function { name, file, line: None, column: None, package, idle: false });
            frame = Some(self.frame(frame, function));
        }
        let thread = self.thread(thread);
        if let Some(frame) = frame {
            self.sample(Sample { at, time, thread, frame });
        }
    }
}

fn head(line: &str) -> Option<Head> {
    let found = HEAD.captures(line)?;
    let number = |name: &str| found[name].parse::<u64>().ok();
    let fraction = format!("{:0<9}", &found["ns"]).parse::<u64>().ok()?;
    let thread =
        Thread { pid: found["pid"].parse().ok()?, tid: found["tid"].parse().ok()?, name: found["comm"].to_owned() };
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

    #[test]
    fn calls_have_symbols_with_blanks_and_libraries_that_are_gone() {
        assert_eq!(call("\t   f89f0 __close (/lib/libc.so.6)"), Some(("__close", "/lib/libc.so.6")));
        assert_eq!(call("\t 1 f(int, char (*)()) (/lib/x y.so)"), Some(("f(int, char (*)())", "/lib/x y.so")));
        assert_eq!(call("\t 7a [unknown] (/tmp/a (deleted))"), Some(("[unknown]", "/tmp/a (deleted)")));
        assert_eq!(call("\t 7a ([vdso])"), Some(("[unknown]", "[vdso]")));
        assert_eq!(call("\t nothing at all"), None);
    }
}
