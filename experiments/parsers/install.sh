#!/bin/sh
# Both parsers from npm, in the versions of the lock file, and an osmChange of 18 MB to parse.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts
"${PRONY:-prony}" data --to osmchange --bytes 18MB --seed 2017 --output changeset.xml
