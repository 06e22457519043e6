//! Tests that the book (`docs/`) and the README are right: what they tell the reader to type works, links lead somewhere, and
//! every page is in the table of contents.
//!
//! The words after the language of a fenced block say what the test does with it. Markdown shows none of them.
//!
//! | block | what the test does |
//! |---|---|
//! | `sh` | runs it in the page's scratch folder, with this build's `prony` first in PATH |
//! | `sh exit=1` | the same; its last command must end with this code instead of 0 |
//! | `sh exit=0,2` | the same with several codes, where the machine decides: no gate can be judged while trials disturb one another |
//! | `sh needs=node,memory-limits` | the same; skips the rest of the page where a program, or a capability of `prony doctor`, is missing |
//! | `sh by-hand` | does not run it, and counts it: it needs a network or another machine, takes long, or ends by hand |
//! | any with `file=NAME` | writes it to that file before it goes on |
//! | `text output` | its lines without digits must be in what the last command block printed |
//! | `toml` | every key must be one of the experiment file; `toml other` is another kind of file |

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use clap::error::ErrorKind;
use prony::cli::definitions;

use crate::bench::PRONY;
use crate::command_page::commands;

/// How many command blocks are not run: whoever marks one raises it, and runs the block by hand.
const BY_HAND: usize = 28;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The Markdown files of the book, its table of contents left out, in the order of their names.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|e| e.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("md") if !path.ends_with("SUMMARY.md") => pages.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    pages
}

/// A page's name, as messages give it.
fn name(page: &Path) -> String {
    page.strip_prefix(root()).unwrap_or(page).display().to_string()
}

/// A fenced block.
struct Block {
    line: usize,
    /// The language, and the words behind it.
    info: Vec<String>,
    text: String,
}

impl Block {
    fn is(&self, language: &str) -> bool {
        self.info.first().is_some_and(|word| word == language)
    }

    fn has(&self, word: &str) -> bool {
        self.info.iter().skip(1).any(|other| other == word)
    }

    /// The value of `key=value`.
    fn value(&self, key: &str) -> Option<&str> {
        self.info.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

/// The fenced blocks of a text, and its other lines with their numbers.
fn parts(text: &str) -> (Vec<Block>, Vec<(usize, &str)>) {
    let (mut blocks, mut prose): (Vec<Block>, Vec<(usize, &str)>) = (Vec::new(), Vec::new());
    let mut inside: Option<(Block, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut inside, fence) {
            (Some(_), Some(_)) => blocks.extend(inside.take().map(|(block, _)| block)),
            (Some((block, indent)), None) => {
                block.text.push_str(line.get(*indent..).unwrap_or_default());
                block.text.push('\n');
            }
            (None, Some(info)) => {
                let info = info.split_whitespace().map(str::to_owned).collect();
                let indent = line.len() - line.trim_start().len();
                inside = Some((Block { line: at + 1, info, text: String::new() }, indent));
            }
            (None, None) => prose.push((at + 1, line)),
        }
    }
    assert!(inside.is_none(), "a block has no end");
    (blocks, prose)
}

fn read(page: &Path) -> String {
    fs::read_to_string(page).unwrap()
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    for page in pages() {
        let path = page.strip_prefix(root().join("docs")).unwrap().display().to_string();
        assert_eq!(summary.matches(&format!("]({path})")).count(), 1, "`{path}` in docs/SUMMARY.md");
    }
}

#[test]
fn every_block_of_the_book_names_its_language() {
    const KNOWN: [&str; 10] = ["sh", "toml", "text", "json", "python", "js", "lua", "rust", "yaml", "diff"];
    for page in pages().into_iter().chain([root().join("README.md")]) {
        for block in parts(&read(&page)).0 {
            let known = KNOWN.iter().any(|language| block.is(language));
            assert!(known, "{}:{}: the language of a block is one of {KNOWN:?}", name(&page), block.line);
        }
    }
}

/// The targets of the links and images in a line.
fn targets(line: &str) -> Vec<&str> {
    // Parts in backticks are code.
    let mut inside = false;
    let mut code = Vec::new();
    for (at, c) in line.char_indices() {
        inside ^= c == '`';
        if inside {
            code.push(at);
        }
    }
    let links = line.match_indices("](").filter(|(at, _)| code.binary_search(at).is_err());
    links.filter_map(|(at, _)| line[at + 2..].split_once(')').map(|(target, _)| target)).collect()
}

/// The anchors of a page's headings, as mdBook and Git forges make them.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in parts(text).1 {
        let Some(heading) = line.strip_prefix('#') else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let characters = heading.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        let anchor: String = characters.collect();
        let earlier = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if earlier == 0 { anchor } else { format!("{anchor}-{earlier}") });
    }
    anchors
}

