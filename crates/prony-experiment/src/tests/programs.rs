//! Tests of files that measure programs.

use super::*;
use prony_model::program::{
    AtEndSpec, Care, Change, CommandLine, CopyOf, DIR, InputSpec, ObserveSpec, OutputTo, ProgramSpec, Runtime, TMP,
    Trigger, Weak,
};
use prony_model::spec::{Action, PhaseSpec, Subject};

pub(super) fn programs(text: &str) -> Vec<ProgramSpec> {
    let of = |subject: &Subject| subject.program().expect("every variant measures a program").clone();
    sound(text).variants().iter().map(|variant| of(&variant.spec.subject)).collect()
}

fn words(texts: &[&str]) -> CommandLine {
    CommandLine::Words(texts.iter().map(|text| (*text).to_owned()).collect())
}

pub(super) fn observe(phase: &PhaseSpec) -> &ObserveSpec {
    let Action::Observe(observe) = &phase.action else { panic!("{:?}", phase.action) };
    observe
}

#[test]
fn the_least_program_is_measured_as_a_whole() {
    let experiment = sound("[program.x]\ncommand = \"true\"\n");
    let spec = &experiment.variants()[0].spec;
    let program = spec.subject.program().unwrap();
    assert_eq!((program.name.as_str(), &program.command), ("x", &words(&["true"])));
    assert_eq!(
        (program.copy, &program.input, &program.output),
        (CopyOf::Variant, &InputSpec::Null, &OutputTo::Capture)
    );
    assert_eq!((program.success.as_slice(), program.directory.as_ref()), ([0].as_slice(), None));
    assert_eq!((spec.phases.len(), spec.phases[0].name.as_str()), (1, "run"));
    assert_eq!(observe(&spec.phases[0]), &ObserveSpec::WHOLE);
    assert_eq!(experiment.compare().primary.as_ref().unwrap().to_string(), "run.time");
    assert_eq!(experiment.observe().care, Care::Full);
}

/// Every key of a program.
pub(super) const GATSBY: &str = r#"
[factors]
documents = [10, 20]
[factors.code]
as-is = {}
other = { env = { MODE = "fast", N = 3 }, replace = { file = "a.js", find = "{x}", with = "", count = 2 }, patch = "p.diff" }
[observe]
care = "light"
profile = "cpu"
[program.gatsby]
command = ["node", "--max-old-space-size={documents}", "a b", "{documents}", 0.5]
directory = "site"
copy = "trial"
env = { NUM_PAGES = "{documents}", MODE = "slow", ON = true }
inherit = ["NODE_PATH"]
input = { text = "{{}} {documents}" }
runtime = "node"
success = [0, 3]
build = ["npm", "run", "build"]
prepare = "sync; true"
warmup = 2
change = "{code}"
[[phase]]
name = "source nodes"
begin = { line = '^source \d{3}$' }
end = { line = '^done' }
read = '(?<time>[\d.]+)s - (?<operations>\d+)'
then = "stop"
limit = "3 s"
[[phase]]
name = "marked"
[[phase]]
name = "reported"
read = '(?<heap_used_mb>\d+) MB'
[[phase]]
name = "numbered"
end = { mark = "done {documents}" }
"#;

