//! Tests what commands refuse before they run or change anything, and that a refusal changes nothing.

use std::fs::{self, File};
use std::process::Command;

use prony_results::{Database, RunStatus};

use crate::hostile::{PROGRAM, Place, STORE, sound, text, words};

/// `check` and `run` refuse the file for a fault at this line and column.
fn refused_at(place: &Place, body: &str, at: &str, message: &str) {
    fs::write(place.path("x.toml"), body).unwrap();
    for command in ["check", "run"] {
        let output = place.run(&[command, "x.toml"]);
        let said = text(&output.stderr);
        assert_eq!(sound(&output, &command), 2, "{body}\n{said}");
        assert!(said.contains(message) && said.contains(&format!("--> x.toml:{at}\n")), "{command} {body}\n{said}");
    }
    assert!(!place.path("prony.db").exists(), "nothing was begun");
}

#[test]
fn what_check_accepts_run_can_begin() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    fs::write(place.path("text"), "one one").unwrap();
    assert!(Command::new("git").args(["init", "--quiet"]).current_dir(place.0.path()).status().unwrap().success());
    let program = |keys: &str| format!("[program.x]\n{keys}\n");
    let to = |file: &str| program(&format!("command = \"true\"\noutput = {{ file = \"{file}\" }}"));
    let changed = |change: &str| program(&format!("command = \"/bin/true\"\ndirectory = \".\"\nchange = {change}"));
    let huge = STORE
        .replace("\"memory\"", "\"lmdb\"")
        .replace("records = 10", "records = 1_000_000_000_000\nvalue = { bytes = \"1 MB\" }");
    for (body, at, message) in [
        (program("command = \"true\"\ndirectory = \"nowhere\""), "3:13", "cannot find the directory `nowhere`"),
        (program("command = \"true\"\ndirectory = \"file\""), "3:13", "`file` is not a directory"),
        (program("command = \"cat\"\ninput = \"nowhere\""), "3:9", "cannot read `nowhere`"),
        (to("nowhere/o"), "3:10", "cannot write `nowhere/o`: No such file"),
        (to(".git"), "3:10", "cannot write `.git`: Is a directory"),
        (program("command = \"nosuchcommand\""), "2:11", "cannot find the command `nosuchcommand`"),
        (
            program("command = \"true\"\ndirectory = \".\"\nchange = { patch = \"no.patch\" }"),
            "4:20",
            "cannot read `no.patch`",
        ),
        (changed("{ revision = \"nine\" }"), "4:23", "has no revision `nine`"),
        (changed("{ dependency = \"left@1\" }"), "4:25", "has no `package.json`"),
        (
            changed("{ dependency = \"left@1\", manager = \"npm\" }\nenv = { PATH = \"/nowhere\" }"),
            "4:25",
            "cannot find the command `npm`",
        ),
        (
            changed("{ replace = { file = \"text\", find = \"one\", with = \"two\" } }"),
            "4:22",
            "`text` contains the text of `find` 2 times, not 1",
        ),
        (
            changed(
                "[{ replace = { file = \"text\", find = \"one\", with = \"two\", count = 2 } }, \
                 { replace = { file = \"text\", find = \"one\", with = \"two\" } }]",
            ),
            "4:10",
            "`text` contains the text of `find` 0 times, not 1",
        ),
        (changed("{ replace = { file = \"none\", find = \"one\", with = \"two\" } }"), "4:22", "cannot read `none`"),
        (huge, "8:11", "are free on the store's file system"),
    ] {
        refused_at(&place, &body, at, message);
    }
    // Each of the two errors had another beside it: there was no revision of the name `{env.PRONY_NO_BASE}`.
    let unset = changed("[{ revision = \"{env.PRONY_NO_BASE}\" }, { patch = \"{env.PRONY_NO_PATCH}\" }]");
    fs::write(place.path("e.toml"), unset).unwrap();
    let errors = text(&place.run(&words("check e.toml")).stderr);
    let errors: Vec<&str> = errors.lines().filter(|line| line.starts_with("error: ")).collect();
    let unset = |name: &str| format!("error: the environment variable `{name}` is not set");
    let all = "error: `e.toml` has 2 problems; nothing was run";
    assert_eq!(errors, [&unset("PRONY_NO_BASE"), &unset("PRONY_NO_PATCH"), all]);
    for line in ["check e.toml --database nowhere/x.db", "run e.toml --scratch nowhere"] {
        let output = place.run(&words(line));
        assert!(sound(&output, &line) == 2 && text(&output.stderr).contains("nowhere"), "{}", text(&output.stderr));
    }
}

