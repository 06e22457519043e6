#!/usr/bin/env bash
# What a trial of a store costs beside what it measures: the time from the begin of one trial to that of the next where
# the only phase does nothing, and that of starting the one process that every trial needs. With OTHER, the binary of
# another build, both alternate, and the ratio is printed.
#
#     bench/overhead/run.sh [TRIALS [ROUNDS [OTHER]]]    # after `cargo build --release -p prony`
set -euo pipefail
cd "$(dirname "$0")/../.."
prony=${PRONY:-$PWD/target/release/prony}
trials=${1:-200} rounds=${2:-7} other=${3:+$(realpath "$3")}
folder=$(mktemp -d "$PWD/target/overhead.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat > empty.toml <<TOML
[store]
engine = "memory"
[data]
records = 1
key = "k{i}"
value = { bytes = 1 }
[[phase]]
name = "nothing"
pause = "1 ns"
TOML

# Microseconds from one begin to the next, of all but the first ten trials, which fill caches.
each() {
  rm -f x.db*
  "$1" run empty.toml -q --json --database x.db --blocks "$trials" > /dev/null
  python3 - <<PYTHON
import sqlite3
database = sqlite3.connect("x.db")
started = "json_extract(record, '$.started_unix_ms')"
at = [row[0] for row in database.execute(f"select {started} from trials order by position")][10:]
print(round(1000 * (at[-1] - at[0]) / (len(at) - 1)))
PYTHON
}
start() { local begin; begin=$(date +%s%N); for _ in {1..20}; do "$prony" worker < /dev/null 2> /dev/null || true; done; echo $(( ($(date +%s%N) - begin) / 20000 )); }
# The median of a column, and of its sorted values the two between which the median of all rounds lies with 95 %.
median() {
  sort -n "$1" | awk -v f="$2" '
    { x[NR] = $1 }
    END {
      low = 0; tail = chance = 0.5 ^ NR
      while (low + 1 < NR / 2 && tail <= 0.025) { low++; chance *= (NR - low + 1) / low; tail += chance }
      middle = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
      interval = low ? sprintf(f " to " f, x[low], x[NR + 1 - low]) : "none, too few rounds"
      printf f " (95 %% interval: %s)\n", middle, interval
    }'
}

for ((round = 0; round < rounds; round++)); do
  # Each of the two is first in every other round.
  if [ -n "$other" ] && ((round % 2)); then each "$other" >> other; fi
  each "$prony" >> own
  if [ -n "$other" ] && ! ((round % 2)); then each "$other" >> other; fi
  start >> process
done
printf '%s rounds of %s trials; load %s\n' "$rounds" "$trials" "$(cut -d' ' -f1-3 /proc/loadavg)"
printf 'a trial, us:              '; median own %.0f
printf 'starting its process, us: '; median process %.0f
if [ -n "$other" ]; then
  printf 'a trial by the other, us: '; median other %.0f
  paste own other | awk '{ print $1 / $2 }' > ratio
  printf 'ratio of the two:         '; median ratio %.3f
fi
