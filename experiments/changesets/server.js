// A small map server that answers an upload before its index is built, or after that. How much work the index takes is known:
// a step of 20 ms for each 50 elements, with pauses of 5 ms between steps where nobody waits for them.
const http = require('http');
const fs = require('fs');

const [port, data, mode] = process.argv.slice(2);
const STEP = 50;
const pending = [];
const index = new Map();
let building = false;

function burn (ms) {
  const until = process.hrtime.bigint() + BigInt(ms) * 1000000n;
  while (process.hrtime.bigint() < until);
}

function build () {
  const batch = pending.splice(0, STEP);
  if (batch.length === 0) { building = false; return; }
  building = true;
  burn(20);
  for (const element of batch) index.set(element.id, element);
  fs.appendFileSync(data + '/index', batch.map((element) => JSON.stringify(element)).join('\n') + '\n');
  setTimeout(build, 5);
}

http.createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    if (request.method === 'PUT') return response.end('17');
    if (request.method === 'GET') return response.end(String(index.size));
    const count = Number(Buffer.concat(parts).toString().split('=')[1]);
    for (let id = 0; id < count; id++) pending.push({ id: index.size + id });
    if (mode === 'before') {
      // The answer waits for the index.
      while (pending.length > 0) build();
    } else if (!building) {
      setTimeout(build, 5);
    }
    response.end(String(count));
  });
}).listen(+port, '127.0.0.1');