/// What is wrong with the links of a page.
fn broken_links(page: &Path) -> Vec<String> {
    let text = read(page);
    let folder = page.parent().unwrap();
    let mut broken = Vec::new();
    for (number, line) in parts(&text).1 {
        for target in targets(line).into_iter().filter(|target| !target.contains("://")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.to_owned() } else { folder.join(path) };
            let inside = !page.starts_with(root().join("docs"))
                || file.canonicalize().is_ok_and(|file| file.starts_with(root().join("docs")));
            let known = file.exists() && (anchor.is_empty() || anchors(&read(&file)).iter().any(|a| a == anchor));
            if !inside || !known {
                broken.push(format!("{}:{number}: `{target}`", name(page)));
            }
        }
    }
    broken
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let outside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/SUMMARY.md"].map(|path| root().join(path));
    let broken: Vec<String> = pages().iter().chain(&outside).flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "these lead nowhere, or from the book to a file outside of it:\n{}", broken.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    fs::write(&page, "# A `b` c\n\n[x](#a-b-c) [x](#no) `[x](no.md)` [x](page.md) ![x](no.svg)\n").unwrap();
    let broken: Vec<String> = broken_links(&page).iter().map(|text| text.replace(&name(&page), "page.md")).collect();
    assert_eq!(broken, ["page.md:3: `#no`", "page.md:3: `no.svg`"]);
}

/// Whether nothing is wrong but what is left out: text names a command or an option without all that it needs.
fn is_incomplete(error: &clap::Error) -> bool {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion, MissingRequiredArgument};
    let left_out = [DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion, MissingRequiredArgument];
    left_out.contains(&error.kind()) || error.to_string().contains("but none was supplied")
}

