// A second or so of arithmetic and calls, with next to nothing on the heap.
let state = 0x9e3779b9
const mix = (x) => { x ^= x << 13; x ^= x >>> 17; return (x ^ (x << 5)) >>> 0 }
for (let i = 0; i < 200_000_000; i++) state = mix(state + i)
console.log(state)
