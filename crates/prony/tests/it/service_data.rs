//! Tests the data of services: set up once for a variant, copied for each trial, and refused where a copy would not be whole.

use prony_model::outcome::Outcome;

use crate::bench::{Bench, scratches};
use crate::services::{bench, requests, service};

#[test]
fn data_are_set_up_once_for_each_variant_and_copied_for_each_trial() {
    let Some(bench) = bench() else { return };
    let log = bench.path("log").display().to_string();
    let seed = bench.path("seed");
    std::fs::create_dir(&seed).unwrap();
    std::fs::write(seed.join("first"), "12").unwrap();
    let once = format!(
        "data = {{ from = \"{}\", setup = \"once\" }}\nprepare = \"echo prepared {{level}} >> {log}; mkdir {{data}}/a; echo 1234 > {{data}}/a/b\"\n\
         setup = \"echo set up {{level}} >> {log}; echo {{level}} > {{service.api.data}}/level; ln -s a/b {{data}}/link\"",
        seed.display()
    );
    let factors = "[factors]\nlevel = [1, 2]\n[compare]\nblocks = 2\n";
    let phases = requests("write", "service = \"api\", path = \"/write/{i}\", requests = 10");
    let data = bench.run(&format!("{factors}{}{phases}", service("api", &format!(", \"{log}\", \"api\""), &once)));
    let failed: Vec<_> = data.trials.iter().filter(|trial| trial.ending.outcome != Outcome::Ok).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let text = std::fs::read_to_string(bench.path("log")).unwrap();
    for level in ["1", "2"] {
        for step in ["prepared", "set up"] {
            let line = format!("{step} {level}");
            assert_eq!(text.lines().filter(|found| **found == line).count(), 1, "{line}: {text}");
        }
    }
    let started = text.lines().filter(|line| line.starts_with("api ") && !line.ends_with("ends"));
    let files: Vec<&str> = started.filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(files.iter().filter(|files| **files == "2").count(), 2, "what `prepare` left: {text}");
    assert_eq!(files.iter().filter(|files| **files == "4").count(), data.trials.len(), "the copies: {text}");
    assert_eq!(files.len(), data.trials.len() + 2, "{text}");
    let effective = &data.trials[0].effective.as_ref().unwrap().services()[0];
    assert_eq!(effective.remarks, ["`{data}` began as a copy of what `prepare` and `setup` left: 9 B in 3 files"]);
    let from = effective.data.as_ref().unwrap();
    assert_eq!((from.directory.as_path(), from.files), (seed.as_path(), 1), "so that a change of it is noticed");
}

/// What is copied must be whole: data of a server that did not end are no beginning for trials.
#[test]
fn setup_that_fails_is_the_result_of_every_trial_and_nothing_is_copied() {
    let Some(bench) = bench() else { return };
    let once = "data = { setup = \"once\" }\nsetup = \"echo no such table >&2; exit 3\"";
    let data = bench.run(&format!(
        "{}{}",
        service("api", "", once),
        requests("get", "service = \"api\", path = \"/\", requests = 1")
    ));
    for trial in &data.trials {
        assert!(matches!(trial.ending.outcome, Outcome::Failed { .. }), "{:?}", trial.ending);
        assert!(trial.ending.evidence.join("; ").contains("no such table"), "{:?}", trial.ending);
    }
}

