//! The kinds of requests of a load, and which of them each request is.

use prony_model::http::ExpectedStatuses;
use prony_model::random::{GOLDEN, Purpose, derive, mix, unit};

use crate::answer::Wanted;
use crate::answer_check::AnswerCheck;
use crate::capture::Capture;
use crate::request::Template;
use crate::text::Variation;

/// A kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Its name in a mix or a session.
    pub(crate) name: Option<String>,
    /// How often it is sent, beside the weights of the others.
    pub(crate) weight: f64,
    pub(crate) template: Template,
    /// The place of the first list of saved values that it uses.
    pub(crate) list: Option<usize>,
    /// The statuses of answers that are no errors.
    pub(crate) expect: ExpectedStatuses,
    /// What is read of the bodies of its expected answers.
    pub(crate) answer_check: Option<AnswerCheck>,
    /// The values that are saved of them.
    pub(crate) captures: Vec<Capture>,
}

/// All kinds of a load, of which there is at least one.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    all: Vec<Kind>,
    draw: Draw,
}

/// Which kind a request is. It follows from its number, so that it depends neither on threads nor on speed: it is drawn at random,
/// or the requests of a session have numbers that follow one another.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    /// Sums of the weights up to each kind, as shares of all; none of a single kind and of a session.
    ends: Vec<f64>,
    seed: u64,
    /// The requests of a session; 1 where there are none.
    session: u64,
}

impl Default for Draw {
    fn default() -> Self {
        Self { ends: Vec::new(), seed: 0, session: 1 }
    }
}

impl Draw {
    fn new(weights: &[f64], seed: u64) -> Self {
        let all: f64 = weights.iter().sum();
        let ends = weights.iter().scan(0.0, |sum, weight| {
            *sum += weight / all;
            Some(*sum)
        });
        Self {
            ends: if weights.len() > 1 { ends.collect() } else { Vec::new() },
            seed: derive(seed, Purpose::Choice, 0),
            session: 1,
        }
    }

    /// The requests of a session; 1 where a request is all of it.
    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    /// How many of so many requests are of each kind, on average.
    pub(crate) fn divide(&self, count: u64) -> impl Iterator<Item = (u32, u64)> {
        let until = |end: &f64| ((count as f64 * end).round() as u64).min(count);
        // The last sum may be below 1 by rounding.
        let inner = self.ends.len().saturating_sub(1);
        let ends: Vec<u64> = self.ends[..inner].iter().map(until).chain([count]).collect();
        let of = ends.clone().into_iter().zip([0].into_iter().chain(ends)).map(|(end, begin)| end - begin);
        (0..).zip(of)
    }

    /// The place of the kind of the request with this number.
    #[inline]
    pub(crate) fn of(&self, number: u64) -> u32 {
        if self.ends.is_empty() {
            return if self.session == 1 { 0 } else { (number % self.session) as u32 };
        }
        // The word of this number in the stream of the seed.
        let drawn = unit(mix(self.seed.wrapping_add(number.wrapping_mul(GOLDEN))));
        // The last sum may be below 1 by rounding.
        self.ends.iter().position(|end| drawn < *end).unwrap_or(self.ends.len() - 1) as u32
    }
}

impl Kinds {
    /// The requests of a session, a mix of requests, or requests of one kind.
    pub(crate) fn of(mut all: Vec<Kind>, is_session: bool, seed: u64) -> Self {
        for kind in &mut all {
            let in_body = kind.captures.iter().any(|capture| !capture.is_in_head());
            let wanted = Wanted {
                head: kind.captures.iter().any(Capture::is_in_head)
                    || kind.answer_check.as_ref().is_some_and(AnswerCheck::searches),
                body: kind.answer_check.is_some() || in_body,
            };
            kind.template.set_wanted(wanted);
        }
        let weights: Vec<f64> = all.iter().map(|kind| kind.weight).collect();
        if all.len() > 1 {
            // Two kinds may differ where their numbers are the same.
            all.iter_mut().for_each(|kind| kind.template.set_of_mix());
        }
        let draw = Draw { session: all.len().max(1) as u64, ..Draw::default() };
        Self { draw: if is_session { draw } else { Draw::new(&weights, seed) }, all }
    }

    /// The requests of a session; 1 where a request is all of it.
    #[inline]
    pub(crate) fn session(&self) -> u64 {
        self.draw.session
    }

    /// The kind of the request with this number.
    #[inline]
    pub(crate) fn kind(&self, number: u64) -> &Kind {
        &self.all[self.draw.of(number) as usize]
    }

    pub(crate) fn all(&self) -> &[Kind] {
        &self.all
    }

    pub(crate) fn draw(&self) -> Draw {
        self.draw.clone()
    }

    /// The template of the request with this number.
    #[inline]
    pub(crate) fn template(&self, number: u64) -> &Template {
        &self.kind(number).template
    }

    /// The request where all are the same, with what is known of it.
    #[inline]
    pub(crate) fn same(&self) -> Option<&Template> {
        self.all.first().map(|kind| &kind.template).filter(|template| self.all.len() == 1 && template.same().is_some())
    }

    /// The names of the kinds of a mix or a session.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter_map(|kind| kind.name.as_deref())
    }

    /// The method where all have the same; else all of them.
    pub(crate) fn methods(&self) -> String {
        let mut methods: Vec<&str> = self.all.iter().map(|kind| kind.template.method()).collect();
        methods.sort_unstable();
        methods.dedup();
        methods.join(", ")
    }

    /// Whether some request has a file open.
    pub(crate) fn read_files(&self) -> bool {
        self.all.iter().any(|kind| kind.template.reads_files())
    }

    /// How the paths of two requests differ.
    pub(crate) fn paths(&self) -> Variation {
        self.all.iter().map(|kind| kind.template.paths()).max().unwrap_or_default()
    }

    /// How their bodies differ; `None` where none has one.
    pub(crate) fn bodies(&self) -> Option<Variation> {
        self.all.iter().filter_map(|kind| kind.template.bodies()).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_drawn_by_their_weights() {
        const REQUESTS: u64 = 100_000;
        for (weights, seed) in [(vec![8.0, 1.0, 1.0], 1), (vec![0.5, 0.25, 0.25], 2), (vec![1.0; 7], 3)] {
            let draw = Draw::new(&weights, seed);
            let mut counts = vec![0u64; weights.len()];
            (0..REQUESTS).for_each(|number| counts[draw.of(number) as usize] += 1);
            let all: f64 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(&weights) {
                let expected = REQUESTS as f64 * weight / all;
                // Five standard deviations; the seeds are fixed.
                assert!((*count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{counts:?} of {weights:?}");
            }
            let other = Draw::new(&weights, seed + 10);
            assert!((0..100).any(|number| draw.of(number) != other.of(number)), "the seed counts");
        }
        assert_eq!(Draw::new(&[3.0], 1).of(7), 0);
    }
}
