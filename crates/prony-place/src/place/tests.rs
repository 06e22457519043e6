//! Tests of how a place is made and prepared.

use prony_model::event::Log;
use prony_model::program::InputSpec;
use prony_model::units::Bytes;
use prony_os::cache::resident;
use prony_os::launch::Launcher;
use prony_os::mount;

use super::*;
use crate::tests::program;

/// A user's repository, beside which copies are made.
struct Repository {
    top: tempfile::TempDir,
}

impl Repository {
    /// `None` where there is no git.
    fn new() -> Option<Self> {
        if std::process::Command::new("git").arg("--version").output().is_err() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "`git` is missing");
            return None;
        }
        let repository = Self { top: tempfile::tempdir().unwrap() };
        std::fs::create_dir(repository.path("repo")).unwrap();
        repository.git(&["init", "--quiet"]);
        Some(repository)
    }

    /// A path beside the repository, or in it: `repo/n`.
    fn path(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.top.path()).unwrap().join(name)
    }

    fn git(&self, args: &[&str]) {
        let who = ["-c", "user.name=n", "-c", "user.email=n@e", "-c", "commit.gpgsign=false"];
        revision::git(&self.path("repo"), &[&who[..], args].concat()).unwrap();
    }

    /// Commits all files, and one with this text.
    fn commit(&self, file: &str, text: &str) {
        let path = self.path("repo").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "-m", text]);
    }

    /// A program with the repository as its directory.
    fn program(&self, lines: &str) -> ProgramSpec {
        program(&format!("[program.p]\ndirectory = {:?}\n{lines}", self.path("repo")))
    }

    fn place(&self, program: &ProgramSpec, sources: &Sources) -> Place {
        let (launcher, interrupt) = (Launcher::this_program(["supervise"]), Interrupt::default());
        let means = Means { launcher: &launcher, near: &self.path("repo"), interrupt: &interrupt };
        Place::make(means, program, sources, &mut Log::default()).unwrap()
    }
}

/// Reads of what prony, `prepare` or an earlier trial had read or written were free: the limit did not count those pages.
#[test]
fn memory_limit_finds_no_page_of_the_program_in_memory() {
    let top = tempfile::tempdir().unwrap();
    let (scratch, input) = (top.path().join("scratch"), top.path().join("input"));
    std::fs::create_dir_all(own_copy(&scratch)).unwrap();
    for file in [&input, &own_copy(&scratch).join("data")] {
        std::fs::write(file, vec![7; 200_000]).unwrap();
    }
    let mut program = program("[program.p]\ncommand = \"cat\"\n");
    program.input = InputSpec::File(input.display().to_string());
    let setting = Setting::new(&program, &scratch, own_copy(&scratch));
    let (launcher, interrupt) = (Launcher::this_program(["supervise"]), Interrupt::default());
    let means = Means { launcher: &launcher, near: top.path(), interrupt: &interrupt };
    let cached = |memory| {
        let limits = Limits { memory, ..Limits::default() };
        Place::default().prepare(means, &setting, &limits, &mut || false, &mut Log::default()).unwrap();
        [&input, &own_copy(&scratch)].map(|path| resident(path).measured().unwrap().cached)
    };
    assert!(cached(None).iter().all(|pages| *pages > 0));
    if !mount::of(top.path()).measured().unwrap().is_in_memory() {
        assert_eq!(cached(Some(Bytes::from_mib(64))), [0, 0]);
    }
}

/// `rm -rf {dir}/output` removed a folder of the user whose name is the first part of one with a blank.
#[test]
fn no_step_is_executed_in_a_folder_whose_name_a_shell_would_misread() {
    let top = tempfile::tempdir().unwrap();
    let (my, near) = (top.path().join("my"), top.path().join("my bench"));
    std::fs::create_dir_all(near.join("site")).unwrap();
    std::fs::create_dir(&my).unwrap();
    let (launcher, interrupt) = (Launcher::this_program(["supervise"]), Interrupt::default());
    let means = Means { launcher: &launcher, near: &near, interrupt: &interrupt };
    for step in ["build", "prepare", "conclude", "cleanup"] {
        let text = format!("[program.p]\ncommand = \"true\"\ndirectory = \".\"\n{step} = \"rm -rf {{dir}}/output\"\n");
        let mut program = program(&text);
        let scratch = near.join("scratch");
        let setting = Setting::new(&program, &scratch, near.join("site"));
        assert!(matches!(setting.launch(), Err(Error::Refused { .. })), "{step}");
        program.directory = Some(near.join("site").display().to_string());
        let place = Place::make(means, &program, &Sources::new(&[]), &mut Log::default()).unwrap();
        let line = program.lines().nth(1).unwrap();
        let done = place.beside(means, &program, |setting| step_until(means, setting, ("step", line), &mut || false));
        assert!(matches!(done, Err(Error::Refused { .. })), "{step}: {done:?}");
        assert!(my.is_dir());
    }
}

/// A commit during the first build paired another base with another head, both of them wrong.
#[test]
fn revision_is_the_commit_that_it_was_when_the_run_began() {
    let Some(repository) = Repository::new() else { return };
    repository.commit("n", "one");
    let program = repository.program("command = \"true\"\nchange = { revision = \"HEAD\" }\n");
    let sources = Sources::new(&[]);
    sources.survey(&program).unwrap();
    repository.commit("n", "two");
    let place = repository.place(&program, &sources);
    assert_eq!(std::fs::read_to_string(place.directory.as_ref().unwrap().join("n")).unwrap(), "one");
    let later = repository.place(&program, &Sources::new(&[]));
    assert_eq!(std::fs::read_to_string(later.directory.as_ref().unwrap().join("n")).unwrap(), "two");
}