/// What a program reads was emptied before the first trial, which then read nothing.
#[test]
fn an_output_that_the_experiment_reads_is_a_fault_with_its_place() {
    let place = Place::new();
    fs::write(place.path("text"), "precious").unwrap();
    fs::create_dir(place.path("sources")).unwrap();
    let program = |keys: &str, file: &str| format!("[program.x]\n{keys}\noutput = {{ file = \"{file}\" }}\n");
    let [reads, copied] = [
        "a program's `input` or `change` reads that file",
        "that file lies in a `directory` that is copied for trials",
    ];
    for (keys, file, why) in [
        ("command = \"true\"", "prony.db", "that file belongs to the results database"),
        ("command = \"true\"", "./x.toml", "this command reads that file"),
        ("command = \"cat\"\ninput = \"text\"", "./text", reads),
        ("command = \"/bin/true\"\ndirectory = \"sources\"\nchange = { patch = \"text\" }", "text", reads),
        ("command = \"cat text\"\ndirectory = \".\"\ncopy = \"none\"", "text", "a program's `command` names that file"),
        ("command = \"true\"\ndirectory = \"sources\"", "sources/new", copied),
    ] {
        let at = format!("{}:10", keys.matches('\n').count() + 3);
        refused_at(&place, &program(keys, file), &at, &format!("cannot write `{file}`: {why}"));
        assert_eq!(fs::read(place.path("text")).unwrap(), b"precious", "{keys}");
    }
    let beside = program("command = \"true\"\ndirectory = \".\"\ncopy = \"none\"", "new");
    fs::write(place.path("x.toml"), beside).unwrap();
    assert_eq!(sound(&place.run(&["check", "x.toml"]), &"new"), 0, "a file beside those of the program");
}

#[test]
fn what_a_program_reads_is_no_output_whatever_the_command() {
    let place = Place::new();
    fs::write(place.path("read"), "precious").unwrap();
    let output = "output = { file = \"read\" }";
    let of = |programs: &str| {
        format!("[factors]\nn = [1, 2]\nx = [\"one\", \"two\"]\n[subject]\nprogram = \"{{x}}\"\n{programs}")
    };
    let other = of(&format!(
        "[program.one]\ncommand = \"echo {{n}}\"\n{output}\n[program.two]\ncommand = \"cat\"\ninput = \"read\"\n"
    ));
    let itself = format!("[factors]\nn = [1, 2]\n[program.x]\ncommand = \"cat {{n}}\"\ninput = \"read\"\n{output}\n");
    fs::write(place.path("other.toml"), other).unwrap();
    fs::write(place.path("itself.toml"), itself).unwrap();
    fs::write(place.path("reads.toml"), "[program.x]\ncommand = \"cat\"\ninput = \"read\"\n").unwrap();
    let lines = [
        "check other.toml",
        "run other.toml",
        "run reads.toml --summary read",
        "grow itself.toml --raise n=1..3",
        "tune itself.toml --over n=1..3 --minimize run.time",
        "exec --input read --output ./read -- cat",
        "exec --output ./read -- cat read",
    ];
    for line in lines {
        let output = place.run(&words(line));
        let said = text(&output.stderr);
        assert!(sound(&output, &line) == 2 && said.contains("read`: "), "{line}: {said}");
        assert_eq!(fs::read(place.path("read")).unwrap(), b"precious", "{line}");
    }
}

