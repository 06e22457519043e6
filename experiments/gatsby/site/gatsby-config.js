// Nodes in the heap, or in LMDB by gatsby's own flag; page queries in the main process, or in WORKERS others.
module.exports = {
  flags: { LMDB_STORE: process.env.STORE === 'lmdb', PARALLEL_QUERY_RUNNING: Number(process.env.WORKERS) > 0 },
  plugins: [],
};
