'use strict';
// Children for which the program made the environment itself are probed too: only the loading of the probe is added.
const { ChildProcess } = require('child_process');
const { exited } = require('./channel.cjs');

/** The environment with the probe in NODE_OPTIONS, appended to its value. */
function withProbe(pairs, option) {
  const at = pairs.findIndex((pair) => pair.startsWith('NODE_OPTIONS='));
  if (at < 0) return [...pairs, `NODE_OPTIONS=${option}`];
  if (pairs[at].includes(option)) return pairs;
  return pairs.map((pair, i) => (i === at ? `${pair} ${option}` : pair));
}

function install() {
  const path = `${__dirname}/prony-probe.cjs`;
  // Node 12 and later read quotes; older ones take them as part of the name.
  const option = `--require ${/[\s"\\]/.test(path) ? JSON.stringify(path) : path}`;
  const { spawn } = ChildProcess.prototype;
  ChildProcess.prototype.spawn = function (options, ...rest) {
    if (options && Array.isArray(options.envPairs)) options.envPairs = withProbe(options.envPairs, option);
    return spawn.call(this, options, ...rest);
  };
  // A worker that is terminated sends nothing any more. The event exists from Node 16.2.
  process.on('worker', (worker) => {
    const { threadId } = worker;
    worker.once('exit', () => exited(threadId));
  });
}

module.exports = { install, withProbe };
