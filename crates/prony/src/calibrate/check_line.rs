//! One line of a calibration: a value that is known, and prony's reading of it.

use prony_model::number::{percent, quantity};
use prony_model::reading::{Reading, Why};
use prony_model::units;
use prony_report::shown;
use prony_stats::simulation::Rate;
use serde_json::{Value, json};

prony_model::words! {
    /// The unit of a value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Unit {
        /// Bytes.
        Bytes = "bytes";
        /// Nanoseconds.
        Nanos = "ns";
        /// Calls.
        Calls = "calls";
    }
}

impl Unit {
    /// An amount with its unit, for people.
    pub fn show(self, amount: f64) -> String {
        let unit = match self {
            Self::Bytes => units::Unit::Bytes,
            Self::Nanos => units::Unit::Nanos,
            Self::Calls => units::Unit::Count,
        };
        quantity(amount, unit)
    }
}

/// A promised bound on how often something happens, as a share of the tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// No more often than this share.
    AtMost(f64),
    /// At least as often as this share.
    AtLeast(f64),
}

impl Promise {
    /// Whether the exact bounds of a rate leave it possible. Nothing tried is nothing shown.
    pub(crate) fn is_met(self, rate: Rate) -> bool {
        let (low, high) = rate.bounds();
        rate.of > 0
            && match self {
                Self::AtMost(share) => low <= share,
                Self::AtLeast(share) => high >= share,
            }
    }

    const fn words(self) -> (&'static str, f64) {
        match self {
            Self::AtMost(share) => ("at most", share),
            Self::AtLeast(share) => ("at least", share),
        }
    }
}

/// The truth and the reading.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// An amount.
    Figure {
        /// Of what.
        unit: Unit,
        /// What the fixture did.
        truth: f64,
        /// What prony says.
        reading: Reading<f64>,
        /// How far the reading may be from the truth.
        allowed: f64,
    },
    /// Something that is said rightly or wrongly.
    Finding {
        /// What prony must say.
        truth: String,
        /// What it says.
        reading: Reading<String>,
    },
    /// How often something happens.
    Share {
        /// What prony promises.
        truth: Promise,
        /// What came of many tries.
        reading: Reading<Rate>,
    },
}

/// A check and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What is read.
    pub what: String,
    /// Truth and reading.
    pub check: Check,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The reading is the truth, within what is allowed.
    Pass,
    /// It is not.
    Fail,
    /// It cannot be read on this machine.
    NotRun(String),
}

impl Judgement {
    /// In tables and machine output.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::NotRun(_) => "not run",
        }
    }
}

impl Line {
    /// An amount that may be `allowed` off.
    pub fn figure(what: impl Into<String>, unit: Unit, truth: f64, reading: Reading<f64>, allowed: f64) -> Self {
        Self { what: what.into(), check: Check::Figure { unit, truth, reading, allowed } }
    }

    /// Something that must be said in these words.
    pub fn finding(what: impl Into<String>, truth: impl Into<String>, reading: Reading<String>) -> Self {
        Self { what: what.into(), check: Check::Finding { truth: truth.into(), reading } }
    }

    /// Something that must happen as seldom or as often as is promised.
    pub fn share(what: impl Into<String>, truth: Promise, reading: Reading<Rate>) -> Self {
        Self { what: what.into(), check: Check::Share { truth, reading } }
    }

    /// Whether prony's reading agrees with the true value.
    pub fn judge(&self) -> Judgement {
        if let Some(why) = self.missing() {
            return without(why);
        }
        let is_right = match &self.check {
            // A comparison that is false for what is no number.
            Check::Figure { allowed, .. } => self.error().is_some_and(|error| error.abs() <= *allowed),
            Check::Finding { truth, reading } => reading.measured() == Some(truth),
            Check::Share { truth, reading } => reading.measured().is_some_and(|rate| truth.is_met(*rate)),
        };
        if is_right { Judgement::Pass } else { Judgement::Fail }
    }

    /// Reading minus truth, where both are amounts.
    pub fn error(&self) -> Option<f64> {
        match &self.check {
            Check::Figure { truth, reading: Reading::Measured(reading), .. } => Some(reading - truth),
            _ => None,
        }
    }

