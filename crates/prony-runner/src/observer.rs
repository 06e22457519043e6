//! Observers of a run: the runner emits events, these print them.

use std::io::Write;

use prony_model::event::Event;

/// Receives every event of a run, in order.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Event);
}

/// Prints each event as one line of JSON.
pub struct JsonLines<W: Write> {
    out: W,
}

impl<W: Write> JsonLines<W> {
    /// Prints to `out`.
    pub fn new(out: W) -> Self {
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

/// Collects events in memory, for tests.
#[derive(Default)]
pub struct Log {
    /// In order.
    pub events: Vec<Event>,
}

impl Observer for Log {
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
}
