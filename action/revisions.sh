#!/usr/bin/env bash
# Finds the two commits to compare, and fetches the one that a shallow checkout lacks.
#
# Reads BASE_GIVEN. Writes the outputs `base` and `head`, both commits.
set -euo pipefail

fail() {
  echo "::error::$1"
  exit 2
}

has() { git cat-file -e "$1^{commit}" 2>/dev/null; }

# Gets a commit, or a branch or tag, if it is not there.
fetch() { has "$1" || git fetch --quiet --no-tags --depth=1 origin "$1"; }

head=$(git rev-parse --verify --quiet 'HEAD^{commit}') ||
  fail "this step needs the repository: put \`actions/checkout\` before it"
event=$(jq -r '.pull_request.base.sha // empty' "${GITHUB_EVENT_PATH:-/dev/null}" 2>/dev/null || true)
pull_head=$(jq -r '.pull_request.head.sha // empty' "${GITHUB_EVENT_PATH:-/dev/null}" 2>/dev/null || true)
before=
if [ "${GITHUB_EVENT_NAME:-}" = push ]; then
  # All zeros where the branch is new.
  before=$(jq -r '.before // empty | select(test("[^0]"))' "$GITHUB_EVENT_PATH")
fi
# What is recorded in the commit; in a shallow clone, `rev-parse HEAD^1` does not show the parents.
mapfile -t parents < <(git cat-file commit HEAD | sed -n '/^$/q; s/^parent //p')

if [ -n "${BASE_GIVEN:-}" ]; then
  case $BASE_GIVEN in -*) fail "\`base\` is not a revision: $BASE_GIVEN" ;; esac
  if has "$BASE_GIVEN"; then
    base=$(git rev-parse --verify "$BASE_GIVEN^{commit}")
  else
    git fetch --quiet --no-tags --depth=1 origin "$BASE_GIVEN" ||
      fail "\`base\` cannot be fetched: $BASE_GIVEN. Give a branch, a tag or a whole commit."
    base=$(git rev-parse --verify 'FETCH_HEAD^{commit}')
  fi
elif [ -n "$event" ] && [ "${#parents[@]}" = 2 ] && [ "${parents[1]}" = "$pull_head" ]; then
  # The trial merge that GitHub makes of a pull request: its first parent is what it would be merged into, so that the two
  # differ by the pull request only.
  base=${parents[0]}
  fetch "$base" || fail "the target branch's commit cannot be fetched: $base. With \`fetch-depth: 2\`, \`actions/checkout\` gets it."
elif [ -n "$event" ] && [ "$head" = "${GITHUB_SHA:-}" ] && [ "$head" != "$pull_head" ]; then
  # On `pull_request_target` that is a commit of the target branch.
  fail "the commit that is checked out is neither the pull request's head nor its merge into the target branch: $head. Run this on the event \`pull_request\`."
elif [ -n "$event" ]; then
  # The head of the pull request is checked out: compare it with the commit at which it left the target branch, since
  # later commits there are no part of it.
  if ! base=$(git merge-base "$event" HEAD 2>/dev/null); then
    if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
      git fetch --quiet --no-tags --unshallow origin
    fi
    has "$event" || git fetch --quiet --no-tags origin "$event" || true
    base=$(git merge-base "$event" HEAD 2>/dev/null) ||
      fail "the commit at which the pull request begins was not found. Give \`fetch-depth: 0\` to \`actions/checkout\`."
  fi
elif [ -n "$before" ]; then
  base=$before
  fetch "$base" || fail "the commit before the push cannot be fetched: $base. Give \`fetch-depth: 0\` to \`actions/checkout\`, or the input \`base\`."
elif [ "${GITHUB_EVENT_NAME:-}" = push ]; then
  fail "the push made a new branch, so that there is no commit before it to compare with: give the input \`base\`"
else
  fail "there is no pull request to compare: run this on the event \`pull_request\` or \`push\`, or give the input \`base\`"
fi

if [ "$base" = "$head" ]; then
  fail "base and head are the same commit: $head"
fi
echo "base $base"
echo "head $head"
printf 'base=%s\nhead=%s\n' "$base" "$head" >>"$GITHUB_OUTPUT"
