#!/usr/bin/env bash
# Measures base and head alternately, and writes the report, also into the job's summary. It fails only if it cannot
# report: the exit code of the run is that of `finish.sh`, after the comment.
#
# Reads PRONY, PRONY_BASE, PRONY_HEAD, EXPERIMENT or COMMAND and BUILD, FAIL_IF, FAIL_UNSURE, BLOCKS, BUDGET.
# Writes the outputs `exit-code`, `report` and `database`.
# shellcheck disable=SC2016 # backticks are Markdown's
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "::error::$1"
  exit 2
}

folder=$(mktemp -d "$RUNNER_TEMP/prony-XXXXXX")
# Both revisions are built in this job, by the same tools: a build that an earlier job left on this runner may be of others.
export PRONY_CACHE=$folder/cache
# Experiment files read these.
export PRONY_BASE PRONY_HEAD
if [ -n "${EXPERIMENT:-}" ]; then
  [ -z "${COMMAND:-}${BUILD:-}" ] || fail "the inputs \`command\` and \`build\` have no effect with \`experiment\`: leave one of them out"
  file=$EXPERIMENT
  [ -f "$file" ] || fail "the experiment file does not exist: $file"
  for name in PRONY_BASE PRONY_HEAD; do
    grep -q "{env.$name}" "$file" ||
      echo "::warning::$file does not use {env.$name}: it may not compare the pull request with its base"
  done
elif [ -n "${COMMAND:-}" ]; then
  file=$here/command.toml
  export ACTION_COMMAND=$COMMAND ACTION_BUILD=${BUILD:-} REPOSITORY=$PWD
  # Without a build, a trial is not said to have one that did nothing.
  if [ -z "${ACTION_BUILD//[[:space:]]/}" ]; then
    file=$folder/command.toml
    sed '/^build /d' "$here/command.toml" >"$file"
  fi
else
  fail "nothing to measure: give the input \`experiment\` or \`command\`"
fi

options=()
while IFS= read -r condition; do
  [ -z "${condition//[[:space:]]/}" ] || options+=("--fail-if=$condition")
done <<<"${FAIL_IF:-}"
[ "${FAIL_UNSURE:-false}" != true ] || options+=(--fail-unsure)
[ -z "${BLOCKS:-}" ] || options+=("--blocks=$BLOCKS")
[ -z "${BUDGET:-}" ] || options+=("--budget=$BUDGET")

report=$folder/report.md database=$folder/prony.db
code=0
"$PRONY" run --database "$database" --summary "$folder/run.md" "${options[@]}" -- "$file" 2>&1 | tee "$folder/log" || code=${PIPESTATUS[0]}

{
  if [ -s "$folder/run.md" ]; then
    cat "$folder/run.md"
  else
    printf '## The pull request could not be measured\n\n'
    # An indented text is shown as it is, whatever is in it.
    sed -n '/^error/,$p' "$folder/log" | tail -n 40 | cut -c 1-500 | sed 's/^/    /'
    printf '\n`prony run` ended with exit code %s.\n' "$code"
  fi
  printf '\nbase: `%s`, head: `%s`\n' "$PRONY_BASE" "$PRONY_HEAD"
} >"$report"

"$here/shorten.sh" 1000000 "$report" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
printf 'exit-code=%s\nreport=%s\ndatabase=%s\n' "$code" "$report" "$database" >>"$GITHUB_OUTPUT"
