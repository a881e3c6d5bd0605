# What a guest does to test faults from outside that guest/regulate.sh has not: the wall clock steps, a CPU goes away under the
# helper engine, nobody reads what the programs report. After common.sh.
sum() {
	sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" /tmp/run.json | awk '{ s += $1 } END { print s + 0 }'
}
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
settings() {
	cat /proc/sys/kernel/sched_rt_runtime_us
	cat /sys/kernel/debug/sched/fair_server/cpu*/runtime /sys/kernel/sched_ext/state 2>/dev/null
}
free() {
	settings >/tmp/settings.now
	cmp -s /tmp/settings.before /tmp/settings.now || fail "$1: settings differ: $(cat /tmp/settings.now)"
	took=$(hog 0 work 1000)
	[ "$took" -lt 300000000 ] && pass "$1: the machine is free" || fail "$1: 1000 faults take $took ns"
}

mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
settings >/tmp/settings.before
for cpu in 0 1 2 3; do
	hog $cpu &
done
sleep 1
run="solocore run --partial /plans/mixed.json --event page-faults --no-confine"

# The wall clock steps forward and back by years: periods and jobs go by another clock.
for engine in auto helper; do
	start --engine $engine --duration "1500 ms" --format json --command "task2=/bin/true"
	date -s 2031-01-01 >/dev/null
	sleep 0.4
	date -s 2001-01-01 >/dev/null
	wait $daemon
	is "exit code after steps of the clock" $? 0
	[ "$(sum throttled_periods)" -gt 300 ] && pass "$(sum throttled_periods) periods throttled" || fail "hardly a period was throttled"
	longest=$(sed -n 's/^ *"longest_period_ns": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json | sort -n | tail -n 1)
	[ "$longest" -lt 500000000 ] && pass "longest period $longest ns" || fail "a period of $longest ns: the clock's step shows"
	late=$(sed -n 's/^ *"max_response_ns": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json | sort -n | tail -n 1)
	[ "$late" -lt 1000000000 ] && pass "longest response $late ns" || fail "a response of $late ns: the clock's step shows"
	free "the clock stepped ($engine)"
done

# A CPU goes away while the helper engine regulates it, and comes back.
if [ -w /sys/devices/system/cpu/cpu3/online ]; then
	start --engine helper --duration "3 s" --format json
	echo 0 >/sys/devices/system/cpu/cpu3/online
	sleep 0.5
	took=$(hog 2 work 200)
	[ "$took" -lt 2000000000 ] && pass "CPU 2 goes on ($((took / 1000000)) ms)" || fail "CPU 2 makes 200 faults in $took ns"
	wait $daemon
	is "exit code after a CPU went away" $? 3
	grep -q "CPU 3 went offline" /tmp/errors && pass "$(tail -n 1 /tmp/errors)" || fail "not said: $(tail -n 1 /tmp/errors)"
	echo 1 >/sys/devices/system/cpu/cpu3/online
	# The kernel lets nobody set the fair server of a CPU that is offline: solocore says what is to be written there by hand.
	if ! settings | cmp -s - /tmp/settings.before; then
		grep "fair_server/cpu3/runtime cannot be put back to 50000000" /tmp/errors || fail "the fair server of CPU 3 is off, and nothing is said"
		echo 50000000 >/sys/kernel/debug/sched/fair_server/cpu3/runtime
	fi
	free "a CPU went away under the helper engine"
fi

# The daemon is stopped: nobody reads the history of periods, which is overwritten, and it says how much was.
start --duration "5 s" --format json
kill -STOP $daemon
sleep 3
kill -CONT $daemon
wait $daemon
is "exit code after a stop" $? 0
[ "$(sum periods_unread)" -gt 100 ] && pass "$(sum periods_unread) periods were overwritten, and counted" || fail "no period was overwritten in 3 s"
free "after a stop"

echo "failures: $failures"
[ $failures = 0 ]
