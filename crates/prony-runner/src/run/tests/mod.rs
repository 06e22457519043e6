//! Tests of a run's logic with a scripted launcher: no process is started.

mod outcomes;
mod scripted;

use std::collections::BTreeSet;
use std::sync::Arc;

use prony_engines::catalog::Catalog;
use prony_experiment::design::Experiment;
use prony_experiment::{check_in, parse};
use prony_model::catalog::{Anywhere, Overrides};
use prony_model::event::Log;
use prony_os::launch::Status;
use prony_results::RunHead;
use tempfile::TempDir;

use super::*;
use scripted::{Act, Fault, Scripted};

/// An experiment of two variants, `a` and `b`, whose processes are scripted: words of the command are `x a` and `x b`. The
/// time of a trial is all that is read, so that it takes no more than it must.
fn experiment(compare: &str, program: &str) -> Experiment {
    let text = format!(
        "[factors]\nn = [\"a\", \"b\"]\n[observe]\ncare = \"light\"\n[compare]\nbaseline = {{ n = \"a\" }}\n{compare}\n\
         [program.x]\ncommand = [\"true\", \"{{n}}\"]\n{program}\n"
    );
    check_in(&parse(&text, "x.toml").unwrap(), &Catalog, &Anywhere, &Overrides::default()).unwrap()
}

/// A database in a directory of its own, and the experiment that runs there.
struct Bench {
    directory: TempDir,
    experiment: Experiment,
    interrupt: Interrupt,
}

/// A user who asks to stop again where it is said what is waited for.
struct Impatient {
    log: Log,
    interrupt: Interrupt,
}

impl Observer for Impatient {
    fn event(&mut self, event: &Event) {
        if matches!(event, Event::Notice { text, .. } if text.starts_with("waiting for ")) {
            self.interrupt.ask();
        }
        self.log.event(event);
    }
}

/// The result of a session of a run.
struct Session {
    result: Result<Summary, Error>,
    /// What was launched, in order.
    commands: Vec<String>,
    /// Events beside the trials.
    notices: Vec<String>,
    trials: Vec<TrialRecord>,
    head: RunHead,
}

impl Session {
    fn summary(&self) -> &Summary {
        self.result.as_ref().unwrap()
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.trials.iter().map(|trial| trial.ending.outcome).collect()
    }

    fn positions(&self) -> Vec<u32> {
        self.trials.iter().map(|trial| trial.trial.position).collect()
    }
}

impl Bench {
    fn new(compare: &str, program: &str) -> Self {
        let (directory, experiment) = (tempfile::tempdir().unwrap(), experiment(compare, program));
        Self { directory, experiment, interrupt: Interrupt::default() }
    }

    fn plan(&self) -> Vec<PlannedTrial> {
        plan::plan(&self.experiment)
    }

    /// Begins the run, or resumes it; `began` is when that was by the monotonic clock.
    fn session_since(&self, began: Nanos, launcher: &Scripted) -> Session {
        let path = self.directory.path().join("prony.db");
        let mut log = Impatient { log: Log::default(), interrupt: self.interrupt.clone() };
        let mut database = Database::create(&path).unwrap();
        let launch = Arc::new(launcher.clone());
        let near = self.directory.path();
        // What it reports is of the machine: leftovers that tests beside this one killed.
        let mut unread = Log::default();
        let context =
            RunContext::launching(launch, self.experiment.clone(), near, &[], self.interrupt.clone(), &mut unread)
                .unwrap();
        let earlier = database.runs().unwrap().first().map(|head| head.id);
        let done: Vec<PlannedTrial> = earlier.map_or_else(Vec::new, |run| {
            database.load_run(run).unwrap().trials.iter().map(|trial| trial.trial).collect()
        });
        let plan = plan::resumed(&self.experiment, &done);
        let session = earlier.map_or(0, |run| database.begin_session(run, &context.host, "0", 0).unwrap());
        let run = earlier.unwrap_or_else(|| {
            let start = RunStart {
                experiment: &self.experiment,
                seed: self.experiment.seed(),
                host: &context.host,
                limits: &context.limits,
                version: "0",
                started_unix_ms: 0,
                planned: planned(&self.experiment, &plan, 0),
                scratch: None,
            };
            database.begin_run(&start).unwrap()
        });
        let result = super::run(
            Campaign { began, session, ..Campaign::new(&mut database, run, &plan, done.len()) },
            &context,
            &mut log,
        );
        let notices = log.log.events.iter().filter_map(|event| match event {
            Event::Notice { text, .. } => Some(text.clone()),
            _ => None,
        });
        let data = database.load_run(run).unwrap();
        let commands = launcher.asked().commands;
        Session { result, commands, notices: notices.collect(), trials: data.trials, head: data.head }
    }

