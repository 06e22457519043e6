#!/bin/sh
# Gatsby 3.14.6 with the store it can swap, and the Node 14 it was made for, from npm.
# About 500 MB. The site's `node_modules` is a link, so that copies of the site stay small.
set -eu
cd "$(dirname "$0")/modules"
npm install --ignore-scripts
ln -sfn "$PWD/node_modules" ../site/node_modules
