#!/usr/bin/env bash
# Whether two builds of prony measure the same on each engine: another compiler, C library or allocator may change what an
# engine costs. Trials of both builds alternate; the ratio of each phase's CPU time is taken within each round.
#
#     bench/builds/run.sh BINARY OTHER [ROUNDS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
one=$(realpath "$1") other=$(realpath "$2") rounds=${3:-15}
mkdir -p "$here/../../target"
folder=$(mktemp -d "$(realpath "$here/../../target")/builds.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export PRONY_RUNS=off

# One trial of each engine, as lines: round, build, engine, phase, CPU time.
round() {
  rm -f trial.db*
  "$2" run "$here/engines.toml" --quiet --blocks 1 --database trial.db > /dev/null 2>&1
  "$2" report --format csv --database trial.db > trial.csv
  python3 - "$1" "$3" <<'PYTHON'
import csv, sys
for row in csv.DictReader(open("trial.csv")):
    if row["metric"] == "cpu" and row["phase"] in ("write", "read", "scan"):
        print(sys.argv[1], sys.argv[2], row["factor.store"], row["phase"], row["value"])
PYTHON
}

for ((n = 0; n < rounds; n++)); do
  # Each of the two is first in every other round.
  if ((n % 2)); then round "$n" "$other" other; fi
  round "$n" "$one" one
  if ! ((n % 2)); then round "$n" "$other" other; fi
done > times
printf '%s rounds; load %s\nCPU time by `%s`, divided by that of `%s`: median, and an interval of it with at least 95 %%\n' \
  "$rounds" "$(cut -d' ' -f1-3 /proc/loadavg)" "$1" "$2"
python3 - <<'PYTHON'
from collections import defaultdict
from math import comb
from statistics import median
times = defaultdict(dict)
for line in open("times"):
    number, build, engine, phase, value = line.split()
    times[engine, phase].setdefault(number, {})[build] = float(value)
for (engine, phase), rounds in times.items():
    ratios = sorted(pair["one"] / pair["other"] for pair in rounds.values())
    n = len(ratios)
    # The order statistics between which the median of all rounds lies, by the sign test.
    low = max((k for k in range(n // 2) if 2 * sum(comb(n, j) for j in range(k + 1)) <= 0.05 * 2**n), default=None)
    interval = "too few rounds" if low is None else f"{ratios[low]:.3f} to {ratios[n - 1 - low]:.3f}"
    print(f"{engine:<8}{phase:<7}{median(ratios):.3f}  ({interval})")
PYTHON
