#!/bin/sh
# Makes the plan of budgets that bind analysed tasks: two of them on core 1 of four, and 20 accesses a millisecond for each core.
#
#   tests/vm/ranks.sh SOLOCORE OUT
set -eu
solocore=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
	echo 'platform = "core-i5-2500k"'
	echo '[regulation]'
	echo 'policy = "memguard"'
	echo 'period = "1 ms"'
	echo 'share = "explicit"'
	for core in 0 1 2 3; do
		echo '[[core]]'
		echo "id = $core"
		echo 'bandwidth = "1280 kB/s"'
	done
	for task in "high 50" "low 400"; do
		echo '[[task]]'
		echo "name = \"${task% *}\""
		echo 'core = 1'
		echo "period = \"${task#* } ms\""
		echo 'wcet = "1 ms"'
		echo 'misses = 1'
	done
} >"$work/system.toml"
"$solocore" plan "$work/system.toml" -o "$out" >/dev/null