    fn session(&self, launcher: &Scripted) -> Session {
        self.session_since(monotonic(), launcher)
    }
}

/// The commands that these trials launch.
fn commands<'p>(experiment: &Experiment, plan: impl IntoIterator<Item = &'p PlannedTrial>) -> Vec<String> {
    let word = |trial: &PlannedTrial| {
        experiment.factors()[0].levels[experiment.variants()[trial.variant].levels[0]].label.clone()
    };
    plan.into_iter().map(|trial| format!("true {}", word(trial))).collect()
}

#[test]
fn run_launches_its_plan_in_order_and_records_each_trial() {
    let bench = Bench::new("blocks = 4", "");
    let launcher = Scripted::new(|_, command| Act::takes(if command.ends_with('b') { 300 } else { 100 }));
    let session = bench.session(&launcher);
    let plan = bench.plan();
    assert!(plan.len() >= 8 && plan.chunk_by(|a, b| a.block == b.block).count() == 4);
    assert_eq!(session.commands, commands(&bench.experiment, &plan));
    assert_eq!(session.positions(), (0..count(plan.len())).collect::<Vec<_>>());
    assert_eq!((session.summary().ok, session.summary().failed), (count(plan.len()), 0));
    assert_eq!((session.head.status, session.head.planned), (RunStatus::Done, count(plan.len())));
    for trial in &session.trials {
        let expected = if trial.trial.variant == 1 { 300 } else { 100 };
        assert_eq!(phase_times(trial)[0].1, Nanos::from_millis(expected), "{:?}", trial.trial);
    }
}

#[test]
fn run_stops_at_the_first_interim_analysis_that_decides() {
    // The times of a variant differ by less than a thousandth; `b` takes twice as long.
    let steady = |nth: usize, command: &str| {
        let time = if command.ends_with('b') { 200_000 } else { 100_000 };
        Act { time: Nanos::from_micros(time + 7 * (nth as u64 % 5)), ..Act::default() }
    };
    let bench = Bench::new("blocks = { min = 6, max = 30 }", "");
    let session = bench.session(&Scripted::new(steady));
    let first = analyses(&bench.experiment)[0];
    let stopped = format!(
        "stopped after {first} blocks: all comparisons were decided at a planned interim analysis; the 95 % level covers \
         all planned analyses together, so that stopping early does not weaken it"
    );
    assert_eq!(session.notices, [stopped]);
    assert!(first < 30 && session.trials.iter().all(|trial| trial.trial.block < first));
    assert_eq!(session.trials.last().unwrap().trial.block + 1, first, "the block is complete");
    assert_eq!(session.head.status, RunStatus::Done);
}

#[test]
fn run_without_a_decision_goes_on_to_its_last_block() {
    // The variants alternate in being the slower one.
    let undecided = |nth: usize, _: &str| Act::takes([100, 400, 900, 200, 700][nth * nth % 5]);
    let bench = Bench::new("blocks = { min = 6, max = 12 }", "");
    let session = bench.session(&Scripted::new(undecided));
    assert_eq!((session.trials.len(), session.notices.len()), (bench.plan().len(), 0), "{:?}", session.notices);
}

#[test]
fn run_stops_where_its_budget_allows_no_further_block() {
    let bench = Bench::new("budget = \"1 s\"", "");
    let launcher = Scripted::new(|_, _| Act::default());
    // Since the machine was started: all of the budget is used.
    let session = bench.session_since(Nanos::ZERO, &launcher);
    let block = bench.plan().iter().filter(|trial| trial.block == 0).count();
    assert_eq!(session.trials.len(), block, "the first block always runs");
    assert!(session.notices.contains(&"stopped after 1 block: no further block fits into the time budget".to_owned()));
    assert_eq!(session.head.status, RunStatus::Done);
}

