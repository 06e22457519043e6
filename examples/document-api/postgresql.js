// Documents as rows of PostgreSQL, with bodies as JSONB. A transaction is REPEATABLE READ, in which a concurrent change is a
// conflict, as in a transaction of MongoDB.
"use strict";

const { Pool } = require("pg");

const TABLE = `CREATE TABLE IF NOT EXISTS documents (
  id text PRIMARY KEY, uuid uuid NOT NULL, aliases text[] NOT NULL, refs text[] NOT NULL,
  body jsonb NOT NULL, locked bigint NOT NULL DEFAULT 0)`;

const INDEXES = { uuid: "(uuid)", references: "USING gin (refs)", aliases: "USING gin (aliases)" };

// A concurrent change, a deadlock, and the same new identifier twice.
const CONFLICTS = new Set(["40001", "40P01", "23505"]);

exports.open = async ({ url, pool: max, sent }) => {
  const pool = new Pool({ connectionString: url, max });

  const session = async () => {
    const client = await pool.connect();
    const run = (text, values) => {
      sent();
      return client.query(text, values);
    };
    return {
      begin: () => run("BEGIN ISOLATION LEVEL REPEATABLE READ"),
      known: async (id) => (await run("SELECT uuid FROM documents WHERE id = $1", [id])).rows[0]?.uuid,
      count: async (aliases) => (await run("SELECT id FROM documents WHERE aliases && $1::text[]", [aliases])).rowCount,
      lock: (aliases) => run("UPDATE documents SET locked = locked + 1 WHERE aliases && $1::text[]", [aliases]),
      store: (id, uuid, references, body) =>
        run(
          `INSERT INTO documents (id, uuid, aliases, refs, body) VALUES ($1, $2, ARRAY[$1], $3, $4)
           ON CONFLICT (id) DO UPDATE SET refs = excluded.refs, body = excluded.body`,
          [id, uuid, references, body],
        ),
      commit: () => run("COMMIT"),
      rollback: () => run("ROLLBACK"),
      end: () => client.release(),
    };
  };

  return {
    session,
    isConflict: (error) => CONFLICTS.has(error.code),
    ready: () => pool.query("SELECT 1"),
    byUuid: async (uuid) => (await pool.query("SELECT id, body FROM documents WHERE uuid = $1", [uuid])).rows[0],
    indexes: async () => {
      const found = await pool.query("SELECT indexname FROM pg_indexes WHERE tablename = 'documents' ORDER BY 1");
      return found.rows.map((row) => row.indexname);
    },
    prepare: async (wanted) => {
      await pool.query(TABLE);
      for (const [name, columns] of Object.entries(INDEXES)) {
        await pool.query(
          wanted.includes(name)
            ? `CREATE INDEX IF NOT EXISTS documents_${name} ON documents ${columns}`
            : `DROP INDEX IF EXISTS documents_${name}`,
        );
      }
    },
    end: () => pool.end(),
  };
};
