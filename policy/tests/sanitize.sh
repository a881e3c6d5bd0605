#!/usr/bin/env bash
# Random events for each policy's driver under AddressSanitizer and UndefinedBehaviorSanitizer, with gcc and
# clang, and with several limits: small ones, so that worlds fill up, one that is no power of two, the defaults.
# Usage: policy/tests/sanitize.sh [EVENTS]     per mechanism and build (300000)
# SEED (1) chooses the events. Programs are in build/sanitize. Exit: 1 if something is wrong.
set -euo pipefail
cd "$(dirname "$0")"
tests=$PWD
policy=$(dirname "$tests")
out=$policy/../build/sanitize
events=${1:-300000}

# Compiler, its flags, SC_MAX_TASKS, SC_MAX_CPUS, part of the events.
builds() {
	echo "gcc -fsanitize=address,undefined,bounds-strict 192 8 1"
	echo "clang -fsanitize=address,undefined,unsigned-shift-base 3 256 1"
	echo "clang -fsanitize=address,undefined 4096 256 20"
}

check() {
	local mechanism=$1 compiler=$2 flags=$3 tasks=$4 cpus=$5 part=$6 ignore=
	local program=$out/$mechanism-$compiler-$tasks
	local defines=(-DMECHANISM="$mechanism" -DDRIVER="\"drive/$mechanism.h\"" -DSC_MAX_TASKS="${tasks}u"
		-DSC_MAX_CPUS="${cpus}u" -DSC_MAX_CORE_VCPUS=3u)
	[ ! -e "invariants/$mechanism.h" ] || defines+=(-DINVARIANTS="\"invariants/$mechanism.h\"")
	[ "$compiler" != clang ] || ignore=-fsanitize-ignorelist=sanitize-ignore.txt
	"$compiler" -std=c99 -O1 -g $flags -fno-sanitize-recover=all $ignore -Wall -Wextra -Werror -Wno-unused-function \
		-Wno-unused-const-variable -I"$policy/include" "${defines[@]}" sanitize.c -o "$program"
	"$program" $((events / part)) "${SEED:-1}" | sed "s/\$/ ($compiler, SC_MAX_TASKS=$tasks)/"
}

if [ "${1:-}" = --one ]; then
	events=$2
	check "${@:3}"
	exit
fi

mkdir -p "$out"
for driver in drive/*.h; do
	mechanism=${driver#drive/}
	builds | sed "s/^/${mechanism%.h} /"
done | xargs -P "${JOBS:-2}" -L1 "$tests/sanitize.sh" --one "$events"
