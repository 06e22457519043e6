'use strict';
// The heap's figures: every 100 ms while the event loop turns, at calls where it does not, and when asked.
const { PerformanceObserver, monitorEventLoopDelay } = require('perf_hooks');
const { getHeapStatistics } = require('v8');
const { spec, now, line, spend, thread } = require('./channel.cjs');

const memoryUsage = process.memoryUsage;
const PERIOD = 100e6; // nanoseconds between samples
const TICK = 20; // milliseconds: resolution of the event loop's delay
const MAJOR = 4; // perf_hooks.constants.NODE_PERFORMANCE_GC_MAJOR

const gc = { count: 0, time: 0, major: 0, until: 0 };
const turns = [0, 0, 0]; // when the last three samples by the timer were taken
let limit = 0;
let last = 0;
let delay = null;

function collected(list) {
  const began = now();
  for (const entry of list.getEntries()) {
    gc.count += 1;
    gc.time += entry.duration * 1e6;
    if ((entry.detail ? entry.detail.kind : entry.kind) === MAJOR) gc.major += 1;
  }
  gc.until = began;
  spend(now() - began);
}

/** The figures as one JSON object. Collections are told to us by the event loop: `gc_until` says up to when. */
function figures() {
  const m = memoryUsage();
  const base = `{"used":${m.heapUsed},"total":${m.heapTotal},"limit":${limit},"external":${m.external},"array_buffers":${m.arrayBuffers},"rss":${m.rss}`;
  const until = Math.max(gc.until, turns[0]);
  const counts = until === 0 ? '' : `,"gc_count":${gc.count},"gc_time":${Math.round(gc.time)},"gc_major":${gc.major},"gc_until":${until}`;
  return `${base}${counts}}`;
}

/** Sends the figures. */
function text(why, began, more) {
  last = began;
  line('heap', began, `,"why":"${why}","heap":${figures()}${more}`);
}

/** Sends the figures, with what asked for them. */
const heapLine = (why) => text(why, now(), '');

function tick() {
  const began = now();
  turns.shift();
  turns.push(began);
  // A delay is the time between two ticks, so the resolution itself is taken off.
  const longest = Math.max(0, delay.max - TICK * 1e6);
  delay.reset();
  text('sample', began, Number.isFinite(longest) && longest < 1e15 ? `,"loop_delay_max":${longest}` : '');
}

/** For code that does not let the event loop turn: a sample where one is due. */
function due(at) {
  if (at - last >= PERIOD) text('call', now(), '');
}

/** At a death by the heap's own limit V8 runs no JavaScript: Node itself leaves a report with the figures. */
function reportDeath() {
  const { report } = process;
  // A program that makes reports of its own keeps them where it wants them.
  if (!report || report.directory || report.reportOnFatalError || report.reportOnSignal || report.reportOnUncaughtException) return;
  report.directory = spec.reports;
  report.compact = true;
  if ('excludeNetwork' in report) report.excludeNetwork = true;
  report.reportOnFatalError = true;
}

function install() {
  limit = getHeapStatistics().heap_size_limit;
  new PerformanceObserver(collected).observe({ entryTypes: ['gc'] });
  delay = monitorEventLoopDelay({ resolution: TICK });
  delay.enable();
  setInterval(tick, PERIOD / 1e6).unref();
  if (thread === 0) reportDeath();
  heapLine('start');
}

module.exports = { figures, line: heapLine, due, install };
