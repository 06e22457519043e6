//! What a server promises: bounds on latencies and errors.

use std::fmt;
use std::str::FromStr;

use prony_analysis::search::Constraint;
use prony_http::Report;
use prony_model::latency::samples_needed;
use prony_model::metric::Metric;
use prony_model::number::{count, digits, quantity};
use prony_model::reading::{Reading, Why};
use prony_model::units::parse_fraction;
use prony_stats::binomial_interval;

/// The phase under which bounds name the figures of a load.
const PHASE: &str = "load";
/// With no error among `n` requests, their share is below `3 / n` with a probability of 95 % (the rule of three: Hanley and
/// Lippman-Hand, JAMA 1983).
const RULE_OF_THREE: f64 = 3.0;
/// The level of the interval of a share of errors that decides about a bound on it.
const LEVEL: f64 = 0.95;

/// Bounds that all must hold.
#[derive(Clone, Debug)]
pub(super) struct Slo {
    bounds: Vec<Bound>,
}

#[derive(Clone, Debug)]
struct Bound {
    /// As it was written.
    text: String,
    constraint: Constraint,
    /// It bounds a share of all requests, and not what one step gave.
    is_share: bool,
    /// Requests without which nothing can be said of it.
    requests: u64,
}

/// Whether a load kept the bounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judged {
    /// It kept all; these are not known to be violated, though they seem to be, in words.
    Met(Vec<String>),
    /// It violated these, in words.
    Violated(Vec<String>),
    /// It violated none, and of these too little is known, in words.
    Unknown(Vec<String>),
}

/// Requests and those of them that failed, of one step or of several with the same rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    errors: u64,
    requests: u64,
}

impl Counted {
    /// Those of one step.
    pub(super) fn of(report: &Report) -> Self {
        Self { errors: report.errors.total(), requests: report.requests }
    }

    /// Both together.
    pub(super) const fn and(self, other: Self) -> Self {
        Self { errors: self.errors + other.errors, requests: self.requests + other.requests }
    }

    fn share(self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    /// The shares of failed requests that these counts do not exclude.
    fn interval(self) -> (f64, f64) {
        let [errors, requests] = [self.errors, self.requests].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        binomial_interval(errors, requests, LEVEL)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", percent(self.share()), count(self.requests, "request"))
    }
}

impl Slo {
    /// Requests without which nothing can be said of some bound.
    pub(super) fn requests(&self) -> u64 {
        self.bounds.iter().map(|bound| bound.requests).max().unwrap_or_default()
    }

    /// Judges what a step gave, of whose rate `earlier` requests were counted in earlier steps.
    ///
    /// A bound on the share of errors is violated only if the requests of all steps exclude that it holds. With so few errors
    /// as bounds are on, a step above the bound is as often one with a share below it: of 3150 requests, of which 0.07 % fail,
    /// more than 0.1 % do in one step of six.
    pub(super) fn judge(&self, report: &Report, earlier: Counted) -> Judged {
        let (mut violated, mut unknown, mut seeming) = (Vec::new(), Vec::new(), Vec::new());
        let counted = earlier.and(Counted::of(report));
        let few = |bound: &Bound| format!("`{}` needs {} requests", bound.text, bound.requests);
        let (shares, measured): (Vec<&Bound>, Vec<&Bound>) = self.bounds.iter().partition(|bound| bound.is_share);
        for bound @ Bound { text, constraint, requests, .. } in shares {
            if !constraint.is_met(counted.interval().0) {
                violated.push(format!("`{text}`: {counted}"));
            } else if report.requests < *requests {
                unknown.push(few(bound));
            } else if !constraint.is_met(counted.share()) {
                seeming.push(format!("`{text}`: {counted}, which may be chance"));
            }
        }
        for bound @ Bound { text, constraint, requests, .. } in measured {
            match constraint.value(&mut |name| figure(report, name.key.metric)) {
                Reading::Measured(value) if !constraint.is_met(value) => {
                    violated.push(format!("`{text}`: {}", quantity(value, constraint.unit())));
                }
                Reading::Measured(_) if report.requests < *requests => unknown.push(few(bound)),
                Reading::Measured(_) => {}
                Reading::Missing(why @ Why::Infinite { .. }) => violated.push(format!("`{text}`: {why}")),
                Reading::Missing(why) => unknown.push(format!("`{text}`: {why}")),
            }
        }
        match (violated.is_empty(), unknown.is_empty()) {
            (false, _) => Judged::Violated(violated),
            (true, false) => Judged::Unknown(unknown),
            (true, true) => Judged::Met(seeming),
        }
    }

