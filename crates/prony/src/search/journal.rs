//! The journal of a search: its arguments, every trial with its result, every decision, and the conclusion. The
//! database stores the journal, `--journal FILE` writes it as lines of JSON, `--resume` and `prony show` read it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use prony_analysis::search::{Growth, TrialEnd, tune};
use prony_model::catalog::Overrides;
use prony_model::outcome::{Ending, Outcome};
use prony_model::reading::Reading;
use prony_results::{Database, RunId, RunStatus};
use serde::{Deserialize, Serialize};

use super::found::{GrowWanted, TuneWanted};
use crate::error::Error;
use crate::output_file::OutputFile;

/// Levels or settings by the names of their factors, as the experiment has them.
pub(crate) type ByFactor = BTreeMap<String, String>;

/// The arguments of a search: the first entry of its journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "search", content = "wanted", rename_all = "snake_case")]
pub enum Asked {
    /// `prony grow`.
    Grow(GrowWanted),
    /// `prony tune`.
    Tune(TuneWanted),
}

impl Asked {
    /// The command that does such a search.
    pub const fn command(&self) -> &'static str {
        match self {
            Self::Grow(_) => GrowWanted::COMMAND,
            Self::Tune(_) => TuneWanted::COMMAND,
        }
    }
}

/// The arguments of one kind of search.
pub(crate) trait Wanted: Sized {
    /// The command that does such a search.
    const COMMAND: &'static str;

    /// The arguments of a search, if it is of this kind.
    fn of(asked: Asked) -> Option<Self>;

    /// The experiment's file, as typed, and what the command line changes in it.
    fn subject(&mut self) -> (&PathBuf, &mut Overrides);
}

impl Wanted for GrowWanted {
    const COMMAND: &'static str = "grow";

    fn of(asked: Asked) -> Option<Self> {
        if let Asked::Grow(wanted) = asked { Some(wanted) } else { None }
    }

    fn subject(&mut self) -> (&PathBuf, &mut Overrides) {
        (&self.file, &mut self.overrides)
    }
}

impl Wanted for TuneWanted {
    const COMMAND: &'static str = "tune";

    fn of(asked: Asked) -> Option<Self> {
        if let Asked::Tune(wanted) = asked { Some(wanted) } else { None }
    }

    fn subject(&mut self) -> (&PathBuf, &mut Overrides) {
        (&self.file, &mut self.overrides)
    }
}

/// An entry of the journal; which one it is shows in its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// What was asked.
    Asked(Box<Asked>),
    /// A trial of `grow`.
    Raised {
        /// The trial's position in the run.
        trial: u32,
        /// The value of the factor that is raised, with its unit.
        value: String,
        /// The levels of the other factors.
        levels: ByFactor,
        /// What the trial says of the value.
        end: TrialEnd,
        /// How it ended.
        ending: Ending,
    },
    /// What `grow` concluded for a combination of the other factors.
    Grown {
        /// The levels of the other factors.
        levels: ByFactor,
        /// The largest value that succeeds and the smallest that fails.
        grown: Growth,
    },
    /// A trial of `tune`.
    Tried {
        /// The trial's position in the run.
        trial: u32,
        /// The round of the search, from 0.
        round: u32,
        /// The block within the search, from 0.
        block: u32,
        /// The candidate's number.
        candidate: usize,
        /// Its values.
        setting: ByFactor,
        /// How the trial ended.
        outcome: Outcome,
        /// The objective and what each constraint bounds, in their own units; missing altogether where the trial failed.
        figures: Option<BTreeMap<String, Reading<f64>>>,
        /// What the trial says of the candidate, in words.
        result: String,
    },
    /// A candidate that `tune` left out, since a guard refuses to compare it with the default or the file does not allow it.
    LeftOut {
        /// The candidate's number.
        left_out: usize,
        /// Its values.
        setting: ByFactor,
        /// What the guard says, or the first fault of the file.
        why: String,
    },
    /// What `tune` decided after a block.
    Decided {
        /// Which candidates are out, and why.
        decision: tune::Decision,
    },
    /// What `tune` found.
    Found {
        /// The winner and why the search ended.
        found: tune::Found,
        /// Each candidate's values.
        settings: Vec<String>,
    },
    /// The run that compares the winner of `tune` with the default began.
    Confirming {
        /// Its number.
        confirming: i64,
    },
    /// What the search printed at its end.
    Concluded {
        /// The run that confirmed the winner of `tune`, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirmation: Option<i64>,
        /// The text.
        said: String,
    },
}

