#!/usr/bin/env bash
# All tests of the policies, and a last line that counts them.
# Usage: policy/tests/all.sh EVENTS FUZZ MUTANTS     random events in all, seconds of fuzzing for each
# mechanism, mutants to try (0: all). Exit: 1 at the first thing that is wrong.
set -euo pipefail
cd "$(dirname "$0")/../.."
events=${1:-1000000} fuzz=${2:-2} mutants=${3:-150}
log=build/policy-test.log
mkdir -p build
: >"$log"

step() {
	echo "== $*"
	"$@" 2>&1 | tee -a "$log"
}

# `make test` has built them with everything else, which for one package would be done anew, with other features.
[ -n "${BUILT:-}" ] || step cargo build --locked --quiet -p solocore-policy-check --bins --examples
step target/debug/policy-check --events "$events"
step policy/tests/sanitize.sh 100000
step policy/tests/fuzz.sh "$fuzz"
step policy/tests/prove.sh
step policy/tests/mutate.py --sample "$mutants"

checked=$(sed -nE 's/^policy-check: (.*): all equal.*/\1/p' "$log")
killed=$(sed -nE 's/.*(killed [0-9]+ of [0-9]+ mutants).*/\1/p' "$log" | tail -1)
fuzzed=$(sed -nE 's/^fuzz: [a-z_]+: ([0-9]+) executions.*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
echo "policy-test: $checked, $(grep -c '^proved:' "$log") mechanisms proved, $fuzzed fuzzed sequences, $killed: all passed"
