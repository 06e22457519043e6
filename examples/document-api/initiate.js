// Makes a server of MongoDB on this machine a replica set of one: `node initiate.js PORT`. Transactions need one.
"use strict";

const { MongoClient } = require("mongodb");

(async () => {
  const host = `127.0.0.1:${process.argv[2]}`;
  const client = await new MongoClient(`mongodb://${host}/?directConnection=true`).connect();
  const admin = client.db("admin");
  await admin.command({ replSetInitiate: { _id: "set", members: [{ _id: 0, host }] } });
  while (!(await admin.command({ isMaster: 1 })).ismaster) await new Promise((resolve) => setTimeout(resolve, 100));
  await client.close();
})().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
