//! Tests phases of programs that begin and end with output lines and marks, and the metrics that `read` takes from
//! lines.

use std::process::{Child, Command};

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::Completion;

use crate::bench::{Bench, PRONY, amount, finding, guards, reading, said, shell};

#[test]
fn lines_and_marks_make_phases() {
    let bench = Bench::new();
    let script = format!(
        "echo loading; sleep 0.05; echo 'loaded 0.25s - 1,000'; {PRONY} mark work begin; \
         head -c 30000000 /dev/zero | cksum; echo 'work end' >> $PRONY_MARKS; sleep 0.05; echo over"
    );
    let phases = "[[phase]]\nname = \"load\"\nbegin = { line = '^loading$' }\nend = { line = '^loaded' }\n\
                  read = '(?<time>[\\d.]+)s - (?<operations>[\\d,]+)'\n[[phase]]\nname = \"work\"\n\
                  [[phase]]\nname = \"never\"\n[[phase]]\nname = \"open\"\nbegin = { line = 'over' }\nend = { line = \"x\" }\n";
    let trial = bench.trial(&format!("{}{phases}", shell(&script)));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let completions: Vec<Completion> = trial.phases.iter().map(|phase| phase.completion).collect();
    assert_eq!(completions, [Completion::Complete, Completion::Complete, Completion::NotReached, Completion::Partial]);
    assert_eq!(amount(&trial, "load", Metric::Time), 0.25e9);
    assert_eq!((amount(&trial, "load", Metric::Operations), amount(&trial, "load", Metric::Rate)), (1000.0, 4000.0));
    // The first line may have been read late, and by no more than that and what the host of a virtual machine let its
    // processor wait, which nothing inside it can see.
    let lag = amount(&trial, "load", Metric::Lag);
    let wall = reading(&trial, "load", MetricKey::amount(Metric::Wall));
    assert!(lag > 0.0 && wall.is_none_or(|wall| wall + lag >= 25e6), "{wall:?} and {lag}");
    // Where they were read late, which is a finding, counters may be the neighbour's.
    if finding(&trial, "late_counters").is_none() {
        assert!(amount(&trial, "work", Metric::Cpu) > amount(&trial, "load", Metric::Cpu), "the work is in its phase");
    }
    // Its script writes any time; where the phase has no figure, there is nothing that it exceeds.
    let found: Vec<&str> = guards(&trial).into_iter().filter(|guard| *guard != "reported_time_exceeds_wall").collect();
    assert_eq!(found, ["phase_never_began", "phase_never_ended"]);
}

#[test]
fn phases_that_repeat_are_a_finding_with_how_often() {
    let bench = Bench::new();
    let script = "for i in 1 2 3; do echo begin; sleep 0.05; echo end; done";
    let phases = "[[phase]]\nname = \"work\"\nbegin = { line = '^begin' }\nend = { line = '^end' }\n\
                  [[phase]]\nname = \"all\"\nbegin = { line = '^begin' }\n";
    let trial = bench.trial(&format!("{}{phases}", shell(script)));
    let found: Vec<_> = trial.findings.iter().filter(|finding| finding.guard == "phase_repeated").collect();
    let [finding] = found[..] else { panic!("{:?}", trial.findings) };
    assert_eq!((finding.phase.as_deref(), finding.data["not_counted"].as_u64()), (Some("work"), Some(2)));
    assert!(finding.message.contains("2 times more"), "{}", finding.message);
}

/// Processes that compute until this goes, two for each processor.
struct Busy(Vec<Child>);

