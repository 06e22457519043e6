//! Tests what changes of code make of variants.

use super::programs::{SITE, programs};
use super::*;
use prony_model::program::{Change, DIR, Manager};

#[test]
fn replacement_of_nothing_or_by_the_same_text_is_a_fault() {
    let of = |find: &str, with: &str| {
        faults(&format!(
            "[program.x]\ncommand = \"a\"\ndirectory = \".\"\n\
             change = {{ replace = {{ file = \"f\", find = \"{find}\", with = \"{with}\" }} }}\n"
        ))
    };
    assert_eq!(of("", "x"), "4:43 `find` is empty | write the text to replace");
    assert_eq!(of("x", "x"), "4:55 `with` is the same text as `find`, so nothing changes | write another text");
}

#[test]
fn code_has_revisions_and_packages() {
    let levels = "[factors.code]\n\
        a = [{ dependency = [\"@s/lmdb@3.1\", \"b@^2\"], manager = \"npm\" }, { revision = \"v1\" }]\n\
        b = { dependency = \"c@1\" }\n";
    let found = programs(&format!("{levels}{SITE}"));
    let package = |name: &str, version: &str, manager| Change::Dependency {
        name: name.to_owned(),
        version: version.to_owned(),
        manager,
    };
    let npm = Some(Manager::Npm);
    let revision = Change::Revision { of: "v1".to_owned() };
    assert_eq!(
        found[0].changes,
        [revision, package("@s/lmdb", "3.1", npm), package("b", "^2", npm)],
        "copies come first"
    );
    assert_eq!(found[1].changes, [package("c", "1", None)]);
    let wrong = "[factors.code]\na = { dependency = \"lmdb\" }\nb = [{ revision = \"x\" }, { revision = \"y\" }]\n";
    let said = faults(&format!("{wrong}{SITE}"));
    assert!(said.contains("2:20 `lmdb` is not a package with a version | write `name@version`"), "{said}");
    assert!(said.contains("program `x` has two revisions, `x` and `y`"), "{said}");
}

#[test]
fn changes_are_left_out_one_by_one() {
    let code = "[factors.code]\na = { revision = \"1\" }\nb = [{ dependency = \"b@1\" }, { env = { B = 1 } }]\n\
                c = { dependency = \"c@1\" }\n";
    let text = format!("{code}{SITE}[design]\nleave_one_out = \"code\"\n[compare]\nbaseline = {{ code = \"all\" }}\n");
    let experiment = sound(&text);
    let labels: Vec<&str> = experiment.factors()[0].levels.iter().map(|level| level.label.as_str()).collect();
    assert_eq!(labels, ["all", "without a", "without b", "without c", "none"]);
    let counts: Vec<(usize, bool)> =
        programs(&text).iter().map(|one| (one.changes.len(), one.env.contains_key("B"))).collect();
    assert_eq!(counts, [(3, true), (2, true), (2, false), (2, true), (0, false)]);
    let baseline = experiment.variants().iter().position(|variant| variant.baseline);
    assert_eq!(baseline, Some(0));
    assert_eq!(experiment.leave_one_out(), Some(0));
    let untold = sound(&text.replace("[compare]\nbaseline = { code = \"all\" }\n", ""));
    assert_eq!(untold.compare().baseline, experiment.compare().baseline, "`all` unless the file says otherwise");
    let checked = sound(&text.replace("code = \"all\"", "code = \"none\""));
    assert_eq!(checked.compare().baseline["code"], "none");
    let set = Overrides { set: vec![("code".to_owned(), vec!["none".to_owned()])], ..Overrides::default() };
    let aside = faults_with(&text.replace("[compare]\nbaseline = { code = \"all\" }\n", ""), &set);
    assert!(aside.starts_with("10:17 --set code=none removes the baseline `all`"), "{aside}");
    let wrong =
        |factor: &str| faults(&text.replace("leave_one_out = \"code\"", &format!("leave_one_out = \"{factor}\"")));
    assert!(wrong("kode").contains("unknown factor `kode` | did you mean `code`?"), "{}", wrong("kode"));
    let one = faults("[factors]\nn = [1, 2]\n[program.x]\ncommand = \"a {n}\"\n[design]\nleave_one_out = \"n\"\n");
    assert!(one.contains("factor `n` has no changes that could be left out"), "{one}");
}

#[test]
fn change_variables_resolve_the_directory() {
    let variable = |text: &str| programs(text)[0].env["A"].clone();
    let here = format!("{DIR}/x");
    let table = "{ env = { A = \"{dir}/x\" } }";
    let program = "[program.x]\ncommand = \"a\"\ndirectory = \"site\"\n";
    assert_eq!(variable(&format!("{program}change = {table}\n")), here);
    assert_eq!(variable(&format!("{program}change = [{table}]\n")), here);
    assert_eq!(variable(&format!("{program}[subject]\nchange = {table}\n")), here);
    let level = format!("[factors.code]\none = {table}\n{program}");
    assert_eq!(variable(&format!("{level}change = \"{{code}}\"\n")), here);
    assert_eq!(variable(&format!("{level}[subject]\nuse = {{ program = \"x\", change = \"{{code}}\" }}\n")), here);
    let text = "change = { replace = { file = \"f\", find = \"{dir}\", with = \"x\" } }\n";
    let Change::Replace { find, .. } = &programs(&format!("{program}{text}"))[0].changes[0] else { panic!() };
    assert_eq!(find, "{dir}", "a text that is looked for is no template");
    let patch = faults(&format!("{program}change = {{ patch = \"{{dir}}/p\" }}\n"));
    assert!(patch.contains("4:21 `{dir}` has no meaning here"), "{patch}");
}
