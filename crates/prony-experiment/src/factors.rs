//! Reads the factors and their levels from the file, and applies `--set` and `--only`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::design::{ALL, Factor, Level, NONE, WITHOUT};
use super::node::{Entry, Node, Value};
use super::placeholder::NAMESPACES;
use super::problem::{At, Problem, Problems, known_hint};
use prony_model::catalog::Overrides;
use prony_model::units::{parse_bytes, parse_time};

/// A factor with its levels.
#[derive(Clone, Debug)]
pub(crate) struct FactorDef {
    pub(crate) name: String,
    /// Where its name is written.
    pub(crate) span: Range<usize>,
    pub(crate) levels: Vec<LevelDef>,
    /// Whether levels are a table's keys.
    labelled: bool,
    /// The first place of each label, and of each number that a level is.
    index: Index,
    /// How many levels the file has.
    written: usize,
    /// Whether a search determines its levels, so that `[design]` does not.
    pub(crate) free: bool,
}

/// Levels by their labels: a file may have a hundred thousand, and name each of them in `skip` or `when`.
#[derive(Clone, Debug, Default)]
struct Index {
    labels: BTreeMap<String, usize>,
    /// By the number's bits.
    numbers: BTreeMap<u64, usize>,
}

impl Index {
    fn of(levels: &[LevelDef]) -> Self {
        let mut index = Self::default();
        levels.iter().enumerate().for_each(|(at, level)| index.add(at, level));
        index
    }

    /// A text such as `1.1` may be a version, which is not `1.10`.
    fn add(&mut self, at: usize, level: &LevelDef) {
        self.labels.entry(level.label.clone()).or_insert(at);
        let number = level.node.number().filter(|_| level.label == level.node.label());
        number.map(|number| self.numbers.entry(bits(number)).or_insert(at));
    }
}

/// Zero has two signs, but is one level.
fn bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

/// A level.
#[derive(Clone, Debug)]
pub(crate) struct LevelDef {
    pub(crate) label: String,
    pub(crate) node: Node,
    /// Whether the command line includes it.
    pub(crate) selected: bool,
    /// The level of the file from which `--set FACTOR.SETTING` made it, by index.
    of: Option<usize>,
}

impl LevelDef {
    /// One that runs.
    const fn new(label: String, node: Node) -> Self {
        Self { label, node, selected: true, of: None }
    }
}

impl FactorDef {
    /// The index of the level with this label; a number may be written in any notation.
    pub(crate) fn level(&self, label: &str) -> Option<usize> {
        let exact = self.index.labels.get(label).copied();
        exact.or_else(|| self.index.numbers.get(&bits(typed_number(label)?.number()?)).copied())
    }

    /// The index of the level that a value of the file names: a number as a number, whatever the notation of both, unless levels
    /// have labels of their own.
    pub(crate) fn level_of(&self, node: &Node) -> Option<usize> {
        let own = node.number().filter(|_| !self.labelled);
        let number = own.and_then(|number| self.index.numbers.get(&bits(number)).copied());
        number.or_else(|| self.level(&node.label()))
    }

    /// The levels that the file means by one: itself and those that `--set FACTOR.SETTING` made from it, as far as they run;
    /// itself if none of them does.
    pub(crate) fn meant(&self, at: usize) -> Vec<usize> {
        let made = (self.written..self.levels.len()).filter(|made| self.levels[*made].of == Some(at));
        let mut all: Vec<usize> = std::iter::once(at).chain(made).filter(|at| self.levels[*at].selected).collect();
        if all.is_empty() {
            all.push(at);
        }
        all
    }

    /// Updates it after its levels have changed.
    fn set_levels(&mut self, levels: Vec<LevelDef>) {
        self.index = Index::of(&levels);
        self.written = levels.len();
        self.levels = levels;
    }

    fn add_level(&mut self, level: LevelDef) {
        self.index.add(self.levels.len(), &level);
        self.levels.push(level);
    }

