//! Finds out whether the text of JSON documents follows from their values.
//!
//! An engine may store the values and not the text, as PostgreSQL does in `jsonb`: names have an order of its own, numbers are decimals
//! of any length, and texts have no U+0000. The text of a document can be written again if all documents write the names of each place in one order, and if each
//! number is one that has a single form.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{DocumentSpec, FieldSpec, FieldValue, Generator};
use crate::json_values::{Altered, MOST_NAMES, MOST_NESTED, NameOrder, Part};
use crate::key::KeySpec;

/// A whole float from here on is written like a whole number by `numeric`: JSON writes it with an exponent.
const LARGE: f64 = 1e16;

/// Whether a number is known from the decimal that `numeric` has for it: it has no negative zero.
fn has_one_form(number: f64) -> bool {
    number.abs() < LARGE && !(number == 0.0 && number.is_sign_negative())
}

/// Whether a text can be stored, and is below U+10FFFF: that bounds the texts with a beginning above which there is none, such as
/// the empty one.
fn can_be_stored(text: &str) -> bool {
    !text.contains('\0') && !text.starts_with('\u{10FFFF}')
}

/// What documents have, as far as it decides whether they come back.
#[derive(Debug, Default)]
pub struct Observed {
    objects: Objects,
    count: usize,
    altered: Option<Altered>,
}

/// The objects at one place.
#[derive(Debug, Default)]
struct Objects {
    /// In the order in which they were found.
    names: Vec<(String, Objects)>,
    by_name: BTreeMap<String, usize>,
    /// Names of which the first is before the second in some object.
    pairs: BTreeSet<(usize, usize)>,
}

/// What was found, and the names of its field from the innermost one.
type Fault = (Part, Vec<String>);

impl Observed {
    /// Adds a document.
    pub fn add(&mut self, document: &FieldValue) {
        if self.altered.is_none() {
            let added = self.objects.add(document, &mut self.count);
            self.note(added);
        }
    }

    fn add_fields(&mut self, fields: &[FieldSpec]) {
        let added = self.objects.add_made(fields, &mut self.count);
        self.note(added);
    }

    fn note(&mut self, added: Result<(), Fault>) {
        self.altered = added.err().map(|(part, mut field)| {
            field.reverse();
            Altered { field, part }
        });
    }

    /// The order of all names.
    ///
    /// # Errors
    /// The first part that does not come back.
    pub fn finish(self) -> Result<NameOrder, Altered> {
        match self.altered {
            Some(altered) => Err(altered),
            None => {
                let order = self.objects.order().map_err(|mut field| {
                    field.reverse();
                    Altered { field, part: Part::Order }
                })?;
                let nested = Altered { field: Vec::new(), part: Part::Nested };
                if order.depth() > MOST_NESTED { Err(nested) } else { Ok(order) }
            }
        }
    }
}

fn inside(name: &str, fault: Fault) -> Fault {
    let (part, mut field) = fault;
    field.push(name.to_owned());
    (part, field)
}

