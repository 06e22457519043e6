//! Divides the work of a phase among its clients.

/// One client's share of the work of a phase. Things are dealt in rounds: in each round the clients take turns, one thing a
/// turn, so that a client with more connections than others may have more of its turns. With a turn each, client `index` has
/// the numbers `index`, `index + of`, `index + 2 of` ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which client, from 0.
    pub index: u32,
    /// How many clients; at least 1.
    pub of: u32,
    /// The turns of a round, at least one for each client.
    turns: u32,
}

impl Share {
    /// The only client.
    pub const WHOLE: Self = Self::new(0, 1);

    /// A client with as much as each other.
    pub const fn new(index: u32, of: u32) -> Self {
        let of = if of == 0 { 1 } else { of };
        Self { index, of, turns: of }
    }

    /// A client with as many turns of a round as fall to it, of at least one for each client.
    pub const fn with_turns(self, turns: u32) -> Self {
        Self { turns: if turns < self.of { self.of } else { turns }, ..self }
    }

    /// How many turns of a round are those of this client.
    pub const fn turns(self) -> u32 {
        self.turns / self.of + (self.turns % self.of > self.index) as u32
    }

    /// How many of `total` things fall to this client; over all clients they sum to `total`.
    pub fn count(self, total: u64) -> u64 {
        let (round, of) = (u64::from(self.turns), u64::from(self.of));
        let rest = total % round;
        total / round * u64::from(self.turns()) + rest / of + u64::from(rest % of > u64::from(self.index))
    }

    /// The `nth` thing (from 0) of this client.
    #[inline]
    pub fn nth(self, nth: u64) -> u64 {
        let (index, of) = (u64::from(self.index), u64::from(self.of));
        if self.turns == self.of {
            return index.wrapping_add(nth.wrapping_mul(of));
        }
        let own = u64::from(self.turns());
        (nth / own).wrapping_mul(self.turns.into()).wrapping_add(index + nth % own * of)
    }
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn shares_take_each_thing_once() {
        for of in 1..9u32 {
            for turns in of..3 * of {
                for total in 0..40u64 {
                    let shares = (0..of).map(|index| Share::new(index, of).with_turns(turns));
                    let mut all: Vec<u64> = shares.flat_map(|s| (0..s.count(total)).map(move |k| s.nth(k))).collect();
                    all.sort_unstable();
                    assert_eq!(all, (0..total).collect::<Vec<_>>(), "{total} over {of} with {turns} turns");
                }
            }
        }
    }

    #[test]
    fn clients_with_more_turns_have_more_in_proportion() {
        let shares = [0, 1, 2, 3].map(|index| Share::new(index, 4).with_turns(10));
        assert_eq!(shares.map(Share::turns), [3, 3, 2, 2]);
        assert_eq!(shares.map(|share| share.count(4_000)), [1_200, 1_200, 800, 800]);
        assert_eq!([0, 1, 2, 3, 4].map(|nth| shares[1].nth(nth)), [1, 5, 9, 11, 15]);
        assert_eq!(Share::new(1, 3).with_turns(0), Share::new(1, 3), "each client has a turn");
        assert_eq!(Share::new(0, 0), Share::WHOLE);
    }
}
