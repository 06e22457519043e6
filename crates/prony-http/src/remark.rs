//! Remarks on a load: what makes its figures mean something else than they seem to.

use std::fmt;

use prony_model::http::{WAITED, connections_in_use};
use prony_model::number::{count, digits, percent_up_to};
use prony_model::units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// Share of its processors above which the load generator may be the limit (METHOD 6).
const BUSY: f64 = 0.8;

/// Share of its threads' time above which making requests and reading answers may show in latencies.
const MAKING: f64 = 0.05;

/// A remark.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Remark {
    /// The load generator, not the server, may be the limit.
    GeneratorBusy {
        /// CPU time of its threads as a share of that of their processors.
        used: f64,
        /// Time in which they waited for a processor, as a share of their time.
        waited: f64,
        /// The first step of the schedule for which that is so, from 1, where it is not so for the whole load.
        step: Option<u32>,
    },
    /// The load generator made requests or read answers, while other answers could come or requests could not start.
    Making {
        /// Time in which it did, as a share of that of its threads.
        share: f64,
    },
    /// The load generator did not run for a while: figures of the server contain that time.
    Stalled {
        /// The longest such time, at least, nanoseconds.
        longest: Nanos,
        /// All such times together, at least, nanoseconds.
        total: Nanos,
    },
    /// Requests had the same body.
    SameBody {
        /// Requests of which bytes were sent.
        requests: u64,
        /// The different bodies among theirs.
        bodies: u64,
    },
    /// Answers came before all of their requests was sent.
    Cut {
        /// Requests, or attempts of them, of which the rest was not sent.
        requests: u64,
    },
    /// Servers sent more than answers, so that answers may have been taken for those of other requests.
    Surplus {
        /// Connections on which more came after the last answer.
        connections: u64,
    },
    /// Requests of an open loop that was not saturated waited for a connection, since all were in use.
    ConnectionsInUse {
        /// Those that waited.
        waited: u64,
        /// All of them.
        requests: u64,
        /// The connections.
        connections: u32,
    },
    /// An open-loop rate was not sustained.
    Saturated {
        /// Requests a second by the schedule.
        asked: f64,
        /// Expected answers a second.
        reached: f64,
        /// The steps of the schedule whose rate was not sustained, where it has steps.
        steps: Vec<SaturatedStep>,
    },
    /// The load was ended before its time.
    Interrupted,
    /// No request began after the warm-up.
    NothingMeasured,
    /// Requests of the warm-up failed, which are in no other figure.
    WarmUpFailed {
        /// How many.
        failed: u64,
    },
}

/// A step of the schedule whose rate was not sustained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SaturatedStep {
    /// Its number, from 1.
    pub step: u32,
    /// Requests a second by the schedule, on average.
    pub asked: f64,
    /// Expected answers a second within it.
    pub reached: f64,
}

/// Steps that are named with their rates; of others only their number.
const MOST_NAMED: usize = 5;

impl Remark {
    /// Whether threads that used and waited so much of their processors may be the limit.
    pub(crate) fn generator(used: f64, waited: f64, step: Option<u32>) -> Option<Self> {
        (used + waited > BUSY).then_some(Self::GeneratorBusy { used, waited, step })
    }

    /// Whether so many requests that waited for a connection matter.
    pub(crate) fn waited(waited: u64, requests: u64, connections: u32) -> Option<Self> {
        (waited as f64 > WAITED * requests as f64).then_some(Self::ConnectionsInUse { waited, requests, connections })
    }

