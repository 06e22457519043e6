'use strict';
// Functions timed without editing them. The first calls are reported one by one; a hot function is counted after that,
// so that what a call costs here stays below a microsecond and no file fills up.
const types = require('util').types || {}; // Node 10
const isPromise = types.isPromise || ((value) => value instanceof Promise);
const isGenerator = types.isGeneratorObject || (() => false);
const { performance } = require('perf_hooks');
const { spec, now, line, spend } = require('./channel.cjs');
const { suspend, suspended, beforeStop } = require('./suspend.cjs');
const { due } = require('./heap.cjs');
const { classify, histogram } = require('./histogram.cjs');

const monotonic = performance.now.bind(performance);
const EVERY = 1e9; // nanoseconds between two reports of a hot function
const calls = [];
let perCall = null;

/** Nanoseconds of this thread. */
const elapsed = () => monotonic() * 1e6;

/** The same without suspensions. */
const clock = () => elapsed() - suspended();

/** `last` is when the last one ended, by `elapsed`; `looked` are how many had ended when it was last looked at. */
const newTally = (due) => ({ count: 0, failed: 0, total: 0, min: Infinity, max: 0, last: 0, due, reported: 0, looked: 0, changed: false, powers: [] });

/** A timed function of which nothing has been called. `open` calls are running, `reportedOpen` were at its last report;
 * `overlapped` says whether another was running during any that is not reported one by one. */
const newCall = (id, suspends) => ({ id, suspend: suspends, n: 0, open: 0, reportedOpen: 0, overlapped: false, tally: null, deferred: false });

function tallied(call, took, ok, at) {
  const tally = call.tally || (call.tally = newTally(0));
  tally.count += 1;
  tally.last = at;
  tally.total += took;
  tally.changed = true;
  if (!ok) {
    tally.failed += 1;
    return;
  }
  if (took < tally.min) tally.min = took;
  if (took > tally.max) tally.max = took;
  classify(tally.powers, took);
}

function tell(call) {
  const tally = call.tally || (call.tally = newTally(0));
  tally.changed = false;
  call.reportedOpen = call.open;
  if (perCall === null) perCall = calibrate();
  spend((tally.count - tally.reported) * perCall);
  tally.reported = tally.count;
  const ns = (n) => Math.round(n);
  const min = Math.min(tally.min, tally.max); // where none has returned, it is infinite
  const at = now();
  const last = tally.count === 0 ? 0 : ns(at - (elapsed() - tally.last));
  line('calls', at, `,"call":${call.id},"open":${call.open},"overlapped":${call.overlapped},"last":${last},"count":${tally.count},"failed":${tally.failed},"total":${ns(tally.total)},"min":${ns(min)},"max":${ns(tally.max)},${histogram(tally.powers)}`);
}

/** Reports every hot function of which calls have begun or ended since its last report. */
function report() {
  for (const call of calls) if (call.open !== call.reportedOpen || (call.tally && call.tally.changed)) tell(call);
}

beforeStop(report);

/** Reports every hot function of which none has ended since this was called before: the runner then reads the counters of
 * its phase soon after the end. */
function reportResting() {
  for (const call of calls) {
    const { tally } = call;
    if (tally === null || !tally.changed) continue;
    if (tally.looked === tally.count) tell(call);
    tally.looked = tally.count;
  }
}

function begin(call, n) {
  const at = now();
  call.reportedOpen = call.open;
  line('begin', at, `,"call":${call.id},"n":${n},"open":${call.open - 1}`);
  due(at);
}

// Those of collections give what lies there already.
const OF_COLLECTION = /^(?:Array|Map|Set|String) Iterator$/;

/** What a value is whose work is done when its caller takes from it; else null. A promise settles with a stream that can
 * be written, such as a connection, when that stands. A proxy may throw. */
function lazy(value, settled) {
  if (value === null || typeof value !== 'object') return null;
  try {
    const many = typeof value[Symbol.asyncIterator] === 'function';
    if (typeof value.next !== 'function') return many && !(settled && typeof value.write === 'function') ? 'an async iterable' : null;
    if (OF_COLLECTION.test(String(value[Symbol.toStringTag]))) return null;
    if (isGenerator(value)) return 'a generator';
    return many || typeof value[Symbol.iterator] === 'function' ? 'an iterator' : null;
  } catch (error) {
    return null;
  }
}

