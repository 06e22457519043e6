//! The validated specification of a load.

use std::path::Path;
use std::sync::Arc;

use prony_model::http::{AnswerSpec, RequestRate, RetrySpec, too_many_parts};
use prony_model::spec::RateStep;
use prony_model::units::Nanos;
use prony_workload::Share;

use crate::answer_check::AnswerCheck;
use crate::asked::{Asked, AskedBody, Bound, Loop};
use crate::content::{Content, Over};
use crate::error::Fault;
use crate::file_body::{FileBody, SMALL};
use crate::kinds::Kind;
use crate::pace::Request;
use crate::request::{Body, Parts, Template, field};
use crate::steps::Ends;
use crate::tally::{STATUSES, Shape};
use crate::target::Target;
use crate::text::Text;

/// A load that can be run.
#[derive(Clone, Debug)]
pub struct Load {
    asked: Asked,
    target: Target,
    content: Content,
    /// Interval of the throughput series, where there is one.
    throughput: Option<Nanos>,
    /// By kind of request and status, whether an answer is no error.
    expected: Vec<Vec<bool>>,
}

/// Connections, at most: more than this a machine has no ports for.
pub const MOST_CONNECTIONS: u32 = 60_000;
/// Threads, at most.
pub const MOST_THREADS: u32 = 1_024;
/// Each thread has a histogram of each step.
const MOST_STEPS: usize = 100;
/// Attempts after the first, at most.
pub const MOST_RETRIES: u32 = 1_000;
/// A year: instants and sums of them stay far from the end of their type.
const LONGEST: Nanos = Nanos::from_secs(365 * 86_400);

