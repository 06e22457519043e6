//! Tests what levels become: in texts and patterns, by `--set` and `--only`, and in what names them.

use prony_model::catalog::Overrides;
use prony_model::program::{CommandLine, ProgramSpec, Trigger};
use prony_model::spec::Action;

use super::{Engines, faults, faults_with, sound, sound_with};
use crate::design::{Experiment, Variant};

fn set(factor: &str, levels: &[&str]) -> Overrides {
    let levels = levels.iter().map(|level| (*level).to_owned()).collect();
    Overrides { set: vec![(factor.to_owned(), levels)], ..Overrides::default() }
}

fn only(factor: &str, level: &str) -> Overrides {
    Overrides { only: vec![(factor.to_owned(), vec![level.to_owned()])], ..Overrides::default() }
}

fn programs(experiment: &Experiment) -> Vec<&ProgramSpec> {
    experiment.variants().iter().filter_map(|variant| variant.spec.subject.program()).collect()
}

fn commands(experiment: &Experiment) -> Vec<String> {
    let words = |program: &&ProgramSpec| program.command.words().join(" ");
    programs(experiment).iter().map(words).collect()
}

fn labels(experiment: &Experiment, factor: usize) -> Vec<&str> {
    experiment.factors()[factor].levels.iter().map(|level| level.label.as_str()).collect()
}

/// The second was dropped, as if the variant ran once more.
#[test]
fn level_that_an_option_names_twice_is_refused() {
    let file = "[factors]\nn = [1, 2]\n[program.x]\ncommand = \"run {n}\"\n";
    let fault = |overrides| faults_with(file, &overrides);
    let expected =
        "--set n: the level `1_000` is given twice | write each level once; `--blocks N` runs each variant N times";
    assert!(
        fault(set("n", &["1000", "3", "1_000"])).ends_with(expected),
        "{}",
        fault(set("n", &["1000", "3", "1_000"]))
    );
    assert!(
        fault(Overrides { set: Vec::new(), only: set("n", &["2", "2"]).set, ..Overrides::default() })
            .contains("--only n: the level `2`")
    );
}

/// The placeholder stayed in the text and became that of a record's or a request's number.
#[test]
fn placeholder_of_a_factor_in_a_level_is_refused_inside_a_text_too() {
    let file = |text: &str| {
        format!(
            "[factors]\nsize = [1, 2]\npath = [\"/a?n={{size}}\"]\n[program.x]\ncommand = \"get {text} {{size}}\"\n"
        )
    };
    let expected = "3:15 a level cannot hold the placeholder `{size}` of a factor | write the text out in each level";
    assert_eq!(faults(&file("http://h{path}")), expected);
    let own = file("http://h{path}").replace("{size}\"]", "{{size}}\"]");
    assert_eq!(commands(&sound(&own)), ["get http://h/a?n={size} 1", "get http://h/a?n={size} 2"]);
    let requests = "[factors]\nsize = [1, 2]\npath = [\"n={size}&i={i}\"]\n[[phase]]\nname = \"get\"\n\
                    http = { url = \"http://127.0.0.1:1\", path = \"/{size}?{path}\", requests = 1 }\n";
    assert!(
        faults(requests).contains("a level cannot hold the placeholder `{size}` of a factor"),
        "{}",
        faults(requests)
    );
}

/// A search or `--set` gives a level another name, under which no `when` finds it.
#[test]
fn level_with_another_setting_is_the_level_that_the_file_names() {
    let text = "[factors.chunk]\nsmall = { batch = 10 }\nlarge = { batch = 100 }\n[factors]\nn = [1]\n[design]\n\
                skip = [{ chunk = \"large\", n = 1 }]\n[compare]\nblocks = { default = 6, chunk.small = 3 }\n\
                [store]\nengine = \"lmdb\"\n[data]\nrecords = 10\nkey = \"k{i}{n}\"\n[[phase]]\nname = \"write\"\n\
                put = { transaction = { batch = \"{chunk.batch}\" } }\n[[phase]]\nname = \"read\"\nwhen = { chunk = \"small\" }\nget = {}\n\
                [[report.table]]\nselect = { chunk = \"small\" }\ncolumns = [\"write.time\"]\n";
    let experiment = sound_with(text, &set("chunk.batch", &["20"]));
    let [variant] = experiment.variants() else { panic!("{:?}", experiment.variants()) };
    let names: Vec<&str> = variant.spec.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!((names, variant.blocks.max), (vec!["write", "read"], 3));
    assert_eq!(experiment.tables()[0].select["chunk"], ["small batch=20"]);
    let grid = text.replace("skip = [{ chunk = \"large\", n = 1 }]", "[[design.grid]]\nchunk = \"small\"");
    let grid = sound_with(&grid.replace("[design]\n[[", "[["), &set("chunk.batch", &["20", "30", "10"]));
    assert_eq!(grid.variants().len(), 3);
}

