'use strict';
// Garbage collections of this thread's heap, each with the instant of its end. A native module, `gc.c`, which V8 calls at
// each collection, counts them. Where it cannot be loaded (`--no-addons`, another processor), the events of a
// PerformanceObserver are counted, which come late, and never after the last turn of the event loop.
const { PerformanceObserver, constants, performance } = require('perf_hooks');
const { now, line, spend } = require('./channel.cjs');

const FULL = constants.NODE_PERFORMANCE_GC_MAJOR; // 2 up to Node 16, 4 later
const OTHER = [constants.NODE_PERFORMANCE_GC_INCREMENTAL, constants.NODE_PERFORMANCE_GC_WEAKCB]; // parts of a collection
const PER_LINE = 60; // collections in one line
const [WRITTEN, FULL_TYPE, LAST, RING] = [0, 1, 2, 6]; // places in the numbers of `gc.c`
const NUMBERS = 4; // of each collection there: instant, collections so far, full ones, their time

const pending = []; // delivered by the event loop, not reported yet
let numbers = null; // those of `gc.c`
let said = 0; // reported collections of `gc.c`
let last = [0, 0, 0, 0]; // the same four of the last collection that the event loop delivered
let turned = 0; // when it delivered

function load() {
  const module = { exports: {} };
  process.dlopen(module, `${__dirname}/gc.node`);
  if (!(module.exports instanceof ArrayBuffer)) throw new Error('no buffer');
  numbers = new Float64Array(module.exports);
  numbers[FULL_TYPE] = FULL;
}

function delivered(list) {
  const began = now();
  const offset = began - performance.now() * 1e6;
  for (const entry of list.getEntries()) {
    const kind = entry.detail ? entry.detail.kind : entry.kind;
    if (OTHER.includes(kind)) continue;
    const took = entry.duration * 1e6;
    last = [entry.startTime * 1e6 + took + offset, last[1] + 1, last[2] + (kind === FULL ? 1 : 0), last[3] + took];
    pending.push(last);
  }
  turned = began;
  spend(now() - began);
}

function install() {
  try {
    load();
  } catch (error) {
    new PerformanceObserver(delivered).observe({ entryTypes: ['gc'] });
  }
}

/** Collections that are not reported yet; if they are more than the module stores, the last ones. */
function fresh() {
  if (numbers === null) return pending.splice(0);
  const [written, kept] = [numbers[WRITTEN], (numbers.length - RING) / NUMBERS];
  const points = [];
  for (let n = Math.max(said, written - kept); n < written; n += 1) {
    const at = RING + (n % kept) * NUMBERS;
    points.push([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]]);
  }
  said = written;
  return points;
}

/** Reports the collections since the last call. */
function tell() {
  const points = fresh();
  for (let n = 0; n < points.length; n += PER_LINE) {
    const text = points.slice(n, n + PER_LINE).map((point) => `[${point.map(Math.round).join()}]`);
    line('gc', now(), `,"points":[${text.join()}]`);
  }
}

/** The counts as parts of a JSON object, and up to when they are complete. `quiet` is since when the event loop would have
 * delivered. */
function counts(quiet) {
  const until = numbers === null ? Math.max(turned === 0 ? 0 : last[0], quiet) : now();
  if (until === 0) return '';
  const [from, at] = numbers === null ? [last, 0] : [numbers, LAST];
  // Rounded, though all but times are whole: Node 8 writes a number that it has just read from the buffer as garbage.
  const [count, full, time] = [from[at + 1], from[at + 2], from[at + 3]].map(Math.round);
  return `,"gc_count":${count},"gc_time":${time},"gc_major":${full},"gc_until":${Math.round(until)}`;
}

module.exports = { install, tell, counts };
