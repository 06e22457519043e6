#!/bin/sh
# The lmdb package from npm, in the version of the lock file; its platform package carries the compiled library.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts
