'use strict';
// Times of hot functions in classes of a sixteenth of a power of two.
const SUB = 16; // classes for each power of two
const LINE_ROOM = 3600; // characters that the classes of one line may take
const double = new Float64Array(1);
const halves = new Uint32Array(double.buffer);

/** The class of a time: its exponent and the first four bits of its mantissa, straight from the number. */
function classOf(nanoseconds) {
  double[0] = nanoseconds < 1 ? 1 : nanoseconds;
  return (halves[1] >>> 16) - (1023 << 4);
}

/** Counts of classes as text, coarser by half until they fit into a line. */
function histogram(classes) {
  for (let sub = SUB; ; sub /= 2) {
    const counts = new Map();
    classes.forEach((count, i) => {
      const to = Math.floor((i * sub) / SUB);
      if (count > 0) counts.set(to, (counts.get(to) || 0) + count);
    });
    const text = JSON.stringify([...counts]);
    if (text.length < LINE_ROOM || sub === 1) return `"sub":${sub},"classes":${text}`;
  }
}

module.exports = { CLASSES: 54 * SUB, classOf, histogram };
