//! The page of the book with every key of the results in JSON, made from the schema, which is made from the types.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use prony_model::reading::Reading;
use prony_model::record::effective::EffectiveServices;
use prony_model::record::host::{Disk, Processor};
use prony_model::record::{Effective, Facts, Session};
use serde_json::{Map, Value};

use crate::synthetic::{NOON, experiment, full_trial, run_data, texts};
use crate::{crash, floor, json_document, knees, left_out, pages, records, report_profile};

/// The name of the section of the document itself.
const DOCUMENT: &str = "the document";

/// The page, with examples from documents.
pub(crate) fn page(schema: &Value, documents: &[Value]) -> String {
    let all = schema["$defs"].as_object().unwrap();
    let mut examples = Examples { all, found: BTreeMap::new() };
    documents.iter().for_each(|document| examples.add(document, schema, DOCUMENT));
    let mut out = String::from(
        "# Keys of the JSON document\n\nThe document of `prony report --format json`; [Results for other programs](results.md) explains it \
         with examples. `prony schema --results` prints the JSON Schema, from which this page is made. Times are nanoseconds, sizes \
         bytes. A *reading* is `{\"measured\": VALUE}` or `{\"missing\": WHY}`. Examples are from documents of different runs; \
         a key whose value has a section of its own has them there.\n",
    );
    let mut found = vec![DOCUMENT.to_owned()];
    let mut open = VecDeque::from([(DOCUMENT.to_owned(), schema)]);
    while let Some((name, of)) = open.pop_front() {
        section(&mut out, &name, of, &examples);
        for name in names(of, all) {
            if !found.contains(&name) {
                found.push(name.clone());
                let definition = &all[&name];
                open.push_back((name, definition));
            }
        }
    }
    out
}

/// The definitions to which a schema refers; in place of a reading those of its value.
fn names(of: &Value, all: &Map<String, Value>) -> Vec<String> {
    match of {
        Value::Object(map) => {
            let here = map.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
            let inner = map.iter().filter(|(key, _)| *key != "$defs").flat_map(|(_, value)| names(value, all));
            match here {
                Some(name) if is_reading(name) => names(&all[name], all),
                here => here.map(str::to_owned).into_iter().chain(inner).collect(),
            }
        }
        Value::Array(items) => items.iter().flat_map(|item| names(item, all)).collect(),
        _ => Vec::new(),
    }
}

/// A reading has a definition for each type of its value.
fn is_reading(name: &str) -> bool {
    name.trim_end_matches(|c: char| c.is_ascii_digit()) == "Reading"
}

/// A value of each key, where the documents have one.
struct Examples<'s> {
    all: &'s Map<String, Value>,
    /// By the section's name and the key.
    found: BTreeMap<(String, String), String>,
}

impl Examples<'_> {
    /// Adds those of a value, whose keys belong to this section.
    fn add(&mut self, value: &Value, of: &Value, section: &str) {
        if let Some(name) = of["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            let definition = &self.all[name];
            return self.add(value, definition, if is_reading(name) { section } else { name });
        }
        for kind in of["oneOf"].as_array().or(of["anyOf"].as_array()).into_iter().flatten() {
            if self.fits(value, kind) {
                self.add(value, kind, section);
            }
        }
        for (key, inner) in of["properties"].as_object().into_iter().flatten() {
            let Some(value) = value.get(key).filter(|value| !value.is_null()) else { continue };
            let found = self.found.entry((section.to_owned(), key.clone())).or_default();
            if matches!(found.as_str(), "" | "[]" | "{}" | "\"\"" | r#"{"missing": "not_applicable"}"#) {
                *found = shortened(value);
            }
            self.add(value, inner, section);
        }
        value.as_array().into_iter().flatten().for_each(|item| self.add(item, &of["items"], section));
        if of["additionalProperties"].is_object() {
            let values = value.as_object().into_iter().flat_map(Map::values);
            values.for_each(|value| self.add(value, &of["additionalProperties"], section));
        }
    }

    /// Whether a value may be of this kind, as far as its type, its keys and their constants show.
    fn fits(&self, value: &Value, kind: &Value) -> bool {
        let properties = || kind["properties"].as_object().into_iter().flatten();
        let mut constants = properties().filter_map(|(key, of)| Some((key, of.get("const")?))).peekable();
        if constants.peek().is_some() {
            return constants.all(|(key, constant)| value.get(key) == Some(constant));
        }
        if let Some(name) = kind["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.fits(value, &self.all[name]);
        }
        if let Some(kinds) = kind["oneOf"].as_array().or(kind["anyOf"].as_array()) {
            return kinds.iter().any(|kind| self.fits(value, kind));
        }
        let mut required = kind["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        value.is_object() == (kind["type"] == "object") && required.all(|key| value.get(key).is_some())
    }

    /// The example of a key, where its value has no section of its own.
    fn of(&self, section: &str, key: &str, takes: &str) -> String {
        let found = self.found.get(&(section.to_owned(), key.to_owned())).filter(|_| !takes.contains("](#"));
        found.map(|example| format!("`{}`", escaped(example))).unwrap_or_default()
    }
}

