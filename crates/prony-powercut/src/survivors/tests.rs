use std::collections::BTreeSet;
use std::ffi::OsString;

use super::*;
use crate::log::{Attributes, EntryChange};
use crate::payload::Payloads;

const ALWAYS: u64 = 100;

fn fraction(share: f64) -> Fraction {
    Fraction::new(share).unwrap()
}

fn piece(seq: Seq, begin: u64, end: u64) -> Piece {
    Piece { seq, begin, end }
}

struct Sample {
    log: Log,
    payloads: Payloads,
}

impl Sample {
    fn new() -> Self {
        Self { log: Log::default(), payloads: Payloads::new(tempfile::tempfile().unwrap(), 1 << 20) }
    }

    fn write(&mut self, ino: Ino, offset: u64, len: usize) -> Seq {
        let data = self.payloads.store(&vec![7; len]).unwrap();
        self.log.push(Change::Write { ino, offset, data })
    }

    fn entry(&mut self, changes: &[(Ino, &str, Option<Ino>)]) -> Seq {
        let change = |(dir, name, target): &(Ino, &str, Option<Ino>)| EntryChange {
            dir: *dir,
            name: OsString::from(name),
            target: *target,
        };
        self.log.push(Change::Entries(changes.iter().map(change).collect()))
    }

    fn draw(&self, order: MetadataOrder, policy: Policy, unit: Unit, seed: u64) -> Survivors {
        Survivors::draw(&self.log, order, policy, (fraction(0.5), unit), seed)
    }

    fn of_file(&self, survivors: &Survivors, ino: Ino) -> FileSurvivors {
        let of_file = |change: &Change| match change {
            Change::Write { ino: of, .. } | Change::Zero { ino: of, .. } | Change::Resize { ino: of, .. } => *of == ino,
            _ => false,
        };
        let operations: Vec<(Seq, &Change)> = self.log.iter().filter(|(_, change)| of_file(change)).collect();
        survivors.of_file(ino, &operations)
    }

    /// All sets of changes of metadata that survive under some seed.
    fn metadata_sets(&self, order: MetadataOrder, policy: Policy) -> BTreeSet<Vec<Seq>> {
        let all = || self.log.metadata().map(|(seq, _)| seq);
        let of = |seed| {
            let survivors = self.draw(order, policy, Unit::Page, seed);
            all().filter(|seq| survivors.has(*seq)).collect()
        };
        (0..ALWAYS).map(of).collect()
    }
}

#[test]
fn none_keeps_no_pending_operation() {
    let mut sample = Sample::new();
    sample.entry(&[(1, "a", Some(2))]);
    sample.write(2, 0, 100);
    let survivors = sample.draw(MetadataOrder::Ext4, Policy::None, Unit::Page, 1);
    assert_eq!(survivors.metadata(), 0);
    assert_eq!(sample.of_file(&survivors, 2), FileSurvivors::default());
}

#[test]
fn prefix_keeps_every_length_and_nothing_else() {
    let mut sample = Sample::new();
    let all = [sample.write(2, 0, 10), sample.write(2, 5, 10), sample.write(2, 30, 10)];
    let mut lengths = BTreeSet::new();
    for seed in 0..ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Prefix, Unit::Page, seed);
        let found: Vec<Seq> = sample.of_file(&survivors, 2).pieces.iter().map(|piece| piece.seq).collect();
        assert_eq!(found[..], all[..found.len()]);
        lengths.insert(found.len());
    }
    assert_eq!(lengths, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn torn_write_keeps_one_side_of_a_boundary() {
    let mut sample = Sample::new();
    let whole = sample.write(2, 0, 512);
    let cut = sample.write(2, 300, 1024);
    sample.write(2, 0, 512);
    let mut found = BTreeSet::new();
    for seed in 0..ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Torn, Unit::Sector, seed);
        let pieces = sample.of_file(&survivors, 2).pieces;
        assert_eq!(pieces[0], piece(whole, 0, 512));
        assert_eq!((pieces.len(), pieces[1].seq), (2, cut));
        found.insert((pieces[1].begin, pieces[1].end));
    }
    assert_eq!(found, BTreeSet::from([(300, 512), (300, 1024), (512, 1324), (1024, 1324)]));
}