    /// The bounds on shares of errors that may be violated with a rate whose steps are said to keep them, in words. Where none of
    /// as many requests failed as a bound needs, it is known to hold.
    pub(super) fn undecided(&self, counted: Counted) -> impl Iterator<Item = String> {
        let (low, high) = counted.interval();
        let may_be_violated =
            move |bound: &&Bound| bound.is_share && counted.errors > 0 && !bound.constraint.is_met(high);
        self.bounds.iter().filter(may_be_violated).map(move |Bound { text, .. }| {
            let [low, high] = [low, high].map(percent);
            format!("`{text}` is not certain: {counted} failed (95 % interval: {low} to {high})")
        })
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bounds = text.split(',').map(bound).collect::<Result<Vec<Bound>, String>>()?;
        Ok(Self { bounds })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.bounds.iter().map(|bound| bound.text.as_str()).collect();
        f.write_str(&texts.join(", "))
    }
}

fn bound(text: &str) -> Result<Bound, String> {
    let text = text.trim();
    let example = || "write it as 'p99 < 50 ms, errors < 0.1%'";
    let end = text.find(['<', '>']).ok_or_else(|| format!("`{text}` is no bound; {}", example()))?;
    let (name, rest) = (text[..end].trim(), &text[end..]);
    let share = rest.trim_start_matches(['<', '>', '=']).trim();
    let share = share.ends_with('%').then(|| parse_fraction(share)).transpose().map_err(|error| error.to_string())?;
    let left = match (name, share) {
        ("errors", Some(_)) => format!("{PHASE}.errors / ({PHASE}.ok + {PHASE}.errors)"),
        ("errors", None) => format!("{PHASE}.errors"),
        ("p50" | "p90" | "p95" | "p99" | "p99.9" | "max", None) => format!("{PHASE}.latency.{name}"),
        ("rate", _) => {
            return Err(format!(
                "`{text}` is no bound of a search for the largest rate: leave it out; a rate that is not sustained \
                 violates the bounds anyway"
            ));
        }
        _ => {
            let known = "p50, p90, p95, p99, p99.9, max, errors";
            return Err(format!("`{name}` is nothing that can be bounded so; {}; it can be one of {known}", example()));
        }
    };
    let constraint: Constraint = format!("{left} {rest}").parse().map_err(|error| format!("`{text}`: {error}"))?;
    if rest.starts_with('>') {
        // The search goes up as long as the bounds hold: it would end at the first rate.
        return Err(format!(
            "`{text}` is a lower bound, and larger rates have longer latencies and more errors; {}",
            example()
        ));
    }
    // There may be no error, but a latency is above zero.
    if !constraint.is_met(if name == "errors" { 0.0 } else { f64::MIN_POSITIVE }) {
        return Err(format!("`{text}` cannot be satisfied; {}", example()));
    }
    let of_share = share.map_or(0.0, |share| RULE_OF_THREE / share.get());
    let of_metric = constraint.metrics().iter().filter_map(|name| samples_needed(name.key.metric)).max();
    // A share of 0 needs more requests than there can be: one is enough to violate it.
    let requests = of_metric.unwrap_or(1).max(if of_share.is_finite() { of_share.ceil() as u64 } else { 1 });
    Ok(Bound { text: text.to_owned(), constraint, is_share: share.is_some(), requests })
}

/// A share in the unit of its bound, with three significant digits.
fn percent(share: f64) -> String {
    format!("{} %", digits(100.0 * share))
}

/// A figure of a load.
fn figure(report: &Report, metric: Metric) -> Reading<f64> {
    let latency = &report.latency;
    match metric {
        Metric::LatencyP50 => latency.p50.clone(),
        Metric::LatencyP90 => latency.p90.clone(),
        Metric::LatencyP95 => latency.p95.clone(),
        Metric::LatencyP99 => latency.p99.clone(),
        Metric::LatencyP999 => latency.p999.clone(),
        Metric::LatencyMax => latency.max.clone(),
        Metric::Errors => Reading::Measured(report.errors.total() as f64),
        _ => Reading::Missing(Why::NotApplicable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `errors < 0.1%` stood beside 0.00575.
    #[test]
    fn share_has_the_unit_of_its_bound() {
        assert_eq!([0.005_75, 0.5, 0.001_04].map(percent), ["0.575 %", "50.0 %", "0.104 %"]);
    }

    #[test]
    fn bounds_are_read_with_the_requests_that_they_need() {
        for (text, requests) in [
            ("p99 < 50 ms", 1_000),
            ("p50 <= 1 s, p99.9 < 2 s", 10_000),
            ("errors < 0.1%", 3_000),
            ("errors < 5", 1),
            ("p99 < 50 ms, errors < 1 %", 1_000),
            ("errors <= 0%", 1),
        ] {
            let slo: Slo = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((slo.requests(), slo.to_string().as_str()), (requests, text));
        }
        for (text, expected) in [
            ("p98 < 50 ms", "`p98` is nothing that can be bounded so"),
            ("p99", "`p99` is no bound"),
            ("p99 < 50", "has no unit of time"),
            ("p99 < 5%", "`p99` is nothing"),
            ("errors < 5 ms", "`5 ms`"),
            ("", "`` is no bound"),
            // 20/s was said to be too much for `rate > 50/s`, and each rate for `errors < 0%`.
            ("rate > 50/s", "`rate > 50/s` is no bound of a search"),
            ("errors > 1%", "`errors > 1%` is a lower bound"),
            ("p99 >= 5 ms", "`p99 >= 5 ms` is a lower bound"),
            ("errors < 0%", "`errors < 0%` cannot be satisfied"),
            ("errors < 0", "`errors < 0` cannot be satisfied"),
            ("p99 <= 0 s", "`p99 <= 0 s` cannot be satisfied"),
        ] {
            let error = text.parse::<Slo>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
