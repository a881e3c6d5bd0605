# What a guest does to test CPUs that go away: offline for moments that differ, the machine asleep, a counter that fails, that of writes too.
# Each time the CPU must be regulated again within 100 ms, its task must be back on it, and the run must say so; after each run the machine
# is compared with that before, byte by byte. After common.sh; $TIMES: of each (default 5); $FIRST: number of the first one, as moments
# follow the numbers (default 1). On a host that is busy, $LAPSE_NS allows longer lapses, and each check is made up to $LOOKS times, 100 ms
# apart (default 1): what is left behind stays longer than that.
TIMES=${TIMES:-5}
FIRST=${FIRST:-1}
LAPSE_NS=${LAPSE_NS:-100000000}
LOOKS=${LOOKS:-1}
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3; the latest run said: $(tail -n 2 /tmp/errors)"
}
sum() {
	sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" /tmp/run.json | awk '{ s += $1 } END { print s + 0 }'
}
# 5 faults a millisecond let 300 take 60 ms, and 20 let 1200; without a budget 300 take some 2 ms.
faults=300
slowed() {
	# Twice: a guest that was stopped meanwhile is slow as well.
	for _ in 1 2; do
		took=$(hog 3 work $faults)
		[ "$took" -gt 40000000 ] || return
	done
}
in_place() {
	for pid in $ticking; do
		mask=$(taskset -p $pid | sed 's/.*: //')
		[ "$mask" = 8 ] || return
	done
}
eventually() {
	for _ in $(seq $LOOKS); do
		sleep 0.1
		"$@" && return
	done
	return 1
}
regulated() {
	eventually slowed || fail "$1: CPU 3 is not regulated: $faults faults take $took ns"
	eventually in_place || fail "$1: the task of CPU 3 may run on CPUs $mask"
	[ $engine = auto ] || is "$1: fair server" "$(cat /sys/kernel/debug/sched/fair_server/cpu3/runtime 2>/dev/null || echo 0)" 0
	[ $engine = helper ] || is "$1: ext server" "$(cat $ext_server/cpu3/runtime 2>/dev/null || echo 0)" 0
}
of_ticker() {
	for process in /proc/[0-9]*; do
		tr '\0' ' ' <$process/cmdline 2>/dev/null | grep -q "^/bin/sh /tmp/ticker" && echo ${process#/proc/}
	done
}
# ended LAPSES WHAT [NS]: the end of a run with at least LAPSES lapses, each of at most NS.
ended() {
	kill -TERM $daemon
	wait $daemon
	is "$engine: exit code" $? 0
	# A CPU that goes offline again before it is regulated again has one lapse for both; that is said.
	both=$(grep -c 'is not regulated yet' /tmp/errors)
	[ $(($(sum lapses) + both)) -ge $1 ] && pass "$engine: $(sum lapses) lapses, $(sum restarts) restarts of up to $(sum longest_restart_ns) ns, longest $(sed -n 's/^ *"longest_lapse_ns": \([0-9]*\),$/\1/p' /tmp/run.json | xargs) ns" ||
		fail "$engine: $(sum lapses) lapses, not $1: $(cat /tmp/errors)"
	longest=$(sed -n 's/^ *"longest_lapse_ns": \([0-9]*\),$/\1/p' /tmp/run.json | sort -n | tail -n 1)
	[ -z "${3:-}" ] || [ "${longest:-0}" -le "$3" ] || fail "$engine, $2: CPU 3 was unregulated for $longest ns"
	# Tasks of the run.
	for pid in $ticking; do
		wait_for_end $pid
	done
	unchanged "$engine, after $2" && pass "$engine, after $2: all is as it was"
}
wait_for_end() {
	for _ in $(seq 30); do
		[ -e /proc/$1 ] || return
		sleep 0.1
	done
	fail "process $1 goes on"
}

mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
ext_server=/sys/kernel/debug/sched/ext_server
case $(uname -r) in
[7-9].*) [ "$WANT" = helper ] || [ -e $ext_server/cpu3/runtime ] || fail "no ext server, so it is not tested" ;;
esac
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
sleep 100000 &
watched="$! $$"
# Wakes up often, so that the kernel has to find another CPU for it.
echo 'while :; do sleep 0.02; done' >/tmp/ticker
run="solocore run --partial /plans/5.json --event page-faults --no-confine"
# The first run makes the directory of journals and the lock's file, which stay.
start --duration "100 ms" --format json
wait $daemon
remember
engines=helper
[ "$WANT" = helper ] || engines="auto helper"
for engine in $engines; do
	start --engine $engine --duration "600 s" --format json --command "task3=/bin/sh /tmp/ticker"
	sleep 0.5
	ticking=$(of_ticker)
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		offline
		# None at all, and up to 0.9 s; after 2 s the run would end. The kernel itself takes some tenths of a second on a busy host.
		[ $number = 1 ] || sleep 0.$(printf %03d $((number * 413 % 900)))
		online
		regulated "$engine, offline $number"
	done
	ended $TIMES offline
	[ "$(sum displaced)" -gt 0 ] && pass "$engine: the task was bound to CPU 3 again $(sum displaced) times" || fail "$engine: the task never left CPU 3, so nothing was tested"
	grep -q '^ *"place:task-task3"' /tmp/run.json && pass "$engine: the broken promise is named" || fail "$engine: not broken: $(grep -A9 '"broken"' /tmp/run.json)"

	# Programs that may run there only wait in the midst of the kernel's own work as it goes: the kernel waits for the end of that.
	start --engine $engine --duration "600 s" --format json
	ticking=
	walkers 3
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		sleep 0.$(printf %03d $((number * 413 % 500)))
		offline
		sleep 0.$(printf %03d $((number * 617 % 900)))
		online
	done
	kill -9 $beside
	sleep 0.2
	regulated "$engine, offline beside programs"
	ended $TIMES "offline beside programs"

	start --engine $engine --duration "600 s" --format json
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		uncount 3 || fail "no counter was taken"
		regulated "$engine, counter $number"
	done
	ended $TIMES counter $LAPSE_NS

	# The same of writes: 980 reads a millisecond alone would let 1200 faults take less than 2 ms more than no budget.
	plain=$run
	run="solocore run --partial /plans/writes.json --event page-faults --write-event minor-faults --no-confine"
	faults=1200
	start --engine $engine --duration "600 s" --format json
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		uncount 3 write_counters || fail "no counter of writes was taken"
		regulated "$engine, counter of writes $number"
	done
	ended $TIMES "counter of writes" $LAPSE_NS
	run=$plain faults=300

	if grep -q processors /sys/power/pm_test 2>/dev/null; then
		start --engine $engine --duration "600 s" --format json
		echo 0 >/sys/module/suspend/parameters/pm_test_delay
		echo processors >/sys/power/pm_test
		slept=0
		for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
			at=$(hundredths)
			echo mem >/sys/power/state || fail "the machine does not sleep"
			[ $(($(hundredths) - at)) -le $slept ] || slept=$(($(hundredths) - at))
			regulated "$engine, asleep $number"
		done
		# Three CPUs each; a lapse has the time asleep.
		ended $((3 * TIMES)) asleep $((LAPSE_NS + slept * 10000000))
	else
		echo "SKIPPED: this kernel has no pm_test"
	fi

	# One that does not come back ends the run.
	start --engine $engine --duration "60 s" --format json
	offline
	wait $daemon
	is "$engine: exit code without CPU 3" $? 3
	grep -q "CPU 3 went offline" /tmp/errors && pass "said: $(tail -n 1 /tmp/errors)" || fail "not said: $(cat /tmp/errors)"
	online
	# The kernel lets nobody set the server of a CPU that is offline.
	{ [ $engine = auto ] && [ ! -e $ext_server ]; } || solocore restore >/tmp/said 2>&1
	unchanged "$engine, after a CPU that stayed away"
done
echo "failures: $failures, after $(cut -d ' ' -f 1 /proc/uptime) s"
[ $failures = 0 ]