#[test]
fn every_key_of_a_program_is_read() {
    let raw = parse(GATSBY, "some/where/test.toml").unwrap();
    let experiment = check(&raw, &Engines, &Overrides::default()).unwrap_or_else(|p| panic!("{}", listing(&p)));
    assert_eq!(experiment.variants().len(), 4);
    let spec = &experiment.variants()[3].spec;
    let program = spec.subject.program().unwrap();
    assert_eq!(program.command, words(&["node", "--max-old-space-size=20", "a b", "20", "0.5"]));
    assert_eq!(program.directory.as_deref(), Some("some/where/site"), "paths start at the file");
    let env: Vec<(&str, &str)> = program.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env, [("MODE", "fast"), ("N", "3"), ("NUM_PAGES", "20"), ("ON", "true")]);
    assert_eq!(program.input, InputSpec::Text("{} 20".into()));
    assert_eq!((program.runtime, program.copy, program.warmup), (Some(Runtime::Node), CopyOf::Trial, 2));
    assert_eq!(
        (program.success.as_slice(), program.inherit.as_slice()),
        ([0, 3].as_slice(), ["NODE_PATH".to_owned()].as_slice())
    );
    let shell = CommandLine::Shell { shell: "sh".into(), script: "sync; true".into() };
    assert_eq!((&program.build, &program.prepare), (&Some(words(&["npm", "run", "build"])), &Some(shell)));
    let replace = Change::Replace { file: "a.js".into(), find: "{x}".into(), with: String::new(), count: 2 };
    assert_eq!(program.changes, [replace, Change::Patch { file: "some/where/p.diff".into() }]);
    let first = observe(&spec.phases[0]);
    assert_eq!(first.begin, Some(Trigger::Line(r"^source \d{3}$".into())), "braces of patterns are no placeholders");
    assert_eq!((&first.end, first.stop), (&Some(Trigger::Line("^done".into())), true));
    assert_eq!(observe(&spec.phases[3]).end, Some(Trigger::Mark("done 20".into())));
    assert_eq!(spec.phases[0].limit, Some(prony_model::units::Nanos::from_secs(3)));
    let marked = Some(Trigger::Mark("marked".into()));
    assert_eq!((&observe(&spec.phases[1]).begin, &observe(&spec.phases[1]).end), (&marked, &marked));
    assert_eq!((&observe(&spec.phases[2]).begin, &observe(&spec.phases[2]).end), (&None, &None));
    let json = serde_json::to_string(&experiment).unwrap();
    assert_eq!(serde_json::from_str::<Experiment>(&json).unwrap(), experiment);
}