/// The arguments of a run's search; `None` for a run that is not a search.
///
/// # Errors
/// Where the database cannot be read, or the entry is none of this version's.
pub fn asked(database: &Database, run: RunId) -> Result<Option<Asked>, Error> {
    match read(database, run)?.into_iter().next() {
        Some(Entry::Asked(asked)) => Ok(Some(*asked)),
        _ => Ok(None),
    }
}

/// What a search printed at its end; `None` for other runs, and where it did not end.
///
/// # Errors
/// As [`asked`].
pub fn concluded(database: &Database, run: RunId) -> Result<Option<String>, Error> {
    let text = |entry| if let Entry::Concluded { said, .. } = entry { Some(said) } else { None };
    Ok(read(database, run)?.into_iter().rev().find_map(text))
}

/// The run that an interrupted search began in order to compare its winner with the default, if it is in the database.
///
/// # Errors
/// As [`asked`].
pub(crate) fn confirming(database: &Database, search: RunId) -> Result<Option<RunId>, Error> {
    let number = |entry| if let Entry::Confirming { confirming } = entry { Some(confirming) } else { None };
    let begun = read(database, search)?.into_iter().rev().find_map(number);
    Ok(database.runs()?.into_iter().map(|head| head.id).find(|id| Some(id.0) == begun))
}

/// The interrupted search that compares its winner with the default in this run, if it is such a run.
///
/// # Errors
/// As [`asked`].
pub(crate) fn search_of(database: &Database, run: RunId) -> Result<Option<RunId>, Error> {
    for head in database.runs()? {
        let is_open = head.search.is_some() && head.status != RunStatus::Done;
        // A journal that cannot be read is an error of its own search, and of no other run.
        if is_open && confirming(database, head.id).ok().flatten() == Some(run) {
            return Ok(Some(head.id));
        }
    }
    Ok(None)
}

/// Writes an entry to the file of a journal, if there is one.
///
/// # Errors
/// Where it cannot be written.
pub(super) fn copy(file: Option<&OutputFile>, entry: &Entry) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let line = serde_json::to_string(entry).map_err(|source| Error::Json { what: "the journal", source })?;
    file.append(format!("{line}\n").as_bytes())
}

fn read(database: &Database, run: RunId) -> Result<Vec<Entry>, Error> {
    Ok(database.journal(run)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::units::Nanos;

    #[test]
    fn entries_without_a_tag_are_read_as_what_they_were_written() {
        let ending = Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: Vec::new() };
        let levels = ByFactor::from([("kind".to_owned(), "wide".to_owned())]);
        let entries = [
            Entry::Raised { trial: 3, value: "37".to_owned(), levels, end: TrialEnd::Succeeded, ending },
            Entry::Tried {
                trial: 4,
                round: 0,
                block: 1,
                candidate: 2,
                setting: ByFactor::new(),
                outcome: Outcome::Ok,
                figures: Some(BTreeMap::from([("run.time".to_owned(), Reading::Measured(0.5))])),
                result: "good".to_owned(),
            },
            Entry::Confirming { confirming: 7 },
            Entry::Concluded { confirmation: Some(7), said: "x".to_owned() },
            Entry::Concluded { confirmation: None, said: "x".to_owned() },
        ];
        for entry in entries {
            let text = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry, "{text}");
        }
    }
}