    /// For machines: amounts in the unit that is named, texts as they are, of a share its exact 95 % bounds and the
    /// number of tries.
    pub fn json(&self) -> Value {
        let judgement = self.judge();
        let why = match &judgement {
            Judgement::NotRun(why) => Some(why.clone()),
            _ => self.missing().map(ToString::to_string),
        };
        let (unit, truth, reading, allowed, rate) = match &self.check {
            Check::Figure { unit, truth, reading, allowed } => {
                (json!(unit.name()), json!(truth), json!(reading.measured()), json!(allowed), None)
            }
            Check::Finding { truth, reading } => {
                (Value::Null, json!(truth), json!(reading.measured()), Value::Null, None)
            }
            Check::Share { truth, reading } => {
                let ((words, share), rate) = (truth.words(), reading.measured().copied());
                (json!("share"), json!(share), json!(rate.map(|rate| rate.share())), json!(words), rate)
            }
        };
        json!({
            "what": self.what,
            "unit": unit,
            "truth": truth,
            "reading": reading,
            "error": self.error(),
            "allowed": allowed,
            "bounds": rate.map(Rate::bounds),
            "tries": rate.map(|rate| rate.of),
            "result": judgement.name().to_lowercase(),
            "why": why,
        })
    }

    /// The columns after the name: truth, reading, error, allowed.
    pub fn cells(&self) -> [String; 4] {
        match &self.check {
            Check::Finding { truth, reading } => {
                [truth.clone(), shown(reading, Clone::clone), String::new(), String::new()]
            }
            Check::Share { truth, reading } => {
                let (words, share) = truth.words();
                let truth = format!("{words} {}", percent(share));
                [truth, shown(reading, ToString::to_string), String::new(), String::new()]
            }
            Check::Figure { unit, truth, reading, allowed } => {
                let error = self.error().map_or_else(String::new, |error| unit.show(error));
                [unit.show(*truth), shown(reading, |amount| unit.show(*amount)), error, unit.show(*allowed)]
            }
        }
    }

    const fn missing(&self) -> Option<&Why> {
        match &self.check {
            Check::Figure { reading: Reading::Missing(why), .. }
            | Check::Finding { reading: Reading::Missing(why), .. }
            | Check::Share { reading: Reading::Missing(why), .. } => Some(why),
            _ => None,
        }
    }
}

