//! Tests the binary with hostile users and machines: arguments and folders that are not UTF-8, full outputs, files that
//! are neither experiments nor results. Each case ends with an exit code of prony, never with a panic. Output of
//! programs and names of files are data: they never act on a terminal, a spreadsheet or another user's files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use prony_results::Database;

use crate::bench::PRONY;

const ODD: &[u8] = b"x\xff\xfey";

pub(crate) const STORE: &str = "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n[store]\nengine = \"memory\"\n\
    [data]\nrecords = 10\n[[phase]]\nname = \"write\"\nput = {}\n";
pub(crate) const PROGRAM: &str =
    "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n[program.x]\ncommand = [\"pwd\"]\ndirectory = \".\"\n";

pub(crate) struct Place(pub(crate) tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("e.toml"), STORE).unwrap();
        fs::write(place.path("p.toml"), PROGRAM).unwrap();
        place
    }

    /// With a run of a store and a run of a command.
    pub(crate) fn with_runs() -> Self {
        let place = Self::new();
        assert_eq!(place.run(&["run", "e.toml", "-q"]).status.code(), Some(0));
        assert_eq!(place.run(&["exec", "-q", "-r", "1", "--", "true"]).status.code(), Some(0));
        place
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(PRONY);
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null()).env("PRONY_CACHE", "off");
        command
    }

    pub(crate) fn run(&self, words: &[impl AsRef<OsStr>]) -> Output {
        self.command(words).output().unwrap()
    }
}

pub(crate) fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// It ended as prony ends: done, no, or could not.
pub(crate) fn sound(output: &Output, what: &dyn std::fmt::Debug) -> i32 {
    let said = text(&output.stderr);
    assert!(!said.contains("panicked at"), "{what:?}: {said}");
    let code = output.status.code().unwrap_or_else(|| panic!("{what:?}: {:?}: {said}", output.status));
    assert!((0..=2).contains(&code), "{what:?}: {code}: {said}");
    code
}

/// Each command, as its words before what a test adds.
const COMMANDS: &[&str] = &[
    "run",
    "run e.toml -q --database",
    "run e.toml -q --scratch",
    "run e.toml -q --summary",
    "run e.toml -q --set",
    "run e.toml -q --resume",
    "exec -q -r 1 --",
    "exec -q -r 1 -- true",
    "exec -q -r 1 true --name",
    "exec -q -r 1 --input",
    "grow --raise a=1.. --",
    "grow e.toml --raise",
    "tune --over a=1..2 --minimize write.time --",
    "load",
    "load http://127.0.0.1:1/ --body",
    "mark a begin --to",
    "mark",
    "check",
    "check e.toml --scratch",
    "new",
    "new x.toml --from",
    "completions",
    "man",
    "schema",
    "show",
    "show --database",
    "show --metric",
    "report",
    "report --output",
    "report --format csv --database",
    "compare",
    "compare --metric",
    "compare --baseline",
    "plot",
    "profile --output",
    "ls --database",
    "rm --yes",
    "engines",
];

#[test]
fn arguments_that_are_not_utf8_end_without_panic() {
    let place = Place::with_runs();
    let odd = OsString::from_vec(ODD.to_vec());
    for line in COMMANDS.iter().chain(&["data --to csv", "data e.toml --to csv --output", "doctor", "nosuch"]) {
        for more in [vec![odd.clone()], vec![odd.clone(), odd.clone()], vec![OsString::new()]] {
            let all = [words(line), more].concat();
            sound(&place.run(&all), &all);
        }
    }
}

