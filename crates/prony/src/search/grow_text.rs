//! The result of `prony grow` as text.

use prony_analysis::guard::phases_not_observed;
use prony_analysis::guard::requests::CONNECTIONS_IN_USE;
use prony_analysis::search::{End, GrowSettings, Growth, Tried, uncounted};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::number::{amount, count, time};
use prony_model::reading::Why;
use prony_model::record::TrialRecord;
use prony_model::units::Nanos;

use super::found::Grown;
use prony_report::render::terminal::{Terminal, plain_table};
use prony_report::screen::one_line;
use prony_report::{ended, least_memory};

/// `store=lmdb, documents=10`.
pub(super) fn levels(levels: &[(String, String)]) -> String {
    let texts: Vec<String> = levels.iter().map(|(name, label)| format!("{name}={label}")).collect();
    texts.join(", ")
}

/// The table of a search by `grow`, and what is to be said beside it.
pub(super) fn grown(settings: &GrowSettings, grown: &[Grown]) -> String {
    let name = &settings.range.name;
    let headings = ["", "largest that succeeds", "longest time, most memory", "next that fails", "how"];
    let rows: Vec<Vec<String>> = grown.iter().map(|one| row(settings, one)).collect();
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = plain_table(Terminal { width: None, colour: false }, &headings, &rows, &mut out);
    let mut text = String::from_utf8_lossy(&out).into_owned();
    for one in grown {
        let whose = if one.other_levels.is_empty() { format!("`{name}`") } else { levels(&one.other_levels) };
        let refused = one.refused.clone();
        for note in notes(settings, one).into_iter().chain(refused).chain(incomplete(settings, one)) {
            text += &format!("{}: {note}\n", one_line(&whose));
        }
    }
    text
}

fn row(settings: &GrowSettings, one: &Grown) -> Vec<String> {
    let value = |tried: Option<Tried>| tried.map_or("none".to_owned(), |tried| settings.range.text(tried.value));
    let whose = if one.other_levels.is_empty() { settings.range.name.clone() } else { levels(&one.other_levels) };
    vec![
        whose,
        value(one.growth.largest_success),
        with(&one.succeeded),
        value(one.growth.smallest_failure),
        how(&one.failed),
    ]
}