    fn public(&self) -> Factor {
        let level = |level: &LevelDef| Level {
            label: level.label.clone(),
            value: level.node.to_json(),
            number: number(&level.node),
        };
        let levels = self.levels.iter().filter(|level| level.selected).map(level).collect();
        Factor { name: self.name.clone(), levels }
    }
}

/// The factors of the checked experiment: only levels that run.
pub(crate) fn public(factors: &[FactorDef]) -> Vec<Factor> {
    factors.iter().map(FactorDef::public).collect()
}

/// A level's value as a number: quantities in bytes or nanoseconds.
fn number(node: &Node) -> Option<f64> {
    let quantity = |text: &str| {
        let bytes = parse_bytes(text).map(|bytes| bytes.as_bytes() as f64);
        bytes.or_else(|_| parse_time(text).map(|time| time.as_nanos() as f64)).ok()
    };
    node.number().or_else(|| quantity(node.text()?))
}

/// Reads `[factors]` and applies `--set` and `--only`.
pub(crate) fn read(root: &Node, overrides: &Overrides, problems: &mut Problems<'_>) -> Vec<FactorDef> {
    let mut factors: Vec<FactorDef> = root.table_of("factors").iter().map(|entry| factor(entry, problems)).collect();
    factors.iter_mut().for_each(|factor| factor.free = overrides.free.contains(&factor.name));
    if let Some(wanted) = left_out_node(root) {
        leave_one_out(&mut factors, wanted, problems);
    }
    for (option, given) in [("--set", &overrides.set), ("--only", &overrides.only)] {
        given.iter().for_each(|(name, levels)| given_twice(option, name, levels, problems));
    }
    let (keys, whole): (Vec<_>, Vec<_>) = overrides.set.iter().partition(|(name, _)| name.contains('.'));
    for (name, levels) in whole {
        set(&mut factors, name, levels, problems);
    }
    for (name, levels) in &overrides.only {
        only(&mut factors, name, levels, problems);
    }
    for (name, values) in keys {
        set_key(&mut factors, name, values, problems);
    }
    factors
}

fn factor(entry: &Entry, problems: &mut Problems<'_>) -> FactorDef {
    name_fault(entry).into_iter().for_each(|problem| problems.add(problem));
    let level = |label: String, node: &Node| LevelDef::new(label, node.clone());
    let levels: Vec<LevelDef> = match &entry.node.value {
        Value::List(items) => items.iter().map(|item| level(item.label(), item)).collect(),
        Value::Table(entries) => entries.iter().map(|one| level(one.key.clone(), &one.node)).collect(),
        _ => {
            let message = format!("factor `{}` is {}, not a list of levels", entry.key, entry.node.kind());
            let hint = format!("write `{} = [{}]`, or a table of labels and values", entry.key, entry.node.inline());
            problems.fault(&entry.node.span, message, hint);
            vec![level(entry.node.label(), &entry.node)]
        }
    };
    if levels.is_empty() {
        problems.add(Problem::new(&entry.node.span, format!("factor `{}` has no levels", entry.key)));
    }
    let index = Index::of(&levels);
    let labelled = entry.node.table().is_some();
    let (name, span, written) = (entry.key.clone(), entry.key_span.clone(), levels.len());
    let factor = FactorDef { name, span, levels, labelled, index, written, free: false };
    twice(&factor, problems);
    factor
}

/// Faults of levels that are one.
fn twice(factor: &FactorDef, problems: &mut Problems<'_>) {
    for (at, one) in factor.levels.iter().enumerate() {
        let number = one.node.number().filter(|_| !factor.labelled);
        let same = number.and_then(|number| factor.index.numbers.get(&bits(number))).filter(|same| **same != at);
        if factor.index.labels.get(&one.label) != Some(&at) {
            let message = format!("factor `{}` has the level `{}` twice", factor.name, one.label);
            problems.add(Problem::new(&one.node.span, message));
        } else if let Some(same) = same {
            let other = &factor.levels[*same].label;
            let message =
                format!("factor `{}` has the numbers `{other}` and `{}`, which are equal", factor.name, one.label);
            let hint = format!("write versions as texts: `\"{other}\"`, `\"{}\"`", one.label);
            problems.fault(&one.node.span, message, hint);
        }
    }
}

