//! Reads a driver's options: finds unknown names and wrong values, and determines the durability class.

use std::collections::BTreeMap;

use prony_model::spec::{Durability, OptionValue, StoreSpec};
use prony_model::spelling::nearest;
use prony_model::units::parse_bytes;
use serde_json::Value;

use crate::driver::{OptionFault, OptionKind, OptionSpec, PowerCut, ProcessCrash, Promise, bad_value};

/// The options of a spec, each of the kind that its driver declared.
#[derive(Debug, Default)]
pub(crate) struct Given(BTreeMap<String, Value>);

impl Given {
    /// A `Bool` option's value, where it is given.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    /// An `Int` option's value, where it is given.
    #[allow(dead_code)] // no driver of a bare build takes a number
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }

    /// A `Bytes` option's value in bytes, where it is given.
    pub(crate) fn bytes(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// A `OneOf` option's word, where it is given.
    #[allow(dead_code)] // not every feature has a driver that offers a choice
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }
}

/// Reads the options of `spec`; every option that does not fit is a fault.
pub(crate) fn read(spec: &StoreSpec, known: &[OptionSpec]) -> (Given, Vec<OptionFault>) {
    let mut given = Given::default();
    let mut faults = Vec::new();
    for (name, value) in &spec.options {
        match known.iter().find(|option| option.name == *name) {
            None => faults.push(unknown(&spec.engine, name, known)),
            Some(option) => match fit(value, &option.kind) {
                Some(value) => drop(given.0.insert(name.clone(), value)),
                None => faults.push(bad_value(name, value, &wanted(&option.kind))),
            },
        }
    }
    (given, faults)
}

fn fit(value: &OptionValue, kind: &OptionKind) -> Option<Value> {
    match (kind, value) {
        (OptionKind::Bool, OptionValue::Bool(on)) => Some(Value::from(*on)),
        (OptionKind::Int { min, max }, OptionValue::Int(n)) => (min..=max).contains(&n).then(|| Value::from(*n)),
        (OptionKind::Bytes, OptionValue::Int(n)) => u64::try_from(*n).ok().map(Value::from),
        (OptionKind::Bytes, OptionValue::Text(text)) => parse_bytes(text).ok().map(|b| Value::from(b.as_bytes())),
        (OptionKind::OneOf(words), OptionValue::Text(word)) => words.contains(word).then(|| Value::from(word.as_str())),
        _ => None,
    }
}

fn wanted(kind: &OptionKind) -> String {
    match kind {
        OptionKind::Bool => "`true` or `false`".to_owned(),
        OptionKind::Int { min, max } => format!("a whole number from {min} to {max}"),
        OptionKind::Bytes => "an amount such as `\"1 GiB\"`".to_owned(),
        OptionKind::OneOf(words) => format!("one of `{}`", words.join("`, `")),
    }
}

fn unknown(engine: &str, name: &str, known: &[OptionSpec]) -> OptionFault {
    let names: Vec<&str> = known.iter().map(|option| option.name.as_str()).collect();
    OptionFault {
        option: Some(name.to_owned()),
        message: format!("`{engine}` has no option `{name}`"),
        hint: Some(match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "the engine takes no options".to_owned(),
            None => format!("the engine takes `{}`", names.join("`, `")),
        }),
    }
}

/// The class to use: the requested one if the engine offers it, else the default.
///
/// # Errors
/// The requested class is not among `promises`.
pub(crate) fn class(spec: &StoreSpec, promises: &[Promise]) -> Result<Durability, OptionFault> {
    let default = promises.iter().find(|promise| promise.default).map_or(Durability::None, |promise| promise.class);
    let asked = spec.durability.unwrap_or(default);
    if promises.iter().any(|promise| promise.class == asked) {
        return Ok(asked);
    }
    let names: Vec<&str> = promises.iter().map(|promise| promise.class.name()).collect();
    Err(OptionFault {
        option: None,
        message: format!("`{}` does not offer durability `{}`", spec.engine, asked.name()),
        hint: Some(format!("the engine offers `{}`", names.join("`, `"))),
    })
}

