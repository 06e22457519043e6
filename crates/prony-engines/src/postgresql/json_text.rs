//! Writes documents as they were stored, from the text that the server has for their values.
//!
//! `jsonb` sorts the names of an object by their lengths and then by their bytes, and has a blank behind each `:` and `,`. Texts are
//! escaped by the server as prony escapes them, and numbers have the form in which they were stored, but for those near zero, which
//! JSON writes with an exponent: `numeric` does not. What the server writes in another form is refused before it is stored
//! (`prony_model::observed`).

use std::ops::Range;

use prony_model::json_values::NameOrder;

/// How many values may be in one another: documents that are nested deeper are not read either.
const MOST_NESTED: u32 = 128;

/// The names of objects at one place, in the order of `jsonb`.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Name>);

/// A name.
#[derive(Debug)]
struct Name {
    /// As JSON, with the colon behind it.
    json: Vec<u8>,
    /// Its place in the order in which documents were written.
    place: usize,
    inside: Names,
}

impl Names {
    /// The same names as in an order.
    pub(super) fn new(order: &NameOrder) -> Self {
        let mut sorted: Vec<_> = order.0.iter().enumerate().collect();
        sorted.sort_by_key(|(_, (name, _))| (name.len(), name.as_bytes()));
        let name = |(place, (name, inside)): (usize, &(String, NameOrder))| {
            let mut json = serde_json::to_vec(name).expect("a text can be written into memory");
            json.push(b':');
            Name { json, place, inside: Self::new(inside) }
        };
        Self(sorted.into_iter().map(name).collect())
    }
}

/// Room for a document that is written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
    /// The members of the objects that are open: their places and where they are in `out`, each with the comma behind it.
    members: Vec<(usize, Range<usize>)>,
    moved: Vec<u8>,
}

impl Writer {
    /// The document whose values a text of `jsonb` has; `None` where it is no document with such names.
    pub(super) fn document(&mut self, names: &Names, text: &[u8]) -> Option<&[u8]> {
        self.out.clear();
        self.members.clear();
        let rest = self.value(names, text, MOST_NESTED)?;
        rest.is_empty().then_some(&self.out)
    }

    /// Writes the value at the beginning of a text; what follows it.
    fn value<'t>(&mut self, names: &Names, text: &'t [u8], most: u32) -> Option<&'t [u8]> {
        let end = match text.first()? {
            b'{' => return self.object(names, text, most.checked_sub(1)?),
            b'[' => return self.list(names, text, most.checked_sub(1)?),
            b'"' => end_of_text(text)?,
            _ => text.iter().position(|byte| matches!(byte, b',' | b'}' | b']')).unwrap_or(text.len()),
        };
        let (value, rest) = text.split_at(end);
        match value.strip_prefix(b"-").unwrap_or(value) {
            [b'0', b'.', b'0', b'0', ..] => self.small_number(value)?,
            _ => self.out.extend_from_slice(value),
        }
        Some(rest)
    }

    /// JSON has an exponent for some of these.
    fn small_number(&mut self, number: &[u8]) -> Option<()> {
        let number: f64 = std::str::from_utf8(number).ok()?.parse().ok()?;
        serde_json::to_writer(&mut self.out, &number).ok()
    }

    fn list<'t>(&mut self, names: &Names, text: &'t [u8], most: u32) -> Option<&'t [u8]> {
        self.out.push(b'[');
        let mut rest = &text[1..];
        if let Some(rest) = rest.strip_prefix(b"]") {
            self.out.push(b']');
            return Some(rest);
        }
        loop {
            rest = self.value(names, rest, most)?;
            let (end, behind) = rest.split_first()?;
            self.out.push(*end);
            match end {
                b']' => return Some(behind),
                b',' => rest = behind.strip_prefix(b" ")?,
                _ => return None,
            }
        }
    }

    fn object<'t>(&mut self, names: &Names, text: &'t [u8], most: u32) -> Option<&'t [u8]> {
        self.out.push(b'{');
        let (from, first) = (self.out.len(), self.members.len());
        let mut rest = &text[1..];
        if let Some(rest) = rest.strip_prefix(b"}") {
            self.out.push(b'}');
            return Some(rest);
        }
        // Both are in one order.
        let mut known = names.0.iter();
        let (mut in_order, mut last) = (true, 0);
        loop {
            let name = known.find(|name| rest.starts_with(&name.json))?;
            let begin = self.out.len();
            self.out.extend_from_slice(&name.json);
            rest = self.value(&name.inside, rest[name.json.len()..].strip_prefix(b" ")?, most)?;
            self.out.push(b',');
            self.members.push((name.place, begin..self.out.len()));
            (in_order, last) = (in_order && name.place >= last, name.place);
            let (end, behind) = rest.split_first()?;
            match end {
                b'}' => {
                    rest = behind;
                    break;
                }
                b',' => rest = behind.strip_prefix(b" ")?,
                _ => return None,
            }
        }
        if !in_order {
            self.members[first..].sort_unstable_by_key(|(place, _)| *place);
            self.moved.clear();
            self.moved.extend_from_slice(&self.out[from..]);
            self.out.truncate(from);
            for (_, at) in &self.members[first..] {
                self.out.extend_from_slice(&self.moved[at.start - from..at.end - from]);
            }
        }
        self.members.truncate(first);
        // In place of the last comma.
        *self.out.last_mut()? = b'}';
        Some(rest)
    }
}

/// Bytes of which it is found out at once whether one ends a text.
const AT_ONCE: usize = 32;

