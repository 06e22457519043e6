'use strict';
// Reads the heap: every 100 ms while the event loop turns, at timed calls while it does not, and on command.
const { monitorEventLoopDelay } = require('perf_hooks'); // Node 11.10
const { getHeapStatistics } = require('v8');
const { spec, now, line, thread } = require('./channel.cjs');
const gc = require('./gc.cjs');

const memoryUsage = process.memoryUsage;
const nextTurn = setImmediate;
const PERIOD = 100e6; // nanoseconds between samples
const TICK = 20; // milliseconds: resolution of the event loop's delay

const turns = [0, 0, 0]; // when the last three samples by the timer were taken
let limit = 0;
let last = 0;
let delays = []; // two monitors of the event loop's delay, each with since when it has recorded: the next to be read first
let atTurns = () => {}; // what else is to be reported at samples by the timer

/** The values as one JSON object, after the collections that came before. */
function figures() {
  gc.tell();
  const m = memoryUsage();
  const buffers = m.arrayBuffers === undefined ? '' : `,"array_buffers":${m.arrayBuffers}`; // Node 12.17
  return `{"used":${m.heapUsed},"total":${m.heapTotal},"limit":${limit},"external":${m.external}${buffers},"rss":${m.rss}${gc.counts(turns[0])}}`;
}

/** Sends the values as those of an instant. */
function text(why, at, more, began = at) {
  last = at;
  line('heap', at, `,"why":"${why}","heap":${figures()}${more}`, began);
}

/** Sends the values, with the occasion. */
const heapLine = (why) => text(why, now(), '');

/** The longest delay of the event loop, and since when that is. A monitor records the time between two of its ticks, but
 * none that began before its reset. So there are two, reset in turn: the other one has recorded what this one leaves out. */
function longestDelay(at) {
  if (delays.length === 0) return '';
  const [{ monitor, since }, other] = delays;
  // After a stop of the process samples follow one another at once. Then the other one has not ticked since its own reset, and what
  // comes before its next tick would be in neither.
  if (at - other.since < 2 * TICK * 1e6) return '';
  // The resolution itself is taken off.
  const longest = Math.max(0, monitor.max - TICK * 1e6);
  monitor.reset();
  delays = [other, { monitor, since: at }];
  return Number.isFinite(longest) && longest < 1e15 ? `,"loop_delay_max":${longest},"loop_delay_since":${since}` : '';
}

function tick() {
  const began = now();
  turns.shift();
  turns.push(began);
  const longest = longestDelay(began);
  atTurns();
  text('sample', began, longest);
}

/** For code that does not let the event loop turn: a sample where one is due at the begin or end of a call. It is that of this
 * instant, after which only the probe has worked: later it would be of another phase. */
function due(at) {
  if (at - last >= PERIOD) text('call', at, '', now());
}

/** At an abort at the heap's own limit V8 runs no JavaScript: Node itself leaves a report with the values. */
function reportDeath() {
  const { report } = process;
  // A program that makes reports of its own keeps them where it wants them.
  if (!report || report.directory || report.reportOnFatalError || report.reportOnSignal || report.reportOnUncaughtException) return;
  report.directory = spec.reports;
  report.compact = true;
  if ('excludeNetwork' in report) report.excludeNetwork = true;
  report.reportOnFatalError = true;
}

function install(alsoAtTurns) {
  if (alsoAtTurns !== null) atTurns = alsoAtTurns;
  limit = getHeapStatistics().heap_size_limit;
  gc.install();
  if (monitorEventLoopDelay) {
    delays = [0, 1].map(() => ({ monitor: monitorEventLoopDelay({ resolution: TICK }), since: now() }));
    delays.forEach(({ monitor }) => monitor.enable());
  }
  // At a point of the loop where all timers that are due have run, those of the monitors too.
  setInterval(() => nextTurn(tick), PERIOD / 1e6).unref();
  if (thread === 0) reportDeath();
  heapLine('start');
}

module.exports = { figures, line: heapLine, due, install };
