use std::collections::BTreeSet;
use std::ffi::OsString;

use super::*;
use crate::log::{Attributes, EntryChange};
use crate::payload::Payloads;
use crate::ranges::Ranges;

const ALWAYS: u64 = 100;

fn fraction(share: f64) -> Fraction {
    Fraction::new(share).unwrap()
}

/// The pieces that survive: the operation, and the range.
fn pieces(steps: &[Step]) -> Vec<(Seq, u64, u64)> {
    let piece = |step: &Step| match step {
        Step::Piece(Piece { seq, begin, end, .. }) => Some((*seq, *begin, *end)),
        _ => None,
    };
    steps.iter().filter_map(piece).collect()
}

struct Sample {
    log: Log,
    payloads: Payloads,
    /// Pages that have a place on the disk.
    has_place: Vec<u64>,
}

impl Sample {
    fn new() -> Self {
        Self { log: Log::default(), payloads: Payloads::new(tempfile::tempfile().unwrap()), has_place: vec![] }
    }

    fn write(&mut self, ino: Ino, offset: u64, len: usize) -> Seq {
        let data = self.payloads.store(&vec![7; len], 1 << 20).unwrap();
        self.log.push(Change::Write { ino, offset, data, left: Ranges::one(offset, offset + len as u64) })
    }

    fn entry(&mut self, changes: &[(Ino, &str, Option<Ino>)]) -> Seq {
        self.entry_with(changes, &[])
    }

    /// A change that adds, moves or removes directories.
    fn entry_with(&mut self, changes: &[(Ino, &str, Option<Ino>)], directories: &[Ino]) -> Seq {
        let change = |(dir, name, target): &(Ino, &str, Option<Ino>)| EntryChange {
            dir: *dir,
            name: OsString::from(name),
            target: *target,
        };
        let changes = changes.iter().map(change).collect();
        self.log.push(Change::Entries { changes, directories: directories.to_vec() })
    }

    fn draw(&self, order: MetadataOrder, policy: Policy, unit: Unit, seed: u64) -> Survivors {
        Survivors::draw(&self.log, order, policy, (fraction(0.5), unit), seed)
    }

    fn of_file(&self, survivors: &Survivors, ino: Ino) -> Vec<Step> {
        let operations: Vec<Seq> =
            self.log.iter().filter(|(_, change)| change.ino() == Some(ino)).map(|(seq, _)| seq).collect();
        survivors.of_file(ino, (&self.log, &operations), |page| self.has_place.contains(&page))
    }

    fn pieces(&self, survivors: &Survivors, ino: Ino) -> Vec<(Seq, u64, u64)> {
        pieces(&self.of_file(survivors, ino))
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
    assert_eq!(sample.of_file(&survivors, 2), []);
}

#[test]
fn prefix_keeps_every_length_and_nothing_else() {
    let mut sample = Sample::new();
    let all = [sample.write(2, 0, 10), sample.write(2, 5, 10), sample.write(2, 30, 10)];
    let mut lengths = BTreeSet::new();
    for seed in 0..ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Prefix, Unit::Page, seed);
        let found: Vec<Seq> = sample.pieces(&survivors, 2).iter().map(|piece| piece.0).collect();
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
        let pieces = sample.pieces(&survivors, 2);
        assert_eq!(pieces[0], (whole, 0, 512));
        assert_eq!((pieces.len(), pieces[1].0), (2, cut));
        found.insert((pieces[1].1, pieces[1].2));
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
        sample.pieces(&survivors, 2).len()
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
        found.insert(sample.pieces(&survivors, 2));
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
fn write_to_a_new_place_does_not_survive_without_earlier_metadata() {
    let mut sample = Sample::new();
    sample.has_place = vec![0];
    let before = sample.write(2, 4096, 10);
    let resize = sample.log.push(Change::Resize { ino: 2, size: 100 });
    let in_place = sample.write(2, 0, 60);
    let after = sample.write(2, 4096, 6);
    for order in [MetadataOrder::Ext4, MetadataOrder::Posix] {
        let mut found = BTreeSet::new();
        for seed in 0..4 * ALWAYS {
            let survivors = sample.draw(order, Policy::Subset, Unit::Page, seed);
            let steps = sample.of_file(&survivors, 2);
            assert_eq!(steps.contains(&Step::Resize(100)), survivors.has(resize));
            found.insert((survivors.has(resize), pieces(&steps)));
        }
        let (before, in_place, after) = ((before, 4096, 4106), (in_place, 0, 60), (after, 4096, 4102));
        let expected = [
            (false, vec![]),
            (false, vec![before]),
            // The page that was there before is written in place, also where the truncation is lost.
            (false, vec![in_place]),
            (false, vec![before, in_place]),
            (true, vec![]),
            (true, vec![before]),
            (true, vec![in_place]),
            (true, vec![before, in_place]),
            (true, vec![before, after]),
            (true, vec![before, in_place, after]),
        ];
        assert_eq!(found, BTreeSet::from(expected), "{order:?}");
    }
}

#[test]
fn write_to_a_page_that_a_truncation_freed_is_one_to_a_new_place() {
    let mut sample = Sample::new();
    sample.has_place = vec![0, 1];
    let resize = sample.log.push(Change::Resize { ino: 2, size: 4096 });
    sample.write(2, 5000, 10);
    for seed in 0..ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Subset, Unit::Page, seed);
        assert!(survivors.has(resize) || sample.pieces(&survivors, 2).is_empty());
    }
}

