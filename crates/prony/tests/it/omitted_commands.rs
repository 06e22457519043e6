//! Tests `record_commands = false`: no file that prony writes contains command lines, paths or texts of programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use prony_model::record::effective::ReplicaEnd;
use prony_results::{Database, RunStatus};

use crate::bench::{probe, version};
use crate::hostile::{Place, sound, text, words};

/// Every byte of the results: the database with its log.
fn results(place: &Place) -> Vec<u8> {
    let files = ["prony.db", "prony.db-wal"].map(|name| fs::read(place.path(name)).unwrap_or_default());
    files.concat()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn command_lines_can_be_omitted_from_the_record() {
    let body = "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\nrecord_commands = false\n[program.x]\nshell = true\n\
                command = \"true TOPSECRET1\"\nprepare = \"true TOPSECRET2\"\nenv = { PASS = \"TOPSECRET3\" }\n\
                input = { text = \"TOPSECRET4\" }\n[program.x.replicas]\ncount = 2\nphase = \"run\"\n\
                command = \"true TOPSECRET5\"\nenv = { KEY = \"TOPSECRET6\" }\n";
    let place = Place::new();
    fs::write(place.path("s.toml"), body.replace("record_commands = false\n", "")).unwrap();
    assert_eq!(sound(&place.run(&words("run s.toml -q")), &"run"), 0);
    assert!((1..=6).all(|n| contains(&results(&place), &format!("TOPSECRET{n}"))), "without the key all of it is kept");

    let place = Place::new();
    fs::write(place.path("s.toml"), body).unwrap();
    assert_eq!(sound(&place.run(&words("run s.toml -q")), &"run"), 0);
    let exec = words("exec -q -r 1 --omit-commands --env PASS=TOPSECRET3 --prepare #TOPSECRET2 -- echo");
    assert_eq!(sound(&place.run(&[exec, words("TOPSECRET1")].concat()), &"exec"), 0);
    // What programs print is not left out.
    let results = results(&place);
    assert!(
        contains(&results, "left out of the record") && (2..=6).all(|n| !contains(&results, &format!("TOPSECRET{n}")))
    );
    for line in
        ["show 1", "report 1", "report 1 --html", "report 1 --format json", "report 1 --format csv", "compare 1"]
    {
        let output = place.run(&words(line));
        assert_eq!(sound(&output, &line), 0, "{}", text(&output.stderr));
        assert!(!text(&output.stdout).contains("TOPSECRET"), "{line}: {}", text(&output.stdout));
    }
    let mut database = Database::open(&place.path("prony.db")).unwrap();
    let run = database.runs().unwrap()[0].id;
    database.end_run(run, RunStatus::Interrupted, 1).unwrap();
    drop(database);
    let output = place.run(&words("run --resume 1"));
    let said = text(&output.stderr);
    assert!(sound(&output, &"resume") == 2 && said.contains("run 1 recorded no command lines"), "{said}");
    let output = place.run(&words("run s.toml --resume 1 -q"));
    assert_eq!(sound(&output, &"resume"), 0, "{}", text(&output.stderr));
    fs::write(place.path("s.toml"), body.replace("TOPSECRET1", "other")).unwrap();
    let mut database = Database::open(&place.path("prony.db")).unwrap();
    database.end_run(run, RunStatus::Interrupted, 1).unwrap();
    drop(database);
    let output = place.run(&words("run s.toml --resume 1 -q"));
    assert!(sound(&output, &"resume") == 2, "another file is known as another");
}

#[test]
fn paths_changes_and_values_of_levels_are_left_out_with_command_lines() {
    let record = |recorded: bool| {
        let place = Place::new();
        fs::create_dir(place.path("TOPSECRET1")).unwrap();
        fs::write(place.path("TOPSECRET1/TOPSECRET2"), "a\n").unwrap();
        fs::write(place.path("TOPSECRET3"), "").unwrap();
        let observe = if recorded { "" } else { "record_commands = false\n" };
        let body = format!(
            "[factors.c]\nplain = \"TOPSECRET4\"\n[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n{observe}\
             [program.x]\ncommand = [\"sh\", \"-c\", \"sleep 0.2; echo > \\\"$0/new\\\"\", \"{{env.PLACE}}\", \"{{c}}\"]\n\
             directory = \"{{env.PLACE}}\"\nstore = \"{{env.KEEP}}/data\"\ninput = \"TOPSECRET3\"\noutput = {{ file = \"TOPSECRET6\" }}\n\
             conclude = \"true TOPSECRET7\"\n\
             change = {{ replace = {{ file = \"TOPSECRET2\", find = \"a\", with = \"b\", count = 1 }} }}\n"
        );
        fs::write(place.path("s.toml"), body).unwrap();
        let mut run = place.command(&words("run s.toml -q"));
        let output = run.env("PLACE", place.path("TOPSECRET1")).env("KEEP", "TOPSECRET5").output().unwrap();
        assert_eq!(sound(&output, &recorded), 0, "{}", text(&output.stderr));
        let omit = if recorded { "" } else { "--omit-commands" };
        let exec = format!("exec -q -r 1 --name a {omit} --input TOPSECRET3 -- true");
        assert_eq!(sound(&place.run(&words(&exec)), &exec), 0);
        place
    };
    assert!(
        (1..=7).all(|n| contains(&results(&record(true)), &format!("TOPSECRET{n}"))),
        "otherwise all of it is kept"
    );
    let place = record(false);
    let recorded: Vec<u32> = (1..=7).filter(|n| contains(&results(&place), &format!("TOPSECRET{n}"))).collect();
    assert!(recorded.is_empty(), "{recorded:?}");
    for line in ["show 1 --all", "report 1", "report 1 --html", "report 1 --format json"] {
        let output = place.run(&words(line));
        let said = text(&output.stdout);
        assert!(sound(&output, &line) == 0 && said.contains("plain") && !said.contains("TOPSECRET"), "{line}: {said}");
    }
}

#[test]
fn omitted_commands_are_in_no_evidence_and_no_probe_script() {
    let place = Place::new();
    let record = |body: &str| {
        let top = "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\nrecord_commands = false\n";
        fs::write(place.path("x.toml"), format!("{top}{body}")).unwrap();
        let output = place.run(&words("run x.toml -q"));
        sound(&output, &body);
        assert!(!text(&output.stdout).contains("TOPSECRET"), "{}", text(&output.stdout));
        assert!(!contains(&results(&place), "TOPSECRET"), "{body}");
        let database = Database::open(&place.path("prony.db")).unwrap();
        database.load_run(database.runs().unwrap().last().unwrap().id).unwrap().trials.remove(0)
    };
    // It is found, and cannot be executed.
    fs::write(place.path("TOPSECRET"), "#!/nosuch/interpreter\n").unwrap();
    fs::set_permissions(place.path("TOPSECRET"), fs::Permissions::from_mode(0o755)).unwrap();
    let here = "directory = \".\"\ncopy = \"none\"\n";
    // Its `prepare` might bring the interpreter: otherwise it is refused before the run.
    let program = record(&format!("[program.x]\ncommand = [\"./TOPSECRET\"]\nprepare = \"true\"\n{here}"));
    assert_eq!(program.ending.evidence, ["cannot execute the program: No such file or directory (os error 2)"]);
    let replica = record(&format!(
        "[program.x]\ncommand = [\"sleep\", \"0.2\"]\n{here}[program.x.replicas]\ncount = 1\nphase = \"run\"\n\
         command = [\"./TOPSECRET\"]\n"
    ));
    assert!(
        replica.ending.evidence[0].starts_with("`replica.1`: cannot execute the program: "),
        "{:?}",
        replica.ending
    );
    assert_eq!(replica.program().unwrap().replicas.as_ref().unwrap().copies[0].end, ReplicaEnd::NotBegun);
    if version("python3").is_some() {
        let python = record("[program.x]\ncommand = [\"python3\", \"-c\", \"TOPSECRET = 1\"]\nruntime = \"python\"\n");
        let threads = &probe(&python).threads;
        assert_eq!(threads[0].script, "(left out of the record)", "{threads:?}");
    }
}

/// The run went on with the new value, since no values are recorded.
#[test]
fn run_without_recorded_commands_is_not_resumed_with_other_values_of_the_environment() {
    let place = Place::new();
    let body = "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\nrecord_commands = false\n[program.x]\n\
                command = [\"true\", \"{env.PLACE}\"]\ndirectory = \".\"\n";
    fs::write(place.path("s.toml"), body).unwrap();
    let with = |line: &str, value: &str| place.command(&words(line)).env("PLACE", value).output().unwrap();
    assert_eq!(sound(&with("run s.toml -q", "TOPSECRET"), &"run"), 0);
    assert!(!contains(&results(&place), "TOPSECRET"));
    let interrupt = || {
        let mut database = Database::open(&place.path("prony.db")).unwrap();
        let run = database.runs().unwrap()[0].id;
        database.end_run(run, RunStatus::Interrupted, 1).unwrap();
    };
    interrupt();
    let output = with("run s.toml --resume 1 -q", "other");
    let said = text(&output.stderr);
    assert!(
        sound(&output, &"resume") == 2
            && said.contains("the environment variable `PLACE`, which the file uses, has changed since run 1 began"),
        "{said}"
    );
    interrupt();
    // The file may be named by another path.
    let path = format!("run {} --resume 1 -q", place.path("s.toml").display());
    let output = with(&path, "TOPSECRET");
    assert_eq!(sound(&output, &"resume"), 0, "{}", text(&output.stderr));
}
