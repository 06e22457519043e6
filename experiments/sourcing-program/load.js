// node load.js NODES TEXT     stores the nodes in LMDB in the directory for temporary files, says so, and waits
'use strict';

const nodes = require('./nodes.js');

async function main() {
  const [count, text] = process.argv.slice(2).map(Number);
  if (!Number.isFinite(text)) throw new Error('usage: node load.js NODES TEXT');
  const store = nodes.open('lmdb', process.env.TMPDIR || '.');
  await nodes.sourceNodes(store, { nodes: count, text, chunk: 10_000, awaits: true });
  await nodes.persist(store);
  console.log('ready');
  setInterval(() => {}, 60_000);
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