/// Every revision ran the file of the working tree, without a word.
#[test]
fn command_that_names_a_file_of_the_users_directory_is_refused_or_a_finding() {
    let Some(repository) = Repository::new() else { return };
    repository.commit("lib/tool", "same");
    repository.commit("prog", "one");
    let copied = repository.path("repo/prog");
    std::fs::write(repository.path("repo/built"), "of the user").unwrap();
    let [repo, outside] = ["repo", "outside"].map(|name| repository.path(name).display().to_string());
    let revised = |lines: &str| repository.program(&format!("{lines}change = {{ revision = \"HEAD\" }}\n"));
    let found = |program: &ProgramSpec| {
        let mut place = repository.place(program, &Sources::new(&[]));
        std::fs::write(place.top().unwrap().0.join("built"), "by the build").unwrap();
        place.miss_originals(program, true);
        place.findings.iter().any(|finding| finding.guard == "names_the_original")
    };
    let executed = revised(&format!("command = [\"{repo}/prog\"]\n"));
    assert!(change::lacking(&executed).is_empty() && !found(&executed), "it is the same file");
    std::fs::write(copied, "two").unwrap();
    std::fs::write(repository.path("repo/lib/data"), "in no commit").unwrap();
    let refused = change::lacking(&executed);
    assert_eq!(refused.iter().map(|lack| (lack.section, lack.key)).collect::<Vec<_>>(), [("program", "command")]);
    for (lines, is_found) in [
        ("command = [\"sh\", \"REPO/prog\"]\n", true),
        ("command = [\"sh\", \"-c\", \"cd REPO && sh prog\"]\n", true),
        ("command = [\"sh\", \"-c\", \"$ROOT/prog\"]\nenv = { ROOT = \"REPO\" }\n", true),
        ("command = [\"cc\", \"-IREPO/lib:REPO/prog\"]\n", true),
        ("command = [\"sh\", \"REPO/built\"]\n", true),
        ("command = [\"/bin/sh\", \"prog\", \"./prog\", \"{dir}/prog\"]\n", false),
        ("command = [\"sh\", \"REPO/lib/data\", \"REPO/lib/tool\"]\nenv = { LIB = \"REPO/lib\" }\n", false),
        ("command = [\"sh\", \"REPO2/prog\", \"OUTSIDE\"]\nenv = { HOME = \"/\" }\n", false),
    ] {
        let program = revised(&lines.replace("OUTSIDE", &outside).replace("REPO", &repo));
        assert!(change::lacking(&program).is_empty(), "{lines}");
        assert_eq!(found(&program), is_found, "{lines}");
    }
    // A change of a copy of the directory itself.
    let replaced = |command: &str| {
        let change = "change = { replace = { file = \"prog\", find = \"two\", with = \"three\" } }\n";
        repository.program(&format!("command = [{command}]\n{change}"))
    };
    assert_eq!(change::lacking(&replaced(&format!("\"{repo}/prog\""))).len(), 1);
    for (command, is_found) in [(format!("\"sh\", \"{repo}/prog\""), true), ("\"sh\", \"prog\"".to_owned(), false)] {
        let program = replaced(&command);
        assert!(change::lacking(&program).is_empty(), "{command}");
        assert_eq!(found(&program), is_found, "{command}");
    }
}

/// Node climbed to the packages of the working tree, and those of a workspace are its own code: 20 ms and 400 ms were 110 and 122.
#[test]
fn revision_without_packages_below_those_of_the_working_tree_is_a_finding_where_they_differ() {
    let Some(repository) = Repository::new() else { return };
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(repository.path(name).parent().unwrap()).unwrap();
        std::fs::write(repository.path(name), text).unwrap();
    };
    write("repo/.gitignore", "node_modules\n");
    write("repo/package.json", r#"{ "version": "1", "dependencies": { "a": "1" } }"#);
    write("repo/package-lock.json", "{}");
    repository.commit("packages/core/index.js", "one");
    std::fs::create_dir_all(repository.path("repo/node_modules/@m")).unwrap();
    write("repo/node_modules/a/package.json", "{}");
    std::os::unix::fs::symlink("../../packages/core", repository.path("repo/node_modules/@m/core")).unwrap();
    let found = |command: &str, builds: bool| {
        let program = repository.program(&format!("command = {command}\nchange = {{ revision = \"HEAD\" }}\n"));
        let mut place = repository.place(&program, &Sources::new(&[]));
        if builds {
            std::fs::create_dir(place.top().unwrap().0.join("node_modules")).unwrap();
        }
        place.miss_packages(&program, true);
        let own = place.findings.iter().find(|finding| finding.guard == "packages_of_the_tree");
        own.map(|finding| finding.message.rsplit_once(" of the working tree: ").unwrap().1.to_owned())
    };
    let node = "[\"node\", \"packages/app/main.js\"]";
    assert_eq!(found(node, false), None, "what is installed is what the revision names");
    write("repo/package.json", r#"{ "version": "2", "dependencies": { "a": "1" } }"#);
    assert_eq!(found(node, false), None, "no package is another");
    let said = |name: &str| Some(format!("`{name}` there is not that of the revision"));
    for (file, named, text) in [
        ("package.json", "package.json", r#"{ "dependencies": { "a": "2" } }"#),
        ("package-lock.json", "package-lock.json", "{ }"),
        ("packages/core/index.js", "packages/core", "two"),
    ] {
        write(&format!("repo/{file}"), text);
        assert_eq!(found(node, false), said(named), "{file}");
    }
    assert_eq!(found("\"env A=1 npm start\"\nshell = true", false), said("packages/core"));
    assert_eq!(found(node, true), None);
    assert_eq!(found("[\"sh\", \"build.sh\"]", false), None);
}
