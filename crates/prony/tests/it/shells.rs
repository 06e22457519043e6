//! Tests that completions and manual pages contain the commands that `--help` lists.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::bench::{Bench, PRONY};

/// Words by which prony starts itself: they are in no help.
const OWN: [&str; 3] = ["worker", "supervise", "fixture"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names of all commands, as `prony --help` lists them.
fn commands() -> Vec<String> {
    let help = text(&Command::new(PRONY).arg("--help").output().unwrap().stdout);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<String> =
        lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).map(str::to_owned).collect();
    let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 20 && names.iter().any(|name| name == "completions"), "{names:?}");
    names
}

fn script(shell: &str) -> String {
    let output = Command::new(PRONY).args(["completions", shell]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Says aloud that a tool is missing. With `PRONY_REQUIRE_ALL=1` that is a failure.
fn skipped(tool: &str) {
    assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "{tool} is missing");
    println!("SKIPPED: {tool} is not there");
}

/// What the command says; `None`, said aloud, where it is not there.
fn with_input(program: &str, args: &[&str], input: &str) -> Option<Output> {
    let command =
        Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = command else {
        skipped(&format!("`{program}`"));
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[test]
fn completion_scripts_are_accepted_by_their_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let Some(output) = with_input(shell, &["-n"], &script(shell)) else { continue };
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {}", text(&output.stderr));
    }
    let other = Command::new(PRONY).args(["completions", "nosuch"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("possible values: bash, zsh, fish"), "{}", text(&other.stderr));
}

#[test]
fn bash_completes_every_command_and_no_word_of_prony_itself() {
    let complete = |words: &str| {
        let ask = "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _prony prony \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"
            printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = with_input("bash", &["-s"], &format!("{}\nCOMP_WORDS=(prony {words})\n{ask}\n", script("bash")))?;
        assert!(output.status.success(), "{}", text(&output.stderr));
        Some(text(&output.stdout).lines().map(str::to_owned).collect::<Vec<String>>())
    };
    let Some(offered) = complete("''") else { return };
    let missing: Vec<String> = commands().into_iter().filter(|name| !offered.contains(name)).collect();
    assert_eq!(missing, [""; 0], "{offered:?}");
    assert!(!offered.iter().any(|word| OWN.contains(&word.as_str())), "{offered:?}");
    assert_eq!(complete("che").unwrap(), ["check"]);
    assert_eq!(complete("new --for ''").unwrap(), ["store", "program", "services", "branches"]);
}

#[test]
fn completions_of_every_shell_name_all_commands_and_no_word_of_prony_itself() {
    for shell in ["bash", "zsh", "fish"] {
        let script = script(shell);
        let words: Vec<&str> = script.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for name in commands() {
            assert!(words.contains(&name.as_str()), "{shell}: {name}");
        }
        for own in OWN {
            assert!(!words.contains(&own), "{shell}: {own}");
        }
    }
}

/// The page as a reader sees it; `None`, said aloud, where nothing renders it.
fn rendered(page: &Path) -> Option<Output> {
    let page = page.to_str().unwrap();
    let mandoc = Command::new("mandoc").args(["-T", "utf8", page]).output();
    let output = mandoc.or_else(|_| Command::new("groff").args(["-man", "-T", "utf8", "-ww", page]).output());
    if output.is_err() {
        skipped("one of `mandoc` and `groff`");
    }
    output.ok()
}

#[test]
fn every_command_has_a_manual_page() {
    let bench = Bench::new();
    let output = bench.prony(&["man", "share/man1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let folder = bench.path("share/man1");
    let mut pages: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    pages.sort();
    let mut expected: Vec<String> = commands().iter().map(|name| format!("prony-{name}.1")).collect();
    expected.push("prony.1".to_owned());
    expected
        .extend(["cut", "images", "mount", "replay", "sync", "unmount"].map(|name| format!("prony-powercut-{name}.1")));
    expected.sort();
    assert_eq!(pages, expected);
    let mut renders = true;
    for page in pages {
        let source = fs::read_to_string(folder.join(&page)).unwrap();
        assert!(source.lines().any(|line| line.starts_with(".TH prony")), "{page}: {source}");
        for section in [".SH \"EXIT STATUS\"", ".SH EXAMPLES"] {
            assert!(source.lines().any(|line| line == section), "{page} has no `{section}`: {source}");
        }
        assert!(!source.contains(".SH EXTRA"), "{page}: {source}");
        let name = page.trim_end_matches(".1");
        let Some(output) = renders.then(|| rendered(&folder.join(&page))).flatten() else {
            renders = false;
            continue;
        };
        assert!(output.status.success() && output.stderr.is_empty(), "{page}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(name), "{page}: {}", text(&output.stdout));
    }
}

#[test]
fn manual_pages_that_cannot_be_written_are_an_error() {
    let bench = Bench::new();
    bench.write("file", "");
    let output = bench.prony(&["man", "file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).starts_with("error: cannot write the manual pages in `file`"),
        "{}",
        text(&output.stderr)
    );
}
