PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1886547822;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE effective (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    hash INTEGER NOT NULL,
    body TEXT    NOT NULL                           -- JSON
);
INSERT INTO "effective" VALUES(1,1,8428802513260513074,'{"engine":"memory","version":"1","durability":"volatile","settings":{}}');
CREATE TABLE findings (
    trial    INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE,
    ord      INTEGER NOT NULL,
    guard    TEXT    NOT NULL,
    severity TEXT    NOT NULL,                      -- JSON
    phase    TEXT,
    message  TEXT    NOT NULL,
    hint     TEXT    NOT NULL,
    data     TEXT    NOT NULL,                      -- JSON
    PRIMARY KEY (trial, ord)
);
INSERT INTO "findings" VALUES(1,0,'swapped','"warning"','write','2 MB were swapped out','free memory','{"bytes":2000000}');
CREATE TABLE groups (
    phase      INTEGER PRIMARY KEY REFERENCES phases ON DELETE CASCADE,
    operations INTEGER NOT NULL,                    -- in a group
    wall       BLOB    NOT NULL,                    -- packed u64, nanoseconds
    cpu        BLOB    NOT NULL
);
INSERT INTO "groups" VALUES(1,10,X'63E6FAC7DBC80700',X'636664620200');
CREATE TABLE histograms (
    phase     INTEGER NOT NULL REFERENCES phases ON DELETE CASCADE,
    ord       INTEGER NOT NULL,
    operation TEXT    NOT NULL,
    kind      TEXT    NOT NULL,                     -- JSON
    failed    INTEGER NOT NULL,
    v2        BLOB    NOT NULL,                     -- HdrHistogram V2, nanoseconds
    PRIMARY KEY (phase, ord)
);
INSERT INTO "histograms" VALUES(1,0,'put','"service"',2,X'00FF07');
CREATE TABLE instances (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO "instances" VALUES(1,'');
INSERT INTO "instances" VALUES(2,'worker.1');
CREATE TABLE metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL);
INSERT INTO "metrics" VALUES(1,'time','nanos');
INSERT INTO "metrics" VALUES(2,'rate','per_second');
INSERT INTO "metrics" VALUES(3,'rss.peak','bytes');
INSERT INTO "metrics" VALUES(4,'fsyncs','count');
INSERT INTO "metrics" VALUES(5,'cpu','nanos');
CREATE TABLE phases (
    id                   INTEGER PRIMARY KEY,
    trial                INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE,
    ord                  INTEGER NOT NULL,
    name                 TEXT    NOT NULL,
    action               TEXT    NOT NULL,
    timed                INTEGER NOT NULL,
    completion           TEXT    NOT NULL,          -- JSON
    begin_at             INTEGER,
    end_at               INTEGER,
    answer               TEXT,                      -- JSON: rows, digest, comparable
    errors               TEXT    NOT NULL,          -- JSON: text -> count
    throughput_interval  INTEGER,
    throughput           BLOB                       -- packed u64
);
INSERT INTO "phases" VALUES(1,1,0,'write','put',1,'"complete"',1000000000,2000000000,'{"rows":7,"digest":"00ff","comparable":true}','{"map full":4}',100000000,X'636160ECE06BE50300');
INSERT INTO "phases" VALUES(2,1,1,'read','put',1,'"not_reached"',NULL,NULL,NULL,'{}',NULL,NULL);
CREATE TABLE readings (
    phase    INTEGER NOT NULL REFERENCES phases ON DELETE CASCADE,
    instance INTEGER NOT NULL REFERENCES instances,
    metric   INTEGER NOT NULL REFERENCES metrics,
    value    REAL,                                  -- in the metric's unit; NULL where missing
    missing  INTEGER REFERENCES reasons,
    PRIMARY KEY (phase, instance, metric),
    CHECK ((value IS NULL) <> (missing IS NULL))
) WITHOUT ROWID;
INSERT INTO "readings" VALUES(1,1,1,1500000000.0,NULL);
INSERT INTO "readings" VALUES(1,1,2,12.25,NULL);
INSERT INTO "readings" VALUES(1,1,3,300000000.0,NULL);
INSERT INTO "readings" VALUES(1,1,4,NULL,1);
INSERT INTO "readings" VALUES(1,2,5,NULL,2);
CREATE TABLE reasons (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO "reasons" VALUES(1,'{"not_permitted":"no tracefs"}');
INSERT INTO "reasons" VALUES(2,'{"too_few":{"have":3,"need":10}}');
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
    planned         INTEGER NOT NULL                -- trials
);
INSERT INTO "runs" VALUES(1,'Two','[experiment]
title = "Two"
','{"title":"Two","source":"[experiment]\ntitle = \"Two\"\n","seed":42,"factors":[{"name":"engine","levels":[{"label":"a","value":"a","number":null},{"label":"b","value":"b","number":null}]}],"variants":[{"id":0,"levels":[0],"spec":{"subject":{"store":{"engine":"memory","durability":null,"options":{}}},"data":null,"phases":[{"name":"write","timed":true,"action":{"pause":0},"limit":null}],"limits":{"memory":null,"cpus":null,"pids":null,"trial":null,"phase":null}},"stratum":0,"baseline":false,"blocks":{"min":3,"max":3}},{"id":1,"levels":[1],"spec":{"subject":{"store":{"engine":"memory","durability":null,"options":{}}},"data":null,"phases":[{"name":"write","timed":true,"action":{"pause":0},"limit":null}],"limits":{"memory":null,"cpus":null,"pids":null,"trial":null,"phase":null}},"stratum":0,"baseline":false,"blocks":{"min":3,"max":3}}],"compare":{"baseline":{},"primary":null,"metrics":[],"margin":0.03,"alpha":0.05,"blocks":{"min":3,"max":3},"twice":false},"observe":{"hertz":10,"throughput":100000000},"tables":[]}','ef6b4f4aaacc0c601a2e748a41e098ec',42,'{"cores":2}','null','0.1.0',1795176000000,NULL,'unfinished',6);
CREATE TABLE series (
    trial   INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE,
    ord     INTEGER NOT NULL,
    pid     INTEGER NOT NULL,
    role    TEXT    NOT NULL,
    command TEXT    NOT NULL,
    samples BLOB    NOT NULL,                       -- packed
    PRIMARY KEY (trial, ord)
);
INSERT INTO "series" VALUES(1,0,0,'worker','prony',X'CD526D4B530114BE57B2F748AA0F462A26635B638A2F25044106451FFA2C6EF7CE0EF4B11F50047D3890D6D03567099A8E6D9109E9B67B756A66E6BDBE24B24A2759841B38978E399C0B5F694AA7ABBFC00F113EE739070EE7F0F07038DA9AAEF4318B071C8D0244AC6EE8DB16C132E785586327F857DC30DD2BC24A8F001BE60E783C2782774A045B9308A95F6EF00705E8ADF6C24C4200B3E806BBD507A178070CAF7A203AE503734C8089310FB42D7A211A17A07FDB03B1652F7C7E2242D7272F4CD78B10920418FDD00E35AE4E18FFE201EB5C173CB37B61292940D8ED0586C1F678F97E4DC5DDCCE891FD9ADF6D2D0752EE5A634D30C84DD4BE3134FDB49A22BE4E2ED5D06A7298370D0ED70F7EEDEB2AB73422573408BFF9196B82B777CBBC3FBA6E88D5D6F36D0B8BC6E6974EDEFF74C4B0F66DBE727CDD621888068DF3FD2F6E77279A794BA8CF188ABDE5A6FFD8F9E68588315237C0B50DFAF8F83B17B7E17ECFB7766C7181C9EA8AD044BB69F9F9A051EC19AA9CFFB865746CBAF8E12133971638F92F036D3D25347B0F5D47A8CEC7A2EB3ECD66A058C592F3118BE172C44C925659B4DDC5C01DB4DDA4BA2AA5D1D1EC150C1793F395B29362491A6549B881B69634C4424A72943C8E62115119398FA2EB2A39CF215EC74016498D69289A599AAC405C60295984E1124A5E503E02D3FF3F190D2A38CCA819CD6E51DC1F5448D221944F202AED59A20CE50488C7882EA37C7E87984BA445F93449A750CE26E916CA0F493291A441F9358BB28EA46292D251CE27CADF51948B76152FA1AC254AB0880F482A4339C8EECEAF9194CD3067F606469391A7CD2D5017E61668B30AF4FA3C9D4A9F539AA32AD5E769752AAD5EADD76516AA2EAAF46A8649DB1BFE02');
INSERT INTO "series" VALUES(1,1,1,'worker','prony',X'0161009EFF039E61CEF0B05FF6B1AD5F000080AAEA5580AAEA55000080DAC40980DAC409B8FC4B92C3855CC2C8A859000280D0983180C071FFDF640000808005808005000280808080080001000208000100020280C004FF3F000014140002022E2200000202');
CREATE TABLE trials (
    id              INTEGER PRIMARY KEY,
    run             INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    position        INTEGER NOT NULL,
    block           INTEGER NOT NULL,
    sub_block       INTEGER NOT NULL,
    variant         INTEGER NOT NULL,
    label           TEXT    NOT NULL,               -- JSON
    seed            INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    took            INTEGER NOT NULL,
    outcome         TEXT    NOT NULL,               -- the name, for queries by hand
    ending          TEXT    NOT NULL,               -- JSON: outcome, phase, after, evidence
    effective       INTEGER NOT NULL REFERENCES effective,
    conditions      TEXT    NOT NULL,               -- JSON
    sampler_cpu     TEXT    NOT NULL                -- JSON: a reading
);
INSERT INTO "trials" VALUES(1,1,0,0,0,0,'"a2"',-1,1795176000000,900000000,'ok','{"outcome":{"kind":"ok"},"phase":null,"after":900000000,"evidence":["oom_kill rose by 1","so 💥"]}',1,'{"load":0.5}','{"measured":300000}');
CREATE TABLE variants (
    run      INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    variant  INTEGER NOT NULL,
    levels   TEXT    NOT NULL,                      -- JSON: factor -> label
    stratum  INTEGER NOT NULL,
    baseline INTEGER NOT NULL,
    PRIMARY KEY (run, variant)
) WITHOUT ROWID;
INSERT INTO "variants" VALUES(1,0,'{"engine":"a"}',0,0);
INSERT INTO "variants" VALUES(1,1,'{"engine":"b"}',0,0);
CREATE INDEX effective_by_hash ON effective (run, hash);
CREATE UNIQUE INDEX trials_by_position ON trials (run, position);
CREATE INDEX trials_by_effective ON trials (effective);
CREATE UNIQUE INDEX phases_by_order ON phases (trial, ord);
CREATE VIEW figures AS
SELECT t.run, t.block, t.position, t.variant, v.levels, t.outcome,
       p.name AS phase, i.name AS instance, m.name AS metric, r.value, m.unit, w.name AS missing
FROM trials t
JOIN variants v ON v.run = t.run AND v.variant = t.variant
JOIN phases p ON p.trial = t.id
JOIN readings r ON r.phase = p.id
JOIN instances i ON i.id = r.instance
JOIN metrics m ON m.id = r.metric
LEFT JOIN reasons w ON w.id = r.missing;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('runs',1);
COMMIT;
