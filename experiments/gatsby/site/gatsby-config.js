// Nodes in the heap, or in LMDB by gatsby's own flag.
module.exports = {
  flags: { LMDB_STORE: process.env.STORE === 'lmdb' },
  plugins: [],
};
