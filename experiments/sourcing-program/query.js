// node query.js NODES PASSES     answers one page in WORKERS, from WORKER - 1 on: each reads the node of its page
'use strict';

const path = require('path');
const { open } = require('lmdb');

const [count, passes] = process.argv.slice(2).map(Number);
const [worker, workers] = [process.env.WORKER, process.env.WORKERS].map(Number);
if (![count, passes, worker, workers].every(Number.isFinite)) throw new Error('usage: WORKER=1 WORKERS=3 node query.js NODES PASSES');

const root = open({ path: path.join(process.env.TMPDIR || '.', 'nodes.lmdb'), compression: true, readOnly: true });
const nodes = root.openDB({ name: 'nodes', sharedStructuresKey: Symbol.for('structures') });
const began = process.hrtime.bigint();
let [pages, rows] = [0, 0];
for (let pass = 0; pass < passes; pass += 1) {
  for (let step = worker - 1; step < count; step += workers) {
    const node = nodes.get(`/path/${step}/`);
    pages += 1;
    if (node !== undefined && node.step === step) rows += 1;
  }
}
const seconds = Number(process.hrtime.bigint() - began) / 1e9;
console.log(`queries ${seconds.toFixed(6)} s - ${pages} pages, ${rows} rows`);
// Long enough for its memory to be read while it still has the store open; part of its wall time, not of `time`.
setTimeout(() => root.close(), 100);
