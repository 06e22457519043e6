// A second or so of short-lived objects beside some that stay: the collector is at work all the time.
const kept = new Map()
for (let i = 0; i < 6_000_000; i++) {
  const node = { id: `/path/${i}/`, step: i, internal: { type: 'Test', contentDigest: String(i) } }
  kept.set(i % 50_000, node)
}
console.log(kept.size)