function defer(call, value, settled) {
  const returned = lazy(value, settled);
  if (returned === null) return;
  call.deferred = true;
  line('deferred', now(), `,"call":${call.id},"returned":"${returned}"`);
}

function end(call, n, began, ok, value, settled) {
  const at = elapsed();
  const ended = at - suspended();
  const took = ended - began;
  call.open -= 1;
  if (!call.deferred) defer(call, value, settled);
  if (n > spec.detail) {
    tallied(call, took, ok, at);
    // At most once a second; but the runner must not wait for the end of calls of which the last one has ended.
    if (ended >= call.tally.due || (call.open === 0 && call.reportedOpen > 0)) {
      call.tally.due = ended + EVERY;
      tell(call);
    }
    return;
  }
  const instant = now();
  call.reportedOpen = call.open;
  line('end', instant, `,"call":${call.id},"n":${n},"open":${call.open},"ok":${ok},"took":${Math.round(took)}`);
  due(instant);
  if (call.suspend && call.open === 0) call.suspend = suspend(call, n);
}

/** A promise that settles as the original does, when the call has been ended. Not handled on the caller's behalf:
 * a rejection that nobody catches still ends the program. */
function settling(call, n, began, promise) {
  const settled = promise.then(
    (value) => (end(call, n, began, true, value, true), value),
    (error) => {
      end(call, n, began, false);
      throw error;
    },
  );
  for (const key of Reflect.ownKeys(promise)) Object.defineProperty(settled, key, Object.getOwnPropertyDescriptor(promise, key));
  return settled;
}

/** Anything else with a `then` may be lazy (a query that runs when awaited), so it is watched, not called. */
function watched(call, n, began, thenable) {
  let open = true;
  const once = (ok, value) => open && ((open = false), end(call, n, began, ok, value, true));
  const { then } = thenable;
  const watchedThen = function (resolve, reject) {
    return then.call(
      this,
      (value) => (once(true, value), typeof resolve === 'function' ? resolve(value) : value),
      (error) => {
        once(false);
        if (typeof reject === 'function') return reject(error);
        throw error;
      },
    );
  };
  try {
    Object.defineProperty(thenable, 'then', { value: watchedThen, writable: true, configurable: true });
  } catch (error) {
    once(true);
  }
  return thenable;
}

function returned(call, n, began, result) {
  if (result !== null && typeof result === 'object') {
    if (isPromise(result)) return settling(call, n, began, result);
    if (typeof result.then === 'function') return watched(call, n, began, result);
  }
  end(call, n, began, true, result);
  return result;
}

/** Runs `body` as one call. */
function timed(call, body, a, b, c) {
  const n = (call.n += 1);
  call.open += 1;
  if (n <= spec.detail) begin(call, n);
  else if (call.open > 1) call.overlapped = true;
  const began = clock();
  let result;
  try {
    result = body(a, b, c);
  } catch (error) {
    end(call, n, began, false);
    throw error;
  }
  return returned(call, n, began, result);
}

/** The cost of timing one call, at most, in nanoseconds: that of a function that does nothing. */
function calibrate() {
  const probe = { ...newCall('""', false), n: spec.detail, tally: newTally(Infinity) };
  const empty = wrap(() => undefined, probe);
  const began = now();
  for (let i = 0; i < 2000; i += 1) empty();
  return (now() - began) / 2000;
}

function wrap(fn, call) {
  const proxy = new Proxy(fn, {
    apply: (target, self, args) => timed(call, Reflect.apply, target, self, args),
    construct: (target, args, made) => timed(call, Reflect.construct, target, args, made === proxy ? target : made),
  });
  return proxy;
}

/** The timed function for a call of the spec. */
function watch(fn, { id, suspend: suspends }) {
  const call = newCall(JSON.stringify(id), suspends);
  calls.push(call);
  return wrap(fn, call);
}

module.exports = { watch, report, reportResting };
