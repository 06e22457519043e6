#!/usr/bin/env bash
# Prints a report in at most so many bytes: whole if it fits, else without its folded part.
#
# Arguments: the number of bytes, the file.
# shellcheck disable=SC2016 # backticks are Markdown's
set -euo pipefail

if [ "$(wc -c <"$2")" -le "$1" ]; then
  cat "$2"
  exit
fi
note='The whole report is too long to be shown here; it is the output `report` of the action.'
# `head` ends before it has read all of a long text, which is no failure of `sed`.
{ sed '/^<details>$/,/^<\/details>$/d' "$2" || true; } | head -c "$(($1 - 200))"
printf '\n\n%s\n' "$note"
