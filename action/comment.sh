#!/usr/bin/env bash
# Writes the report as a comment on the pull request: a new one, or in place of the one of an earlier run. If that is not
# possible, as in a pull request from a fork, it says so and does not fail: the report is in the job's summary.
#
# Reads REPORT, TOKEN, COMMENT_KEY, EXPERIMENT and the variables of GitHub.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "::notice::$1. The report is in the summary of this job."
  exit 0
}

number=$(jq -r '.pull_request.number // empty' "${GITHUB_EVENT_PATH:-/dev/null}" 2>/dev/null || true)
[ -n "$number" ] || skip "There is no pull request to comment on"
[ -n "${TOKEN:-}" ] || skip "There is no token to comment with"

folder=$(mktemp -d "$RUNNER_TEMP/prony-comment-XXXXXX")
trap 'rm -rf "$folder"' EXIT

# By this first line, which is not shown, a later run finds the comment. `-->` would end it.
key=${COMMENT_KEY:-${GITHUB_WORKFLOW:-} / ${GITHUB_JOB:-} / ${EXPERIMENT:-command}}
marker="<!-- prony: ${key//[^A-Za-z0-9 ._\/]/-} -->"
job="${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_REPOSITORY/actions/runs/${GITHUB_RUN_ID:-}"
{
  printf '%s\n' "$marker"
  # GitHub takes at most 65536 characters.
  "$here/shorten.sh" 60000 "$REPORT"
  printf '\n[The job that measured this](%s)\n' "$job"
} >"$folder/body"
jq -n --rawfile body "$folder/body" '{body: $body}' >"$folder/request"

api=${GITHUB_API_URL:-https://api.github.com}/repos/$GITHUB_REPOSITORY
# The token is in no argument, since arguments are seen by other processes.
call() {
  local method=$1 path=$2
  shift 2
  printf 'header = "Authorization: Bearer %s"\n' "$TOKEN" |
    curl --config - --silent --show-error --max-time 60 --request "$method" --header 'Accept: application/vnd.github+json' \
      --header 'X-GitHub-Api-Version: 2022-11-28' --output "$folder/answer" --write-out '%{http_code}' "$@" "$api/$path" || true
}

found=
for page in $(seq 30); do
  status=$(call GET "issues/$number/comments?per_page=100&page=$page")
  [ "$status" = 200 ] || skip "The comments of the pull request cannot be read (HTTP status $status)"
  found=$(jq -r --arg marker "$marker" 'first(.[] | select(.body | startswith($marker))) | .id' "$folder/answer")
  # A page with fewer is the last one.
  if [ -n "$found" ] || [ "$(jq length "$folder/answer")" -lt 100 ]; then
    break
  fi
done

status=
if [ -n "$found" ]; then
  status=$(call PATCH "issues/comments/$found" --data-binary "@$folder/request")
fi
if [ "$status" != 200 ]; then
  status=$(call POST "issues/$number/comments" --data-binary "@$folder/request")
fi
case $status in
  200) echo "updated the comment: $(jq -r .html_url "$folder/answer")" ;;
  201) echo "wrote a comment: $(jq -r .html_url "$folder/answer")" ;;
  403 | 404) skip "This token may not comment on the pull request (HTTP status $status), as in a pull request from a fork; elsewhere the job needs \`permissions: pull-requests: write\`" ;;
  *) skip "The comment could not be written (HTTP status $status)" ;;
esac
