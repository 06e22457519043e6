// osm-p2p-server as its `bin/cmd.js` starts it, with the stores that its benchmark of 2017 put into that file by hand.
//
//   node server.js PORT DATA STORES    STORES: disk, memory (both LevelDBs), chunks (the chunk store in memory)
'use strict';

const http = require('http');
const path = require('path');
const fdstore = require('fd-chunk-store');
const hyperlog = require('hyperlog');
const leveldown = require('leveldown');
const levelup = require('levelup');
const memdb = require('memdb');
const memstore = require('memory-chunk-store');
const osmp2p = require('osm-p2p');
const osmdb = require('osm-p2p-db');
const router = require('osm-p2p-server');

const CHUNK = 4096;
const [port, data, stores] = process.argv.slice(2);
const level = (name) => levelup(path.join(data, name), { db: leveldown });
// A chunk that was never written is empty, as it is in a file: this is what kdb-tree-store asks for first.
const inMemory = () => {
  const store = memstore(CHUNK);
  const get = store.get;
  store.get = (index, options, done) => {
    if (!done) [options, done] = [undefined, options];
    get.call(store, index, options, (error, chunk) => error ? done(null, Buffer.alloc(0)) : done(null, chunk));
  };
  return store;
};
const log = (db) => hyperlog(db, { valueEncoding: 'json' });

const open = {
  disk: () => osmp2p(data),
  memory: () => osmdb({ log: log(memdb()), db: memdb(), store: fdstore(CHUNK, path.join(data, 'kdb')) }),
  chunks: () => osmdb({ log: log(level('log')), db: level('index'), store: inMemory() })
};
if (!open[stores]) throw new Error('no such stores: ' + stores);

const routes = router(open[stores]());
const server = http.createServer((request, response) => {
  if (routes.handle(request, response)) return;
  if (request.url === '/') return response.end('ready\n');
  response.statusCode = 404;
  response.end('not found\n');
});
// Node 8 ends a connection on which nothing came or went for 2 min: an upload that takes longer would have no answer.
server.timeout = 0;
server.listen(Number(port), '127.0.0.1');
