#!/bin/sh
# Makes the plans of guest/levels.sh: MC2's levels on four cores, and partitions with their windows.
#
#   tests/vm/levels.sh SOLOCORE OUT_DIR     writes levels.json, tardy.json and windows.json
set -eu
solocore=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/levels.toml" <<'TOML'
platform = "imx6q"
[levels]
pet_scale = 1.5
TOML
# task NAME LEVEL PERIOD WCET [CORE]
task() {
	{
		printf '[[task]]\nname = "%s"\ncriticality = "%s"\nperiod = "%s"\nwcet = "%s"\nmisses = 10\n' "$1" "$2" "$3" "$4"
		[ -z "${5:-}" ] || echo "core = $5"
	} >>"$work/levels.toml"
}
task pilot A "20 ms" "2 ms" 0
task rudder A "40 ms" "4 ms" 0
task gps B "40 ms" "6 ms" 0
task radio B "80 ms" "10 ms" 0
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

# Five tasks of level C on four cores: the fifth cannot begin before another has ended, and is late in every period. Jobs are shorter than
# they may be by as much as an emulator is late.
{
	printf 'platform = "imx6q"\n[levels]\npet_scale = 1.5\n'
	for name in one two three four five; do
		printf '[[task]]\nname = "%s"\ncriticality = "C"\nperiod = "60 ms"\nwcet = "45 ms"\nmisses = 10\n' $name
	done
} >"$work/tardy.toml"
"$solocore" plan "$work/tardy.toml" -o "$out/tardy.json" >/dev/null

# Partitions: frames of 40 ms on core 0 and of 60 ms on core 1; core 3 moves the devices' data.
{
	cat <<'TOML'
platform = "imx6q"
[regulation]
policy = "memguard"
period = "1 ms"
[[device]]
name = "sensor"
[[device]]
name = "actuator"
TOML
	# NAME CORE PERIOD DURATION
	while read -r name core period duration; do
		printf '[[partition]]\nname = "%s"\ncore = %s\nperiod = "%s ms"\nduration = "%s ms"\n' "$name" "$core" "$period" "$duration"
		[ "$name" != nav ] || cat <<'TOML'
[[partition.chain]]
input = { device = "sensor", physical = "1 ms", transfer = "1 ms" }
output = { device = "actuator", physical = "1 ms", transfer = "1 ms" }
TOML
	done <<'LIST'
nav 0 20 6
display 0 40 12
radio 1 30 9
log 1 60 15
LIST
	# NAME PARTITION PERIOD WCET
	while read -r name partition period wcet; do
		printf '[[task]]\nname = "%s"\npartition = "%s"\nperiod = "%s ms"\nwcet = "%s ms"\nmisses = 10\n' "$name" "$partition" "$period" "$wcet"
	done <<'LIST'
steer nav 20 2
chart nav 40 2
draw display 40 5
receive radio 30 4
archive log 60 6
LIST
} >"$work/windows.toml"
"$solocore" plan "$work/windows.toml" -o "$out/windows.json" >/dev/null
