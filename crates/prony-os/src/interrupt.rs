//! Ctrl-C: the first one ends the run cleanly, the second one ends prony at once. While a step runs that is done also
//! after an interrupt (`cleanup`, `conclude`), a further one ends that step only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::sample::parse::ignores;
use crate::why::kernel_text;

/// Signals within so long of each other are one request to stop: `timeout` sends its signal to the process and then to its group, and a
/// terminal that closes sends SIGHUP by the kernel and by its shell. Nobody presses Ctrl-C twice as fast.
const ONE_REQUEST: Duration = Duration::from_millis(100);

/// Whether the user asked to stop; cheap to clone and to query.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    /// Whether the next signal ends the process.
    last: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens for SIGINT, SIGTERM and SIGHUP, in a thread of its own. The second request ends the process by its default action, unless something is done
    /// [nevertheless](Self::nevertheless);
    /// the trial's supervisor then ends the tree.
    ///
    /// A hangup that is ignored when prony starts stays ignored, which is how `nohup` asks for it. SIGINT does not: shells without job
    /// control ignore it in all that they start in the background, and a script could not interrupt prony there.
    ///
    /// # Errors
    /// Where the handlers cannot be installed.
    pub fn listen() -> std::io::Result<Self> {
        let this = Self::default();
        let status = kernel_text("/proc/self/status").unwrap_or_default();
        let hangup = Some(SIGHUP).filter(|hangup| !ignores(&status, *hangup));
        let handled = [SIGINT, SIGTERM].into_iter().chain(hangup);
        let mut signals = Signals::new(handled)?;
        let asked = this.clone();
        thread::Builder::new().name("interrupt".into()).spawn(move || {
            let mut counted: Option<Instant> = None;
            for signal in signals.forever() {
                if counted.is_none_or(|at| at.elapsed() > ONE_REQUEST) {
                    counted = Some(Instant::now());
                    asked.signalled(|| drop(emulate_default_handler(signal)));
                }
            }
        })?;
        Ok(this)
    }

    /// Counts a request: the first one, or the first since [`asked_again`](Self::asked_again), asks to stop, a further one calls `end`.
    fn signalled(&self, end: impl FnOnce()) {
        let ends = self.last.swap(true, Ordering::SeqCst);
        self.flag.store(true, Ordering::SeqCst);
        if ends {
            end();
        }
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// Asks to stop, as Ctrl-C does.
    pub fn ask(&self) {
        self.last.store(true, Ordering::SeqCst);
        self.flag.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked since the last call; the next signal does not end the process.
    fn asked_again(&self) -> bool {
        self.last.swap(false, Ordering::SeqCst)
    }

    /// Does what is done also where the user asks to stop. Its argument is to be called again and again, and is true where
    /// that ends too: where the user asks once more after `wait` was called, which says what is waited for.
    pub fn nevertheless<T>(&self, mut wait: impl FnMut(), work: impl FnOnce(&mut dyn FnMut() -> bool) -> T) -> T {
        let mut waiting = false;
        self.asked_again();
        let done = work(&mut || {
            if !self.asked() {
                return false;
            }
            let again = self.asked_again();
            if !waiting {
                waiting = true;
                wait();
                return false;
            }
            again
        });
        self.last.store(self.asked(), Ordering::SeqCst);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_wish() {
        let interrupt = Interrupt::default();
        let other = interrupt.clone();
        assert!(!other.asked());
        interrupt.ask();
        assert!(other.asked());
    }

    #[test]
    fn second_request_ends_the_process_and_the_first_one_after_a_question_does_not() {
        let (interrupt, ended) = (Interrupt::default(), std::cell::Cell::new(0));
        let signalled = || {
            interrupt.signalled(|| ended.set(ended.get() + 1));
            (interrupt.asked(), ended.get())
        };
        assert_eq!(signalled(), (true, 0));
        assert_eq!(signalled(), (true, 1));
        assert!(interrupt.asked_again());
        assert_eq!(signalled(), (true, 1));
        assert_eq!(signalled(), (true, 2));
    }

    #[test]
    fn work_is_done_nevertheless_until_it_is_asked_again_after_it_was_said() {
        for asked_before in [true, false] {
            let (interrupt, mut said) = (Interrupt::default(), 0);
            if asked_before {
                interrupt.ask();
            }
            let ended = interrupt.nevertheless(
                || said += 1,
                |stop| {
                    let early = [stop(), stop()];
                    interrupt.ask();
                    let first = stop();
                    let before = stop();
                    interrupt.ask();
                    (early, first, before, stop())
                },
            );
            assert_eq!(ended, ([false; 2], asked_before, false, true), "asked before: {asked_before}");
            assert_eq!(said, 1);
            assert!(interrupt.asked() && interrupt.last.load(Ordering::SeqCst), "the next one ends the process");
        }
        let interrupt = Interrupt::default();
        assert!(!interrupt.nevertheless(|| panic!("nobody asked"), |stop| stop()));
        assert!(!interrupt.last.load(Ordering::SeqCst));
    }
}
