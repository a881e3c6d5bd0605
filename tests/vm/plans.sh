#!/bin/sh
# Makes plans for guests: solocore plans a quad-core x86 board with the budgets that are asked for.
#
#   tests/vm/plans.sh SOLOCORE OUT BUDGET0 BUDGET1 BUDGET2 BUDGET3     accesses per period and core
#
# PERIOD_US (1000) is the period in microseconds: 1000, a divisor of it, or a multiple that divides all budgets times 64,000.
set -eu
solocore=$1
out=$2
shift 2
period=${PERIOD_US:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
	echo 'platform = "core-i5-2500k"'
	echo '[regulation]'
	echo 'policy = "memguard"'
	echo "period = \"$period us\""
	echo 'share = "explicit"'
	core=0
	for budget in "$@"; do
		echo '[[core]]'
		echo "id = $core"
		# 64 bytes an access, 1000 milliseconds a second.
		echo "bandwidth = \"$((budget * 64 * 1000 / period)) kB/s\""
		echo '[[task]]'
		echo "name = \"task$core\""
		echo "core = $core"
		echo 'period = "1 s"'
		echo 'wcet = "1 ms"'
		echo 'misses = 1'
		core=$((core + 1))
	done
} >"$work/system.toml"
"$solocore" plan "$work/system.toml" -o "$out" >/dev/null
