//! Tests `prony new`: its templates run without findings about the template, and its files made from commands are those
//! of `prony exec`.

use std::fs;
use std::process::{Command, Output};

use crate::bench::{Bench, MACHINE, scratches, version};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes the starting file of this kind, checks it, and runs one block of it.
fn runs_without_a_finding_about_the_file(bench: &Bench, kind: &str) {
    let prony = |args: &[&str]| {
        let output = bench.prony(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        output
    };
    prony(&["new", "my.toml", "--for", kind]);
    let plan = text(&prony(&["check", "my.toml"]).stdout);
    assert!(plan.contains(", 6 blocks, ") && plan.contains("a verdict needs at least 6 blocks"), "{plan}");
    prony(&["run", "my.toml", "--blocks", "1", "--quiet"]);
    let shown = text(&prony(&["show", "--all"]).stdout);
    let findings = shown.lines().filter_map(|line| {
        let line = line.strip_prefix("note: `").or(line.strip_prefix("warning: `"))?;
        line.split('`').next()
    });
    // There are six where nothing else is said.
    let of_the_file = findings.filter(|name| *name != "too_few_blocks" && !MACHINE.contains(name));
    assert_eq!(of_the_file.collect::<Vec<_>>(), [""; 0], "{shown}");
    assert!(shown.contains("note: `too_few_blocks`"), "findings are recognised: {shown}");
    assert!(scratches(&bench.path("")).is_empty());
}

#[test]
fn starting_file_for_a_store_runs() {
    runs_without_a_finding_about_the_file(&Bench::new(), "store");
}

#[test]
fn starting_file_for_a_program_runs() {
    runs_without_a_finding_about_the_file(&Bench::new(), "program");
}

#[test]
fn starting_file_for_services_runs() {
    if version("python3").is_some() {
        runs_without_a_finding_about_the_file(&Bench::new(), "services");
    }
}

#[test]
fn starting_file_for_branches_runs_in_a_repository() {
    let bench = Bench::new();
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        Command::new("git").args(who).args(args).current_dir(bench.path("")).output()
    };
    if git(&["init", "--quiet"]).is_err() {
        assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
        println!("SKIPPED: `git` is not there");
        return;
    }
    for content in ["one", "two"] {
        bench.write("file", content);
        for args in [&["add", "file"][..], &["commit", "--quiet", "-m", content]] {
            assert!(git(args).unwrap().status.success());
        }
    }
    runs_without_a_finding_about_the_file(&bench, "branches");
    // No revision has the folder: `check` said that the file was valid, and the run failed.
    fs::create_dir(bench.path("bench")).unwrap();
    let made = bench.prony(&["new", "bench/deep/new.toml", "--for", "branches"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let file = fs::read_to_string(bench.path("bench/deep/new.toml")).unwrap();
    assert!(file.contains("directory = \"../..\" "), "{file}");
    assert_eq!(bench.prony(&["check", "bench/deep/new.toml"]).status.code(), Some(0));
    bench.write("bench/deep/new.toml", file.replace("../..", "."));
    let refused = bench.prony(&["check", "bench/deep/new.toml"]);
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("revision `HEAD~1` has no directory `bench/deep/`") && error.contains("hint: "), "{error}");
}

#[test]
fn new_makes_the_folder_of_its_file_and_names_one_that_it_does_not_make() {
    let bench = Bench::new();
    let made = bench.prony(&["new", "bench/prony.toml", "--for", "branches"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    // The folder of a test is in no repository.
    let said = text(&made.stderr);
    let folder = fs::canonicalize(bench.path("bench")).unwrap();
    assert!(said.starts_with(&format!("warning: `{}` is in no git repository", folder.display())), "{said}");
    let refused = text(&bench.prony(&["check", "bench/prony.toml"]).stderr);
    assert!(refused.contains("is in no git repository, so that there is no revision `HEAD~1`"), "{refused}");
    assert!(refused.contains("write the path from there to a folder of the repository"), "{refused}");
    let deep = bench.prony(&["new", "a/b/prony.toml"]);
    assert_eq!(deep.status.code(), Some(2));
    let said = text(&deep.stderr);
    assert_eq!(said, "error: cannot write `a/b/prony.toml`: there is no folder `a/b`\nhint: make it: `mkdir -p a/b`\n");
    assert!(!bench.path("a").exists());
}

/// `prony new FILE --from LINE`, and what it said.
fn from(bench: &Bench, file: &str, line: &str) -> Output {
    bench.prony(&["new", file, "--from", line])
}

#[test]
fn file_of_commands_is_the_one_that_exec_saves() {
    let bench = Bench::new();
    let cases: [(&str, &[&str]); 4] = [
        ("true --vs sleep 0", &["true", "--vs", "sleep", "0"]),
        ("'sleep 0' 'true x'", &["sleep 0", "true x"]),
        ("-r 1 -S sh 'echo a | cat'", &["-r", "1", "-S", "sh", "echo a | cat"]),
        ("-r 1 --name 'a b' -- true -r", &["-r", "1", "--name", "a b", "--", "true", "-r"]),
    ];
    for (at, (line, words)) in cases.into_iter().enumerate() {
        let output = from(&bench, &format!("new{at}.toml"), line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        assert!(!bench.path("prony.db").exists(), "{line}: nothing ran");
        bench.exec(&[&["--save", "saved.toml", "--force"], words].concat());
        let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
        assert_eq!(read(&format!("new{at}.toml")), read("saved.toml"), "{line}");
        fs::remove_file(bench.path("prony.db")).unwrap();
    }
}

#[test]
fn lines_of_commands_that_are_at_fault_write_nothing() {
    let bench = Bench::new();
    for (line, message) in [
        ("sort a | uniq", "the command of `--from` does not run in a shell: the program gets `|` as an argument"),
        ("a 'b", "`--from`: missing closing quote"),
        ("--memory x a", "`--memory`: `x` does not begin with a number"),
        ("--export-json x.json a", "`--from`: `--export-json` has no effect on an experiment file"),
        ("-r 2 --sort mean-time a", "`--from`: `--sort` has no effect on an experiment file"),
        ("--save b.toml a", "`--from`: `--save` has no effect on an experiment file"),
        ("--database b.db a", "`--from`: `--database` has no effect on an experiment file"),
        ("", "`--from`: the following required arguments were not provided: <CMD>..."),
        ("--nosuch a", "`--from`: unexpected argument '--nosuch' found"),
        ("--help", "`--from`: unexpected argument '--help' found"),
        ("a --vs", "`--vs` needs a command before it and one after it"),
        ("a -r 3", "`-r` comes after a command; options of prony come before the first one"),
        (
            "--memory 3 a --vs b --output ./x.toml",
            "`--output` comes after a command; options of prony come before the first one",
        ),
        ("--output ./x.toml a", "cannot write `x.toml`: this command writes another output to the same file"),
    ] {
        let output = from(&bench, "x.toml", line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = text(&output.stderr);
        assert!(said.starts_with(&format!("error: {message}\nhint: ")), "{line}: {said}");
        assert!(!bench.path("x.toml").exists(), "{line}");
    }
    bench.write("x.toml", "mine");
    assert!(text(&from(&bench, "x.toml", "true").stderr).starts_with("error: `x.toml` exists already\nhint: "));
    assert_eq!(fs::read_to_string(bench.path("x.toml")).unwrap(), "mine");
}

/// Readers did not know the word, which says nothing where all variants have one baseline; a number of each variant's
/// stratum did not say what its variants have in common.
#[test]
fn plan_names_strata_only_where_there_are_several() {
    let bench = Bench::new();
    let plan = |kind: &str| {
        bench.prony(&["new", "--for", kind, kind]);
        text(&bench.prony(&["check", kind]).stdout)
    };
    let (program, store) = (plan("program"), plan("store"));
    assert!(!program.contains("strat") && program.contains("\n2 variants, 6 blocks, 18 trials\n"), "{program}");
    let text = "4 variants in 2 strata (compared at equal transaction), each with its own baseline, ";
    assert!(store.contains(text) && !store.contains("stratum"), "{store}");
}

/// The name of a variant of five factors was broken over seven lines, twice; a file of 50 variants had 270 lines.
#[test]
fn plan_has_one_line_for_each_variant() {
    let bench = Bench::new();
    bench.write(
        "e.toml",
        "[factors]\nnodes = [1_000, 10_000, 100_000]\nchunk = [50, 10_000]\npause = [0, 3]\nkind = [\"x\"]\n\
         subject = [\"heap\", \"lmdb\", \"bare\"]\n\
         [compare]\nbaseline = { subject = \"heap\" }\nblocks = { nodes.100_000 = 1, default = 6 }\n\
         [program.p]\ncommand = [\"echo\", \"{nodes} {chunk} {pause} {kind} {subject}\"]\n",
    );
    let plan = text(&bench.prony(&["check", "e.toml"]).stdout);
    let rows: Vec<Vec<&str>> = plan.lines().map(|line| line.split_whitespace().collect()).collect();
    let of_variants = rows.iter().filter(|row| row.len() > 4 && row[0].parse::<u32>().is_ok() && row[1] != "variants");
    assert_eq!(of_variants.count(), 36, "{plan}");
    assert!(plan.lines().count() < 52, "{plan}");
    assert!(rows.contains(&vec!["100000", "50", "0", "lmdb", "1", "[1]"]), "{plan}");
    assert!(rows.contains(&vec!["1000", "50", "0", "heap", "12", "baseline"]), "{plan}");
    for said in [
        "\nall variants, unless noted: kind = x; phases: run\n",
        "\n[1] no verdict: 1 block; a verdict needs at least 6 (8 variants)\n",
        "\n36 variants in 12 strata (compared at equal nodes, chunk and pause), each with its own baseline, ",
    ] {
        assert!(plan.contains(said), "{said} in {plan}");
    }
    // A load of one request was planned without a word of its size.
    let http = |name: &str, keys: &str| {
        format!("[[phase]]\nname = \"{name}\"\nhttp = {{ url = \"http://127.0.0.1:9\", path = \"/\", {keys} }}\n")
    };
    for (phases, said) in [
        (http("get", "requests = 40"), "requests: 40; phases: get"),
        (
            format!("{}{}[data]\nrecords = 5\n", http("all", ""), http("get", "duration = \"3 s\"")),
            "requests: all one for each record, get for 3.000 s; phases: all, get",
        ),
    ] {
        bench.write("h.toml", &phases);
        let plan = text(&bench.prony(&["check", "h.toml"]).stdout);
        assert!(plan.contains(said), "{said} in {plan}");
    }
    let few = text(&bench.prony(&["check", "e.toml", "--blocks", "3"]).stdout);
    assert!(few.contains("no verdict is possible") && few.contains("hint: `prony run --blocks N`"), "{few}");
}

#[test]
fn first_mistakes_at_the_command_line_have_a_hint() {
    let bench = Bench::new();
    bench.prony(&["new", "my.toml", "--for", "program"]);
    for (args, said) in [
        (
            &["shwo"][..],
            "error: unknown command `shwo`\nhint: did you mean `prony show`? `prony --help` lists the commands\n",
        ),
        // As a script with a variable that is not set.
        (&[""], "error: unknown command ``\nhint: "),
        (
            &["run", "my.toml", "--database", "nosuch/x.db"],
            "error: the folder `nosuch` does not exist\nhint: create the folder",
        ),
        (&["run", "nosuch.toml"], "hint: `prony new FILE` writes a new experiment file\n"),
        (
            &["show", "--database", "my.toml"],
            "error: `my.toml` is not a results database of prony\nhint: the file was not changed",
        ),
        (&["exec", "-P", "n", "1", "sleep {n}"], "error: no command to measure\nhint: "),
        (&["exec", "-P", "n", "1", "sleep {n}"], "may have taken the command as its value"),
        (&["exec", "--time", "5", "true"], "error: `--time`: `5` has no unit of time; known: "),
        (&["run", "my.toml", "--fail-if", "run.time faster 5%"], "hint: write `run.time slower 5%`\n"),
    ] {
        let output = bench.prony(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
    }
}
