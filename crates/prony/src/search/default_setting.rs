//! The starting point of a search: the default setting of the varied factors, and one level of every other factor.

use prony_analysis::search::Range;
use prony_analysis::search::grid::Point;
use prony_experiment::design::{Experiment, Factor, Level};

use super::journal::ByFactor;
use super::source::{Source, text_of, unknown};
use crate::error::Error;

/// The ranges that are varied, and the setting from which they start.
#[derive(Debug)]
pub(super) struct Base {
    /// With the units of the file.
    pub(super) ranges: Vec<Range>,
    /// The present setting.
    pub(super) default: Point,
}

impl Base {
    /// Reads the default off the file: the baseline's levels, else the first; `defaults` go before it. Narrows the
    /// source to these levels.
    ///
    /// # Errors
    /// Where another factor has several levels and the baseline names none of them, or a default is no number.
    pub(super) fn of(
        source: &mut Source,
        mut ranges: Vec<Range>,
        defaults: &[(String, String)],
    ) -> Result<Self, Error> {
        closed(&ranges)?;
        let experiment = source.plain()?;
        // By the names that the file has: `--only` comes before what `--set` changes in a level, which is then a part of its name.
        let as_in_file = source.without_settings().plain()?;
        let (mut pins, mut default) = (Vec::new(), Vec::new());
        for (factor, in_file) in experiment.factors().iter().zip(as_in_file.factors()) {
            let of = |range: &&Range| range.name.split('.').next() == Some(&factor.name);
            let varied = ranges.iter().find(of).map(|range| range.name == factor.name);
            level(&experiment, factor, varied.is_some())?;
            // A factor whose levels are replaced is not fixed at one of them.
            if varied != Some(true) {
                pins.push((factor.name.clone(), level(&as_in_file, in_file, varied.is_some())?.label.clone()));
            }
        }
        for range in &mut ranges {
            let given = defaults.iter().find(|(name, _)| *name == range.name).map(|(_, value)| value.clone());
            let own = own(&experiment, &range.name)?;
            let text = given.or(own).ok_or_else(|| unknown(&experiment, &range.name))?;
            range.adopt_unit(&text);
            default.push(range.number(&text).ok_or_else(|| not_in_unit(range, &text))?);
        }
        source.pin(&pins);
        source.free(ranges.iter().map(|range| range.name.as_str()));
        if let Some((name, _)) = defaults.iter().find(|(name, _)| !ranges.iter().any(|range| range.name == *name)) {
            let message = format!("`--default {name}` names a factor that no `--over` varies");
            return Err(Error::arguments(message, format!("add `--over {name}=FROM..TO`")));
        }
        Ok(Self { ranges, default })
    }

    /// The experiment at a point: one variant.
    ///
    /// # Errors
    /// Where a value is at fault, or `[design]` leaves it out.
    pub(super) fn at(&self, source: &Source, point: &[f64]) -> Result<Experiment, Error> {
        source.at(&self.values(point).collect::<Vec<_>>())
    }

    /// Whether the file takes the ends of all ranges: known before anything runs.
    ///
    /// # Errors
    /// Where it does not.
    pub(super) fn ends_are_sound(&self, source: &Source) -> Result<(), Error> {
        let end = |last: f64| self.ranges.iter().map(|range| range.at(last)).collect::<Point>();
        self.at(source, &end(0.0))?;
        self.at(source, &end(1.0)).map(|_| ())
    }

    /// A point as `chunk=50, pause=3 ms`.
    pub(super) fn text(&self, point: &[f64]) -> String {
        self.values(point).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    }

    /// A point as JSON.
    pub(super) fn setting(&self, point: &[f64]) -> ByFactor {
        self.values(point).collect()
    }

    /// The values at a point by the names of what is varied.
    fn values(&self, point: &[f64]) -> impl Iterator<Item = (String, String)> {
        self.ranges.iter().zip(point).map(|(range, value)| (range.name.clone(), range.text(*value)))
    }

    /// The factors that are varied, each once.
    pub(super) fn factors(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for range in &self.ranges {
            let factor = range.name.split('.').next().unwrap_or(&range.name);
            if !names.iter().any(|known| known == factor) {
                names.push(factor.to_owned());
            }
        }
        names
    }
}

fn closed(ranges: &[Range]) -> Result<(), Error> {
    for (at, range) in ranges.iter().enumerate() {
        if range.high.is_none() {
            let message = format!("the range `{range}` has no end");
            return Err(Error::arguments(message, format!("write `--over {}=FROM..TO`", range.name)));
        }
        if ranges[..at].iter().any(|other| other.name == range.name) {
            let message = format!("`--over` varies `{}` twice", range.name);
            return Err(Error::arguments(message, "give each factor one range"));
        }
    }
    Ok(())
}

/// The level that a search stays at, or for a factor that is varied, the one it begins with.
fn level<'e>(experiment: &Experiment, factor: &'e Factor, varied: bool) -> Result<&'e Level, Error> {
    let named = experiment.compare().baseline.get(&factor.name);
    let levels = running(experiment, factor);
    let named = named.and_then(|label| levels.iter().find(|level| level.label == *label).copied());
    match (named, levels.as_slice()) {
        (Some(level), _) => Ok(level),
        (None, [only]) => Ok(only),
        (None, [first, ..]) if varied => Ok(first),
        (None, levels) => Err(several(factor, levels, ", or name the level in `[compare] baseline`")),
    }
}

/// The levels of a factor that variants have.
fn running<'e>(experiment: &Experiment, factor: &'e Factor) -> Vec<&'e Level> {
    let at = experiment.factors().iter().position(|known| known.name == factor.name);
    let runs =
        |level: usize| experiment.variants().iter().any(|variant| at.map(|at| variant.levels[at]) == Some(level));
    factor.levels.iter().enumerate().filter(|(at, _)| runs(*at)).map(|(_, level)| level).collect()
}

fn several(factor: &Factor, levels: &[&Level], or: &str) -> Error {
    let first = levels.first().map_or("", |level| level.label.as_str());
    Error::arguments(
        format!("factor `{}` has {} levels, but a search needs one level", factor.name, levels.len()),
        format!("choose the level: `--only {}={first}`{or}", factor.name),
    )
}

/// Checks that a factor of which one setting is raised runs at one level: the search could not distinguish several
/// levels.
///
/// # Errors
/// Where the factor runs at several.
pub(super) fn one_level(experiment: &Experiment, name: &str) -> Result<(), Error> {
    let Some((factor, _)) = name.split_once('.') else { return Ok(()) };
    let Some(factor) = experiment.factors().iter().find(|known| known.name == factor) else { return Ok(()) };
    match running(experiment, factor).as_slice() {
        levels @ [_, _, ..] => Err(several(factor, levels, "")),
        _ => Ok(()),
    }
}

/// The file's value of what is varied.
fn own(experiment: &Experiment, name: &str) -> Result<Option<String>, Error> {
    let (factor, key) = name.split_once('.').map_or((name, None), |(factor, key)| (factor, Some(key)));
    let Some(factor) = experiment.factors().iter().find(|known| known.name == factor) else { return Ok(None) };
    Ok(text_of(level(experiment, factor, true)?, key))
}

fn not_in_unit(range: &Range, text: &str) -> Error {
    Error::arguments(
        format!("the default value of `{}` is `{text}`, which is not in the unit of `{range}`", range.name),
        format!("write the range in the value's unit, or give a value in the range's: `--default {}=...`", range.name),
    )
}
