//! The program as a hostile user or machine treats it: arguments and folders that are not UTF-8, outputs that are full,
//! files that are no experiments and no results. Each ends with an exit code of prony's own, never with a panic. And what
//! programs print, and files are called, is data: it never acts on a terminal, a spreadsheet or another user's files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use prony_model::record::effective::ReplicaEnd;
use prony_results::{Database, RunStatus};

use crate::programs::{PRONY, probe};
use crate::runtimes::version;

const ODD: &[u8] = b"x\xff\xfey";

const STORE: &str = "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n[store]\nengine = \"memory\"\n\
    [data]\nrecords = 10\n[[phase]]\nname = \"write\"\nput = {}\n";
const PROGRAM: &str =
    "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n[program.x]\ncommand = [\"pwd\"]\ndirectory = \".\"\n";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("e.toml"), STORE).unwrap();
        fs::write(place.path("p.toml"), PROGRAM).unwrap();
        place
    }

    /// With a run of a store and a run of a command.
    fn with_runs() -> Self {
        let place = Self::new();
        assert_eq!(place.run(&["run", "e.toml", "-q"]).status.code(), Some(0));
        assert_eq!(place.run(&["exec", "-q", "-r", "1", "--", "true"]).status.code(), Some(0));
        place
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(PRONY);
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null()).env("PRONY_CACHE", "off");
        command
    }

    fn run(&self, words: &[impl AsRef<OsStr>]) -> Output {
        self.command(words).output().unwrap()
    }
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// It ended as prony ends: done, no, or could not.
fn sound(output: &Output, what: &dyn std::fmt::Debug) -> i32 {
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
fn csv_of_results_holds_no_formulas() {
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
        (huge, "8:11", "are free where the store is put"),
    ] {
        fs::write(place.path("x.toml"), &body).unwrap();
        for command in ["check", "run"] {
            let output = place.run(&[command, "x.toml"]);
            let said = text(&output.stderr);
            assert_eq!(sound(&output, &command), 2, "{body}\n{said}");
            assert!(said.contains(message) && said.contains(&format!("--> x.toml:{at}\n")), "{command} {body}\n{said}");
        }
        assert!(!place.path("prony.db").exists(), "nothing was begun");
    }
    for line in ["check e.toml --database nowhere/x.db", "run e.toml --scratch nowhere"] {
        let output = place.run(&words(line));
        assert!(sound(&output, &line) == 2 && text(&output.stderr).contains("nowhere"), "{}", text(&output.stderr));
    }
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
    assert!(written.is_object(), "what stood there is gone whole");
}

#[test]
fn outputs_are_never_the_results_the_experiment_or_one_another() {
    let place = Place::with_runs();
    let round = place.path(format!("../{}/prony.db", place.0.path().file_name().unwrap().display()));
    fs::hard_link(place.path("prony.db"), place.path("other")).unwrap();
    let experiment = fs::read(place.path("e.toml")).unwrap();
    fs::write(place.path("o.toml"), format!("{PROGRAM}output = {{ file = \"prony.db\" }}\n")).unwrap();
    let exec = |options: &str| format!("exec -q -r 1 {options} -- touch ran");
    for (line, message) in [
        (exec("--export-json prony.db"), "it belongs to the results database"),
        (exec(&format!("--export-csv {}", round.display())), "it belongs to the results database"),
        (exec("--export-markdown prony.db-wal"), "it belongs to the results database"),
        (exec("--save prony.db --force"), "it belongs to the results database"),
        (exec("--database new.db --export-json prony.db"), "it is a database of SQLite"),
        (exec("--export-json a --export-csv ./a"), "this command writes something else to it"),
        (exec("--save a --export-csv a"), "this command writes something else to it"),
        (exec("--input e.toml --export-csv e.toml"), "this command reads it"),
        (exec("--output ./prony.db"), "it belongs to the results database"),
        (exec("--output ./a --export-csv a"), "this command writes something else to it"),
        ("run o.toml -q".to_owned(), "it belongs to the results database"),
        ("report -o prony.db".to_owned(), "it belongs to the results database"),
        ("report --format html -o other".to_owned(), "it belongs to the results database"),
        ("plot 1 effects -o prony.db".to_owned(), "it belongs to the results database"),
        ("grow e.toml --raise x=1..4 --journal prony.db".to_owned(), "it belongs to the results database"),
        ("grow e.toml --raise x=1..4 --journal e.toml".to_owned(), "this command reads it"),
        (
            "tune e.toml --over x=1..4 --minimize write.time --journal other".to_owned(),
            "it belongs to the results database",
        ),
        ("data e.toml --to ndjson -o e.toml".to_owned(), "this command reads it"),
        ("data e.toml --to csv -o prony.db".to_owned(), "it is a database of SQLite"),
        ("run e.toml -q --summary e.toml".to_owned(), "this command reads it"),
        ("run e.toml -q --summary other".to_owned(), "it belongs to the results database"),
    ] {
        let output = place.run(&words(&line));
        let said = text(&output.stderr);
        assert!(sound(&output, &line) == 2 && said.contains(message) && said.contains("hint: "), "{line}: {said}");
        assert!(!place.path("ran").exists() && !place.path("prony.db-wal").exists(), "{line}: nothing ran");
        assert!(fs::read(place.path("e.toml")).unwrap() == experiment, "{line}");
        assert_eq!(Database::open(&place.path("prony.db")).unwrap().runs().unwrap().len(), 2, "{line}");
    }
}

