'use strict';
// Suspends a program at the end of a call: blocked in a read until the runner sends `go`. Event loop and microtasks
// stop; other threads (workers, the thread pool) do not.
const { openSync, readSync, closeSync } = require('fs');
const { spec, now, sleep, line, bye, thread, pid } = require('./channel.cjs');
const { figures } = require('./heap.cjs');

const v8 = require('v8');
const vm = require('vm');

const ANSWER = 10e9; // nanoseconds until the runner must have answered
const { memoryUsage } = process;
const kill = process.kill.bind(process);
const exitNow = process.reallyExit.bind(process);
const nextTurn = setImmediate;
const keepsTargets = typeof WeakRef === 'function';
const COLLECTIONS = 8; // at most; two are enough but for chains of finalizers

let suspendedFor = 0; // nanoseconds for which this thread was suspended
let suspensions = 0;
let later = null; // the call at whose end a collection is still to come
let atStop = () => {}; // what is to be reported before the program is ended

/** The runner makes a FIFO for each suspension; opened, a read costs nothing until there is a command. */
function answer() {
  const path = `${spec.commands}/${pid}-${thread}-${suspensions}`;
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

/** Ends what V8 calls KeepDuringJob: it keeps each target of a WeakRef that was made or dereferenced in the current job
 * until microtasks have been run. A context with a queue of its own runs its own only: no line of the program's. */
function clearKept() {
  if (!keepsTargets) return;
  const context = vm.createContext({}, { microtaskMode: 'afterEvaluate' }); // Node 14.6, as WeakRef itself
  vm.runInContext('Promise.resolve().then(() => {})', context);
}

const inUse = () => {
  const m = memoryUsage();
  return m.heapUsed + m.external;
};

/** Full collections, without --expose-gc on the command line, which some programs refuse. The context that the function
 * comes from costs some 150 kB, which is garbage at the next collection. One is not enough: V8 frees array buffers on
 * another thread, and counts them out of `external` at the next collection. */
function collect() {
  clearKept();
  v8.setFlagsFromString('--expose-gc');
  const gc = vm.runInNewContext('gc');
  const began = now();
  gc();
  let before;
  let n = 1;
  do {
    before = inUse();
    gc();
    n += 1;
  } while (n < COLLECTIONS && inUse() < 0.99 * before);
  return now() - began;
}

function stop() {
  atStop();
  line('resumed', now(), ',"because":"stop"');
  bye();
  if (thread !== 0) kill(pid, 'SIGKILL');
  exitNow(0);
}

function obey(command) {
  if (command === 'collect later' && keepsTargets) return 'later';
  if (command.startsWith('collect')) line('collected', now(), `,"took":${collect()},"heap":${figures()}`);
  else if (command === 'read') line('heap', now(), `,"why":"read","heap":${figures()}`);
  else if (command === 'stop') stop();
  return command === 'go' || command === 'release' ? command : null;
}

function converse(fd) {
  const buffer = Buffer.alloc(256);
  let pending = '';
  for (;;) {
    const read = readSync(fd, buffer, 0, buffer.length, null);
    if (read === 0) return 'runner_ended';
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
  } catch (error) {
    return 'runner_ended';
  } finally {
    closeSync(fd);
  }
}

/** Suspends the thread; returns whether to suspend at the next end of this call too. */
function suspend(call, n, more = '') {
  const began = now();
  suspensions += 1;
  if (!line('suspended', began, `,"call":${call.id},"n":${n},"suspension":${suspensions}${more},"heap":${figures()}`)) return false;
  const because = wait();
  const ended = now();
  suspendedFor += ended - began;
  line('resumed', ended, `,"because":"${because}"`);
  if (because === 'later') {
    if (later === null) nextTurn(suspendAgain);
    later = { call, n };
  }
  return because === 'go' || because === 'later';
}

/** Suspends the thread for the collection that was put off. By now the job has ended in which the call returned; at the
 * exit of the process nothing of it continues. */
function suspendAgain() {
  if (later === null) return;
  const { call, n } = later;
  later = null;
  call.suspend = suspend(call, n, ',"later":true');
}

const beforeStop = (report) => (atStop = report);

module.exports = { suspend, suspendAgain, beforeStop, suspended: () => suspendedFor };
