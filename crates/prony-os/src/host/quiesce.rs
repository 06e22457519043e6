//! Writes back what an earlier trial left in the page cache before the next trial begins (METHOD 2.8).

use std::fs::File;
use std::path::Path;

use prony_model::reading::Reading;
use prony_model::record::Quiesced;
use prony_model::units::{Bytes, Nanos};

use crate::clock::Clock;
use crate::sample::snapshot::unwritten;
use crate::why::reading;

/// Dirty and writeback pages below which the machine counts as quiet.
const LOW: Bytes = Bytes::from_mib(8);
const STEP: Nanos = Nanos::from_millis(20);

/// Syncs the file system of `directory` and waits until the machine's dirty and writeback pages are below 8 MiB, but no
/// longer than `cap`: other processes may write all the time.
pub fn quiesce(directory: &Path, cap: Nanos, clock: &impl Clock) -> Quiesced {
    let began = clock.now();
    let synced = sync_file_system(directory);
    wait(began, synced, cap, clock, unwritten)
}

/// Writes everything that is dirty on the file system of a directory to its disk.
pub fn sync_file_system(directory: &Path) -> Reading<()> {
    let done = File::open(directory).and_then(|directory| rustix::fs::syncfs(directory).map_err(Into::into));
    reading(&format!("syncfs of `{}`", directory.display()), done)
}

fn wait(
    began: Nanos,
    synced: Reading<()>,
    cap: Nanos,
    clock: &impl Clock,
    mut read: impl FnMut() -> Reading<Bytes>,
) -> Quiesced {
    loop {
        let unwritten = read();
        let waited = clock.now().since(began);
        let quiet = unwritten.measured().is_some_and(|unwritten| *unwritten <= LOW);
        if quiet || waited >= cap || unwritten.measured().is_none() {
            return Quiesced { quiet, waited, unwritten, synced };
        }
        clock.sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use prony_model::reading::Why;

    use super::*;

    struct Script(Cell<u64>);

    impl Clock for Script {
        fn now(&self) -> Nanos {
            Nanos::from_nanos(self.0.get())
        }
        fn sleep(&self, span: Nanos) {
            self.0.set(self.0.get() + span.as_nanos());
        }
    }

    fn waited(read: impl FnMut() -> Reading<Bytes>) -> Quiesced {
        wait(Nanos::ZERO, Reading::Measured(()), Nanos::from_secs(2), &Script(Cell::new(0)), read)
    }

    #[test]
    fn it_waits_until_pages_are_written() {
        let mut left = 5;
        let found = waited(|| {
            left -= 1;
            Reading::Measured(Bytes::from_mib(8 + left))
        });
        assert_eq!((found.quiet, found.waited), (true, Nanos::from_millis(80)));
    }

    #[test]
    fn it_gives_up_at_the_cap_and_where_nothing_is_known() {
        let busy = waited(|| Reading::Measured(Bytes::from_mib(9)));
        assert_eq!((busy.quiet, busy.waited), (false, Nanos::from_secs(2)));
        let blind = waited(|| Reading::Missing(Why::NotSupported("no procfs".into())));
        assert_eq!((blind.quiet, blind.waited), (false, Nanos::ZERO));
    }
}
