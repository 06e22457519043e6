//! The street map's exchange format for changes, `osmChange` 0.6: everything in one `<create>`, ids negative as editors
//! write those of new elements.

use std::io::{self, Write};

use jiff::Timestamp;
use prony_core::units::Bytes;
use prony_core::workload::{Body, Element, Kind, MapData, Tag};

use super::Amount;

const HEAD: &str =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<osmChange version=\"0.6\" generator=\"prony\">\n<create>\n";
const TAIL: &str = "</create>\n</osmChange>\n";

/// Elements are handed over in pieces of about so many bytes.
const PIECE: usize = 64 << 10;

/// A file of changes.
#[derive(Clone, Debug)]
pub struct OsmChange {
    /// What is in it.
    pub map: MapData,
    /// The changeset that every element names; any text.
    pub changeset: String,
    /// How much of the map.
    pub amount: Amount,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its length.
    pub bytes: Bytes,
    /// Nodes, ways, relations.
    pub elements: [u64; 3],
}

impl OsmChange {
    /// Writes it, and says what it holds.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<Written> {
        let changeset = escaped(&self.changeset);
        let (mut piece, mut written, mut bytes) = (HEAD.to_owned(), Written::default(), 0);
        for element in self.map.elements() {
            let ends_at = bytes + (piece.len() + TAIL.len()) as u64;
            if self.amount.reached(written.elements.iter().sum(), ends_at) {
                break;
            }
            push(&element, &changeset, &mut piece);
            written.elements[Kind::ALL.iter().position(|kind| *kind == element.body.kind()).unwrap_or_default()] += 1;
            if piece.len() >= PIECE {
                out.write_all(piece.as_bytes())?;
                bytes += piece.len() as u64;
                piece.clear();
            }
        }
        piece.push_str(TAIL);
        out.write_all(piece.as_bytes())?;
        Ok(Written { bytes: Bytes::from_bytes(bytes + piece.len() as u64), ..written })
    }
}

fn push(element: &Element, changeset: &str, out: &mut String) {
    let (name, number, user) = (element.body.kind().name(), element.number, element.user);
    let at = i64::try_from(element.at).ok().and_then(|at| Timestamp::from_second(at).ok()).unwrap_or_default();
    *out += &format!(
        " <{name} id=\"-{number}\" version=\"1\" timestamp=\"{at}\" changeset=\"{changeset}\" uid=\"{user}\" \
         user=\"mapper {user}\""
    );
    if let Body::Node { latitude, longitude } = &element.body {
        *out += &format!(" lat=\"{}\" lon=\"{}\"", degrees(*latitude), degrees(*longitude));
    }
    let inside = out.len() + 2;
    *out += ">\n";
    match &element.body {
        Body::Node { .. } => {}
        Body::Way(nodes) => nodes.iter().for_each(|node| *out += &format!("  <nd ref=\"-{node}\"/>\n")),
        Body::Relation(members) => members.iter().for_each(|member| {
            let (kind, number, role) = (member.kind.name(), member.number, member.role);
            *out += &format!("  <member type=\"{kind}\" ref=\"-{number}\" role=\"{role}\"/>\n");
        }),
    }
    for Tag { name, value } in &element.tags {
        *out += &format!("  <tag k=\"{name}\" v=\"{}\"/>\n", escaped(value));
    }
    if out.len() == inside {
        out.truncate(inside - 2);
        *out += "/>\n";
    } else {
        *out += &format!(" </{name}>\n");
    }
}

/// Units of 1e-7 degrees as a decimal number.
fn degrees(units: i32) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let units = units.unsigned_abs();
    format!("{sign}{}.{:07}", units / 10_000_000, units % 10_000_000)
}

/// As an attribute in double quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(seed: u64, amount: Amount) -> (String, Written) {
        let mut out = Vec::new();
        let change = OsmChange { map: MapData::new(seed), changeset: "\"<1>\"".to_owned(), amount };
        let written = change.write(&mut out).unwrap();
        (String::from_utf8(out).unwrap(), written)
    }

    #[test]
    fn the_file_has_what_was_asked_for() {
        let (text, written) = self::written(1, Amount::Count(1_000));
        assert_eq!((written.elements, written.bytes), ([880, 110, 10], Bytes::from_bytes(text.len() as u64)));
        for (kind, expected) in Kind::ALL.iter().zip(written.elements) {
            assert_eq!(text.matches(&format!(" <{} id=", kind.name())).count() as u64, expected);
        }
        assert!(text.starts_with(HEAD) && text.ends_with(TAIL));
        assert_eq!(text, self::written(1, Amount::Count(1_000)).0);
        assert_ne!(text, self::written(2, Amount::Count(1_000)).0);
    }

    #[test]
    fn bytes_are_reached_with_the_last_element() {
        let wanted = Bytes::from_bytes(200_000);
        let (text, written) = self::written(1, Amount::Bytes(wanted));
        let count = written.elements.iter().sum();
        let (one_less, _) = self::written(1, Amount::Count(count - 1));
        assert!(one_less.len() < 200_000 && text.len() >= 200_000, "{} and {}", one_less.len(), text.len());
        assert_eq!(text, self::written(1, Amount::Count(count)).0);
    }

    #[test]
    fn an_empty_file_is_one_too() {
        let (text, written) = self::written(1, Amount::Count(0));
        assert_eq!((text, written.elements), (format!("{HEAD}{TAIL}"), [0; 3]));
    }

    #[test]
    fn attributes_are_escaped_and_elements_closed() {
        let (text, _) = self::written(1, Amount::Count(5_000));
        assert!(text.contains("changeset=\"&quot;&lt;1&gt;&quot;\"") && text.contains("&amp;"), "escaped");
        let attributes = text.split('"').skip(1).step_by(2);
        assert!(attributes.clone().count() > 10_000);
        for attribute in attributes.skip(3) {
            let entities = attribute.matches('&').count();
            let known = ["&amp;", "&lt;", "&gt;", "&quot;"].iter().map(|e| attribute.matches(e).count()).sum::<usize>();
            assert!(!attribute.contains(['<', '>']) && entities == known, "{attribute}");
        }
        for kind in Kind::ALL.map(Kind::name) {
            let opening: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!(" <{kind} "))).collect();
            let short = opening.iter().filter(|line| line.ends_with("/>")).count();
            assert_eq!(opening.len(), short + text.matches(&format!(" </{kind}>\n")).count(), "{kind}");
        }
    }

    #[test]
    fn degrees_are_exact() {
        assert_eq!(degrees(-1_554_000_001), "-155.4000001");
        assert_eq!(degrees(-5), "-0.0000005");
        assert_eq!(degrees(195_300_000), "19.5300000");
    }
}
