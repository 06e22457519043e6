// Documents in a collection of MongoDB. Transactions need MongoDB 4.0 or newer and a replica set; with `transactions: false` the same
// commands run without one: each of them is atomic, all of them are not, and only two requests that create one document conflict.
"use strict";

const { MongoClient } = require("mongodb");

const INDEXES = { uuid: { uuid: 1 }, references: { refs: 1 }, aliases: { aliases: 1 } };

// The first version of the protocol with transactions, that of MongoDB 4.0.
const WITH_TRANSACTIONS = 7;
const DUPLICATE_KEY = 11000;

exports.open = async ({ url, pool, sent, transactions }) => {
  // Reads and writes are not retried by the driver, which nobody would count; a commit may be, once, after an error of the network.
  const client = await new MongoClient(url, { maxPoolSize: pool, retryWrites: false, retryReads: false }).connect();
  const documents = client.db().collection("documents");
  const server = await client.db("admin").command({ isMaster: 1 });
  const isSet = server.setName !== undefined || server.msg === "isdbgrid";
  if (transactions && !(isSet && server.maxWireVersion >= WITH_TRANSACTIONS)) {
    throw new Error("this server has no transactions, which need a replica set of MongoDB 4.0 or newer: set TRANSACTIONS=off");
  }

  const session = async () => {
    const session = transactions ? client.startSession() : undefined;
    const run = (command) => {
      sent();
      return command;
    };
    return {
      // The first command of a transaction begins it: this sends nothing.
      begin: async () => session?.startTransaction({ readConcern: { level: "snapshot" }, writeConcern: { w: "majority" } }),
      known: async (id) => (await run(documents.findOne({ _id: id }, { session, projection: { uuid: 1 } })))?.uuid,
      count: async (aliases) =>
        (await run(documents.find({ aliases: { $in: aliases } }, { session, projection: { _id: 1 } }).toArray())).length,
      lock: (aliases) => run(documents.updateMany({ aliases: { $in: aliases } }, { $inc: { locked: 1 } }, { session })),
      store: (_id, uuid, refs, body) =>
        run(
          documents.updateOne(
            { _id },
            { $set: { refs, body }, $setOnInsert: { uuid, aliases: [_id], locked: 0 } },
            { session, upsert: true },
          ),
        ),
      commit: async () => session && run(session.commitTransaction()),
      rollback: async () => session?.inTransaction() && run(session.abortTransaction()),
      end: () => session?.endSession(),
    };
  };

  return {
    session,
    isConflict: (error) => error.code === DUPLICATE_KEY || Boolean(error.hasErrorLabel?.("TransientTransactionError")),
    ready: () => client.db("admin").command({ ping: 1 }),
    byUuid: async (uuid) => {
      const found = await documents.findOne({ uuid }, { projection: { body: 1 } });
      return found && { id: found._id, body: found.body };
    },
    indexes: async () => (await documents.indexes()).map((index) => index.name).sort(),
    prepare: async (wanted) => {
      // A transaction could not make it in MongoDB 4.2 and older.
      const exists = (await client.db().listCollections({ name: "documents" }).toArray()).length === 1;
      if (!exists) await client.db().createCollection("documents");
      const there = await documents.indexes();
      for (const [field, keys] of Object.entries(INDEXES)) {
        const name = `documents_${field}`;
        if (wanted.includes(field)) await documents.createIndex(keys, { name });
        else if (there.some((index) => index.name === name)) await documents.dropIndex(name);
      }
    },
    end: () => client.close(),
  };
};
