'use strict';
// A cache of 50 arrays of 800 kB each in the heap of JavaScript: behind strong references, weak ones, or as many of both.
const ITEMS = 50;
const NUMBERS = 100000;

exports.fill = (kind) => {
  const item = () => new Array(NUMBERS).fill(0.5);
  const make = (wanted) => (kind === wanted || kind === 'both' ? Array.from({ length: ITEMS }, item) : []);
  exports.strong = make('strong');
  exports.weak = make('weak').map((target) => new WeakRef(target));
  return exports.weak.filter((reference) => reference.deref()).length;
};