#[test]
fn torn_is_a_prefix_where_no_write_can_be_cut() {
    let mut sample = Sample::new();
    sample.write(2, 0, 512);
    sample.write(2, 512, 512);
    let counts = (0..ALWAYS).map(|seed| {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Torn, Unit::Sector, seed);
        sample.of_file(&survivors, 2).pieces.len()
    });
    assert_eq!(counts.collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));
}

#[test]
fn subset_keeps_the_first_writes_of_each_page_independently() {
    let mut sample = Sample::new();
    let a = sample.write(2, 0, 4096);
    let b = sample.write(2, 100, 8000);
    let mut found = BTreeSet::new();
    for seed in 0..4 * ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Subset, Unit::Page, seed);
        let pieces = sample.of_file(&survivors, 2).pieces;
        found.insert(pieces.iter().map(|p| (p.seq, p.begin, p.end)).collect::<Vec<_>>());
    }
    // The first page has one of three states, the second one of two.
    let expected = [
        vec![],
        vec![(a, 0, 4096)],
        vec![(a, 0, 4096), (b, 100, 4096)],
        vec![(b, 4096, 8100)],
        vec![(a, 0, 4096), (b, 4096, 8100)],
        vec![(a, 0, 4096), (b, 100, 8100)],
    ];
    assert_eq!(found, BTreeSet::from(expected));
}

#[test]
fn write_does_not_survive_without_an_earlier_truncation() {
    let mut sample = Sample::new();
    let before = sample.write(2, 0, 10);
    let resize = sample.log.push(Change::Resize { ino: 2, size: 4 });
    let after = sample.write(2, 0, 6);
    let mut both = BTreeSet::new();
    for seed in 0..ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Subset, Unit::Page, seed);
        let FileSurvivors { sizes, pieces } = sample.of_file(&survivors, 2);
        if survivors.has(resize) {
            assert_eq!(sizes, [4]);
            // What was written before does not reach behind the new end.
            assert!(pieces.iter().all(|p| *p == piece(before, 0, 4) || *p == piece(after, 0, 6)), "{pieces:?}");
        } else {
            assert!(sizes.is_empty() && pieces.iter().all(|p| *p == piece(before, 0, 10)), "{pieces:?}");
        }
        both.insert((survivors.has(resize), pieces.len()));
    }
    assert_eq!(both.len(), 5, "{both:?}");
}

#[test]
fn metadata_survives_in_the_order_of_the_journal() {
    let mut sample = Sample::new();
    sample.entry(&[(1, "a", Some(2))]);
    sample.entry(&[(1, "b", Some(3))]);
    sample.log.push(Change::Attributes { ino: 2, attributes: Attributes { mode: 0o600, uid: 0, gid: 0 } });
    let prefixes = BTreeSet::from([vec![], vec![1], vec![1, 2], vec![1, 2, 3]]);
    assert_eq!(sample.metadata_sets(MetadataOrder::Ext4, Policy::Subset), prefixes);
    assert_eq!(sample.metadata_sets(MetadataOrder::Posix, Policy::Prefix), prefixes);
}

#[test]
fn posix_orders_changes_of_one_name_only() {
    let mut sample = Sample::new();
    sample.entry(&[(1, "a", Some(2))]);
    sample.entry(&[(1, "b", Some(3))]);
    sample.entry(&[(1, "a", None), (1, "c", Some(2))]);
    let sets = sample.metadata_sets(MetadataOrder::Posix, Policy::Subset);
    let expected = [vec![], vec![1], vec![2], vec![1, 2], vec![1, 3], vec![1, 2, 3]];
    assert_eq!(sets, BTreeSet::from(expected));
}
