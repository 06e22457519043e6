-- Schema 3. Profiles: an extra trial of a variant that counts in no figure, and what its profiler wrote.

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
