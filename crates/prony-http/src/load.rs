//! What a load is to do, checked.

use prony_model::units::Nanos;

use crate::asked::{Asked, Bound, Loop};
use crate::error::Fault;
use crate::request::Template;
use crate::target::Target;

/// A load that can be run.
#[derive(Clone, Debug)]
pub struct Load {
    asked: Asked,
    target: Target,
    template: Template,
    /// By status, whether an answer is no error.
    expected: Vec<bool>,
}

/// Statuses have three digits.
pub(crate) const STATUSES: usize = 1_000;
/// Connections, at most: more than this a machine has no ports for.
const MOST_CONNECTIONS: u32 = 60_000;
const MOST_THREADS: u32 = 1_024;
/// A year: instants and sums of them stay far from the end of their type.
const LONGEST: Nanos = Nanos::from_secs(365 * 86_400);

impl Load {
    /// Checks what somebody asks for.
    ///
    /// # Errors
    /// All faults.
    pub fn check(asked: Asked) -> Result<Self, Vec<Fault>> {
        let mut faults = numbers(&asked);
        let target = Target::parse(&asked.url).map_err(|fault| faults.push(fault)).ok();
        let template = target.as_ref().and_then(|target| {
            let template = Template::new(target, &asked);
            template.map_err(|fault| faults.extend(fault)).ok()
        });
        match (target, template) {
            (Some(target), Some(template)) if faults.is_empty() => {
                let expected = (0..STATUSES as u16).map(|status| match asked.expect.as_slice() {
                    [] => (200..400).contains(&status),
                    expect => expect.contains(&status),
                });
                Ok(Self { expected: expected.collect(), asked, target, template })
            }
            _ => Err(faults),
        }
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.asked.url
    }

    /// The method.
    pub fn method(&self) -> &str {
        self.template.method()
    }

    /// The load as it was asked for.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn template(&self) -> &Template {
        &self.template
    }

    pub(crate) fn timeout(&self) -> Nanos {
        self.asked.timeout
    }

    pub(crate) fn permits_other_machines(&self) -> bool {
        self.asked.other_machines
    }

    /// Whether an answer with this status is no error.
    pub(crate) fn expects(&self, status: u16) -> bool {
        self.expected.get(usize::from(status)).copied().unwrap_or_default()
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.asked.pace, Loop::Open(_))
    }
}

/// Faults in numbers.
fn numbers(asked: &Asked) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut check = |sound: bool, message: &str, hint: &str| {
        if !sound {
            faults.push(Fault::new(message, hint));
        }
    };
    let Asked { connections, threads, bound, warm_up, timeout, expect, .. } = asked;
    check((1..=MOST_CONNECTIONS).contains(connections), "the connections are not 1 to 60000", "the default is 10");
    check((1..=MOST_THREADS).contains(threads), "the threads are not 1 to 1024", "the default is 1");
    check(threads <= connections, "there are more threads than connections", "each thread needs a connection");
    check(*bound != Bound::Requests(0), "no request is asked for", "the least number of requests is 1");
    check(*bound != Bound::Duration(Nanos::ZERO), "the duration is zero", "write it as `10 s`");
    check(*timeout > Nanos::ZERO, "the timeout is zero", "write it as `10 s`");
    let duration = if let Bound::Duration(duration) = bound { *duration } else { Nanos::ZERO };
    let short = [duration, *warm_up, *timeout].into_iter().all(|time| time <= LONGEST);
    check(short, "a time is longer than a year", "write it as `10 s`");
    let statuses = expect.iter().all(|status| (200..1_000).contains(status));
    check(statuses, "a status that is expected is not 200 to 999", "write it as `--expect 200,404`");
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_found_at_once() {
        let asked = Asked {
            method: Some("G T".to_owned()),
            headers: vec!["no colon".to_owned()],
            connections: 0,
            bound: Bound::Requests(0),
            timeout: Nanos::ZERO,
            expect: vec![20],
            ..Asked::of("ftp://x")
        };
        let faults = Load::check(asked.clone()).unwrap_err();
        assert_eq!(faults.len(), 6, "{faults:#?}");
        let faults = Load::check(Asked { url: "http://x".to_owned(), ..asked }).unwrap_err();
        assert_eq!(faults.len(), 7, "{faults:#?}");
    }

    #[test]
    fn statuses_are_expected_as_asked() {
        let load = Load::check(Asked::of("http://x")).unwrap();
        assert_eq!([199, 200, 399, 400].map(|status| load.expects(status)), [false, true, true, false]);
        let load = Load::check(Asked { expect: vec![404, 200], ..Asked::of("http://x") }).unwrap();
        assert_eq!([200, 201, 404, 999].map(|status| load.expects(status)), [true, false, true, false]);
    }
}
