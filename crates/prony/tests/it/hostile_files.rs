//! Tests the checker, inside this process, with experiment files that have thousands of faults. The checker once
//! printed 848 MB for one file, and took 20 s for another. The fuzz target in `fuzz/` gives it mutated files.

use prony_model::catalog::{Anywhere, Overrides};
use prony_runner::Error;
use prony_runner::load;

/// More than what any set of 20 problems takes.
const MOST: usize = 128 << 10;

/// What the checker says of a text: nothing, where it accepts it.
fn said(text: &str) -> String {
    match load::text(text.to_owned(), "x.toml", &Overrides::default(), &Anywhere) {
        Ok(_) => String::new(),
        Err(error) => error.text(),
    }
}

/// A file in which each of `n` values is at fault.
fn faulty(kind: &str, n: usize) -> String {
    let list = |one: &dyn Fn(usize) -> String| (0..n).map(one).collect::<Vec<_>>().join(", ");
    let store = "[store]\nengine = \"{e}\"\n[data]\nrecords = 10\n[[phase]]\nname = \"write\"\nput = {}\n";
    match kind {
        "engines" => format!("[factors]\ne = [{}]\n{store}", list(&|at| format!("\"none{at}\""))),
        "levels twice" => format!("[factors]\ne = [{}]\n{store}", list(&|at| format!("\"none{}\"", at / 2))),
        "skips" => format!(
            "[factors]\ne = [\"memory\", \"lmdb\"]\n[design]\nskip = [{}]\n{store}",
            list(&|at| format!("{{ e = \"none{at}\" }}"))
        ),
        "keys" => format!(
            "{}\n[factors]\ne = [\"memory\"]\n{store}",
            (0..n).map(|at| format!("key{at} = {at}\n")).collect::<String>()
        ),
        "metrics" => format!(
            "[factors]\ne = [\"memory\"]\n[compare]\nmetrics = [{}]\n{store}",
            list(&|at| format!("\"phase{at}.time\""))
        ),
        "phases" => format!(
            "[factors]\ne = [\"memory\"]\n{store}{}",
            (0..n).map(|at| format!("[[phase]]\nname = \"p{}\"\nget = {{}}\n", at / 2)).collect::<String>()
        ),
        _ => unreachable!(),
    }
}

const KINDS: [&str; 6] = ["engines", "levels twice", "skips", "keys", "metrics", "phases"];

#[test]
fn problems_are_shown_up_to_20_and_the_rest_counted() {
    for kind in KINDS {
        let text = said(&faulty(kind, 500));
        let shown = text.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(shown, 21, "{kind}: 20 and the sum:\n{text}");
        assert!(text.contains("\nand ") && text.contains(" more problems\n"), "{kind}:\n{text}");
        assert!(text.len() < MOST, "{kind}: {} bytes", text.len());
    }
    let text = said(&faulty("engines", 8_000));
    assert!(text.len() < MOST && text.ends_with("`x.toml` has 8000 problems; nothing was run\n"), "{}", text.len());
    let three = said(&faulty("engines", 3));
    assert!(!three.contains("more problems") && three.contains("`x.toml` has 3 problems"), "{three}");
}

/// CPU time of this thread: a busy machine does not change it.
fn cpu(work: impl Fn()) -> f64 {
    let now = || {
        let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        at.tv_sec as f64 + at.tv_nsec as f64 / 1e9
    };
    let one = || {
        let began = now();
        work();
        now() - began
    };
    (0..3).map(|_| one()).fold(f64::INFINITY, f64::min)
}

/// Eight times the problems take eight times the work, not sixty-four times.
#[test]
fn checker_takes_time_in_proportion_to_the_problems() {
    for kind in KINDS {
        let of = |n| {
            let text = faulty(kind, n);
            cpu(|| drop(said(&text)))
        };
        let (small, large) = (of(1_000), of(8_000));
        assert!(large < small * 32.0 + 0.05, "{kind}: {small} s of CPU for 1,000, {large} for 8,000");
    }
}

#[test]
fn far_too_many_levels_are_refused_at_once() {
    let text = said(&faulty("engines", 200_000));
    assert!(text.contains("the factors make more than 100000 combinations"), "{}", &text[..text.len().min(2_000)]);
    let text = said(&faulty("engines", 20_000));
    assert!(text.contains("20000 variants would run; the maximum is 10000"), "{}", &text[..text.len().min(2_000)]);
}

#[test]
fn values_that_no_run_can_begin_with_are_faults_with_their_place() {
    let store = |limits: &str, phase: &str| {
        format!(
            "[compare]\nblocks = 1\n{limits}\n[store]\nengine = \"memory\"\n[data]\nrecords = 10\n[[phase]]\nname = \"write\"\n{phase}\n"
        )
    };
    let program = |keys: &str| format!("[program.x]\n{keys}\n");
    for (text, line, message) in [
        (store("alpha = 0", "put = {}"), 3, "`alpha` cannot be `0`"),
        (store("alpha = \"100%\"", "put = {}"), 3, "`alpha` cannot be `100%`"),
        (store("[limits]\ntime = \"0 s\"", "put = {}"), 4, "`time` cannot be zero"),
        (store("[limits]\ntime = { trial = \"0 ms\" }", "put = {}"), 4, "`trial` cannot be zero"),
        (store("[limits]\ntime = { phase = \"0 ns\" }", "put = {}"), 4, "`phase` cannot be zero"),
        (store("[observe]\nthroughput = \"0 s\"", "put = {}"), 4, "`throughput` cannot be zero"),
        (store("", "put = { duration = \"0 s\" }"), 10, "`duration` cannot be zero"),
        (store("", "limit = \"0 s\"\nput = {}"), 10, "`limit` cannot be zero"),
        (store("", "pause = \"0 s\""), 10, "`pause` cannot be zero"),
        (store("", "settle = { quiet = \"0 s\" }"), 10, "`quiet` cannot be zero"),
        (program("command = [\"true\", \"a\\u0000b\"]"), 2, "cannot contain the character NUL"),
        (program("command = \"true\"\nenv = { A = \"\\u0000\" }"), 3, "cannot contain the character NUL"),
        (program("command = \"true\"\ndirectory = \"a\\u0000\""), 3, "cannot contain the character NUL"),
    ] {
        let Err(Error::Experiment { problems, .. }) =
            load::text(text.clone(), "x.toml", &Overrides::default(), &Anywhere)
        else {
            panic!("accepted:\n{text}")
        };
        let found = problems.iter().find(|problem| problem.message.contains(message));
        let found = found.unwrap_or_else(|| panic!("no `{message}` among {problems:#?}"));
        assert_eq!(found.line, line, "{text}");
        assert!(found.column > 1, "the place of the value");
    }
    let accepted = program("command = \"cat\"\ninput = { text = \"a\\u0000b\" }");
    assert_eq!(said(&accepted), "", "data may hold any character");
}
