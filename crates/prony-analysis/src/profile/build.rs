//! Builds one profile from several files: functions, stacks and threads that recur are stored once.

use std::collections::HashMap;

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
        if let Some(number) = self.packages.get(name) {
            return *number;
        }
        let number = self.profile.packages.len();
        self.profile.packages.push(name.to_owned());
        self.packages.insert(name.to_owned(), number);
        number
    }

    /// The number of a function.
    pub(super) fn function(&mut self, function: Function) -> usize {
        let next = self.profile.functions.len();
        let number = *self.functions.entry(function.clone()).or_insert(next);
        if number == next {
            self.profile.functions.push(function);
        }
        number
    }

    /// The number of a call from a parent that has a number.
    pub(super) fn frame(&mut self, parent: Option<usize>, function: usize) -> usize {
        let (frame, next) = (Frame { parent, function }, self.profile.frames.len());
        let number = *self.frames.entry(frame).or_insert(next);
        if number == next {
            self.profile.frames.push(frame);
        }
        number
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