/// Where `[design] leave_one_out` names a factor.
pub(crate) fn left_out_node(root: &Node) -> Option<&Node> {
    root.at(["design", "leave_one_out"])
}

/// The factor of `[design] leave_one_out`, by name.
pub(crate) fn left_out(root: &Node) -> Option<&str> {
    left_out_node(root)?.text()
}

/// Makes levels of all changes together, of all but one each, and of none.
fn leave_one_out(factors: &mut [FactorDef], wanted: &Node, problems: &mut Problems<'_>) {
    let name = wanted.text().unwrap_or_default();
    let unknown = unknown_factor(&wanted.span, factors, name);
    let Some(factor) = factors.iter_mut().find(|factor| factor.name == name) else { return problems.add(unknown) };
    let changes = factor.levels.iter().all(|level| level.node.table().is_some() || level.node.list().is_some());
    if factor.levels.len() < 2 || !changes || !factor.labelled {
        let message = format!("factor `{name}` has no changes that could be left out");
        let hint = "give the factor a table of at least two changes, each with a name";
        return problems.fault(&wanted.span, message, hint);
    }
    let of = |label: String, left_out: Option<usize>| {
        let remaining = factor.levels.iter().enumerate().filter(|(at, _)| Some(*at) != left_out);
        let all = remaining.flat_map(|(_, level)| level.node.items());
        list(label, factor.span.clone(), all.cloned().collect())
    };
    let each = factor.levels.iter().enumerate().map(|(at, level)| of(format!("{WITHOUT}{}", level.label), Some(at)));
    let mut levels = vec![of(ALL.to_owned(), None)];
    levels.extend(each);
    levels.push(list(NONE.to_owned(), factor.span.clone(), Vec::new()));
    factor.set_levels(levels);
}

fn list(label: String, span: Range<usize>, items: Vec<Node>) -> LevelDef {
    LevelDef::new(label, Node::new(span, Value::List(items)))
}

fn name_fault(entry: &Entry) -> Option<Problem> {
    let name = entry.key.as_str();
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if NAMESPACES.contains(&name) {
        let message = format!("a factor cannot be named `{name}`: other placeholders begin with this name");
        return Some(Problem::new(entry.key_span.clone(), message).hint("choose another name"));
    }
    (!plain || name.is_empty()).then(|| {
        let message = format!("`{name}` is not a valid name of a factor");
        Problem::new(entry.key_span.clone(), message).hint("use letters, digits, `-` and `_`")
    })
}

fn set(factors: &mut [FactorDef], name: &str, levels: &[String], problems: &mut Problems<'_>) {
    let Some(factor) = find(factors, name, "--set", problems) else { return };
    let are_texts = factor.levels.iter().all(|level| level.node.text().is_some());
    factor.levels.iter_mut().for_each(|level| level.selected = false);
    for text in levels {
        match factor.level(text) {
            Some(at) => factor.levels[at].selected = true,
            None if factor.labelled => {
                let message = format!("--set {name}={text}: {}", level_fault(factor, text));
                problems.add(Problem::new(&factor.span, message).maybe_hint(level_hint(factor, text)));
            }
            None => {
                let node = typed(text, factor.span.clone(), are_texts);
                factor.add_level(LevelDef::new(node.label(), node));
            }
        }
    }
}