impl Objects {
    /// Adds a value at this place.
    fn add(&mut self, value: &FieldValue, count: &mut usize) -> Result<(), Fault> {
        match value {
            FieldValue::Float(number) if !has_one_form(*number) => Err((Part::Number, Vec::new())),
            FieldValue::Text(text) if !can_be_stored(text) => Err((Part::Text, Vec::new())),
            FieldValue::List(items) => items.iter().try_for_each(|item| self.add(item, count)),
            FieldValue::Fields(fields) => {
                let mut before = None;
                for (name, value) in fields {
                    let at = self.after(before, name, count)?;
                    before = Some(at);
                    self.names[at].1.add(value, count).map_err(|fault| inside(name, fault))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds the objects of such fields: each is there, or not, in this order.
    fn add_made(&mut self, fields: &[FieldSpec], count: &mut usize) -> Result<(), Fault> {
        let mut before = None;
        for field in fields {
            let at = self.after(before, &field.name, count)?;
            before = Some(at);
            self.names[at].1.add_value_of(&field.value, count).map_err(|fault| inside(&field.name, fault))?;
        }
        Ok(())
    }

    fn add_value_of(&mut self, generator: &Generator, count: &mut usize) -> Result<(), Fault> {
        let begins = |parts: &[String]| {
            let stored =
                parts.iter().all(|part| !part.contains('\0')) && parts.first().is_none_or(|one| can_be_stored(one));
            if stored { Ok(()) } else { Err((Part::Text, Vec::new())) }
        };
        match generator {
            Generator::Constant(value) => self.add(value, count),
            Generator::Cycle(values) => values.iter().try_for_each(|value| self.add(value, count)),
            Generator::Template(parts) => begins(parts),
            Generator::Reference(to) => match &to.key {
                KeySpec::Template { parts, .. } => begins(parts),
                KeySpec::Hashed { prefix, .. } => begins(std::slice::from_ref(prefix)),
                KeySpec::Integer { .. } => Ok(()),
            },
            Generator::List { of, .. } => self.add_value_of(of, count),
            Generator::Items(items) => items.iter().try_for_each(|item| self.add_value_of(item, count)),
            Generator::Fields(fields) => self.add_made(fields, count),
            // These make numbers and texts of their own, or are of a file, whose rows were added.
            Generator::Sequence { .. }
            | Generator::Uniform(..)
            | Generator::Zipfian(..)
            | Generator::Text { .. }
            | Generator::Words { .. }
            | Generator::Uuid
            | Generator::Date { .. }
            | Generator::InFile(_) => Ok(()),
        }
    }

    /// Notes that a name follows the one with this place, or is the first; its own place among the names.
    fn after(&mut self, before: Option<usize>, name: &str, count: &mut usize) -> Result<usize, Fault> {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None if name.contains('\0') => return Err((Part::Text, vec![name.to_owned()])),
            None if *count == MOST_NAMES => return Err((Part::Names, Vec::new())),
            None => {
                *count += 1;
                self.names.push((name.to_owned(), Self::default()));
                self.by_name.insert(name.to_owned(), self.names.len() - 1);
                self.names.len() - 1
            }
        };
        self.pairs.extend(before.map(|before| (before, at)));
        Ok(at)
    }

    /// An order in which each name is behind those that are before it in some object: of several names that may come next the one
    /// that was found first. The error is the place without one, from the innermost name.
    fn order(self) -> Result<NameOrder, Vec<String>> {
        let Self { mut names, pairs, .. } = self;
        let mut waits = vec![0usize; names.len()];
        pairs.iter().for_each(|(_, after)| waits[*after] += 1);
        let mut free: BTreeSet<usize> = (0..names.len()).filter(|at| waits[*at] == 0).collect();
        let mut order = Vec::with_capacity(names.len());
        while let Some(at) = free.pop_first() {
            let (name, objects) = std::mem::take(&mut names[at]);
            let inner = objects.order().map_err(|mut field| {
                field.push(name.clone());
                field
            })?;
            order.push((name, inner));
            for (_, after) in pairs.range((at, 0)..=(at, usize::MAX)) {
                waits[*after] -= 1;
                if waits[*after] == 0 {
                    free.insert(*after);
                }
            }
        }
        if order.len() == names.len() { Ok(NameOrder(order)) } else { Err(Vec::new()) }
    }
}

impl DocumentSpec {
    /// The order of the names of the documents, if their text follows from their values.
    ///
    /// # Errors
    /// A part of which it does not.
    pub fn name_order(&self) -> Result<NameOrder, Altered> {
        if let Some(file) = &self.file {
            return file.altered.clone().map_or_else(|| Ok(file.names.clone()), Err);
        }
        let mut observed = Observed::default();
        observed.add_fields(&self.fields);
        observed.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Encoding;
    use crate::units::Fraction;

    #[test]
    fn order_of_objects_that_lie_too_deep_is_not_recorded() {
        let nested = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        assert!(of(&[&nested(MOST_NESTED)]).is_ok());
        assert_eq!(of(&[&nested(MOST_NESTED + 1)]).unwrap_err().part, Part::Nested);
    }

    fn of(rows: &[&str]) -> Result<NameOrder, Altered> {
        let mut observed = Observed::default();
        rows.iter().for_each(|row| observed.add(&serde_json::from_str(row).unwrap()));
        observed.finish()
    }

    /// As JSON: a list of names, each with those inside.
    fn order(rows: &[&str]) -> String {
        serde_json::to_string(&of(rows).unwrap()).unwrap()
    }

    fn altered(rows: &[&str]) -> (String, Part) {
        let altered = of(rows).unwrap_err();
        (altered.field.join("/"), altered.part)
    }

    #[test]
    fn names_are_in_the_order_of_all_documents_that_have_them() {
        assert_eq!(order(&[r#"{"b":1,"a":2}"#]), r#"[["b",[]],["a",[]]]"#);
        let some = [r#"{"a":1,"c":1}"#, r#"{"b":1,"c":1}"#, r#"{"b":1,"a":1}"#];
        assert_eq!(order(&some), r#"[["b",[]],["a",[]],["c",[]]]"#);
        assert_eq!(
            order(&[r#"{"x.y":{"b":1},"l":[1,{"d":1},[{"c":1}]]}"#]),
            r#"[["x.y",[["b",[]]]],["l",[["d",[]],["c",[]]]]]"#
        );
        assert_eq!(order(&["{}", r#"{"a":{}}"#]), r#"[["a",[]]]"#);
    }

    #[test]
    fn what_does_not_come_back_is_named_by_its_field() {
        assert_eq!(altered(&[r#"{"a":1,"b":1}"#, r#"{"b":1,"a":1}"#]), (String::new(), Part::Order));
        assert_eq!(altered(&[r#"{"x":{"y":[{"a":1,"b":1},{"b":1,"a":1}]}}"#]), ("x/y".to_owned(), Part::Order));
        assert_eq!(altered(&[r#"{"x":{"y":1e16}}"#]), ("x/y".to_owned(), Part::Number));
        assert_eq!(altered(&[r#"{"x":[-1e300]}"#]), ("x".to_owned(), Part::Number));
        assert_eq!(altered(&[r#"{"x":-0.0}"#]), ("x".to_owned(), Part::Number));
        assert_eq!(altered(&[r#"{"x":"a\u0000"}"#]), ("x".to_owned(), Part::Text));
        assert_eq!(altered(&[r#"{"x":{"a\u0000":1}}"#]), ("x/a\0".to_owned(), Part::Text));
        assert_eq!(altered(&["{\"x\":\"\u{10FFFF}\"}"]), ("x".to_owned(), Part::Text));
        assert!(of(&[r#"{"x":[1e15,0.0,1.5e-300,9223372036854775807,"a"]}"#]).is_ok());
    }

    #[test]
    fn names_that_are_data_are_too_many() {
        let mut observed = Observed::default();
        for number in 0..=MOST_NAMES {
            observed.add(&serde_json::from_str(&format!(r#"{{"likes":[{{"user{number}":1}}]}}"#)).unwrap());
        }
        let altered = observed.finish().unwrap_err();
        assert_eq!((altered.field.join("/"), altered.part), ("likes".to_owned(), Part::Names));
    }

    #[test]
    fn generators_have_the_names_and_faults_of_what_they_make() {
        let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::ONE };
        let document = |fields| DocumentSpec { fields, encoding: Encoding::Json, file: None };
        let nested = |names: &[&str]| {
            let one = |name: &&str| field(name, Generator::Uuid);
            Generator::Fields(names.iter().map(one).collect())
        };
        let list = Generator::List { of: Box::new(nested(&["z", "y"])), items: (0, 3) };
        let fields = vec![field("b", list), field("a", Generator::Items(vec![nested(&["q", "p"]), nested(&["q"])]))];
        let order = document(fields).name_order().unwrap();
        assert_eq!(serde_json::to_string(&order).unwrap(), r#"[["b",[["z",[]],["y",[]]]],["a",[["q",[]],["p",[]]]]]"#);
        let fault = |value| document(vec![field("a", value)]).name_order().unwrap_err();
        let text = |text: &str| FieldValue::Text(text.to_owned());
        assert_eq!(fault(Generator::Items(vec![nested(&["q", "p"]), nested(&["p", "q"])])).part, Part::Order);
        assert_eq!(fault(Generator::Constant(FieldValue::Float(1e16))).part, Part::Number);
        assert_eq!(fault(Generator::Cycle(vec![text("a"), text("\0")])).part, Part::Text);
        assert_eq!(fault(Generator::Template(vec!["a".to_owned(), "\0".to_owned()])).part, Part::Text);
    }
}
