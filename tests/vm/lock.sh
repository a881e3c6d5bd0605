#!/bin/sh
# Makes the plan of guest/lock.sh: a bandwidth lock beside which each core of four may make 20 accesses per millisecond.
#
#   tests/vm/lock.sh SOLOCORE OUT
set -eu
solocore=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/system.toml" <<'TOML'
platform = "core-i5-2500k"
[regulation]
policy = "bwlock"
period = "1 ms"
lock_bandwidth = "1280 kB/s"
[[task]]
name = "video"
core = 0
period = "100 ms"
wcet = "1 ms"
misses = 1
TOML
"$solocore" plan "$work/system.toml" -o "$out" >/dev/null
