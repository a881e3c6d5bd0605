#!/bin/sh
# Makes the plans of guest/lock.sh: a bandwidth lock beside which each core of four may make 20 accesses per millisecond, and
# dynamic budgets that let each of three soft cores make 100 accesses during a job of the task `video`.
#
#   tests/vm/lock.sh SOLOCORE OUT_DIR     writes lock.json and dynamic.json
set -eu
solocore=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for policy in bwlock dynamic; do
	cat >"$work/system.toml" <<TOML
platform = "core-i5-2500k"
[regulation]
policy = "$policy"
period = "1 ms"
$([ $policy = dynamic ] || echo 'lock_bandwidth = "1280 kB/s"')
[[task]]
name = "video"
core = 0
period = "100 ms"
wcet = "60 ms"
misses = 1
$([ $policy = bwlock ] || echo 'soft_budget = 300')
TOML
	name=$policy
	[ $policy = dynamic ] || name=lock
	"$solocore" plan "$work/system.toml" -o "$out/$name.json" >/dev/null
done
