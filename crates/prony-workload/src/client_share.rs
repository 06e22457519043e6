//! Divides the work of a phase among its clients.

/// One client's share of the work of a phase: the numbers `index`, `index + of`, `index + 2 of` ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which client, from 0.
    pub index: u32,
    /// How many clients; at least 1.
    pub of: u32,
}

impl Share {
    /// The only client.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// How many of `total` things fall to this client; over all clients they sum to `total`.
    pub fn count(self, total: u64) -> u64 {
        let of = u64::from(self.of.max(1));
        total / of + u64::from(total % of > u64::from(self.index))
    }

    /// The `nth` thing (from 0) of this client.
    pub fn nth(self, nth: u64) -> u64 {
        u64::from(self.index).wrapping_add(nth.wrapping_mul(u64::from(self.of.max(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn shares_take_each_thing_once() {
        for of in 1..9u32 {
            for total in 0..40u64 {
                let shares = (0..of).map(|index| Share { index, of });
                let mut all: Vec<u64> = shares.flat_map(|s| (0..s.count(total)).map(move |k| s.nth(k))).collect();
                all.sort_unstable();
                assert_eq!(all, (0..total).collect::<Vec<_>>(), "{total} over {of}");
            }
        }
    }
}