impl Load {
    /// Checks what somebody asks for.
    ///
    /// # Errors
    /// All faults.
    pub fn check(asked: Asked) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let target = Target::parse(&asked.url).map_err(|fault| faults.push(fault)).ok();
        let content = target.as_ref().and_then(|target| {
            let parts = Parts::of(&asked, target, &mut faults);
            let template = Template::new(&target.authority, parts).map_err(|found| faults.extend(found));
            let spec =
                asked.matches.as_ref().map(|text| AnswerSpec { matches: Some(text.clone()), ..AnswerSpec::default() });
            let check = spec.as_ref().map(AnswerCheck::new).transpose().map_err(|fault| faults.push(fault));
            Some(Content::numbered(template.ok()?, check.ok()?, asked.expect.clone()))
        });
        Self::new(asked, target, content, faults)
    }

    /// Checks the numbers of a load whose other parts were checked.
    pub(crate) fn new(
        asked: Asked,
        target: Option<Target>,
        content: Option<Content>,
        mut faults: Vec<Fault>,
    ) -> Result<Self, Vec<Fault>> {
        faults.extend(numbers(&asked, content.iter().flat_map(|content| content.kinds.all())));
        let steps = if let Loop::Open(rate) = &asked.pace { rate.steps().len() } else { 0 };
        let named = content.iter().flat_map(|content| content.kinds.names()).count();
        faults.extend(too_many_parts(asked.threads, steps, named).map(|(message, hint)| Fault::new(message, hint)));
        match (target, content) {
            (Some(target), Some(content)) if faults.is_empty() => {
                let of_kind = |kind: &Kind| (0..STATUSES as u16).map(|status| kind.expect.contains(status)).collect();
                let expected = content.kinds.all().iter().map(of_kind).collect();
                Ok(Self { expected, asked, target, content, throughput: None })
            }
            _ => Err(faults),
        }
    }

    /// The same, which records its throughput over time.
    pub(crate) fn of_trial(self, throughput: Nanos) -> Self {
        Self { throughput: Some(throughput), ..self }
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.asked.url
    }

    /// The method; of a mix all of them.
    pub fn method(&self) -> String {
        self.content.kinds.methods()
    }

    /// The load as it was asked for.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// What is counted of its requests.
    pub(crate) fn shape(&self) -> Shape {
        let Content { kinds, over, .. } = &self.content;
        Shape {
            is_open: self.is_open(),
            sections: self.sections(),
            steps: self.steps().to_vec(),
            throughput: self.throughput,
            kinds: kinds.names().count(),
            paths: kinds.paths(),
            bodies: kinds.bodies(),
            has_places: !matches!(over, Over::Requests),
        }
    }

    pub(crate) fn timeout(&self) -> Nanos {
        self.asked.timeout
    }

    /// Whether an answer with this status to a request is no error.
    pub(crate) fn expects(&self, request: &Request, status: u16) -> bool {
        let of_kind = self.expected.get(request.kind as usize);
        of_kind.and_then(|of_kind| of_kind.get(usize::from(status))).copied().unwrap_or_default()
    }

    /// The steps of its schedule; none where the rate does not change.
    pub(crate) fn steps(&self) -> &[RateStep] {
        match &self.asked.pace {
            Loop::Closed => &[],
            Loop::Open(rate) => rate.steps(),
        }
    }

    /// The share of a thread: of requests as of connections, so that none has more to do for each of its connections than
    /// another.
    pub(crate) fn share(&self, thread: u32) -> Share {
        Share::new(thread, self.asked.threads).with_turns(self.asked.connections)
    }

    /// When the parts of a load begin of which the CPU time is counted apart: its steps, or all of it.
    pub(crate) fn section_begins(&self, warm_up_end: Nanos) -> Vec<Nanos> {
        let mut begins = Ends::new(self.steps(), warm_up_end).all();
        begins.pop();
        begins.insert(0, warm_up_end);
        begins
    }

    /// How long its schedule has each rate; nothing in a closed loop.
    fn sections(&self) -> Vec<Nanos> {
        match (&self.asked.pace, self.asked.bound) {
            (Loop::Closed, _) => Vec::new(),
            (Loop::Open(RequestRate::Steps(steps)), _) => steps.steps.iter().map(|step| step.time).collect(),
            (Loop::Open(RequestRate::Constant(_)), Bound::Duration(duration)) => vec![duration],
            // Random gaps have this length on average.
            (Loop::Open(RequestRate::Constant(arrivals)), Bound::Requests(requests)) => {
                vec![Nanos::from_nanos((requests as f64 / arrivals.rate.get() * 1e9) as u64)]
            }
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.asked.pace, Loop::Open(_))
    }

    /// Whether it is a closed loop that ends at a time.
    pub(crate) fn is_closed_for_a_time(&self) -> bool {
        matches!((&self.asked.pace, self.asked.bound), (Loop::Closed, Bound::Duration(_)))
    }
}

impl Parts {
    /// The parts of what somebody asks for, as far as they have no faults.
    fn of(asked: &Asked, target: &Target, faults: &mut Vec<Fault>) -> Self {
        let mut sound = |text| field(text).map_err(|fault| faults.push(fault)).ok();
        let fields = asked.headers.iter().filter_map(|text| sound(text)).collect();
        let body = match &asked.body {
            None => Body::None,
            Some(AskedBody::Bytes(bytes)) => Body::Text(Text::numbered(bytes)),
            Some(AskedBody::File(path)) => {
                let fill = vec![(b"{i}".to_vec(), Text::numbered(b"{i}"))];
                of_file(path, fill).map_or_else(|fault| (faults.push(fault), Body::None).1, |(body, _)| body)
            }
        };
        Self { method: asked.method.clone(), path: Text::numbered(target.path.as_bytes()), fields, body }
    }
}

/// A file as a body with these texts replaced, and those texts that it does not contain. A small file is read now, so that no
/// request waits for it.
pub(crate) fn of_file(path: &Path, fills: Vec<(Vec<u8>, Text)>) -> Result<(Body, Vec<Vec<u8>>), Fault> {
    let unread = |error: std::io::Error| {
        Fault::new(format!("cannot read `{}`: {error}", path.display()), "check the path of the file")
    };
    let file = FileBody::scan(path, fills).map_err(unread)?;
    let absent = file.absent().map(<[u8]>::to_vec).collect();
    if file.size() > SMALL {
        return Ok((Body::File(Arc::new(file)), absent));
    }
    Ok((Body::Text(file.to_text().map_err(unread)?), absent))
}

