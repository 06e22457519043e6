//! What the requests of a load contain, and over what they go: their own numbers, records, or saved values.

use std::collections::BTreeSet;
use std::sync::Arc;

use prony_model::http::ExpectedStatuses;
use prony_model::spec::{FieldValue, Order};
use prony_workload::{Positions, Records, Share};

use crate::answer_check::AnswerCheck;
use crate::kinds::{Kind, Kinds};
use crate::outgoing::{About, Outgoing};
use crate::request::Template;
use crate::saved::List;
use crate::session::{At, Session};
use crate::text::{Piece, Text, Values};

/// What the order of requests goes over.
#[derive(Clone, Debug)]
pub(crate) enum Over {
    /// Nothing: each request, or session, has its number.
    Requests,
    /// The records of a collection.
    Records,
    /// The values of the lists, which say which record is at hand: that of the first list of a request, or else the first of all.
    Lists,
}

/// What requests need of the document at hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) whole: bool,
    /// The outermost names of fields.
    pub(crate) fields: BTreeSet<String>,
}

impl Needs {
    /// Adds what a text needs.
    pub(crate) fn add(&mut self, text: &Text) {
        self.fields.extend(text.pieces().iter().filter_map(|piece| match piece {
            Piece::Field(path) => path.0.first().cloned(),
            _ => None,
        }));
    }

    pub(crate) fn any(&self) -> bool {
        self.whole || !self.fields.is_empty()
    }
}

/// The requests of a load.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) kinds: Kinds,
    pub(crate) records: Option<Records>,
    /// Those that a request uses are of the same records.
    pub(crate) lists: Vec<Arc<List>>,
    /// Which saved values no request uses, in words.
    pub(crate) notes: Vec<String>,
    pub(crate) over: Over,
    pub(crate) order: Order,
    pub(crate) seed: u64,
    pub(crate) needs: Needs,
}

impl Content {
    /// Requests that differ by their numbers only.
    pub(crate) fn numbered(template: Template, answer_check: Option<AnswerCheck>, expect: ExpectedStatuses) -> Self {
        let (records, lists, needs) = (None, Vec::new(), Needs::default());
        let kind = Kind { name: None, weight: 1.0, template, list: None, expect, answer_check, captures: Vec::new() };
        let kinds = Kinds::of(vec![kind], false, 0);
        Self { kinds, records, lists, notes: Vec::new(), over: Over::Requests, order: Order::Record, seed: 0, needs }
    }

    /// How many records or values there are; `None` where there are none.
    pub(crate) fn count(&self) -> Option<u64> {
        match self.over {
            Over::Requests => None,
            Over::Records => self.records.as_ref().map(Records::count),
            Over::Lists => self.lists.iter().map(|list| list.len() as u64).min(),
        }
    }

    /// The places of one thread's requests; `None` where a place is the request's number.
    pub(crate) fn positions(&self, share: Share) -> Option<Positions> {
        match (&self.over, &self.records) {
            (Over::Records, Some(records)) => Some(Positions::new(&self.order, records, self.seed, share)),
            _ => self.count().map(|count| Positions::over(&self.order, count, self.seed, share)),
        }
    }

    /// Makes a request of a session. Where that fails, `out` says why.
    pub(crate) fn write(&self, at: At, session: &Session, out: &mut Outgoing, scratch: &mut Vec<u8>) {
        out.clear();
        let entry = at.place as usize;
        let number = match self.over {
            Over::Requests | Over::Records => at.place,
            Over::Lists => {
                let list = self.kinds.kind(at.request).list.unwrap_or_default();
                self.lists.get(list).and_then(|list| list.number(entry)).unwrap_or_default()
            }
        };
        let document = self.document(number);
        let values =
            Values { number, lists: &self.lists, entry, session: session.values(), document: document.as_ref() };
        out.about = About { number, place: at.place, ..About::default() };
        out.fault = self.kinds.template(at.request).write(&values, out, scratch).err();
    }

    /// What requests need of a record's document.
    fn document(&self, number: u64) -> Option<FieldValue> {
        let records = self.records.as_ref().filter(|_| self.needs.any())?;
        if self.needs.whole {
            return records.document(number, 0);
        }
        records.part_of_document(number, |name| self.needs.fields.contains(name))
    }
}