#[test]
fn commands_in_the_text_of_the_book_are_taken() {
    let (mut checked, mut faults) = (0, Vec::new());
    for page in pages().into_iter().chain([root().join("README.md")]) {
        for (number, line) in parts(&read(&page)).1 {
            // Every other part is between backticks. An ellipsis stands for words that are left out.
            let code =
                line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("prony ") && !code.contains(".. "));
            for words in code.filter(|code| !code.ends_with("...")).flat_map(commands) {
                checked += 1;
                if let Err(error) = definitions().try_get_matches_from(&words)
                    && !is_incomplete(&error)
                {
                    faults.push(format!("{}:{number}: `{}`: {error}", name(&page), words.join(" ")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 100, "{checked}");
}

#[test]
fn keys_in_the_book_are_those_of_the_experiment_file() {
    let mut checked = 0;
    for page in pages().into_iter().chain([root().join("README.md")]) {
        for block in parts(&read(&page)).0.into_iter().filter(|block| block.is("toml")) {
            checked += 1;
            if block.has("other") {
                continue;
            }
            let Err(problems) = prony_experiment::parse(&block.text, &name(&page)) else { continue };
            // Most blocks are parts of a file: what they leave out is no fault.
            let faults: Vec<String> = problems.iter().map(|p| format!("{p:?}")).collect();
            let faults: Vec<&String> = faults.iter().filter(|fault| fault.contains("nknown key")).collect();
            assert!(faults.is_empty(), "{}:{}: {faults:#?}", name(&page), block.line);
        }
    }
    assert!(checked > 20, "{checked}");
}

/// Whether something is there that a block needs: what `prony doctor` calls by this name (with hyphens for blanks), or a program.
fn is_there(need: &str) -> bool {
    static DOCTOR: OnceLock<serde_json::Value> = OnceLock::new();
    let doctor = DOCTOR.get_or_init(|| {
        let output = Command::new(PRONY).args(["doctor", "--json"]).current_dir(std::env::temp_dir()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    });
    let name = need.replace('-', " ");
    match doctor["capabilities"].as_array().unwrap().iter().find(|one| one["name"] == name.as_str()) {
        Some(capability) => capability["state"] == "yes",
        None => {
            let found = Command::new("sh").args(["-c", &format!("command -v {need}")]).stdout(Stdio::null()).status();
            found.is_ok_and(|status| status.success())
        }
    }
}

/// A line without what differs from run to run: widths of columns.
fn plain(line: &str) -> String {
    line.split(|c: char| c.is_whitespace() || c == '-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The lines of a shown output that the real output does not have. Lines with digits hold measured values.
fn not_printed<'a>(shown: &'a str, printed: &str) -> Vec<&'a str> {
    let printed: Vec<String> = printed.lines().map(plain).collect();
    let fixed = |line: &&str| !line.contains(|c: char| c.is_ascii_digit()) && line.trim() != "...";
    shown.lines().filter(fixed).filter(|line| !printed.iter().any(|other| other.contains(&plain(line)))).collect()
}

#[test]
fn shown_output_that_is_not_printed_is_found() {
    let printed = "x  y, ms\n--  -----\na  7.5\nall tables: `show`\n";
    assert!(not_printed("x   y, ms\n-   ---\nb 9\n...\n", printed).is_empty());
    assert_eq!(not_printed("x  z, ms\n", printed), ["x  z, ms"]);
}

/// What became of the command blocks of a page.
#[derive(Default)]
struct Done {
    run: usize,
    by_hand: Vec<String>,
    faults: Vec<String>,
}

/// Runs the command blocks of a page, in a folder of its own.
fn follow(page: &Path) -> Done {
    let mut done = Done::default();
    let scratch = tempfile::tempdir().unwrap();
    let (home, folder) = (scratch.path().join("home"), scratch.path().join("page"));
    [&home, &folder].iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let path = format!("{}:{}", Path::new(PRONY).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut printed = String::new();
    for block in parts(&read(page)).0 {
        let place = format!("{}:{}", name(page), block.line);
        if let Some(file) = block.value("file") {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, &block.text).unwrap();
        }
        if block.is("text") && block.has("output") {
            let missing = not_printed(&block.text, &printed);
            if !missing.is_empty() {
                done.faults.push(format!("{place}: shown and not printed: {missing:#?}\n{printed}"));
            }
        }
        if !block.is("sh") || block.value("file").is_some() {
            continue;
        }
        if block.has("by-hand") {
            done.by_hand.push(place);
            continue;
        }
        let missing = block.value("needs").into_iter().flat_map(|names| names.split(',')).find(|need| !is_there(need));
        if let Some(missing) = missing {
            assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{place}: `{missing}` is missing");
            println!("SKIPPED: {place} and the rest of its page: `{missing}` is not there");
            break;
        }
        let begun = Instant::now();
        let output = Command::new("timeout")
            .args(["300", "sh", "-eu", "-c", &block.text])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("HOME", &home)
            .env("PRONY_CACHE", home.join("cache"))
            .env("PRONY_RUNS", home.join("runs"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        println!("{place}: {:.1} s", begun.elapsed().as_secs_f64());
        printed =
            [output.stdout, output.stderr].iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        done.run += 1;
        let expected = block.value("exit").unwrap_or("0");
        if !expected.split(',').any(|code| output.status.code() == Some(code.parse().unwrap())) {
            done.faults.push(format!("{place}: {}, not {expected}:\n{}{printed}", output.status, block.text));
            break;
        }
    }
    done
}

#[test]
fn commands_that_do_not_work_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    let follow = |text: &str| {
        fs::write(&page, text).unwrap();
        follow(&page)
    };
    let done = follow("```sh\nfalse\n```\n");
    assert!(
        matches!(&done.faults[..], [fault] if fault.contains("page.md:1: exit status: 1, not 0")),
        "{:?}",
        done.faults
    );
    assert_eq!(follow("```sh exit=0,2\nexit 2\n```\n```sh exit=0,2\ntrue\n```\n").run, 2);
    let done = follow("```sh exit=0,2\nfalse\n```\n");
    assert!(matches!(&done.faults[..], [fault] if fault.contains("exit status: 1, not 0,2")), "{:?}", done.faults);
    let done = follow(
        "```text file=a/b\nx\n```\n```sh exit=3\ncat a/b; exit 3\n```\n```text output\nx\ny\n```\n```sh by-hand\nfalse\n```\n",
    );
    assert!(
        matches!(&done.faults[..], [fault] if fault.contains("\"y\"") && !fault.contains("\"x\"")),
        "{:?}",
        done.faults
    );
    assert_eq!((done.run, done.by_hand.len()), (1, 1));
    assert!(is_there("sh") && !is_there("no-such-program"));
}

#[test]
fn commands_of_the_book_work_as_written() {
    let pages: VecDeque<PathBuf> = pages().into_iter().chain([root().join("README.md")]).collect();
    let (pages, all) = (Mutex::new(pages), Mutex::new(Done::default()));
    std::thread::scope(|scope| {
        // Trials mostly wait, for the disk and for the machine to be quiet.
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(page) = { pages.lock().unwrap().pop_front() } {
                    let done = follow(&page);
                    let mut all = all.lock().unwrap();
                    all.run += done.run;
                    all.by_hand.extend(done.by_hand);
                    all.faults.extend(done.faults);
                }
            });
        }
    });
    let Done { run, by_hand, faults } = all.into_inner().unwrap();
    println!("{run} command blocks were run; {} are to be run by hand:\n{}", by_hand.len(), by_hand.join("\n"));
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert_eq!(by_hand.len(), BY_HAND, "blocks marked `by-hand`; `BY_HAND` says how many there may be");
}
