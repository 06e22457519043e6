//! Collects the footnotes of one table: each text once, numbered in order of first use.

use super::model::Note;

/// The footnotes so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    marked: Vec<String>,
    general: Vec<String>,
}

impl Notes {
    /// The number of a footnote.
    pub(super) fn mark(&mut self, text: impl Into<String>) -> usize {
        let text = text.into();
        if let Some(at) = self.marked.iter().position(|t| *t == text) {
            return at + 1;
        }
        self.marked.push(text);
        self.marked.len()
    }

    /// A note on the whole table.
    pub(super) fn general(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.general.contains(&text) {
            self.general.push(text);
        }
    }

    /// The numbered ones, then the general ones.
    pub(super) fn finish(self) -> Vec<Note> {
        let marked = self.marked.into_iter().enumerate().map(|(at, text)| Note { mark: at + 1, text });
        marked.chain(self.general.into_iter().map(|text| Note { mark: 0, text })).collect()
    }
}
