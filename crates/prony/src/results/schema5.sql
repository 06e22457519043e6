-- Schema 5. Figures that are missing, with their reasons, are mostly the same from trial to trial: each set of them is kept
-- once a run. `readings` has what was measured, and in runs of earlier schemas also what was missing.

CREATE TABLE absences (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    hash INTEGER NOT NULL,
    body TEXT    NOT NULL                           -- JSON: [[instance, metric, reason], ...]
);
CREATE INDEX absences_by_hash ON absences (run, hash);

-- Of `absences`. Both go with their run; a reference would need an index that is written with every phase.
ALTER TABLE phases ADD COLUMN absent INTEGER;

DROP VIEW figures;
CREATE VIEW figures AS
SELECT t.run, t.block, t.position, t.variant, v.levels, t.outcome,
       p.name AS phase, i.name AS instance, m.name AS metric, r.value, m.unit, w.name AS missing
FROM trials t
JOIN variants v ON v.run = t.run AND v.variant = t.variant
JOIN phases p ON p.trial = t.id
JOIN readings r ON r.phase = p.id
JOIN instances i ON i.id = r.instance
JOIN metrics m ON m.id = r.metric
LEFT JOIN reasons w ON w.id = r.missing
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
