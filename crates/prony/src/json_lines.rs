//! Reports the progress of a run to other programs (`--json`): each event as one line of JSON.

use std::io::Write;

use prony_model::event::{Event, Observer};

/// Prints each event as one line of JSON.
pub(crate) struct JsonLines<W: Write> {
    out: W,
}

impl<W: Write> JsonLines<W> {
    /// Prints to `out`.
    pub(crate) fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> Observer for JsonLines<W> {
    fn event(&mut self, event: &Event) {
        // A closed output must not end a run.
        if let Ok(text) = serde_json::to_string(event) {
            let _ = writeln!(self.out, "{text}");
            let _ = self.out.flush();
        }
    }
}
