-- Schema 2. What a search asked and concluded, in order; the first entry of a run holds its settings.

CREATE TABLE journal (
    run   INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    ord   INTEGER NOT NULL,
    entry TEXT    NOT NULL,                         -- JSON
    PRIMARY KEY (run, ord)
) WITHOUT ROWID;
