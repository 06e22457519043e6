//! Builds one profile from several files: functions, stacks and threads that recur are stored once.

use std::collections::HashMap;
use std::hash::Hash;

use super::model::{Frame, Function, Profile, Sample, Thread};
use prony_model::units::Nanos;

/// Collects samples into a [`Profile`].
#[derive(Debug, Default)]
pub struct Builder {
    profile: Profile,
    functions: HashMap<Function, usize>,
    packages: HashMap<String, usize>,
    frames: HashMap<Frame, usize>,
    threads: HashMap<(u32, u32), usize>,
}

impl Builder {
    /// The profile, its samples in the order of time.
    pub fn finish(mut self) -> Profile {
        self.profile.samples.sort_by_key(|sample| (sample.at, sample.thread));
        self.profile
    }

    /// The number of a package.
    pub(super) fn package(&mut self, name: &str) -> usize {
        number_of(name.to_owned(), &mut self.packages, &mut self.profile.packages)
    }

    /// The number of a function.
    pub(super) fn function(&mut self, function: Function) -> usize {
        number_of(function, &mut self.functions, &mut self.profile.functions)
    }

    /// The number of a call from a parent that has a number.
    pub(super) fn frame(&mut self, parent: Option<usize>, function: usize) -> usize {
        number_of(Frame { parent, function }, &mut self.frames, &mut self.profile.frames)
    }

    /// The number of a thread, which has its last name: commands get theirs when they are executed.
    pub(super) fn thread(&mut self, thread: Thread) -> usize {
        let next = self.profile.threads.len();
        let number = *self.threads.entry((thread.pid, thread.tid)).or_insert(next);
        match self.profile.threads.get_mut(number) {
            Some(known) => known.name = thread.name,
            None => self.profile.threads.push(thread),
        }
        number
    }

    pub(super) fn sample(&mut self, sample: Sample) {
        self.profile.samples.push(sample);
    }

    pub(super) fn uncertain(&mut self, by: Nanos) {
        self.profile.uncertainty = self.profile.uncertainty.max(by);
    }
}

/// The place of something in a list, at whose end it is put unless it is known.
fn number_of<T: Clone + Eq + Hash>(one: T, known: &mut HashMap<T, usize>, all: &mut Vec<T>) -> usize {
    *known.entry(one).or_insert_with_key(|one| {
        all.push(one.clone());
        all.len() - 1
    })
}
