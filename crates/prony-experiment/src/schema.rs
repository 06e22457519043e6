//! Generates the JSON Schema (draft 2020-12) of the file from its declaration.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::grammar;
use super::shape::{Field, Need, Shape, TableShape};

/// The schema, for editors that complete and check the file.
///
/// It is a little wider than the checker: it does not know factors, engines or the order of phases.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let mut root = table(&grammar::ROOT, &mut definitions);
    let placeholder = json!({ "type": "string", "pattern": "\\{.+\\}", "description": "A placeholder of a factor" });
    definitions.insert("placeholder".to_owned(), placeholder);
    let phases_of_stores = value(&grammar::STORE_PHASES, &mut definitions);
    if let Value::Object(root) = &mut root {
        // Keys of the root: a language server that is strict about other keys warns of all in schemas that name none.
        root.insert("if".to_owned(), json!({ "not": { "required": ["program"] }, "additionalProperties": true }));
        root.insert(
            "then".to_owned(),
            json!({ "properties": { "phase": phases_of_stores }, "additionalProperties": true }),
        );
        root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".to_owned(), json!("prony experiment"));
        root.insert("$defs".to_owned(), Value::Object(definitions.into_iter().collect()));
    }
    root
}

type Definitions = BTreeMap<String, Value>;

fn table(shape: &'static TableShape, definitions: &mut Definitions) -> Value {
    let mut properties = Map::new();
    for field in shape.all() {
        properties.insert(field.name.to_owned(), field_schema(field, definitions));
    }
    let required: Vec<&str> =
        shape.all().filter(|field| field.need == Need::Required).map(|field| field.name).collect();
    let rest = shape.rest.map_or(Value::Bool(false), |rest| value(rest, definitions));
    let mut object = json!({
        "type": "object",
        "description": shape.doc,
        "properties": properties,
        "required": required,
        "additionalProperties": rest,
    });
    for (rule, keys) in [("oneOf", shape.actions()), ("anyOf", shape.some())] {
        let each: Vec<Value> = keys.iter().map(|key| json!({ "required": [key] })).collect();
        if let (Value::Object(object), false) = (&mut object, each.is_empty()) {
            object.insert(rule.to_owned(), Value::Array(each));
        }
    }
    object
}

fn field_schema(field: &'static Field, definitions: &mut Definitions) -> Value {
    let doc = match field.need {
        Need::Optional(default) | Need::Some(default) => format!("{} Default: {default}.", field.doc),
        Need::Required | Need::Action => field.doc.to_owned(),
    };
    match value(&field.shape, definitions) {
        Value::Object(mut object) => {
            object.insert("description".to_owned(), Value::String(doc));
            Value::Object(object)
        }
        other => other,
    }
}

/// A value's schema, which also accepts a placeholder where one has a meaning.
fn value(shape: &'static Shape, definitions: &mut Definitions) -> Value {
    let number = |minimum: f64| json!({ "type": "number", "minimum": minimum });
    let quantity = |pattern: &str| json!({ "anyOf": [{ "type": "string", "pattern": pattern }, number(0.0)] });
    let open = |schema: Value| json!({ "anyOf": [schema, { "$ref": "#/$defs/placeholder" }] });
    let hole = r"|.*\{.+\}.*)$";
    match shape {
        Shape::Plain | Shape::Text | Shape::Template | Shape::Request => json!({ "type": "string" }),
        Shape::Flag => open(json!({ "type": "boolean" })),
        Shape::Whole(min, max) => {
            let most = (*max).min(i64::MAX as u64);
            open(json!({ "type": "integer", "minimum": min, "maximum": most }))
        }
        Shape::Integer => open(json!({ "type": "integer" })),
        Shape::Date => json!({ "type": "string" }),
        Shape::Positive => open(json!({ "type": "number", "exclusiveMinimum": 0 })),
        Shape::Between(min, max) => open(json!({ "type": "number", "minimum": min, "maximum": max })),
        Shape::Time => {
            json!({ "type": "string", "pattern": format!(r"^( *[0-9][0-9_.]* *(ns|us|µs|ms|s|min|h) *{hole}") })
        }
        Shape::Span => {
            let above = r"[0_.]*[1-9][0-9_.]*";
            json!({ "type": "string", "pattern": format!(r"^( *{above} *(ns|us|µs|ms|s|min|h) *{hole}") })
        }
        Shape::Bytes => quantity(&format!(r"^( *[0-9][0-9_.]* *(B|[kMGT]B|[KMGT]iB)? *{hole}")),
        Shape::Rate => quantity(&format!(r"^( *[0-9][0-9_.]* *(/s|per second|/min|per minute)? *{hole}")),
        Shape::Share => quantity(&format!(r"^( *[0-9][0-9_.]* *%? *{hole}")),
        Shape::Word(words) => {
            let word = |(word, doc): &(&str, &str)| json!({ "const": word, "description": doc });
            let mut choices: Vec<Value> = words.iter().map(word).collect();
            choices.push(json!({ "$ref": "#/$defs/placeholder" }));
            json!({ "anyOf": choices })
        }
        Shape::Scalar => json!({ "type": ["boolean", "number", "string"] }),
        Shape::Any => json!({}),
        Shape::List(item) => json!({ "anyOf": [
            { "type": "array", "items": value(item, definitions) }, { "$ref": "#/$defs/placeholder" },
        ] }),
        Shape::Pair(item) => open(json!({
            "type": "array", "items": value(item, definitions), "minItems": 2, "maxItems": 2,
        })),
        Shape::Map(item) => open(json!({ "type": "object", "additionalProperties": value(item, definitions) })),
        Shape::Table(shape) => open(reference_to(shape, definitions)),
        Shape::Filter(test) => filter(test, definitions),
        Shape::Operand => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Field(generator) => field_of_document(generator, definitions),
        Shape::Either(shapes) => {
            let choices: Vec<Value> = shapes.iter().map(|shape| value(shape, definitions)).collect();
            json!({ "anyOf": choices })
        }
    }
}

