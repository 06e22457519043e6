'use strict';
// Loaded by --require before the program, in every Node process and worker thread, in the one trial that is profiled.
// V8's own profiler takes samples from here on; a thread's file is written when it ends, or is asked to. Runs on Node 8.10
// and later, keeps no event loop alive, opens no port, and never throws into the program.
const fs = require('fs');
const path = require('path');
const threads = workerThreads();

/** How long workers may take to write their files when the main thread or terminate() is about to end them. */
const PATIENCE_MS = 500;
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'];
const id = `${process.pid}-${threads.threadId}`;
const began = beganFile(threads.threadId);
const channel = `prony-profile-${process.pid}`;
const { interval } = JSON.parse(fs.readFileSync(path.join(__dirname, 'settings.json'), 'utf8'));

let session = null;
let started = null;
let pieces = 0;

/** The file that exists while a thread of this process is profiled. */
function beganFile(thread) {
  return path.join(__dirname, `${process.pid}-${thread}.began`);
}

/** Node before 12 has none without a flag. */
function workerThreads() {
  try {
    return require('worker_threads');
  } catch (error) {
    return { threadId: 0, isMainThread: true };
  }
}

/** CLOCK_MONOTONIC in nanoseconds; beyond 104 days of uptime it is rounded to 2 of them. */
function now() {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e9 + nanoseconds;
}

function guarded(act) {
  return (...given) => {
    try {
      return act(...given);
    } catch (error) {
      // A program must run without its profile too; the file that says it began shows the runner the loss.
    }
  };
}

function start() {
  const before = now();
  session.post('Profiler.start');
  started = [before, now()];
}

/** Ends the profile and returns what to write; null where none is under way. */
function stop() {
  if (started === null) return null;
  const before = now();
  let profile = null;
  session.post('Profiler.stop', (error, result) => {
    if (!error) profile = result.profile;
  });
  if (profile !== null) profile.prony = recorded(started, [before, now()]);
  started = null;
  return profile;
}

function recorded(from, to) {
  const script = process.argv[1] ? path.basename(process.argv[1]) : 'node';
  return { pid: process.pid, thread: threads.threadId, name: script, started: from, stopped: to };
}

function write(profile) {
  if (profile === null) return;
  const file = path.join(__dirname, `${id}-${pieces++}.cpuprofile`);
  const text = JSON.stringify(profile);
  fs.writeFileSync(`${file}.part`, text);
  fs.renameSync(`${file}.part`, file);
}

/** The last part: the thread is about to end. */
const end = guarded(() => {
  const profile = stop();
  if (threads.isMainThread) ask([...live].filter(isProfiled).length);
  write(profile);
  if (profile !== null) fs.unlinkSync(began);
});

/** A part, and the next one begins: the thread may end now or continue. */
const checkpoint = guarded(() => {
  write(stop());
  start();
});

// Workers whose end no event of theirs announces: those that run when the main thread ends, or are terminated.
const live = new Set();

/** Whether a worker can answer: one with an environment of its own may run without the profiler. */
function isProfiled(thread) {
  return fs.existsSync(beganFile(thread));
}

function ask(workers, only) {
  if (workers === 0 || !threads.BroadcastChannel) return;
  const written = new Int32Array(new SharedArrayBuffer(4));
  const to = new threads.BroadcastChannel(channel);
  to.postMessage({ written, only });
  for (let last = 0, until = Date.now() + PATIENCE_MS; last < workers && Date.now() < until; last = Atomics.load(written, 0)) {
    Atomics.wait(written, 0, last, Math.max(1, until - Date.now()));
  }
  to.close();
}

function watchWorkers() {
  process.on('worker', guarded((worker) => {
    const thread = worker.threadId;
    live.add(thread);
    worker.once('exit', () => live.delete(thread));
    const { terminate } = worker;
    worker.terminate = function (...given) {
      guarded(ask)(live.has(thread) && isProfiled(thread) ? 1 : 0, thread);
      return terminate.apply(this, given);
    };
  }));
}

function listenInWorker() {
  if (!threads.BroadcastChannel) return;
  const from = new threads.BroadcastChannel(channel);
  from.onmessage = guarded(({ data: { written, only } }) => {
    if (only !== undefined && only !== threads.threadId) return;
    checkpoint();
    Atomics.add(written, 0, 1);
    Atomics.notify(written, 0);
  });
  from.unref();
}

/**
 * A signal that would end the process ends it, with its file written. Where the program listens too, its listeners
 * decide: they find no other listener, as without us, and a part is written in case they end it at once.
 */
function watchSignal(signal) {
  // Node before 8.12 gives its listeners no name of the signal.
  const onSignal = () => {
    process.removeListener(signal, onSignal);
    if (process.listenerCount(signal) === 0) {
      end();
      process.kill(process.pid, signal);
      return;
    }
    checkpoint();
    // An immediate has no `unref` before Node 9.7.
    setTimeout(() => process.prependListener(signal, onSignal), 0).unref();
  };
  process.on(signal, onSignal);
}

function install() {
  const loaded = Symbol.for('prony.profile');
  if (global[loaded] || process.env.PRONY_HOOKS_THREAD) return;
  // The probe adds this file to the environment of children.
  Object.defineProperty(global, loaded, { value: __filename });
  const { Session } = require('inspector');
  fs.writeFileSync(began, process.argv.slice(0, 3).join(' '));
  session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.setSamplingInterval', { interval });
  process.on('exit', end);
  // What leaves without an `exit` event.
  const { reallyExit } = process;
  process.reallyExit = (...given) => {
    end();
    return reallyExit.apply(process, given);
  };
  watchWorkers();
  if (threads.isMainThread) SIGNALS.forEach(watchSignal);
  else listenInWorker();
  start();
}

guarded(install)();
