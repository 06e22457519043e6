//! Decides which record an operation touches.

use super::client_share::Share;
use super::key_order::KeyOrder;
use super::permutation::Shuffle;
use super::records::Records;
use super::zipf::{Scrambled, Zipfian};
use prony_model::random::{Purpose, Stream, derive};
use prony_model::spec::Order;

/// Draws of a zipfian record that does not exist yet, before it is folded onto those that do.
const REDRAWS: u32 = 64;

/// Record numbers in an order, without end.
///
/// The orders `record`, `key` and `shuffled` visit each record of this client's share once, then start over; the share
/// is what falls to it of the places of the order. A client without a share (fewer records than clients) visits one record of
/// another. All other orders draw independently from all records, each client from a stream of its own.
#[derive(Clone, Debug)]
pub struct Positions {
    /// Records that may be touched: `0..available`.
    available: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Record(Stripe),
    Shuffled(Shuffle, Stripe),
    Key(Box<KeyStripe>),
    Uniform(Stream),
    Zipfian(Scrambled, Stream),
    Latest(Zipfian, Stream),
    Hotspot { hot: u64, cold: u64, operations: f64, stream: Stream },
}

impl Positions {
    /// The positions of one client of a phase.
    pub fn new(order: &Order, records: &Records, seed: u64, share: Share) -> Self {
        Self::with_room(order, records, seed, share, 0)
    }

    /// Places among so many things that have no keys: by key they are in the order of their places.
    pub fn over(order: &Order, count: u64, seed: u64, share: Share) -> Self {
        Self::of(order, (count, None), seed, share, 0)
    }

    /// The same, for a zipfian order over so many more records than there are yet.
    ///
    /// As in YCSB: were the draw taken modulo the records of the moment, each insert would make other records
    /// popular; so it is taken modulo those expected in the end, and drawn again where that one is still to come.
    pub(super) fn with_room(order: &Order, records: &Records, seed: u64, share: Share, room: u64) -> Self {
        Self::of(order, (records.count(), Some(records)), seed, share, room)
    }

    fn of(order: &Order, (count, records): (u64, Option<&Records>), seed: u64, share: Share, room: u64) -> Self {
        let stripe = Stripe::new(share, count);
        let stream = Stream::new(derive(seed, Purpose::Draw, u64::from(share.index)));
        let kind = match *order {
            Order::Record => Kind::Record(stripe),
            Order::Key => match records {
                Some(records) => Kind::Key(Box::new(KeyStripe { order: records.key_order(), stripe, rank: 0 })),
                None => Kind::Record(stripe),
            },
            Order::Shuffled => Kind::Shuffled(Shuffle::new(count, derive(seed, Purpose::Shuffle, 0)), stripe),
            Order::Uniform => Kind::Uniform(stream),
            Order::Zipfian { theta } => Kind::Zipfian(Scrambled::new(count.saturating_add(room), theta), stream),
            Order::Latest { theta } => Kind::Latest(Zipfian::new(count, theta), stream),
            Order::Hotspot { records, operations } => {
                // A share below one record is that of one: without any, all records would be drawn alike.
                let hot = ((count as f64 * records.get()) as u64).max(u64::from(records.get() > 0.0));
                Kind::Hotspot { hot, cold: count.saturating_sub(hot), operations: operations.get(), stream }
            }
        };
        Self { available: count, kind }
    }

