'use strict';
// Times of hot functions in classes of a 128th of a power of two.
const SUB = 128; // classes for each power of two
const LINE_ROOM = 3600; // characters that the classes of one line may take
const double = new Float64Array(1);
const halves = new Uint32Array(double.buffer);

/** Counts a time in its class: its exponent, and the first seven bits of its mantissa, straight from the number. `powers` has
 * an array for each power of two that occurred: one for all classes would be 55 kB for each function. */
function classify(powers, nanoseconds) {
  double[0] = nanoseconds < 1 ? 1 : nanoseconds;
  const power = (halves[1] >>> 20) - 1023;
  const counts = powers[power] || (powers[power] = new Float64Array(SUB));
  counts[(halves[1] >>> 13) & (SUB - 1)] += 1;
}

/** Counts of classes in runs of neighbours: the class of the first count, and the counts. */
function runs(powers, sub) {
  const all = [];
  let last = -1;
  const add = (count, at) => {
    const run = all[all.length - 1];
    if (at === last) run[run.length - 1] += count;
    else if (run && at === last + 1) run.push(count);
    else all.push([at, count]);
    last = at;
  };
  powers.forEach((counts, power) => counts.forEach((count, part) => count > 0 && add(count, Math.floor((power + part / SUB) * sub))));
  return all;
}

/** Counts of classes as text, coarser by half until they fit into a line. */
function histogram(powers) {
  for (let sub = SUB; ; sub /= 2) {
    const text = JSON.stringify(runs(powers, sub));
    if (text.length < LINE_ROOM || sub === 1) return `"sub":${sub},"classes":${text}`;
  }
}

module.exports = { classify, histogram };
