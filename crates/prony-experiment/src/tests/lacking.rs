//! Tests where it is said that a file or program of a service or a phase does not exist.

use prony_model::catalog::{Lack, Overrides, Surroundings};
use prony_model::http::BodySpec;
use prony_model::program::{Change, ProgramSpec};
use prony_model::spec::TrialSpec;

use super::{Engines, listing};
use crate::{check_in, parse};

/// A machine without programs and files of the name `no`.
struct Without;

impl Surroundings for Without {
    fn lacking(&self, spec: &TrialSpec) -> Vec<Lack> {
        let lack = |section, key, is_missing: bool| {
            let (message, hint) = (format!("no {section}"), "make one".to_owned());
            is_missing.then_some(Lack { section, key, message, hint })
        };
        let is_no = |body: &BodySpec| matches!(body, BodySpec::File { path, .. } if path == "no");
        let kinds = spec.phases.iter().filter_map(|phase| phase.action.http()).flat_map(|http| &http.kinds);
        let bodies = kinds.filter_map(|kind| lack("phase", "http", kind.body.as_ref().is_some_and(is_no)));
        let services = spec.services.iter().map(|service| service.program.command.words()[0] == "no");
        let changed = |section, program: &ProgramSpec| {
            let missing = program.changes.iter().find_map(|change| match change {
                Change::Patch { file } if file == "no" => Some("patch"),
                Change::Replace { file, .. } if file == "no" => Some("replace"),
                _ => None,
            });
            missing.and_then(|key| lack(section, key, true))
        };
        let changes = spec.services.iter().filter_map(|service| changed("service", &service.program));
        let of_program = spec.subject.program().and_then(|program| changed("change", program));
        let commands = services.filter_map(|is_no| lack("service", "command", is_no));
        commands.chain(bodies).chain(changes).chain(of_program).collect()
    }
}

/// What each lacked was said at the first service, and of requests at the begin of the file.
#[test]
fn missing_file_is_reported_at_its_own_service_and_phase() {
    let text = "[[service]]\nname = \"a\"\ncommand = [\"yes\"]\n[[service]]\nname = \"b\"\ncommand = [\"no\"]\n\
                [[phase]]\nname = \"p\"\nhttp = { service = \"a\", path = \"/\", requests = 1, body = { file = \"yes\" } }\n\
                [[phase]]\nname = \"q\"\nhttp = { service = \"a\", path = \"/\", requests = 1, body = { file = \"no\" } }\n";
    let raw = parse(text, "x.toml").unwrap();
    let problems = check_in(&raw, &Engines, &Without, &Overrides::default()).unwrap_err();
    assert_eq!(listing(&problems), "6:11 no service | make one\n12:1 no phase | make one");
}

/// A patch of the program was reported at the change of `[subject]`, and a `replace` of a service at the begin of its table.
#[test]
fn missing_file_of_a_change_is_reported_at_that_change() {
    let of = |text: &str| {
        let raw = parse(text, "x.toml").unwrap();
        let problems = check_in(&raw, &Engines, &Without, &Overrides::default()).unwrap_err();
        format!("{}:{}", problems[0].line, problems[0].column)
    };
    let program = "[program.p]\ncommand = \"a\"\ndirectory = \".\"\nchange = { patch = [\"yes\", \"no\"] }\n\
                   [subject]\nprogram = \"p\"\nchange = { patch = \"other\" }\n";
    assert_eq!(of(program), "4:28");
    assert_eq!(of(&program.replace("\"no\"", "\"1\"").replace("other", "no")), "7:20");
    let one = "{ replace = { file = \"no\", find = \"x\", with = \"y\" } }";
    let two = format!("[program.p]\ncommand = \"a\"\ndirectory = \".\"\nchange = [{one}, {one}]\n");
    assert_eq!(of(&two), "4:10", "which of the two is not known");
    let service = "[[service]]\nname = \"a\"\ncommand = \"yes {port}\"\ndirectory = \".\"\n\
                   change = [{ env = { A = \"1\" } }, { replace = { file = \"no\", find = \"x\", with = \"y\" } }]\n\
                   [[phase]]\nname = \"p\"\nhttp = { service = \"a\", path = \"/\", requests = 1 }\n";
    assert_eq!(of(service), "5:46");
}
