//! Tests where it is said that a file or program of a service or a phase does not exist.

use prony_model::catalog::{Lack, Overrides, Surroundings};
use prony_model::http::BodySpec;
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
        services.filter_map(|is_no| lack("service", "command", is_no)).chain(bodies).collect()
    }
}

/// What each lacked was said at the first service, and of requests at the begin of the file.
#[test]
fn missing_file_is_reported_at_its_own_service_and_phase() {
    let text = "[[service]]\nname = \"a\"\ncommand = [\"yes\"]\n[[service]]\nname = \"b\"\ncommand = [\"no\"]\n\
                [[phase]]\nname = \"p\"\nhttp = { service = \"a\", path = \"/\", body = { file = \"yes\" } }\n\
                [[phase]]\nname = \"q\"\nhttp = { service = \"a\", path = \"/\", body = { file = \"no\" } }\n";
    let raw = parse(text, "x.toml").unwrap();
    let problems = check_in(&raw, &Engines, &Without, &Overrides::default()).unwrap_err();
    assert_eq!(listing(&problems), "6:11 no service | make one\n12:1 no phase | make one");
}
