//! Tests whole files through `parse` and `check`, with invented engines.

mod background;
mod changes;
mod collections;
pub(crate) mod crash;
mod documents;
mod floors;
mod joined;
mod lacking;
mod levels;
mod never_measured;
mod phases;
mod problems;
mod programs;
mod redacted;
mod replicas;
mod requests;
mod services;
mod sound;

use prony_model::catalog::{Capabilities, EngineCatalog, EngineFacts, Overrides, StoreFault};
use prony_model::json_values::{Altered, Part};
use prony_model::spec::{
    DocumentFile, Durability, FieldSpec, Generator, InFile, Kinds, OptionValue, RowForm, StoreSpec,
};
use prony_model::units::{Bytes, Fraction};
use std::path::Path;

use super::{Problem, check, design::Experiment, parse, templates};

/// Invented engines that lack, between them, every capability that the checker knows.
pub(crate) struct Engines;

impl EngineCatalog for Engines {
    fn engines(&self) -> Vec<String> {
        ["memory", "lmdb", "sqlite", "redb", "fjall", "logfile"].map(str::to_owned).to_vec()
    }

    fn absent(&self) -> Vec<(String, String)> {
        vec![("rocksdb".to_owned(), "rocksdb".to_owned())]
    }

    fn facts(&self, store: &StoreSpec) -> Option<EngineFacts> {
        let can = Capabilities {
            batches: true,
            reads_own_writes: true,
            open_transactions: true,
            ordered: true,
            persistent: true,
            processes: true,
            ..Capabilities::default()
        };
        let classes = vec![Durability::Strict, Durability::Bounded, Durability::None];
        let (can, classes) = match store.engine.as_str() {
            "lmdb" => (Capabilities { max_key: Some(511), ..can }, classes),
            "sqlite" => (Capabilities { own_documents: true, ..can }, classes),
            "redb" => (Capabilities { concurrent_writers: true, ..can }, classes),
            "memory" => {
                let can = Capabilities { persistent: false, processes: false, commits_wait_for_readers: true, ..can };
                (can, vec![Durability::Volatile])
            }
            "fjall" => {
                let can = Capabilities { reads_own_writes: false, open_transactions: false, ..can };
                (can, vec![Durability::Strict, Durability::Relaxed])
            }
            "jsonb" => (Capabilities { own_documents: true, stores_values: true, max_key: Some(200), ..can }, classes),
            "server" => (Capabilities { server: true, processes: false, ..can }, classes),
            "logfile" => (Capabilities { batches: false, ordered: false, open_transactions: false, ..can }, classes),
            _ => return None,
        };
        Some(EngineFacts { can, classes })
    }

    /// Three documents, of which one has `in` as null. In `order.ndjson` their names are in no order, and in `lists.ndjson` `in`
    /// may be a list.
    fn documents(&self, path: &Path) -> Result<(DocumentFile, Vec<FieldSpec>), String> {
        if !["d.ndjson", "order.ndjson", "lists.ndjson"].iter().any(|known| path == *known) {
            return Err(format!("`{}` cannot be read here", path.display()));
        }
        let field = |name: &str, kinds, fields| FieldSpec {
            name: name.to_owned(),
            value: Generator::InFile(InFile { kinds, longest: 0, items: 0, fields }),
            present: Fraction::ONE,
        };
        let inner = field("n", Kinds { number: true, ..Kinds::default() }, Vec::new());
        let list = path.as_os_str() == "lists.ndjson";
        let outer = field("in", Kinds { null: true, fields: true, list, ..Kinds::default() }, vec![inner]);
        let file = DocumentFile {
            path: "d.ndjson".to_owned(),
            form: RowForm::Ndjson,
            rows: 3,
            digest: "0".to_owned(),
            json: Bytes::from_bytes(60),
            longest: Bytes::from_bytes(20),
            unnamed: None,
            names: Default::default(),
            altered: (path.as_os_str() == "order.ndjson")
                .then(|| Altered { field: vec!["in".to_owned()], part: Part::Order }),
        };
        Ok((file, vec![outer]))
    }

    fn check(&self, store: &StoreSpec) -> Vec<StoreFault> {
        let known = ["no_sync", "no_meta_sync", "journal", "map_size"];
        let fault = |(name, value): (&String, &OptionValue)| {
            let (message, hint) = match value {
                _ if !known.contains(&name.as_str()) => {
                    (format!("`{}` has no option `{name}`", store.engine), Some("see `prony engines`".to_owned()))
                }
                OptionValue::Text(text) if name == "map_size" && text.starts_with('-') => {
                    ("`map_size` cannot be below zero".to_owned(), None)
                }
                _ => return None,
            };
            Some(StoreFault { option: Some(name.clone()), message, hint })
        };
        store.options.iter().filter_map(fault).collect()
    }
}

/// Every file without faults of these tests, by name.
pub(crate) fn samples() -> [(&'static str, &'static str); 12] {
    [
        ("cache", sound::CACHE),
        ("sourcing", sound::SOURCING),
        ("gatsby", programs::GATSBY),
        ("mixed", programs::MIXED),
        ("phases", phases::PHASES),
        ("documents", documents::DOCUMENTS),
        ("queries", documents::QUERIES),
        ("collections", collections::COLLECTIONS),
        ("services", services::SERVICES),
        ("store", templates::STORE),
        ("program", templates::PROGRAM),
        ("branches", templates::BRANCHES),
    ]
}

/// A file's text as the JSON that editors check.
pub(crate) fn as_json(text: &str) -> serde_json::Value {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The experiment of a file without faults.
pub(crate) fn sound(text: &str) -> Experiment {
    sound_with(text, &Overrides::default())
}

fn sound_with(text: &str, overrides: &Overrides) -> Experiment {
    let raw = parse(text, "test.toml").unwrap_or_else(|problems| panic!("{}", listing(&problems)));
    check(&raw, &Engines, overrides).unwrap_or_else(|problems| panic!("{}", listing(&problems)))
}

/// The faults of a file, one a line: `line:column message | hint`.
fn faults(text: &str) -> String {
    faults_with(text, &Overrides::default())
}

fn faults_with(text: &str, overrides: &Overrides) -> String {
    match parse(text, "test.toml").and_then(|raw| check(&raw, &Engines, overrides)) {
        Ok(_) => "no faults".to_owned(),
        Err(problems) => listing(&problems),
    }
}

fn listing(problems: &[Problem]) -> String {
    let line = |problem: &Problem| {
        let hint = problem.hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
        format!("{}:{} {}{hint}", problem.line, problem.column, problem.message)
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}
