//! `prony data` through the real binary.

use std::process::{Command, Output};

fn prony(dir: &tempfile::TempDir, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prony")).arg("data").args(args).current_dir(dir.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_map_is_written_to_a_file_or_to_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let told = prony(&dir, &["--to", "osmchange", "--elements", "1_000", "--changeset", "{C}", "-o", "a.xml"]);
    assert!(told.status.success() && told.stdout.is_empty(), "{}", text(&told.stderr));
    assert!(text(&told.stderr).contains("1000 elements, of which 880 nodes, 110 ways, 10 relations"));
    let file = std::fs::read_to_string(dir.path().join("a.xml")).unwrap();
    assert_eq!(file.matches("changeset=\"{C}\"").count(), 1_000);
    let sized = prony(&dir, &["--to", "osmchange", "--bytes", "50 kB", "--seed", "0"]);
    assert!((50_000..54_000).contains(&sized.stdout.len()), "{}", sized.stdout.len());
    let other = prony(&dir, &["--to", "osmchange", "--bytes", "50 kB", "--seed", "1"]);
    assert_ne!(sized.stdout, other.stdout);
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
        "error: the variants have 2 different sets of records\nhint: choose one with `--only factor=level`\n";
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
fn options_that_mean_nothing_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["--to", "osmchange"][..],
        &["--to", "osmchange", "--bytes", "1kB", "--set", "a=b"],
        &["--to", "ndjson"],
        &["e.toml", "--to", "ndjson", "--bytes", "1kB"],
        &["--to", "osmchange", "--bytes", "1kB", "--elements", "5"],
        &["--to", "osmchange", "--bytes", "much"],
        &["--to", "osmchange", "--bytes", "1kB", "-o", "no/such/folder"],
    ] {
        let output = prony(&dir, args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    }
}
