//! Tests of `prony tune` through the real binary.

use super::*;

#[test]
fn the_winner_keeps_the_bound_and_is_judged_by_fresh_blocks() {
    let bench = Bench::new(BOWL);
    let bound = "work.disk < 100 MB";
    let arguments =
        ["tune", "x.toml", "--minimize", "work.time", "--subject-to", bound, "--confirm", "6", "--journal", "j.jsonl"];
    let (code, said, errors) = bench.prony(&[&arguments[..], &OVER].concat());
    assert_eq!(code, Some(0), "{said}{errors}");
    let winner = said.lines().find_map(|line| line.strip_prefix("winner: ")).unwrap();
    let batch: f64 =
        winner.strip_prefix("chunking.batch=").and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap();
    assert!(
        (120.0..200.0).contains(&batch) && winner.ends_with("chunking.pause=0 ms"),
        "the bound lies at 200: {winner}"
    );
    assert!(said.contains("default: chunking.batch=10000, chunking.pause=0 ms"), "{said}");
    assert!(said.contains("times faster than") && said.contains("holds: in 6 of 6 fresh trials"), "{said}");
    assert!(said.contains("the default setting breaks a constraint") && said.contains("biased"), "{said}");

    let search = bench.run(1);
    assert!(search.experiment.explores() && search.head.status == RunStatus::Done);
    assert!(search.trials.len() <= 200, "{}", search.trials.len());
    let blocks: std::collections::BTreeSet<u32> = search.trials.iter().map(|trial| trial.trial.block).collect();
    for block in &blocks {
        let of_block = search.trials.iter().filter(|trial| trial.trial.block == *block);
        let variants: Vec<usize> = of_block.map(|trial| trial.trial.variant).collect();
        assert_eq!(variants.iter().filter(|variant| **variant == 0).count(), 1, "the default is in each block");
    }
    let journal = bench.journal(1);
    assert_eq!(journal.iter().filter(|entry| entry["trial"].is_number()).count(), search.trials.len());
    assert_eq!(journal.iter().filter(|entry| entry["decision"].is_object()).count(), blocks.len());
    assert_eq!(journal.last().unwrap()["confirmation"], 2);
    assert_eq!(lines(&bench.path("j.jsonl")), journal);

    let fresh = bench.run(2);
    assert_eq!((search.head.search.as_deref(), fresh.head.search), (Some("tune"), None));
    assert!(!fresh.experiment.explores() && fresh.head.seed != search.head.seed, "other data than it was chosen by");
    assert_eq!(
        (fresh.experiment.variants().len(), fresh.trials.len()),
        (2, 18),
        "the default twice in each of 6 blocks"
    );
    let (_, shown, _) = bench.prony(&["show"]);
    assert!(shown.contains("times faster than"), "{shown}");
    let (_, shown, _) = bench.prony(&["show", "1"]);
    assert!(shown.contains("a search chose these variants"), "{shown}");
    let (tables, concluded) = shown.split_once("winner: ").unwrap();
    assert!(!tables.contains("times faster") && concluded.contains("holds: in 6 of 6"), "{shown}");
}