/// `--set factor.setting=a,b`: each level that runs, once with each value of the key; its label says what differs from
/// the file.
fn set_key(factors: &mut [FactorDef], path: &str, values: &[String], problems: &mut Problems<'_>) {
    let (name, key) = path.split_once('.').unwrap_or((path, ""));
    let Some(factor) = find(factors, name, "--set", problems) else { return };
    let running: Vec<usize> = (0..factor.levels.len()).filter(|at| factor.levels[*at].selected).collect();
    for at in running {
        let level = factor.levels[at].clone();
        let Some(before) = level.node.get(key) else {
            let message = format!("--set {path}: level `{}` of `{name}` has no key `{key}`", level.label);
            let keys = level.node.table().unwrap_or_default().iter().map(|entry| entry.key.as_str());
            problems.add(Problem::new(&level.node.span, message).maybe_hint(known_hint(key, keys)));
            continue;
        };
        factor.levels[at].selected = false;
        for text in values {
            let value = typed(text, before.span.clone(), before.text().is_some());
            if is_same(&value, before) {
                factor.levels[at].selected = true;
                continue;
            }
            let label = format!("{} {key}={}", level.label, value.label());
            // Another setting may have made this level already.
            let of = Some(level.of.unwrap_or(at));
            factor.add_level(LevelDef { of, ..LevelDef::new(label, with_key(&level.node, key, &value)) });
        }
    }
}

/// The table with another value of this key.
fn with_key(table: &Node, key: &str, value: &Node) -> Node {
    let entry = |entry: &Entry| {
        let node = if entry.key == key { value.clone() } else { entry.node.clone() };
        Entry { node, ..entry.clone() }
    };
    let entries = table.table().unwrap_or_default().iter().map(entry).collect();
    Node { value: Value::Table(entries), ..table.clone() }
}

fn only(factors: &mut [FactorDef], name: &str, levels: &[String], problems: &mut Problems<'_>) {
    let Some(factor) = find(factors, name, "--only", problems) else { return };
    let mut wanted = BTreeSet::new();
    for text in levels {
        match factor.level(text) {
            Some(at) => _ = wanted.insert(at),
            None => {
                let message = format!("--only {name}={text}: {}", level_fault(factor, text));
                problems.add(Problem::new(&factor.span, message).maybe_hint(level_hint(factor, text)));
            }
        }
    }
    for (at, level) in factor.levels.iter_mut().enumerate() {
        level.selected &= wanted.contains(&at);
    }
}

/// Faults of levels that an option names twice: they would be one.
fn given_twice(option: &str, name: &str, levels: &[String], problems: &mut Problems<'_>) {
    let nodes: Vec<Node> = levels.iter().map(|text| typed(text, 0..0, false)).collect();
    let again = (1..nodes.len()).find(|at| nodes[..*at].iter().any(|before| is_same(before, &nodes[*at])));
    if let Some(again) = again {
        let message = format!("{option} {name}: the level `{}` is given twice", levels[again]);
        problems.fault(0..0, message, "write each level once; `--blocks N` runs each variant N times");
    }
}

fn find<'f>(
    factors: &'f mut [FactorDef],
    name: &str,
    option: &str,
    problems: &mut Problems<'_>,
) -> Option<&'f mut FactorDef> {
    let found = factors.iter().position(|factor| factor.name == name);
    if found.is_none() {
        let unknown = unknown_factor(0..0, factors, name);
        problems.add(Problem { message: format!("{option} {name}: {}", unknown.message), ..unknown });
    }
    Some(&mut factors[found?])
}

/// A level from the command line, typed as TOML would type it, or a text where the file has texts: `0123456` may be a revision.
fn typed(text: &str, span: Range<usize>, is_text: bool) -> Node {
    let value = match text {
        _ if is_text => Value::Text(text.to_owned()),
        "true" => Value::Flag(true),
        "false" => Value::Flag(false),
        _ => typed_number(text).map_or_else(|| Value::Text(text.to_owned()), |number| number.value),
    };
    Node::new(span, value).with_notation(Some(text))
}