/// Outputs of services were compared with nothing, and destroyed results and data.
#[test]
fn outputs_of_services_are_nothing_that_the_experiment_reads_or_writes() {
    let place = Place::with_runs();
    let pause = "[[phase]]\nname = \"p\"\npause = \"1 s\"\n";
    let service = |keys: &str, file: &str| {
        format!("[[service]]\ncommand = [\"sleep\", \"600\"]\n{keys}\noutput = {{ file = \"{file}\" }}\n")
    };
    let one = |file: &str| service("name = \"s\"", file);
    let http = "[[phase]]\nname = \"h\"\nhttp = { url = \"http://127.0.0.1:9\", path = \"/\", requests = 1";
    let twice = "`output` of several services or instances is the same file: `new`\nhint: give each service a different file; for a \
                 service with `count` above 1, remove `output`\n";
    fs::create_dir(place.path("loaded")).unwrap();
    for (text, file, why) in [
        (one("prony.db") + pause, "prony.db", "that file belongs to the results database"),
        (
            format!("{}[data]\nfile = \"read.ndjson\"\n{http}, body = \"document\" }}\n", one("read.ndjson")),
            "read.ndjson",
            "`[data]` reads that file",
        ),
        (
            format!("{}{http}, method = \"POST\", body = {{ file = \"read.ndjson\" }} }}\n", one("./read.ndjson")),
            "read.ndjson",
            "requests have that file as their `body`",
        ),
        (
            format!("{}[[phase]]\nname = \"r\"\nrun = [\"sh\", \"read.ndjson\"]\n", one("read.ndjson")),
            "read.ndjson",
            "a program's `command` names that file",
        ),
        (
            one("loaded/new")
                + "[[service]]\nname = \"t\"\ncommand = \"sleep 9 {data}\"\ndata = { from = \"loaded\" }\n"
                + pause,
            "loaded/new",
            "that file lies in a `directory` that is copied for trials",
        ),
        (service("name = \"s\"\ncount = 2", "new") + pause, "new", twice),
        (one("new") + &service("name = \"t\"", "new") + pause, "new", twice),
    ] {
        fs::write(place.path("read.ndjson"), "{\"a\": 1}\n").unwrap();
        fs::write(place.path("x.toml"), &text).unwrap();
        for line in ["check x.toml", "run x.toml"] {
            let output = place.run(&words(line));
            let said = self::text(&output.stderr);
            assert!(sound(&output, &line) == 2 && said.contains(file) && said.contains(why), "{line} {text}: {said}");
        }
        assert_eq!(fs::read_to_string(place.path("read.ndjson")).unwrap(), "{\"a\": 1}\n", "{text}");
    }
    let raised = format!("[factors]\nn = [1]\n{}{pause}", service("name = \"{s}\"", "prony.db").replace("600", "{n}"));
    fs::write(place.path("x.toml"), raised.replace("{s}", "s")).unwrap();
    let output = place.run(&words("grow x.toml --raise n=1..2"));
    let said = text(&output.stderr);
    assert!(sound(&output, &"grow") == 2 && said.contains("that file belongs to the results database"), "{said}");
    assert_eq!(Database::open(&place.path("prony.db")).unwrap().runs().unwrap().len(), 2);
    let both = one("/dev/null") + &service("name = \"t\"\ncount = 2", "/dev/null") + pause;
    fs::write(place.path("x.toml"), both).unwrap();
    let output = place.run(&words("check x.toml"));
    assert_eq!(sound(&output, &"check"), 0, "devices have no content: {}", text(&output.stderr));
}