#[test]
fn folders_that_are_not_utf8_are_used_or_refused_by_name() {
    let place = Place::new();
    let folder = place.path(OsStr::from_bytes(ODD));
    fs::create_dir(&folder).unwrap();
    for name in ["e.toml", "p.toml"] {
        fs::copy(place.path(name), folder.join(name)).unwrap();
    }
    let before: Vec<_> = listed(place.0.path());
    for line in ["run e.toml -q", "run p.toml -q", "check e.toml", "exec -q -r 1 -- true", "exec -q --profile -- true"]
    {
        let output = place.command(&words(line)).current_dir(&folder).output().unwrap();
        assert_eq!(sound(&output, &line), 2, "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("is not valid UTF-8"), "{line}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("\nhint: "), "{line}: {}", text(&output.stderr));
    }
    for line in ["ls", "doctor", "engines", "schema", "new"] {
        sound(&place.command(&words(line)).current_dir(&folder).output().unwrap(), &line);
    }
    for file in ["e.toml", "p.toml"] {
        let all = [words("run -q --scratch ."), vec![folder.join(file).into_os_string()]].concat();
        assert_eq!(sound(&place.run(&all), &all), 2);
    }
    assert_eq!(listed(place.0.path()), before, "nothing is written to a folder of a similar name");
}

#[test]
fn commands_in_folders_that_are_not_utf8_are_measured() {
    let place = Place::new();
    let folder = place.path(OsStr::from_bytes(ODD));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("tool"), "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(folder.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = [folder.as_os_str().as_bytes(), b":/usr/bin:/bin"].concat();
    let output = place.command(&words("exec -q -r 1 -- tool")).env("PATH", OsStr::from_bytes(&path)).output().unwrap();
    assert_eq!(sound(&output, &"exec"), 0, "{}", text(&output.stderr));
}

