//! Computes a record's key from its number.

use super::numbered_text::Text;
use super::permutation::Feistel;
use prony_model::random::{GOLDEN, Purpose, derive, mix, unmix};
use prony_model::spec::KeySpec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of the key that a bijection of the number fills: all there are up to 64, an even count.
pub(super) fn hash_bits(prefix: usize, bytes: u16, hex: bool) -> u32 {
    let rest = usize::from(bytes).saturating_sub(prefix).min(16) as u32;
    (rest * if hex { 4 } else { 8 }).min(64)
}

/// The seed of a collection's keys and values, from that of the trial.
pub(super) fn seed_of(name: Option<&str>, seed: u64) -> u64 {
    name.map_or(seed, |name| xxh3_64_with_seed(name.as_bytes(), seed))
}

/// Keys of one experiment and seed.
#[derive(Clone, Debug)]
pub(super) enum Keys {
    Template(Text),
    Integer { bytes: usize },
    Hashed(Hashed),
}

impl Keys {
    pub(super) fn new(spec: &KeySpec, seed: u64) -> Self {
        match spec {
            KeySpec::Template { parts, pad } => Self::Template(Text::new(parts, *pad)),
            KeySpec::Integer { bytes } => Self::Integer { bytes: usize::from(*bytes).min(8) },
            KeySpec::Hashed { prefix, bytes, hex } => {
                Self::Hashed(Hashed::new(prefix, *bytes, *hex, derive(seed, Purpose::Key, 0)))
            }
        }
    }

    /// Appends the key of a number.
    #[inline]
    pub(super) fn write(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            Self::Template(text) => text.write(number, out),
            Self::Integer { bytes } => out.extend_from_slice(&number.to_be_bytes()[8 - bytes..]),
            Self::Hashed(hashed) => hashed.write(number, out),
        }
    }
}

/// A prefix and a seeded bijection of the number.
#[derive(Clone, Debug)]
pub(super) struct Hashed {
    prefix: Vec<u8>,
    length: usize,
    hex: bool,
    word: Word,
}

/// The bijection: of 64 bits where the key has room for them, else of as many as it has.
#[derive(Clone, Debug)]
enum Word {
    /// SplitMix64's finaliser after exclusive-or with the seed.
    Full(u64),
    /// A Feistel network over so many bits.
    Narrow(Feistel, u32),
}

impl Hashed {
    fn new(prefix: &str, bytes: u16, hex: bool, seed: u64) -> Self {
        let word = match hash_bits(prefix.len(), bytes, hex) {
            64 => Word::Full(seed),
            bits => Word::Narrow(Feistel::of_bits(bits, seed), bits),
        };
        Self { prefix: prefix.as_bytes().to_vec(), length: usize::from(bytes), hex, word }
    }

    /// The first 64 bits after the prefix, high bits first: their order is the order of the keys.
    #[inline]
    pub(super) fn word(&self, number: u64) -> u64 {
        match &self.word {
            Word::Full(seed) => mix(number ^ seed),
            Word::Narrow(_, 0) => 0,
            Word::Narrow(network, bits) => network.forward(number & ((1 << bits) - 1)) << (64 - bits),
        }
    }

    /// The number whose word this is.
    #[inline]
    pub(super) fn number(&self, word: u64) -> u64 {
        match &self.word {
            Word::Full(seed) => unmix(word) ^ seed,
            Word::Narrow(_, 0) => 0,
            Word::Narrow(network, bits) => network.backward(word >> (64 - bits)),
        }
    }

    fn write(&self, number: u64, out: &mut Vec<u8>) {
        let end = out.len() + self.length.max(self.prefix.len());
        out.extend_from_slice(&self.prefix);
        let mut word = self.word(number);
        while out.len() < end {
            let room = end - out.len();
            if self.hex {
                let digits = hexadecimal(word);
                out.extend_from_slice(&digits[..room.min(16)]);
            } else {
                out.extend_from_slice(&word.to_be_bytes()[..room.min(8)]);
            }
            word = mix(word.wrapping_add(GOLDEN));
        }
    }
}

