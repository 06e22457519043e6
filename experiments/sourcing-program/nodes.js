// Two stores of nodes, and what is done with them: each an exported function, so that it can be observed as a phase.
//
// What a site generator does with each node it creates: a read that misses, a put of the node, a put of its id under its
// type. Nobody waits for a put: they are awaited where the state is persisted.
'use strict';

const fs = require('fs');
const path = require('path');
const v8 = require('v8');
const zlib = require('zlib');

// The heap: saved at the end, in pieces that a buffer can hold.
class HeapStore {
  constructor(folder) {
    this.folder = folder;
    this.nodes = new Map();
    this.byType = new Map();
  }

  create(node) {
    if (this.nodes.has(node.id)) return;
    this.nodes.set(node.id, node);
    let ids = this.byType.get(node.internal.type);
    if (!ids) this.byType.set(node.internal.type, (ids = new Set()));
    ids.add(node.id);
  }

  async written() {}

  async persist() {
    const all = [...this.nodes];
    const one = all.length ? v8.serialize(all[0]).length : 1;
    const most = Math.max(1, Math.floor(1.5e9 / one));
    for (let from = 0, part = 0; from < all.length; from += most, part += 1) {
      const file = fs.openSync(path.join(this.folder, `nodes-${part}.state`), 'w');
      fs.writeFileSync(file, v8.serialize(new Map(all.slice(from, from + most))));
      fs.fsyncSync(file);
      fs.closeSync(file);
    }
  }

  values() {
    return this.nodes.values();
  }

  count(type) {
    return this.byType.get(type)?.size ?? 0;
  }

  async close() {}
}

// LMDB as the npm package offers it: msgpack with shared structures, LZ4, ids by type under duplicate keys.
class LmdbStore {
  constructor(folder) {
    const { open } = require('lmdb');
    this.root = open({ path: path.join(folder, 'nodes.lmdb'), compression: true });
    this.nodes = this.root.openDB({ name: 'nodes', sharedStructuresKey: Symbol.for('structures') });
    this.byType = this.root.openDB({ name: 'nodesByType', dupSort: true, encoding: 'ordered-binary' });
  }

  create(node) {
    if (this.nodes.get(node.id) !== undefined) return;
    this.nodes.put(node.id, node);
    this.last = this.byType.put(node.internal.type, node.id);
  }

  // When everything that was put is in a transaction that has ended.
  async written() {
    await this.last;
  }

  async persist() {
    await this.last;
    await this.root.flushed;
  }

  * values() {
    for (const { key, value } of this.nodes.getRange()) if (typeof key === 'string') yield value;
  }

  count(type) {
    return this.byType.getValuesCount(type);
  }

  close() {
    return this.root.close();
  }
}

// Text that no two nodes share in memory, and that a compressor halves or better.
function texts(bytes) {
  if (bytes === 0) return () => undefined;
  const words = ['sed', 'ut', 'perspiciatis', 'unde', 'omnis', 'iste', 'natus', 'error', 'sit', 'voluptatem', 'rem', 'quia'];
  let state = 1;
  let pool = '';
  while (pool.length < bytes + 65536) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    pool += `${words[state % words.length]}${state % 7 === 0 ? state : ''} `;
  }
  const buffer = Buffer.from(pool, 'latin1');
  return (step) => {
    const from = Math.imul(step, 40503) & 0xffff;
    return buffer.toString('latin1', from, from + bytes);
  };
}

// Creates every node, and lets the event loop turn after each chunk; or waits until the chunk is written.
async function sourceNodes(store, { nodes, text, chunk, pause, awaits }) {
  const textOf = texts(text);
  for (let step = 0; step < nodes; step += 1) {
    const node = { id: `/path/${step}/`, step, internal: { type: 'Test', contentDigest: String(step) } };
    const body = textOf(step);
    if (body !== undefined) node.text = body;
    store.create(node);
    if (step % chunk === chunk - 1) await (awaits ? store.written() : new Promise((resolve) => setTimeout(resolve, pause)));
  }
}

// What was created is on the disk when this ends.
async function persist(store) {
  await store.persist();
}

// Both. By way of the exports, so that the parts can be observed here too.
async function store(into, options) {
  await module.exports.sourceNodes(into, options);
  await module.exports.persist(into);
}

// Everything that is stored, as a sum that knows no order.
function check(store) {
  let rows = 0;
  let sum = 0;
  for (const node of store.values()) {
    rows += 1;
    sum += zlib.crc32(JSON.stringify([node.id, node.step, node.internal.type, node.internal.contentDigest, node.text]));
  }
  return { rows, digest: sum.toString(16), ofType: store.count('Test') };
}

const open = (name, folder) => (name === 'lmdb' ? new LmdbStore(folder) : new HeapStore(folder));

module.exports = { open, sourceNodes, persist, store, check };
