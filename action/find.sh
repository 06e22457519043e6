#!/usr/bin/env bash
# Finds the `prony` to use: the one that is given, or the one that `build.sh` builds of these sources.
#
# Reads PRONY_GIVEN. Writes the outputs `prony` and, if it is to be built, `root` and `key` of the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

if [ -n "${PRONY_GIVEN:-}" ]; then
  prony=$PRONY_GIVEN
  # A name without a slash is looked up, as in a shell.
  case $prony in
    */*) prony=$(cd "$(dirname "$prony")" 2>/dev/null && pwd)/$(basename "$prony") || prony=$PRONY_GIVEN ;;
    *) prony=$(command -v "$prony") || prony=$PRONY_GIVEN ;;
  esac
  if ! "$prony" --version; then
    echo "::error::\`prony\` cannot be run: $PRONY_GIVEN. Give the path of a prony, or leave the input \`prony\` out."
    exit 2
  fi
  printf 'prony=%s\n' "$prony" >>"$GITHUB_OUTPUT"
  exit
fi

# The name of a branch would stay the same when its sources change.
digest=$(cd "$here" && find Cargo.toml Cargo.lock .cargo crates -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
key="prony-${RUNNER_OS:-Linux}-${RUNNER_ARCH:-$(uname -m)}-${digest:0:20}"
root="${XDG_CACHE_HOME:-$HOME/.cache}/prony-action/$key"
printf 'root=%s\nkey=%s\nprony=%s\n' "$root" "$key" "$root/bin/prony" >>"$GITHUB_OUTPUT"