#[inline]
fn hexadecimal(word: u64) -> [u8; 16] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|place| DIGITS[(word >> (60 - 4 * place) & 15) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::key_capacity;
    use proptest::prelude::*;

    fn key(spec: &KeySpec, seed: u64, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        Keys::new(spec, seed).write(number, &mut out);
        out
    }

    fn hashed(prefix: &str, bytes: u16, hex: bool) -> KeySpec {
        KeySpec::Hashed { prefix: prefix.into(), bytes, hex }
    }

    proptest! {
        #[test]
        fn a_hashed_key_gives_its_number_back(bytes in 1u16..40, hex: bool, seed: u64, number: u64) {
            let spec = hashed("k", bytes + 1, hex);
            let number = key_capacity(&spec).map_or(number, |n| number % n);
            let Keys::Hashed(keys) = Keys::new(&spec, seed) else { unreachable!() };
            prop_assert_eq!(keys.number(keys.word(number)), number);
        }

        #[test]
        fn hashed_keys_have_the_length_asked_for(bytes in 1u16..200, hex: bool, number: u64) {
            let key = key(&hashed("user", bytes + 4, hex), 1, number);
            prop_assert_eq!(key.len(), usize::from(bytes) + 4);
            prop_assert!(key.starts_with(b"user"));
            prop_assert!(!hex || key[4..].iter().all(|c| b"0123456789abcdef".contains(c)));
        }
    }

    #[test]
    fn narrow_hashed_keys_are_all_distinct() {
        for (bytes, hex) in [(1, false), (2, false), (1, true), (2, true), (3, true), (4, true)] {
            let spec = hashed("", bytes, hex);
            let capacity = key_capacity(&spec).unwrap();
            let mut all: Vec<Vec<u8>> = (0..capacity).map(|n| key(&spec, 9, n)).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len() as u64, capacity, "{bytes} bytes, hex {hex}");
        }
    }

    #[test]
    fn capacities_follow_the_room() {
        assert_eq!(key_capacity(&KeySpec::Integer { bytes: 4 }), Some(1 << 32));
        assert_eq!(key_capacity(&KeySpec::Integer { bytes: 8 }), None);
        assert_eq!(key_capacity(&hashed("user", 12, false)), None);
        assert_eq!(key_capacity(&hashed("user", 12, true)), Some(1 << 32));
        assert_eq!(key_capacity(&KeySpec::Template { parts: vec!["x".into()], pad: 0 }), Some(1));
        assert_eq!(key_capacity(&KeySpec::Template { parts: vec!["x".into(), "".into()], pad: 0 }), None);
    }

    #[test]
    fn integers_are_big_endian() {
        assert_eq!(key(&KeySpec::Integer { bytes: 4 }, 1, 0x0102_0304), [1, 2, 3, 4]);
        assert_eq!(key(&KeySpec::Integer { bytes: 8 }, 1, 258), [0, 0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn seeds_give_hashed_keys_of_their_own() {
        let spec = hashed("", 16, true);
        assert_ne!(key(&spec, 1, 0), key(&spec, 2, 0));
        assert_eq!(key(&spec, 1, 0), key(&spec, 1, 0));
    }

    /// Each of the 256 values of each byte is as likely: chi-square per place below its 99.999 % point.
    #[test]
    fn hashed_keys_are_unordered_in_every_byte() {
        let spec = hashed("", 24, false);
        let keys = Keys::new(&spec, 3);
        let mut counts = vec![[0u32; 256]; 24];
        let mut out = Vec::new();
        for number in 0..25_600 {
            out.clear();
            keys.write(number, &mut out);
            for (place, byte) in out.iter().enumerate() {
                counts[place][usize::from(*byte)] += 1;
            }
        }
        for (place, counts) in counts.iter().enumerate() {
            let chi: f64 = counts.iter().map(|c| (f64::from(*c) - 100.0).powi(2) / 100.0).sum();
            assert!((160.0..362.0).contains(&chi), "byte {place}: chi-square {chi} of 255");
        }
    }
}