#[test]
fn an_interrupted_race_ends_as_it_would_have() {
    let bench = Bench::new("");
    let at = |name: &str| bench.path(name).display().to_string();
    let wait = format!(
        "test {{chunking.batch}} -ne 100 -o -e {} || {{{{ echo > {}; read x < {}; }}}}; awk",
        at("go"),
        at("reached"),
        at("fifo")
    );
    let unrecorded = "care = \"light\"\nrecord_commands = false";
    std::fs::write(bench.path("x.toml"), BOWL.replace("awk", &wait).replace("care = \"light\"", unrecorded)).unwrap();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let arguments =
        [&["tune", "x.toml", "--minimize", "work.time", "--max-trials", "60", "--confirm", "6"], &OVER[..]].concat();
    let mut child = bench.command(&arguments).spawn().unwrap();
    while !bench.path("reached").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the trial that waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(bench.run(1).head.status, RunStatus::Interrupted);
    std::fs::write(bench.path("go"), "").unwrap();
    let (code, said, errors) = bench.prony(&["tune", "--resume", "-q", "--journal", "j.jsonl"]);
    assert_eq!(code, Some(0), "{errors}");
    let (code, whole, errors) = bench.prony(&arguments);
    assert_eq!(code, Some(0), "{errors}");
    let first = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(first(&said), first(&whole), "the winner of a search in one go");
    let order = |trials: &[TrialRecord]| {
        trials.iter().map(|t| (t.trial.block, t.trial.variant, t.trial.seed)).collect::<Vec<_>>()
    };
    let (resumed, whole) = (bench.run(1).trials, bench.run(3).trials);
    let split = resumed.partition_point(|trial| trial.conditions.session == 0);
    let again = resumed[split].trial.block;
    let before = resumed.partition_point(|trial| trial.trial.block < again);
    assert!(before < split, "it was interrupted within a block");
    let without = [&resumed[..before], &resumed[split..]].concat();
    assert_eq!(order(&without), order(&whole), "the interrupted block runs again whole, and nothing else differs");
    let trials = |run| bench.journal(run).into_iter().filter(|entry| entry["trial"].is_number()).count();
    assert_eq!([trials(1), trials(3)], [resumed.len(), whole.len()]);
    let file = lines(&bench.path("j.jsonl"));
    let unpaired = file.iter().filter(|entry| entry["result"] == "not paired").count();
    assert_eq!(unpaired, split - before, "in the file as in the database");
    bench.assert_no_secret_recorded();
}

#[test]
fn a_search_that_finds_nothing_says_why() {
    let bench = Bench::new(BOWL);
    let tune = |more: &[&str]| bench.prony(&[&["tune", "x.toml", "--minimize", "work.time"], more, &OVER].concat());
    let (code, said, _) = tune(&["--subject-to", "work.disk < 1 MB"]);
    assert!(
        code == Some(1) && said.contains("no setting is feasible: of those that were tried, 16 broke a constraint"),
        "{said}"
    );
    let (code, said, _) = tune(&["--subject-to", "work.heap.used < 1 MB"]);
    assert!(
        code == Some(1) && said.contains("16 had no readings") && said.contains("`work.heap.used < 1 MB`: "),
        "{said}"
    );
    let (code, said, _) = tune(&["--max-trials", "3"]);
    assert!(
        code == Some(1) && said.starts_with("no setting was tried: one block has 16 trials, and `--max-trials` "),
        "{said}"
    );
    assert!(said.contains("hint: write `--max-trials 16` or more"), "{said}");
}

#[test]
fn a_setting_that_reaches_zero_is_said_first_and_is_not_unread() {
    // Below a size of 4 nothing is left; above it grows. Six trials of a size in a row report six values.
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\nshell = true\n\
         command = 'echo >> count.{size}; n=$(wc -l < count.{size}); if test {size} -lt 4; then echo 0; \
         else echo $(( {size} * 100 + n % 6 * 2 )); fi'\n\
         [[phase]]\nname = \"work\"\nread = '(?<disk_b>\\d+)'\n",
    );
    let file = std::fs::read_to_string(bench.path("x.toml")).unwrap();
    let count = bench.path("count.").display().to_string();
    std::fs::write(bench.path("x.toml"), file.replace("count.", &count)).unwrap();
    let arguments = ["tune", "x.toml", "--minimize", "work.disk", "--over", "size=1..9", "--confirm", "6", "-q"];
    let (_, said, errors) = bench.prony(&arguments);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains(" settings reached 0 in `work.disk`: no value is better"), "{said}{errors}");
    assert!(first.ends_with("the first: size=1"), "{said}");
    assert!(said.contains("winner: size=4") && !said.contains("no reading"), "{said}");
    assert!(said.contains("in fresh blocks: `work.disk` 405 B, the default 905 B (medians)"), "{said}");
}