#[test]
fn interrupt_ends_the_run_and_resume_runs_only_missing_trials() {
    let bench = Bench::new("blocks = 3", "");
    let (plan, interrupt) = (bench.plan(), bench.interrupt.clone());
    let asks = interrupt.clone();
    let launcher = Scripted::new(move |nth, _| {
        if nth == 3 {
            asks.ask();
            return Act::default().endless();
        }
        Act::default()
    });
    let first = bench.session(&launcher);
    assert!(first.summary().interrupted && first.head.status == RunStatus::Interrupted);
    assert_eq!((first.positions(), first.commands.len()), (vec![0, 1, 2], 4), "what was under way is no result");

    let again = Bench { interrupt: Interrupt::default(), ..bench };
    let second = again.session(&Scripted::new(|_, _| Act::default()));
    assert_eq!(second.commands, commands(&again.experiment, &plan[3..]));
    assert_eq!(second.positions(), (0..count(plan.len())).collect::<Vec<_>>());
    assert_eq!(second.summary().ok, count(plan.len() - 3), "of this session");
    let sessions: Vec<u32> = second.trials.iter().map(|trial| trial.conditions.session).collect();
    assert!(sessions[..3] == [0; 3] && sessions[3..].iter().all(|session| *session == 1), "{sessions:?}");
    assert_eq!(second.head.status, RunStatus::Done);
}

/// After a kill in the eighth block a resumed run looked at all seven as if they were the six of the first analysis, and ended.
#[test]
fn resumed_run_decides_only_at_the_end_of_its_trials() {
    let bench = Bench::new("blocks = { min = 6, max = 12 }", "");
    let undecided = |nth: usize| Act::takes([100, 400, 900, 200, 700][nth * nth % 5]);
    let asks = bench.interrupt.clone();
    let first = bench.session(&Scripted::new(move |nth, command| {
        let (block, is_variant) = (nth / 3, command.ends_with('b'));
        if block == 7 {
            asks.ask();
            return undecided(nth).endless();
        }
        // A comparison is refused, whatever follows, where processes are left behind in more than half of its blocks: 4 of 7.
        Act { leftover: u64::from(is_variant && block >= 3), ..undecided(nth) }
    }));
    assert_eq!((first.trials.len(), first.head.status, first.notices.len()), (21, RunStatus::Interrupted, 0));
    let again = Bench { interrupt: Interrupt::default(), ..bench };
    let second = again.session(&Scripted::new(move |nth, _| undecided(nth)));
    assert_eq!((second.commands.len(), second.notices.as_slice()), (15, [].as_slice()), "5 further blocks");

    // One that was killed before it had said what the analysis of its last block showed says it.
    let decided = Bench::new("blocks = { min = 6, max = 30 }", "");
    let steady = |_: usize, command: &str| Act::takes(if command.ends_with('b') { 200 } else { 100 });
    let first = decided.session(&Scripted::new(steady));
    let again = decided.session(&Scripted::new(steady));
    assert_eq!((first.commands.len(), again.commands.len(), again.notices), (18, 0, first.notices));
}

/// Compares two variants; the second session runs the block again in which the first was interrupted.
#[test]
fn block_that_was_interrupted_runs_again_and_its_trials_remain() {
    let bench = Bench::new("blocks = 6\ntwice = false", "");
    let asks = bench.interrupt.clone();
    let first = bench.session(&Scripted::new(move |nth, _| {
        if nth == 5 {
            asks.ask();
            return Act::default().endless();
        }
        Act::default()
    }));
    assert_eq!((first.positions().len(), first.head.status), (5, RunStatus::Interrupted));

    let again = Bench { interrupt: Interrupt::default(), ..bench };
    let second = again.session(&Scripted::new(|_, _| Act::default()));
    assert_eq!(second.commands, commands(&again.experiment, &again.plan()[4..]), "the third block whole");
    assert_eq!((second.trials.len(), second.head.status), (13, RunStatus::Done));
    let data = Database::open(&again.directory.path().join("prony.db")).unwrap().load_run(second.head.id).unwrap();
    let verdicts = verdicts::of(&data);
    assert_eq!(verdicts.lines[0].comparison.variant.trials, 6, "as many paired blocks as were planned");
}

#[test]
fn trial_that_fails_is_a_result_and_the_run_goes_on() {
    let bench = Bench::new("blocks = 2", "");
    let launcher = Scripted::new(|nth, _| Act::ends_by(Status::Exited(if nth == 1 { 3 } else { 0 })));
    let session = bench.session(&launcher);
    let all = count(bench.plan().len());
    assert_eq!((session.summary().ok, session.summary().failed), (all - 1, 1));
    let failed = |(at, outcome): (usize, Outcome)| (outcome != Outcome::Ok).then_some((at, outcome));
    let failed: Vec<_> = session.outcomes().into_iter().enumerate().filter_map(failed).collect();
    assert_eq!(failed, [(1, Outcome::Failed { code: Some(3) })]);
    assert_eq!(session.head.status, RunStatus::Done);
}

