//! Iterates over records in the byte order of their keys, with bounded memory.

use super::key::{Hashed, Keys};

/// Numbers a pass over hashed keys holds at most, but for chance: 8 MB.
const BUFFER: u64 = 1_000_000;

/// Iterates over `0..count` in the byte order of the keys.
#[derive(Clone, Debug)]
pub(super) struct KeyOrder {
    keys: Keys,
    count: u64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Key order is record order: the next number.
    Record(u64),
    /// Numbers of equal digits are in key order already: runs, merged.
    Merge(Merge),
    /// A pass per range of the hash.
    Passes(Passes),
}

impl KeyOrder {
    pub(super) fn new(keys: Keys, count: u64) -> Self {
        let state = Self::begin(&keys, count);
        Self { keys, count, state }
    }

    fn begin(keys: &Keys, count: u64) -> State {
        match keys {
            Keys::Integer { .. } => State::Record(0),
            Keys::Template(text) if !text.has_number() => State::Record(0),
            Keys::Template(text) => State::Merge(Merge::new(keys, text.pad, count)),
            Keys::Hashed(_) => State::Passes(Passes::new(count, BUFFER)),
        }
    }

    /// Starts over.
    pub(super) fn rewind(&mut self) {
        self.state = Self::begin(&self.keys, self.count);
    }
}

impl Iterator for KeyOrder {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match (&mut self.state, &self.keys) {
            (State::Record(next), _) => {
                *next += 1;
                (*next <= self.count).then(|| *next - 1)
            }
            (State::Merge(merge), keys) => merge.next(keys),
            (State::Passes(passes), Keys::Hashed(hashed)) => passes.next(hashed, self.count),
            (State::Passes(_), _) => None,
        }
    }
}

/// A merge of runs of equal digits. Two numbers with as many digits differ first within the number, so each run is
/// in key order whatever text follows; there are at most 20 runs.
#[derive(Clone, Debug)]
struct Merge {
    /// Greatest key first, so that the next is popped from the end.
    runs: Vec<Run>,
}

#[derive(Clone, Debug)]
struct Run {
    number: u64,
    end: u64,
    key: Vec<u8>,
}

impl Merge {
    fn new(keys: &Keys, pad: usize, count: u64) -> Self {
        let mut runs = Vec::new();
        let (mut begin, mut width) = (0, pad as u32);
        while begin < count {
            let end = 10u64.checked_pow(width).map_or(count, |end| end.min(count));
            let mut key = Vec::new();
            keys.write(begin, &mut key);
            runs.push(Run { number: begin, end, key });
            (begin, width) = (end, width + 1);
        }
        runs.sort_by(|a, b| b.key.cmp(&a.key));
        Self { runs }
    }

    fn next(&mut self, keys: &Keys) -> Option<u64> {
        let run = self.runs.last_mut()?;
        let number = run.number;
        run.number += 1;
        if run.number == run.end {
            self.runs.pop();
            return Some(number);
        }
        run.key.clear();
        keys.write(run.number, &mut run.key);
        let mut at = self.runs.len() - 1;
        while at > 0 && self.runs[at].key > self.runs[at - 1].key {
            self.runs.swap(at, at - 1);
            at -= 1;
        }
        Some(number)
    }
}

/// Ranges of the hash one after the other; each is gathered by a pass over all numbers, then sorted.
#[derive(Clone, Debug)]
struct Passes {
    pass: u64,
    passes: u64,
    /// Words of this pass, greatest first.
    words: Vec<u64>,
}

impl Passes {
    /// A tenth of room keeps chance from ever filling the buffer: its deviation is below the root of its size.
    fn new(count: u64, buffer: u64) -> Self {
        Self { pass: 0, passes: count.div_ceil((buffer - buffer / 10).max(1)), words: Vec::new() }
    }

    fn next(&mut self, hashed: &Hashed, count: u64) -> Option<u64> {
        while self.words.is_empty() {
            if self.pass == self.passes {
                return None;
            }
            self.gather(hashed, count);
            self.pass += 1;
        }
        self.words.pop().map(|word| hashed.number(word))
    }

    fn gather(&mut self, hashed: &Hashed, count: u64) {
        let bound = |pass: u64| (u128::from(pass) << 64) / u128::from(self.passes);
        let (low, high) = (bound(self.pass) as u64, (bound(self.pass + 1) - 1) as u64);
        let words = (0..count).map(|number| hashed.word(number));
        self.words.extend(words.filter(|word| (low..=high).contains(word)));
        self.words.sort_unstable_by(|a, b| b.cmp(a));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::spec::KeySpec;
    use proptest::prelude::*;

    fn any_spec() -> impl Strategy<Value = KeySpec> {
        let part = prop_oneof![Just(""), Just("/"), Just("x"), Just("0"), Just("5"), Just("9:"), Just("é")];
        prop_oneof![
            (prop::collection::vec(part.prop_map(String::from), 2..4), 0u8..7)
                .prop_map(|(parts, pad)| KeySpec::Template { parts, pad }),
            prop_oneof![Just(4u8), Just(8)].prop_map(|bytes| KeySpec::Integer { bytes }),
            ("[a-z]{0,3}", 3u16..30, any::<bool>()).prop_map(|(prefix, more, hex)| KeySpec::Hashed {
                bytes: prefix.len() as u16 + more,
                prefix,
                hex
            }),
        ]
    }

    fn sorted(keys: &Keys, count: u64) -> Vec<u64> {
        let mut all: Vec<(Vec<u8>, u64)> = (0..count)
            .map(|number| {
                let mut key = Vec::new();
                keys.write(number, &mut key);
                (key, number)
            })
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, number)| number).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn key_order_is_the_order_of_the_keys(spec in any_spec(), count in 0u64..3_000, seed: u64) {
            let keys = Keys::new(&spec, seed);
            // Three hexadecimal digits distinguish 4096 numbers, so that every key here is distinct.
            let mut order = KeyOrder::new(keys.clone(), count);
            prop_assert_eq!(order.by_ref().collect::<Vec<_>>(), sorted(&keys, count));
            order.rewind();
            prop_assert_eq!(order.count() as u64, count);
        }

        #[test]
        fn several_passes_give_the_same_order(count in 1u64..3_000, buffer in 40u64..400, seed: u64) {
            let keys = Keys::new(&KeySpec::Hashed { prefix: "u".into(), bytes: 17, hex: true }, seed);
            let Keys::Hashed(hashed) = &keys else { unreachable!() };
            let mut passes = Passes::new(count, buffer);
            let all: Vec<u64> = std::iter::from_fn(|| passes.next(hashed, count)).collect();
            prop_assert_eq!(all, sorted(&keys, count));
        }
    }

    #[test]
    fn a_pass_stays_within_its_buffer() {
        let Keys::Hashed(hashed) = Keys::new(&KeySpec::Hashed { prefix: "".into(), bytes: 8, hex: false }, 4) else {
            unreachable!()
        };
        let mut passes = Passes::new(200_000, 10_000);
        let mut most = 0;
        while passes.next(&hashed, 200_000).is_some() {
            most = most.max(passes.words.len() + 1);
        }
        assert!((8_500..=10_000).contains(&most), "{most} held");
    }
}