#[test]
fn baseline_with_another_setting_is_the_baseline_or_is_refused() {
    let text = "[factors.chunk]\nsmall = { batch = 10 }\nlarge = { batch = 100 }\n[compare]\nbaseline = { chunk = \"small\" }\n\
                [store]\nengine = \"lmdb\"\n[data]\nrecords = 10\n[[phase]]\nname = \"write\"\n\
                put = { transaction = { batch = \"{chunk.batch}\" } }\n";
    let one = sound_with(text, &set("chunk.batch", &["20"]));
    assert_eq!(one.compare().baseline["chunk"], "small batch=20");
    assert_eq!(one.variants().iter().filter(|variant| variant.baseline).count(), 1);
    let several = faults_with(text, &set("chunk.batch", &["20", "30"]));
    let expected = "5:22 --set chunk.batch=20,30 removes the baseline `small`, so nothing would be compared | \
                    write `--set chunk.batch=10,20,30`, or `--only` for a run without a comparison";
    assert_eq!(several, expected);
    let own = sound_with(text, &set("chunk.batch", &["10", "20"]));
    assert_eq!(own.compare().baseline["chunk"], "small");
}

/// Of `settle` and others nothing was said where `[subject]` chooses among programs only.
#[test]
fn phase_that_runs_in_no_variant_is_refused() {
    let text = "[factors.subject]\na = { program = \"a\" }\n[subject]\nuse = \"{subject}\"\n[program.a]\ncommand = \"a\"\n\
                [[phase]]\nname = \"work\"\nmark = \"m\"\n[[phase]]\nname = \"rest\"\nsettle = { quiet = \"1 s\" }\n";
    let expected = "10:1 phase `rest` runs in no variant | `settle` works on a store, and each variant measures a \
                    program: remove the phase";
    assert_eq!(faults(text), expected);
    let when = "[factors]\nn = [1, 2]\nm = [1, 2]\n[design]\nskip = [{ n = 1, m = 1 }]\n[program.a]\ncommand = \"a {n} {m}\"\n\
                [[phase]]\nname = \"all\"\nmark = \"m\"\n[[phase]]\nname = \"some\"\nmark = \"n\"\nwhen = { n = 1, m = 1 }\n";
    let expected =
        "11:1 phase `some` runs in no variant | correct `when` of the phase, or let a variant with these levels run";
    assert_eq!(faults(when), expected);
    sound_with(&when.replace("skip = [{ n = 1, m = 1 }]", ""), &only("n", "2"));
}

#[test]
fn versions_and_hashes_that_could_be_numbers_stay_as_they_are() {
    let texts = "[factors]\nv = [\"1.1\", \"1.2\"]\n[program.x]\ncommand = \"get x@{v}\"\n";
    let other = faults_with(texts, &only("v", "1.10"));
    assert!(other.contains("--only v=1.10: factor `v` has no level `1.10`"), "{other}");
    assert_eq!(commands(&sound_with(texts, &set("v", &["1.20", "0123456"]))), ["get x@1.20", "get x@0123456"]);
    let numbers = "[factors]\nv = [3.9, 3.10, 0x1F, 1_000]\n[program.x]\ncommand = [\"python{v}\", \"{v}\"]\nenv = { API = 1.0 }\n";
    let read = sound(numbers);
    assert_eq!(commands(&read), ["python3.9 3.9", "python3.10 3.10", "python0x1F 0x1F", "python1000 1000"]);
    assert_eq!(
        (labels(&read, 0), programs(&read)[0].env["API"].as_str()),
        (vec!["3.9", "3.10", "0x1F", "1000"], "1.0")
    );
    assert_eq!(commands(&sound_with(numbers, &set("v", &["3.20"]))), ["python3.20 3.20"]);
    assert_eq!(commands(&sound_with(numbers, &only("v", "1000"))), ["python1000 1000"]);
    let twice = faults(&numbers.replace("0x1F", "3.1"));
    let expected =
        "factor `v` has the numbers `3.10` and `3.1`, which are equal | write versions as texts: `\"3.10\"`, `\"3.1\"`";
    assert!(twice.contains(expected), "{twice}");
}

