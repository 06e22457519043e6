// A file of map changes through a streaming XML parser: once for the time, once more to digest what it said.
//
//   node parse.js PARSER FILE      PARSER is a folder of node_modules: sax, htmlparser2, sax-2017, htmlparser2-2017
//
// Both parsers read strict XML, decode entities, and hand over each element with all of its attributes.
import { createHash } from 'node:crypto';
import { appendFileSync, createReadStream } from 'node:fs';

const [name, file] = process.argv.slice(2);
const library = await import(name);
const marks = process.env.PRONY_MARKS;

// Times of marks are CLOCK_MONOTONIC, as hrtime is.
function mark(phase, edge, at = process.hrtime.bigint()) {
  if (marks) appendFileSync(marks, `{"mark":"${phase}","edge":"${edge}","at":${at}}\n`);
}

function sax(open, close) {
  const parser = library.default.parser(true, { position: false });
  parser.onopentag = (tag) => open(tag.name, tag.attributes);
  parser.onclosetag = close;
  parser.onerror = (error) => { throw error; };
  return { write: (text) => parser.write(text), end: () => parser.close() };
}

function htmlparser2(open, close) {
  const Parser = library.Parser ?? library.default.Parser;
  const parser = new Parser(
    { onopentag: open, onclosetag: close, onerror: (error) => { throw error; } },
    { xmlMode: true, decodeEntities: true },
  );
  return { write: (text) => parser.write(text), end: () => parser.end() };
}

function parse(open, close) {
  const parser = (name.startsWith('sax') ? sax : htmlparser2)(open, close);
  return new Promise((resolve, reject) => {
    createReadStream(file, 'utf8')
      .on('data', parser.write)
      .on('end', () => { parser.end(); resolve(); })
      .on('error', reject);
  });
}

const counts = {};
let attributes = 0;
mark('parse', 'begin');
await parse((tag, values) => {
  counts[tag] = (counts[tag] ?? 0) + 1;
  for (const value in values) attributes += 1;
}, () => {});
const ended = process.hrtime.bigint();
const elements = (counts.node ?? 0) + (counts.way ?? 0) + (counts.relation ?? 0);
console.log(`parsed ${elements} elements, ${attributes} attributes`);
mark('parse', 'end', ended);

mark('check', 'begin');
const hash = createHash('sha256');
let rows = 0;
await parse((tag, values) => {
  rows += 1;
  hash.update(JSON.stringify([tag, ...Object.entries(values)]));
}, (tag) => hash.update(`/${tag}`));
console.log(`rows ${rows} digest ${hash.digest('hex').slice(0, 32)}`);
mark('check', 'end');
