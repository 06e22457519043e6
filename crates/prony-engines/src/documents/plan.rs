//! Plans a query: which index it reads, and in which ranges.

use prony_model::query::{Filter, QuerySpec, Test};
use prony_model::spec::{FieldPath, FieldValue};

use super::indexes::{Field, Index, Indexes};
use super::order;

/// The most ranges of an index that a query reads.
const MOST_RANGES: usize = 1_000;

/// How a query reads an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The number of the index.
    pub(super) index: usize,
    /// The byte before its entries.
    byte: u8,
    /// The tests that bound its first fields, by their numbers among [`conjuncts`]: one test for equality per field, and of
    /// the last field possibly some for a range instead.
    tests: Vec<Vec<usize>>,
    /// How many of the fields have a test for equality.
    equal: usize,
    /// Entries come in the order of the rows.
    pub(super) in_order: bool,
}

/// Keys from the first one on and below the second one.
pub(super) type Range = (Vec<u8>, Vec<u8>);

/// The tests of fields that every document found must pass.
fn conjuncts<V>(filter: &Filter<V>) -> Vec<(&FieldPath, &Test<V>)> {
    match filter {
        Filter::All(filters) => filters.iter().flat_map(conjuncts).collect(),
        Filter::Any(filters) => match filters.as_slice() {
            [only] => conjuncts(only),
            _ => Vec::new(),
        },
        Filter::Field(path, test) => vec![(path, test)],
    }
}

impl Plan {
    /// The index by which the query reads least, as far as that shows without statistics: that with most fields that must
    /// equal something, then with a range of the next field, then in the order of the rows. `None` where all documents are
    /// read: no test bounds an index and none gives the first rows first, or a range alone bounds it while the documents have
    /// the order of the rows and a limit may end their scan.
    pub(super) fn new(query: &QuerySpec, indexes: &Indexes) -> Option<Self> {
        let tests = conjuncts(&query.filter);
        let mut best: Option<Self> = None;
        for (number, index) in indexes.all.iter().enumerate() {
            let plan = Self { byte: indexes.byte(number), ..Self::of(number, index, query, &tests) };
            let ends_early = plan.in_order && query.limit.is_some();
            // All documents are in order where there is no sort: with a limit it may take few of them.
            let all_end_early = query.sort.is_empty() && query.limit.is_some();
            let usable = plan.equal > 0 || ends_early || (!plan.tests.is_empty() && !all_end_early);
            if usable && best.as_ref().is_none_or(|best| plan.rank() > best.rank()) {
                best = Some(plan);
            }
        }
        best
    }

    /// Whether entries are of one value, or of some.
    pub(super) fn has_equality(&self) -> bool {
        self.equal > 0
    }

    fn rank(&self) -> (usize, usize, bool) {
        (self.equal, self.tests.len(), self.in_order)
    }

    fn of<V>(number: usize, index: &Index, query: &QuerySpec, conjuncts: &[(&FieldPath, &Test<V>)]) -> Self {
        let (mut tests, mut equal, mut ranges) = (Vec::new(), 0, 1usize);
        // Fields of which all entries in a range have the same value.
        let mut constant = Vec::new();
        for field in &index.fields {
            let own = || conjuncts.iter().enumerate().filter(|(_, (path, _))| **path == field.path);
            let values = own().filter_map(|(at, (_, test))| Some((equalities(test)?, at)));
            match values.min().filter(|(values, _)| ranges.saturating_mul(*values) <= MOST_RANGES) {
                Some((values, at)) => {
                    tests.push(vec![at]);
                    constant.push(values == 1);
                    (equal, ranges) = (equal + 1, ranges.saturating_mul(values.max(1)));
                }
                None => {
                    // Two items of a list may pass a test each, so that no single entry lies in both ranges.
                    let at_once = if field.list { 1 } else { usize::MAX };
                    let mut of_range: Vec<_> = own().filter(|(_, (_, test))| is_range(test)).collect();
                    of_range.sort_by_key(|(_, (_, test))| matches!(test, Test::Exists(_)));
                    let of_range: Vec<usize> = of_range.into_iter().map(|(at, _)| at).take(at_once).collect();
                    tests.extend((!of_range.is_empty()).then_some(of_range));
                    break;
                }
            }
        }
        let in_order = is_in_order(&index.fields, &constant, query);
        Self { index: number, byte: 0, tests, equal, in_order }
    }

