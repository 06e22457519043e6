// A file of map changes through a streaming XML parser: once for the time, once more to digest what it said.
//
//   node parse.js PARSER FILE      PARSER is a folder of node_modules: sax, htmlparser2, sax-2017, htmlparser2-2017
//
// Both parsers read strict XML, decode entities, and hand over each element with all of its attributes. Written so that
// Node 6 runs it too.
'use strict';

const { createHash } = require('crypto');
const { appendFileSync, createReadStream } = require('fs');

const name = process.argv[2];
const file = process.argv[3];
const library = require(name);
const marks = process.env.PRONY_MARKS;

// The pause after a phase's begin, in which prony reads its counters; `wall` includes the pause, `time` does not.
const REST = marks ? 100 : 0;

// CLOCK_MONOTONIC in nanoseconds; as text, for they are more than a number holds.
function now() {
  const [seconds, nanos] = process.hrtime();
  return `${seconds}${`00000000${nanos}`.slice(-9)}`;
}

function mark(phase, boundary, at) {
  if (marks) appendFileSync(marks, `{"mark":"${phase}","boundary":"${boundary}","at":${at}}\n`);
}

function sax(open, close) {
  const parser = library.parser(true);
  parser.onopentag = (tag) => open(tag.name, tag.attributes);
  parser.onclosetag = close;
  parser.onerror = (error) => { throw error; };
  return { write: (text) => parser.write(text), end: () => parser.close() };
}

function htmlparser2(open, close) {
  const handler = { onopentag: open, onclosetag: close, onerror: (error) => { throw error; } };
  const parser = new library.Parser(handler, { xmlMode: true, decodeEntities: true });
  return { write: (text) => parser.write(text), end: () => parser.end() };
}

// One pass over the file, as a phase; `say` makes the line that is printed within it.
function pass(phase, open, close, say, then) {
  mark(phase, 'begin', now());
  setTimeout(() => {
    const began = process.hrtime();
    const parser = (/^sax/.test(name) ? sax : htmlparser2)(open, close);
    createReadStream(file, 'utf8').on('data', parser.write).on('end', () => {
      parser.end();
      const [seconds, nanos] = process.hrtime(began);
      const ended = now();
      console.log(`${phase}: time ${(seconds + nanos / 1e9).toFixed(9)} s ${say()}`);
      mark(phase, 'end', ended);
      then();
    });
  }, REST);
}

const counts = { node: 0, way: 0, relation: 0 };
let attributes = 0;
function count(tag, values) {
  counts[tag] = (counts[tag] || 0) + 1;
  for (const value in values) attributes += 1;
}

const hash = createHash('sha256');
let rows = 0;
function digest(tag, values) {
  rows += 1;
  const attributes = Object.keys(values).map((key) => [key, values[key]]);
  hash.update(JSON.stringify([tag, attributes]));
}

pass('parse', count, () => {}, () => `elements ${counts.node + counts.way + counts.relation} attributes ${attributes}`, () => {
  pass('check', digest, (tag) => hash.update(`/${tag}`), () => `rows ${rows} digest ${hash.digest('hex').slice(0, 32)}`, () => {});
});
