//! Tests that documents which are generated from code agree with the code. `PRONY_BLESS=1 cargo test` regenerates them.

use std::path::{Path, PathBuf};

use prony_engines::catalog::Catalog;
use prony_experiment::{check, metrics_reference, parse, reference, schema, templates};

use prony_model::catalog::Overrides;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn same(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("PRONY_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "`{path}` does not agree with the code; `PRONY_BLESS=1 cargo test -p prony docs` regenerates it"
    );
}

#[test]
fn the_reference_is_the_checkers_own() {
    same("docs/reference.md", &reference());
}

#[test]
fn the_page_of_metrics_is_the_catalogue() {
    same("docs/metrics.md", &metrics_reference());
}

#[test]
fn the_page_of_commands_is_the_command_lines_own() {
    same("docs/commands.md", &crate::command_page::page());
}

#[test]
fn the_schema_is_the_checkers_own() {
    same("docs/experiment.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn the_page_of_results_is_that_of_their_schema() {
    let schema = prony_report::export::document::schema();
    same("docs/results-keys.md", &crate::results_page::page(&schema, &crate::results_page::documents("profile-page")));
}

#[test]
fn the_schema_of_results_is_that_of_the_types() {
    same("docs/results.schema.json", &format!("{:#}\n", prony_report::export::document::schema()));
}

/// The files of experiments: those at the top, and those of a folder for each larger one. What programs install lies
/// deeper.
fn experiments() -> Vec<PathBuf> {
    let below = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        below(root().join("experiments")).partition(|path| path.is_dir());
    let all = files.into_iter().chain(folders.into_iter().flat_map(below));
    all.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn every_experiment_here_can_run_and_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let files = experiments();
    assert!(files.len() >= 11, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.display().to_string();
        let raw = parse(&text, &name).unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
        check(&raw, &Catalog, &Overrides::default()).unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
        let value: serde_json::Value = toml::from_str(&text).unwrap();
        let faults: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{name}: {faults:#?}");
    }
}

#[test]
fn every_direct_dependency_has_its_line_in_contributing() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let names = manifest["workspace"]["dependencies"].as_table().unwrap().keys().map(String::as_str);
    let mut names: Vec<&str> = names.filter(|name| !name.starts_with("prony")).collect();
    names.sort_unstable();
    let text = read("CONTRIBUTING.md");
    let lines = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(names, lines.collect::<Vec<_>>());
}

#[test]
fn every_starting_file_passes_the_check() {
    for text in [templates::STORE, templates::PROGRAM, templates::BRANCHES] {
        let raw = parse(text, "new.toml").unwrap();
        check(&raw, &Catalog, &Overrides::default()).unwrap();
    }
}