/// Where a text in quotes ends, behind its last quote.
fn end_of_text(text: &[u8]) -> Option<usize> {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
    let mut at = 1;
    loop {
        // Without a branch for each byte.
        while let Some(chunk) = text.get(at..at + AT_ONCE)
            && !chunk.iter().fold(false, |found, byte| found | is_special(byte))
        {
            at += AT_ONCE;
        }
        at += text.get(at..)?.iter().position(is_special)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        // What is escaped is one byte, or `u` and digits.
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prony_model::observed::Observed;
    use prony_model::spec::{Encoding, FieldValue};
    use proptest::prelude::*;

    use super::*;

    /// As `jsonb` prints a value.
    fn jsonb(value: &FieldValue) -> String {
        match value {
            FieldValue::Fields(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| (name.len(), name.as_bytes().to_vec()));
                let one = |(name, value): &&(Arc<str>, FieldValue)| {
                    format!("{}: {}", serde_json::to_string(&**name).unwrap(), jsonb(value))
                };
                format!("{{{}}}", fields.iter().map(one).collect::<Vec<_>>().join(", "))
            }
            FieldValue::List(items) => format!("[{}]", items.iter().map(jsonb).collect::<Vec<_>>().join(", ")),
            // Numbers have no exponent, and as many digits behind the point as were written.
            FieldValue::Float(number) if number.fract() == 0.0 => format!("{number:.1}"),
            FieldValue::Float(number) => without_exponent(&serde_json::to_string(number).unwrap()),
            value => serde_json::to_string(value).unwrap(),
        }
    }

    /// A decimal below 1 that may have an exponent, in digits.
    fn without_exponent(text: &str) -> String {
        let Some((number, by)) = text.split_once('e') else { return text.to_owned() };
        let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
        let whole = number.split('.').next().unwrap_or_default().len() as i32;
        let zeros = "0".repeat((-by.parse::<i32>().unwrap() - whole) as usize);
        format!("{sign}0.{zeros}{}", number.replace('.', ""))
    }

    fn value() -> impl Strategy<Value = FieldValue> {
        let near_zero = (-9999i32..9999, 0i32..40).prop_map(|(digits, by)| f64::from(digits) * 10f64.powi(-by) + 0.0);
        let one = prop_oneof![
            Just(FieldValue::Null),
            any::<bool>().prop_map(FieldValue::Bool),
            any::<i64>().prop_map(FieldValue::Int),
            prop::num::f64::NORMAL.prop_map(FieldValue::Float),
            near_zero.prop_map(FieldValue::Float),
            (-1e16..1e16f64).prop_map(|number| FieldValue::Float(number.trunc() + 0.0)),
            any::<String>().prop_map(FieldValue::Text),
            "[a\"\\\\\n]{0,90}".prop_map(FieldValue::Text),
        ];
        one.prop_recursive(3, 40, 6, |inner| {
            prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(FieldValue::List), fields(inner)]
        })
    }

    /// Fields in any order, each name once.
    fn fields(value: impl Strategy<Value = FieldValue>) -> impl Strategy<Value = FieldValue> {
        prop::collection::btree_map("[abc\"\\\\é]{0,3}", value, 0..6).prop_flat_map(|fields| {
            let fields: Vec<(Arc<str>, FieldValue)> =
                fields.into_iter().map(|(name, value)| (name.as_str().into(), value)).collect();
            Just(fields).prop_shuffle().prop_map(FieldValue::Fields)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn documents_that_are_not_refused_come_back_byte_for_byte(document in fields(value()), other in fields(value())) {
            let mut observed = Observed::default();
            observed.add(&document);
            let Ok(order) = observed.finish() else { return Ok(()) };
            let (names, mut writer) = (Names::new(&order), Writer::default());
            let (text, mut expected) = (jsonb(&document), Vec::new());
            prony_workload::encode(Encoding::Json, &document, &mut expected);
            let written = writer.document(&names, text.as_bytes()).map(|written| String::from_utf8_lossy(written).into_owned());
            prop_assert_eq!(written.as_deref(), std::str::from_utf8(&expected).ok(), "{}", text);
            // In room that was used before, and left in the middle of what has other names.
            let _ = writer.document(&names, jsonb(&other).as_bytes());
            prop_assert_eq!(writer.document(&names, text.as_bytes()), Some(&expected[..]));
        }

        #[test]
        fn texts_that_are_no_documents_are_none_and_end(text in "[{}\\[\\],:\"\\\\ a0.\\-]{0,40}") {
            let order = NameOrder(vec![("a".to_owned(), NameOrder(vec![("a".to_owned(), NameOrder::default())]))]);
            let _ = Writer::default().document(&Names::new(&order), text.as_bytes());
        }
    }

    #[test]
    fn names_that_are_not_known_and_truncated_texts_are_no_documents() {
        let order = NameOrder(vec![("bb".to_owned(), NameOrder::default()), ("a".to_owned(), NameOrder::default())]);
        let (names, mut writer) = (Names::new(&order), Writer::default());
        let text = br#"{"a": [1, "x\\\"y"], "bb": 0.00000015}"#;
        assert_eq!(writer.document(&names, text), Some(&br#"{"bb":1.5e-7,"a":[1,"x\\\"y"]}"#[..]));
        assert_eq!(writer.document(&names, br#"{"c": 1}"#), None);
        for length in 0..text.len() {
            assert_eq!(writer.document(&names, &text[..length]), None, "{length}");
        }
    }
}