    /// The next record's number; 0 where there are no records.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so there is no `None` to match in the timed loop"
    )]
    #[inline]
    pub fn next(&mut self) -> u64 {
        let available = self.available;
        if available == 0 {
            return 0;
        }
        match &mut self.kind {
            Kind::Record(stripe) => stripe.next(),
            Kind::Shuffled(shuffle, stripe) => shuffle.at(stripe.next()),
            Kind::Key(keys) => keys.next(),
            Kind::Uniform(stream) => stream.below(available),
            Kind::Zipfian(zipfian, stream) => zipfian_below(available, zipfian, stream),
            Kind::Latest(zipfian, stream) => available - 1 - zipfian.rank(stream.unit()),
            Kind::Hotspot { hot, cold, operations, stream } => {
                if *cold == 0 || (*hot > 0 && stream.unit() < *operations) {
                    stream.below(*hot)
                } else {
                    *hot + stream.below(*cold)
                }
            }
        }
    }

    /// Goes to a place of the order, counted over all clients and over again after the last; the orders that draw have
    /// no places.
    pub fn go_to(&mut self, place: u64) {
        match &mut self.kind {
            Kind::Record(stripe) | Kind::Shuffled(_, stripe) => stripe.go_to(place),
            Kind::Key(keys) => keys.stripe.go_to(place),
            Kind::Uniform(_) | Kind::Zipfian(..) | Kind::Latest(..) | Kind::Hotspot { .. } => {}
        }
    }

    /// After inserts there are so many records: `uniform`, `latest` and `zipfian` draw from them too (`zipfian` as
    /// far as room was foreseen at the start). The other orders keep to the records of the start, as in YCSB.
    pub fn grow(&mut self, records: u64) {
        self.available = self.available.max(records);
        if let Kind::Latest(zipfian, _) = &mut self.kind {
            zipfian.grow(records);
        }
    }
}

/// Draws until a record exists already. Where few of the expected ones exist this could take long; then the last draw
/// is folded onto the existing ones.
fn zipfian_below(available: u64, zipfian: &Scrambled, stream: &mut Stream) -> u64 {
    let mut number = zipfian.record(stream.unit());
    for _ in 0..REDRAWS {
        if number < available {
            return number;
        }
        number = zipfian.record(stream.unit());
    }
    number % available
}

/// A client's places of an order, over and over.
#[derive(Clone, Debug)]
struct Stripe {
    share: Share,
    /// How many of its places came in this round.
    nth: u64,
    at: u64,
    count: u64,
}

impl Stripe {
    fn new(share: Share, count: u64) -> Self {
        Self { share, nth: 0, at: Self::first(share, count), count }
    }

    fn first(share: Share, count: u64) -> u64 {
        share.nth(0).checked_rem(count).unwrap_or(0)
    }

    /// Sets the next place; those after it are not changed.
    fn go_to(&mut self, place: u64) {
        self.at = place.checked_rem(self.count).unwrap_or(0);
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let at = self.at;
        self.nth += 1;
        self.at = self.share.nth(self.nth);
        if self.at >= self.count {
            (self.nth, self.at) = (0, Self::first(self.share, self.count));
        }
        at
    }
}

/// A stripe of the key order.
#[derive(Clone, Debug)]
struct KeyStripe {
    order: KeyOrder,
    stripe: Stripe,
    /// Place of the number that `order` yields next.
    rank: u64,
}

