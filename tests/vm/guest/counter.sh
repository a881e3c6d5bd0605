# What a guest does to test regulation by a hardware counter that really interrupts: on QEMU's aarch64 machine that is the PMU's
# count of cycles (raw event 11), which stands in for misses here. After common.sh; $WANT is the engine that must run by itself.
#
# The plan counter.json gives CPU 1 and CPU 2 400,000 and 200,000 counts a millisecond, of 1,000,000 that there are.
#
# That budgets are kept is not asserted: QEMU 7.2 derives this count from its clock, so that it goes on in a CPU that is throttled and
# idles, up to the period's whole length. counts.c measures that here, and the day it is not so any more, this test says so.
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
field() {
	sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" /tmp/run.json
}
echo "kernel $(uname -r) $(uname -m), engine $WANT"
expect 0 "yes  event r11" solocore doctor --event r11
counts && pass "cycles go on in an idle CPU: budgets cannot be seen to be kept" ||
	fail "cycles stand still in an idle CPU: assert that no period is over its budget"
# The hogs run only while something regulates: the emulator works while a CPU does.
hogs=
for cpu in 1 2; do
	hog $cpu &
	hogs="$hogs $!"
done
run="solocore run /plans/counter.json --event r11"
for engine in auto helper; do
	kill -STOP $hogs
	start --engine $engine --duration "1 s" --format json
	kill -CONT $hogs
	wait $daemon
	is "exit code" $? 0
	[ $engine != auto ] || is "engine" "$(field engine)" "$WANT"
	echo "$(field engine): periods $(field periods | xargs), throttled $(field throttled_periods | xargs), most $(field max_accesses_per_period | xargs), over $(field periods_over_budget | xargs)"
	for throttled in $(field throttled_periods); do
		[ "$throttled" -gt 100 ] || fail "a CPU was throttled in $throttled periods only, so nothing was tested"
	done
done
echo "failures: $failures"
[ $failures = 0 ]