/// The shell ends at once, and the server that it started was killed while it stored its data.
#[test]
fn data_of_a_server_under_a_shell_are_copied_when_it_has_ended_too() {
    let Some(bench) = bench() else { return };
    bench.write(
        "server/slow.js",
        "const [port, data, log] = process.argv.slice(2), fs = require('fs');\n\
         fs.appendFileSync(log, fs.readdirSync(data).length + ' ');\n\
         require('http').createServer((_, response) => response.end()).listen(+port, '127.0.0.1');\n\
         process.on('SIGTERM', () => setTimeout(() => { fs.writeFileSync(data + '/stored', 'all'); process.exit(0); }, 300));",
    );
    let log = bench.path("log").display().to_string();
    let service = format!(
        "[[service]]\nname = \"api\"\ndirectory = \"server\"\ncopy = \"none\"\ndata = {{ setup = \"once\" }}\nsetup = \"true\"\n\
         command = [\"sh\", \"-c\", \"node slow.js {{port}} {{data}} {log}; true\"]\n"
    );
    let trial = bench.trial(&format!("{service}{}", requests("get", "service = \"api\", path = \"/\", requests = 1")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert_eq!(std::fs::read_to_string(bench.path("log")).unwrap(), "0 1 ");
}

/// A server in another process group does not get the signal, and has not stored what it would.
#[test]
fn data_of_a_server_that_did_not_end_by_itself_are_no_beginning_of_trials() {
    let Some(bench) = bench() else { return };
    bench.write(
        "server/fails.js",
        "require('http').createServer().listen(+process.argv[2], '127.0.0.1'); process.on('SIGTERM', () => process.exit(7));",
    );
    for (command, why) in [
        ("setsid node server.js {port} {data} & wait", "left processes behind when it ended, which prony killed"),
        ("exec node fails.js {port} {data}", "ended with exit code 7 after SIGTERM"),
    ] {
        let service = format!(
            "[[service]]\nname = \"api\"\ndirectory = \"server\"\ncopy = \"none\"\ndata = {{ setup = \"once\" }}\nsetup = \"true\"\n\
             command = [\"sh\", \"-c\", \"{command}\"]\n"
        );
        bench.write("a.toml", format!("{service}{}", requests("get", "service = \"api\", path = \"/\", requests = 1")));
        let output = bench.prony(&["run", "a.toml", "--blocks", "1"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(why) && text.contains("may be incomplete"), "{text}");
    }
}

/// A service without a port whose data are a copy; its `prepare` is a shell text.
fn copied(prepare: &str, more: &str) -> String {
    format!(
        "[[service]]\nname = \"db\"\ndata = {{ from = \"loaded\" }}\nprepare = \"{prepare}\"\n\
         command = [\"sleep\", \"100\"]\nenv = {{ DATA = \"{{data}}\" }}\n{more}\n\
         [[phase]]\nname = \"work\"\nrun = [\"true\"]\n"
    )
}

#[test]
fn each_trial_and_instance_begins_with_a_copy_of_the_data() {
    let bench = Bench::new();
    bench.write("loaded/sub/x", "loaded\n");
    let log = bench.path("log").display().to_string();
    let prepare = format!("cat $DATA/sub/x >> {log}; echo more >> $DATA/sub/x");
    let body = format!("[compare]\nblocks = 2\n{}", copied(&prepare, "count = 2"));
    let trials = bench.run(&body).trials;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "loaded\n".repeat(4));
    assert_eq!(std::fs::read_to_string(bench.path("loaded/sub/x")).unwrap(), "loaded\n");
    assert_eq!(scratches(&bench.path("")), Vec::<std::path::PathBuf>::new());
    let data = trials.iter().map(|trial| trial.effective.as_ref().unwrap().services()[0].data.clone().unwrap());
    let data: Vec<_> = data.collect();
    assert_eq!((data.len(), data[0].files, data[0].bytes.as_bytes(), &data[0]), (2, 1, 7, &data[1]));
    let checked = bench.prony(&["check", "e.toml"]);
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(text.contains("each trial copies `loaded` (1 file, 7 B) as the data of service `db`"), "{text}");
}

#[test]
fn run_ends_where_the_data_change_during_it() {
    let bench = Bench::new();
    bench.write("loaded/x", "loaded\n");
    let prepare = format!("echo >> {}", bench.path("loaded/new").display());
    bench.write("e.toml", format!("[compare]\nblocks = 2\n[observe]\ncare = \"light\"\n{}", copied(&prepare, "")));
    let run = |arguments: &[&str], code| {
        let output = bench.prony(arguments);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    };
    let text = run(&["run", "e.toml", "--quiet"], 2);
    let expected = "of which the data of service `db` is a copy, has changed since the run began: `new`";
    assert!(text.contains(expected), "{text}");
    assert_eq!(bench.data().trials.len(), 1, "the finished trial is saved");
    assert_eq!(scratches(&bench.path("")), Vec::<std::path::PathBuf>::new());
    let text = run(&["run", "--resume", "--quiet"], 0);
    assert!(text.contains("sources_differ"), "{text}");
}

#[test]
fn data_that_cannot_be_copied_are_refused_at_their_place_in_the_file() {
    let bench = Bench::new();
    bench.write("e.toml", copied("true", ""));
    let said = || {
        let output = bench.prony(&["check", "e.toml"]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let text = said();
    assert!(text.contains("e.toml:3:") && text.contains("cannot find the directory `loaded`"), "{text}");
    bench.write("loaded/x", "");
    std::os::unix::fs::symlink("/etc/hostname", bench.path("loaded/out")).unwrap();
    let text = said();
    assert!(text.contains("e.toml:3:") && text.contains("leads out of the data"), "{text}");
}
