'use strict';
// The channel to the runner: one JSON line per message, one write per line. It is opened for each line: a program that
// turns itself into a daemon could close a descriptor that stays open, and its number would then be another file.
const fs = require('fs');

// Loading `worker_threads` takes longer than all the rest, and only a worker, where `abort` is disabled, needs it.
const threadId = process.abort.disabled ? require('worker_threads').threadId : 0;

// Taken now: programs replace the functions of `fs` and the clocks of `process`, tests above all.
const { openSync, writeSync, closeSync, readFileSync } = fs;
const { O_WRONLY, O_APPEND, O_NONBLOCK } = fs.constants;
const { hrtime } = process;
const { bigint } = hrtime; // Node 10.7
const { pid, ppid } = process;

const spec = JSON.parse(readFileSync(`${__dirname}/spec.json`, 'utf8'));
const cell = new Int32Array(new SharedArrayBuffer(4));

const LINE_MAX = 4096; // what a pipe takes in one piece
const PATIENCE = 1000; // milliseconds in all for which a full pipe may delay the program

let patience = PATIENCE;
let spent = 0; // nanoseconds inside the probe
let heap = 0;
let sent = 0;
let lost = 0;

/** CLOCK_MONOTONIC in nanoseconds, exact up to 104 days after the machine's start. */
const now = bigint
  ? () => Number(bigint())
  : () => {
      const [seconds, nanoseconds] = hrtime();
      return seconds * 1e9 + nanoseconds;
    };

/** Waits without an event loop. */
const sleep = (milliseconds) => Atomics.wait(cell, 0, 0, milliseconds);

function write(text) {
  const fd = openSync(spec.marks, O_WRONLY | O_APPEND | O_NONBLOCK);
  try {
    for (;;) {
      try {
        return writeSync(fd, text);
      } catch (error) {
        if (error.code !== 'EAGAIN' || patience <= 0) throw error;
        patience -= 1;
        sleep(1);
      }
    }
  } finally {
    closeSync(fd);
  }
}

/** Sends one line; `rest` is the inside of a JSON object that begins with a comma. False where nobody reads. `began` is since
 * when the probe has worked for it. */
const line = (kind, at, rest, began = at) => lineOf(threadId, kind, at, rest, began);

function lineOf(thread, kind, at, rest, began = at) {
  const text = `{"probe":"${kind}","at":${at},"pid":${pid},"thread":${thread}${rest}}\n`;
  try {
    if (text.length > LINE_MAX) throw new RangeError('too long for one write');
    write(text);
    sent += 1;
    return true;
  } catch (error) {
    lost += 1;
    return false;
  } finally {
    spent += now() - began;
  }
}

/** Whether the runner's channel exists. */
function open() {
  try {
    closeSync(openSync(spec.marks, O_WRONLY | O_APPEND | O_NONBLOCK));
    return true;
  } catch (error) {
    return false;
  }
}

function hello(unsupported) {
  const script = JSON.stringify((process.argv[1] || '').slice(-512));
  const text = JSON.stringify(unsupported);
  line('hello', now(), `,"parent":${ppid},"runtime":"node","version":"${process.versions.node}","script":${script},"unsupported":${text}`);
}

function started(began, bytes) {
  heap = bytes;
  spent = now() - began;
  cost();
}

const cost = () => line('cost', now(), `,"time":${Math.round(spent)},"heap":${heap},"lines":${sent},"lost":${lost}`);

/** The last line: the cost of the probe, and that the end was an orderly one. */
function bye() {
  cost();
  line('bye', now(), '');
}

/** A thread that this one had started has ended, whether or not it could report that. */
const exited = (thread) => lineOf(thread, 'bye', now(), '');

/** Adds to the cost of the probe. */
const spend = (nanoseconds) => (spent += nanoseconds);

module.exports = { spec, now, sleep, line, open, hello, started, bye, exited, spend, thread: threadId, pid };
