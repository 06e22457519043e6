// node two_puts.js DOCUMENTS     puts documents into LMDB, and the key of each under its type, 10,000 to a transaction
//
// What a site generator does with each of its nodes, and nothing beside it: no read before the put, no compression. The
// package encodes documents as MessagePack.
'use strict';

const path = require('path');
const { open } = require('lmdb');

const root = open({ path: path.join(process.env.TMPDIR || '.', 'documents.lmdb') });
const documents = root.openDB({ name: 'documents', sharedStructuresKey: Symbol.for('structures') });
const byType = root.openDB({ name: 'by type', dupSort: true, encoding: 'ordered-binary' });

async function source(count) {
  let written;
  for (let step = 0; step < count; step += 1) {
    const id = `/path/${step}/`;
    documents.put(id, { id, step, internal: { type: 'Test', contentDigest: String(step) } });
    written = byType.put('Test', id);
    if (step % 10_000 === 9_999) await written;
  }
  await written;
}

async function persist() {
  await root.flushed;
}

module.exports = { source, persist };

async function main() {
  const count = Number(process.argv[2]);
  if (!Number.isFinite(count)) throw new Error('usage: node two_puts.js DOCUMENTS');
  await module.exports.source(count);
  await module.exports.persist();
  const stored = byType.getValuesCount('Test');
  if (stored !== count) throw new Error(`${stored} keys under the type, ${count} documents`);
  await root.close();
}

// At the next turn, once the functions can be observed.
setImmediate(() => main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
}));
