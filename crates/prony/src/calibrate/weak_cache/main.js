'use strict';
require('./cache.js').fill(process.argv[2]);