/// If the machine does not permit a measurement, that is not an error of prony; an attempt that failed is one.
fn without(why: &Why) -> Judgement {
    match why {
        Why::NotPermitted(_) | Why::NotSupported(_) => Judgement::NotRun(why.to_string()),
        Why::NotApplicable
        | Why::NotReached
        | Why::TooFew { .. }
        | Why::Infinite { .. }
        | Why::NotSettled(_)
        | Why::DoesNotCount(_)
        | Why::Failed(_) => Judgement::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(truth: f64, reading: Reading<f64>, allowed: f64) -> Line {
        Line::figure("memory", Unit::Bytes, truth, reading, allowed)
    }

    #[test]
    fn a_reading_passes_up_to_what_is_allowed_on_either_side() {
        let judged = |reading| figure(300.0, Reading::Measured(reading), 8.0).judge();
        assert_eq!([292.0, 300.0, 308.0].map(judged), [Judgement::Pass, Judgement::Pass, Judgement::Pass]);
        let wrong = [291.9, 308.1, 0.0, f64::NAN, f64::INFINITY].map(judged);
        assert!(wrong.iter().all(|judgement| *judgement == Judgement::Fail), "{wrong:?}");
    }

    #[test]
    fn an_exact_count_allows_nothing() {
        let judged = |reading| Line::figure("calls", Unit::Calls, 60.0, Reading::Measured(reading), 0.0).judge();
        assert_eq!((judged(60.0), judged(59.0), judged(61.0)), (Judgement::Pass, Judgement::Fail, Judgement::Fail));
    }

    #[test]
    fn what_the_machine_refuses_is_not_run_and_what_went_wrong_fails() {
        let judged = |why| figure(1.0, Reading::Missing(why), 1e9).judge();
        assert!(matches!(judged(Why::NotPermitted("root".into())), Judgement::NotRun(why) if why.contains("root")));
        assert!(matches!(judged(Why::NotSupported("no tracefs".into())), Judgement::NotRun(_)));
        assert_eq!(judged(Why::NotSettled("within 90 s".into())), Judgement::Fail);
        assert_eq!(judged(Why::NotReached), Judgement::Fail);
        assert_eq!(judged(Why::NotApplicable), Judgement::Fail);
    }

    #[test]
    fn a_finding_must_be_said_in_its_words() {
        let judged = |said: &str| Line::finding("outcome", "ok", Reading::Measured(said.to_owned())).judge();
        assert_eq!((judged("ok"), judged("okay")), (Judgement::Pass, Judgement::Fail));
    }

    #[test]
    fn a_promise_is_broken_where_the_whole_interval_lies_beyond_it() {
        let judged = |truth, hits, of| Line::share("rate", truth, Reading::Measured(Rate { hits, of })).judge();
        let (at_most, at_least) = (Promise::AtMost(0.05), Promise::AtLeast(0.8));
        // Of 400: 5 % lies within the exact 95 % interval of up to 29, 80 % within that of 304 and more.
        assert_eq!([0, 20, 29].map(|hits| judged(at_most, hits, 400)), [const { Judgement::Pass }; 3]);
        assert_eq!([30, 400].map(|hits| judged(at_most, hits, 400)), [const { Judgement::Fail }; 2]);
        assert_eq!([304, 400].map(|hits| judged(at_least, hits, 400)), [const { Judgement::Pass }; 2]);
        assert_eq!([0, 302].map(|hits| judged(at_least, hits, 400)), [const { Judgement::Fail }; 2]);
        assert_eq!([judged(at_most, 0, 0), judged(at_least, 0, 0)], [const { Judgement::Fail }; 2]);
    }

    #[test]
    fn a_share_is_shown_with_its_bounds() {
        let line = Line::share("rate", Promise::AtMost(0.05), Reading::Measured(Rate { hits: 10, of: 400 }));
        assert_eq!(line.cells(), ["at most 5 %", "2.5 % (1.2 to 4.5)", "", ""]);
        let json = line.json();
        assert_eq!((&json["truth"], &json["reading"], &json["tries"]), (&json!(0.05), &json!(0.025), &json!(400)));
        assert_eq!((&json["allowed"], json["bounds"].as_array().map(Vec::len)), (&json!("at most"), Some(2)));
        let missing = Line::share("rate", Promise::AtLeast(0.8), Reading::Missing(Why::TooFew { have: 0, need: 400 }));
        assert_eq!(missing.judge(), Judgement::Fail);
        assert_eq!(missing.cells()[0], "at least 80 %");
    }

    #[test]
    fn cells_show_the_error_with_its_sign() {
        let line = figure(300e6, Reading::Measured(299.5e6), 8e6);
        assert_eq!(line.cells(), ["300.0 MB", "299.5 MB", "-500.00 kB", "8.0 MB"]);
        assert_eq!(Unit::Nanos.show(-1_500_000.0), "-1.50 ms");
        let missing = figure(1.0, Reading::Missing(Why::NotPermitted("x".into())), 0.0);
        assert_eq!(missing.cells(), ["1 B", "- (not permitted: x)", "", "0 B"]);
    }

    #[test]
    fn machines_get_plain_numbers_and_null_for_what_is_missing() {
        let json = figure(300.0, Reading::Measured(301.0), 8.0).json();
        assert_eq!((&json["error"], &json["result"], &json["unit"]), (&json!(1.0), &json!("pass"), &json!("bytes")));
        let json = figure(300.0, Reading::Missing(Why::Failed("gone".into())), 8.0).json();
        assert_eq!((&json["reading"], &json["error"]), (&Value::Null, &Value::Null));
        assert_eq!((&json["result"], &json["why"]), (&json!("fail"), &json!("gone")));
    }
}