/// Faults in numbers.
fn numbers<'k>(asked: &Asked, kinds: impl Iterator<Item = &'k Kind>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut check = |sound: bool, message: &str, hint: &str| {
        if !sound {
            faults.push(Fault::new(message, hint));
        }
    };
    let Asked { connections, threads, bound, warm_up, timeout, expect, retry, pace, think, .. } = asked;
    check(
        (1..=MOST_CONNECTIONS).contains(connections),
        "the number of connections must be 1 to 60000",
        "write a number from 1 to 60000",
    );
    check(
        (1..=MOST_THREADS).contains(threads),
        "the number of threads must be 1 to 1024",
        "write a number from 1 to 1024",
    );
    check(
        threads <= connections,
        "there are more threads than connections",
        "raise the number of connections, or lower that of threads: each thread needs a connection",
    );
    check(*bound != Bound::Requests(0), "the number of requests is 0", "write 1 or more");
    check(*bound != Bound::Duration(Nanos::ZERO), "the duration is zero", "write it as `10 s`");
    check(*timeout > Nanos::ZERO, "the timeout is zero", "write it as `10 s`");
    let duration = if let Bound::Duration(duration) = bound { *duration } else { Nanos::ZERO };
    check(
        *think == Nanos::ZERO || *pace == Loop::Closed,
        "requests at a rate leave no time to think",
        "leave one of the two out",
    );
    let short = [duration, *warm_up, *timeout, *think].into_iter().all(|time| time <= LONGEST);
    check(short, "a time is longer than a year", "write it as `10 s`");
    let statuses = expect.0.iter().all(|status| (200..1_000).contains(status));
    if let Loop::Open(RequestRate::Steps(steps)) = pace {
        check(
            (1..=MOST_STEPS).contains(&steps.steps.len()),
            "the steps are not 1 to 100",
            "write rates such as `100,200,400`",
        );
        let whole = *bound == Bound::Duration(steps.time());
        check(
            whole,
            "the steps do not last as long as the load",
            "a load with steps ends with the last of them: give a duration, and no number of requests",
        );
        let none_empty = steps.steps.iter().all(|step| step.time > Nanos::ZERO);
        check(none_empty, "a step lasts no time", "lengthen the load");
    }
    if let Some(retry) = retry {
        repeated(retry, kinds, &mut check);
    }
    check(statuses, "a status that is expected is not 200 to 999", "write it as `--expect 200,404`");
    faults
}

/// Faults in what is repeated; `check` takes whether something is sound, and else the message and the hint.
fn repeated<'k>(
    retry: &RetrySpec,
    mut kinds: impl Iterator<Item = &'k Kind>,
    check: &mut impl FnMut(bool, &str, &str),
) {
    let any = retry.timeout || retry.connection || !retry.statuses.is_empty();
    check(any, "no end of an attempt is named that is repeated", "name some, such as 503, timeout or connection");
    let sound = retry.statuses.iter().all(|status| (200..1_000).contains(status));
    check(sound, "a status that is repeated is not 200 to 999", "name statuses such as 503");
    let both = kinds.any(|kind| retry.statuses.iter().any(|status| kind.expect.contains(*status)));
    check(!both, "a status that is repeated is expected too", "an expected answer ends its request: remove the status");
    check((1..=MOST_RETRIES).contains(&retry.times), "the retries are not 1 to 1000", "write a number such as 3");
    check(retry.wait <= LONGEST, "a time is longer than a year", "write it as `10 s`");
}

#[cfg(test)]
mod tests {
    use prony_model::http::{ExpectedStatuses, RateSteps};
    use prony_model::spec::Arrivals;
    use prony_model::units::PerSecond;

