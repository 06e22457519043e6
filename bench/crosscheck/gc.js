// Allocates short-lived objects and keeps some, so that V8 collects its young and its old generation, then idles.
const kept = [];
for (let round = 0; round < 400; round += 1) {
  const batch = [];
  for (let i = 0; i < 5000; i += 1) batch.push({ round, i, text: `${round}.${i}` });
  if (round % 10 === 0) kept.push(batch);
}
setTimeout(() => console.log(`kept ${kept.length}`), 300);