#[test]
fn exports_that_cannot_be_written_are_found_before_anything_runs() {
    let place = Place::new();
    for format in ["json", "csv", "markdown", "asciidoc", "orgmode", "hyperfine-json"] {
        let option = &format!("--export-{format}");
        let output = place.run(&["exec", "-r", "1", option, "nowhere/x", "--", "touch", "ran"]);
        assert_eq!(sound(&output, &option), 2);
        assert!(text(&output.stderr).contains("cannot write `nowhere/x`"), "{}", text(&output.stderr));
        assert!(!place.path("ran").exists(), "{option}");
    }
    fs::write(place.path("x.json"), "x".repeat(1 << 20)).unwrap();
    assert_eq!(place.run(&words("exec -q -r 1 --export-json x.json -- true")).status.code(), Some(0));
    let written: serde_json::Value = serde_json::from_slice(&fs::read(place.path("x.json")).unwrap()).unwrap();
    assert!(written.is_object(), "the earlier content is removed completely");
}

#[test]
fn outputs_are_never_the_results_the_experiment_or_one_another() {
    let place = Place::with_runs();
    let round = place.path(format!("../{}/prony.db", place.0.path().file_name().unwrap().display()));
    std::os::unix::fs::symlink("prony.db", place.path("other")).unwrap();
    let experiment = fs::read(place.path("e.toml")).unwrap();
    fs::write(place.path("o.toml"), format!("{PROGRAM}output = {{ file = \"prony.db\" }}\n")).unwrap();
    let exec = |options: &str| format!("exec -q -r 1 {options} -- touch ran");
    for (line, message) in [
        (exec("--export-json prony.db"), "that file belongs to the results database"),
        (exec(&format!("--export-csv {}", round.display())), "that file belongs to the results database"),
        (exec("--export-markdown prony.db-wal"), "that file belongs to the results database"),
        (exec("--save prony.db --force"), "that file belongs to the results database"),
        (exec("--database new.db --export-json prony.db"), "that file is an SQLite database"),
        (exec("--export-json a --export-csv ./a"), "this command writes another output to the same file"),
        (exec("--save a --export-csv a"), "this command writes another output to the same file"),
        (exec("--input e.toml --export-csv e.toml"), "this command reads that file"),
        (exec("--output ./prony.db"), "that file belongs to the results database"),
        (exec("--output ./a --export-csv a"), "this command writes another output to the same file"),
        ("run o.toml -q".to_owned(), "that file belongs to the results database"),
        ("report --format markdown -o prony.db".to_owned(), "that file belongs to the results database"),
        ("report --format html -o other".to_owned(), "that file belongs to the results database"),
        ("plot 1 effects -o other".to_owned(), "that file belongs to the results database"),
        // `r.pdf` was Markdown and `x.png` was SVG.
        ("report -o r.pdf".to_owned(), "no format of a report has the ending `.pdf`"),
        ("plot 1 effects -o x.png".to_owned(), "charts are written as SVG, and not as `.png`"),
        ("grow e.toml --raise x=1..4 --journal prony.db".to_owned(), "that file belongs to the results database"),
        ("grow e.toml --raise x=1..4 --journal e.toml".to_owned(), "this command reads that file"),
        (
            "tune e.toml --over x=1..4 --minimize write.time --journal other".to_owned(),
            "that file belongs to the results database",
        ),
        ("data e.toml --to ndjson -o e.toml".to_owned(), "this command reads that file"),
        ("data e.toml --to csv -o prony.db".to_owned(), "that file is an SQLite database"),
        ("run e.toml -q --summary e.toml".to_owned(), "this command reads that file"),
        ("run e.toml -q --summary other".to_owned(), "that file belongs to the results database"),
    ] {
        let output = place.run(&words(&line));
        let said = text(&output.stderr);
        assert!(sound(&output, &line) == 2 && said.contains(message) && said.contains("hint: "), "{line}: {said}");
        assert!(!place.path("ran").exists() && !place.path("prony.db-wal").exists(), "{line}: nothing ran");
        assert!(!place.path("r.pdf").exists() && !place.path("x.png").exists(), "{line}: nothing was written");
        assert!(fs::read(place.path("e.toml")).unwrap() == experiment, "{line}");
        assert_eq!(Database::open(&place.path("prony.db")).unwrap().runs().unwrap().len(), 2, "{line}");
    }
}

