#!/bin/sh
# A thousand faults of each kind, in pieces that can be resumed (guest/away.sh and guest/endure.sh).
#
#   tests/vm/endure.sh SOLOCORE LEDGER [TIMES]       TIMES: of each kind and engine; default 1000
#
# LEDGER has a line for each piece that was passed: kernel, script, number of the first fault, number of faults. A later call goes on after
# them; remove the file to begin again. Each piece is a guest of its own, with PIECE faults of each kind (25) at moments of their own. A piece that
# fails ends the call with 1, and its output is in LEDGER.PART.failed. VM_KERNELS, as in test.sh, has one kernel (6.19.14:sched-ext). PARTS are
# the scripts (away endure); calls with different ones may run beside each other, with one ledger.
#
# The host may be busy for hours. So a piece asks whether all is as it was, and less how fast: a lapse of regulation may last a second here,
# and what is not as it was is looked at again for 5 s. The quick guests hold lapses to 100 ms.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
solocore=$1
ledger=$2
times=${3:-1000}
piece=${PIECE:-25}
kernel=${VM_KERNELS:-6.19.14:sched-ext}
touch "$ledger"
# Faults of a script that were passed so far.
passed() {
	awk -v kernel="$kernel" -v part="$1" '$1 == kernel && $2 == part { sum += $4 } END { print sum + 0 }' "$ledger"
}
while :; do
	ended=1
	for part in ${PARTS:-away endure}; do
		first=$(($(passed $part) + 1))
		[ $first -le "$times" ] || continue
		ended=0
		number=$((times - first + 1))
		[ $number -le "$piece" ] || number=$piece
		if VM_KERNELS=$kernel VM_PARTS=$part VM_SECONDS=${VM_SECONDS:-7200} VM_SET="TIMES=$number FIRST=$first LAPSE_NS=1000000000 LOOKS=50" \
			"$here/test.sh" "$solocore" >"$ledger.$part.now" 2>&1; then
			echo "$kernel $part $first $number" >>"$ledger"
			echo "endure: $part: $((first + number - 1)) of $times of each kind left nothing behind"
		else
			mv "$ledger.$part.now" "$ledger.$part.failed"
			grep 'FAIL' "$ledger.$part.failed" || tail -n 3 "$ledger.$part.failed"
			echo "endure: $part failed in faults $first to $((first + number - 1)); see $ledger.$part.failed" >&2
			exit 1
		fi
	done
	[ $ended = 0 ] || break
done
echo "endure: all $times of each kind are passed"
