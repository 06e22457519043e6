'use strict';
// Which files hold the functions to be timed. Also loaded by the thread that hooks ES modules, so it touches nothing.
const fs = require('fs');
const Module = require('module');
const path = require('path');
const { fileURLToPath } = require('url');

const spec = JSON.parse(fs.readFileSync(path.join(__dirname, 'spec.json'), 'utf8'));
const KNOWN = /\.[cm]?[jt]sx?$/;
const EXACT = /^\.{0,2}\//;
const MARK = 'prony-original';
// Taken now: programs replace the functions of `fs`.
const { existsSync, realpathSync } = fs;

/** The file behind all links: one that is loaded by two names is one file. */
function real(file) {
  try {
    return realpathSync(file);
  } catch (error) {
    return file;
  }
}

/** The one file that a path beginning with `./`, `../` or `/` names, or a package or a file without its ending, as the
 * program would resolve it. Null for the end of a path: every file whose path ends so fits it. */
function resolved(file) {
  if (KNOWN.test(file) && !EXACT.test(file)) return null;
  try {
    if (!Module.createRequire) return require.resolve(file, { paths: [spec.directory] }); // before Node 12.2
    return Module.createRequire(path.join(spec.directory, 'x.js')).resolve(file);
  } catch (error) {
    return EXACT.test(file) ? path.resolve(real(spec.directory), file) : null;
  }
}

/** Whether a file may be an ES module: by its ending, else by the nearest package.json; yes where it is not found. */
function mayBeEsm(file) {
  if (/\.c[jt]s$/.test(file)) return false;
  if (/\.m[jt]s$/.test(file)) return true;
  let directory = path.dirname(file);
  if (!existsSync(file)) return true;
  for (;;) {
    try {
      const { type } = JSON.parse(fs.readFileSync(path.join(directory, 'package.json'), 'utf8'));
      // Node 22.7 and later also recognise ES modules by their syntax where no type is given.
      return type === 'module' || (type === undefined && /^\s*(export|import)\s/m.test(fs.readFileSync(file, 'utf8')));
    } catch (error) {
      const up = path.dirname(directory);
      if (up === directory) return /^\s*(export|import)\s/m.test(fs.readFileSync(file, 'utf8'));
      directory = up;
    }
  }
}

function located(file) {
  const tries = [path.resolve(spec.directory, file), path.resolve(spec.directory, 'node_modules', file)];
  return tries.find((at) => existsSync(at)) || file;
}

const targets = spec.calls.map(({ id, call, suspend }, index) => {
  const at = call.lastIndexOf('#');
  const asked = call.slice(0, at);
  const exact = resolved(asked);
  // A package may be a link, whose file's own path ends otherwise.
  const file = real(exact || located(asked));
  const names = call.slice(at + 1).split('.');
  return { id, suspend, index, file, end: exact ? null : `/${asked}`, names, asked, esm: mayBeEsm(file) };
});
const bases = new Set([].concat(...targets.map(({ asked, file }) => [path.basename(asked), path.basename(file)]))); // flatMap: Node 11
const none = [];

/** The targets in a file. */
function matching(file) {
  if (typeof file !== 'string' || !bases.has(path.basename(file))) return none;
  const is = real(file);
  return targets.filter((target) => is === target.file || (target.end !== null && file.endsWith(target.end)));
}

const isModule = (loaded) => loaded.format === 'module' || loaded.format === 'module-typescript';

/** A module that exports what the one at `url` does, its targets watched; null where it has none. */
function facadeOf(url, source) {
  if (!url.startsWith('file:') || url.includes(MARK)) return null;
  const file = fileURLToPath(url);
  const hits = matching(file);
  if (hits.length === 0) return null;
  const original = JSON.stringify(`${url}${url.includes('?') ? '&' : '?'}${MARK}`);
  const names = [...new Set(hits.map(({ names: [first] }) => first))];
  const lines = [`import * as original from ${original};`, `export * from ${original};`];
  // Where modules import each other, one may call an export before this module has run. As a function it is there by then.
  const reexport = (name, variable, value) => {
    const real = `(${variable}Real = ${variable}Real || ${value})`;
    const why = `prony cannot time ${name}: a module that this one imports in turn took its constructor before it was loaded`;
    lines.push(`var ${variable}Real;`);
    lines.push(`function ${variable}(...args) { if (new.target) throw new ReferenceError('${why}'); return Reflect.apply(${real}, this, args); }`);
    // With what importers have set on it while the modules were loaded.
    lines.push(`if (Object.keys(${variable}).length > 0) Object.assign(${real}, ${variable});`);
    lines.push(`${variable} = ${real};`, `export { ${variable} as ${name} };`);
  };
  names.forEach((name, i) => {
    const first = hits.filter((target) => target.names[0] === name);
    const facade = `globalThis[Symbol.for('prony.probe')].facade(original, at, ${JSON.stringify(file)}, now)`;
    const value = `original[${JSON.stringify(name)}]`;
    reexport(name, `watched${i}`, `[${first.map(({ index }) => index)}].reduce((now, at) => ${facade}, ${value})`);
  });
  if (!names.includes('default') && /\bdefault\b/.test(String(source))) reexport('default', 'other', 'original.default');
  return { format: 'module', shortCircuit: true, source: lines.join('\n') };
}

module.exports = { targets, matching, real, isModule, facadeOf };