    /// Whether threads that made requests for such a share of their time may have made latencies longer.
    pub(crate) fn making(share: f64) -> Option<Self> {
        (share > MAKING).then_some(Self::Making { share })
    }

    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::GeneratorBusy { waited, .. } if *waited > BUSY / 4.0 => {
                Some("run the server on other processors than `prony load`, such as by `taskset`")
            }
            Self::GeneratorBusy { .. } => Some("use more threads (`--threads`), or a machine with more processors"),
            Self::Making { .. } => Some(
                "use more threads (`--threads`), or fewer requests, which are made before the load; check answers in a phase of its own",
            ),
            Self::Stalled { .. } => Some(
                "do not quote these latencies and rates: repeat the load without stopping prony (Ctrl-Z) or its machine, and with \
                 fewer other programs on its processors",
            ),
            Self::SameBody { .. } => Some("`{i}` in the body is replaced by the number of the request"),
            Self::Saturated { .. } => Some(
                "the rate of ok answers is what was reached under this overload; do not quote the latency from the \
                 intended start, which includes the time that requests waited for others: for latencies lower the \
                 rate; more connections (`--connections`) help only where the server could answer more requests at once",
            ),
            Self::ConnectionsInUse { .. } => Some(
                "do not quote the latency from the intended start, which includes that wait: raise `--connections`; if latencies and rates \
                 stay the same they are the server's",
            ),
            Self::NothingMeasured => {
                Some("lengthen the load (`--duration`), or see what the server does with one request")
            }
            Self::Cut { .. } => Some(
                "these are no times of whole uploads: see whether the server answers so on purpose, such as without reading what it refuses",
            ),
            Self::Surplus { .. } => Some("see what the server sends to one request"),
            Self::WarmUpFailed { .. } | Self::Interrupted => None,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GeneratorBusy { used, waited, step } => {
                let [used, waited] = [used, waited].map(|share| percent_up_to(*share, 0));
                if let Some(step) = step {
                    write!(f, "in step {step} ")?;
                }
                write!(
                    f,
                    "the load generator, not the server, may be the limit: its threads used {used} of their processors \
                     and waited for one for {waited} of the time"
                )
            }
            Self::Making { share } => {
                let share = percent_up_to(*share, 0);
                write!(
                    f,
                    "the load generator's threads made requests or read the bodies of answers for {share} of their time: \
                     other answers were received later, which is part of their latency, and a closed loop sent fewer requests"
                )
            }
            Self::Stalled { longest, total } => stalled(f, *longest, *total),
            Self::SameBody { requests, bodies } => {
                let what = if *bodies == 1 { "the same body" } else { &format!("only {bodies} different bodies") };
                write!(
                    f,
                    "{} had {what}: requests with different bodies may take more or less server time",
                    count(*requests, "request")
                )
            }
            Self::Cut { requests } => {
                let requests = count(*requests, "request");
                write!(
                    f,
                    "{requests} got a whole answer before all of the body was sent: the rest was not sent, and each such connection was closed"
                )
            }
            Self::Surplus { connections } => {
                let connections = count(*connections, "connection");
                write!(f, "more came on {connections} after the last answer: answers may be those of other requests")
            }
            Self::ConnectionsInUse { waited, requests, connections } => {
                f.write_str(&connections_in_use(*waited as f64, *requests as f64, *connections))
            }
            Self::Saturated { asked, reached, steps } => {
                f.write_str("saturated: requests were due faster than they were answered: ")?;
                saturated(f, (*asked, *reached), steps)?;
                f.write_str(
                    "; the wait for earlier requests is part of the latency from the intended start, and the longer \
                     the load the longer that wait",
                )
            }
            Self::Interrupted => f.write_str("interrupted: the figures are those of the requests up to then"),
            Self::NothingMeasured => f.write_str("no request began after the warm-up: nothing was measured"),
            Self::WarmUpFailed { failed } => {
                write!(f, "{} of the warm-up failed; they are in no other figure", count(*failed, "request"))
            }
        }
    }
}

fn stalled(f: &mut fmt::Formatter<'_>, longest: Nanos, total: Nanos) -> fmt::Result {
    write!(f, "a thread of the load generator did not run for at least {total}")?;
    if longest < total {
        write!(f, " in all, the longest time at least {longest},")?;
    }
    f.write_str(
        " although it had something to do (it was stopped, had no processor, or waited for a disk): \
         latencies are up to that much too long, and rates are too low",
    )
}

