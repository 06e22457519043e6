// node main.js NODES TEXT CHUNK PAUSE     with STORE=heap or STORE=lmdb in the environment; AWAIT=1 waits for each chunk
// to be written instead of pausing
'use strict';

const fs = require('fs');
const nodes = require('./nodes.js');

// Times of marks are CLOCK_MONOTONIC, as hrtime is. Outside of prony nobody reads them.
const mark = (name, boundary) => {
  const line = `{"mark":"${name}","boundary":"${boundary}","at":${process.hrtime.bigint()}}\n`;
  if (process.env.PRONY_MARKS) fs.appendFileSync(process.env.PRONY_MARKS, line);
};

async function main() {
  const [count, text, chunk, pause] = process.argv.slice(2).map(Number);
  if (!Number.isFinite(pause)) throw new Error('usage: node main.js NODES TEXT CHUNK PAUSE');
  const folder = process.env.TMPDIR || '.';
  const store = nodes.open(process.env.STORE, folder);
  await nodes.store(store, { nodes: count, text, chunk, pause, awaits: process.env.AWAIT === '1' });
  mark('check', 'begin');
  const { rows, digest, ofType } = nodes.check(store);
  if (ofType !== rows || rows !== count) throw new Error(`${rows} nodes, ${ofType} of the type, ${count} created`);
  console.log(`rows ${rows} digest ${digest}`);
  mark('check', 'end');
  await store.close();
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
