// A small document API: documents with an identifier, aliases and references to other documents, as the Ed-Fi Meadowlark API stores
// them in MongoDB. It stores them in PostgreSQL or in MongoDB, as the scheme of DATABASE_URL says. An upsert is one transaction:
//
//   1. begin
//   2. read the document of this identifier
//   3. read the documents that it refers to: all must exist
//   4. with the write lock: change them, so that nobody can remove them meanwhile
//   5. insert or replace the document
//   6. commit
//
// Each is one command, but that MongoDB needs none to begin. A conflict ends the transaction, and the whole of it is tried again.
//
// Environment: PORT, DATABASE_URL; POOL (connections to the database of each process, 10), PROCESSES (1),
// LOCK (`on` or `off`), ATTEMPTS (12), PAUSE (before the next attempt at random up to so many ms, twice as many after each, 2),
// INDEXES (of `uuid`, `references` and `aliases` those that the store has, separated by commas; all of them by default),
// TRANSACTIONS (`on` or `off`, of MongoDB).
"use strict";

const cluster = require("node:cluster");
const { randomUUID } = require("node:crypto");

const number = (name, value) => Number(process.env[name] ?? value);
const PROCESSES = number("PROCESSES", 1);
const ATTEMPTS = number("ATTEMPTS", 12);
const PAUSE = number("PAUSE", 2);
const NAMES = ["uuid", "references", "aliases"];
const LOCK = (process.env.LOCK ?? "on") === "on";

// What this process has done: every command that was sent, also one that failed.
const counts = { db_statements_total: 0, db_conflicts_total: 0, db_retries_total: 0, db_given_up_total: 0 };

class Refused extends Error {}

function open() {
  const url = process.env.DATABASE_URL;
  const kind = /^mongodb(\+srv)?:/.test(url) ? "./mongodb.js" : "./postgresql.js";
  const sent = () => {
    counts.db_statements_total += 1;
  };
  return require(kind).open({ url, pool: number("POOL", 10), sent, transactions: process.env.TRANSACTIONS !== "off" });
}

async function upsert(store, document) {
  const session = await store.session();
  try {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await once(session, document);
      } catch (error) {
        await session.rollback();
        if (!store.isConflict(error)) throw error;
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
    await session.end();
  }
}

async function once(session, { id, references = [], ...body }) {
  await session.begin();
  const known = await session.known(id);
  if ((await session.count(references)) < new Set(references).size) {
    throw new Refused("a referenced document does not exist");
  }
  if (LOCK && references.length > 0) await session.lock(references);
  const uuid = known ?? randomUUID();
  await session.store(id, uuid, references, body);
  await session.commit();
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
  const store = await open();
  const app = require("fastify")();
  app.get("/health", async () => {
    await store.ready();
    return "ready";
  });
  app.get("/metrics", async (_, reply) => reply.type("text/plain; version=0.0.4").send(page(await totals())));
  app.get("/indexes", () => store.indexes());
  app.get("/documents/:uuid", async (request, reply) => (await store.byUuid(request.params.uuid)) ?? reply.code(404).send());
  app.post("/documents", async (request, reply) => {
    try {
      const { uuid, isNew } = await upsert(store, request.body);
      return reply.code(isNew ? 201 : 200).header("location", `/documents/${uuid}`).send();
    } catch (error) {
      if (error instanceof Refused) return reply.code(409).send({ error: error.message });
      if (store.isConflict(error)) return reply.code(503).send({ error: "too many conflicts" });
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
  const store = await open();
  const wanted = process.env.INDEXES?.split(",").filter(Boolean) ?? NAMES;
  const unknown = wanted.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`INDEXES: ${unknown} is none of ${NAMES.join(", ")}`);
  await store.prepare(wanted);
  await store.end();
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