/// The rates that were asked for and reached: in a mean over all steps those that are sustained hide the others.
fn saturated(f: &mut fmt::Formatter<'_>, whole: (f64, f64), steps: &[SaturatedStep]) -> fmt::Result {
    let rates = |(asked, reached)| {
        format!("{} a second were asked for, {} a second got an expected answer", digits(asked), digits(reached))
    };
    if steps.is_empty() {
        return f.write_str(&rates(whole));
    }
    let named = steps.iter().take(MOST_NAMED);
    let named: Vec<String> =
        named.map(|step| format!("in step {} {}", step.step, rates((step.asked, step.reached)))).collect();
    f.write_str(&named.join("; "))?;
    match steps.len().saturating_sub(MOST_NAMED) {
        0 => Ok(()),
        more => write!(f, "; and so in {}", count(more as u64, "further step")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_is_suspected_above_four_fifths_of_its_processors() {
        assert_eq!((Remark::generator(0.79, 0.0, None), Remark::generator(0.5, 0.3, None)), (None, None));
        let busy = Remark::generator(0.95, 0.0, None).unwrap();
        assert!(
            busy.to_string().contains("used 95 % of their processors") && busy.hint().unwrap().contains("--threads")
        );
        let waited = Remark::generator(0.5, 0.45, Some(3)).unwrap();
        assert!(waited.hint().unwrap().contains("taskset"));
        assert!(waited.to_string().starts_with("in step 3 the load generator, not the server, may be the limit"));
    }

    #[test]
    fn stalls_are_named_by_the_longest_and_the_total() {
        let said = |longest, total| {
            let [longest, total] = [longest, total].map(Nanos::from_millis);
            Remark::Stalled { longest, total }.to_string()
        };
        assert!(
            said(1_004, 1_004).starts_with("a thread of the load generator did not run for at least 1.004 s although")
        );
        let several = "a thread of the load generator did not run for at least 1.500 s in all, the longest time at least 900.00 ms, although";
        assert!(said(900, 1_500).starts_with(several), "{}", said(900, 1_500));
    }

    /// Steps of 100 and 5000 a second, of which 2000 were answered, were `2550 a second were asked for, 1050 got an answer`.
    #[test]
    fn saturated_steps_are_named_with_their_rates() {
        let said = |steps: u32| {
            let step = |step| SaturatedStep { step, asked: 5_000.0, reached: 2_000.0 };
            Remark::Saturated { asked: 2_550.0, reached: 1_050.0, steps: (2..2 + steps).map(step).collect() }
                .to_string()
        };
        let of = |asked, reached| format!("{asked} a second were asked for, {reached} a second got an expected answer");
        assert!(said(0).contains(&format!("answered: {}; the wait", of(2_550, 1_050))), "{}", said(0));
        let second = format!("answered: in step 2 {}; the wait", of(5_000, 2_000));
        assert!(said(1).contains(&second), "{}", said(1));
        assert!(
            said(7).contains("; in step 6 5000 a second") && said(7).contains("; and so in 2 further steps; the wait")
        );
    }

    /// Of 1516 requests at random gaps over 6 connections 1250 waited for one, without a word.
    #[test]
    fn requests_that_wait_for_a_connection_are_named() {
        assert_eq!(Remark::waited(10, 1_000, 6), None, "a pause");
        let said = Remark::waited(1_250, 1_516, 6).unwrap().to_string();
        assert_eq!(
            said,
            "82 % of 1516 requests waited for a connection, since all were in use: latencies and rates are those over at most 6 connections"
        );
    }

    #[test]
    fn remarks_count_in_words() {
        let same = |bodies| Remark::SameBody { requests: 5, bodies }.to_string();
        assert!(same(1).starts_with("5 requests had the same body: requests with different bodies may take "));
        assert!(same(3).starts_with("5 requests had only 3 different bodies:"));
    }
}
