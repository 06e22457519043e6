#!/bin/sh
# The whole suite in a fresh clone, several times in a row: which tests fail, and how often. By hand, where nothing else runs.
#
#     bench/stability/run.sh [PASSES [BUSY]]
#
# Of PASSES runs (10), the last BUSY (3) have two processes beside them that compute all the time. Commits of the branch that
# is checked out count; changes that are not committed do not. The clone lies in TMPDIR and is removed at the end. Exit code: 0
# where every test passed every time, 1 where one failed, 2 where the suite could not be built.
set -u
passes=${1:-10}
busy=${2:-3}
source=$(git -C "$(dirname "$0")" rev-parse --show-toplevel) || exit 2
work=$(mktemp -d) || exit 2
loops=

stop_loops() {
    for pid in $loops; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    loops=
}
trap 'stop_loops; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# A test that skips itself, since a tool is missing, did not pass.
export PRONY_REQUIRE_ALL=1
git clone --quiet "$source" "$work/prony" && cd "$work/prony" || exit 2
echo "building $(git rev-parse --short HEAD)"
cargo test --workspace --no-run >"$work/build" 2>&1 || { tail -n 40 "$work/build"; exit 2; }

broken=0
pass=1
while [ "$pass" -le "$passes" ]; do
    beside=
    if [ "$pass" -gt $((passes - busy)) ]; then
        beside=", two busy loops beside it"
        for _ in 1 2; do
            sh -c 'while :; do :; done' &
            loops="$loops $!"
        done
    fi
    cargo test --workspace --no-fail-fast >"$work/pass" 2>&1
    code=$?
    stop_loops
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$work/pass" >"$work/failed"
    echo "pass $pass of $passes$beside: $(grep -c . "$work/failed") tests failed, exit code $code"
    [ "$code" -eq 0 ] || broken=$((broken + 1))
    grep -A 3 ' panicked at ' "$work/pass"
    # A process that aborted, or a test program that did not build, names no test.
    [ "$code" -eq 0 ] || [ -s "$work/failed" ] || { echo "(exit code $code, no test named)" >"$work/failed"; tail -n 20 "$work/pass"; }
    cat "$work/failed" >>"$work/all"
    pass=$((pass + 1))
done
touch "$work/all"
echo "passes that failed: $broken of $passes"
sort "$work/all" | uniq -c | sort -rn
[ "$broken" -eq 0 ] || exit 1
