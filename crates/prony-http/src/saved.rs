//! Values of answers that later requests use.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use prony_model::units::Nanos;

/// Bytes of the values of a phase that are kept at most, over all of its threads.
pub(crate) const MOST_SAVED: u64 = 1 << 30;
/// What an entry of a list takes beside its text.
const ENTRY: u64 = 48;

/// The values of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// Whether there is one value for all requests.
    pub(crate) is_single: bool,
    entries: Vec<Entry>,
}

/// A value, and the number of the record for which it was the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) value: Box<str>,
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The value in a place.
    pub(crate) fn value(&self, place: usize) -> Option<&str> {
        self.entries.get(if self.is_single { 0 } else { place }).map(|entry| &*entry.value)
    }

    /// The number of the record of the value in a place.
    pub(crate) fn number(&self, place: usize) -> Option<u64> {
        self.entries.get(place).map(|entry| entry.number)
    }

    /// The numbers of its records, each with how often it was there before: an order may visit a record more than once.
    fn records(&self) -> impl Iterator<Item = (u64, u32)> {
        let mut visits = HashMap::<u64, u32>::new();
        self.entries.iter().map(move |entry| {
            let visit = visits.entry(entry.number).or_default();
            *visit += 1;
            (entry.number, *visit)
        })
    }

    /// The lists with the records that are in all of them, in the order of the first; `None` where they have the same already.
    pub(crate) fn join(lists: &[Arc<Self>]) -> Option<Vec<Self>> {
        let (first, further) = lists.split_first()?;
        let numbers = |list: &Self| list.entries.iter().map(|entry| entry.number).collect::<Vec<_>>();
        if further.iter().all(|other| other.len() == first.len() && numbers(other) == numbers(first)) {
            return None;
        }
        let places = |list: &Arc<Self>| list.records().zip(0..).collect::<HashMap<(u64, u32), usize>>();
        let places: Vec<_> = lists.iter().map(places).collect();
        let common: Vec<_> =
            first.records().filter(|record| places.iter().all(|places| places.contains_key(record))).collect();
        let picked = |(list, places): (&Arc<Self>, &HashMap<_, usize>)| {
            let entries = common.iter().map(|record| list.entries[places[record]].clone()).collect();
            Self { is_single: false, entries }
        };
        Some(lists.iter().zip(&places).map(picked).collect())
    }

    /// The same list with other values, or the first fault in one of them.
    pub(crate) fn map<E>(&self, mut change: impl FnMut(&str) -> Result<String, E>) -> Result<Self, E> {
        let changed =
            |Entry { number, value }: &Entry| Ok(Entry { number: *number, value: change(value)?.into_boxed_str() });
        Ok(Self { is_single: self.is_single, entries: self.entries.iter().map(changed).collect::<Result<_, E>>()? })
    }

    #[cfg(test)]
    pub(crate) fn of<'a>(entries: impl IntoIterator<Item = (u64, &'a str)>) -> Self {
        let entry = |(number, value): (u64, &str)| Entry { number, value: value.into() };
        Self { is_single: false, entries: entries.into_iter().map(entry).collect() }
    }
}

/// The values of all phases so far, by name.
pub(crate) type Saved = BTreeMap<String, Arc<List>>;

/// The values that one thread found in the answers of a phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Of each saved value that takes one of each answer: number of the request, and the entry.
    lists: BTreeMap<String, Vec<(u64, Entry)>>,
    /// Of the others: when the answer came, and the entry.
    singles: BTreeMap<String, (Nanos, Entry)>,
    bytes: u64,
}

impl Found {
    /// Whether there is room for these values in a part of all that may be kept.
    pub(crate) fn has_room(&self, values: &[String], threads: u32) -> bool {
        let more: u64 = values.iter().map(|value| value.len() as u64 + ENTRY).sum();
        self.bytes + more <= MOST_SAVED / u64::from(threads.max(1))
    }

