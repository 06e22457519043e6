//! Refuses documents that an engine would not give back as they were written.

use super::collections;
use crate::node::Node;
use crate::problem::Problems;
use prony_model::catalog::EngineFacts;
use prony_model::json_values::{Altered, MOST_NAMES, MOST_NESTED, Part};
use prony_model::spec::{CollectionSpec, Encoding};

/// Documents of which an engine stores the values, and whose text does not follow from these; `node` is the table of the collection.
pub(crate) fn come_back(
    node: &Node,
    data: &CollectionSpec,
    (engine, facts): (&str, &EngineFacts),
    problems: &mut Problems<'_>,
) {
    let document = data.document().filter(|document| facts.can.stores_values && document.encoding == Encoding::Json);
    let Some(Err(altered)) = document.map(|document| document.name_order()) else { return };
    let value = node.get("file").or_else(|| {
        let document = node.get("document")?;
        Some(altered.field.first().and_then(|name| document.get(name)).unwrap_or(document))
    });
    let span = value.unwrap_or(node).span.clone();
    let of = collections::described(data);
    let message = format!("`{engine}` stores the values of JSON documents, not their text, {}", found(&altered, &of));
    problems.fault((value.unwrap_or(node), span), message, advice(altered.part));
}

/// What a document has that is not known from its values.
fn found(altered: &Altered, of: &str) -> String {
    let place = match altered.field.as_slice() {
        [] => format!("the documents of {of}"),
        // A name may have characters that act on a terminal.
        names => format!("the field `{}`", names.join(".").escape_debug()),
    };
    match altered.part {
        Part::Order => format!("and the names in {place} are not in the same order everywhere"),
        Part::Nested => format!("and they have more than {MOST_NESTED} objects in one another"),
        Part::Names => format!("and lists in {place} have more than {MOST_NAMES} different names"),
        Part::Number => {
            format!("and {place} has a number that it would write in another form: -0.0, or a float of 1e16 or more")
        }
        Part::Text => format!("and {place} has a text or name with U+0000, or a text that begins with U+10FFFF"),
    }
}

const fn advice(part: Part) -> &'static str {
    match part {
        Part::Order => "write the fields in one order, or leave the variant out with `[design] skip`",
        Part::Nested | Part::Names | Part::Text => {
            "change the documents, or leave the variant out with `[design] skip`"
        }
        Part::Number => "write the number as a text, or leave the variant out with `[design] skip`",
    }
}
