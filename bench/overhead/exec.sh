#!/usr/bin/env bash
# What `prony exec` costs beside the program it runs, and how near its times come to those of the plainest launcher:
# prony, hyperfine -N (where it is installed) and a launcher of some lines of C, alternately, ROUNDS times RUNS runs of
# PROGRAM each.
#
#     bench/overhead/exec.sh [RUNS [ROUNDS [PROGRAM]]]        # after `cargo build --release -p prony`
set -euo pipefail
cd "$(dirname "$0")/../.."
prony=${PRONY:-$PWD/target/release/prony}
runs=${1:-200} rounds=${2:-9} program=${3:-true}
folder=$(mktemp -d "$PWD/target/overhead.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cc -O2 -o "$folder/launcher" bench/overhead/launcher.c
cd "$folder"

now() { date +%s%N; }
# The numbers of a column: smallest and middle, in microseconds.
low() { sort -n "$1" | awk '{ x[NR] = $1 } END { printf "%.0f %.0f", x[1] / 1000, x[int((NR + 1) / 2)] / 1000 }'; }
# The median of a result as hyperfine writes it, in nanoseconds.
median() { awk -F'[:,]' '/"median"/ { printf "%.0f\n", $2 * 1e9; exit }' "$1"; }

for ((round = 0; round < rounds; round++)); do
  begin=$(now); "$prony" exec --quiet --runs "$runs" --export-hyperfine-json p.json -- "$program" > /dev/null; echo $(( ($(now) - begin) / runs )) >> prony.each
  median p.json >> prony.read
  if command -v hyperfine > /dev/null; then
    begin=$(now); hyperfine -N --runs "$runs" --export-json h.json "$program" > /dev/null 2>&1
    echo $(( ($(now) - begin) / runs )) >> hyperfine.each
    median h.json >> hyperfine.read
  fi
  read -r _ _ middle < <(begin=$(now); ./launcher "$runs" "$program"; echo $(( ($(now) - begin) / runs )) >> launcher.each)
  echo "$middle" >> launcher.read
done

printf '%s runs of %s, %s rounds; load %s\n' "$runs" "$program" "$rounds" "$(cut -d' ' -f1-3 /proc/loadavg)"
printf '%-10s %28s %28s\n' '' 'a run in all, us (min, mid)' 'read as its time, us (min, mid)'
for tool in launcher hyperfine prony; do
  [ -e "$tool.each" ] && printf '%-10s %28s %28s\n' "$tool" "$(low "$tool.each")" "$(low "$tool.read")"
done
for tool in hyperfine launcher; do
  [ -e "$tool.each" ] || continue
  paste prony.each "$tool.each" | awk -v t="$tool" '{ print $1 / $2 }' > ratio
  printf 'a run by prony / by %-10s %s\n' "$tool" "$(sort -n ratio | awk '{ x[NR] = $1 } END { printf "%.2f", x[int((NR + 1) / 2)] }')"
done