/// No setting was said to be feasible, with exit code 1.
#[test]
fn a_default_that_reaches_zero_remains() {
    for (value, zeros) in [("$(( 0 * {n} ))", 7), ("$(( 9 - {n} ))", 1)] {
        let bench = Bench::new(&format!(
            "[observe]\ncare = \"light\"\n[factors]\nn = [9]\n[program.x]\nshell = true\ncommand = 'echo {value}'\n\
             [[phase]]\nname = \"work\"\nread = '(?<disk_mb>\\d+)'\n"
        ));
        let tune = ["tune", "x.toml", "--over", "n=1..9", "-q"];
        let (code, said, errors) = bench.prony(&[&tune[..], &["--minimize", "work.disk"]].concat());
        assert!(code == Some(0) && !said.contains("feasible"), "{said}{errors}");
        let settings = prony_model::number::count(zeros, "setting");
        let first = format!(
            "{settings} reached 0 in `work.disk`: no value is better, and there is no ratio; the first: n=9\n\
             the default is kept: it reached 0, and no value is better\n"
        );
        assert!(said.starts_with(&first), "{said}");
    }
}

#[test]
fn settings_with_other_answers_or_other_work_win_nothing() {
    for (differs, why) in [
        (
            "d=ok; o=5; if test $x -lt 4; then d=bad; fi",
            "`size=9` and `size=1` reported different answers: `ok` and `bad`",
        ),
        ("d=ok; o=5; if test $x -lt 4; then o=1; fi", "`size=9` attempted 5 operations, but `size=1` attempted 1"),
    ] {
        let bench = Bench::new(&answering(differs));
        let (code, said, errors) = bench.prony(&OF_SIZE);
        assert_eq!(code, Some(0), "{said}{errors}");
        assert!(
            said.starts_with("winner: size=4\ndefault: size=9\nleft out, since their answers or work differ"),
            "{said}"
        );
        assert!(said.contains(&format!(": 3 settings; the first: size=1 ({why})")), "{said}");
        let entries = bench.journal(1).into_iter().filter(|entry| entry["left_out"].is_number());
        assert!(entries.map(|entry| entry["setting"]["size"].clone()).eq(["1", "2", "3"]), "{:?}", bench.journal(1));
        assert!(bench.prony(&["show", "1"]).1.contains(why), "it is shown again");
    }
    let bench = Bench::new(&answering("o=5; d=$x"));
    let (code, said, errors) = bench.prony(&OF_SIZE);
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(
        said.starts_with("no winner: no other setting that was tried can be compared with the default\n"),
        "{said}"
    );
    assert!(said.contains("reported different answers: `9` and `") && !said.contains("winner: size"), "{said}");
}

/// The search ended there with an error, and could never be resumed.
#[test]
fn settings_that_the_file_does_not_allow_are_left_out() {
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\n[factors]\nlo = [10]\nhi = [100]\n[store]\nengine = \"memory\"\n[data]\nrecords = 50\n\
         value = { bytes = { uniform = [\"{lo}\", \"{hi}\"] } }\n[[phase]]\nname = \"put\"\nput = {}\n",
    );
    let over = ["--over", "lo=10..100", "hi=50..1000", "--confirm", "6", "-q", "--max-trials", "40"];
    let arguments = [&["tune", "x.toml", "--minimize", "put.operations"], &over[..]].concat();
    let (code, said, errors) = bench.prony(&arguments);
    let first = "\nleft out, since the file does not allow them: 2 settings; the first: lo=70, hi=50 (the first length of `uniform` \
                 must be the shortest)\n";
    assert!(code == Some(0) && said.contains(first), "{said}{errors}");
    assert!(said.starts_with("the default is kept") && bench.run(1).head.status == RunStatus::Done, "{said}{errors}");
    let entries = bench.journal(1).into_iter().filter(|entry| entry["left_out"].is_number());
    assert_eq!(entries.count(), 2);
    // Whole numbers where the range has others.
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\n[factors]\nn = [1]\n[store]\nengine = \"memory\"\n[data]\nrecords = 50\n\
         [[phase]]\nname = \"put\"\nput = { count = \"{n}\" }\n",
    );
    let over = ["tune", "x.toml", "--minimize", "put.operations", "--over", "n=1.0..12", "-q"];
    let (code, said, errors) = bench.prony(&over);
    assert!(code == Some(0) && said.contains("the file does not allow them: "), "{said}{errors}");
}

