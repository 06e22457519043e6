//! Stores with a known fault each, and the same stores without it: cuts find every fault, and never blame a correct store.

use prony_powercut::MetadataOrder;
use prony_powercut::fixture::Store;

use crate::mounted::Mount;

#[test]
fn every_fault_is_found_and_no_correct_store_is_blamed() {
    for order in [MetadataOrder::Ext4, MetadataOrder::Posix] {
        for (store, expected) in Store::ALL {
            let Some(mount) = Mount::in_order(order) else { return };
            let found = store.worst(&mount.mounted, mount.outside()).unwrap();
            assert_eq!(found, expected, "{}, {order:?}", store.name());
        }
    }
}
