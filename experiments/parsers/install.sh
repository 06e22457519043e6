#!/bin/sh
# Both parsers from npm, in the versions of the lock file, and an osmChange of 18 MB to parse.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts
node changeset.js --bytes 18MB --seed 2017 --output changeset.xml
