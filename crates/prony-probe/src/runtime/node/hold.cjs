'use strict';
// A program held at the end of a call: blocked in a read until the runner says `go`. Event loop and microtasks stand
// still; other threads (workers, the thread pool) do not.
const { openSync, readSync, closeSync } = require('fs');
const { spec, now, sleep, line, bye, thread, pid } = require('./channel.cjs');
const { figures } = require('./heap.cjs');

const ANSWER = 10e9; // nanoseconds until the runner must have answered
const kill = process.kill.bind(process);
const exitNow = process.reallyExit.bind(process);

let heldFor = 0; // nanoseconds that this thread was held
let holds = 0;

/** The runner makes a FIFO for each hold; opened, a read costs nothing until there is a command. */
function answer() {
  const path = `${spec.hold}/${pid}-${thread}-${holds}`;
  const until = now() + ANSWER;
  do {
    try {
      return openSync(path, 'r');
    } catch (error) {
      if (error.code !== 'ENOENT') return -1;
      sleep(1);
    }
  } while (now() < until);
  return -1;
}

/** A full collection, without --expose-gc on the command line, which some programs refuse. The context that the
 * function comes from costs some 150 kB, which is garbage at the next collection. */
function collect() {
  require('v8').setFlagsFromString('--expose-gc');
  const gc = require('vm').runInNewContext('gc');
  const began = now();
  gc();
  return now() - began;
}

function stop() {
  line('resumed', now(), ',"because":"stop"');
  bye();
  if (thread !== 0) kill(pid, 'SIGKILL');
  exitNow(0);
}

function obey(command) {
  if (command === 'collect') line('collected', now(), `,"took":${collect()},"heap":${figures()}`);
  else if (command === 'read') line('heap', now(), `,"why":"read","heap":${figures()}`);
  else if (command === 'stop') stop();
  return command === 'go' || command === 'release' ? command : null;
}

function converse(fd) {
  const buffer = Buffer.alloc(256);
  let pending = '';
  for (;;) {
    const read = readSync(fd, buffer, 0, buffer.length, null);
    if (read === 0) return 'gone';
    const lines = (pending + buffer.toString('latin1', 0, read)).split('\n');
    pending = lines.pop();
    for (const text of lines) {
      const done = obey(text.trim());
      if (done !== null) return done;
    }
  }
}

function wait() {
  const fd = answer();
  if (fd < 0) return 'unanswered';
  try {
    return converse(fd);
  } catch {
    return 'gone';
  } finally {
    closeSync(fd);
  }
}

/** Holds the thread; returns whether the next end of this call is to be held too. */
function hold(call, n) {
  const began = now();
  holds += 1;
  if (!line('held', began, `,"call":${call.id},"n":${n},"hold":${holds},"heap":${figures()}`)) return false;
  const because = wait();
  const ended = now();
  heldFor += ended - began;
  line('resumed', ended, `,"because":"${because}"`);
  return because === 'go';
}

module.exports = { hold, held: () => heldFor };
