//! The experiment file of a search: checked again with every setting that is tried.

use std::path::Path;

use prony_analysis::search::Range;
use prony_engines::catalog::Catalog;
use prony_experiment::RawExperiment;
use prony_experiment::design::{Experiment, Level, Variant};
use prony_model::catalog::Overrides;
use serde_json::Value;

use crate::error::Error;
use prony_runner::load;

/// A file and what the command line changes in it.
#[derive(Debug)]
pub struct Source {
    raw: RawExperiment,
    overrides: Overrides,
}

impl Source {
    /// Reads the file.
    ///
    /// # Errors
    /// Where it cannot be read, or is no TOML.
    pub fn read(file: &Path, overrides: Overrides) -> Result<Self, Error> {
        let (text, name) = load::read(file)?;
        let raw = prony_experiment::parse(&text, &name).map_err(|problems| prony_runner::Error::Experiment {
            file: name,
            text,
            problems,
        })?;
        Ok(Self { raw, overrides })
    }

    /// These names are searched: what `[design]` says of their factors does not hold from now on, nor what chose among
    /// levels that are replaced.
    pub fn free<'n>(&mut self, names: impl Iterator<Item = &'n str> + Clone) {
        self.overrides.only.retain(|(factor, _)| names.clone().all(|name| name != factor));
        self.overrides.free = names.map(|name| name.split('.').next().unwrap_or(name).to_owned()).collect();
    }

    /// The same without what `--set FACTOR.SETTING` changes in levels.
    pub(super) fn without_settings(&self) -> Self {
        let mut overrides = self.overrides.clone();
        overrides.set.retain(|(name, _)| !name.contains('.'));
        Self { raw: self.raw.clone(), overrides }
    }

    /// Of the factors' levels, only these from now on.
    pub(crate) fn pin(&mut self, levels: &[(String, String)]) {
        self.overrides.only.extend(levels.iter().map(|(factor, label)| (factor.clone(), vec![label.clone()])));
    }

    /// The experiment as the file and the command line have it.
    ///
    /// # Errors
    /// Where it has faults.
    pub fn plain(&self) -> Result<Experiment, Error> {
        self.at(&[])
    }

    /// The experiment with these values, `(name, value)`, for factors or keys of their levels.
    ///
    /// # Errors
    /// Where it has faults, also through a value.
    pub fn at(&self, values: &[(String, String)]) -> Result<Experiment, Error> {
        let mut overrides = self.overrides.clone();
        overrides.set.extend(values.iter().map(|(name, value)| (name.clone(), vec![value.clone()])));
        let checked = prony_experiment::check(&self.raw, &Catalog, &overrides);
        let experiment = checked.map_err(|problems| prony_runner::Error::Experiment {
            file: self.raw.file().to_owned(),
            text: self.raw.text().to_owned(),
            problems,
        })?;
        Ok(load::with_absolute_paths(experiment)?)
    }

    /// Gives the range the unit of the file's values where it was written without one.
    ///
    /// # Errors
    /// Where the file has faults, no such factor, or a value in another unit.
    pub fn complete(&self, range: &mut Range) -> Result<(), Error> {
        let experiment = self.plain()?;
        let own = experiment.variants().first().and_then(|variant| own_value(&experiment, variant, &range.name));
        let own = own.ok_or_else(|| unknown(&experiment, &range.name))?;
        range.adopt_unit(&own);
        if range.number(&own).is_some() {
            return Ok(());
        }
        let message = format!("`{}` is `{own}` in the file, which is not in the unit of `{range}`", range.name);
        Err(Error::arguments(message, "write the range in the unit of the file's value"))
    }
}

/// What a variant has for a factor, or for a key of its level, as text.
fn own_value(experiment: &Experiment, variant: &Variant, name: &str) -> Option<String> {
    let (factor, key) = name.split_once('.').map_or((name, None), |(factor, key)| (factor, Some(key)));
    let at = experiment.factors().iter().position(|known| known.name == factor)?;
    text_of(experiment.level_of(variant, at), key)
}

/// A level, or a key of it, as the text that the file has; `None` where it is no number and no text.
pub(super) fn text_of(level: &Level, key: Option<&str>) -> Option<String> {
    match key.map_or(Some(&level.value), |key| level.value.get(key))? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

pub(super) fn unknown(experiment: &Experiment, name: &str) -> Error {
    let factors: Vec<&str> = experiment.factors().iter().map(|factor| factor.name.as_str()).collect();
    let known = match factors.is_empty() {
        true => "the file has no `[factors]`: add a factor for what is to be varied".to_owned(),
        false => {
            format!(
                "the file's factors: `{}`; `factor.setting` names one setting in their levels",
                factors.join("`, `")
            )
        }
    };
    Error::arguments(format!("`{name}` is not a factor of the file with numbers or quantities as levels"), known)
}

/// Every factor but one of a variant, as `(name, label)`.
pub(super) fn other_levels(experiment: &Experiment, variant: &Variant, but: &str) -> Vec<(String, String)> {
    let factor = but.split('.').next().unwrap_or(but);
    let label = |at: usize| (experiment.factors()[at].name.clone(), experiment.level_of(variant, at).label.clone());
    (0..experiment.factors().len()).map(label).filter(|(name, _)| name != factor).collect()
}