fn listed(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

fn full() -> Stdio {
    Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
}

const READING: &[&str] = &[
    "check e.toml",
    "schema",
    "schema --reference",
    "completions bash",
    "show",
    "report",
    "report --html",
    "report --format json",
    "report --format csv",
    "compare",
    "compare 1 2",
    "compare --json",
    "plot",
    "ls",
    "engines",
    "engines memory --json",
    "data e.toml --to csv",
    "--help",
    "--version",
];

#[test]
fn outputs_that_are_full_are_said_and_end_with_2() {
    let place = Place::with_runs();
    for line in READING.iter().chain(&["run e.toml -q", "run e.toml -q --json", "exec -q -r 1 -- true"]) {
        let output = place.command(&words(line)).stdout(full()).output().unwrap();
        assert_eq!(sound(&output, line), 2, "{line}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("No space left on device"), "{line}: {}", text(&output.stderr));
    }
    for line in [
        "run e.toml -q --summary /dev/full",
        "report --output /dev/full",
        "report --format json --output /dev/full",
        "data e.toml --to csv --output /dev/full",
        "mark a begin --to /dev/full",
        "exec -q -r 1 --save /dev/full -- true",
        "exec -q -r 1 --export-json /dev/full -- true",
        "exec -q -r 1 --export-csv /dev/full -- true",
        "exec -q -r 1 --export-markdown /dev/full -- true",
    ] {
        let output = place.run(&words(line));
        assert_eq!(sound(&output, &line), 2, "{line}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("cannot write"), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn messages_that_cannot_be_written_end_nothing() {
    let place = Place::with_runs();
    for (line, expected) in [
        ("check nosuch", 2),
        ("nosuch", 2),
        ("run e.toml", 0),
        ("exec -r 1 -- true", 0),
        ("data e.toml --to csv", 0),
        ("rm 1 --yes", 0),
        ("rm 2", 2),
    ] {
        let status = place.command(&words(line)).stderr(full()).stdout(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{line}");
    }
    let database = Database::open(&place.path("prony.db")).unwrap();
    assert!(database.runs().unwrap().iter().all(|head| head.id.0 != 1), "the run was deleted all the same");
}

#[test]
fn files_of_something_else_are_refused_in_few_words() {
    let place = Place::with_runs();
    let garbage: Vec<u8> = (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(place.path("garbage"), &garbage).unwrap();
    fs::write(place.path("latin"), b"[experiment]\ntitle = \"caf\xe9\"\n").unwrap();
    fs::write(place.path("deep"), format!("a = {}1{}", "[".repeat(50_000), "]".repeat(50_000))).unwrap();
    fs::write(place.path("empty"), "").unwrap();
    let mut damaged = fs::read(place.path("prony.db")).unwrap();
    damaged.truncate(damaged.len() / 2);
    fs::write(place.path("half.db"), &damaged).unwrap();
    damaged.iter_mut().skip(100).step_by(97).for_each(|byte| *byte ^= 0x55);
    fs::write(place.path("damaged.db"), &damaged).unwrap();
    for file in ["garbage", "latin", "deep", "empty", "prony.db", "/dev/zero", "/dev/null", ".", "/proc/self/mem"] {
        for line in ["check", "run -q", "grow --raise a=1..", "data --to csv"] {
            let all = [words(line), words(file)].concat();
            let output = place.run(&all);
            assert_eq!(sound(&output, &all), 2);
            assert!(output.stderr.len() < 64 << 10, "{all:?}: {} bytes", output.stderr.len());
        }
    }
    let latin = text(&place.run(&["check", "latin"]).stderr);
    assert!(latin.contains("--> latin:2:13\n"), "{latin}");
    for file in ["garbage", "half.db", "damaged.db", "e.toml", "/dev/zero", "."] {
        for line in [
            "show",
            "report --html",
            "report --format csv",
            "compare",
            "plot",
            "ls",
            "profile",
            "rm 1 --yes",
            "run -q --resume",
        ] {
            let all = [words(line), words("--database"), words(file)].concat();
            sound(&place.run(&all), &all);
        }
    }
}

/// Bytes that clear the screen, colour, go back, and turn text around.
const ACTING: &str = "\u{1b}[2J\u{1b}[31mred\r\u{7}\u{202e}cba\u{2066}\u{200b}\u{9b}31m";

/// Nothing in it acts on a terminal.
fn harmless(bytes: &[u8], what: &str) {
    let said = text(bytes);
    let acts = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || ('\u{200b}'..'\u{2070}').contains(&c)
                && !c.is_whitespace()
                && matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!said.contains(acts), "{what}: {said:?}");
}

#[test]
fn control_characters_never_reach_a_terminal() {
    let place = Place::new();
    let toml = |text: &str| serde_json::to_string(text).unwrap().replace('\u{7f}', "\\u007f");
    let script = format!("printf '%s' {}; printf '%s' {0} >&2; exit 3", "\"$X\"");
    let body = format!(
        "[experiment]\ntitle = {0}\nquestion = {0}\n[factors]\nlevel = [{0}, {1}]\n[compare]\nblocks = 1\nbaseline = {{ level = {0} }}\n\
         [program.x]\nshell = true\ncommand = {2}\nenv = {{ X = \"{{level}}\" }}\n",
        toml(ACTING),
        toml(&format!("{ACTING}2")),
        toml(&script)
    );
    fs::write(place.path("h.toml"), &body).unwrap();
    for line in [
        "check h.toml",
        "run h.toml",
        "run h.toml --json -q",
        "show --all-metrics",
        "compare",
        "compare 1 2",
        "plot",
        "ls",
        "report",
        "report --html",
        "report --format json",
        "plot 1 effects",
    ] {
        let output = place.run(&words(line));
        sound(&output, &line);
        if !line.contains("json") {
            harmless(&output.stdout, line);
        }
        harmless(&output.stderr, line);
    }
    let output = place.run(&[
        "exec",
        "-r",
        "2",
        "--",
        "sh",
        "-c",
        "printf \"$1\" >&2; exit 3",
        ACTING,
        "--vs",
        "sh",
        "-c",
        "exit 1",
        ACTING,
    ]);
    harmless(&output.stdout, "exec");
    harmless(&output.stderr, "exec");
    assert!(text(&output.stdout).contains("\\u{1b}[2J"), "{}", text(&output.stdout));
    for name in [ACTING, "a\u{1b}[31m.toml"] {
        for command in ["check", "run", "show", "nosuch", "new"] {
            let output = place.run(&[command, name]);
            sound(&output, &command);
            harmless(&output.stderr, command);
            harmless(&output.stdout, command);
        }
    }
    own_colours_stay(&place);
}

#[test]
fn labels_with_line_feeds_begin_no_lines_of_output() {
    let place = Place::new();
    let body = "[factors]\nn = [1]\nlevel = [\"a\", \"b\\nFORGED\"]\n[compare]\nblocks = 6\nbaseline = { level = \"b\\nFORGED\" }\n\
                [observe]\ncare = \"light\"\n[program.x]\ncommand = [\"false\", \"{level}\", \"{n}\"]\n";
    fs::write(place.path("h.toml"), body).unwrap();
    let exec = words("exec -q -r 6 --name a --name");
    let exec = [exec, vec!["b\nFORGED".into()], words("-- false --vs false")].concat();
    let lines = [
        "check h.toml",
        "run h.toml --quiet",
        "run h.toml --quiet",
        "show",
        "compare",
        "compare --metric run.cpu",
        "compare 1 2",
        "grow h.toml -q --raise n=1..2",
    ];
    for line in lines.map(words).into_iter().chain([exec]) {
        let output = place.run(&line);
        sound(&output, &line);
        let said = text(&output.stdout);
        assert!(said.contains("\\nFORGED"), "{line:?}: {said}");
        assert!(!said.lines().any(|line| line.trim_start().starts_with("FORGED")), "{line:?}: {said}");
    }
}

fn own_colours_stay(place: &Place) {
    let shown = text(&place.run(&words("show 1")).stdout);
    assert!(shown.contains("\\u{1b}[2J"), "{shown}");
    let coloured = text(&place.run(&words("--color always show 1")).stdout);
    let codes: Vec<&str> = coloured.split('\u{1b}').skip(1).map(|rest| &rest[..rest.find('m').unwrap() + 1]).collect();
    assert!(codes.contains(&"[1m"), "prony's own colours stay: {coloured:?}");
    assert!(codes.iter().all(|code| ["[0m", "[1m", "[2m", "[31m"].contains(code)), "{codes:?}");
}

#[test]
fn csv_of_results_contains_no_formulas() {
    let place = Place::new();
    let body = "[factors]\nlevel = [\"=1+1\", \"@x\", \"-x\", -1.5]\n[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n\
                [program.x]\ncommand = [\"true\", \"{level}\"]\n";
    fs::write(place.path("h.toml"), body).unwrap();
    assert_eq!(place.run(&words("run h.toml -q")).status.code(), Some(0));
    let csv = text(&place.run(&words("report --format csv")).stdout);
    for cell in ["'=1+1", "'@x", "'-x"] {
        assert!(csv.contains(&format!(",{cell},")), "{cell}: {csv}");
    }
    assert!(csv.contains(",-1.5,"), "a number stays one: {csv}");
    assert!(!csv.lines().flat_map(|line| line.split(',')).any(|cell| cell.starts_with(['=', '@'])), "{csv}");
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o7777
}

#[test]
fn results_and_scratch_are_private_unless_shared() {
    for (umask, shared, file, directory) in
        [("022", false, 0o600, "700"), ("022", true, 0o644, "755"), ("0", true, 0o644, "777")]
    {
        let place = Place::new();
        // What stands in the scratch directory lies above the program's TMPDIR.
        let script = "[program.x]\nshell = true\ncommand = \"stat -c %a $TMPDIR/..; ls -l *.db* | cut -c1-10\"\ndirectory = \".\"\ncopy = \"none\"\n";
        fs::write(place.path("m.toml"), format!("[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n{script}"))
            .unwrap();
        let options: &[&str] = if shared { &["--shared"] } else { &[] };
        let mut command = Command::new("sh");
        let line = ["run", "m.toml", "-q"].iter().chain(options).copied().collect::<Vec<_>>().join(" ");
        let output = command
            .args(["-c", &format!("umask {umask}; {PRONY} {line}")])
            .current_dir(place.0.path())
            .output()
            .unwrap();
        assert_eq!(sound(&output, &shared), 0, "{}", text(&output.stderr));
        assert_eq!(mode(&place.path("prony.db")), file);
        let database = Database::open(&place.path("prony.db")).unwrap();
        let run = database.runs().unwrap()[0].id;
        let trial = database.load_run(run).unwrap().trials.remove(0);
        let said = &trial.program().unwrap().output.stdout.first;
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some(directory), "{said}");
        let modes: Vec<&str> = lines.collect();
        let expected = if shared { "-rw-r--r--" } else { "-rw-------" };
        assert!(modes.len() == 4 && modes.iter().all(|mode| *mode == expected), "with log, index and lock: {said}");
    }
}
