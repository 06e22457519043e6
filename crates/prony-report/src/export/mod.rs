//! Exports a run's raw data as rows, for other programs. Each format implements [`Rows`]; each kind of row has a file
//! here.

use std::io::{self, Write};

use prony_model::record::TrialRecord;

use crate::error::Error;
use prony_results::RunData;

pub mod document;
mod floor;
mod groups;
mod judged;
mod profiled;
mod readings;
mod records;
pub mod rows;
mod series;
mod trackers;

pub use groups::groups;
pub use readings::readings;
pub use rows::{Csv, Field, Json, Rows};
pub use series::series;
pub use trackers::{Tracked, Tracker, tracked};

/// The first columns of every kind of row: which trial it is of.
pub(super) struct Trials<'a> {
    data: &'a RunData,
}

impl<'a> Trials<'a> {
    pub(super) fn new(data: &'a RunData) -> Self {
        Self { data }
    }

    /// Names of the columns about the trial, then the further ones. Names of factors cannot collide with them.
    pub(super) fn columns(&self, further: &[&str]) -> Vec<String> {
        let factors = self.data.experiment.factors().iter().map(|f| format!("factor.{}", f.name));
        let trial = ["run", "block", "position", "variant", "label"].map(str::to_owned).into_iter();
        trial.chain(factors).chain(["outcome".to_owned()]).chain(further.iter().map(|n| (*n).to_owned())).collect()
    }

    /// A trial's fields in these columns.
    pub(super) fn fields(&self, trial: &TrialRecord) -> Vec<Field<'a>> {
        let experiment = &self.data.experiment;
        let levels = experiment.variants().get(trial.trial.variant).map(|v| v.levels.as_slice()).unwrap_or_default();
        let factors = experiment.factors().iter().enumerate().map(|(at, factor)| {
            let level = levels.get(at).and_then(|level| factor.levels.get(*level));
            level.map_or(Field::None, |level| Field::Text(&level.label))
        });
        let mut fields = vec![
            Field::Whole(self.data.head.id.0.unsigned_abs()),
            Field::Nth(trial.trial.block.into()),
            Field::Nth(trial.trial.position.into()),
            Field::Whole(trial.trial.variant as u64),
            Field::Text(label(trial)),
        ];
        fields.extend(factors);
        fields.push(Field::Text(trial.ending.outcome.name()));
        fields
    }
}

/// `a`, or `a2` for the second run of a baseline.
pub(super) fn label(trial: &TrialRecord) -> &'static str {
    match trial.trial.label {
        prony_model::trial::Label::A => "a",
        prony_model::trial::Label::A2 => "a2",
    }
}

pub(super) fn unwritten(source: io::Error) -> Error {
    Error::Write { what: "the rows".to_owned(), source }
}

fn not_json(error: serde_json::Error) -> Error {
    if error.is_io() { unwritten(error.into()) } else { Error::Json { what: "the results", source: error } }
}

/// Ends a document.
fn ended(out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out).and_then(|()| out.flush()).map_err(unwritten)
}
