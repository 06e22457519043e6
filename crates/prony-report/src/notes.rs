//! Collects the footnotes of one table: each text once, numbered in order of first use; and numbers those of several tables.

use super::model::{Note, Table};
use super::words::place_of;

/// The footnotes so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    marked: Vec<String>,
    general: Vec<String>,
}

impl Notes {
    /// The number of a footnote.
    pub(super) fn mark(&mut self, text: impl Into<String>) -> usize {
        1 + place_of(&mut self.marked, text.into())
    }

    /// A note on the whole table.
    pub(super) fn general(&mut self, text: impl Into<String>) {
        place_of(&mut self.general, text.into());
    }

    /// The numbered ones, then the general ones.
    pub(super) fn finish(self) -> Vec<Note> {
        let marked = self.marked.into_iter().enumerate().map(|(at, text)| Note { mark: at + 1, text });
        marked.chain(self.general.into_iter().map(|text| Note { mark: 0, text })).collect()
    }
}

/// Numbers the footnotes of tables that stand on one screen so that no number stands for two texts; a text that several
/// tables have keeps its number.
pub(super) fn number_apart<'t>(tables: impl IntoIterator<Item = &'t mut Table>) {
    let mut known: Vec<String> = Vec::new();
    for table in tables {
        let marked = table.notes.iter().filter(|note| note.mark > 0);
        let numbers: Vec<(usize, usize)> =
            marked.map(|note| (note.mark, 1 + place_of(&mut known, note.text.clone()))).collect();
        let new = |mark: &mut usize| {
            *mark = numbers.iter().find(|(old, _)| old == mark).map_or(*mark, |(_, new)| *new);
        };
        for row in &mut table.rows {
            row.labels.iter_mut().flat_map(|label| &mut label.marks).for_each(new);
            row.cells.iter_mut().flat_map(|cell| &mut cell.marks).for_each(new);
        }
        table.columns.iter_mut().flat_map(|column| &mut column.marks).for_each(new);
        table.notes.iter_mut().for_each(|note| new(&mut note.mark));
        // Those on the whole table stand last.
        table.notes.sort_by_key(|note| (note.mark == 0, note.mark));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cell, Row};

    /// Two tables of one screen had a footnote 1 each.
    #[test]
    fn footnotes_of_several_tables_have_numbers_of_their_own() {
        let table = |texts: &[&str]| {
            let mut notes = Notes::default();
            let marks = texts.iter().map(|text| notes.mark(*text)).collect();
            notes.general("of all");
            let row = Row { labels: vec![], cells: vec![Cell { marks, ..Cell::default() }] };
            Table { rows: vec![row], notes: notes.finish(), ..Table::default() }
        };
        let mut tables = [table(&["a", "b"]), table(&["c", "a"])];
        number_apart(&mut tables);
        let marks = |table: &Table| table.rows[0].cells[0].marks.clone();
        assert_eq!((marks(&tables[0]), marks(&tables[1])), (vec![1, 2], vec![3, 1]));
        let notes: Vec<(usize, &str)> = tables[1].notes.iter().map(|note| (note.mark, note.text.as_str())).collect();
        assert_eq!(notes, [(1, "a"), (3, "c"), (0, "of all")]);
    }
}
