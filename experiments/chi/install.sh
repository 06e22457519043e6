#!/bin/sh
# The Perl modules of the original, from Debian's packages: CHI, LMDB_File, Cache::FastMmap.
set -eu
apt-get install -y --no-install-recommends perl libchi-perl liblmdb-file-perl libcache-fastmmap-perl
