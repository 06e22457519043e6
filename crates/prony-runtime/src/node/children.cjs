'use strict';
// Children whose environment the program made itself are probed too: only what loads the probe is added to it.
const { ChildProcess } = require('child_process');
const { exited } = require('./channel.cjs');

/** The environment with the probe in NODE_OPTIONS, appended to what stands there. */
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
  // A worker that is terminated says nothing any more. The event is there from Node 16.2.
  process.on('worker', (worker) => {
    const { threadId } = worker;
    worker.once('exit', () => exited(threadId));
  });
}

module.exports = { install, withProbe };
