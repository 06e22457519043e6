//! Reads a driver's options: finds unknown names and wrong values, and determines the durability class.

use std::collections::BTreeSet;

use prony_model::record::effective::{NamedSettings, Setting};
use prony_model::spec::{Durability, OptionValue, StoreSpec};
use prony_model::spelling::nearest;
use prony_model::units::parse_bytes;

use crate::driver::{
    InForce, OptionKind, OptionSpec, PowerCut, ProcessCrash, Promise, Settings, StoreFault, bad_value,
};

/// The options of a spec: those that are given, each of the kind that its driver declared, and the defaults of the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    given: BTreeSet<String>,
    in_force: NamedSettings,
}

#[allow(dead_code)] // not every feature has a driver that uses all of it
impl Options {
    /// Whether the spec has it.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// A `Bool` option's value.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.in_force.get(name), Some(Setting::Bool(true)))
    }

    /// An `Int` option's value; 0 where its default is no number.
    pub(crate) fn int(&self, name: &str) -> i64 {
        if let Some(Setting::Int(number)) = self.in_force.get(name) { *number } else { 0 }
    }

    /// A `Bytes` option's value in bytes; 0 where its default is no amount.
    pub(crate) fn bytes(&self, name: &str) -> u64 {
        self.int(name).try_into().unwrap_or(0)
    }

    /// A `OneOf` option's word.
    pub(crate) fn word(&self, name: &str) -> &str {
        if let Some(Setting::Text(word)) = self.in_force.get(name) { word } else { "" }
    }

    /// What is in force of an option where that is another value than the one given, or of something that no option sets.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Setting>) {
        self.in_force.insert(name.to_owned(), value.into());
    }

    /// Everything that is in force.
    pub(crate) fn in_force(&self) -> NamedSettings {
        self.in_force.clone()
    }
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) class: Durability,
    pub(crate) options: Options,
}

impl Config {
    /// As the plan states it.
    pub(crate) fn settings(self) -> Settings {
        Settings { class: self.class, values: self.options.in_force }
    }

    /// With what the engine reports.
    #[allow(dead_code)] // the driver of a bare build has no settings
    pub(crate) fn in_force(&self, read_back: NamedSettings) -> InForce {
        InForce { durability: self.class, read_back, as_set: self.options.in_force() }
    }
}

/// Reads the options of `spec`; every option that does not fit is a fault.
pub(crate) fn read(spec: &StoreSpec, known: &[OptionSpec]) -> (Options, Vec<StoreFault>) {
    let mut options = Options::default();
    let mut faults = Vec::new();
    known.iter().for_each(|option| options.set(&option.name, default(option)));
    for (name, value) in &spec.options {
        match known.iter().find(|option| option.name == *name) {
            None => faults.push(unknown(&spec.engine, name, known)),
            Some(option) => match fit(value, &option.kind) {
                Some(value) => {
                    options.set(name, value);
                    options.given.insert(name.clone());
                }
                None => faults.push(bad_value(name, value, &wanted(&option.kind))),
            },
        }
    }
    (options, faults)
}

/// The default of an option, or the text that says what it depends on.
fn default(option: &OptionSpec) -> Setting {
    let text = option.default.as_str();
    let value = match option.kind {
        OptionKind::Bool => text.parse().ok().map(OptionValue::Bool),
        _ => Some(text.parse().map_or_else(|_| OptionValue::Text(text.to_owned()), OptionValue::Int)),
    };
    value.and_then(|value| fit(&value, &option.kind)).unwrap_or_else(|| text.into())
}

