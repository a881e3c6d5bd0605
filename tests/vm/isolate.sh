#!/bin/sh
# Makes the plan of guest/isolate.sh: an analysed task on core 1 of four, and one of best effort on core 0.
#
#   tests/vm/isolate.sh SOLOCORE OUT
set -eu
solocore=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/system.toml" <<'TOML'
platform = "core-i5-2500k"
[regulation]
policy = "memguard"
share = "even"
period = "1 ms"
[[task]]
name = "video"
core = 1
period = "100 ms"
wcet = "1 ms"
misses = 1
[[task]]
name = "batch"
core = 0
criticality = "D"
wcet = "1 ms"
misses = 1
TOML
"$solocore" plan "$work/system.toml" -o "$out" >/dev/null