impl KeyStripe {
    fn next(&mut self) -> u64 {
        let wanted = self.stripe.next();
        if wanted < self.rank {
            self.order.rewind();
            self.rank = 0;
        }
        let skip = (wanted - self.rank) as usize;
        self.rank = wanted + 1;
        self.order.nth(skip).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{count, deviation, gray, key};
    use crate::zipf::{SCRAMBLED_RANKS, fnv};
    use prony_model::spec::{BytesSpec, CollectionSpec, KeySpec, Size, ValueSpec};
    use prony_model::units::{Bytes, Fraction};
    use proptest::prelude::*;

    const ZIPFIAN: Order = Order::Zipfian { theta: 0.99 };
    const LATEST: Order = Order::Latest { theta: 0.99 };

    fn records(count: u64) -> Records {
        let key = KeySpec::Hashed { prefix: "user".into(), bytes: 20, hex: true };
        let value = ValueSpec::Bytes(BytesSpec {
            bytes: Size::Fixed(Bytes::from_bytes(8)),
            compressible: Fraction::default(),
            prefix: Vec::new(),
        });
        Records::new(&CollectionSpec { name: None, records: count, key, value }, 11).unwrap()
    }

    #[test]
    fn places_are_those_of_as_many_records() {
        for order in [Order::Record, Order::Shuffled, Order::Uniform, ZIPFIAN, LATEST] {
            let share = Share::new(1, 3);
            let mut places = Positions::over(&order, 50, 5, share);
            let mut of_records = Positions::new(&order, &records(50), 5, share);
            assert!((0..200).all(|_| places.next() == of_records.next()), "{order:?}");
        }
        let mut by_key = Positions::over(&Order::Key, 3, 5, Share::WHOLE);
        assert_eq!([0; 4].map(|_| by_key.next()), [0, 1, 2, 0]);
    }

    fn positions(order: Order, count: u64, index: u32, of: u32) -> Positions {
        Positions::new(&order, &records(count), 5, Share::new(index, of))
    }

    fn take(positions: &mut Positions, n: u64) -> Vec<u64> {
        (0..n).map(|_| positions.next()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn clients_together_visit_each_record_once(
            order in prop_oneof![Just(Order::Record), Just(Order::Shuffled), Just(Order::Key)],
            count in 1u64..500,
            of in 1u32..6,
        ) {
            let mut all = Vec::new();
            for index in 0..of {
                let share = Share::new(index, of).count(count);
                let mut positions = positions(order, count, index, of);
                let first = take(&mut positions, share);
                prop_assert_eq!(&take(&mut positions, share), &first, "it starts over");
                all.extend(first);
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn draws_stay_within_the_records(
            order in prop_oneof![
                Just(Order::Uniform),
                Just(ZIPFIAN),
                Just(LATEST),
                (0.0f64..=1.0, 0.0f64..=1.0).prop_map(|(records, operations)| Order::Hotspot {
                    records: Fraction::new(records).unwrap(),
                    operations: Fraction::new(operations).unwrap(),
                }),
            ],
            count in 1u64..50,
            grown in 0u64..80,
        ) {
            let mut positions = positions(order, count, 0, 1);
            prop_assert!(take(&mut positions, 200).iter().all(|n| *n < count));
            positions.grow(grown);
            prop_assert!(take(&mut positions, 200).iter().all(|n| *n < count.max(grown)));
        }
    }

    #[test]
    fn a_place_of_an_order_is_the_same_record_for_every_client() {
        for order in [Order::Record, Order::Shuffled, Order::Key] {
            let all = take(&mut positions(order, 50, 0, 1), 50);
            let mut other = positions(order, 50, 2, 3);
            for place in [7, 8, 49, 3, 50, 103] {
                other.go_to(place);
                assert_eq!(other.next(), all[(place % 50) as usize], "{order:?} {place}");
            }
        }
    }

    #[test]
    fn a_client_without_a_share_still_has_a_record() {
        for order in [Order::Record, Order::Shuffled, Order::Key] {
            assert!(take(&mut positions(order, 2, 3, 4), 5).iter().all(|n| *n < 2));
            assert_eq!(positions(order, 0, 0, 1).next(), 0);
        }
    }

    #[test]
    fn key_order_visits_keys_in_order_for_every_client() {
        let records = records(1_000);
        for (index, of) in [(0, 1), (1, 3)] {
            let share = Share::new(index, of);
            let mut positions = Positions::new(&Order::Key, &records, 5, share);
            let visited = take(&mut positions, share.count(1_000));
            assert!(visited.is_sorted_by(|a, b| key(&records, *a) < key(&records, *b)));
        }
    }

    #[test]
    fn clients_and_seeds_have_streams_of_their_own() {
        let whole = take(&mut positions(Order::Uniform, 1 << 40, 0, 2), 20);
        assert_ne!(whole, take(&mut positions(Order::Uniform, 1 << 40, 1, 2), 20));
        let records = records(1 << 40);
        let share = Share::new(0, 2);
        assert_eq!(whole, take(&mut Positions::new(&Order::Uniform, &records, 5, share), 20));
        assert_ne!(whole, take(&mut Positions::new(&Order::Uniform, &records, 6, share), 20));
    }

    #[test]
    fn uniform_is_uniform() {
        let mut positions = positions(Order::Uniform, 1_000, 0, 1);
        let counts = count(1_000, 500_000, || positions.next());
        assert!(deviation(&counts, &[0.001; 1_000]).abs() < 4.0);
    }

    #[test]
    fn latest_is_zipfian_back_from_the_newest() {
        let mut positions = positions(LATEST, 1_000, 0, 1);
        let mut counts = count(1_000, 500_000, || positions.next());
        counts.reverse();
        assert!(deviation(&counts, &gray(1_000, 0.99, 1_000)).abs() < 4.0);
        positions.grow(1_500);
        let mut counts = count(1_500, 500_000, || positions.next());
        counts.reverse();
        assert!(deviation(&counts, &gray(1_500, 0.99, 1_500)).abs() < 4.0);
    }

    /// The popular ranks one by one, the long tail spread evenly by the hash.
    fn scrambled(records: u64) -> Vec<f64> {
        let head = gray(SCRAMBLED_RANKS, 0.99, 100_000);
        let tail = 1.0 - head.iter().sum::<f64>();
        let mut probabilities = vec![tail / records as f64; records as usize];
        for (rank, probability) in head.iter().enumerate() {
            probabilities[(fnv(rank as u64) % records) as usize] += probability;
        }
        probabilities
    }

    #[test]
    fn zipfian_is_ycsbs_scrambled_zipfian() {
        let mut positions = positions(ZIPFIAN, 1_000, 0, 1);
        let counts = count(1_000, 1_000_000, || positions.next());
        let off = deviation(&counts, &scrambled(1_000));
        assert!(off.abs() < 4.0, "{off}");
        let hottest = (0..1_000).max_by_key(|n| counts[*n]).unwrap();
        assert_eq!(hottest as u64, fnv(0) % 1_000);
    }

    #[test]
    fn inserts_do_not_change_which_records_are_popular() {
        let mut positions = Positions::with_room(&ZIPFIAN, &records(1_000), 5, Share::WHOLE, 200);
        let expected = |there: usize| {
            let mut all = scrambled(1_200);
            all.truncate(there);
            let sum: f64 = all.iter().sum();
            all.iter().map(|p| p / sum).collect::<Vec<_>>()
        };
        let counts = count(1_000, 300_000, || positions.next());
        assert!(deviation(&counts, &expected(1_000)).abs() < 4.0);
        positions.grow(1_100);
        let counts = count(1_100, 300_000, || positions.next());
        assert!(deviation(&counts, &expected(1_100)).abs() < 4.0);
    }

    #[test]
    fn a_hotspot_takes_its_share_of_the_operations() {
        let share = |of| Fraction::new(of).unwrap();
        let order = Order::Hotspot { records: share(0.2), operations: share(0.8) };
        let mut positions = positions(order, 1_000, 0, 1);
        let counts = count(1_000, 500_000, || positions.next());
        let probabilities: Vec<f64> = (0..1_000).map(|n| if n < 200 { 0.8 / 200.0 } else { 0.2 / 800.0 }).collect();
        assert!(deviation(&counts, &probabilities).abs() < 4.0);
    }

    /// A share of less than one record left none, and all records were drawn alike.
    #[test]
    fn a_hotspot_has_a_record_at_least() {
        let share = |of| Fraction::new(of).unwrap();
        let drawn = |records| {
            let order = Order::Hotspot { records: share(records), operations: share(1.0) };
            let mut positions = positions(order, 50, 0, 1);
            count(50, 1_000, || positions.next())
        };
        assert_eq!(drawn(0.01)[0], 1_000);
        assert!(drawn(0.0).iter().all(|of| *of < 1_000), "none was asked for");
    }
}