/// A value as JSON, the rest of long texts and lists left out.
fn shortened(value: &Value) -> String {
    const LONGEST: usize = 48;
    let list = |open: &str, items: Vec<String>, close: &str| {
        let whole = items.join(", ");
        let more = whole.len() > LONGEST && items.len() > 1;
        let shown = if more { format!("{}, …", items[0]) } else { whole };
        format!("{open}{shown}{close}")
    };
    match value {
        Value::String(text) if text.chars().count() > LONGEST || text.contains(['`', '\n']) => {
            let line = text.lines().next().unwrap_or_default().replace('`', "'");
            Value::String(line.chars().take(LONGEST).chain(['…']).collect()).to_string()
        }
        Value::Array(items) => list("[", items.iter().map(shortened).collect(), "]"),
        Value::Object(fields) => {
            let field = |(key, value)| format!("{}: {}", Value::from(String::clone(key)), shortened(value));
            list("{", fields.iter().map(field).collect(), "}")
        }
        other => other.to_string(),
    }
}

fn section(out: &mut String, name: &str, of: &Value, examples: &Examples<'_>) {
    let all = examples.all;
    let description = of["description"].as_str().unwrap_or_default();
    let _ = writeln!(out, "\n## {name}\n\n{}", escaped(description));
    if of["properties"].is_object() {
        keys(out, name, of, examples);
    } else if let Some(kinds) = of["oneOf"].as_array().or(of["anyOf"].as_array()) {
        out.push_str("\nOne of these:\n\n");
        for kind in kinds {
            let description =
                kind["description"].as_str().map_or_else(String::new, |text| format!(": {}", escaped(text)));
            let _ = writeln!(out, "- {}{description}", takes(kind, all));
        }
    } else {
        let _ = writeln!(out, "\n{}.", takes(of, all));
    }
}

fn keys(out: &mut String, section: &str, of: &Value, examples: &Examples<'_>) {
    out.push_str("\n| key | value | | example |\n|---|---|---|---|\n");
    for (key, value) in of["properties"].as_object().unwrap() {
        let description = escaped(value["description"].as_str().unwrap_or_default());
        let takes = takes(value, examples.all);
        let example = examples.of(section, key, &takes);
        let _ = writeln!(out, "| `{key}` | {takes} | {description} | {example} |");
    }
}

