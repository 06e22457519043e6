// A made-up street map as one osmChange file (version 0.6), of any size; the same options give the same bytes.
//
//   node changeset.js --bytes 18MB --seed 2017 --output changeset.xml
//
//   --bytes SIZE       as many whole elements as take at least SIZE (B, kB, MB, GB, KiB, MiB, GiB)
//   --elements N       so many elements, in place of --bytes
//   --seed N           0 unless given
//   --changeset TEXT   the changeset that each element names; 1 unless given
//   --output FILE      standard output unless given
//
// Elements come in groups of 100: 88 nodes, 11 ways along them, one relation of those ways and nodes. These are about
// the shares of real extracts. Every reference points back, so any first part of the file is a map of its own. Ids are
// negative, as editors write those of new elements. Names and places are made up; no OpenStreetMap data is used.
//
// Each element is a function of its number and the seed. Random words are 64 bits, hence BigInt: SplitMix64 (Steele, Lea
// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) with the finaliser of Stafford's variant 13.
'use strict';

const { openSync, writeFileSync } = require('fs');
const { parseArgs } = require('util');

const GROUP = 100;
const NODES = 88;
const MOST_MEMBERS = 24;

// Seconds since 1970 of 2010-01-01, and the seconds of the ten years after it.
const FROM = 1262304000;
const SPAN = 315360000;

// Keys of tags with values they may have; a value that ends in a blank goes on with a name.
const TAGS = [
  ['name', ['Calle ', 'Rue ', 'Улица ', 'Ala ', '"Old" ', 'Bed & Breakfast ', '通り ']],
  ['source', ['survey', 'bing', 'local_knowledge', 'TIGER/Line® 2008 by way of import']],
  ['addr:street', ['Main ', 'Kalākaua ', 'Straße <old> ', "O'Neill's "]],
  ['addr:housenumber', ['7', '12a', '221', '3-5']],
  ['highway', ['residential', 'service', 'track', 'footway', 'crossing', 'tertiary']],
  ['building', ['yes', 'house', 'garage', 'roof']],
  ['natural', ['tree', 'wood', 'coastline', 'peak']],
  ['surface', ['asphalt', 'unpaved', 'gravel']],
  ['amenity', ['bench', 'parking', 'restaurant']],
  ['note', ['check: 5 < 6 & "quoted" ', 'surveyed on foot by ']],
];
const SYLLABLES = ['ka', 'lo', 'ʻi', 'mar', 'ten', 'ou', 'ber', 'ść', 'na', 'wai', 'hil', 'do', 'ré', 'sun', 'to', 'ñu'];

const HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<osmChange version="0.6" generator="prony">\n<create>\n';
const TAIL = '</create>\n</osmChange>\n';

// Elements are written in pieces of about so many bytes.
const PIECE = 65536;

const GOLDEN = 0x9e3779b97f4a7c15n;
// What the seed is used for: prony's own generators use other numbers.
const MAP = 8n;
const LAST = 0xffffffffffffffffn;

const word = (x) => BigInt.asUintN(64, x);

// A bijection of 64-bit words without visible order.
function mix(x) {
  x = word((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
  x = word((x ^ (x >> 27n)) * 0x94d049bb133111ebn);
  return x ^ (x >> 31n);
}

function derive(seed, part) {
  return mix(word(mix(seed ^ mix(MAP)) + part * GOLDEN));
}

class Random {
  constructor(seed) {
    this.state = seed;
  }

  // Uniform in 0..n-1.
  below(n) {
    this.state = word(this.state + GOLDEN);
    return Number((mix(this.state) * BigInt(n)) >> 64n);
  }

  one(list) {
    return list[this.below(list.length)];
  }
}

// Units of 1e-7 degrees as a decimal number.
function degrees(units) {
  const digits = String(Math.abs(units)).padStart(8, '0');
  return `${units < 0 ? '-' : ''}${digits.slice(0, -7)}.${digits.slice(-7)}`;
}

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character]);
}

// A place within about a kilometre of its group's.
function place(random, seed, group) {
  const centre = new Random(derive(seed, LAST - BigInt(group)));
  const latitude = centre.below(1600000000) + random.below(100000) - 800000000;
  const longitude = centre.below(3599000000) + random.below(100000) - 1800000000;
  return ` lat="${degrees(latitude)}" lon="${degrees(longitude)}"`;
}

// Neighbouring nodes of the group; two of five ways end where they began.
function way(random, group) {
  const count = 2 + Math.min(random.below(MOST_MEMBERS - 2), random.below(MOST_MEMBERS - 2));
  const first = group + 1 + random.below(NODES - count);
  const nodes = Array.from({ length: count }, (_, at) => first + at);
  if (count > 3 && random.below(5) < 2) nodes.push(first);
  return nodes.map((node) => `  <nd ref="-${node}"/>\n`).join('');
}

