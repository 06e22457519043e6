//! What is counted of a part of the requests: of each step of a schedule, of each kind of a mix.

use prony_model::latency::Recorder;
use prony_model::spec::RateStep;
use prony_model::units::Nanos;
use prony_workload::leaves_out;

use crate::pace::Request;
use crate::steps::Ends;

/// What is counted of a part. Latencies, errors and lag of a step are those of the requests that were due in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// Of those that failed.
    pub(crate) not_started: u64,
    /// Expected answers: of a step those that came within its time, also to requests that were due before it; of a kind as they
    /// count of all.
    pub(crate) answers: f64,
    /// Of a kind: the rows of its answers.
    pub(crate) rows: u64,
    /// From the intended start.
    pub(crate) latency: Recorder,
}

/// The account of all steps.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    pub(crate) begin: Nanos,
    pub(crate) ends: Vec<Nanos>,
    pub(crate) all: Vec<Part>,
}

impl Steps {
    /// Of no requests yet; `None` where there are no steps.
    pub(crate) fn new(steps: &[RateStep], begin: Nanos) -> Option<Self> {
        let ends = Ends::new(steps, begin).all();
        let all = vec![Part::default(); steps.len()];
        (!all.is_empty()).then_some(Self { begin, ends, all })
    }

    /// An expected answer came, to a request of the warm-up or not.
    #[inline]
    pub(crate) fn answered(&mut self, now: Nanos) {
        let step = self.ends.partition_point(|end| *end <= now);
        if now >= self.begin
            && let Some(step) = self.all.get_mut(step)
        {
            step.answers += 1.0;
        }
    }

    /// The step in which a request was due.
    #[inline]
    pub(crate) fn of(&mut self, request: &Request) -> &mut Part {
        &mut self.all[request.step as usize]
    }

    /// Adds the account of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.all.iter_mut().zip(&other.all).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// When a step began.
    pub(crate) fn begin(&self, step: usize) -> Nanos {
        step.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(self.begin)
    }
}

impl Part {
    /// An expected answer to a measured request came.
    #[inline]
    pub(crate) fn ok(&mut self, request: &Request, now: Nanos) {
        self.ok += 1;
        self.latency.record(now.since(request.intended));
    }

    /// So many measured requests failed.
    pub(crate) fn failed(&mut self, count: u64, is_started: bool) {
        self.failed += count;
        self.not_started += if is_started { 0 } else { count };
        self.latency.record_many_failed(count);
    }

    /// Whether more than 1 % of its requests were never started.
    pub(crate) fn leaves_out(&self) -> bool {
        leaves_out(self.not_started, self.ok + self.failed - self.not_started)
    }

    /// Adds the account of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.not_started += other.not_started;
        self.answers += other.answers;
        self.rows = self.rows.saturating_add(other.rows);
        self.latency.merge(&other.latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::{BEGIN, at, steps};

    #[test]
    fn answers_are_of_the_time_in_which_they_came_and_latencies_of_the_requests_that_were_due() {
        assert!(Steps::new(&[], BEGIN).is_none());
        let mut all = Steps::new(&steps(), BEGIN).unwrap();
        let mut other = all.clone();
        let request = |due: u64, step| Request {
            intended: at(due),
            started: at(due),
            measured: true,
            step,
            ..Request::default()
        };
        for (tally, due, step, came) in [(&mut all, 900, 0, 1_100), (&mut other, 1_000, 1, 3_001)] {
            let request = request(due, step);
            tally.of(&request).ok(&request, at(came));
            tally.answered(at(came));
        }
        other.of(&request(950, 0)).failed(1, false);
        other.answered(BEGIN.since(Nanos::from_nanos(1)));
        all.merge(&other);
        let of = |step: usize| {
            let Part { ok, failed, not_started, answers, latency, .. } = &all.all[step];
            (*ok, *failed, *not_started, *answers, latency.succeeded(), latency.failed())
        };
        assert_eq!(of(0), (1, 1, 1, 0.0, 1, 1));
        assert_eq!(of(1), (1, 0, 0, 1.0, 1, 0));
        assert_eq!((all.begin(0), all.begin(1)), (BEGIN, at(1_000)));
        assert_eq!((all.all[0].leaves_out(), all.all[1].leaves_out()), (true, false));
    }
}
