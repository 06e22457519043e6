'use strict';
// Loaded by --require before the program, in every Node process and worker thread. Runs on Node 8.10 and later, keeps
// no event loop alive, opens no port, writes nothing but lines to the channel named in spec.json, and never throws.
// Older ones are given it too, for nobody knows which Node a command will start: this file must parse there, and nothing
// of it may run.
const [major, minor] = process.versions.node.split('.').map(Number);
const known = major > 8 || (major === 8 && minor >= 10); // SharedArrayBuffer
const hrtime = process.hrtime();
const began = hrtime[0] * 1e9 + hrtime[1];
const used = known ? process.memoryUsage().heapUsed : 0;

/** Calls `report` after all of the program's own listeners of `exit`, whose work counts too. One of them may end the process
 * at once; and a program may emit `exit` itself and go on. */
function atEnd(report) {
  const own = process;
  const { emit, reallyExit } = own;
  let reported = false;
  const end = () => {
    if (!reported) report();
    reported = true;
  };
  own.emit = function (name) {
    if (name !== 'exit' || this !== own) return Reflect.apply(emit, this, arguments);
    reported = false;
    try {
      return Reflect.apply(emit, this, arguments);
    } finally {
      end();
    }
  };
  own.reallyExit = function () {
    end();
    return Reflect.apply(reallyExit, this, arguments);
  };
}

function start() {
  const loaded = Symbol.for('prony.probe');
  if (global[loaded] || process.env.PRONY_HOOKS_THREAD) return;
  const channel = require('./channel.cjs');
  if (!channel.open()) return;
  const heap = require('./heap.cjs');
  // A program without functions to time does not pay for what times them.
  const modules = channel.spec.calls.length === 0 ? null : require('./modules.cjs');
  Object.defineProperty(global, loaded, { value: { facade: modules && modules.facade } });
  channel.hello(modules === null ? [] : modules.install());
  require('./children.cjs').install();
  heap.install(modules && modules.reportResting);
  if (modules !== null) process.on('exit', modules.suspendAgain);
  atEnd(() => {
    if (modules !== null) modules.report();
    heap.line('exit');
    channel.bye();
  });
  channel.started(began, Math.max(0, process.memoryUsage().heapUsed - used));
}

try {
  if (known) start();
} catch (error) {
  // A program must run without its probe too; the runner notices that no `hello` came.
}
