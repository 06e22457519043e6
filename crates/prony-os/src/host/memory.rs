//! Measures the bandwidth of memory, and touches memory in advance so that its first use is not slow.

use prony_model::units::{Bytes, Nanos};

use crate::clock::monotonic;

/// Touches `amount` of memory and gives it back (METHOD 2.8): the first touch of pages that the host
/// had not yet handed to this machine can be several times slower than later ones. Returns how long it took.
pub fn warm_memory(amount: Bytes) -> Nanos {
    let began = monotonic();
    drop(crate::fixture::Allocation::touched(amount));
    monotonic().since(began)
}

/// Sum of a buffer's words: reads every byte once, in order.
pub(super) fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word))
}

/// A buffer whose pages have all been touched.
pub(super) fn touched(size: Bytes) -> Vec<u64> {
    let words = usize::try_from(size.as_bytes() / 8).unwrap_or(0);
    // Not zeros: the allocator takes those from the kernel untouched.
    vec![0x5151_5151_5151_5151; words]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_buffer_has_the_size_asked_for() {
        let buffer = touched(Bytes::from_kib(8));
        assert_eq!(buffer.len(), 1024);
        assert_eq!(sum(&buffer), 0x5151_5151_5151_5151u64.wrapping_mul(1024));
    }
}
