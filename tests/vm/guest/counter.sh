# What a guest does to test regulation by a hardware counter that really interrupts: on QEMU's aarch64 machine that is the PMU's
# count of cycles (raw event 11), which stands in for misses here. After common.sh; $WANT is the engine that must run by itself.
#
# The plan counter.json gives CPU 1 and CPU 2 400,000 and 200,000 counts a millisecond, of 1,000,000 that there are.
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
field() {
	sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" /tmp/run.json
}
echo "kernel $(uname -r) $(uname -m), engine $WANT"
expect 0 "yes  event r11" solocore doctor --event r11
hog 1 &
hog 2 &
sleep 1
run="solocore run /plans/counter.json --event r11"
for engine in auto helper; do
	start --engine $engine --duration "1 s" --format json
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