#[test]
fn metadata_after_a_flush_does_not_survive_without_the_data_before_it() {
    let mut sample = Sample::new();
    sample.entry(&[(1, "new", Some(2))]);
    let data = sample.write(2, 0, 10);
    let rename = sample.entry(&[(1, "new", None), (1, "old", Some(2))]);
    sample.log.set_flush(rename, 2);
    let late = sample.write(2, 5, 10);
    let mut found = BTreeSet::new();
    for seed in 0..4 * ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Subset, Unit::Page, seed);
        let pieces: Vec<Seq> = sample.pieces(&survivors, 2).iter().map(|piece| piece.0).collect();
        found.insert((survivors.metadata(), pieces));
    }
    let expected = [(0, vec![]), (1, vec![]), (1, vec![data]), (2, vec![data]), (2, vec![data, late])];
    assert_eq!(found, BTreeSet::from(expected));
}

#[test]
fn size_may_survive_without_the_data_and_does_with_later_metadata() {
    let mut sample = Sample::new();
    sample.has_place = vec![0];
    let write = sample.write(2, 100, 10);
    sample.log.set_growth(write, 2, 110);
    sample.log.push(Change::Attributes { ino: 3, attributes: Attributes { mode: 0o600, uid: 0, gid: 0 } });
    let mut found = BTreeSet::new();
    for seed in 0..4 * ALWAYS {
        let survivors = sample.draw(MetadataOrder::Ext4, Policy::Subset, Unit::Page, seed);
        let steps = sample.of_file(&survivors, 2);
        found.insert((survivors.metadata(), steps.contains(&Step::Grow(110)), pieces(&steps).len()));
    }
    let expected = [(0, false, 0), (0, false, 1), (0, true, 0), (0, true, 1), (1, true, 0), (1, true, 1)];
    assert_eq!(found, BTreeSet::from(expected));
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

#[test]
fn posix_moves_nothing_into_a_directory_that_is_lost() {
    let mut sample = Sample::new();
    // `mkdir d`; `mv a d/a`; `mkdir e`; `mv d e/d`; `mv d/a b`; `rmdir d`.
    sample.entry_with(&[(1, "d", Some(10))], &[10]);
    sample.entry(&[(1, "a", None), (10, "a", Some(2))]);
    sample.entry_with(&[(1, "e", Some(11))], &[11]);
    sample.entry_with(&[(1, "d", None), (11, "d", Some(10))], &[10]);
    sample.entry(&[(10, "a", None), (1, "b", Some(2))]);
    sample.entry_with(&[(11, "d", None)], &[10]);
    let sets = sample.metadata_sets(MetadataOrder::Posix, Policy::Subset);
    let has = |set: &Vec<Seq>, seq| set.contains(&seq);
    for set in &sets {
        assert!(!has(set, 2) || has(set, 1), "{set:?}");
        assert!(!has(set, 4) || (has(set, 1) && has(set, 3)), "{set:?}");
        assert!(!has(set, 6) || has(set, 4), "{set:?}");
        assert!(!has(set, 6) || !has(set, 2) || has(set, 5), "{set:?}");
    }
    assert!(sets.contains(&vec![1, 2]) && sets.contains(&vec![3]) && sets.contains(&vec![1, 2, 3, 4]), "{sets:?}");
}