    /// Adds a value of an answer to the request with a number, about a record with a number.
    pub(crate) fn add(&mut self, name: &str, each: bool, (request, number): (u64, u64), at: Nanos, value: String) {
        let entry = Entry { number, value: value.into_boxed_str() };
        if each {
            self.bytes += entry.value.len() as u64 + ENTRY;
            match self.lists.get_mut(name) {
                Some(list) => list.push((request, entry)),
                None => drop(self.lists.insert(name.to_owned(), vec![(request, entry)])),
            }
        } else if self.singles.get(name).is_none_or(|(last, _)| *last <= at) {
            self.singles.insert(name.to_owned(), (at, entry));
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        for (name, mut list) in other.lists {
            self.lists.entry(name).or_default().append(&mut list);
        }
        for (name, (at, entry)) in other.singles {
            if self.singles.get(&name).is_none_or(|(last, _)| *last <= at) {
                self.singles.insert(name, (at, entry));
            }
        }
    }

    /// Replaces the values of these names, which a phase was to save: a list is in the order of the requests, whatever the
    /// order of their answers was. A name without a value has none afterwards.
    pub(crate) fn replace<'n>(mut self, names: impl Iterator<Item = &'n str>, saved: &mut Saved) {
        for name in names {
            let single = self.singles.remove(name).map(|(_, entry)| List { is_single: true, entries: vec![entry] });
            let list = self.lists.remove(name).map(|mut list| {
                list.sort_unstable_by_key(|(request, _)| *request);
                List { is_single: false, entries: list.into_iter().map(|(_, entry)| entry).collect() }
            });
            match single.or(list) {
                Some(list) => drop(saved.insert(name.to_owned(), Arc::new(list))),
                None => drop(saved.remove(name)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn lists_are_in_the_order_of_requests_and_singles_are_the_last_answer() {
        let (mut one, mut other) = (Found::default(), Found::default());
        one.add("id", true, (4, 40), at(1), "e".to_owned());
        one.add("id", true, (0, 10), at(2), "a".to_owned());
        one.add("last", false, (0, 10), at(2), "old".to_owned());
        other.add("id", true, (1, 30), at(1), "b".to_owned());
        other.add("last", false, (1, 30), at(5), "new".to_owned());
        other.add("last", false, (3, 30), at(4), "older".to_owned());
        one.merge(other);
        let mut saved = Saved::default();
        saved.insert("gone".to_owned(), Arc::new(List::of([(0, "x")])));
        saved.insert("stays".to_owned(), Arc::new(List::of([(0, "y")])));
        one.replace(["id", "last", "gone"].into_iter(), &mut saved);
        assert_eq!(*saved["id"], List::of([(10, "a"), (30, "b"), (40, "e")]));
        assert_eq!((saved["last"].value(99), saved["last"].is_single), (Some("new"), true));
        assert_eq!((saved["id"].value(2), saved["id"].number(1), saved["id"].value(3)), (Some("e"), Some(30), None));
        assert!(saved.contains_key("stays") && !saved.contains_key("gone"));
    }

    /// They were paired by their places: after one answer without a value each request used values of two records.
    #[test]
    fn joined_lists_are_of_the_same_records() {
        let join = |lists: &[List]| List::join(&lists.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        let users = List::of([(3, "u3"), (1, "u1"), (3, "again"), (7, "u7")]);
        assert_eq!(join(&[users.clone(), List::of([(3, "a"), (1, "b"), (3, "c"), (7, "d")])]), None);
        assert_eq!((join(std::slice::from_ref(&users)), join(&[])), (None, None));
        let joined = join(&[users.clone(), List::of([(7, "i7"), (3, "i3"), (9, "i9"), (3, "second")])]).unwrap();
        assert_eq!(joined[0], List::of([(3, "u3"), (3, "again"), (7, "u7")]));
        assert_eq!(joined[1], List::of([(3, "i3"), (3, "second"), (7, "i7")]));
        assert_eq!(join(&[users, List::of([(2, "x")])]).unwrap()[1], List::of([]));
    }

    #[test]
    fn memory_of_saved_values_is_bounded() {
        let mut found = Found::default();
        let value = "x".repeat(1 << 20);
        while found.has_room(std::slice::from_ref(&value), 64) {
            found.add("id", true, (0, 0), at(0), value.clone());
        }
        assert_eq!(found.lists["id"].len(), 15);
    }
}
