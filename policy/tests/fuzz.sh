#!/usr/bin/env bash
# Fuzzes the policies with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, one program for each
# mechanism of drive/. Corpora grow in build/fuzz/<mechanism>; what crashes is left beside them.
# Usage: policy/tests/fuzz.sh SECONDS [MECHANISM...]     seconds for each (all by default)
# JOBS run at a time (2). Exit: 1 after a crash, a leak or a broken invariant.
set -euo pipefail
cd "$(dirname "$0")"
tests=$PWD
policy=$(dirname "$tests")
out=$policy/../build/fuzz

fuzz() {
	local seconds=$1 mechanism=$2 program=$out/fuzz-$2 corpus=$out/$2 log=$out/$2.log before
	local defines=(-DMECHANISM="$mechanism" -DDRIVER="\"drive/$mechanism.h\"" -DSC_MAX_TASKS=192u
		-DSC_MAX_CORE_VCPUS=3u)
	[ ! -e "invariants/$mechanism.h" ] || defines+=(-DINVARIANTS="\"invariants/$mechanism.h\"")
	mkdir -p "$corpus"
	before=$(find "$corpus" -type f | wc -l)
	clang -std=c99 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Wall -Wextra -Werror \
		-Wno-unused-function -Wno-unused-const-variable -I"$policy/include" "${defines[@]}" fuzz.c -o "$program"
	if ! "$program" -max_total_time="$seconds" -max_len=4000 -len_control=20 -timeout=10 -print_final_stats=1 \
		-artifact_prefix="$out/$mechanism-" "$corpus" >"$log" 2>&1; then
		echo "fuzz: $mechanism FAILED, see build/fuzz/$mechanism.log"
		grep -E 'broken after|ERROR|SUMMARY|runtime error|Test unit written' "$log" || tail -3 "$log"
		return 1
	fi
	local runs first last
	runs=$(sed -nE 's/^stat::number_of_executed_units: *([0-9]+)/\1/p' "$log")
	first=$(sed -nE 's/.*INITED cov: ([0-9]+).*/\1/p' "$log" | head -1)
	last=$(sed -nE 's/.* cov: ([0-9]+).*/\1/p' "$log" | tail -1)
	echo "fuzz: $mechanism: $runs executions, edges $first -> $last," \
		"$(($(find "$corpus" -type f | wc -l) - before)) new inputs, no crash"
}

if [ "${1:-}" = --one ]; then
	fuzz "$2" "$3"
	exit
fi
case ${1:-} in
'' | *[!0-9]*)
	sed -n '2,6p' "$0" >&2
	exit 2
	;;
esac
seconds=$1
shift
mkdir -p "$out"
mechanisms=("$@")
if [ ${#mechanisms[@]} -eq 0 ]; then
	mechanisms=(drive/*.h)
	mechanisms=("${mechanisms[@]#drive/}")
	mechanisms=("${mechanisms[@]%.h}")
fi
printf '%s\n' "${mechanisms[@]}" | xargs -P "${JOBS:-2}" -I{} "$tests/fuzz.sh" --one "$seconds" {} || exit 1
