//! A cut knows its instant: what a program has done before it is in the cut, and what it begins afterwards is not, however many
//! system calls it makes while the cut is ordered and saved.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_powercut::{MetadataOrder, Policy, Unit};

use crate::mounted::Mount;

const POLICIES: [Policy; 4] = [Policy::None, Policy::Subset, Policy::Torn, Policy::Prefix];

/// Numbers that are written without a sync, after those that are synced.
const PENDING: u64 = 8;

#[test]
fn writes_that_returned_before_the_instant_of_a_cut_are_in_it_and_later_ones_are_not() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let path = mount.path("numbers");
    let file = File::create(&path).unwrap();
    file.write_all_at(&[0; 16], 0).unwrap();
    mount.mounted.sync().unwrap();
    let stop = AtomicBool::new(false);
    let (instants, cuts) = thread::scope(|scope| {
        // The number of each sync, and then of each write that is not synced.
        let writer = scope.spawn(|| {
            let mut instants = vec![Nanos::ZERO];
            while !stop.load(Ordering::Relaxed) {
                let number = instants.len() as u64;
                file.write_all_at(&number.to_le_bytes(), 0).unwrap();
                file.sync_data().unwrap();
                instants.push(monotonic());
                for _ in 0..PENDING {
                    file.write_all_at(&number.to_le_bytes(), 8).unwrap();
                }
            }
            instants
        });
        let cuts: Vec<_> = (0..20)
            .map(|seed| {
                let (at, report) = mount.cut_at(&POLICIES, Unit::Page, seed);
                (at, report.images.into_iter().map(|image| fs::read(image.path.join("numbers")).unwrap()).collect())
            })
            .collect::<Vec<(Nanos, Vec<Vec<u8>>)>>();
        stop.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), cuts)
    });
    for (at, images) in cuts {
        // The first one is that of the empty file.
        let synced = instants.partition_point(|instant| *instant < at) as u64 - 1;
        for bytes in images {
            let number = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap());
            assert!((synced..=synced + 1).contains(&number(0)), "{synced} before the cut, {} in it", number(0));
            assert!(number(8) <= synced + 1, "{synced} before the cut, {} in it", number(8));
        }
    }
}