/// `when` did not apply to a level that two options `--set` had changed.
#[test]
fn level_with_two_other_settings_is_the_level_that_the_file_names() {
    let text = "[factors.size]\nsmall = { a = 1, b = 0.50 }\nlarge = { a = 0x20, b = 2 }\n[program.x]\n\
                command = \"x {size.a} {size.b}\"\n[[phase]]\nname = \"some\"\nmark = \"m\"\nwhen = { size = \"small\" }\n";
    let set = |settings: &[(&str, &[&str])]| {
        let all = settings.iter().flat_map(|(key, values)| set(key, values).set).collect();
        let experiment = sound_with(text, &Overrides { set: all, ..Overrides::default() });
        let phase = |variant: &Variant| variant.spec.phases[0].name.clone();
        let phases = experiment.variants().iter().map(phase);
        commands(&experiment)
            .into_iter()
            .zip(phases)
            .map(|(command, name)| format!("{command}: {name}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(set(&[("size.a", &["3"]), ("size.b", &["4"])]), ["x 3 4: some", "x 3 4: run"]);
    let both = set(&[("size.a", &["1", "3"]), ("size.b", &["0.5", "4"])]);
    let small = ["x 1 0.50: some", "x 3 0.50: some", "x 1 4: some", "x 3 4: some"];
    assert_eq!(both, [&small[..], &["x 1 0.5: run", "x 1 4: run", "x 3 0.5: run", "x 3 4: run"]].concat());
}

#[test]
fn numbers_are_the_same_in_each_notation() {
    let text = "[factors]\nn = [32, 0.50]\n[program.x]\ncommand = \"x {n}\"\n[[phase]]\nname = \"some\"\nmark = \"m\"\n\
                when = { n = [0x20, 0.5] }\n";
    assert!(sound(text).variants().iter().all(|variant| variant.spec.phases.len() == 1));
    assert_eq!(commands(&sound_with(text, &only("n", "5e-1"))), ["x 0.50"]);
    assert_eq!(commands(&sound_with(text, &only("n", "0b100000"))), ["x 32"]);
    // Labels that look like numbers are labels.
    let labels = "[factors.v]\n\"3.1\" = 3.1\n\"3.10\" = 3.10\n[program.x]\ncommand = \"python{v}\"\n[[phase]]\nname = \"some\"\n\
                  mark = \"m\"\nwhen = { v = 3.10 }\n";
    let named: Vec<String> =
        sound(labels).variants().iter().map(|variant| variant.spec.phases[0].name.clone()).collect();
    assert_eq!(named, ["run", "some"]);
    let large = "[factors.a]\none = { seed = 9007199254740993 }\n[program.x]\ncommand = \"x {a.seed}\"\n";
    assert_eq!(commands(&sound_with(large, &set("a.seed", &["9007199254740992"]))), ["x 9007199254740992"]);
    // A quantity has digits only.
    let rate = "[factors]\nr = [1e3, 0x20]\n[[phase]]\nname = \"get\"\n\
                http = { url = \"http://127.0.0.1:1\", path = \"/\", rate = \"{r}/s\", requests = 5 }\n";
    let experiment = sound(rate);
    let debug = |variant: &Variant| format!("{:?}", variant.spec.phases[0].action);
    let all: Vec<String> = experiment.variants().iter().map(debug).collect();
    assert!(all[0].contains("1000.0") && all[1].contains("32.0"), "{all:?}");
}

/// Blanks in braces were removed, so that the pattern never matched.
#[test]
fn braces_in_patterns_and_replaced_texts_stay_as_they_are_written() {
    let text = "[factors]\nn = [1]\n[program.x]\ncommand = \"a\"\ndirectory = \"d\"\n\
                change = { replace = { file = \"a.js\", find = 'f { return `${ env.HOME }${n}` }', with = '}{ n }{' } }\n\
                [[phase]]\nname = \"work\"\nbegin = { line = '^\\{ n: {n}\\} x{2}' }\nread = '^\\{ time: (?<time_ms>\\d+) \\}$'\n";
    let experiment = sound(text);
    let Action::Observe(observe) = &experiment.variants()[0].spec.phases[0].action else { panic!() };
    assert_eq!(observe.read.as_deref(), Some("^\\{ time: (?<time_ms>\\d+) \\}$"));
    assert_eq!(observe.begin, Some(Trigger::Line("^\\{ n: 1\\} x{2}".to_owned())));
    let change = format!("{:?}", programs(&experiment)[0].changes);
    assert!(change.contains("f { return `${ env.HOME }$1` }") && change.contains("}1{"), "{change}");
}

#[test]
fn empty_lists_of_levels_are_refused() {
    let file = |more: &str| format!("[factors]\nn = [1, 2]\n[program.x]\ncommand = \"a {{n}}\"\n{more}");
    for more in [
        "[[phase]]\nname = \"p\"\nmark = \"m\"\nwhen = { n = [] }\n",
        "[[design.grid]]\nn = []\n",
        "[design]\nskip = [{ n = [] }]\n",
        "[[report.table]]\nselect = { n = [] }\ncolumns = [\"run.time\"]\n",
    ] {
        let found = faults(&file(more));
        let expected = "this list names no level of factor `n` | name a level, or leave the factor out";
        assert!(found.contains(expected), "{more}{found}");
    }
    let any = faults("[program.x]\ncommand = \"a\"\nsuccess = []\n");
    let hint = "name exit codes, or write `\"any\"` for every exit code";
    assert!(any.starts_with("3:11 `success` is empty") && any.ends_with(hint), "{any}");
}

/// It was ignored, so that two variants measured the same store and got a verdict.
#[test]
fn a_change_of_a_store_is_a_fault() {
    let stores = |stores: &str| {
        let subject = "[subject]\nchange = { env = { A = \"{n}\" } }\n";
        let rest = "[data]\nrecords = 1\n[[phase]]\nname = \"w\"\nput = {}\n";
        faults(&format!("[factors]\nn = [1, 2]\n{subject}{stores}{rest}"))
    };
    let expected = "4:1 `change` changes a program, and this variant measures a store | vary settings of the store: \
                    `store = { ... }`, or remove `change`";
    assert_eq!(stores("[store]\nengine = \"lmdb\"\n"), expected);
    assert_eq!(stores("store = { durability = \"none\" }\n[store]\nengine = \"lmdb\"\n"), expected);
}

#[test]
fn a_factor_of_records_makes_no_difference_to_a_program() {
    let data = "[data]\nrecords = \"{n}\"\n";
    let program = faults(&format!("[factors]\nn = [1, 2]\n[program.x]\ncommand = \"x\"\n{data}"));
    assert!(program.starts_with("2:1 factor `n` is not used, so its levels make no difference"), "{program}");
    let store = "[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"w\"\nput = {}\n";
    assert_eq!(faults(&format!("[factors]\nn = [1, 2]\n{data}{store}")), "no faults");
}

#[test]
fn a_change_that_alters_nothing_is_a_fault() {
    let of = |change: &str| {
        let program = "[program.x]\ncommand = \"a\"\ndirectory = \"site\"\nenv = { A = \"1\", B = \"2\" }\n";
        faults(&format!("{program}change = {change}\n"))
    };
    let nothing = "5:10 this change alters nothing | write another change, or `{}` for the program as it is";
    for change in ["{ manager = \"npm\" }", "{ env = { A = \"1\" } }", "{ env = {} }"] {
        assert_eq!(of(change), nothing, "{change}");
    }
    for change in ["{}", "{ env = { A = \"1\", B = \"3\" } }", "{ env = { A = \"1\" }, revision = \"main\" }"] {
        assert_eq!(of(change), "no faults", "{change}");
    }
    assert_eq!(
        of("[{ env = { A = \"3\" } }, { env = { A = \"1\" } }]"),
        "no faults",
        "the second takes the first back"
    );
}

/// Both variants ran `prog` without an argument, and got a verdict.
#[test]
fn a_level_that_makes_the_rest_of_a_command_a_comment_is_a_fault() {
    let of = |keys: &str| faults(&format!("[factors]\ncolor = [\"#fff\", \"#000000\"]\n[program.x]\n{keys}\n"));
    let said = of("shell = true\ncommand = \"prog -c {color} -x\"");
    let expected = "a level with `#` makes the rest of `command` a comment | write the command as a list of words, or quotes \
                    around the placeholder";
    assert!(said.contains(expected), "{said}");
    assert!(of("command = \"prog\"\nprepare = \"echo {color}\"").contains("rest of `prepare` a comment"));
    assert_eq!(of("command = \"prog\"\nenv = { build = \"color {color}\" }"), "no faults", "a variable is no command");
    let keys = "\"prog {color}\"";
    for keys in
        [keys, "[\"prog\", \"{color}\"]", "\"prog '{color}'\"", "\"prog --color={color}\"", "\"prog # {color}\""]
    {
        assert_eq!(of(&format!("command = {keys}")), "no faults", "{keys}");
    }
}

/// Both variants counted lines with `a.b`, and were compared.
#[test]
fn a_level_in_a_command_keeps_its_quotes_and_backslashes() {
    let of = |command: &str, more: &str| {
        let text = format!("[factors]\nre = ['a.b', 'a\\.b', \"it's #1\"]\n[program.x]\ncommand = {command}\n{more}");
        let words = |spec: &&ProgramSpec| spec.command.words()[1..].join("|");
        programs(&sound(&text)).iter().map(words).collect::<Vec<_>>()
    };
    assert_eq!(of("'grep {re} f'", ""), ["a.b|f", r"a\.b|f", "it's|#1|f"]);
    for command in [r#""grep '{re}' f""#, r#"'grep "{re}" f'"#, "['grep', '{re}', 'f']"] {
        assert_eq!(of(command, ""), ["a.b|f", r"a\.b|f", "it's #1|f"], "{command}");
    }
    assert_eq!(of("'{re}'", "shell = 'bash'"), ["-c|a.b", r"-c|a\.b", "-c|it's #1"]);
}

/// With the value `a #b`, `printf <%s> {env.X} tail` printed `<a>`.
#[test]
fn the_value_of_a_variable_is_never_cut_into_words() {
    let of = |keys: &str| {
        let variables = [("X".to_owned(), "a #b 'c".to_owned()), ("E".to_owned(), String::new())].into();
        let text = format!("[factors]\nn = [\"{{env.X}}\"]\n[program.x]\n{keys}\n");
        let raw = crate::parse(&text, "x.toml").unwrap();
        let experiment = crate::check(&raw, &Engines, &Overrides { variables, ..Overrides::default() });
        let experiment = experiment.unwrap_or_else(|problems| panic!("{text} {problems:?}"));
        experiment.variants()[0].spec.subject.program().unwrap().clone()
    };
    let command = "command = \"printf {env.X} '{env.X}{n}' {n} {env.E} tail\"";
    let expected =
        CommandLine::Words(["printf", "a #b 'c", "a #b 'ca #b 'c", "a #b 'c", "", "tail"].map(str::to_owned).to_vec());
    assert_eq!(of(command).command, expected);
    let replicas = of(&format!("command = \"x\"\nreplicas = {{ count = 1, phase = \"run\", {command} }}")).replicas;
    assert_eq!(replicas.unwrap().command, Some(expected));
    let script = of("shell = true\ncommand = \"echo {env.E} {n}\"").command.words()[2].clone();
    assert_eq!(script, "echo  a #b 'c", "a shell may read any text");
}
