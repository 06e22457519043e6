//! Tests programs through the real binary: the environment that they get, their output, and their measurements.

use std::fs;
use std::path::Path;
use std::process::Command;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, TrialRecord};

use crate::bench::{Bench, PRONY, amount, guards, reading, said, shell};

#[test]
fn a_program_sees_what_was_declared_and_nothing_else() {
    let bench = Bench::new();
    let body = "[program.x]\ncommand = [\"sh\", \"-c\", \"env | sort; cat; pwd; ls -a\"]\n\
                env = { MINE = \"a {{b}}\" }\ninput = { text = \"typed\\n\" }\n";
    let trial = bench.trial(body);
    let text = said(&trial);
    assert!(text.contains("MINE=a {b}\n") && text.contains("PATH=") && text.contains("typed\n"), "{text}");
    assert!(!text.contains("NO_COLOR") && !text.contains("CARGO"), "{text}");
    assert!(text.contains("/work\n.\n..\n"), "an empty directory of its own: {text}");
    let tmp = text.lines().find_map(|line| line.strip_prefix("TMPDIR=")).unwrap();
    assert!(!Path::new(tmp).exists(), "removed with the trial");
}

#[test]
fn output_to_a_fifo_that_nobody_reads_is_refused_and_not_waited_for() {
    let bench = Bench::new();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    let body = "[observe]\ncare = \"light\"\n[program.x]\ncommand = \"true\"\noutput = { file = \"fifo\" }\n";
    bench.write("e.toml", body);
    let output = bench.prony(&["run", "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("fifo`"), "{text}");
}

#[test]
fn what_programs_answer_must_agree() {
    let bench = Bench::new();
    let body = |second: &str, read: &str| {
        format!(
            "[compare]\nblocks = 2\ntwice = false\nbaseline = {{ which = \"one\" }}\n[factors]\nwhich = [\"one\", \"two\"]\n\
             [program.one]\ncommand = \"echo hits 5 digest ab\"\n[program.two]\ncommand = \"echo {second}\"\n\
             [subject]\nprogram = \"{{which}}\"\n[[phase]]\nname = \"run\"\nread = '{read}'\n"
        )
    };
    let pattern = "hits (?<rows>[0-9]+) digest (?<digest>[0-9a-f]+)";
    let shown = |second: &str, read: &str| {
        let data = bench.run(&body(second, read));
        (data, String::from_utf8(bench.prony(&["show"]).stdout).unwrap())
    };
    let (data, text) = shown("hits 5 digest ab", pattern);
    let answer = data.trials[0].phases[0].answer.clone().unwrap();
    assert_eq!((answer.rows, answer.digest.as_str()), (Some(5), "reported:ab"));
    assert!(!text.contains("reported different answers"), "{text}");
    let (_, text) = shown("hits 5 digest cd", pattern);
    assert!(text.contains("reported different answers: `ab` and `cd`"), "{text}");
    let (data, text) = shown("hits 5 digest ab", "digest (?<digest>[0-9a-f]+)");
    let answer = data.trials[0].phases[0].answer.clone().unwrap();
    assert_eq!((answer.rows, answer.digest.as_str()), (None, "reported:ab"), "it reported no number, and has none");
    assert!(!text.contains("reported different answers"), "{text}");
    // What could not be read was no answer, which agreed with any.
    let (data, text) = shown("hits five digest ab", "hits (?<rows>\\S+) digest");
    let unknown = |variant| {
        let mut trials = data.trials.iter().filter(|trial| trial.trial.variant == variant);
        trials.all(|trial| guards(trial).contains(&"rows_unknown"))
    };
    assert_eq!([unknown(0), unknown(1)], [false, true]);
    assert!(
        text.contains("the number of rows is not known, ")
            && text.contains("the program reported the invalid value `five`"),
        "{text}"
    );
    let (data, _) = shown("hits 5 digest ab", "hits: (?<rows>[0-9]+)");
    assert_eq!((guards(&data.trials[0]), data.trials[0].phases[0].answer.clone()), (vec!["read_nothing"], None));
}

/// The child has ended long before a sample may have found it; its parent has waited for it, and continues to run.
#[test]
fn a_peak_is_not_that_of_a_child_that_came_and_went() {
    let bench = Bench::new();
    // Memory of its own, and time for samples.
    let work = "s=x; while [ ${#s} -lt 8000000 ]; do s=$s$s; done; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let peak = |script: &str| {
        let trial = bench.trial(&shell(script));
        reading(&trial, "run", MetricKey::gauge(Metric::Rss, Stat::Peak))
    };
    // On a busy machine there may be no sample that shows whose it is, but not each time.
    assert!((0..5).any(|_| peak(work).is_some()));
    assert_eq!(peak(&format!("/bin/true; {work}")), None);
}

#[test]
fn a_declared_store_has_its_size_and_its_device_flushes() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let script = "sleep 1; mkdir -p data; head -c 1000000 /dev/zero > data/a; echo one; sleep 1; truncate -s 50M data/b; sync data/a";
    let body = format!(
        "{}directory = \"site\"\nstore = \"{{dir}}/data\"\n[[phase]]\nname = \"one\"\nend = {{ line = \"one\" }}\n\
         [[phase]]\nname = \"two\"\nbegin = {{ line = \"one\" }}\n",
        shell(script)
    );
    bench.write("full.toml", format!("[compare]\nblocks = 2\n{body}"));
    let output = bench.prony(&["run", "full.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let trials = bench.data().trials;
    let (fresh, later) = (&trials[0], &trials[1]);
    assert_eq!(amount(fresh, "one", Metric::DiskLength), 1e6);
    assert_eq!(amount(fresh, "two", Metric::DiskLength), 1e6 + f64::from(50 << 20));
    let blocks = amount(fresh, "two", Metric::Disk);
    assert!((1e6..10e6).contains(&blocks), "the second file is sparse: {blocks}");
    let absent =
        |trial: &TrialRecord, phase: usize, metric| match trial.phases[phase].reading(MetricKey::amount(metric)) {
            Some(Reading::Missing(why)) => why.to_string(),
            other => panic!("{other:?}"),
        };
    assert!(absent(fresh, 0, Metric::Cached).contains("No such file"), "{}", absent(fresh, 0, Metric::Cached));
    assert!(amount(fresh, "two", Metric::Cached) > 0.9);
    match fresh.phases[1].reading(MetricKey::amount(Metric::Flushes)).unwrap() {
        Reading::Measured(flushes) => assert!(*flushes >= 1.0, "the file was synced"),
        Reading::Missing(why) => assert!(why.to_string().contains("block device"), "{why}"),
    }
    let store = |trial: &TrialRecord| trial.program().unwrap().store.clone();
    assert!(store(fresh).is_some_and(|store| store.at_begin.is_none() && store.found));
    assert_eq!(store(later).unwrap().at_begin.unwrap().files, 2);
    let carried = |trial: &TrialRecord| guards(trial).contains(&"store_carried_over");
    assert_eq!((carried(fresh), carried(later)), (false, true), "both work in the variant's copy");
    let light = bench.trial(&body);
    for metric in [Metric::Disk, Metric::DiskLength, Metric::Cached, Metric::Flushes, Metric::DeviceWritten] {
        assert!(absent(&light, 1, metric).contains("light care"), "{}", absent(&light, 1, metric));
    }
    assert_eq!(store(&light), None);
}

#[test]
fn a_terminal_passes_lines_that_a_pipe_buffers() {
    let bench = Bench::new();
    let body = "[[phase]]\nname = \"start\"\nend = { line = '^tty ready$' }\nthen = \"stop\"\n";
    let script = "test -t 1 && echo tty ready; sleep 600";
    let trial = bench.trial(&format!("[limits]\ntime = \"60 s\"\n{}pty = true\n{body}", shell(script)));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert_eq!(said(&trial), "tty ready\n");
}

#[test]
fn a_flood_is_bounded_and_counted() {
    let bench = Bench::new();
    let trial = bench.trial(&shell("yes 0123456789abcdef | head -c 67108864"));
    // Where prony reads faster than two processes write, the pipe is never full.
    assert_eq!(trial.ending.outcome, Outcome::Ok);
    assert!([&["output_flooded"][..], &[]].contains(&guards(&trial).as_slice()), "{:?}", guards(&trial));
    let stdout = &trial.program().unwrap().output.stdout;
    assert_eq!(stdout.total, 67_108_864);
    assert!(stdout.first.len() + stdout.last.len() < 10_000);
    let body = shell("yes 0123456789abcdef | head -n 400000; echo total 5");
    let searched = bench.trial(&format!("{body}[[phase]]\nname = \"run\"\nread = '^total (?<rows>\\d+)$'\n"));
    assert!(guards(&searched).contains(&"output_flooded"), "searching takes longer: {:?}", guards(&searched));
    let phase = "[[phase]]\nname = \"run\"\nread = '^total (?<rows>\\d+)'\n";
    let on_terminal = bench.trial(&format!("{body}pty = true\n{phase}"));
    assert!(guards(&on_terminal).contains(&"output_flooded"), "{:?}", guards(&on_terminal));
}

/// Nothing read how often a trial was stopped by its limit on CPU time, so that the finding never came.
#[test]
fn trial_that_its_limit_on_cpu_time_stopped_says_so() {
    let bench = Bench::new();
    let burn = shell("n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done");
    bench.write("e.toml", format!("[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n[limits]\ncpus = 0.2\n{burn}"));
    let output = bench.prony(&["run", "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && text.contains("cannot limit") {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "{text}");
        return println!("SKIPPED: {text}");
    }
    let trial = &bench.data().trials[0];
    let times = trial.conditions.memory.as_ref().unwrap().throttled.measured().copied().unwrap();
    let is_found = trial.findings.iter().any(|finding| finding.guard == "throttled");
    assert!(times > 0 && is_found, "{:?}", trial.findings);
}

/// `make` built everything in the first trial and nothing in later ones, which were compared.
#[test]
fn work_that_the_first_trial_leaves_done_is_a_finding_of_the_run() {
    let bench = Bench::new();
    bench.write("site/work.sh", "[ -e done ] && exit\nn=0\nwhile [ $n -lt 200000 ]; do n=$((n + 1)); done\n: > done\n");
    let body = "[compare]\nblocks = 5\n[program.x]\ncommand = [\"sh\", \"work.sh\"]\ndirectory = \"site\"\n";
    let is_found = |copy: &str| {
        let data = bench.run(&format!("{body}copy = \"{copy}\"\n"));
        let found = prony_analysis::guard::findings::of_run(&data.experiment, &data.trials, None, true);
        found.iter().any(|finding| finding.guard == "first_trial_slower")
    };
    assert_eq!(["variant", "trial"].map(is_found), [true, false]);
}

#[test]
fn closed_output_and_invalid_utf8_are_nothing_special() {
    let bench = Bench::new();
    let trial = bench.trial(&shell("exec 1>&- 2>&-; sleep 0.2; exit 3"));
    assert_eq!(trial.ending.outcome, Outcome::Failed { code: Some(3) });
    assert!(amount(&trial, "run", Metric::Wall) >= 200e6, "it lived on");
    let phase = "[[phase]]\nname = \"a\"\nend = { line = 'b$' }\n";
    let trial = bench.trial(&format!("{}{phase}", shell("printf 'a\\377\\376b\\n'")));
    assert_eq!(trial.phases[0].completion, Completion::Complete);
    assert_eq!(said(&trial), "a\u{fffd}\u{fffd}b\n");
}

#[test]
fn exec_compares_exports_and_saves_what_repeats_it() {
    let bench = Bench::new();
    let args = ["-r", "2", "-w", "1", "-n", "one", "-n", "two", "--save", "saved.toml", "--export-json", "o.json"];
    let more = ["--export-csv", "o.csv", "--export-markdown", "o.md", "--", "sleep 0.01", "--vs", "sleep", "0.02"];
    let (output, data) = bench.exec(&[&args[..], &more[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("6 run: 6 ok") && text.contains("\none  ") && text.contains("\ntwo  "), "{text}");
    assert!(text.contains("`two`"), "a verdict, if only that there are too few blocks: {text}");
    assert_eq!(data.trials.len(), 6, "two blocks of baseline, baseline again, and the other");
    let saved = fs::read_to_string(bench.path("saved.toml")).unwrap();
    assert_eq!(data.experiment.source(), saved);
    for file in ["o.json", "o.csv", "o.md"] {
        assert!(fs::metadata(bench.path(file)).unwrap().len() > 100, "{file}");
    }
    let again = bench.prony(&["run", "saved.toml", "--quiet"]);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(bench.data().trials.len(), 6);
}

#[test]
fn exec_runs_where_it_was_called_and_names_what_it_cannot_start() {
    let bench = Bench::new();
    bench.script("here.sh", "pwd; test \"$K\" = v; cat");
    bench.write("in.txt", "typed\n");
    let (output, data) = bench.exec(&["-r", "1", "--env", "K=v", "--input", "in.txt", "./here.sh"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let here = fs::canonicalize(bench.dir.path()).unwrap();
    assert_eq!(said(&data.trials[0]), format!("{}\ntyped\n", here.display()));
    let absent = bench.prony(&["exec", "--", "no-such-program"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("cannot find the command `no-such-program`"));
    let failing = bench.prony(&["exec", "-r", "1", "--", "false"]);
    assert_eq!(failing.status.code(), Some(1), "a trial failed");
    let ignored = bench.prony(&["exec", "-r", "1", "-i", "--", "false"]);
    assert_eq!(ignored.status.code(), Some(0));
}

/// METHOD 7: children of 300 MB and of 2 MB, in any order; what an empty one takes is the program's own.
#[test]
fn a_large_child_leaves_nothing_to_a_small_one() {
    let bench = Bench::new();
    let program = |name: &str, step: &str| {
        format!("[program.{name}]\ncommand = [\"{PRONY}\", \"fixture\"]\ninput = {{ text = '{step}' }}\n")
    };
    let allocate = |bytes: u64| format!("{{{{\"allocate\":{bytes}}}}}");
    let body = format!(
        "[factors]\nwhich = [\"large\", \"small\", \"empty\"]\n[subject]\nprogram = \"{{which}}\"\n\
         [compare]\nblocks = 3\n{}{}{}",
        program("large", &allocate(300_000_000)),
        program("small", &allocate(2_000_000)),
        program("empty", &allocate(0))
    );
    let data = bench.run(&body);
    let peaks = |variant: usize| -> Vec<f64> {
        let of = data.trials.iter().filter(|trial| trial.trial.variant == variant);
        let peak = |trial: &TrialRecord| reading(trial, "run", MetricKey::gauge(Metric::Rss, Stat::Peak));
        of.map(|trial| peak(trial).unwrap_or_else(|| panic!("no peak: {trial:?}"))).collect()
    };
    let empty = peaks(2).into_iter().fold(f64::MAX, f64::min);
    for (variant, truth) in [(0, 300e6), (1, 2e6)] {
        for peak in peaks(variant) {
            let error = (peak - empty - truth).abs();
            assert!(error <= 0.02 * truth + 2e6, "{truth}: {} above {empty}", peak - empty);
        }
    }
}

#[test]
fn the_record_says_which_file_a_name_was_found_as() {
    let bench = Bench::new();
    bench.script("mine", "true");
    let path = format!("PATH=/nowhere:{}:/usr/bin:/bin", bench.dir.path().display());
    let (_, data) = bench.exec(&["-r", "2", "--env", &path, "--", "mine"]);
    for trial in &data.trials {
        assert_eq!(trial.program().unwrap().executable.as_deref(), bench.path("mine").to_str());
    }
    let whole = bench.trial("[program.x]\ncommand = [\"true\"]\n");
    assert!(whole.program().unwrap().executable.as_ref().unwrap().ends_with("/bin/true"), "held before, too");
}

#[test]
fn syncs_of_a_program_are_counted_where_they_are_asked_for() {
    let bench = Bench::new();
    let program = "[program.x]\ncommand = [\"sh\", \"-c\", \"echo x > $TMPDIR/x; sync $TMPDIR/x\"]\n";
    let count = |body: &str| {
        let trial = bench.trial(&format!("{body}{program}"));
        trial.phases[0].reading(MetricKey::amount(Metric::Fsyncs)).cloned()
    };
    let unasked = Some(Reading::Missing(Why::NotApplicable));
    assert_eq!(count(""), unasked, "counting slows every system call");
    assert_eq!(count("syncs = false\n[[report.table]]\ncolumns = [\"run.fsync\"]\n"), unasked);
    for asked in ["syncs = true\n", "[[report.table]]\ncolumns = [\"run.fsync / 2\"]\n"] {
        let counted = count(asked);
        assert!(
            matches!(counted, Some(Reading::Measured(1.0) | Reading::Missing(Why::NotPermitted(_)))),
            "{counted:?}"
        );
    }
    let stored = bench.trial(&format!("{program}store = \"{{tmp}}\"\n"));
    assert_ne!(stored.phases[0].reading(MetricKey::amount(Metric::Fsyncs)).cloned(), unasked);
}

#[test]
fn a_command_that_is_not_there_is_a_mistake_and_begins_no_run() {
    let bench = Bench::new();
    bench.write("text", "no program");
    for (args, said) in [
        (
            &["no-such-command"][..],
            "cannot find the command `no-such-command`\nhint: no directory of PATH contains \
            the command",
        ),
        (&["text"], "cannot find the command `text`\nhint: write `./text` to run the file in the program's directory"),
        (&["./text"], "cannot execute the command `./text`\nhint: `"),
    ] {
        let output = bench.prony(&[&["exec", "--"], args].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
    assert!(!bench.path("prony.db").exists());
}

#[test]
fn short_programs_after_one_another_have_figures_of_their_own() {
    let bench = Bench::new();
    bench.script("grow", "echo x >> $TMPDIR/x; cat $TMPDIR/x; ls $TMPDIR | wc -l");
    let (_, data) = bench.exec(&["--runs", "20", "--syncs", "--", "./grow"]);
    assert_eq!(data.trials.len(), 20);
    let mut agree = 0;
    for trial in &data.trials {
        assert_eq!(said(trial), "x\n1\n", "an empty TMPDIR");
        let wall = amount(trial, "run", Metric::Wall);
        let (cpu, parts) = (amount(trial, "run", Metric::Cpu), [Metric::CpuUser, Metric::CpuSystem]);
        let parts: f64 = parts.into_iter().map(|part| amount(trial, "run", part)).sum();
        assert!(wall > 0.0 && cpu > 0.0, "{wall} {cpu}");
        agree += u32::from((cpu - parts).abs() <= 1e6 + 0.2 * parts);
        assert_eq!(amount(trial, "run", Metric::Fsyncs), 0.0);
        assert!(amount(trial, "run", Metric::MinorFaults) > 10.0);
    }
    // The group's count and that of `wait4` are taken apart, to within what switching processes takes, and that may be more
    // where processes wait for a processor.
    assert!(agree > 10, "in {agree} trials");
}

#[test]
fn a_link_in_the_place_of_tmpdir_is_not_followed() {
    let bench = Bench::new();
    bench.write("precious/file", "x");
    let there = bench.path("precious");
    let replace = format!("[ -d $TMPDIR ] && [ ! -L $TMPDIR ] && rmdir $TMPDIR && ln -s {} $TMPDIR", there.display());
    bench.script("replace", &format!("{replace}; rm $PRONY_MARKS; echo x > $PRONY_MARKS; ls $TMPDIR"));
    let (_, data) = bench.exec(&["-r", "3", "--", "./replace"]);
    let found: Vec<&str> = data.trials.iter().map(said).collect();
    assert_eq!(found, ["file\n"; 3], "each trial had a directory to replace");
    assert!(there.join("file").exists());
}