// Ways of the group, and a node now and then.
function relation(random, group) {
  const member = () => {
    const part = random.below(4);
    const [type, number, role] =
      part === 0
        ? ['node', group + 1 + random.below(NODES), 'stop']
        : ['way', group + NODES + 1 + random.below(GROUP - NODES - 1), ['outer', 'inner', ''][part - 1]];
    return `  <member type="${type}" ref="-${number}" role="${role}"/>\n`;
  };
  return Array.from({ length: 2 + random.below(MOST_MEMBERS / 3) }, member).join('');
}

function name(random) {
  return Array.from({ length: 2 + random.below(3) }, () => random.one(SYLLABLES)).join('');
}

function tags(random, count) {
  const first = random.below(TAGS.length);
  const tag = (_, at) => {
    const [key, values] = TAGS[(first + at) % TAGS.length];
    const value = random.one(values);
    return `  <tag k="${key}" v="${escaped(value.endsWith(' ') ? value + name(random) : value)}"/>\n`;
  };
  return Array.from({ length: count }, tag).join('');
}

// The element at an index, from 0: its kind and its text. The order of the draws is part of the format.
function element(seed, index, changeset) {
  const random = new Random(derive(seed, BigInt(index)));
  const group = index - (index % GROUP);
  let [kind, at, inside, count] = ['relation', '', '', 0];
  if (index % GROUP < NODES) {
    [kind, at] = ['node', place(random, seed, group)];
    count = random.below(100) < 6 ? 1 + random.below(4) : 0;
  } else if (index % GROUP < GROUP - 1) {
    [kind, inside] = ['way', way(random, group)];
    count = 1 + random.below(5);
  } else {
    inside = relation(random, group);
    count = 2 + random.below(3);
  }
  const user = random.below(500);
  const time = `${new Date(1000 * (FROM + random.below(SPAN))).toISOString().slice(0, 19)}Z`;
  inside += tags(random, count);
  const attributes = `id="-${index + 1}" version="1" timestamp="${time}" changeset="${changeset}" uid="${user}" user="mapper ${user}"${at}`;
  return { kind, text: inside ? ` <${kind} ${attributes}>\n${inside} </${kind}>\n` : ` <${kind} ${attributes}/>\n` };
}

// Writes elements until there are enough; `enough` is asked with their number and the length that the file would have.
function write(file, { seed, changeset, enough }) {
  const counts = { node: 0, way: 0, relation: 0 };
  let [pieces, length] = [HEAD, Buffer.byteLength(HEAD + TAIL)];
  for (let index = 0; !enough(index, length); index += 1) {
    const { kind, text } = element(seed, index, changeset);
    counts[kind] += 1;
    pieces += text;
    length += Buffer.byteLength(text);
    if (pieces.length >= PIECE) {
      writeFileSync(file, pieces);
      pieces = '';
    }
  }
  writeFileSync(file, pieces + TAIL);
  return { counts, length };
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(2);
}

function whole(option, text) {
  if (!/^[\d_]+$/.test(text)) fail(`\`--${option}\` is a whole number, and not \`${text}\``);
  return BigInt(text.replace(/_/g, ''));
}

const UNITS = { '': 1, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
function bytes(text) {
  const [, number, unit] = /^([\d_.]+) ?(\w*)$/.exec(text) || [];
  if (!Object.hasOwn(UNITS, unit)) fail(`\`--bytes\` is a size, such as 18MB, and not \`${text}\``);
  return Math.round(Number(number.replace(/_/g, '')) * UNITS[unit]);
}

function options() {
  const texts = ['bytes', 'elements', 'seed', 'changeset', 'output'];
  const { values } = parseArgs({ options: Object.fromEntries(texts.map((name) => [name, { type: 'string' }])) });
  if ((values.bytes === undefined) === (values.elements === undefined)) fail('give one of `--bytes` and `--elements`');
  const least = values.bytes === undefined ? Number(whole('elements', values.elements)) : bytes(values.bytes);
  return {
    seed: derive(word(whole('seed', values.seed || '0')), 0n),
    changeset: escaped(values.changeset === undefined ? '1' : values.changeset),
    enough: values.bytes === undefined ? (count) => count >= least : (_, length) => length >= least,
    file: values.output === undefined ? 1 : openSync(values.output, 'w'),
  };
}

const { file, ...what } = options();
const { counts, length } = write(file, what);
const all = counts.node + counts.way + counts.relation;
console.error(`${length} bytes: ${all} elements, of which ${counts.node} nodes, ${counts.way} ways, ${counts.relation} relations`);
