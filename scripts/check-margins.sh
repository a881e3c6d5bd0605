#!/bin/sh
# Fails a merge where a margin shrinks: plans the system, and compares the plan with that of another commit.
#   scripts/check-margins.sh [SYSTEM [PLAN [BASE [ALLOW]]]]    default: system.toml plan.json origin/main 0
# PLAN is the plan's path in the repository, from here. The new plan takes its place. BASE is a commit. ALLOW is the share of its deadline,
# in per cent, that each margin may lose. SOLOCORE names the command.
# Exit codes: 0 nothing is worse; 1 something is, or the new plan does not hold; 2 bad input, as a commit without the plan.
set -eu
case ${1:-} in -*) sed -n 's/^#   //p' "$0" >&2; exit 2 ;; esac
[ $# -le 4 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
system=${1:-system.toml} plan=${2:-plan.json} base=${3:-origin/main} allow=${4:-0} solocore=${SOLOCORE:-solocore}
old=$(mktemp)
trap 'rm -f "$old"' EXIT
git show "$base:./$plan" >"$old" 2>/dev/null || {
	echo "check-margins: commit $base has no $plan; make one with \`$solocore plan $system -o $plan\` and commit it first" >&2
	exit 2
}
"$solocore" plan "$system" -o "$plan"
"$solocore" diff --allow "$allow" "$old" "$plan"