/// A value refers to itself: lists and tables hold values again.
fn field_of_document(generator: &'static TableShape, definitions: &mut Definitions) -> Value {
    let name = definition(&format!("a {}", generator.name));
    defined(name, definitions, |reference, definitions| {
        json!({ "anyOf": [
            { "type": ["string", "number", "boolean"] },
            { "type": "array", "items": reference },
            reference_to(generator, definitions),
            {
                "type": "object",
                "propertyNames": { "not": { "enum": generator.actions() } },
                "additionalProperties": reference,
            },
        ] })
    })
}

/// Fields with conditions, which may be fields with conditions again.
fn filter(test: &'static TableShape, definitions: &mut Definitions) -> Value {
    defined("filter".to_owned(), definitions, |filter, definitions| {
        let condition = defined("condition".to_owned(), definitions, |_, definitions| {
            let tests: Vec<&str> = test.all().map(|field| field.name).collect();
            let inner = json!({ "allOf": [filter, { "propertyNames": { "not": { "enum": tests } } }] });
            json!({ "anyOf": [{ "type": ["string", "number", "boolean"] }, reference_to(test, definitions), inner] })
        });
        let filters = json!({ "type": "array", "items": filter });
        json!({
            "type": "object",
            "properties": { "and": filters, "or": filters },
            "additionalProperties": condition,
        })
    })
}

fn reference_to(shape: &'static TableShape, definitions: &mut Definitions) -> Value {
    defined(definition(shape.name), definitions, |_, definitions| table(shape, definitions))
}

/// A reference to the definition of this name, which is made where there is none yet; it may contain the reference.
fn defined(name: String, definitions: &mut Definitions, make: impl FnOnce(&Value, &mut Definitions) -> Value) -> Value {
    let reference = json!({ "$ref": format!("#/$defs/{name}") });
    if !definitions.contains_key(&name) {
        definitions.insert(name.clone(), Value::Null);
        let schema = make(&reference, definitions);
        definitions.insert(name, schema);
    }
    reference
}

/// The name of a table's definition: without blanks, which language servers do not resolve in references.
fn definition(table: &str) -> String {
    table.replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{as_json, samples};

    #[test]
    fn the_schema_is_one_and_takes_every_sound_file() {
        let schema = schema();
        assert!(jsonschema::draft202012::meta::is_valid(&schema));
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for (name, text) in samples() {
            let errors: Vec<String> = validator
                .iter_errors(&as_json(text))
                .map(|e| format!("{name}: {e} at {}", e.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }

    #[test]
    fn the_schema_refuses_what_the_checker_refuses() {
        let validator = jsonschema::draft202012::new(&schema()).unwrap();
        let (_, sound) = samples()[0];
        let broken = [
            ("unknown key", sound.replace("use = ", "us = ")),
            ("wrong type", sound.replace("records = 20_000", "records = true")),
            ("unknown word", sound.replace("order = \"shuffled\"", "order = \"mixed\"")),
            ("not a quantity", sound.replace("compressible = \"0%\"", "compressible = \"0 percent\"")),
            ("two actions", sound.replace("commit = {}", "commit = {}\nclose = {}")),
            ("no action", sound.replace("commit = {}", "")),
            ("missing key", sound.replace("records = 20_000", "")),
        ];
        for (what, text) in broken {
            assert_ne!(text, sound, "{what}: the file has changed");
            assert!(!validator.is_valid(&as_json(&text)), "{what}");
        }
    }

    #[test]
    fn no_two_tables_share_a_name() {
        fn visit(shape: &'static Shape, visited: &mut Vec<&'static TableShape>) {
            match shape {
                Shape::Table(table) | Shape::Field(table) | Shape::Filter(table)
                    if !visited.iter().any(|other| std::ptr::eq(*other, *table)) =>
                {
                    assert!(visited.iter().all(|other| other.name != table.name), "`{}` twice", table.name);
                    visited.push(table);
                    table.all().for_each(|field| visit(&field.shape, visited));
                    table.rest.into_iter().for_each(|rest| visit(rest, visited));
                }
                Shape::List(inner) | Shape::Pair(inner) | Shape::Map(inner) => visit(inner, visited),
                Shape::Either(shapes) => shapes.iter().for_each(|shape| visit(shape, visited)),
                _ => {}
            }
        }
        static ROOT: Shape = Shape::Table(&grammar::ROOT);
        visit(&ROOT, &mut Vec::new());
    }
}
