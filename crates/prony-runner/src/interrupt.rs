//! Ctrl-C: the first ends the run cleanly, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user asked to stop; cheap to clone and to query.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens for SIGINT, SIGTERM and SIGHUP. The second one ends the process by its default action;
    /// the trial's supervisor then ends the tree.
    ///
    /// # Errors
    /// Where the handlers cannot be installed.
    pub fn listen() -> std::io::Result<Self> {
        let this = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            // In this order: the first signal finds the flag unset and only sets it.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&this.flag))?;
            signal_hook::flag::register(signal, Arc::clone(&this.flag))?;
        }
        Ok(this)
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Asks to stop, as Ctrl-C does.
    pub fn ask(&self) {
        self.flag.store(true, Ordering::Relaxed);
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
}
