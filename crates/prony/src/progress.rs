//! Shows the progress of a run to the user: on a terminal one line that is rewritten, elsewhere one line per finished
//! trial, or one line now and then. Failed trials and notices get a line of their own; trials that fail alike share it then.

use std::collections::BTreeSet;
use std::io::{Stderr, Write};
use std::time::{Duration, Instant};

use prony_analysis::verdicts::names::COMMAND;
use prony_model::crash::{CutEnding, CutRecord, Found};
use prony_model::event::{Event, Observer};
use prony_model::number::{count, span};
use prony_model::outcome::{Ending, Outcome};
use prony_model::reading::Reading;
use prony_model::units::Nanos;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use prony_report::screen::{self, Screen, one_line};

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The output is a terminal: one line is rewritten in place, and trials that end well have no line of their own.
    pub live: bool,
    /// Only what needs attention.
    pub quiet: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// Where not live: a trial has a line only so long after the last one that had. Above zero, or live, a variant's trials
    /// that fail alike have one line together.
    pub every: Duration,
}

/// Prints to the standard error stream, so that tables on standard output stay clean.
pub struct Terminal<W: Write> {
    out: Screen<W>,
    manner: Manner,
    /// What the rest takes, as of when it was said.
    left: Option<(Nanos, Instant)>,
    drawn: Instant,
    shown: usize,
    done: u32,
    done_before: u32,
    trials: u32,
    blocks: u32,
    current: String,
    block: u32,
    /// Trials end so soon one after another that not each of them needs to be shown.
    quick: bool,
    /// When a trial last had a line of its own.
    said: Instant,
    /// Which failures of which variants have a line.
    failures: BTreeSet<String>,
}

/// How often the line is rewritten while trials follow each other sooner: writing it takes time of the machine that is
/// measured.
const REWRITE: Duration = Duration::from_millis(100);

/// Columns of the `^C` that a terminal shows behind the line where the user interrupts.
const ECHO: usize = 2;

impl Terminal<Stderr> {
    /// Prints to the standard error stream, every trial with a line of its own where that is no terminal.
    pub(crate) fn on_messages(quiet: bool) -> Self {
        let manner = Manner { live: screen::shows_messages(), quiet, width: screen::columns(), every: Duration::ZERO };
        Self::new(Screen::messages(), manner)
    }
}

impl<W: Write> Drop for Terminal<W> {
    /// Clears the line that is rewritten: an error that ends the run is printed next.
    fn drop(&mut self) {
        self.clear();
        let _ = self.out.flush();
    }
}

impl<W: Write> Terminal<W> {
    /// Prints to `out`.
    pub fn new(out: Screen<W>, manner: Manner) -> Self {
        let now = Instant::now();
        Self {
            out,
            manner,
            left: None,
            drawn: now,
            shown: 0,
            done: 0,
            done_before: 0,
            trials: 0,
            blocks: 0,
            current: String::new(),
            block: 0,
            quick: false,
            said: now,
            failures: BTreeSet::new(),
        }
    }

    fn line(&mut self, text: &str) {
        self.clear();
        let _ = self.out.line(&one_line(text));
    }

    fn profile(&mut self, event: &Event) {
        match event {
            Event::ProfileBegan { variant, .. } => {
                self.current = format!("profile of {variant}");
                self.live("", true);
            }
            Event::ProfileEnded { variant, ending, samples, notes, done, profiles } => {
                let well = ending.as_ref().is_some_and(|ending| ending.outcome.is_ok()) && samples.measured().is_some();
                if !self.manner.quiet || !well {
                    let what = profile_line(ending.as_ref(), samples);
                    self.line(&format!("[profile {done}/{profiles}] {variant}: {what}"));
                    notes.iter().for_each(|note| self.line(&format!("  {note}")));
                }
            }
            _ => {}
        }
    }

    /// The first cut of a variant that shows a loss or a fault, or that was not made, has a line of its own, and the last of
    /// all; the others are counted in the live line.
    fn cut(&mut self, variant: &str, record: &CutRecord, (done, cuts): (u32, u32)) {
        self.current = format!("{} cut {done}/{cuts}: {variant}", record.phase);
        let (text, notable) = cut_line(record);
        let first = notable && self.failures.insert(format!("{variant}: {}", record.phase));
        if first || done == cuts || (!self.manner.quiet && self.manner.every == Duration::ZERO) {
            self.line(&format!("[cut {done}/{cuts}] {variant}: {text}"));
        } else {
            self.live("", true);
        }
    }

