#!/usr/bin/env bash
# Whether two builds of prony measure the same on each engine: another compiler, C library or allocator may change what an
# engine costs. Trials of both builds alternate; the ratios of a phase's CPU time, of the time in the engine's operations and
# of the peak of resident memory are taken within each round. Beside other work on the machine the time says little.
# The peak includes pages of the binary, of which the kernel maps more or fewer: the same two files gave 1.03 and 0.94.
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

# One trial of an engine, as lines: round, build, engine, phase, metric, value.
trial() {
  rm -f trial.db*
  "$2" run "$here/engines.toml" --quiet --blocks 1 --only "store=$4" --database trial.db > /dev/null 2>&1
  "$2" report --format csv --database trial.db > trial.csv
  python3 - "$1" "$3" "$4" <<'PYTHON'
import csv, sys
for row in csv.DictReader(open("trial.csv")):
    if row["metric"] in ("cpu", "time", "rss.peak") and row["phase"] in ("write", "read", "scan") and row["value"]:
        print(*sys.argv[1:], row["phase"], row["metric"], row["value"])
PYTHON
}

for ((n = 0; n < rounds; n++)); do
  for engine in memory lmdb sqlite redb fjall; do
    # Each of the two is first in every other round.
    if ((n % 2)); then trial "$n" "$other" other "$engine"; fi
    trial "$n" "$one" one "$engine"
    if ! ((n % 2)); then trial "$n" "$other" other "$engine"; fi
  done
done > values
printf '%s rounds; load %s\n`%s`, divided by `%s`: median, and an interval of it with at least 95 %%\n' \
  "$rounds" "$(cut -d' ' -f1-3 /proc/loadavg)" "$1" "$2"
python3 - <<'PYTHON'
from collections import defaultdict
from math import comb
from statistics import median
METRICS = ["cpu", "time", "rss.peak"]
values = defaultdict(lambda: defaultdict(dict))
for line in open("values"):
    number, build, engine, phase, metric, value = line.split()
    values[engine, phase, metric][number][build] = float(value)

def ratio(rounds):
    ratios = sorted(pair["one"] / pair["other"] for pair in rounds.values() if len(pair) == 2)
    n = len(ratios)
    if n == 0:
        return "missing"
    # The order statistics between which the median of all rounds lies, by the sign test.
    low = max((k for k in range(n // 2) if 2 * sum(comb(n, j) for j in range(k + 1)) <= 0.05 * 2**n), default=None)
    interval = "too few rounds" if low is None else f"{ratios[low]:.3f} to {ratios[n - 1 - low]:.3f}"
    return f"{median(ratios):.3f} ({interval})"

print(f"{'':<15}" + "".join(f"{metric:<25}" for metric in METRICS).rstrip())
for engine, phase in dict.fromkeys((engine, phase) for engine, phase, _ in values):
    columns = "".join(f"{ratio(values[engine, phase, metric]):<25}" for metric in METRICS)
    print(f"{engine:<8}{phase:<7}{columns}".rstrip())
PYTHON
