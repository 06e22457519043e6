//! Selects the warnings that are printed during a run, so that a user learns at once, and not after hours, that a
//! pattern matches nothing. Pure functions.

use std::collections::BTreeSet;

use prony_model::event::Event;
use prony_model::finding::{Finding, Severity};
use prony_model::record::TrialRecord;

/// The guard and phase of each warning that was printed in this run.
#[derive(Debug, Default)]
pub struct NewWarnings {
    reported: BTreeSet<(String, Option<String>)>,
}

impl NewWarnings {
    /// The warnings of a trial that no earlier trial had.
    pub fn of_trial(&mut self, record: &TrialRecord) -> Vec<Event> {
        let warning = |finding: &&Finding| finding.severity == Severity::Warning;
        let warnings = record.findings.iter().filter(warning);
        let new = warnings.filter(|finding| self.reported.insert((finding.guard.clone(), finding.phase.clone())));
        new.map(notice).collect()
    }
}

/// A finding as an event: what it says, and what to do.
pub fn notice(Finding { guard, phase, message, hint, .. }: &Finding) -> Event {
    let place = phase.as_ref().map(|phase| format!(" in `{phase}`")).unwrap_or_default();
    let text = format!("warning: `{guard}`{place}: {message}");
    Event::Notice { text, hint: Some(hint.clone()).filter(|hint| !hint.is_empty()) }
}