impl Busy {
    fn begin() -> Self {
        let processors = std::thread::available_parallelism().unwrap().get();
        let one = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..2 * processors).map(one).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// A program that writes lines or marks without a time, and then the instants before and after each write.
const DATED: &str = "
import os, sys, time
fd = 1 if sys.argv[1] == 'lines' else os.open(os.environ['PRONY_MARKS'], os.O_WRONLY)
times = []
for i in range(20):
    time.sleep(0.01)
    before = time.monotonic_ns()
    os.write(fd, b'n%d begin\\n' % i)
    times += [before, time.monotonic_ns()]
    for _ in range(30000): pass
print('times', *times)
";

#[test]
fn what_is_written_lies_within_the_lag_before_its_boundary_however_busy_the_machine_is() {
    if crate::bench::version("python3").is_none() {
        return;
    }
    let bench = Bench::new();
    bench.write("site/dated.py", DATED);
    let busy = Busy::begin();
    for way in ["lines", "marks"] {
        let phase = |i: u32| match way {
            "lines" => format!("[[phase]]\nname = \"p{i}\"\nbegin = {{ line = '^n{i} begin' }}\n"),
            _ => format!("[[phase]]\nname = \"p{i}\"\nbegin = {{ mark = \"n{i}\" }}\n"),
        };
        let phases: String = (0..20).map(phase).collect();
        let program = format!("[program.x]\ncommand = \"python3 dated.py {way}\"\ndirectory = \"site\"\n");
        let trial = bench.trial(&format!("{program}{phases}"));
        let last = said(&trial).lines().last().unwrap().to_owned();
        let times: Vec<u64> = last.split(' ').skip(1).map(|text| text.parse().unwrap()).collect();
        let wrong: Vec<String> = (0..20)
            .filter_map(|i| {
                let begin = trial.phases[i].begin.unwrap().as_nanos();
                let lag = amount(&trial, &format!("p{i}"), Metric::Lag) as u64;
                let (before, after) = (times[2 * i], times[2 * i + 1]);
                let within = before <= begin && begin.saturating_sub(lag) <= after;
                (!within).then(|| format!("{way} {i}: {before} to {after}, read at {begin} and {lag} late at most"))
            })
            .collect();
        // The host of a virtual machine may let a processor wait unseen.
        assert!(wrong.len() <= 2, "{}", wrong.join("\n"));
    }
    drop(busy);
}

#[test]
fn a_mark_of_another_clock_has_the_time_at_which_it_was_read() {
    let bench = Bench::new();
    let mark =
        |boundary: &str, at: u64| format!(r#"echo '{{"mark":"p","boundary":"{boundary}","at":{at}}}' >> $PRONY_MARKS"#);
    let script = format!("{}; sleep 0.05; {}; sleep 0.05", mark("begin", 5), mark("end", u64::MAX / 2));
    let trial = bench.trial(&format!("{}[[phase]]\nname = \"p\"\n", shell(&script)));
    assert!(amount(&trial, "p", Metric::Lag) > 0.0);
    match trial.phases[0].reading(MetricKey::amount(Metric::Wall)).unwrap() {
        Reading::Measured(wall) => {
            assert!(*wall > 0.0 && *wall <= trial.took.as_nanos() as f64, "{wall}: not since the machine's start");
        }
        // Beside other work both marks may be read at once.
        Reading::Missing(why) => assert!(why.to_string().contains("late"), "{why}"),
    }
    assert_eq!(guards(&trial), ["strange_marks"]);
    assert_eq!(trial.program().unwrap().strange_marks_in_all, 2);
    let marks = trial.program().unwrap().strange_marks.join("\n");
    assert!(marks.contains("before the program began") && marks.contains("in the future"), "{marks}");
}

/// Where a reported time could not be read the wall time took its place, and was judged.
#[test]
fn figure_that_read_names_is_reported_by_the_program_or_missing() {
    let bench = Bench::new();
    let why = |script: &str| {
        let read = "[[phase]]\nname = \"p\"\nread = 'took (?<time>\\S+)( at (?<cpu>\\S+))?'\n";
        let trial = bench.trial(&format!("{}{read}", shell(script)));
        assert!(amount(&trial, "p", Metric::Wall) > 0.0, "what is observed stays");
        let of = |metric| match trial.phases[0].reading(MetricKey::amount(metric)).unwrap() {
            Reading::Missing(why) => why.to_string(),
            Reading::Measured(number) => number.to_string(),
        };
        [Metric::Time, Metric::Cpu].map(of)
    };
    assert_eq!(why("echo took 0.5 at 2"), ["500000000", "2000000000"]);
    let without = "the last line of the phase that matched `read` did not report this metric";
    assert_eq!(why("echo took 0.5 at 2; echo took 500ms"), ["the program reported the invalid value `500ms`", without]);
    assert_eq!(why("echo took: 0.5"), ["no line of the phase reported this metric"; 2]);
}

#[test]
fn a_line_between_two_marks_is_in_their_phase_however_late_prony_reads() {
    let bench = Bench::new();
    let step = |name: &str, n: u32| {
        format!("echo '{name} begin' >> $PRONY_MARKS; echo '{name} {n}'; echo '{name} end' >> $PRONY_MARKS; ")
    };
    let phases: String = ["a", "b", "c"]
        .map(|name| format!("[[phase]]\nname = \"{name}\"\nmark = \"{name}\"\nread = '{name} (?<operations>[0-9]+)'\n"))
        .concat();
    let script = format!("exec 3>>$PRONY_MARKS; {}{}{}", step("a", 1), step("b", 2), step("c", 3));
    let trial = bench.trial(&format!("{}{phases}", shell(&script)));
    assert!(trial.phases.iter().all(|phase| phase.completion == Completion::Complete), "{:?}", guards(&trial));
    for (name, n) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
        assert_eq!(amount(&trial, name, Metric::Operations), n, "{name}");
    }
}

#[test]
fn lines_that_several_marked_phases_match_are_a_finding_and_no_figures() {
    let bench = Bench::new();
    let phases = "[[phase]]\nname = \"a\"\nmark = \"a\"\nread = '^a (?<operations>[0-9]+)'\n\
                  [[phase]]\nname = \"all\"\nread = ' (?<rows>[0-9]+)'\n\
                  [[phase]]\nname = \"b\"\nmark = \"b\"\nread = '^b:(?<operations>[0-9]+)'\n";
    let script = "exec 3>>$PRONY_MARKS; echo 'a begin' >&3; echo 'a 1'; echo 'a end' >&3; \
                  echo 'b begin' >&3; echo 'b:2'; echo 'b end' >&3; echo 'c 3'";
    let trial = bench.trial(&format!("{}{phases}", shell(script)));
    assert_eq!(guards(&trial), ["read_by_several"], "{:?}", trial.findings);
    assert!(trial.findings.iter().any(|finding| finding.message.contains("`a`, `all`")), "{:?}", trial.findings);
    for (phase, metric) in [("a", Metric::Operations), ("all", Metric::Rows)] {
        assert_eq!(reading(&trial, phase, MetricKey::amount(metric)), None, "{phase}");
    }
    assert_eq!((amount(&trial, "b", Metric::Operations), trial.phases[1].answer.clone()), (2.0, None));
}

#[test]
fn a_mark_outside_of_prony_does_nothing() {
    let output = Command::new(PRONY).args(["mark", "x", "begin"]).env_remove("PRONY_MARKS").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let wrong = Command::new(PRONY).args(["mark", "x", "begin", "--to", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