#[test]
fn commands_are_words_or_a_shells_text() {
    let command = |text: &str| programs(&format!("[program.x]\n{text}\n"))[0].command.clone();
    assert_eq!(command("command = \"node 'a b' -x\""), words(&["node", "a b", "-x"]));
    assert_eq!(command(r#"command = 'a\ b "c \"d\" $e" "" # f'"#), words(&["a b", "c \"d\" $e", ""]));
    let shell = |shell: &str| CommandLine::Shell { shell: shell.into(), script: "a | b".into() };
    assert_eq!(command("command = \"a | b\"\nshell = true"), shell("sh"));
    assert_eq!(command("command = \"a | b\"\nshell = \"bash\""), shell("bash"));
    assert_eq!(shell("sh").words(), ["sh", "-c", "a | b"]);
}

/// A program, another, and a bare store as levels of one factor.
pub(super) const MIXED: &str = r#"
[factors.subject]
heap = { program = "site", change = { env = { STORE = "heap" } } }
lmdb = { program = "site", change = { env = { STORE = "lmdb" } } }
other = "old"
bare = { store = { engine = "lmdb" } }
[subject]
use = "{subject}"
[compare]
baseline = { subject = "heap" }
[program.site]
command = ["node", "build.js"]
[program.old]
command = "./old"
[store]
durability = "strict"
[data]
records = 100
[[phase]]
name = "source"
mark = "source"
put = {}
[[phase]]
name = "check"
verify = {}
"#;

#[test]
fn programs_and_stores_are_levels_of_one_factor() {
    let experiment = sound(MIXED);
    let names = |at: usize| -> Vec<&str> {
        experiment.variants()[at].spec.phases.iter().map(|phase| phase.name.as_str()).collect()
    };
    assert_eq!((names(0), names(2), names(3)), (vec!["source"], vec!["source"], vec!["source", "check"]));
    let program = |at: usize| experiment.variants()[at].spec.subject.program().unwrap();
    assert_eq!((program(1).env["STORE"].as_str(), program(2).name.as_str()), ("lmdb", "old"));
    let store = experiment.variants()[3].spec.subject.store().unwrap();
    assert_eq!((store.engine.as_str(), store.durability), ("lmdb", Some(Durability::Strict)));
    assert_eq!(experiment.compare().primary.as_ref().unwrap().to_string(), "source.time");
}

#[test]
fn faults_of_programs_are_named() {
    let text = r#"
[factors]
which = ["x", "z"]
[subject]
program = "{which}"
[program.x]
comand = "true"
command = "node"
change = { replace = { file = "a", find = "b" } }
[program.z]
command = []
runtime = "perl"
[[phase]]
name = "a"
begin = { line = "(" }
mark = "m"
read = '(\d+)'
then = "stop"
[[phase]]
name = "b"
read = '(?<tiem>\d+)'
[[phase]]
name = "c"
begin = { mark = "x", line = "y" }
"#;
    insta::assert_snapshot!(faults(text), @r#"
    7:1 unknown key `comand` | did you mean `command`?
    9:22 `replace` needs the key `with` | text that replaces what was found
    12:11 `runtime` cannot be `perl` | known: `node`, `python` (programs of other languages need no `runtime`)
    15:18 this is not a valid pattern: unclosed group | `\` before a character matches it literally; write the pattern in '...' so that TOML keeps the `\`
    16:1 `mark` sets begin and end of the phase, so `begin` and `end` cannot be set too | write `begin = { mark = "NAME" }`
    17:8 the pattern has no named group, so nothing is read | name a group after the metric that is read: `(?<time>[0-9.]+)s`
    21:8 the group `tiem` names no metric | name the group after a metric, with underscores, then a unit: `time_ms`, `operations`, `heap_used_mb`; or `digest`
    24:11 `begin` takes one of `line` and `mark`, not both
    "#);
}

#[test]
fn a_function_is_a_phase() {
    let text = r#"
[program.x]
command = "node a.js"
runtime = "node"
[[phase]]
name = "source nodes"
call = "gatsby/dist/utils/source-nodes.js#default"
at_end = { collect = true, wait = "5 s" }
then = "stop"
[[phase]]
name = "rest"
call = "lib.js#Store.prototype.put"
at_end = { collect = true, weak = "clear", settle = { quiet = "1 s" } }
[[phase]]
name = "plain"
call = "lodash#debounce"
"#;
    let experiment = sound(text);
    let phases = &experiment.variants()[0].spec.phases;
    let first = observe(&phases[0]);
    assert_eq!((first.call(), first.suspends()), (Some("gatsby/dist/utils/source-nodes.js#default"), true));
    let wait = Some(prony_model::units::Nanos::from_secs(5));
    assert_eq!(first.at_end, Some(AtEndSpec { collect: true, weak: Weak::Clear, wait, settle: None }));
    let second = observe(&phases[1]).at_end.as_ref().unwrap();
    let settle = second.settle.unwrap();
    assert_eq!((second.collect, second.weak), (true, Weak::Clear));
    assert_eq!(
        (settle.quiet, settle.within),
        (prony_model::units::Nanos::from_secs(1), prony_model::units::Nanos::from_secs(600))
    );
    assert_eq!((observe(&phases[2]).suspends(), observe(&phases[2]).stop), (false, false));
    assert_eq!(experiment.compare().primary.as_ref().unwrap().to_string(), "source nodes.time");
}

#[test]
fn faults_of_functions_are_named() {
    let phases = r#"
[[phase]]
name = "a"
call = "lib.js"
[[phase]]
name = "b"
call = "pkg.mod:f"
begin = { line = "x" }
[[phase]]
name = "c"
begin = { line = "x" }
at_end = { collect = true }
[[phase]]
name = "d"
call = "lib.js#f"
at_end = { wait = "1 s", settle = {}, weak = "clear" }
"#;
    let of = |runtime: &str, phases: &str| faults(&format!("[program.x]\ncommand = \"x\"\n{runtime}{phases}"));
    let one = "\n[[phase]]\nname = \"a\"\ncall = \"lib.js#f\"\n";
    let said = [of("runtime = \"node\"", phases), of("runtime = \"python\"", one), of("", one)];
    insta::assert_snapshot!(said.join("\n--\n"), @r#"
    6:8 `lib.js` is not the name of a function in the runtime `node` | write `FILE#EXPORT`; full stops separate nested names
    9:1 `call` sets begin and end of the phase, so `begin` cannot be set too | write `begin = { call = "..." }` and an `end`, or make two phases
    9:8 `pkg.mod:f` is not the name of a function in the runtime `node` | write `FILE#EXPORT`; full stops separate nested names
    14:1 `at_end` needs a `call`, at whose end it suspends the program | add `call = "FILE#EXPORT"` to the phase, or remove `at_end`
    18:12 `wait` and `settle` exclude each other | remove one of the two keys
    18:39 `weak` applies to a forced garbage collection, but none is forced | add `collect = true`, or remove `weak`
    --
    6:8 `lib.js#f` is not the name of a function in the runtime `python` | write `PACKAGE.MODULE:FUNCTION`; full stops separate nested names
    --
    6:8 the function `lib.js#f` cannot be timed: the program names no `runtime` | add `runtime = "node"` or `runtime = "python"` to the program
    "#);
}

#[test]
fn a_subject_must_be_clear() {
    let two = "[program.x]\ncommand = \"a\"\n[program.y]\ncommand = \"b\"\n";
    let phases = "[[phase]]\nname = \"write\"\nput = {}\n";
    let said = [
        faults(two),
        faults(&format!("{two}[subject]\nprogram = \"z\"\n")),
        faults(&format!("{two}[subject]\n")),
        faults(&format!("{two}[subject]\nprogram = \"x\"\nstore = {{ engine = \"lmdb\" }}\n")),
        faults(&format!("[program.x]\ncommand = \"a\"\n{phases}")),
        faults("[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"w\"\nbegin = { mark = \"x\" }\n"),
    ];
    insta::assert_snapshot!(said.join("\n--\n"), @r#"
    1:1 the file has several stores or programs, but does not say which one a variant measures | add `[subject] use = "{subject}"` and a factor `subject` with levels such as `{ program = "NAME" }`
    --
    6:11 unknown program `z` | known: `x`, `y`
    --
    5:1 `[subject]` names neither a program nor a store | write `program = "NAME"` or `store = { engine = "..." }`
    --
    6:1 a variant measures a program or a store, not both
    --
    5:1 `put` works on a store, but the file measures a program | give the phase of a program `begin` and `end`, or marks with its name
    --
    3:1 `phase` needs one of `put`, `get`, `update`, `delete`, `scan`, `compute`, `mix`, `find`, `commit`, `persist`, `close`, `reopen`, `evict`, `settle`, `verify`, `pause`, `http`, `run`, `kill`, `powercut`
    5:1 unknown key `begin` | known: `name`, `when`, `timed`, `limit`, `put`, `get`, `update`, `delete`, `scan`, `compute`, `mix`, `find`, `commit`, `persist`, `close`, `reopen`, `evict`, `settle`, `verify`, `pause` and 5 more
    "#);
}

#[test]
fn what_cannot_run_is_named() {
    let of = |body: &str| faults(&format!("[program.x]\n{body}\n"));
    assert_eq!(
        of("command = \"a 'b\""),
        "2:11 `command` ends inside a quote | close the quote, or write the command as a list"
    );
    assert_eq!(
        of("command = []"),
        "2:11 `command` is empty | write program and arguments, such as `[\"node\", \"build.js\"]`"
    );
    assert_eq!(of("command = \" \""), "2:11 `command` is empty | name a program");
    assert_eq!(
        of("command = [\"a\"]\nshell = true"),
        "2:11 with `shell`, `command` must be one text, not a list | write `command` as one text"
    );
    assert_eq!(
        of("command = \"a\"\nshell = 3"),
        "3:9 `shell` cannot be `3` | write `true`, `false`, or the shell's name"
    );
    let env = of("command = \"a\"\nenv = { \"A=B\" = 1, PRONY_MARKS = 2 }");
    assert!(env.contains("3:9 `A=B` is not a valid name of a variable"), "{env}");
    assert!(env.contains("3:20 the variable `PRONY_MARKS` is set by prony"), "{env}");
    let env = of("command = \"a\"\nenv = { \"\" = 1 }\ninherit = [\"A\", \"B=\"]\nchange = { env = { TMPDIR = 1 } }");
    for at in
        ["3:9 `` is not a valid name", "4:17 `B=` is not a valid name", "5:20 the variable `TMPDIR` is set by prony"]
    {
        assert!(env.contains(at), "{at}: {env}");
    }
    let change = of("command = \"a\"\nchange = { patch = \"p\" }");
    assert!(change.contains("program `x` has no copy that could be changed"), "{change}");
    for (line, key) in [("build = \"make\"", "build"), ("copy = \"trial\"", "copy"), ("links = \"copy\"", "links")] {
        let said = of(&format!("command = \"a\"\n{line}"));
        assert!(said.contains(&format!("has no `directory`, so that `{key}` has no effect")), "{said}");
    }
    // `{ file = "o.txt" }`, which was meant, was in no hint.
    let output = of("command = \"a\"\noutput = \"o.txt\"");
    let known = "known: `capture`, `null`, `inherit`, `{ file = \"answers.txt\" }`";
    assert_eq!(output, format!("3:10 `output` cannot be `o.txt` | {known}"));
    let success = of("command = \"a\"\nsuccess = \"0\"");
    assert_eq!(success, "3:11 `success` cannot be `0` | known: `any`, `[10]`");
    let pty = of("command = \"a\"\npty = true\noutput = \"null\"");
    assert!(pty.contains("`pty` works only with captured output"), "{pty}");
    let shared = of("command = \"a\"\noutput = { file = \"o\" }\nreplicas = { count = 2, phase = \"run\" }");
    assert!(shared.starts_with("3:1 program `x` and its replicas would write over each other's output"), "{shared}");
}

#[test]
fn program_without_a_name_is_one_fault_and_its_keys_are_checked() {
    let unnamed = "2:2 this program has no name; every program needs one | write `[program.NAME]`";
    for body in ["command = \"a\"\nenv = { A = 1 }", "directory = \".\"\ncommand = [\"a\"]\n[program.env]\nA = 1"] {
        assert_eq!(faults(&format!("\n[program]\n{body}\n")), unnamed, "{body}");
    }
    let said = faults("\n[program]\ncomand = \"a\"\nshell = true\n");
    assert!(said.starts_with(unnamed) && said.contains("3:1 unknown key `comand`"), "{said}");
    assert_eq!(faults("[program.command]\ncommand = \"a\"\n[[phase]]\nname = \"run\"\ntimed = 3\n").lines().count(), 1);
    assert_eq!(words(&["a"]), programs("[program.command]\ncommand = \"a\"\n")[0].command);
    let level = programs("[factors.n]\nx = { command = \"a\" }\n[program]\nbuild = \"{n}\"\n").remove(0);
    assert_eq!((level.name.as_str(), level.command), ("build", words(&["a"])));
}

#[test]
fn file_beside_an_experiment_is_missed_by_a_program_in_an_empty_directory() {
    let said = |body: &str| {
        let experiment =
            sound(&format!("[factors]\nn = [\"a.py\", \"main.py\"]\n[program.x]\n{body}\nenv = {{ N = \"{{n}}\" }}\n"));
        let warnings = crate::warnings(&experiment, &|word| word == "main.py");
        warnings
            .iter()
            .map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.message))
            .collect::<Vec<_>>()
    };
    let warning = ["4:11 `main.py` is in the folder of this file, but the program runs in an empty directory"];
    for command in ["[\"python3\", \"main.py\"]", "\"python3 '{n}'\"", "\"python3 main.py > f\"\nshell = true"] {
        assert_eq!(said(&format!("command = {command}")), warning, "{command}");
        for made in ["directory = \".\"", "prepare = \"make\""] {
            assert_eq!(said(&format!("command = {command}\n{made}")), [""; 0], "{made}");
        }
    }
    assert_eq!(said("command = \"python3 /main.py other.py\""), [""; 0]);
}

pub(super) const SITE: &str = "[program.x]\ncommand = \"a\"\ndirectory = \"site\"\nchange = \"{code}\"\n";

#[test]
fn programs_get_their_directory_and_variables() {
    let text = "[program.x]\ncommand = [\"a\", \"--in={dir}/x\", \"{{dir}}\"]\ndirectory = \"{env.PLACE}\"\n\
                env = { TOKEN = \"<{env.TOKEN}>\" }\n";
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = [pair("PLACE", "site"), pair("TOKEN", "a{b}"), pair("OTHER", "secret")].into();
    let raw = crate::parse(text, "x.toml").unwrap();
    let overrides = Overrides { variables, ..Overrides::default() };
    let experiment = crate::check(&raw, &Engines, &overrides).unwrap();
    let program = experiment.variants()[0].spec.subject.program().unwrap();
    assert_eq!(program.command, words(&["a", &format!("--in={DIR}/x"), "{dir}"]));
    assert_eq!((program.directory.as_deref(), program.env["TOKEN"].as_str()), (Some("site"), "<a{b}>"));
    assert!(!serde_json::to_string(&experiment).unwrap().contains("secret"));
    let unset = faults(text);
    assert!(
        unset.contains(
            "3:14 the environment variable `PLACE` is not set | set the variable for prony: `PLACE=... prony ...`"
        ),
        "{unset}"
    );
    for hole in ["{dir}", "{tmp}"] {
        let elsewhere = faults(&format!("[program.x]\ncommand = \"a\"\ndirectory = \"{hole}\"\n"));
        assert!(elsewhere.contains(&format!("`{hole}` has no meaning here")), "{elsewhere}");
    }
}

#[test]
fn a_program_may_say_where_its_data_lie() {
    let store = |keys: &str| {
        programs(&format!("[factors]\nn = [3]\n[program.x]\ncommand = \"a {{n}}\"\n{keys}"))[0].store.clone()
    };
    assert_eq!(store(""), None);
    assert_eq!(store("store = \"{dir}/data-{n}\"\n"), Some(format!("{DIR}/data-3")));
    assert_eq!(store("store = \"{tmp}/data-{n}\"\n"), Some(format!("{TMP}/data-3")));
    assert_eq!(store("store = \"data\"\n"), Some("data".to_owned()));
    let said = faults("[program.x]\ncommand = \"a\"\nstore = \"\"\n");
    assert_eq!(
        said,
        "3:1 `store` is empty and names no file or directory | write where the program keeps its data, as `store = \"{dir}/data\"`"
    );
    let json = serde_json::to_value(&programs("[program.x]\ncommand = \"a\"\nstore = \"data\"\n")[0]).unwrap();
    let mut before = json.clone();
    before.as_object_mut().unwrap().remove("store");
    let old: ProgramSpec = serde_json::from_value(before).unwrap();
    assert_eq!(old.store, None, "runs from before the key are read");
}

#[test]
fn figures_of_a_runtime_may_be_those_of_a_role() {
    let of = |runtime: &str, metric: &str| {
        let body = format!("[program.x]\ncommand = \"a\"\n{runtime}[compare]\nmetric = \"run.{metric}\"\n");
        faults(&body)
    };
    assert_eq!(of("runtime = \"node\"\n", "main.heap.used"), "no faults");
    let unknown = of("runtime = \"node\"\n", "mian.heap.used");
    assert!(
        unknown.contains("no instance `mian` | instances of a program with a `runtime`: `main`, `child`"),
        "{unknown}"
    );
    assert!(of("", "main.heap.used").contains("names the instance `main`"));
}