#[test]
fn database_that_is_no_file_is_refused_by_what_it_is() {
    let place = Place::new();
    for (path, message) in [(".", "the path is a directory"), ("/dev/full", "the path is not a regular file")] {
        for line in ["run e.toml -q", "exec -q -r 1", "ls"] {
            let all = [
                words(line),
                words("--database"),
                words(path),
                words(if line == "exec -q -r 1" { "-- true" } else { "" }),
            ]
            .concat();
            let output = place.run(&all);
            let said = text(&output.stderr);
            assert!(sound(&output, &all) == 2 && said.contains(message), "{all:?}: {said}");
        }
    }
    assert_eq!(place.run(&words("exec -q -r 1 --database :memory: -- true")).status.code(), Some(0));
    assert_eq!(Database::open(&place.path(":memory:")).unwrap().runs().unwrap().len(), 1, "it is a name like others");
}

#[test]
fn save_overwrites_a_file_only_with_the_option() {
    let place = Place::new();
    let before = fs::read(place.path("e.toml")).unwrap();
    let output = place.run(&words("exec -q -r 1 --save e.toml -- touch ran"));
    let said = text(&output.stderr);
    assert_eq!(sound(&output, &"save"), 2);
    assert!(said.contains("`e.toml` exists already") && said.contains("hint: ") && said.contains("--force"), "{said}");
    assert!(!place.path("ran").exists() && fs::read(place.path("e.toml")).unwrap() == before);
    assert_eq!(place.run(&words("exec -q -r 1 --save e.toml --force -- true")).status.code(), Some(0));
    assert_eq!(place.run(&words("exec -q -r 1 --save new.toml -- true")).status.code(), Some(0));
    assert_eq!(fs::read(place.path("e.toml")).unwrap(), fs::read(place.path("new.toml")).unwrap());
}

#[test]
fn compare_refuses_a_metric_that_the_run_does_not_have() {
    let place = Place::with_runs();
    for metric in ["nosuch", "nosuch.time", "write.nosuch", "write.misses"] {
        for more in ["1", "1 2", "1 --json"] {
            let all = [words("compare"), words(more), words("--metric"), words(metric)].concat();
            let output = place.run(&all);
            assert_eq!(sound(&output, &all), 2, "{}", text(&output.stdout));
        }
    }
    let said = text(&place.run(&words("compare 1 --metric nosuch.time")).stderr);
    assert!(said.contains("no phase `nosuch`") && said.contains("`write`"), "{said}");
    let said = text(&place.run(&words("compare 1 --metric write.misses")).stderr);
    assert!(said.contains("no trial has a value of `write.misses`") && said.contains("--all-metrics"), "{said}");
    assert_eq!(place.run(&words("compare 1 --metric write.time")).status.code(), Some(0));
}

#[test]
fn resume_of_a_finished_run_changes_nothing() {
    let place = Place::new();
    // It stops at the first interim analysis, and has blocks left.
    let body = "[factors]\nt = [\"0\", \"0.1\"]\n[compare]\nblocks = { min = 6, max = 12 }\nbaseline = { t = \"0\" }\n\
                [observe]\ncare = \"light\"\n[program.x]\ncommand = [\"sleep\", \"{t}\"]\n";
    fs::write(place.path("r.toml"), body).unwrap();
    assert_eq!(sound(&place.run(&words("run r.toml -q")), &"run"), 0);
    let state = || {
        let database = Database::open(&place.path("prony.db")).unwrap();
        let head = database.runs().unwrap().remove(0);
        let trials = database.load_run(head.id).unwrap().trials.len();
        (head.status, head.ended_unix_ms, head.planned, trials)
    };
    let before = state();
    assert_eq!(before.0, RunStatus::Done);
    let output = place.run(&words("run --resume 1"));
    assert_eq!(sound(&output, &"resume"), 0, "{}", text(&output.stderr));
    assert_eq!(state(), before);
    assert!(text(&output.stderr).contains("run 1 is done: nothing was run"), "{}", text(&output.stderr));
    assert!(!output.stdout.is_empty(), "its tables are shown");
}

