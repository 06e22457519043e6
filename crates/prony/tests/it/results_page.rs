//! The page of the book with every key of the results in JSON, made from the schema, which is made from the types.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The page.
pub(crate) fn page(schema: &Value) -> String {
    let mut out = String::from(
        "# Keys of the JSON document\n\nThe document of `prony report --format json`; [Results for other programs](results.md) explains it \
         with examples. `prony schema --results` prints the JSON Schema, from which this page is made. Times are nanoseconds, sizes \
         bytes. A *reading* is `{\"measured\": VALUE}` or `{\"missing\": WHY}`.\n",
    );
    let all = schema["$defs"].as_object().unwrap();
    let mut found = vec!["the document".to_owned()];
    let mut open = VecDeque::from([("the document".to_owned(), schema)]);
    while let Some((name, of)) = open.pop_front() {
        section(&mut out, &name, of, all);
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

fn section(out: &mut String, name: &str, of: &Value, all: &Map<String, Value>) {
    let description = of["description"].as_str().unwrap_or_default();
    let _ = writeln!(out, "\n## {name}\n\n{}", escaped(description));
    if of["properties"].is_object() {
        keys(out, of, all);
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

fn keys(out: &mut String, of: &Value, all: &Map<String, Value>) {
    out.push_str("\n| key | value | |\n|---|---|---|\n");
    for (key, value) in of["properties"].as_object().unwrap() {
        let description = escaped(value["description"].as_str().unwrap_or_default());
        let _ = writeln!(out, "| `{key}` | {} | {description} |", takes(value, all));
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

#[test]
fn every_key_of_the_results_is_on_the_page() {
    let schema = prony_report::export::document::schema();
    let page = page(&schema);
    let mut keys = 0;
    for (name, definition) in schema["$defs"].as_object().unwrap().iter().filter(|(name, _)| !is_reading(name)) {
        assert!(page.contains(&format!("\n## {name}\n")), "{name}");
        for key in definition["properties"].as_object().into_iter().flatten() {
            keys += 1;
            assert!(page.contains(&format!("| `{}` |", key.0)), "{name}: {}", key.0);
        }
    }
    assert!(keys > 300, "{keys}");
}