    /// Whether a trial that ended so has a line of its own.
    fn has_line(&mut self, variant: &str, ending: &Ending) -> bool {
        let every = self.manner.every;
        if !ending.outcome.is_ok() {
            let first = self.failures.insert(format!("{variant}: {}", ending.outcome));
            return first || (every == Duration::ZERO && !self.manner.live);
        }
        let has = !self.manner.quiet && !self.manner.live && self.said.elapsed() >= every;
        if has {
            self.said = Instant::now();
        }
        has
    }

    /// A text that the next one replaces.
    pub(crate) fn passing(&mut self, text: &str) {
        if self.manner.live && !self.manner.quiet {
            self.rewrite(text);
        }
    }

    /// Erases the text that the next one would replace.
    pub(crate) fn clear(&mut self) {
        if self.shown > 0 {
            let columns = (self.shown + ECHO).min(self.manner.width.saturating_sub(1));
            let _ = self.out.take_back(columns.max(self.shown));
            self.shown = 0;
        }
    }

    fn live(&mut self, tail: &str, force: bool) {
        if !self.manner.live || self.manner.quiet || (!force && self.drawn.elapsed() < REWRITE) {
            return;
        }
        let since = |(left, at): (Nanos, Instant)| remaining(left, at.elapsed());
        let left = self.left.map(since).unwrap_or_default();
        // A search does not know how many there will be.
        let of = if self.blocks > 0 { format!(" of {}", self.blocks) } else { String::new() };
        let trials = if self.trials > 0 { format!("/{}", self.trials) } else { String::new() };
        // What matters most comes first: a line too long for the terminal loses its end.
        let text = format!("[{}{trials}]{left} block {}{of}, {} {tail}", self.done, self.block + 1, self.current);
        self.rewrite(&text);
        self.drawn = Instant::now();
    }

    /// Shows a text on the line that is rewritten, as far as there is room.
    fn rewrite(&mut self, text: &str) {
        let (mut columns, room) = (0, self.manner.width.saturating_sub(1));
        let fits = |character: &char| {
            columns += character.width().unwrap_or_default();
            columns <= room
        };
        let text: String = one_line(text).chars().take_while(fits).collect();
        self.clear();
        let _ = self.out.text(&text).and_then(|()| self.out.flush());
        self.shown = text.width();
    }
}

impl<W: Write> Observer for Terminal<W> {
    fn event(&mut self, event: &Event) {
        match event {
            Event::RunBegan { run, title, variants, blocks, trials, budget, done, no_verdict } => {
                (self.trials, self.done, self.done_before, self.blocks) = (*trials, *done, *done, *blocks);
                if !self.manner.quiet {
                    let again = if *done > 0 { format!(", {done} already done") } else { String::new() };
                    let variants = count(*variants, "variant");
                    let plan = match budget {
                        Some(budget) => format!("{variants}, as many blocks as fit into {}", span(*budget)),
                        None => format!("{variants}, {}, {}", count(*blocks, "block"), count(*trials, "trial")),
                    };
                    self.line(&format!("run {run}: {title}: {plan}{again}"));
                    if let Some(no_verdict) = no_verdict {
                        self.line(&format!("warning: {}", no_verdict.why));
                        no_verdict.hint.iter().for_each(|hint| self.line(&format!("hint: {hint}")));
                    }
                }
            }
            Event::HostProbe { what } => self.passing(&format!("examining the machine: {what}")),
            Event::Copying { directory, done, total } => {
                self.passing(&format!("copying `{directory}`: {done} of {total}"));
            }
            Event::TrialBegan { trial, variant } => {
                name(variant).clone_into(&mut self.current);
                self.block = trial.block;
                self.live("", !self.quick);
            }
            Event::PhaseBegan { phase, .. } => self.live(&format!("| {phase} "), !self.quick),
            Event::Progress { phase, operations, total, .. } => {
                let share = total.filter(|t| *t > 0).map(|t| format!(" {} %", operations * 100 / t));
                self.live(&format!("| {phase}{} ", share.unwrap_or_default()), false);
            }
            Event::PhaseEnded { .. } => {}
            Event::TrialEnded { trial, variant, ending, took, phases, done, trials, left } => {
                (self.done, self.trials) = (*done, *trials);
                self.left = left.map(|left| (left, Instant::now()));
                self.quick = took.to_duration() < REWRITE;
                if self.has_line(variant, ending) {
                    let text = trial_line(trial.block, variant, ending, *took, phases);
                    let left = left.map(|left| remaining(left, Duration::ZERO)).unwrap_or_default();
                    self.line(&format!("[{done}/{trials}]{left} {text}"));
                }
            }
            Event::ProfileBegan { .. } | Event::ProfileEnded { .. } => self.profile(event),
            Event::CutEnded { variant, record, done, cuts } => self.cut(variant, record, (*done, *cuts)),
            Event::Notice { text, hint } => {
                self.line(text);
                if let Some(hint) = hint {
                    self.line(&format!("hint: {hint}"));
                }
            }
            Event::RunEnded { run, ok, failed, interrupted } => {
                if !self.manner.quiet {
                    let how = if *interrupted { "interrupted" } else { "done" };
                    let ended = if *failed > 0 { format!(", {failed} not ok") } else { String::new() };
                    let before = if self.done_before > 0 { " in this session" } else { "" };
                    self.line(&format!("run {run} {how}: {} ok{ended}{before}", count(*ok, "trial")));
                }
            }
        }
    }
}

