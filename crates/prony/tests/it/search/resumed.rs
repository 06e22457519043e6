//! Tests of searches that are interrupted and resumed.

use super::*;

#[test]
fn an_interrupted_search_goes_on_where_it_was() {
    interrupted_and_resumed("");
}

#[test]
fn an_interrupted_search_goes_on_with_commands_that_are_not_recorded() {
    interrupted_and_resumed("record_commands = false\n");
}

fn refused((code, _, errors): (Option<i32>, String, String), why: &str) {
    assert!(code == Some(2) && errors.contains(why), "{errors}");
}

fn interrupted_and_resumed(observe: &str) {
    let bench = Bench::new("");
    let at = |name: &str| bench.path(name).display().to_string();
    std::fs::write(
        bench.path("x.toml"),
        format!(
            "[observe]\ncare = \"light\"\n{observe}[factors]\nn = [1]\n[program.x]\nshell = true\n\
             command = 'if test {{n}} -eq 8 -a ! -e {go}; then echo > {reached}; read x < {fifo}; fi; test {{n}} -le {{env.EDGE}}'\n",
            go = at("go"),
            reached = at("reached"),
            fifo = at("fifo")
        ),
    )
    .unwrap();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let mut child =
        bench.command(&["grow", "x.toml", "--raise", "n=1..100", "-q", "--journal", "first.jsonl"]).spawn().unwrap();
    while !bench.path("reached").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the trial that waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!((bench.run(1).head.status, bench.run(1).trials.len()), (RunStatus::Interrupted, 3));
    let listed = bench.prony(&["ls"]).1;
    assert!(listed.contains(" 3 ") && !listed.contains(" of "), "{listed}");
    std::fs::write(bench.path("go"), "").unwrap();
    let other = bench.command(&["grow", "--resume"]).env("EDGE", "50").output().unwrap();
    refused(parts(&other), "the environment variable `EDGE`, which the file uses, has changed");
    refused(bench.prony(&["run", "--resume", "1"]), "hint: to resume this search: `prony grow --resume 1`");
    let (code, said, errors) = bench.prony(&["grow", "--resume", "--journal", "j.jsonl"]);
    assert_eq!(code, Some(0), "{errors}");
    let row = said.lines().find(|line| line.starts_with("n ")).unwrap();
    assert!(row.contains(" 20 ") && row.contains(" 21 "), "{said}");
    let run = bench.run(1);
    assert_eq!(run.head.status, RunStatus::Done);
    let positions: Vec<u32> = run.trials.iter().map(|trial| trial.trial.position).collect();
    assert_eq!(positions, (0..positions.len() as u32).collect::<Vec<_>>(), "no trial twice, none lost");
    assert_eq!(lines(&bench.path("j.jsonl")), bench.journal(1), "the journal has each entry once");
    refused(bench.prony(&["grow", "--resume"]), "no interrupted search");
    // The file is known again however often the run goes on.
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    // Only its own journal is written again.
    refused(bench.prony(&["grow", "--resume", "--journal", "x.toml"]), "`x.toml`: this command reads that file");
    let (code, again, errors) = bench.prony(&["grow", "--resume", "--journal", "j.jsonl"]);
    assert_eq!((code, &again), (Some(0), &said), "{errors}");
    assert_eq!(bench.run(1).trials, run.trials, "nothing was left to run");
    std::fs::write(bench.path("x.toml"), GROWING).unwrap();
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    refused(bench.prony(&["grow", "--resume"]), "`x.toml` has changed since run 1 began");
    bench.assert_no_secret_recorded();
}

/// A search over the sizes of a program, whose first session ends before its fourth trial: its preparation fails.
fn stopped(script: &str, search: &[&str]) -> Bench {
    stopped_with("command = [\"sh\", \"run.sh\", \"{size}\"]\ndirectory = \"site\"", script, search)
}

