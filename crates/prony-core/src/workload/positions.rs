//! Which record an operation touches.

use super::key_order::KeyOrder;
use super::permutation::Shuffle;
use super::random::{Purpose, Stream, derive};
use super::zipf::{Scrambled, Zipfian};
use super::{Records, Share};
use crate::experiment::spec::Order;

/// Record numbers in an order, without end.
///
/// The orders `record`, `key` and `shuffled` visit each record of this client's share once, then start over; the
/// share is every `of`th place of the order. A client without a share (fewer records than clients) visits one record
/// of another. The others draw independently from all records, each client from a stream of its own.
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

    /// The same, for a zipfian order over so many more records than there are yet.
    ///
    /// As in YCSB: were the draw taken modulo the records of the moment, each insert would make other records
    /// popular; so it is taken modulo those expected in the end, and drawn again where that one is still to come.
    pub(super) fn with_room(order: &Order, records: &Records, seed: u64, share: Share, room: u64) -> Self {
        let count = records.count();
        let stripe = Stripe::new(share, count);
        let stream = Stream::new(derive(seed, Purpose::Draw, u64::from(share.index)));
        let kind = match *order {
            Order::Record => Kind::Record(stripe),
            Order::Shuffled => Kind::Shuffled(Shuffle::new(count, derive(seed, Purpose::Shuffle, 0)), stripe),
            Order::Key => Kind::Key(Box::new(KeyStripe { order: records.key_order(), stripe, rank: 0 })),
            Order::Uniform => Kind::Uniform(stream),
            Order::Zipfian { theta } => Kind::Zipfian(Scrambled::new(count.saturating_add(room), theta), stream),
            Order::Latest { theta } => Kind::Latest(Zipfian::new(count, theta), stream),
            Order::Hotspot { records, operations } => {
                let hot = (count as f64 * records.get()) as u64;
                Kind::Hotspot { hot, cold: count - hot.min(count), operations: operations.get(), stream }
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
            Kind::Zipfian(zipfian, stream) => loop {
                let number = zipfian.record(stream.unit());
                if number < available {
                    break number;
                }
            },
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

    /// After inserts there are so many records: `uniform`, `latest` and `zipfian` draw from them too (`zipfian` as
    /// far as room was foreseen at the start). The other orders keep to the records of the start, as in YCSB.
    pub fn grow(&mut self, records: u64) {
        self.available = self.available.max(records);
        match &mut self.kind {
            Kind::Latest(zipfian, _) => zipfian.grow(records),
            Kind::Zipfian(..) | Kind::Uniform(_) => {}
            Kind::Record(_) | Kind::Shuffled(..) | Kind::Key(_) | Kind::Hotspot { .. } => {}
        }
    }
}

/// Every `of`th place of an order, over and over.
#[derive(Clone, Debug)]
struct Stripe {
    at: u64,
    first: u64,
    step: u64,
    count: u64,
}

impl Stripe {
    fn new(share: Share, count: u64) -> Self {
        let first = u64::from(share.index).checked_rem(count).unwrap_or(0);
        Self { at: first, first, step: u64::from(share.of.max(1)), count }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let at = self.at;
        let after = at.saturating_add(self.step);
        self.at = if after < self.count { after } else { self.first };
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
