-- Schema 4: where scratch was asked to be, so that a resumed run goes on there.

ALTER TABLE runs ADD COLUMN scratch TEXT;               -- an absolute path; null beside the database