#[test]
fn a_cleanup_that_fails_still_shows_the_figures() {
    let place = Place::new();
    let body =
        "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\n[program.x]\ncommand = \"true\"\ncleanup = \"exit 7\"\n";
    fs::write(place.path("c.toml"), body).unwrap();
    for (line, failed) in [
        ("run c.toml -q", "cleanup of program `x` failed"),
        ("exec -q -r 2 --cleanup false -- true", "`--cleanup` of `true` failed"),
    ] {
        let output = place.run(&words(line));
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(sound(&output, &line), 2, "{said}");
        assert!(said.contains(failed) && said.contains("the finished trials are saved"), "{line}: {said}");
        assert!(out.contains("2 ok") || out.contains("2 run: 2 ok"), "{line}: {out}");
    }
    let database = Database::open(&place.path("prony.db")).unwrap();
    assert!(database.runs().unwrap().iter().all(|head| head.status == RunStatus::Done));
    // What failed beside that stays the answer: a gate that fails ended with 2, as one that cannot judge.
    let output = place.run(&words("exec -q -r 2 --cleanup false -- false"));
    let said = text(&output.stderr);
    assert_eq!(sound(&output, &"a failing command"), 1, "{said}");
    assert!(said.contains("`--cleanup` of `false` failed"), "{said}");
}

/// Opening a FIFO hung the run until its second signal, and a directory was found out by the program.
#[test]
fn inputs_and_patches_that_are_no_files_are_faults() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    let made = Command::new("mkfifo").arg(place.path("fifo")).status().unwrap();
    assert!(made.success());
    for (name, why) in [("folder", "is a directory"), ("fifo", "the file is a FIFO, which can be read only once")] {
        for key in [format!("input = \"{name}\""), format!("change = {{ patch = \"{name}\" }}")] {
            fs::write(place.path("i.toml"), format!("{PROGRAM}{key}\n")).unwrap();
            for line in ["check i.toml", "run i.toml -q"] {
                let output = place.run(&words(line));
                let said = text(&output.stderr) + &text(&output.stdout);
                assert_ne!(sound(&output, &line), 0, "{line} {key}: {said}");
                assert!(said.contains("i.toml:") && said.contains(name) && said.contains(why), "{line} {key}: {said}");
            }
        }
        let line = format!("exec -q -r 1 --input {name} -- cat");
        let output = place.run(&words(&line));
        assert_eq!(sound(&output, &line), 2);
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

#[test]
fn an_input_that_is_endless_is_no_experiment() {
    let place = Place::new();
    File::create(place.path("long.toml")).unwrap().set_len(5 << 20).unwrap();
    let output = place.run(&words("check long.toml"));
    assert_eq!(sound(&output, &"check"), 2);
    assert!(text(&output.stderr).contains("longer than 4 MiB"), "{}", text(&output.stderr));
}

/// Of each pair the first had no effect, and nothing was said.
#[test]
fn options_without_effect_are_refused() {
    let place = Place::new();
    fs::write(place.path("x.toml"), PROGRAM).unwrap();
    for (line, message) in [
        ("load http://127.0.0.1:1/ --arrivals poisson", "has no effect without --rate"),
        ("load http://127.0.0.1:1/ --seed 2", "`--seed` has no effect"),
        ("load http://127.0.0.1:1/ --seed 2 --rate 9", "`--seed` has no effect"),
        ("check x.toml --set n=1 --set n=2", "`--set n` is given twice"),
        ("run x.toml --only n=1 --only n=2", "write all levels in one: `--only n=1,2`"),
        ("compare 1 2 --baseline x=1", "cannot be used with"),
        ("profile --format raw --phase write", "which writes the profilers' files unchanged"),
    ] {
        let output = place.run(&words(line));
        let said = text(&output.stderr);
        assert!(sound(&output, &line) == 2 && said.contains(message), "{line}: {said}");
    }
}