/// A number in any notation of TOML.
fn typed_number(text: &str) -> Option<Node> {
    let plain = text.replace('_', "");
    let prefixed = |(prefix, radix)| Some((plain.strip_prefix(prefix)?, radix));
    let value = match [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().find_map(prefixed) {
        Some((digits, radix)) if !digits.starts_with(['+', '-']) => {
            Value::Whole(i64::from_str_radix(digits, radix).ok()?)
        }
        _ => match (plain.parse::<i64>(), plain.parse::<f64>()) {
            (Ok(whole), _) => Value::Whole(whole),
            (_, Ok(number)) if number.is_finite() => Value::Number(number),
            _ => return None,
        },
    };
    Some(Node::new(0..0, value))
}

/// Whether two values are one setting: numbers may have two notations.
pub(crate) fn is_same(a: &Node, b: &Node) -> bool {
    match (&a.value, &b.value) {
        // Large ones have no exact number with a fraction.
        (Value::Whole(a), Value::Whole(b)) => a == b,
        _ => match (a.number(), b.number()) {
            (Some(a), Some(b)) => bits(a) == bits(b),
            _ => a.label() == b.label(),
        },
    }
}

/// Whether one of the values for a key on the command line is the one that a level has.
pub(crate) fn is_given(values: &[String], own: &Node) -> bool {
    values.iter().any(|text| is_same(&typed(text, own.span.clone(), own.text().is_some()), own))
}

/// The problem of a name that no factor has.
pub(crate) fn unknown_factor(at: impl At, factors: &[FactorDef], name: &str) -> Problem {
    let known = known_hint(name, factors.iter().map(|factor| factor.name.as_str()));
    Problem::new(at, format!("unknown factor `{name}`")).maybe_hint(known)
}

/// The problem of a label that no level has.
pub(crate) fn no_level(at: impl At, factor: &FactorDef, label: &str) -> Problem {
    Problem::new(at, level_fault(factor, label)).maybe_hint(level_hint(factor, label))
}

/// The fault of a label that no level has.
fn level_fault(factor: &FactorDef, label: &str) -> String {
    format!("factor `{}` has no level `{label}`", factor.name)
}

/// The nearest level, or all of them.
fn level_hint(factor: &FactorDef, label: &str) -> Option<String> {
    known_hint(label, factor.levels.iter().map(|level| level.label.as_str()))
}

/// Names and labels of `factor -> level`.
pub(crate) fn labels(factors: &[FactorDef], named: &BTreeMap<usize, usize>) -> BTreeMap<String, String> {
    named.iter().map(|(at, level)| (factors[*at].name.clone(), factors[*at].levels[*level].label.clone())).collect()
}

/// Resolves a key as a factor; a fault names the nearest one.
pub(crate) fn by_key<'f>(
    factors: &'f [FactorDef],
    entry: &Entry,
    problems: &mut Problems<'_>,
) -> Option<(usize, &'f FactorDef)> {
    let found = factors.iter().enumerate().find(|(_, factor)| factor.name == entry.key);
    if found.is_none() {
        let no_factors = factors.is_empty().then(|| "the file has no `[factors]`".to_owned());
        problems.add(unknown_factor(&entry.key_span, factors, &entry.key).maybe_hint(no_factors));
    }
    found
}

/// Resolves a value as levels of a factor: one, or a list of them, which is not empty.
pub(crate) fn levels(factor: &FactorDef, node: &Node, problems: &mut Problems<'_>) -> Vec<usize> {
    let items = node.items();
    if items.is_empty() {
        let message = format!("this list names no level of factor `{}`", factor.name);
        problems.fault(&node.span, message, "name a level, or leave the factor out");
    }
    let mut found = Vec::new();
    for item in items {
        match factor.level_of(item) {
            Some(at) => found.extend(factor.meant(at)),
            None => problems.add(no_level(&item.span, factor, &item.label())),
        }
    }
    found
}

/// `factor -> levels` of a table such as `when`, by index.
pub(crate) fn selection(factors: &[FactorDef], table: &Node, problems: &mut Problems<'_>) -> Vec<(usize, Vec<usize>)> {
    let mut chosen = Vec::new();
    for entry in table.table().unwrap_or_default() {
        if let Some((at, factor)) = by_key(factors, entry, problems) {
            chosen.push((at, levels(factor, &entry.node, problems)));
        }
    }
    chosen
}