    use super::*;

    #[test]
    fn all_faults_are_found_at_once() {
        let asked = Asked {
            method: Some("G T".to_owned()),
            headers: vec!["no colon".to_owned()],
            connections: 0,
            bound: Bound::Requests(0),
            timeout: Nanos::ZERO,
            expect: ExpectedStatuses(vec![20]),
            ..Asked::of("ftp://x")
        };
        let faults = Load::check(asked.clone()).unwrap_err();
        assert_eq!(faults.len(), 6, "{faults:#?}");
        let faults = Load::check(Asked { url: "http://x".to_owned(), ..asked }).unwrap_err();
        assert_eq!(faults.len(), 7, "{faults:#?}");
    }

    /// With 100 steps and 64 threads 1.8 GB were written when the load had begun, and 592 of 598 requests were not started in time.
    #[test]
    fn threads_with_more_histograms_than_memory_are_refused() {
        let rates = vec![PerSecond::new(100.0).unwrap(); 100];
        let time = Nanos::from_secs(100);
        let pace = Loop::Open(RequestRate::Steps(RateSteps::equally_long(&rates, time, false)));
        let of = |threads| Asked {
            pace: pace.clone(),
            bound: Bound::Duration(time),
            connections: 64,
            threads,
            ..Asked::of("http://x")
        };
        assert!(Load::check(of(10)).is_ok());
        let faults = Load::check(of(64)).unwrap_err();
        assert_eq!((faults.len(), faults[0].hint.as_str()), (1, "use 10 threads at most"), "{faults:?}");
    }

    /// Equal shares of the requests made threads with two connections work when those with three were done.
    #[test]
    fn threads_have_requests_in_proportion_to_their_connections() {
        let load = Load::check(Asked { connections: 10, threads: 4, ..Asked::of("http://x") }).unwrap();
        let shares = [0, 1, 2, 3].map(|thread| load.share(thread)).map(|share| (share.turns(), share.count(4_000)));
        assert_eq!(shares, [(3, 1_200), (3, 1_200), (2, 800), (2, 800)]);
    }

    /// A load without steps is one section.
    #[test]
    fn sections_are_the_steps_or_the_whole_load() {
        let begin = Nanos::from_secs(100);
        let load = Load::check(Asked::of("http://x")).unwrap();
        assert_eq!((load.section_begins(begin), load.sections()), (vec![begin], vec![]));
        let rates = [1.0, 2.0, 3.0].map(|rate| PerSecond::new(rate).unwrap());
        let steps = RateSteps::equally_long(&rates, Nanos::from_secs(30), false);
        let of = |pace, bound| Load::check(Asked { pace: Loop::Open(pace), bound, ..Asked::of("http://x") }).unwrap();
        let load = of(RequestRate::Steps(steps), Bound::Duration(Nanos::from_secs(30)));
        assert_eq!(load.section_begins(begin), [100, 110, 120].map(Nanos::from_secs));
        assert_eq!(load.sections(), [10, 10, 10].map(Nanos::from_secs));
        let constant = RequestRate::Constant(Arrivals { rate: rates[1], poisson: false });
        assert_eq!(of(constant.clone(), Bound::Requests(30)).sections(), [Nanos::from_secs(15)]);
        assert_eq!(of(constant, Bound::Duration(Nanos::from_secs(7))).sections(), [Nanos::from_secs(7)]);
    }

    #[test]
    fn statuses_are_expected_as_asked() {
        let load = Load::check(Asked::of("http://x")).unwrap();
        assert_eq!(
            [199, 200, 399, 400].map(|status| load.expects(&Request::default(), status)),
            [false, true, true, false]
        );
        let load = Load::check(Asked { expect: ExpectedStatuses(vec![404, 200]), ..Asked::of("http://x") }).unwrap();
        assert_eq!(
            [200, 201, 404, 999].map(|status| load.expects(&Request::default(), status)),
            [true, false, true, false]
        );
    }
}
