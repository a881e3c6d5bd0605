#!/bin/sh
# Makes the plans of guest/levels.sh: MC2's levels on four cores, and partitions with their windows.
#
#   tests/vm/levels.sh SOLOCORE OUT_DIR     writes levels.json and windows.json
set -eu
solocore=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/levels.toml" <<'TOML'
platform = "imx6q"
[mc2]
pet_scale = 1.5
TOML
# task NAME LEVEL PERIOD WCET [CORE]
task() {
	{
		printf '[[task]]\nname = "%s"\ncriticality = "%s"\nperiod = "%s"\nwcet = "%s"\nmisses = 10\n' "$1" "$2" "$3" "$4"
		[ -z "${5:-}" ] || echo "core = $5"
	} >>"$work/levels.toml"
}
task pilot A "20 ms" "2 ms" 1
task rudder A "40 ms" "4 ms" 1
task gps B "40 ms" "6 ms" 1
task radio B "80 ms" "10 ms" 1
task video C "60 ms" "15 ms"
task map C "100 ms" "30 ms"
task log C "50 ms" "10 ms"
cat >>"$work/levels.toml" <<'TOML'
[[task]]
name = "batch"
criticality = "D"
core = 2
wcet = "1 ms"
misses = 1
TOML
"$solocore" plan "$work/levels.toml" -o "$out/levels.json" >/dev/null
