//! Makes the footnote at the time of a phase that waits for quiet: which sign of activity came last.

use std::collections::BTreeMap;

use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::record::TrialRecord;
use prony_model::spec::Sign;

use super::cells::Source;
use super::model::Cell;
use super::notes::Notes;
use super::variants::records_of;

/// Marks the cells of a column that reads these metrics.
pub(super) fn mark(read: &[&MetricName], sources: &[Source<'_>], cells: &mut [Cell], notes: &mut Notes) {
    let times = read.iter().filter(|name| matches!(name.key.metric, Metric::Time | Metric::SettleTime));
    for name in times {
        for (source, cell) in sources.iter().zip(&mut *cells) {
            let phase = if name.phase.is_empty() { source.phase.as_deref() } else { Some(name.phase.as_str()) };
            let text = phase.and_then(|phase| last_active(phase, &source.trials));
            cell.marks.extend(text.map(|text| notes.mark(text)));
        }
    }
}

/// What was active last, over trials; nothing where the phase waits for no quiet, or nothing was active.
fn last_active(phase: &str, trials: &[&TrialRecord]) -> Option<String> {
    let phases = records_of(trials.iter().copied(), phase);
    let mut counts: BTreeMap<Sign, usize> = BTreeMap::new();
    let mut all = 0;
    for record in phases.filter(|record| record.reading(MetricKey::amount(Metric::SettleTime)).is_some()) {
        all += 1;
        record.last_signs().into_iter().for_each(|sign| *counts.entry(sign).or_default() += 1);
    }
    let named = |(sign, n): (&Sign, &usize)| {
        let of = if *n == all { String::new() } else { format!(" in {n} of {all} trials") };
        format!("{} (`{}`){of}", sign.what(), sign.metric().name())
    };
    let named: Vec<String> = counts.iter().map(named).collect();
    (!named.is_empty()).then(|| format!("last active: {}", named.join(", ")))
}
