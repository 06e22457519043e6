-- Times are nanoseconds, instants CLOCK_MONOTONIC unless they end in unix_ms.
-- Unsigned 64-bit numbers are stored as the signed number of the same bits.

CREATE TABLE runs (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    title           TEXT    NOT NULL,
    source          TEXT    NOT NULL,               -- the experiment's text, byte for byte
    experiment      TEXT    NOT NULL,               -- the checked experiment, JSON
    hash            TEXT    NOT NULL,               -- XXH3-128 of `experiment`
    seed            INTEGER NOT NULL,
    host            TEXT    NOT NULL,               -- JSON
    limits          TEXT    NOT NULL,               -- JSON
    version         TEXT    NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    ended_unix_ms   INTEGER,
    status          TEXT    NOT NULL,               -- unfinished, done, interrupted
    planned         INTEGER NOT NULL,               -- trials
    scratch         TEXT                            -- where it was asked to be, an absolute path; null beside the database
);

-- Where a run was resumed: the sessions after its first, of which `runs` has machine and version.
CREATE TABLE sessions (
    run             INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    session         INTEGER NOT NULL,               -- from 1
    started_unix_ms INTEGER NOT NULL,
    host            TEXT    NOT NULL,               -- JSON
    version         TEXT    NOT NULL,
    PRIMARY KEY (run, session)
) WITHOUT ROWID;

CREATE TABLE variants (
    run      INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    variant  INTEGER NOT NULL,
    levels   TEXT    NOT NULL,                      -- JSON: factor -> label
    stratum  INTEGER NOT NULL,
    baseline INTEGER NOT NULL,
    PRIMARY KEY (run, variant)
) WITHOUT ROWID;

-- What engines report of themselves is the same in most trials: stored once a run.
CREATE TABLE effective (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    hash INTEGER NOT NULL,
    body TEXT    NOT NULL                           -- JSON
);
CREATE INDEX effective_by_hash ON effective (run, hash);

CREATE TABLE trials (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    position  INTEGER NOT NULL,
    block     INTEGER NOT NULL,                     -- this and the next two stand in `record` too: for queries by hand
    variant   INTEGER NOT NULL,
    outcome   TEXT    NOT NULL,                     -- the name
    effective INTEGER NOT NULL REFERENCES effective,
    record    TEXT    NOT NULL                      -- JSON: all but effective settings, readings and the large parts
);
CREATE UNIQUE INDEX trials_by_position ON trials (run, position);
CREATE INDEX trials_by_effective ON trials (effective);

-- What a trial's record does not hold of its phases.
CREATE TABLE phases (
    id                  INTEGER PRIMARY KEY,
    trial               INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE,
    ord                 INTEGER NOT NULL,
    name                TEXT    NOT NULL,           -- for queries by hand
    throughput_interval INTEGER,
    throughput          BLOB,                       -- packed u64
    -- Of `absences`. Both go with their run; a reference would need an index that is written with every phase.
    absent              INTEGER
);
CREATE UNIQUE INDEX phases_by_order ON phases (trial, ord);

CREATE TABLE metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL);
CREATE TABLE instances (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE reasons (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);   -- JSON

-- What was measured.
CREATE TABLE readings (
    phase    INTEGER NOT NULL REFERENCES phases ON DELETE CASCADE,
    instance INTEGER NOT NULL REFERENCES instances,
    metric   INTEGER NOT NULL REFERENCES metrics,
    value    REAL    NOT NULL,                      -- in the metric's unit
    PRIMARY KEY (phase, instance, metric)
) WITHOUT ROWID;

-- What is missing, with the reasons, is mostly the same from trial to trial: each set of it is stored once a run.
CREATE TABLE absences (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    hash INTEGER NOT NULL,
    body TEXT    NOT NULL                           -- JSON: [[instance, metric, reason], ...]
);
CREATE INDEX absences_by_hash ON absences (run, hash);

CREATE TABLE histograms (
    phase     INTEGER NOT NULL REFERENCES phases ON DELETE CASCADE,
    ord       INTEGER NOT NULL,
    operation TEXT    NOT NULL,
    kind      TEXT    NOT NULL,                     -- JSON
    failed    INTEGER NOT NULL,
    v2        BLOB    NOT NULL,                     -- HdrHistogram V2, nanoseconds
    PRIMARY KEY (phase, ord)
);

CREATE TABLE groups (
    phase      INTEGER PRIMARY KEY REFERENCES phases ON DELETE CASCADE,
    operations INTEGER NOT NULL,                    -- in a group
    wall       BLOB    NOT NULL,                    -- packed u64, nanoseconds
    cpu        BLOB    NOT NULL
);

CREATE TABLE series (
    trial   INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE,
    ord     INTEGER NOT NULL,
    pid     INTEGER NOT NULL,
    role    TEXT    NOT NULL,
    command TEXT    NOT NULL,
    samples BLOB    NOT NULL,                       -- packed
    PRIMARY KEY (trial, ord)
);

-- What a search asked and concluded, in order; the first entry of a run holds its settings.
CREATE TABLE journal (
    run   INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    ord   INTEGER NOT NULL,
    entry TEXT    NOT NULL,                         -- JSON
    PRIMARY KEY (run, ord)
) WITHOUT ROWID;

-- An extra trial of a variant that counts in no figure, and what its profiler wrote.
CREATE TABLE profiles (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    variant INTEGER NOT NULL,
    record  BLOB    NOT NULL,                       -- JSON, with the whole record of the trial; DEFLATE
    UNIQUE (run, variant)
);

CREATE TABLE profile_files (
    profile INTEGER NOT NULL REFERENCES profiles ON DELETE CASCADE,
    ord     INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    format  TEXT    NOT NULL,                       -- JSON: cpu_profile, perf_script
    size    INTEGER NOT NULL,                       -- bytes of `body` as the profiler wrote it
    body    BLOB    NOT NULL,                       -- DEFLATE
    PRIMARY KEY (profile, ord)
) WITHOUT ROWID;

-- A cut of a crash trial, which counts in no figure.
CREATE TABLE cuts (
    run     INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    variant INTEGER NOT NULL,
    phase   TEXT    NOT NULL,
    cut     INTEGER NOT NULL,                       -- from 0
    record  TEXT    NOT NULL,                       -- JSON
    PRIMARY KEY (run, variant, phase, cut)
) WITHOUT ROWID;

-- For queries by hand: one row a figure, all names spelled out. Figures of trials that failed are among them, and of phases that
-- were not completed: comparisons leave out those that do not count.
CREATE VIEW figures AS
SELECT t.run, t.block, t.position, t.variant, v.levels, t.outcome,
       p.name AS phase, i.name AS instance, m.name AS metric, r.value, m.unit, NULL AS missing
FROM trials t
JOIN variants v ON v.run = t.run AND v.variant = t.variant
JOIN phases p ON p.trial = t.id
JOIN readings r ON r.phase = p.id
JOIN instances i ON i.id = r.instance
JOIN metrics m ON m.id = r.metric
UNION ALL
SELECT t.run, t.block, t.position, t.variant, v.levels, t.outcome,
       p.name, i.name, m.name, NULL, m.unit, w.name
FROM trials t
JOIN variants v ON v.run = t.run AND v.variant = t.variant
JOIN phases p ON p.trial = t.id
JOIN absences a ON a.id = p.absent
JOIN json_each(a.body) AS r
JOIN instances i ON i.id = r.value ->> 0
JOIN metrics m ON m.id = r.value ->> 1
JOIN reasons w ON w.id = r.value ->> 2;
