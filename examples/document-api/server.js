// A small document API over PostgreSQL: documents as JSONB with an identifier, aliases and references to other documents, as the
// Ed-Fi Meadowlark API stores them in MongoDB. An upsert is one transaction:
//
//   1. BEGIN (REPEATABLE READ, in which a concurrent change is a conflict, as in a transaction of MongoDB)
//   2. read the document of this identifier
//   3. read the documents that it refers to: all must exist
//   4. with the write lock: change them, so that nobody can remove them meanwhile
//   5. insert or replace the document
//   6. COMMIT
//
// A conflict ends the transaction, and the whole of it is tried again.
//
// Environment: PORT, DATABASE_URL; POOL (connections to the database of each process, 10), PROCESSES (1),
// LOCK (`on` or `off`), ATTEMPTS (12), PAUSE (before the next attempt at random up to so many ms, twice as many after each, 2),
// INDEXES (names separated by commas; all of them by default).
"use strict";

const cluster = require("node:cluster");
const { randomUUID } = require("node:crypto");
const { Pool } = require("pg");

const number = (name, value) => Number(process.env[name] ?? value);
const PROCESSES = number("PROCESSES", 1);
const ATTEMPTS = number("ATTEMPTS", 12);
const PAUSE = number("PAUSE", 2);
const LOCK = (process.env.LOCK ?? "on") === "on";

const INDEXES = {
  uuid: "CREATE INDEX documents_uuid ON documents (uuid)",
  references: "CREATE INDEX documents_references ON documents USING gin (refs)",
  aliases: "CREATE INDEX documents_aliases ON documents USING gin (aliases)",
};

const TABLE = `CREATE TABLE IF NOT EXISTS documents (
  id text PRIMARY KEY, uuid uuid NOT NULL, aliases text[] NOT NULL, refs text[] NOT NULL,
  body jsonb NOT NULL, locked bigint NOT NULL DEFAULT 0)`;

// What this process has done: every statement that was sent, also one that failed.
const counts = { db_statements_total: 0, db_conflicts_total: 0, db_retries_total: 0, db_given_up_total: 0 };

// Conflicts that are worth another attempt: a concurrent change, a deadlock, and the same new identifier twice.
const CONFLICTS = new Set(["40001", "40P01", "23505"]);

class Refused extends Error {}

function databases() {
  return new Pool({ connectionString: process.env.DATABASE_URL, max: number("POOL", 10) });
}

async function upsert(pool, document) {
  const client = await pool.connect();
  const run = (text, values) => {
    counts.db_statements_total += 1;
    return client.query(text, values);
  };
  try {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await once(run, document);
      } catch (error) {
        await run("ROLLBACK");
        if (!CONFLICTS.has(error.code)) throw error;
        counts.db_conflicts_total += 1;
        if (attempt === ATTEMPTS) {
          counts.db_given_up_total += 1;
          throw error;
        }
        counts.db_retries_total += 1;
        await new Promise((resolve) => setTimeout(resolve, Math.random() * PAUSE * 2 ** attempt));
      }
    }
  } finally {
    client.release();
  }
}

async function once(run, { id, references = [], ...body }) {
  await run("BEGIN ISOLATION LEVEL REPEATABLE READ");
  const known = (await run("SELECT uuid FROM documents WHERE id = $1", [id])).rows[0];
  const found = await run("SELECT id FROM documents WHERE aliases && $1::text[]", [references]);
  if (found.rowCount < new Set(references).size) throw new Refused("a referenced document does not exist");
  if (LOCK && references.length > 0) {
    await run("UPDATE documents SET locked = locked + 1 WHERE aliases && $1::text[]", [references]);
  }
  const uuid = known?.uuid ?? randomUUID();
  await run(
    `INSERT INTO documents (id, uuid, aliases, refs, body) VALUES ($1, $2, ARRAY[$1], $3, $4)
     ON CONFLICT (id) DO UPDATE SET refs = excluded.refs, body = excluded.body`,
    [id, uuid, references, body],
  );
  await run("COMMIT");
  return { uuid, isNew: known === undefined };
}

// The counts of all processes, each asked at this moment.
let waiting = [];
function totals() {
  if (!cluster.isWorker) return Promise.resolve(counts);
  return new Promise((resolve) => {
    waiting.push(resolve);
    process.send({ ask: true });
  });
}

function page(all) {
  const lines = Object.entries(all).map(([name, value]) => `# TYPE ${name} counter\n${name} ${value}\n`);
  return `${lines.join("")}process_start_time_seconds ${Math.round(performance.timeOrigin / 1000)}\n`;
}

async function serve() {
  const pool = databases();
  const app = require("fastify")();
  app.get("/health", async () => ((await pool.query("SELECT 1")).rowCount === 1 ? "ready" : "not ready"));
  app.get("/metrics", async (_, reply) => reply.type("text/plain; version=0.0.4").send(page(await totals())));
  app.get("/indexes", async () => {
    const found = await pool.query("SELECT indexname FROM pg_indexes WHERE tablename = 'documents' ORDER BY 1");
    return found.rows.map((row) => row.indexname);
  });
  app.get("/documents/:uuid", async (request, reply) => {
    const found = await pool.query("SELECT id, body FROM documents WHERE uuid = $1", [request.params.uuid]);
    return found.rows[0] ?? reply.code(404).send();
  });
  app.post("/documents", async (request, reply) => {
    try {
      const { uuid, isNew } = await upsert(pool, request.body);
      return reply.code(isNew ? 201 : 200).header("location", `/documents/${uuid}`).send();
    } catch (error) {
      if (error instanceof Refused) return reply.code(409).send({ error: error.message });
      if (CONFLICTS.has(error.code)) return reply.code(503).send({ error: "too many conflicts" });
      throw error;
    }
  });
  process.on("message", ({ report, all }) => {
    if (report) process.send({ counts });
    if (all) waiting.splice(0).forEach((resolve) => resolve(all));
  });
  await app.listen({ port: number("PORT", 8080), host: "127.0.0.1" });
}

async function prepare() {
  const pool = databases();
  await pool.query(TABLE);
  const wanted = process.env.INDEXES === undefined ? Object.keys(INDEXES) : process.env.INDEXES.split(",").filter(Boolean);
  for (const name of wanted) await pool.query(INDEXES[name].replace("INDEX", "INDEX IF NOT EXISTS"));
  await pool.end();
}

function lead() {
  for (let process = 0; process < PROCESSES; process += 1) cluster.fork();
  let round = null;
  const workers = () => Object.values(cluster.workers);
  cluster.on("message", (worker, { ask, counts: own }) => {
    if (ask) {
      // A second question in a round is answered by the next one.
      if (round) return round.next.push(worker);
      round = { asked: [worker], next: [], left: workers().length, all: {} };
      workers().forEach((one) => one.send({ report: true }));
    } else if (round) {
      for (const [name, value] of Object.entries(own)) round.all[name] = (round.all[name] ?? 0) + value;
      round.left -= 1;
      if (round.left === 0) {
        const { asked, next, all } = round;
        round = null;
        asked.forEach((one) => one.send({ all }));
        next.forEach((one) => cluster.emit("message", one, { ask: true }));
      }
    }
  });
  cluster.on("exit", (_, code) => process.exit(code || 1));
  process.on("SIGTERM", () => process.exit(0));
}

(async () => {
  if (cluster.isPrimary) await prepare();
  if (cluster.isPrimary && PROCESSES > 1) lead();
  else await serve();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
