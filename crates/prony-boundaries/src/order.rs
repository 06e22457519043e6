//! Whether the order of lines of two streams, stdout and stderr, is known, as far as it decides what a phase reads. Does no I/O.
//!
//! Each stream is read for itself, so that a line may be handled before one of the other stream that was written earlier. It
//! was surely written later only if it was not there when the other had been read.

use prony_model::units::Nanos;

/// When a line was written, as far as is known, and to which stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// 0 or 1.
    pub stream: usize,
    /// An instant at which it was not there.
    pub earliest: Nanos,
    /// When it had been read.
    pub at: Nanos,
}

impl Written {
    /// Whether it may have been written before a line that was handled before.
    pub(crate) fn may_precede(&self, other: &Self) -> bool {
        self.stream != other.stream && self.earliest < other.at
    }
}

/// The latest lines of each stream that bound a phase, and those that its `read` matched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    bounds: [Option<Written>; 2],
    read: [Option<Written>; 2],
}

impl Order {
    /// Notes a line that `bounds` the phase, or that its `read` matched; returns whether it is not known on which side of a bound
    /// such a line was written.
    pub(crate) fn note(&mut self, line: Written, bounds: bool, read: bool) -> bool {
        let crosses = |all: &[Option<Written>; 2]| all.iter().flatten().any(|other| line.may_precede(other));
        let unknown = bounds && crosses(&self.read) || read && crosses(&self.bounds);
        for (is, all) in [(bounds, &mut self.bounds), (read, &mut self.read)] {
            if is {
                all[line.stream] = Some(line);
            }
        }
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stream: usize, earliest: u64, at: u64) -> Written {
        Written { stream, earliest: Nanos::from_millis(earliest), at: Nanos::from_millis(at) }
    }

    #[test]
    fn order_of_lines_of_two_streams_is_known_if_the_second_was_not_there_when_the_first_had_been_read() {
        let mut order = Order::default();
        assert!(!order.note(line(0, 1, 5), true, false));
        assert!(!order.note(line(0, 1, 5), false, true), "lines of one stream are in order");
        assert!(!order.note(line(1, 5, 6), false, true), "it was not there");
        assert!(order.note(line(1, 4, 7), false, true));
        assert!(order.note(line(0, 6, 8), true, false), "a bound after a line that may have come later");
        assert!(!order.note(line(0, 6, 8), false, false), "neither");
        assert!(!order.note(line(0, 7, 9), true, true));
    }
}