/// What a value may be, in words.
fn takes(of: &Value, all: &Map<String, Value>) -> String {
    if let Some(name) = of["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        if is_reading(name) {
            let measured = &all[name]["oneOf"][0]["properties"]["measured"];
            return format!("reading: {}", takes(measured, all));
        }
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(kinds) = of["oneOf"].as_array().or(of["anyOf"].as_array()) {
        return kinds.iter().map(|kind| takes(kind, all)).collect::<Vec<_>>().join(" or ");
    }
    if let Some(word) = of.get("const") {
        return format!("`{}`", escaped(&word.to_string()));
    }
    if let Some(words) = of["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(properties) = of["properties"].as_object() {
        let keys = properties.iter().map(|(key, value)| format!("`{key}`: {}", takes(value, all)));
        return format!("object of {}", keys.collect::<Vec<_>>().join("; "));
    }
    if of["additionalProperties"].is_object() {
        return format!("object, each value {}", takes(&of["additionalProperties"], all));
    }
    if of["items"].is_object() {
        return format!("list, each item {}", takes(&of["items"], all));
    }
    let kinds: Vec<&str> = match &of["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return "anything".to_owned(),
    };
    let words = kinds.iter().map(|kind| match *kind {
        "integer" => "whole number",
        "string" => "text",
        "boolean" => "`true` or `false`",
        "array" => "list",
        other => other,
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// Text for a cell of a table, in which angle brackets outside of code would be HTML.
fn escaped(text: &str) -> String {
    crate::command_page::cell(text)
}

/// The invented machine, with the facts that its other records leave out.
fn host() -> Facts {
    let text = |text: &str| Reading::Measured(text.to_owned());
    let facts = records::host();
    let processor = Processor {
        cores: Reading::Measured(4),
        smt: Reading::Measured(true),
        governor: text("performance"),
        megahertz: Reading::Measured(3_400.0),
        ..facts.processor
    };
    let disk = Disk {
        name: "sda".to_owned(),
        scheduler: text("mq-deadline"),
        rotational: Reading::Measured(false),
        write_cache: text("write back"),
        ..Disk::default()
    };
    Facts {
        host: text("invented"),
        processor,
        disks: vec![disk],
        libc: text("glibc 2.36"),
        allocator: text("malloc of libc.so.6"),
        huge_pages: text("madvise"),
        clock_source: text("tsc"),
        virtualisation: text("kvm"),
        cgroups: text("v2"),
        perf_event_paranoid: Reading::Measured(1),
        address_randomisation: Reading::Measured(2),
        ..facts
    }
}

/// Documents of runs that have, together, all keys; one of them needs a database of this name.
pub(crate) fn documents(database: &str) -> Vec<Value> {
    let of = |(experiment, trials): (_, Vec<_>)| run_data(experiment, trials.len() as u32, trials);
    let one = experiment("Engines", &[texts("engine", &["a", "b"])], &[("write", true), ("read", true)], 4);
    let mut full = of((one, (0..8).map(full_trial).collect()));
    full.head.resumed = vec![Session { session: 1, started_unix_ms: NOON, host: host(), version: "0.1.0".to_owned() }];
    let mut whole_runs = [pages::cache(6), pages::sourcing(), pages::failed(), pages::many()].map(of);
    // A machine that was disturbed during one block.
    let mut conditions = records::conditions();
    let Reading::Measured(machine) = &mut conditions.machine else { unreachable!() };
    machine.change.steal = Reading::Measured(0.1);
    for trial in whole_runs[0].trials.iter_mut().filter(|trial| trial.trial.block == 0) {
        trial.conditions = conditions.clone();
    }
    let mut parts = [floor::example(), left_out::example(), knees::example(), crash::example()];
    let left_behind = [("fill".to_owned(), 2)].into();
    let served = Effective::Services(Arc::new(EffectiveServices { services: Vec::new(), left_behind }));
    parts[2].trials.iter_mut().for_each(|trial| trial.effective = Some(served.clone()));
    let mut all: Vec<Value> =
        [full].iter().chain(&whole_runs).chain(&parts).map(|data| json_document::of(data, None)).collect();
    all.push(report_profile::example(database));
    all
}

#[test]
fn every_key_of_the_results_is_on_the_page() {
    let schema = prony_report::export::document::schema();
    let page = page(&schema, &documents("profile-keys"));
    let (mut keys, mut bare) = (0, Vec::new());
    for (name, definition) in schema["$defs"].as_object().unwrap().iter().filter(|(name, _)| !is_reading(name)) {
        assert!(page.contains(&format!("\n## {name}\n")), "{name}");
        for key in definition["properties"].as_object().into_iter().flatten() {
            keys += 1;
            assert!(page.contains(&format!("| `{}` |", key.0)), "{name}: {}", key.0);
        }
    }
    for section in page.split("\n## ").skip(1) {
        let name = section.lines().next().unwrap();
        let lines = section.lines().filter(|line| line.starts_with("| `") && line.ends_with("|  |"));
        bare.extend(lines.filter(|line| !line.contains("](#")).map(|line| format!("{name}: {line}")));
    }
    // They are in columns of the variant.
    bare.retain(|line| !line.starts_with("PhaseRecord: | `readings`"));
    assert!(bare.is_empty(), "without an example: {bare:#?}");
    assert!(keys > 300, "{keys}");
}