/// How trials failed: the outcomes of those that ended badly, and the phases that others did not come to the end of.
fn how(failed: &[TrialRecord]) -> String {
    let (well, badly): (Vec<&TrialRecord>, Vec<&TrialRecord>) =
        failed.iter().partition(|trial| trial.ending.outcome.is_ok());
    let mut texts: Vec<String> = Some(ended(&badly)).filter(|text| !text.is_empty()).into_iter().collect();
    for Incomplete { phase, what, .. } in well.into_iter().filter_map(Incomplete::of) {
        let text = format!("phase {phase} {what}");
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

/// Why trials of the smallest value that fails are no success although the program ended well: the fault may be one of the
/// file.
fn incomplete(settings: &GrowSettings, one: &Grown) -> Option<String> {
    let Incomplete { phase, why, .. } = one.failed.iter().find_map(Incomplete::of)?;
    let value = settings.range.text(one.growth.smallest_failure?.value);
    Some(format!("{value} is no success although the program ended well: phase `{phase}`: {why}"))
}

/// A phase by which a trial is no success although the program ended well.
struct Incomplete<'t> {
    phase: &'t str,
    /// In two or three words.
    what: String,
    /// The reason, and what to do.
    why: String,
}

impl<'t> Incomplete<'t> {
    fn of(trial: &'t TrialRecord) -> Option<Self> {
        if let Some(finding) = phases_not_observed::first(trial) {
            let what = finding.guard.trim_start_matches("phase_").replace('_', " ");
            let why = format!("{}; {}", finding.message, finding.hint);
            return Some(Self { phase: finding.phase.as_deref().unwrap_or_default(), what, why });
        }
        let phase = uncounted(trial)?;
        let why = match phase.uncounted() {
            Some(Why::DoesNotCount(why)) => why.to_string(),
            _ => String::new(),
        };
        let why = format!("{why}; compare `read` with the program's output, which is in the record");
        Some(Self { phase: &phase.name, what: "has unknown work".to_owned(), why })
    }
}

/// What the trials that succeeded needed at most: the time of each phase, and memory. A trial takes longer than its phases:
/// it is prepared, and waits for a quiet machine. Phases may overlap, so that their times add up to nothing.
fn with(succeeded: &[TrialRecord]) -> String {
    let Some(first) = succeeded.first() else { return String::new() };
    let longest = |at: usize| {
        let key = MetricKey::amount(Metric::Time);
        succeeded.iter().filter_map(|trial| trial.phases.get(at)?.reading(key)?.measured().copied()).reduce(f64::max)
    };
    let phases = first.phases.iter().enumerate().filter(|(_, phase)| phase.timed);
    let mut needed: Vec<String> = phases
        .filter_map(|(at, phase)| Some(format!("{} {}", phase.name, time(Nanos::from_nanos(longest(at)? as u64)))))
        .collect();
    needed.extend(succeeded.iter().filter_map(most_memory).reduce(f64::max).map(amount));
    needed.join(", ")
}

/// The control group's own peak, or the largest peak of any phase.
fn most_memory(trial: &TrialRecord) -> Option<f64> {
    let gauge = |stat| {
        let key = MetricKey::gauge(Metric::Rss, stat);
        trial.phases.iter().filter_map(|phase| phase.reading(key)?.measured().copied()).reduce(f64::max)
    };
    least_memory(trial).or_else(|| gauge(Stat::Peak)).or_else(|| gauge(Stat::Max))
}

/// How often both sides of the limit were tried when disturbances ended the search: in the table they look like those of
/// a limit that was confirmed.
fn unconfirmed(settings: &GrowSettings, growth: &Growth) -> String {
    let of = |tried: Option<Tried>, how: &str, trials: fn(Tried) -> u32| {
        let side =
            |tried: Tried| format!("{} {how} in {}", settings.range.text(tried.value), count(trials(tried), "trial"));
        tried.map(side)
    };
    let sides = [
        of(growth.largest_success, "succeeded", |tried| tried.succeeded),
        of(growth.smallest_failure, "failed", |tried| tried.failed),
    ];
    let sides: Vec<String> = sides.into_iter().flatten().collect();
    let tried = if sides.is_empty() { String::new() } else { format!(" ({})", sides.join(", ")) };
    format!("the search stopped at this value before `--confirm {}` confirmed the limit{tried}", settings.confirm)
}

/// That the connections may be what limits the smallest value that fails.
fn over_connections(settings: &GrowSettings, one: &Grown) -> Option<String> {
    let found = one.failed.iter().flat_map(|trial| &trial.findings).find(|found| found.guard == CONNECTIONS_IN_USE)?;
    let value = settings.range.text(one.growth.smallest_failure?.value);
    let phase = found.phase.as_deref().unwrap_or_default();
    Some(format!("at {value} in phase `{phase}` {}; {}", found.message, found.hint))
}

fn notes(settings: &GrowSettings, one: &Grown) -> Vec<String> {
    let growth = &one.growth;
    let text = |value: f64| settings.range.text(value);
    let mut notes = Vec::new();
    match growth.end {
        End::Bracketed => {}
        End::NothingSucceeds => notes.push(format!("no value succeeds: {} fails already", text(settings.range.low))),
        End::AllSucceed => {
            let up_to =
                growth.largest_success.map(|tried| format!(", up to {}", text(tried.value))).unwrap_or_default();
            notes.push(format!("every value that was tried succeeds{up_to}; the largest that succeeds is not known"));
        }
        End::Disturbed => {}
    }
    notes.extend(growth.given_up.map(|value| {
        let ends = if growth.end == End::Disturbed {
            unconfirmed(settings, growth)
        } else {
            "whether it succeeds is not known".to_owned()
        };
        let how = match &one.by_generator {
            Some(phase) => format!(
                "failed in phase `{phase}`, where the load generator, not the subject, may have been the limit (give it more `threads` or \
                 processors of its own)"
            ),
            None => "were ended from outside (the host ran out of memory, or a kill of unknown cause)".to_owned(),
        };
        format!("repeated trials of {} {how}: {ends}", text(value))
    }));
    for mixed in growth.tried.iter().filter(|tried| tried.is_mixed()) {
        notes.push(format!(
            "{} succeeded {} and failed {} of {}: no sharp limit",
            text(mixed.value),
            mixed.succeeded,
            mixed.failed,
            count(mixed.succeeded + mixed.failed, "time")
        ));
    }
    if let (Some(above), Some(smallest_failure)) = (growth.succeeds_above.first(), growth.smallest_failure) {
        notes.push(format!(
            "{} succeeds though {} failed: success is not monotone in the factor",
            text(*above),
            text(smallest_failure.value)
        ));
    }
    notes.extend(over_connections(settings, one));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `16000 saturated in open` stood there without a word of the load generator.
    #[test]
    fn rate_that_the_generator_may_not_have_reached_is_said_to_be_unknown() {
        let settings = GrowSettings { range: "rate=1000..".parse().unwrap(), resolution: 0.05, confirm: 3 };
        let said = |by_generator: Option<&str>| {
            let tried = |value, succeeded, disturbed| Tried { value, succeeded, failed: 0, disturbed };
            let growth = Growth {
                end: End::Disturbed,
                largest_success: Some(tried(8_000.0, 1, 0)),
                smallest_failure: None,
                succeeds_above: Vec::new(),
                given_up: Some(16_000.0),
                tried: vec![tried(8_000.0, 1, 0), tried(16_000.0, 0, 3)],
            };
            let by_generator = by_generator.map(str::to_owned);
            let (succeeded, failed) = (Vec::new(), Vec::new());
            grown(
                &settings,
                &[Grown { other_levels: Vec::new(), growth, succeeded, failed, by_generator, refused: None }],
            )
        };
        let of_generator = said(Some("open"));
        let expected = "`rate`: repeated trials of 16000 failed in phase `open`, where the load generator, not the subject, may have \
                        been the limit (give it more `threads` or processors of its own): the search stopped at this \
                        value before `--confirm 3` confirmed the limit (8000 succeeded in 1 trial)\n";
        assert!(of_generator.ends_with(expected), "{of_generator}");
        assert!(said(None).contains("repeated trials of 16000 were ended from outside"), "{}", said(None));
    }
}
