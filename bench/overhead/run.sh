#!/usr/bin/env bash
# What a trial of a store costs beside what it measures: the time from the begin of one trial to that of the next where
# the only phase does nothing, and that of starting the one process that every trial needs. With OTHER, the binary of
# another build, both alternate, and the ratio is printed.
#
#     bench/overhead/run.sh [TRIALS [ROUNDS [OTHER]]]        # after `cargo build --release -p prony`
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

# Microseconds from one begin to the next; the first trials fill caches.
each() {
  rm -f x.db*
  "$1" run empty.toml -q --json --database x.db --blocks "$trials" > /dev/null
  python3 - <<PYTHON
import sqlite3
database = sqlite3.connect("x.db")
known = [row[1] for row in database.execute("pragma table_info(trials)")]
started = "started_unix_ms" if "started_unix_ms" in known else "json_extract(record, '$.started_unix_ms')"
at = [row[0] for row in database.execute(f"select {started} from trials order by position")][10:]
print(round(1000 * (at[-1] - at[0]) / (len(at) - 1)))
PYTHON
}
start() { local begin; begin=$(date +%s%N); for _ in {1..20}; do "$prony" worker < /dev/null 2> /dev/null || true; done; echo $(( ($(date +%s%N) - begin) / 20000 )); }
# Smallest, middle and largest of a column.
spread() { sort -n "$1" | awk -v f="$2" '{ x[NR] = $1 } END { printf f, x[int((NR + 1) / 2)], x[1], x[NR] }'; }

for ((round = 0; round < rounds; round++)); do
  [ -n "$other" ] && each "$other" >> other
  each "$prony" >> own
  start >> process
done
printf '%s rounds of %s trials; load %s\n' "$rounds" "$trials" "$(cut -d' ' -f1-3 /proc/loadavg)"
spread own 'a trial                  %d us (middle; %d to %d)\n'
spread process 'starting its process     %d us (middle; %d to %d)\n'
if [ -n "$other" ]; then
  spread other 'a trial by the other     %d us (middle; %d to %d)\n'
  paste own other | awk '{ print $1 / $2 }' > ratio
  spread ratio 'ratio of the two         %.3f (middle; %.3f to %.3f)\n'
fi