/// Calls `make` with the options of `spec` and its class; returns the result, or all faults that were found here or by
/// `make`. A class that the engine does not offer is replaced by the strict one, so that the other faults are found
/// too.
///
/// # Errors
/// Every fault.
pub(crate) fn configure<C>(
    spec: &StoreSpec,
    known: &[OptionSpec],
    promises: &[Promise],
    make: impl FnOnce(&Given, Durability, &mut Vec<OptionFault>) -> C,
) -> Result<C, Vec<OptionFault>> {
    let (given, mut faults) = read(spec, known);
    let class = class(spec, promises).unwrap_or_else(|fault| {
        faults.push(fault);
        Durability::Strict
    });
    let config = make(&given, class, &mut faults);
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

/// The fault of options that result in another class than the requested one.
#[allow(dead_code)] // not every feature has a driver whose options override a class
pub(crate) fn contradiction(spec: &StoreSpec, amounts_to: Durability) -> Option<OptionFault> {
    let asked = spec.durability.filter(|asked| *asked != amounts_to)?;
    Some(OptionFault {
        option: None,
        message: format!(
            "durability `{}` is requested, but the options result in `{}`",
            asked.name(),
            amounts_to.name()
        ),
        hint: Some("set either `durability` or the options that determine it".to_owned()),
    })
}

/// The fault of an amount that the engine does not accept.
pub(crate) fn out_of_range(option: &str, message: String) -> OptionFault {
    OptionFault { option: Some(option.to_owned()), message, hint: None }
}

/// A promise with the description of its class in METHOD 5.2's table.
pub(crate) fn promise(class: Durability, settings: &str, default: bool) -> Promise {
    let (process_crash, power_cut) = match class {
        Durability::Strict => (ProcessCrash::Keeps, PowerCut::Nothing),
        Durability::Bounded => (ProcessCrash::Keeps, PowerCut::LastCommit),
        Durability::Relaxed => (ProcessCrash::Keeps, PowerCut::Tail),
        Durability::Volatile => (ProcessCrash::LosesTail, PowerCut::Tail),
        Durability::None => (ProcessCrash::Keeps, PowerCut::Anything),
    };
    let integrity = class != Durability::None;
    Promise { class, process_crash, power_cut, integrity, settings: settings.to_owned(), default }
}

/// An option's description.
pub(crate) fn option(name: &str, kind: OptionKind, default: &str, doc: &str) -> OptionSpec {
    OptionSpec { name: name.to_owned(), kind, doc: doc.to_owned(), default: default.to_owned() }
}

/// A choice between words.
#[allow(dead_code)] // not every feature has a driver that offers a choice
pub(crate) fn one_of(words: &[&str]) -> OptionKind {
    OptionKind::OneOf(words.iter().map(|word| (*word).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(options: &[(&str, OptionValue)]) -> StoreSpec {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        StoreSpec { options, ..StoreSpec::of("some") }
    }

    fn known() -> Vec<OptionSpec> {
        vec![
            option("no_sync", OptionKind::Bool, "false", ""),
            option("pages", OptionKind::Int { min: 1, max: 8 }, "4", ""),
            option("cache", OptionKind::Bytes, "1 GiB", ""),
            option("mode", one_of(&["wal", "delete"]), "wal", ""),
        ]
    }

    #[test]
    fn values_that_fit_are_read_in_their_unit() {
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let options = [
            ("no_sync", OptionValue::Bool(true)),
            ("pages", OptionValue::Int(8)),
            ("cache", text("2 MiB")),
            ("mode", text("delete")),
        ];
        let (given, faults) = read(&spec(&options), &known());
        assert_eq!(faults, vec![]);
        assert_eq!(given.flag("no_sync"), Some(true));
        assert_eq!(given.int("pages"), Some(8));
        assert_eq!(given.bytes("cache"), Some(2 << 20));
        assert_eq!(given.word("mode"), Some("delete"));
        assert_eq!(given.word("other"), None);
    }

    #[test]
    fn every_misfit_is_a_fault_of_its_own() {
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let options = [
            ("no_sinc", OptionValue::Bool(true)),
            ("pages", OptionValue::Int(9)),
            ("cache", OptionValue::Int(-1)),
            ("mode", text("wall")),
        ];
        let (_, faults) = read(&spec(&options), &known());
        assert_eq!(faults.len(), 4);
        let hints: Vec<_> = faults.iter().filter_map(|fault| fault.hint.clone()).collect();
        assert_eq!(hints, ["did you mean `no_sync`?"]);
        let mode = faults.iter().find(|fault| fault.option.as_deref() == Some("mode")).map(|fault| &fault.message);
        assert_eq!(mode.map(String::as_str), Some("`mode` cannot be `wall`; it takes one of `wal`, `delete`"));
    }

    #[test]
    fn a_class_that_is_not_offered_is_a_fault_and_never_approximated() {
        let promises = [promise(Durability::Strict, "sync", true), promise(Durability::None, "no sync", false)];
        let mut spec = spec(&[]);
        assert_eq!(class(&spec, &promises), Ok(Durability::Strict));
        spec.durability = Some(Durability::None);
        assert_eq!(class(&spec, &promises), Ok(Durability::None));
        spec.durability = Some(Durability::Bounded);
        let fault = class(&spec, &promises).unwrap_err();
        assert_eq!(fault.message, "`some` does not offer durability `bounded`");
        assert_eq!(fault.hint.as_deref(), Some("the engine offers `strict`, `none`"));
    }

    #[test]
    fn options_may_name_the_class_asked_for_but_not_another() {
        let mut spec = spec(&[]);
        assert_eq!(contradiction(&spec, Durability::None), None);
        spec.durability = Some(Durability::None);
        assert_eq!(contradiction(&spec, Durability::None), None);
        assert!(contradiction(&spec, Durability::Strict).is_some());
    }
}