/// Below 4 the program does nothing and ends well, which was the fastest.
#[test]
fn a_setting_whose_phase_never_begins_wins_nothing() {
    let bench = Bench::new(
        "[observe]\ncare = \"light\"\n[factors]\nsize = [9]\n[program.x]\nshell = true\n\
         command = 'if test {size} -ge 4; then echo begin; fi; echo $(( {size} * 100 ))'\n\
         [[phase]]\nname = \"go\"\nbegin = { line = '^begin' }\nend = { line = '^[0-9]' }\n\
         [[phase]]\nname = \"work\"\nread = '^(?<time_ms>\\d+)'\n",
    );
    let (code, said, errors) = bench.prony(&OF_SIZE);
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(said.starts_with("winner: size=4\ndefault: size=9\n"), "{said}");
}

/// The answers agree in the search: eight trials, and the default again.
#[test]
fn a_setting_whose_comparison_the_fresh_blocks_refuse_is_no_winner() {
    let count = "echo >> FILE; n=$(wc -l < FILE); o=5; d=ok; if test $n -gt 9 -a $x -lt 9; then d=bad; fi";
    let bench = Bench::new("");
    let text = answering(&count.replace("FILE", &bench.path("count").display().to_string()));
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(&[&OF_SIZE[..], &["--max-trials", "9"]].concat());
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(
        said.starts_with("no winner: `size=9` and `size=1` reported different answers: `ok` and `bad`\n"),
        "{said}"
    );
    assert!(said.contains("\nbest in the search: size=1\n") && !said.contains("(medians)"), "{said}");
}

/// It was printed as the winner above the verdict that it is slower.
#[test]
fn a_setting_that_is_worse_in_fresh_blocks_is_no_winner() {
    // The search has seven trials.
    let count = "echo >> FILE; n=$(wc -l < FILE); o=5; d=ok; if test $n -gt 7 -a $x -lt 9; then x=20; fi";
    let bench = Bench::new("");
    let text = answering(&count.replace("FILE", &bench.path("count").display().to_string()));
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(&[&OF_SIZE[..], &["--max-trials", "9"]].concat());
    assert_eq!(code, Some(1), "{said}{errors}");
    let first = "no winner: in fresh blocks the best setting is worse than the default\nbest in the search: size=1\n";
    assert!(said.starts_with(first) && said.contains("`size=1` takes 2.22 times as long as"), "{said}");
}

/// A file without `blocks` has 6, and those were taken for its wish.
#[test]
fn fresh_blocks_are_6_to_30_unless_the_file_has_more_than_6() {
    for (of_file, [min, max]) in
        [("", [6, 30]), ("[compare]\nblocks = 6\n", [6, 30]), ("[compare]\nblocks = { min = 3, max = 8 }\n", [6, 8])]
    {
        let bench = Bench::new(&format!("{of_file}{}", answering("d=ok; o=5")));
        let (code, said, errors) = bench.prony(&[&OF_SIZE[..6], &["--max-trials", "9", "-q"]].concat());
        assert_eq!(code, Some(0), "{said}{errors}");
        assert_eq!(bench.run(2).experiment.compare().blocks, Blocks { min, max }, "{of_file}");
    }
}

/// Finer steps were named where none ran.
#[test]
fn search_that_ends_in_the_noise_of_its_first_grid_names_no_finer_step() {
    let bench = Bench::new(&answering("d=ok; o=5; x=1"));
    let (_, said, errors) = bench.prony(&OF_SIZE);
    let end = "until differences between the settings of the last grid were within the noise";
    assert!(said.contains(end), "{said}{errors}");
}