#[test]
fn supervisor_that_ends_before_the_program_begins_is_replaced_once() {
    for fault in [Fault::LostBefore, Fault::LostSuspended] {
        let bench = Bench::new("blocks = 1", "");
        let session = bench.session(&Scripted::new(move |nth, _| match nth {
            1 => Act::fails(fault),
            _ => Act::default(),
        }));
        let mut expected = commands(&bench.experiment, &bench.plan());
        expected.insert(1, expected[1].clone());
        assert_eq!(session.commands, expected, "the trial again, and no other");
        assert!(session.outcomes().into_iter().all(Outcome::is_ok) && session.trials.len() == bench.plan().len());
    }
}

#[test]
fn supervisor_that_ends_during_prepare_is_replaced_too() {
    let bench = Bench::new("blocks = 1", "prepare = \"make ready\"");
    let session = bench.session(&Scripted::new(|nth, _| match nth {
        2 => Act::fails(Fault::LostBefore),
        _ => Act::default(),
    }));
    let prepared = session.commands.iter().filter(|command| command.contains("make ready")).count();
    let trials = bench.plan().len();
    assert_eq!((prepared, session.trials.len()), (trials + 1, trials), "once more for one: {:?}", session.commands);
    assert!(session.outcomes().into_iter().all(Outcome::is_ok));
}

#[test]
fn supervisor_that_ends_twice_ends_the_run_which_can_be_resumed() {
    let bench = Bench::new("blocks = 2", "");
    let session = bench.session(&Scripted::new(|nth, _| match nth {
        2 | 3 => Act::fails(Fault::LostBefore),
        _ => Act::default(),
    }));
    let error = session.result.as_ref().unwrap_err();
    assert!(matches!(error, Error::Os(prony_os::Error::SupervisorEnded { .. })), "{error:?}");
    assert_eq!((session.positions(), session.head.status), (vec![0, 1], RunStatus::Interrupted));
    let second = bench.session(&Scripted::new(|_, _| Act::default()));
    assert_eq!(second.commands, commands(&bench.experiment, &bench.plan()), "the first block again");
}

#[test]
fn prepare_that_fails_ends_the_run_and_cleanup_that_fails_is_said_of_it() {
    let prepared = Bench::new("blocks = 1", "prepare = \"make ready\"");
    let fails = |what: &'static str| {
        Scripted::new(move |_, command| Act::ends_by(Status::Exited(i32::from(command.contains(what)))))
    };
    let session = prepared.session(&fails("make ready"));
    assert_eq!(session.commands.len(), 1, "nothing else is launched: {:?}", session.commands);
    assert!(matches!(session.result, Err(Error::Place(prony_place::Error::Step { step: "prepare", .. }))));
    assert_eq!((session.trials.len(), session.head.status), (0, RunStatus::Interrupted));

    let cleaned = Bench::new("blocks = 1", "cleanup = \"clean up\"");
    let session = cleaned.session(&fails("clean up"));
    let cleanups = session.commands.iter().filter(|command| command.contains("clean up")).count();
    assert_eq!(cleanups, 2, "once for each variant, whatever comes of the other");
    assert!(session.summary().unclean.as_ref().is_some_and(|message| message.contains("exit code 1")));
    assert_eq!((session.summary().failed, session.head.status), (0, RunStatus::Done), "trials are what they are");
}

#[test]
fn cleanup_is_done_where_a_step_fails_and_what_fails_of_it_is_said() {
    let bench = Bench::new("blocks = 2", "prepare = \"make ready\"\ncleanup = \"clean up\"");
    let session = bench.session(&Scripted::new(|nth, command| {
        Act::ends_by(Status::Exited(i32::from(nth == 4 || command.contains("clean up"))))
    }));
    assert!(
        matches!(session.result, Err(Error::Place(prony_place::Error::Step { step: "prepare", .. }))),
        "{:?}",
        session.result
    );
    let cleanups = session.commands.iter().filter(|command| command.contains("clean up")).count();
    let begun: BTreeSet<usize> = bench.plan()[..3].iter().map(|trial| trial.variant).collect();
    assert_eq!((session.trials.len(), cleanups), (2, begun.len()), "{:?}", session.commands);
    assert!(session.notices.iter().any(|text| text.contains("cleanup of program `x` failed")), "{:?}", session.notices);
    // Nothing said that they were not lost, nor how the run goes on.
    assert!(session.notices.iter().any(|text| text.contains("2 finished trials saved")), "{:?}", session.notices);
}