/// The same with these keys of the program; `DIR` is the folder of the experiment.
fn stopped_with(program: &str, script: &str, search: &[&str]) -> Bench {
    let bench = Bench::new("");
    std::fs::create_dir(bench.path("site")).unwrap();
    std::fs::write(bench.path("site/run.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(bench.path("site/run.sh"), Permissions::from_mode(0o755)).unwrap();
    let log = bench.path("prepared").display().to_string();
    let program = program.replace("DIR", &bench.dir.path().display().to_string());
    let text = format!(
        "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\n{program}\n\
         prepare = \"echo >> {log}; test $(wc -l < {log}) -ne 4\"\n\
         [[phase]]\nname = \"work\"\nread = '(?<time_ms>\\d+)'\n"
    );
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(search);
    assert_eq!((code, bench.run(1).trials.len()), (Some(2), 3), "{said}{errors}");
    bench
}

/// No value that is tried after the change was tried before it.
#[test]
fn a_search_whose_executable_changed_between_sessions_finds_nothing() {
    let script = "echo $(( $1 * 100 )); test $1 -le 20";
    for changes in [true, false] {
        let grow = ["grow", "x.toml", "--raise", "size=1..100", "-q"];
        let bench = stopped_with("command = [\"DIR/site/run.sh\", \"{size}\"]", script, &grow);
        if changes {
            std::fs::write(bench.path("site/run.sh"), format!("#!/bin/sh\n{}\n", script.replace("20", "50"))).unwrap();
        }
        let (code, said, errors) = bench.prony(&["grow", "--resume", "-q"]);
        assert_eq!(code, Some(i32::from(changes)), "{said}{errors}");
        assert_eq!(said.starts_with("no limit: `sources_differ`: not all trials"), changes, "{said}");
        assert_eq!(bench.run(1).trials.len() == 4, changes, "{said}");
    }
}

#[test]
fn a_search_whose_program_changed_between_sessions_finds_nothing() {
    let grow: &[&str] = &["grow", "x.toml", "--raise", "size=1..100", "-q"];
    for (what, kind, search) in [("limit", "grow", grow), ("winner", "tune", &OF_SIZE)] {
        let script = "echo $(( $1 * 100 )); test $1 -le 20";
        let bench = stopped(script, search);
        std::fs::write(bench.path("site/run.sh"), script.replace("20", "50")).unwrap();
        let (code, said, errors) = bench.prony(&[kind, "--resume", "-q"]);
        assert_eq!((code, bench.run(1).trials.len()), (Some(1), 4), "{said}{errors}");
        let first =
            format!("no {what}: `sources_differ`: not all trials of a variant ran the same program or engine: the");
        assert!(said.starts_with(&first) && said.contains("\nhint: ") && !said.contains(" 20 "), "{said}");
        assert!(!said.contains("\nwinner: ") && bench.prony(&["show", "1"]).1.contains(&first), "{said}");
        let (code, _, errors) = bench.prony(&[kind, "--resume"]);
        assert!(code == Some(2) && errors.contains("no interrupted search"), "it cannot be completed: {errors}");
        // Nothing else stops it.
        let bench = stopped(script, search);
        let (code, said, errors) = bench.prony(&[kind, "--resume", "-q"]);
        assert_eq!(code, Some(0), "{said}{errors}");
        assert!(said.contains(if kind == "grow" { " 20 " } else { "winner: size=1\n" }), "{said}");
    }
}

#[test]
fn what_a_resumed_search_would_ignore_is_refused() {
    let script = "echo $(( $1 * 100 )); test $1 -le 20";
    let grow: &[&str] = &["grow", "x.toml", "--raise", "size=1..100", "-q"];
    let of_grow: &[&str] = &["--raise", "size=1..9", "--resolution", "1%", "--confirm", "1", "--set", "size=2"];
    let of_tune: &[&str] =
        &["--minimize", "work.wall", "--subject-to", "work.time < 1 ms", "--over", "size=2..3", "--max-trials", "9"];
    let named =
        ["`--raise`, `--resolution`, `--confirm`, `--set`", "`--minimize`, `--subject-to`, `--over`, `--max-trials`"];
    for (kind, search, given, named) in [("grow", grow, of_grow, named[0]), ("tune", &OF_SIZE, of_tune, named[1])] {
        let bench = stopped(script, search);
        for file in [&[][..], &["x.toml"]] {
            let (code, _, errors) = bench.prony(&[&[kind], file, &["--resume", "1"], given].concat());
            let expected = format!("error: a search is resumed as it was started, without {named}\nhint: ");
            assert!(code == Some(2) && errors.contains(&expected), "{errors}");
        }
        std::fs::write(bench.path("y.toml"), GROWING).unwrap();
        let (code, _, errors) = bench.prony(&[kind, "y.toml", "--resume"]);
        assert!(
            code == Some(2) && errors.contains("error: `y.toml` is not the experiment of run 1\nhint: "),
            "{errors}"
        );
        assert_eq!(bench.run(1).trials.len(), 3, "nothing ran");
        let (code, said, errors) = bench.prony(&[kind, "x.toml", "--resume", "1", "-q"]);
        assert_eq!(code, Some(0), "its own file: {said}{errors}");
    }
}

/// `prony run --resume` completed the fresh blocks without looking at the constraints, and the search had no end.
#[test]
fn a_search_that_was_killed_in_its_fresh_blocks_is_resumed_with_its_constraints() {
    let bench = Bench::new("");
    let at = |name: &str| bench.path(name).display().to_string();
    // Seven trials make the block of the search; from the eighth fresh trial on, the winner needs more disk.
    std::fs::write(
        bench.path("x.toml"),
        format!(
            "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\nshell = true\n\
             command = 'echo >> {count}; n=$(wc -l < {count}); if test $n -eq 14 -a ! -e {go}; then echo > {reached}; read x < {fifo}; fi; \
             d=5; if test $n -gt 14 -a {{size}} -lt 9; then d=500; fi; echo $(( {{size}} * 100 )) $d'\n\
             [[phase]]\nname = \"work\"\nread = '(?<time_ms>\\d+) (?<disk_mb>\\d+)'\n",
            count = at("count"),
            go = at("go"),
            reached = at("reached"),
            fifo = at("fifo")
        ),
    )
    .unwrap();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let bound = ["--max-trials", "9", "--subject-to", "work.disk < 100 MB"];
    let mut child = bench.command(&[&OF_SIZE[..], &bound].concat()).spawn().unwrap();
    while !bench.path("reached").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the trial that waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let heads = [1, 2].map(|run| bench.run(run)).map(|run| (run.head.status, run.trials.len()));
    assert_eq!(heads, [(RunStatus::Unfinished, 7), (RunStatus::Unfinished, 6)]);
    std::fs::write(bench.path("go"), "").unwrap();
    let (code, _, errors) = bench.prony(&["run", "--resume"]);
    assert!(code == Some(2) && errors.contains("no interrupted run in"), "{errors}");
    let (code, _, errors) = bench.prony(&["run", "--resume", "2"]);
    assert!(code == Some(2) && errors.contains("hint: to resume this search: `prony tune --resume 1`"), "{errors}");
    assert!(bench.prony(&["show", "2"]).1.contains("`prony tune --resume 1`"), "{}", bench.prony(&["show", "2"]).1);
    let (code, said, errors) = bench.prony(&["tune", "--resume", "-q", "--journal", "j.jsonl"]);
    assert_eq!(code, Some(1), "{said}{errors}");
    let first = "no winner: in fresh blocks the best setting violates a constraint\nbest in the search: size=1\n";
    assert!(said.starts_with(first) && said.contains("`work.disk < 100 MB` DOES NOT HOLD: in "), "{said}");
    let runs = Database::open(&bench.path("prony.db")).unwrap().runs().unwrap();
    assert!(runs.len() == 2 && runs.iter().all(|head| head.status == RunStatus::Done), "{runs:?}");
    let fresh = bench.run(2).trials.iter().filter(|trial| trial.conditions.session == 1).count();
    assert_eq!((fresh, bench.run(1).trials.len()), (12, 7), "the fresh blocks go on, and nothing is searched again");
    let charged = |trial: &TrialRecord| trial.conditions.spent.is_some_and(|spent| spent.time >= trial.took);
    assert!(bench.run(1).trials.iter().all(charged), "a resumed search charges its budget what the first session did");
    let journal = bench.journal(1);
    let [.., begun, end] = journal.as_slice() else { panic!("{journal:?}") };
    assert_eq!((&begun["confirming"], &end["confirmation"]), (&2.into(), &2.into()));
    assert_eq!(lines(&bench.path("j.jsonl")), journal);
    assert!(bench.prony(&["show", "1"]).1.contains("DOES NOT HOLD"));
}

/// It was `running, or killed`.
#[test]
fn a_search_that_an_error_ends_in_its_fresh_blocks_is_interrupted() {
    let bench = Bench::new("");
    let count = bench.path("count").display().to_string();
    // Seven trials make the block of the search.
    let prepare = format!("prepare = 'echo >> {count}; test $(wc -l < {count}) -ne 12'\nshell = true");
    std::fs::write(bench.path("x.toml"), answering("d=ok; o=5").replace("shell = true", &prepare)).unwrap();
    let (code, said, errors) = bench.prony(&[&OF_SIZE[..], &["--max-trials", "9"]].concat());
    assert_eq!(code, Some(2), "{said}{errors}");
    assert!(errors.contains("4 finished trials saved\nhint: ") && errors.contains("`prony tune --resume`"), "{errors}");
    assert_eq!([1, 2].map(|run| bench.run(run).head.status), [RunStatus::Interrupted; 2], "{errors}");
    let kernel = begun_elsewhere(&bench, 2);
    let (code, said, errors) = bench.prony(&["tune", "--resume", "-q"]);
    assert!(code == Some(0) && said.starts_with("winner: size=1\n"), "{said}{errors}");
    assert!(errors.contains("`sessions_differ`") && errors.contains(&kernel), "of the fresh blocks: {errors}");
}

/// As if a run had begun on another machine with another prony; the difference of the kernels.
fn begun_elsewhere(bench: &Bench, run: i64) -> String {
    let kernel = bench.run(run).head.host.kernel.measured().unwrap().clone();
    let connection = rusqlite::Connection::open(bench.path("prony.db")).unwrap();
    let before = "UPDATE runs SET version = '0.0.9', host = replace(host, ?1, '1.2.3') WHERE id = ?2";
    assert_eq!(connection.execute(before, rusqlite::params![kernel, run]).unwrap(), 1);
    format!("kernel 1.2.3, in session 1 {kernel}; prony 0.0.9, in session 1 {}", env!("CARGO_PKG_VERSION"))
}

/// The limit of two machines was printed like that of one.
#[test]
fn a_search_that_is_resumed_on_another_machine_says_so() {
    let grow: &[&str] = &["grow", "x.toml", "--raise", "size=1..100", "-q"];
    for (kind, search) in [("grow", grow), ("tune", &OF_SIZE)] {
        for moves in [true, false] {
            let bench = stopped("echo $(( $1 * 100 )); test $1 -le 20", search);
            let kernel = if moves { begun_elsewhere(&bench, 1) } else { String::new() };
            let (code, said, errors) = bench.prony(&[kind, "--resume", "-q"]);
            assert_eq!(code, Some(0), "{said}{errors}");
            assert_eq!(errors.matches("warning: `sessions_differ`: ").count(), usize::from(moves), "{errors}");
            assert!(errors.contains(&kernel), "{errors}");
        }
    }
}

/// Without command lines in its record a program cannot be run again; a store has none.
#[test]
fn fresh_blocks_of_a_store_go_on_without_command_lines() {
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\nrecord_commands = false\n[factors]\nn = [200]\n[store]\nengine = \"memory\"\n\
         [data]\nrecords = 1_000\nvalue = { bytes = 10 }\n[[phase]]\nname = \"work\"\nput = { count = \"{n}\" }\n",
    );
    let arguments = ["tune", "x.toml", "--minimize", "work.operations", "--over", "n=10..200", "--confirm", "6", "-q"];
    let (_, said, errors) = bench.prony(&arguments);
    assert!(said.contains("winner: n=10\n"), "{said}{errors}");
    let whole = bench.run(2);
    let connection = rusqlite::Connection::open(bench.path("prony.db")).unwrap();
    let cut = "PRAGMA foreign_keys = ON; DELETE FROM trials WHERE run = 2 AND position >= 9";
    connection.execute_batch(cut).unwrap();
    drop(connection);
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(2), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    assert_eq!(bench.run(2).trials.len(), 9);
    let (code, _, errors) = bench.prony(&["run", "--resume", "2", "-q"]);
    assert_eq!(code, Some(0), "{errors}");
    let again = bench.run(2);
    assert_eq!((again.head.status, again.trials.len()), (RunStatus::Done, whole.trials.len()));
    let operations = |run: &RunData| {
        let name = "work.operations".parse().unwrap();
        run.trials.iter().map(|trial| (trial.trial, trial.figure(&name))).collect::<Vec<_>>()
    };
    assert_eq!(operations(&again), operations(&whole));
}

/// Its file has the same text, but the directory beside it is another one.
#[test]
fn a_search_is_not_resumed_in_another_folder() {
    let bench = stopped("echo $(( $1 * 100 )); test $1 -le 20", &["grow", "x.toml", "--raise", "size=1..100", "-q"]);
    std::fs::create_dir_all(bench.path("other/site")).unwrap();
    for name in ["x.toml", "site/run.sh"] {
        std::fs::copy(bench.path(name), bench.path("other").join(name)).unwrap();
    }
    let resume = ["grow", "--resume", "--database", "../prony.db", "-q"];
    let elsewhere = bench.command(&resume).current_dir(bench.path("other")).output().unwrap();
    refused(parts(&elsewhere), "what `x.toml` names is not what it was when run 1 began");
    assert_eq!(bench.run(1).trials.len(), 3, "nothing ran");
    let (code, said, errors) = bench.prony(&["grow", "--resume", "-q"]);
    assert_eq!(code, Some(0), "{said}{errors}");
}
