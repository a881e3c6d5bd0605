#!/bin/sh
# Makes the plans of guest/lock.sh and guest/replace.sh: a bandwidth lock beside which each core of four may make 20 accesses per
# millisecond (lock-less.json: 7), and dynamic budgets that let each of three soft cores make 100 accesses during a job of the task
# `video` (dynamic-less.json: 40). jobs.json has the lock's budget only while `video` runs, 1.5 s of each 3 s.
#
#   tests/vm/lock.sh SOLOCORE OUT_DIR     writes lock.json, lock-less.json, jobs.json, dynamic.json and dynamic-less.json
set -eu
solocore=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# plan POLICY NAME BANDWIDTH SOFT_BUDGET
plan() {
	policy=$1
	cat >"$work/system.toml" <<TOML
platform = "core-i5-2500k"
[regulation]
policy = "$policy"
period = "1 ms"
$([ $policy = dynamic ] || echo "lock_bandwidth = \"$3\"")
[[task]]
name = "video"
core = 0
period = "100 ms"
wcet = "60 ms"
misses = 1
$([ $policy = bwlock ] || echo "soft_budget = $4")
TOML
	"$solocore" plan "$work/system.toml" -o "$out/$2.json" >/dev/null
}
plan bwlock lock "1280 kB/s" 0
plan bwlock lock-less "448 kB/s" 0
plan dynamic dynamic "" 300
plan dynamic dynamic-less "" 120
cat >"$work/jobs.toml" <<TOML
platform = "core-i5-2500k"
[regulation]
policy = "bwlock"
lock = "jobs"
period = "1 ms"
lock_bandwidth = "1280 kB/s"
[[task]]
name = "video"
core = 0
period = "3 s"
wcet = "1600 ms"
misses = 1
command = ["locker", "0", "spin", "1500"]
TOML
"$solocore" plan "$work/jobs.toml" -o "$out/jobs.json" >/dev/null