/// What a cut showed, and whether a user should see it at once.
fn cut_line(record: &CutRecord) -> (String, bool) {
    match &record.ending {
        CutEnding::Unsupported { why } => (format!("no crash trials: {why}"), true),
        CutEnding::Failed { message } => (format!("no cut: {message}"), true),
        CutEnding::Cut { acknowledged, images, .. } => {
            let commits = count(*acknowledged, "acknowledged commit");
            let faulty: Vec<String> = images.iter().filter_map(|image| found_line(&image.found)).collect();
            match faulty.first() {
                None => (format!("{commits}, none lost"), false),
                Some(first) if images.len() == 1 => (format!("{commits}, {first}"), true),
                Some(first) => {
                    let share = format!("{} of {} images", faulty.len(), images.len());
                    (format!("{commits}, findings in {share}; the first: {first}"), true)
                }
            }
        }
    }
}

/// What is wrong with a store after a cut; `None` where every acknowledged commit is there and nothing is wrong.
fn found_line(found: &Found) -> Option<String> {
    match found {
        Found::DoesNotOpen { message } => Some(format!("does not open: {message}")),
        Found::Unreadable { message } => Some(format!("opens and cannot be read: {message}")),
        Found::Unchecked { why } => Some(format!("not checked: {why}")),
        Found::Survived(survived) => {
            let fault = survived.faults.first().map(|fault| fault.text.clone());
            let fault = fault.or_else(|| survived.integrity.iter().flatten().next().cloned());
            let fault = fault.or_else(|| survived.refuses_writes.clone());
            let lost = (survived.lost > 0).then(|| format!("{} lost", survived.lost));
            let unfinished = survived.unfinished.as_ref().map(|why| format!("not checked to the end: {why}"));
            let all: Vec<String> = lost.into_iter().chain(fault).chain(unfinished).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
    }
}

fn trial_line(block: u32, variant: &str, ending: &Ending, took: Nanos, phases: &[(String, Nanos)]) -> String {
    let times: Vec<String> = phases.iter().map(|(name, time)| format!("{name} {time}")).collect();
    let what = match ending.outcome {
        Outcome::Ok => times.join(", "),
        outcome => {
            let place = ending.phase.as_ref().map(|phase| format!(" in phase `{phase}` after {}", ending.after));
            format!("{outcome}{}", place.unwrap_or_default())
        }
    };
    format!("block {}, {}: {what} (trial took {took})", block + 1, name(variant))
}

/// A variant as a line names it: a command that was typed needs no name of a factor before it.
fn name(variant: &str) -> &str {
    variant.strip_prefix(COMMAND).and_then(|rest| rest.strip_prefix('=')).unwrap_or(variant)
}

fn profile_line(ending: Option<&Ending>, samples: &Reading<u64>) -> String {
    let how = match ending.filter(|ending| !ending.outcome.is_ok()) {
        Some(ending) => format!("{}, ", ending.outcome),
        None => String::new(),
    };
    match samples {
        Reading::Measured(samples) => format!("{how}{}", count(*samples, "sample")),
        Reading::Missing(why) => format!("{how}no profile: {why}"),
    }
}

/// What of the time left is left after some of it; nothing below a second.
fn remaining(left: Nanos, after: Duration) -> String {
    let seconds = left.to_duration().saturating_sub(after).as_secs_f64();
    if seconds < 1.0 { String::new() } else { format!(" ~{} left |", span(Nanos::from_secs(seconds.ceil() as u64))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::crash::{CutKind, ImageRecord, Survived};
    use prony_model::reading::Why;
    use prony_model::trial::{Label, PlannedTrial};

    const PLAIN: Manner = Manner { live: false, quiet: false, width: 80, every: Duration::ZERO };

    fn trial() -> PlannedTrial {
        PlannedTrial { block: 2, sub_block: 0, position: 7, variant: 1, label: Label::A, seed: 3 }
    }

    fn ended(outcome: Outcome) -> Event {
        Event::TrialEnded {
            trial: trial(),
            variant: "engine=lmdb".into(),
            ending: Ending { outcome, phase: Some("write".into()), after: Nanos::from_millis(20), evidence: vec![] },
            took: Nanos::from_millis(130),
            phases: vec![("write".into(), Nanos::from_millis(12))],
            done: 8,
            trials: 12,
            left: None,
        }
    }

    fn said(manner: Manner, events: &[Event]) -> String {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(Screen::new(&mut out, false), manner);
        events.iter().for_each(|event| terminal.event(event));
        drop(terminal);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_finished_trial_is_one_plain_line() {
        assert_eq!(
            said(PLAIN, &[ended(Outcome::Ok)]),
            "[8/12] block 3, engine=lmdb: write 12.00 ms (trial took 130.00 ms)\n"
        );
        assert_eq!(
            said(PLAIN, &[ended(Outcome::TimedOut)]),
            "[8/12] block 3, engine=lmdb: timed out in phase `write` after 20.00 ms (trial took 130.00 ms)\n"
        );
    }

    #[test]
    fn what_is_left_is_printed_before_each_trial_and_a_budget_in_the_place_of_blocks() {
        let later = |left| match ended(Outcome::Ok) {
            Event::TrialEnded { trial, variant, ending, took, phases, done, trials, .. } => {
                Event::TrialEnded { trial, variant, ending, took, phases, done, trials, left }
            }
            other => other,
        };
        let line = |left| said(PLAIN, &[later(left)]);
        assert!(line(Some(Nanos::from_secs(200))).starts_with("[8/12] ~3 min left | block 3, "));
        assert!(line(Some(Nanos::from_millis(80))).starts_with("[8/12] block 3, "));
        let budget = Some(Nanos::from_secs(90));
        let began = Event::RunBegan {
            run: 1,
            title: "x".into(),
            variants: 2,
            blocks: 0,
            trials: 0,
            budget,
            done: 0,
            no_verdict: None,
        };
        assert_eq!(said(PLAIN, &[began]), "run 1: x: 2 variants, as many blocks as fit into 90 s\n");
    }

    #[test]
    fn a_profile_is_one_line_and_a_missing_one_is_said_even_when_quiet() {
        let ending = Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: vec![] };
        let event = |ending: Option<Ending>, samples| Event::ProfileEnded {
            variant: "engine=lmdb".into(),
            ending,
            samples,
            notes: vec!["something is not seen".into()],
            done: 1,
            profiles: 2,
        };
        let there = event(Some(ending), Reading::Measured(812));
        assert_eq!(
            said(PLAIN, std::slice::from_ref(&there)),
            "[profile 1/2] engine=lmdb: 812 samples\n  something is not seen\n"
        );
        let quiet = Manner { quiet: true, ..PLAIN };
        assert_eq!(said(quiet, &[there]), "");
        let missing = event(None, Reading::Missing(Why::NotSupported("`perf` is not installed".into())));
        assert!(said(quiet, &[missing]).starts_with("[profile 1/2] engine=lmdb: no profile: not supported"));
    }

    /// It said of all images with a finding what is true of the first.
    #[test]
    fn line_of_a_cut_says_what_was_found_in_the_first_image_with_a_finding_only() {
        let lost = |lost| Found::Survived(Box::new(Survived { lost, ..Survived::default() }));
        let found = [lost(0), lost(2), Found::DoesNotOpen { message: "malformed".into() }];
        let image = |(image, found)| ImageRecord { image, contains: String::new(), found };
        let ending = |found: &[Found]| CutEnding::Cut {
            acknowledged: 5,
            after: Nanos::from_millis(90),
            images: (0..).zip(found.iter().cloned()).map(image).collect(),
            remarks: vec![],
            saved: Reading::default(),
        };
        let line = |found: &[Found]| {
            let (kind, moment, took) = (CutKind::PowerCut, Nanos::ZERO, Nanos::ZERO);
            let (effective, ending) = (None, ending(found));
            cut_line(&CutRecord {
                variant: 0,
                phase: "cut".into(),
                cut: 0,
                kind,
                seed: 1,
                moment,
                effective,
                ending,
                took,
            })
        };
        let acknowledged = |rest: &str| format!("5 acknowledged commits, {rest}");
        assert_eq!(line(&found), (acknowledged("findings in 2 of 3 images; the first: 2 lost"), true));
        assert_eq!(line(&found[1..2]), (acknowledged("2 lost"), true));
        assert_eq!(line(&found[..1]), (acknowledged("none lost"), false));
    }

    #[test]
    fn quiet_says_only_what_needs_attention() {
        let quiet = Manner { quiet: true, ..PLAIN };
        assert_eq!(said(quiet, &[ended(Outcome::Ok)]), "");
        assert!(said(quiet, &[ended(Outcome::Killed)]).contains("killed, cause unknown"));
    }

    #[test]
    fn terminal_shows_control_characters_of_a_name_escaped() {
        let name = "a\u{1b}[2J\nrun 9 done\u{202e}";
        let began = |live| said(live, &[Event::TrialBegan { trial: trial(), variant: name.into() }]);
        let shown = "a\\u{1b}[2J\\nrun 9 done\\u{202e}";
        assert!(began(Manner { live: true, ..PLAIN }).contains(shown));
        let notice = Event::Notice { text: name.into(), hint: Some(name.into()) };
        assert_eq!(said(PLAIN, &[notice]), format!("{shown}\nhint: {shown}\n"));
    }

    #[test]
    fn terminal_has_one_line_that_is_rewritten_and_lines_of_trials_that_failed() {
        let live = Manner { live: true, ..PLAIN };
        let began = || Event::TrialBegan { trial: trial(), variant: "engine=lmdb".into() };
        let text = said(live, &[began(), ended(Outcome::Ok), began()]);
        assert!(text.contains("block 3, engine=lmdb"), "the number of blocks is not known: {text}");
        // What is cleared at the end stands last.
        let [end, blanks, last] = text.rsplitn(3, '\r').collect::<Vec<_>>().try_into().unwrap();
        let last = last.rsplit_once('\r').unwrap().1;
        assert!(!text.contains('\n') && last.starts_with("[8/12] block 3, "), "{text}");
        assert!(end.is_empty() && blanks.trim().is_empty() && blanks.len() == last.len() + ECHO, "{text}");
        let text = said(live, &[began(), ended(Outcome::TimedOut)]);
        assert!(text.rsplit_once('\r').unwrap().1.starts_with("[8/12] block 3, engine=lmdb: timed out"), "{text}");
    }

    #[test]
    fn short_trials_do_not_rewrite_the_line_each_time() {
        let quick = |event| match event {
            Event::TrialEnded { trial, variant, ending, phases, done, trials, left, .. } => {
                Event::TrialEnded { trial, variant, ending, took: Nanos::from_millis(1), phases, done, trials, left }
            }
            other => other,
        };
        let began = || Event::TrialBegan { trial: trial(), variant: "engine=lmdb".into() };
        let all: Vec<Event> = (0..1_000).flat_map(|_| [began(), quick(ended(Outcome::Ok))]).collect();
        let live = Manner { live: true, ..PLAIN };
        let drawn = said(live, &all).matches("block 3, engine=lmdb").count();
        assert!((1..500).contains(&drawn), "{drawn}");
    }

    #[test]
    fn trials_that_follow_each_other_soon_share_lines() {
        let sparse = Manner { every: Duration::from_secs(3600), ..PLAIN };
        assert_eq!(said(sparse, &[ended(Outcome::Ok), ended(Outcome::Ok)]), "");
        let lines = |manner| {
            let text = said(manner, &[ended(Outcome::TimedOut), ended(Outcome::TimedOut), ended(Outcome::Killed)]);
            text.lines().count()
        };
        let live = Manner { live: true, ..PLAIN };
        assert_eq!([sparse, Manner { live: true, ..sparse }, live, PLAIN].map(lines), [2, 2, 2, 3]);
    }

    #[test]
    fn a_line_that_is_too_long_keeps_how_far_it_is_and_the_width() {
        let began = Event::TrialBegan { trial: trial(), variant: "\u{754c}".repeat(80) };
        let text = said(Manner { live: true, ..PLAIN }, &[began]);
        let (text, cleared) = text.split_once('\r').unwrap();
        assert_eq!(cleared, format!("{}\r", " ".repeat(79)), "not a column beyond the width");
        assert!(text.starts_with("[0] block 3, \u{754c}") && (78..80).contains(&text.width()), "{text}");
    }
}
