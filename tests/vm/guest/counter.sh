# What a guest does to test regulation by a hardware counter that really interrupts: on QEMU's aarch64 machine that is the PMU's
# count of cycles (raw event 11), which stands in for misses here. After common.sh; $WANT is the engine that must run by itself.
#
# The plan counter.json gives CPU 1 and CPU 2 200,000 and 100,000 counts a millisecond, of 1,000,000 that there are, some 400,000 of
# them outside the kernel.
#
# QEMU 7.2 derives this count from its clock, so that it goes on in a CPU that is throttled and idles, up to the period's whole length
# (counts.c measures that, and the day it is not so any more, this test says so). Without the kernel, where a CPU idles, it stands
# still: by that event budgets are seen to be kept. Not with the helper engine, whose threads compute while they occupy a CPU.
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
field() {
	sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" /tmp/run.json
}
echo "kernel $(uname -r) $(uname -m), engine $WANT"
expect 0 "yes  event r11" solocore doctor --event r11
counts && pass "cycles of an idle CPU go on: budgets are seen to be kept without those of the kernel" ||
	fail "cycles stand still in an idle CPU: assert that no period is over its budget, the kernel's included"
# The hogs run only while something regulates: the emulator works while a CPU does.
hogs=
for cpu in 1 2; do
	hog $cpu &
	hogs="$hogs $!"
done
for event in r11 r11:u; do
	for engine in auto helper; do
		[ $event-$engine != r11:u-helper ] || continue
		kill -STOP $hogs
		run="solocore run --partial /plans/counter.json --event $event"
		start --engine $engine --duration "1 s" --format json
		kill -CONT $hogs
		wait $daemon
		is "exit code" $? 0
		[ $engine != auto ] || is "engine" "$(field engine)" "$WANT"
		echo "$(field engine), $event: periods $(field periods | xargs), throttled $(field throttled_periods | xargs), most $(field max_accesses_per_period | xargs), over $(field periods_over_budget | xargs)"
		# Without the kernel CPU 1's hog, which is there most of the time, seldom has its budget's worth.
		least=100
		[ $event = r11 ] || least=5
		for throttled in $(field throttled_periods); do
			[ "$throttled" -gt $least ] || fail "a CPU was throttled in $throttled periods only, so nothing was tested"
		done
		[ $event = r11 ] || for over in $(field periods_over_budget); do
			[ "$over" -lt 10 ] && pass "$over periods over budget" || fail "$over periods over budget"
		done
	done
done
echo "failures: $failures"
[ $failures = 0 ]