#[test]
fn interrupt_leaves_neither_conclude_nor_cleanup_undone_wherever_it_comes() {
    // While the second trial is prepared, runs, or is concluded.
    for (at, expected) in [("make ready", 0), ("true ", 1), ("conclude", 1)] {
        let steps = "prepare = \"make ready\"\nconclude = \"conclude\"\ncleanup = [\"clean up\", \"{n}\"]";
        let bench = Bench::new("blocks = 2", steps);
        let asks = bench.interrupt.clone();
        let session = bench.session(&Scripted::new(move |nth, command| {
            if nth < 3 || !command.contains(at) {
                return Act::default();
            }
            asks.ask();
            // What is done after a trial ends by itself.
            if at == "conclude" { Act::default() } else { Act::default().endless() }
        }));
        let times = |what: &str| session.commands.iter().filter(|command| command.contains(what)).count();
        assert!(session.summary().interrupted && session.summary().cleaned().is_ok(), "{at}: {:?}", session.result);
        assert_eq!(times("conclude"), 1 + expected, "{at}: {:?}", session.commands);
        let begun: BTreeSet<usize> = bench.plan()[..2].iter().map(|trial| trial.variant).collect();
        assert_eq!(times("clean up"), begun.len(), "{at}: {:?}", session.commands);
        assert_eq!(session.trials.len(), if at == "conclude" { 2 } else { 1 }, "{at}");
        assert_eq!(session.head.status, RunStatus::Interrupted);
    }
}

/// It was waited for in silence, and asking again ended the process with the trial.
#[test]
fn conclude_and_cleanup_that_hang_are_named_and_end_where_the_user_asks_again() {
    for what in ["conclude", "cleanup"] {
        let bench = Bench::new("blocks = 1", &format!("{what} = \"hang\""));
        let trials = if what == "conclude" { 1 } else { bench.plan().len() };
        let asks = bench.interrupt.clone();
        let session = bench.session(&Scripted::new(move |_, command| {
            if !command.contains("hang") {
                return Act::default();
            }
            asks.ask();
            Act::default().endless()
        }));
        let waiting = format!("waiting for `{what}` of program `x`");
        assert!(session.notices.contains(&waiting), "{:?}", session.notices);
        assert_eq!((session.trials.len(), session.outcomes()), (trials, vec![Outcome::Ok; trials]), "{what}");
        let found = session.trials.iter().flat_map(|trial| &trial.findings);
        let found = found.filter(|finding| finding.message.contains("interrupted by the user")).count();
        let unclean = session.summary().unclean.as_ref().is_some_and(|text| text.contains("interrupted by the user"));
        assert_eq!((found, unclean), if what == "conclude" { (1, false) } else { (0, true) });
    }
}

#[test]
fn cleanup_is_done_where_a_warm_up_run_is_interrupted() {
    let bench = Bench::new("blocks = 1", "warmup = 2\nprepare = \"make ready\"\ncleanup = \"clean up\"");
    let asks = bench.interrupt.clone();
    let session = bench.session(&Scripted::new(move |nth, _| {
        if nth == 0 {
            asks.ask();
        }
        if nth == 0 { Act::default().endless() } else { Act::default() }
    }));
    assert!(session.summary().interrupted && session.trials.is_empty(), "{:?}", session.result);
    let [prepared, cleaned] = session.commands.as_slice() else { panic!("{:?}", session.commands) };
    assert!(prepared.contains("make ready") && cleaned.contains("clean up"), "{prepared}, {cleaned}");
}

#[test]
fn what_one_trial_leaves_is_reused_until_a_process_of_it_runs_on() {
    let reusable = "directory = \".\"\ncopy = \"none\"";
    let launched = |leftover: u64| {
        let bench = Bench::new("blocks = 3", reusable);
        let launcher =
            Scripted::new(move |nth, _| Act { leftover: if nth == 1 { leftover } else { 0 }, ..Act::default() });
        let session = bench.session(&launcher);
        assert!(session.outcomes().into_iter().all(Outcome::is_ok) && session.trials.len() == bench.plan().len());
        let ended: Vec<u64> = session.trials.iter().map(|trial| trial.conditions.killed_at_the_end).collect();
        (launcher.asked().reusable, ended)
    };
    let (supervisors, ended) = launched(0);
    assert_eq!((supervisors, ended.iter().sum::<u64>()), (1, 0));
    let (supervisors, ended) = launched(2);
    assert_eq!((supervisors, ended[1], ended.iter().sum::<u64>()), (2, 2, 2));
}
