#!/usr/bin/env bash
# Ends with the exit code of the run, now that its results are reported.
#
# Reads EXIT_CODE.
set -euo pipefail

case $EXIT_CODE in
  0) ;;
  1) echo "::error::prony: the result is negative (exit code 1); the report says why" ;;
  *) echo "::error::prony: it could not be measured or judged (exit code $EXIT_CODE); the report says why" ;;
esac
exit "$EXIT_CODE"
