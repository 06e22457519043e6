'use strict';
// Finds the functions to be timed, as their modules load, and replaces them by timed ones.
const Module = require('module');
const path = require('path');
const { pathToFileURL } = require('url');
const isModuleNamespaceObject = (require('util').types || {}).isModuleNamespaceObject || (() => false); // Node 10
const { spec, now, line } = require('./channel.cjs');
const { watch, report, reportResting } = require('./calls.cjs');
const { suspendAgain } = require('./suspend.cjs');
const { targets, matching, real, isModule, facadeOf } = require('./targets.cjs');

const watched = new Map(); // function -> the timed one, for each call

function found(target, file) {
  line('found', now(), `,"call":${JSON.stringify(target.id)},"file":${JSON.stringify(real(file).slice(-1024))}`);
}

function missed(target, file, why) {
  line('not_found', now(), `,"call":${JSON.stringify(target.id)},"file":${JSON.stringify(file.slice(-1024))},"why":${JSON.stringify(why)}`);
}

/** The timed function that replaces `fn`, the same one each time; `fn` itself where it is not a function. */
function replacement(fn, target, file) {
  if (typeof fn !== 'function') return fn;
  const known = watched.get(target.id) || new WeakMap();
  watched.set(target.id, known);
  if (!known.has(fn)) {
    const instead = watch(fn, target);
    known.set(fn, instead).set(instead, instead);
    found(target, file);
  }
  return known.get(fn);
}

/** Puts the watched function at `owner[key]`; returns the owner, or its copy where it cannot be changed. */
function replace(owner, key, target, file) {
  const is = Object.getOwnPropertyDescriptor(owner, key);
  const now = is && is.get
    ? { get: () => replacement(is.get.call(owner), target, file), enumerable: is.enumerable, configurable: true }
    : { value: replacement(owner[key], target, file), enumerable: is ? is.enumerable : true, configurable: true, writable: true };
  if (!is || is.configurable) return Object.defineProperty(owner, key, now);
  if (is.writable) {
    owner[key] = now.value;
    return owner;
  }
  // Compilers export by getters that cannot be redefined, so the module's importers get a copy with the same getters.
  return Object.create(Object.getPrototypeOf(owner), { ...Object.getOwnPropertyDescriptors(owner), [key]: now });
}

/** The object that contains a nested name such as `Store.prototype.put`. */
function ownerOf(exports, names) {
  return names.slice(0, -1).reduce((at, name) => (at === null || at === undefined ? at : at[name]), exports);
}

/** The exports with the function of `target` watched. */
function patched(exports, target, file) {
  const { names } = target;
  const [first] = names;
  if (names.length === 1 && first === 'default' && typeof exports === 'function') {
    const instead = replacement(exports, target, file);
    if (exports.default === exports) replace(exports, 'default', target, file);
    return instead;
  }
  const inside = exports && !(first in Object(exports)) && exports.default ? exports.default : exports;
  const owner = ownerOf(inside, names);
  const key = names[names.length - 1];
  const is = owner === null || owner === undefined ? undefined : Object.getOwnPropertyDescriptor(Object(owner), key);
  if (!is || (!is.get && typeof is.value !== 'function')) {
    missed(target, file, is ? 'the export is not a function' : 'no such export');
    return exports;
  }
  const changed = replace(owner, key, target, file);
  if (changed === owner || owner === exports) return changed === owner ? exports : changed;
  missed(target, file, 'the export cannot be replaced');
  return exports;
}

function patchLoaded(module, file) {
  if (isModuleNamespaceObject(module.exports)) return; // an ES module: its facade has done it
  for (const target of matching(file)) {
    try {
      module.exports = patched(module.exports, target, file);
    } catch (error) {
      missed(target, file, String(error.message).slice(0, 300));
    }
  }
}

function hookCommonJs() {
  const { load } = Module.prototype;
  Module.prototype.load = function (file, ...rest) {
    const result = load.call(this, file, ...rest);
    if (matching(file).length > 0) patchLoaded(this, file);
    return result;
  };
}

/**
 * For the facade of an ES module: the watched export, or, for a nested name, the export it stands in. `top` is the export as the
 * targets before this one have left it.
 */
function facade(namespace, index, file, top) {
  const target = targets[index];
  const [first] = target.names;
  if (target.names.length > 1) {
    patched({ [first]: top }, target, file);
    return top;
  }
  if (typeof top === 'function') return replacement(top, target, file);
  missed(target, file, first in namespace ? 'the export is not a function' : 'no such export');
  return top;
}

function hookEsModules() {
  if (typeof Module.registerHooks === 'function') {
    Module.registerHooks({
      load(url, context, nextLoad) {
        const loaded = nextLoad(url, context);
        return isModule(loaded) ? facadeOf(url, loaded.source) || loaded : loaded;
      },
    });
    return null;
  }
  if (typeof Module.register !== 'function') return `ES modules cannot be hooked in Node ${process.versions.node}: it takes 18.19, 20.6 or later`;
  // The thread that this starts inherits --require, and must not pass for one of the program's.
  process.env.PRONY_HOOKS_THREAD = '1';
  Module.register(pathToFileURL(path.join(__dirname, 'esm-loader.mjs')).href);
  delete process.env.PRONY_HOOKS_THREAD;
  return null;
}

/** Hooks what the spec asks for; returns what this Node cannot do. */
function install() {
  hookCommonJs();
  const why = targets.some((target) => target.esm) ? hookEsModules() : null;
  return why === null ? [] : targets.filter((target) => target.esm).map(({ id }) => ({ call: id, why }));
}

module.exports = { install, facade, report, reportResting, suspendAgain };
