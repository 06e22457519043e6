#!/usr/bin/env bash
# Builds prony of these sources, unless a given or cached one is there.
#
# Reads PRONY, the program, and PRONY_ROOT, where it is to be installed.
set -euo pipefail

if "$PRONY" --version >/dev/null 2>&1; then
  exit
fi
if ! command -v cargo >/dev/null; then
  echo "::error::cargo is missing. Install Rust 1.90 or newer and a C compiler on the runner, or name a prony with the input \`prony\`."
  exit 2
fi
# Here, since cargo reads the flags of this workspace from the current directory.
cd "$(dirname "$0")/.."
if ! CARGO_TARGET_DIR=$RUNNER_TEMP/prony-target cargo install --locked --path crates/prony --root "$PRONY_ROOT"; then
  echo "::error::prony could not be built. It needs Rust 1.90 or newer and a C compiler."
  exit 2
fi
rm -rf "$RUNNER_TEMP/prony-target"
"$PRONY" --version
