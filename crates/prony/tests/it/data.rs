//! `prony data` through the real binary.

use std::process::{Command, Output};

fn prony(dir: &tempfile::TempDir, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prony")).arg("data").args(args).current_dir(dir.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_records_of_an_experiment_are_written_and_only_one_set_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[factors]\nrecords = [3, 5]\n[store]\nengine = \"memory\"\n[data]\nrecords = \"{records}\"\n\
                key = \"user{i}\"\n[[phase]]\nname = \"write\"\nput = {}\n";
    std::fs::write(dir.path().join("e.toml"), file).unwrap();
    let both = prony(&dir, &["e.toml", "--to", "ndjson"]);
    assert_eq!(both.status.code(), Some(2));
    let expected =
        "error: the variants have 2 different sets of records\nhint: choose one set with `--only factor=level`\n";
    assert_eq!(text(&both.stderr), expected);
    let one = prony(&dir, &["e.toml", "--to", "ndjson", "--only", "records=5"]);
    let lines: Vec<serde_json::Value> =
        text(&one.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), lines[4]["key"].as_str()), (5, Some("user4")));
    assert_eq!(lines[4]["value_hex"].as_str().unwrap().len(), 200, "100 bytes");
    let first = prony(&dir, &["e.toml", "--to", "csv", "--only", "records=5", "--records", "2"]);
    assert_eq!(text(&first.stdout).lines().count(), 3);
}

#[test]
fn documents_are_written_as_they_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[store]\nengine = \"memory\"\n[data]\nrecords = 3\n[data.document]\nid = \"/{i}/\"\nodd = { cycle = [false, \
                true] }\n[[phase]]\nname = \"write\"\nput = {}\n";
    std::fs::write(dir.path().join("e.toml"), file).unwrap();
    let output = prony(&dir, &["e.toml", "--records", "2"]);
    assert_eq!(text(&output.stdout), "{\"id\":\"/0/\",\"odd\":false}\n{\"id\":\"/1/\",\"odd\":true}\n");
    let output = prony(&dir, &["e.toml", "--to", "csv"]);
    assert_eq!(text(&output.stdout), "id,odd\r\n/0/,false\r\n/1/,true\r\n/2/,false\r\n");
}

/// It said "1000 records".
#[test]
fn records_of_a_file_are_as_many_as_it_has() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("d.ndjson"), "{\"a\":1}\n{\"a\":2}\n").unwrap();
    let file = "[store]\nengine = \"memory\"\n[data]\nfile = \"d.ndjson\"\n[[phase]]\nname = \"write\"\nput = {}\n";
    std::fs::write(dir.path().join("e.toml"), file).unwrap();
    let output = prony(&dir, &["e.toml", "--records", "1000"]);
    assert_eq!(text(&output.stdout), "{\"a\":1}\n{\"a\":2}\n");
    assert!(text(&output.stderr).contains(": 2 records"), "{}", text(&output.stderr));
    let onto_itself = prony(&dir, &["e.toml", "--records", "1", "--output", "d.ndjson"]);
    assert!(text(&onto_itself.stderr).contains("`[data]` reads that file"), "{}", text(&onto_itself.stderr));
    let content = std::fs::read_to_string(dir.path().join("d.ndjson")).unwrap();
    assert_eq!((onto_itself.status.code(), content.as_str()), (Some(2), "{\"a\":1}\n{\"a\":2}\n"));
}

#[test]
fn collections_are_written_one_after_the_other_or_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[store]\nengine = \"memory\"\n[data.collection.schools]\nrecords = 3\ndocument = { id = \"/{i}/\" }\n\
                [data.collection.blobs]\nrecords = 2\nvalue = \"v{i}\"\n[[phase]]\nname = \"write\"\n\
                put = { collection = \"blobs\" }\n";
    std::fs::write(dir.path().join("e.toml"), file).unwrap();
    let all = prony(&dir, &["e.toml", "--records", "1"]);
    let lines = "{\"collection\":\"schools\",\"document\":{\"id\":\"/0/\"}}\n\
                 {\"collection\":\"blobs\",\"key\":\"0\",\"value\":\"v0\"}\n";
    assert_eq!(text(&all.stdout), lines);
    assert!(text(&all.stderr).contains("2 records"), "{}", text(&all.stderr));
    let one = prony(&dir, &["e.toml", "--to", "csv", "--collection", "schools"]);
    assert_eq!(text(&one.stdout), "id\r\n/0/\r\n/1/\r\n/2/\r\n");
    for (args, said) in [
        (
            &["--to", "csv"][..],
            "the records of 2 collections have different columns\nhint: choose one with `--collection`",
        ),
        (&["--collection", "school"], "unknown collection `school`\nhint: known: `schools`, `blobs`"),
    ] {
        let output = prony(&dir, &[&["e.toml"][..], args].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
}

#[test]
fn wrong_options_and_files_without_records_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("e.toml"), "[program.x]\ncommand = \"true\"\n").unwrap();
    std::fs::write(dir.path().join("before"), "precious").unwrap();
    for args in [
        &["--to", "ndjson"][..],
        &["e.toml", "--to", "ndjson"],
        &["e.toml", "--to", "xml"],
        &["e.toml", "--to", "ndjson", "--records", "many"],
        &["e.toml", "--to", "ndjson", "-o", "no/such/folder"],
        &["e.toml", "--to", "ndjson", "-o", "before"],
    ] {
        let output = prony(&dir, args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("before")).unwrap(), "precious");
}