#[test]
fn the_default_is_returned_where_nothing_is_better() {
    let bench = Bench::new(BOWL);
    let best = ["--default", "chunking.batch=300", "--default", "chunking.pause=0 ms"];
    let (code, said, errors) =
        bench.prony(&[&["tune", "x.toml", "--minimize", "work.time"], &best[..], &OVER].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("the default is kept") && said.contains("chunking.batch=300, chunking.pause=0 ms"), "{said}");
    assert_eq!(Database::open(&bench.path("prony.db")).unwrap().runs().unwrap().len(), 1, "nothing to confirm");
}

#[test]
fn the_levels_of_a_factor_are_replaced_whatever_the_design_says_of_them() {
    let bench = Bench::new(&BOWL.replace("[compare]", "[[design.grid]]\nsize = 2\nchunking = \"small\"\n[compare]"));
    let arguments = ["tune", "x.toml", "--minimize", "work.time", "--over", "size=3..9", "--only", "size=2", "-q"];
    let (code, said, errors) = bench.prony(&arguments);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("the default is kept: no setting was found to be better than size=2"), "{said}");
    let (code, said, errors) = bench.prony(&[&arguments[..], &["--default", "size=8", "--confirm", "6"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("winner: size=3\ndefault: size=8\n") && said.contains("times faster than"), "{said}");
}

/// They were said not to finish, which is said of settings that never do.
#[test]
fn a_default_and_settings_that_fail_in_some_trials_failed_in_a_trial() {
    let bench = Bench::new("");
    let at = bench.path("count").display().to_string();
    let text = answering(&format!("echo >> {at}.$x; test $(wc -l < {at}.$x) -ne 2 || exit 3; d=ok; o=5; x=1"));
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (_, said, errors) = bench.prony(&OF_SIZE);
    assert!(said.contains("\nthe default setting failed in a trial\n"), "{said}{errors}");
    assert!(said.contains(": of those that were tried, 7 failed in a trial\n"), "{said}{errors}");
}

/// In 11 of 12 searches a setting was the winner that differed from the default by chance only, with exit code 0.
#[test]
fn a_setting_that_differs_by_chance_is_no_winner() {
    let count = "echo >> FILE; n=$(wc -l < FILE); o=5; d=ok; x=$((90 + n * 37 % 41))";
    let bench = Bench::new("");
    let text = answering(&count.replace("FILE", &bench.path("count").display().to_string()));
    std::fs::write(bench.path("x.toml"), text).unwrap();
    let (code, said, errors) = bench.prony(&[&OF_SIZE[..], &["--max-trials", "9"]].concat());
    assert_eq!(code, Some(1), "{said}{errors}");
    let first = "no winner: in fresh blocks the best setting was not shown to be better than the default\nbest in the search: size=";
    assert!(said.starts_with(first) && !said.contains("an end of its range"), "{said}");
}

/// The reason for a constraint is often that the present setting violates it.
#[test]
fn a_setting_that_is_worse_than_a_default_which_violates_a_constraint_is_the_winner() {
    let bench = Bench::new(BOWL);
    let default = ["--default", "chunking.batch=300", "--default", "chunking.pause=0 ms"];
    let constraint = ["--subject-to", "work.disk < 50 MB", "--max-trials", "60", "--confirm", "6"];
    let arguments = [&["tune", "x.toml", "--minimize", "work.time"], &default[..], &constraint, &OVER].concat();
    let (code, said, errors) = bench.prony(&arguments);
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(said.starts_with("winner: chunking.batch=") && said.contains("verdict: "), "{said}");
    assert!(!said.contains("faster") && !said.contains("worse than"), "{said}");
    assert!(said.contains("\nthe default violates `work.disk < 50 MB` in 12 of 12 fresh trials\n"), "{said}");
}