    /// The ranges of the index, in order and apart, that hold entries of all documents that the filter may find.
    pub(super) fn ranges(&self, filter: &Filter<FieldValue>) -> Vec<Range> {
        let conjuncts = conjuncts(filter);
        let test = |at: usize| conjuncts[at].1;
        let mut prefixes = vec![vec![self.byte]];
        for tests in &self.tests[..self.equal] {
            let mut values: Vec<Vec<u8>> = tests.iter().flat_map(|at| equal_to(test(*at))).collect();
            if let [only] = values.as_slice() {
                prefixes.iter_mut().for_each(|prefix| prefix.extend_from_slice(only));
                continue;
            }
            values.sort_unstable();
            values.dedup();
            prefixes = prefixes.iter().flat_map(|prefix| values.iter().map(|value| joined(prefix, value))).collect();
        }
        let Some(last) = self.tests.get(self.equal) else {
            return prefixes.into_iter().map(|prefix| (prefix.clone(), order::successor(prefix))).collect();
        };
        let within = last.iter().filter_map(|at| range_of(test(*at))).collect::<Vec<Range>>();
        if within.len() < last.len() {
            return Vec::new();
        }
        let low = within.iter().map(|range| &range.0).max();
        let high = within.iter().map(|range| &range.1).min();
        match (low, high) {
            (Some(low), Some(high)) if low < high => {
                prefixes.iter().map(|prefix| (joined(prefix, low), joined(prefix, high))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// For the record: the index, and how it is read.
    pub(super) fn describe(&self, indexes: &Indexes, query: &QuerySpec) -> String {
        let first =
            |count: usize| if count == 1 { "the first field".to_owned() } else { format!("the first {count} fields") };
        let bounds = match (self.equal, self.tests.len() - self.equal) {
            (0, 0) => "all entries".to_owned(),
            (0, _) => "a range of the first field".to_owned(),
            (equal, 0) => format!("equality of {}", first(equal)),
            (equal, _) => format!("equality of {} and a range of the next", first(equal)),
        };
        let order = match (self.in_order, query) {
            (true, _) => ", rows in its order",
            (false, query) if query.count => "",
            _ => ", all that fit are sorted",
        };
        format!("index `{}`: {bounds}{order}", indexes.name(self.index))
    }
}

fn joined(prefix: &[u8], value: &[u8]) -> Vec<u8> {
    [prefix, value].concat()
}

/// How many values pass a test for equality; `None` for another test.
fn equalities<V>(test: &Test<V>) -> Option<usize> {
    match test {
        Test::In(values) => Some(values.len()),
        Test::Exists(false) => Some(1),
        _ => None,
    }
}

fn is_range<V>(test: &Test<V>) -> bool {
    equalities(test).is_none()
}

/// The encoded values that pass a test for equality. Lists and nested fields are equal to nothing.
fn equal_to(test: &Test<FieldValue>) -> Vec<Vec<u8>> {
    match test {
        Test::In(values) => values.iter().filter_map(comparable).collect(),
        _ => vec![encoded(None)],
    }
}

/// The encoded values that pass another test; `None` where none does.
fn range_of(test: &Test<FieldValue>) -> Option<Range> {
    let kind_of = |value: &[u8]| (value[..1].to_vec(), order::above_kind(value).to_vec());
    Some(match test {
        Test::Gt(value) => comparable(value).map(|value| (order::successor(value.clone()), kind_of(&value).1))?,
        Test::Gte(value) => comparable(value).map(|value| (value.clone(), kind_of(&value).1))?,
        Test::Lt(value) => comparable(value).map(|value| (kind_of(&value).0, value))?,
        Test::Lte(value) => comparable(value).map(|value| (kind_of(&value).0, order::successor(value)))?,
        Test::Between(from, to) => {
            comparable(from).zip(comparable(to)).map(|(from, to)| (from, order::successor(to)))?
        }
        Test::Prefix(FieldValue::Text(text)) => {
            let mut low = Vec::new();
            order::push_beginning(text, &mut low);
            (low.clone(), order::successor(low))
        }
        Test::Exists(true) => (order::PRESENT.to_vec(), order::ABOVE_ALL.to_vec()),
        Test::Prefix(_) | Test::In(_) | Test::Exists(false) => return None,
    })
}

fn comparable(value: &FieldValue) -> Option<Vec<u8>> {
    let has_order = !matches!(value, FieldValue::List(_) | FieldValue::Fields(_));
    has_order.then(|| encoded(Some(value)))
}

fn encoded(value: Option<&FieldValue>) -> Vec<u8> {
    let mut bytes = Vec::new();
    order::encode(value, &mut bytes);
    bytes
}

/// Whether entries come in the order of the rows: by the fields of the sort and then by key. `constant` says of the first
/// fields whether all entries that are read have the same value.
fn is_in_order(fields: &[Field], constant: &[bool], query: &QuerySpec) -> bool {
    let mut sort = query.sort.iter().filter(|key| {
        let field = fields.iter().position(|field| field.path == key.field);
        field.is_none_or(|at| fields[at].list || constant.get(at) != Some(&true))
    });
    let mut left = fields.iter().enumerate().filter(|(at, _)| constant.get(*at) != Some(&true));
    let each = left
        .by_ref()
        .all(|(_, field)| sort.next().is_some_and(|key| key.field == field.path && !key.descending && !field.list));
    each && sort.next().is_none() && !query.count
}