#[test]
fn database_that_is_no_file_is_refused_by_what_it_is() {
    let place = Place::new();
    for (path, message) in [(".", "it is a directory"), ("/dev/full", "it is no regular file")] {
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
    for metric in ["nosuch", "nosuch.time", "write.nosuch"] {
        for more in ["1", "1 2", "1 --json"] {
            let all = [words("compare"), words(more), words("--metric"), words(metric)].concat();
            let output = place.run(&all);
            assert_eq!(sound(&output, &all), 2, "{}", text(&output.stdout));
        }
    }
    let said = text(&place.run(&words("compare 1 --metric nosuch.time")).stderr);
    assert!(said.contains("no phase `nosuch`") && said.contains("`write`"), "{said}");
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
    for line in ["run c.toml -q", "exec -q -r 2 --cleanup false -- true"] {
        let output = place.run(&words(line));
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(sound(&output, &line), 2, "{said}");
        assert!(
            said.contains("cleanup of program") && said.contains("the finished trials are saved"),
            "{line}: {said}"
        );
        assert!(out.contains("2 ok") || out.contains("2 finished: 2 ok"), "{line}: {out}");
    }
    let database = Database::open(&place.path("prony.db")).unwrap();
    assert!(database.runs().unwrap().iter().all(|head| head.status == RunStatus::Done));
}

/// Opening a FIFO hung the run until its second signal, and a directory was found out by the program.
#[test]
fn inputs_and_patches_that_are_no_files_are_faults() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    let made = Command::new("mkfifo").arg(place.path("fifo")).status().unwrap();
    assert!(made.success());
    for (name, why) in [("folder", "is a directory"), ("fifo", "it is a FIFO, which can be read only once")] {
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

/// Every byte of the results: the database with its log.
fn results(place: &Place) -> Vec<u8> {
    let files = ["prony.db", "prony.db-wal"].map(|name| fs::read(place.path(name)).unwrap_or_default());
    files.concat()
}

fn holds(bytes: &[u8], text: &str) -> bool {
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
    assert!((1..=6).all(|n| holds(&results(&place), &format!("TOPSECRET{n}"))), "without the key all of it is kept");

    let place = Place::new();
    fs::write(place.path("s.toml"), body).unwrap();
    assert_eq!(sound(&place.run(&words("run s.toml -q")), &"run"), 0);
    let exec = words("exec -q -r 1 --omit-commands --env PASS=TOPSECRET3 --prepare #TOPSECRET2 -- echo");
    assert_eq!(sound(&place.run(&[exec, words("TOPSECRET1")].concat()), &"exec"), 0);
    // What programs print is not left out.
    let results = results(&place);
    assert!(holds(&results, "left out of the record") && (2..=6).all(|n| !holds(&results, &format!("TOPSECRET{n}"))));
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
    assert!((1..=7).all(|n| holds(&results(&record(true)), &format!("TOPSECRET{n}"))), "otherwise all of it is kept");
    let place = record(false);
    let recorded: Vec<u32> = (1..=7).filter(|n| holds(&results(&place), &format!("TOPSECRET{n}"))).collect();
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
        assert!(!holds(&results(&place), "TOPSECRET"), "{body}");
        let database = Database::open(&place.path("prony.db")).unwrap();
        database.load_run(database.runs().unwrap().last().unwrap().id).unwrap().trials.remove(0)
    };
    // It is found, and cannot be executed.
    fs::write(place.path("TOPSECRET"), "#!/nosuch/interpreter\n").unwrap();
    fs::set_permissions(place.path("TOPSECRET"), fs::Permissions::from_mode(0o755)).unwrap();
    let here = "directory = \".\"\ncopy = \"none\"\n";
    let program = record(&format!("[program.x]\ncommand = [\"./TOPSECRET\"]\n{here}"));
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
