#!/bin/sh
# The map server and the Node.js of its time from npm, LevelDB compiled for that, and files of map changes to upload.
# Needs a C++ compiler, make and python3, which node-gyp runs.
set -eu
cd "$(dirname "$0")"
(
  cd server
  npm ci --ignore-scripts
  cd node_modules/leveldown
  # The headers of Node 8 are in its package; node-gyp would fetch them from elsewhere.
  gyp=$(npm root -g)/npm/node_modules/node-gyp/bin/node-gyp.js
  node "$gyp" rebuild --nodedir="$PWD/../node-8" --target=8.17.0
)
for elements in 3_200 32_000; do
  node ../parsers/changeset.js --elements "$(echo $elements | tr -d _)" --seed 2017 --changeset CHANGESET --output "changeset-$elements.xml"
done
