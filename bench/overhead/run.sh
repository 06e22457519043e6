#!/usr/bin/env bash
# What a trial costs beside what it measures: TRIALS trials of an empty phase, against starting the two processes that
# every trial needs (a supervisor and a worker), alternately, in one run.
#
#     bench/overhead/run.sh [TRIALS]        # after `cargo build --release`
set -euo pipefail
cd "$(dirname "$0")/../.."
prony=$PWD/target/release/prony
trials=${1:-1000}
folder=$(mktemp -d "$PWD/target/overhead.XXXXXX")
trap 'rm -rf "$folder"' EXIT

now() { date +%s%N; }

experiment() {
  cat <<TOML
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
}

experiment > "$folder/empty.toml"
cd "$folder"

timed() { local begin; begin=$(now); "$@" > /dev/null; echo $(( $(now) - begin )); }
run() { timed "$prony" run empty.toml -q --json --database "$1.db" --blocks "$1"; }
starts() { for _ in 1 2 3 4 5 6 7 8 9 10; do "$prony" worker < /dev/null 2> /dev/null || true; "$prony" supervise < /dev/null 2> /dev/null || true; done; }

few=$(( trials / 10 > 0 ? trials / 10 : 1 ))
small=$(run "$few")
process=$(timed starts)
large=$(run "$trials")
process=$(( (process + $(timed starts)) / 20 ))

each=$(( (large - small) / (trials - few) ))
printf 'trials                           %s\n' "$trials"
printf 'one trial                        %s us\n' $(( each / 1000 ))
printf 'starting its two processes       %s us\n' $(( process / 1000 ))
printf 'a trial above process start      %s us\n' $(( (each - process) / 1000 ))
begin=$(now); "$prony" show --database "$trials.db" > /dev/null; shown=$(( $(now) - begin ))
printf 'showing %s trials            %s us\n' "$trials" $(( shown / 1000 ))
