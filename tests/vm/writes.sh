#!/bin/sh
# Makes a plan for guests in which every core may make 1000 accesses a millisecond, 20 of them writes.
#
#   tests/vm/writes.sh SOLOCORE OUT
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
		echo 'bandwidth = "64000 kB/s"'
		echo 'write_bandwidth = "1280 kB/s"'
		echo '[[task]]'
		echo "name = \"task$core\""
		echo "core = $core"
		# Budgets of writes are for cores without analysed tasks.
		echo 'criticality = "D"'
		echo 'wcet = "1 ms"'
		echo 'misses = 1'
	done
} >"$work/system.toml"
"$solocore" plan "$work/system.toml" -o "$out" >/dev/null