fn fit(value: &OptionValue, kind: &OptionKind) -> Option<Setting> {
    match (kind, value) {
        (OptionKind::Bool, OptionValue::Bool(on)) => Some(Setting::from(*on)),
        (OptionKind::Int { min, max }, OptionValue::Int(n)) => (min..=max).contains(&n).then(|| Setting::from(*n)),
        (OptionKind::Bytes, OptionValue::Int(n)) => (*n >= 0).then(|| Setting::from(*n)),
        (OptionKind::Bytes, OptionValue::Text(text)) => {
            i64::try_from(parse_bytes(text).ok()?.as_bytes()).ok().map(Setting::from)
        }
        (OptionKind::OneOf(words), OptionValue::Text(word)) => {
            words.contains(word).then(|| Setting::from(word.as_str()))
        }
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

fn unknown(engine: &str, name: &str, known: &[OptionSpec]) -> StoreFault {
    let names: Vec<&str> = known.iter().map(|option| option.name.as_str()).collect();
    StoreFault {
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
pub(crate) fn class(spec: &StoreSpec, promises: &[Promise]) -> Result<Durability, StoreFault> {
    let default = promises.iter().find(|promise| promise.default).map_or(Durability::None, |promise| promise.class);
    let asked = spec.durability.unwrap_or(default);
    if promises.iter().any(|promise| promise.class == asked) {
        return Ok(asked);
    }
    let names: Vec<&str> = promises.iter().map(|promise| promise.class.name()).collect();
    Err(StoreFault {
        option: None,
        message: format!("`{}` does not offer durability `{}`", spec.engine, asked.name()),
        hint: Some(format!("the engine offers `{}`", names.join("`, `"))),
    })
}

/// The options of `spec` and its class, or all faults that were found here or by `check`, which also sets what follows from
/// them. A class that the engine does not offer is replaced by the strict one, so that the other faults are found too.
///
/// # Errors
/// Every fault.
pub(crate) fn configure(
    spec: &StoreSpec,
    known: &[OptionSpec],
    promises: &[Promise],
    check: impl FnOnce(&mut Options, Durability, &mut Vec<StoreFault>),
) -> Result<Config, Vec<StoreFault>> {
    let (mut options, mut faults) = read(spec, known);
    let class = class(spec, promises).unwrap_or_else(|fault| {
        faults.push(fault);
        Durability::Strict
    });
    check(&mut options, class, &mut faults);
    if faults.is_empty() { Ok(Config { class, options }) } else { Err(faults) }
}

/// The fault of options that result in another class than the requested one.
#[allow(dead_code)] // not every feature has a driver whose options override a class
pub(crate) fn contradiction(spec: &StoreSpec, amounts_to: Durability) -> Option<StoreFault> {
    let asked = spec.durability.filter(|asked| *asked != amounts_to)?;
    Some(StoreFault {
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
pub(crate) fn out_of_range(option: &str, message: String) -> StoreFault {
    StoreFault { option: Some(option.to_owned()), message, hint: None }
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
    use prony_model::record::effective::named;

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
        assert!(given.flag("no_sync"));
        assert_eq!((given.int("pages"), given.bytes("cache"), given.word("mode")), (8, 2 << 20, "delete"));
        assert_eq!((given.is_given("mode"), given.is_given("other"), given.word("other")), (true, false, ""));
    }

    #[test]
    fn options_that_are_not_given_have_their_default() {
        let mut known = known();
        known.push(option("flags", OptionKind::Bool, "set by the class", ""));
        known.push(option("readers", OptionKind::Int { min: 1, max: 9 }, "one a core", ""));
        let (options, _) = read(&spec(&[]), &known);
        let expected = named([
            ("no_sync", false.into()),
            ("pages", 4_i64.into()),
            ("cache", (1_u64 << 30).into()),
            ("mode", "wal".into()),
            ("flags", "set by the class".into()),
            ("readers", "one a core".into()),
        ]);
        assert_eq!(options.in_force(), expected);
        assert_eq!((options.flag("flags"), options.int("readers"), options.is_given("pages")), (false, 0, false));
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
        let (_, too_large) = read(&spec(&[("cache", text("10000000000 GiB"))]), &known());
        assert_eq!(too_large.len(), 1);
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
