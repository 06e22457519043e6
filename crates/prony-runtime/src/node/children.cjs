'use strict';
// Children for which the program made the environment itself are probed too: only the loading of the probe is added.
const children = require('child_process');
const Module = require('module');
const { exited } = require('./channel.cjs');

const { ChildProcess } = children;
const SYNC = ['spawnSync', 'execSync', 'execFileSync'];

/** The environment with the probe in NODE_OPTIONS, appended to its value. */
function withProbe(pairs, option) {
  const at = pairs.findIndex((pair) => pair.startsWith('NODE_OPTIONS='));
  if (at < 0) return [...pairs, `NODE_OPTIONS=${option}`];
  if (pairs[at].includes(option)) return pairs;
  return pairs.map((pair, i) => (i === at ? `${pair} ${option}` : pair));
}

/** What Node takes of the environment of a child: inherited properties too, as of `Object.create(process.env)`. */
function withInherited(env) {
  const all = {};
  for (const name in env) all[name] = env[name];
  return all;
}

/** The options of a child or a worker thread: where they have an environment of their own, a copy of it with the probe. */
function ownEnvironment(options, option, copy) {
  if (options === null || typeof options !== 'object' || Array.isArray(options)) return options;
  const { env } = options;
  // `SHARE_ENV` is a symbol: the environment of this thread has the probe.
  if (env === null || typeof env !== 'object') return options;
  const copied = copy(env);
  const [own] = withProbe(copied.NODE_OPTIONS === undefined ? [] : [`NODE_OPTIONS=${copied.NODE_OPTIONS}`], option);
  copied.NODE_OPTIONS = own.slice('NODE_OPTIONS='.length);
  return { ...options, env: copied };
}

/** Adds the probe to the environments that calls of these functions are given. */
function installSync(option) {
  for (const name of SYNC) {
    const original = children[name];
    const own = (self, args) => Reflect.apply(original, self, args.map((arg) => ownEnvironment(arg, option, withInherited)));
    children[name] = new Proxy(original, { apply: (_, self, args) => own(self, args) });
  }
}

/** The same for workers, once the program requires their module: its loading takes longer than that of the probe. */
function installWorkers(option) {
  const { _load } = Module;
  // Node takes the own properties of a worker's environment only.
  const copy = (env) => ({ ...env });
  let done = false;
  Module._load = function (request, ...rest) {
    const loaded = Reflect.apply(_load, this, [request, ...rest]);
    if (done || (request !== 'worker_threads' && request !== 'node:worker_threads')) return loaded;
    done = true;
    const { Worker } = loaded;
    const proxy = new Proxy(Worker, {
      construct: (target, [file, options], made) => Reflect.construct(target, [file, ownEnvironment(options, option, copy)], made === proxy ? target : made),
    });
    loaded.Worker = proxy;
    return loaded;
  };
}

function install() {
  // In the trial that is profiled they load the profiler too, and first, as the program does.
  const files = [global[Symbol.for('prony.profile')], `${__dirname}/prony-probe.cjs`].filter(Boolean);
  // Node 12 and later read quotes; older ones take them as part of the name.
  const option = files.map((path) => `--require ${/[\s"\\]/.test(path) ? JSON.stringify(path) : path}`).join(' ');
  const { spawn } = ChildProcess.prototype;
  ChildProcess.prototype.spawn = function (options, ...rest) {
    if (options && Array.isArray(options.envPairs)) options.envPairs = withProbe(options.envPairs, option);
    return spawn.call(this, options, ...rest);
  };
  installSync(option);
  installWorkers(option);
  // A worker that is terminated sends nothing any more. The event exists from Node 16.2.
  process.on('worker', (worker) => {
    const { threadId } = worker;
    worker.once('exit', () => exited(threadId));
  });
}

module.exports = { install, withProbe };
