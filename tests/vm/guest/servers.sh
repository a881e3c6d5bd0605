# What a guest does to test that no server of the kernel takes time from an analysed task. The task only computes; beside it on its CPU an
# ordinary program wants to run all the time. A fair or ext server gives such a program 50 ms of each second. By the kernel's own count
# (schedstat) it must get at most 100 us in each of ${SECONDS_EACH:-5} seconds. After common.sh; both engines where $WANT is sched-ext.
SECONDS_EACH=${SECONDS_EACH:-5}
# field N PID: the time for which it ran (1) or waited for its CPU (2), in ns.
field() {
	cut -d ' ' -f $1 /proc/$2/schedstat
}
# most PID: the longest time for which it ran in one of the seconds, in ns.
most() {
	longest=0
	for _ in $(seq $SECONDS_EACH); do
		before=$(field 1 $1)
		sleep 1
		grown=$(($(field 1 $1) - before))
		[ $grown -le $longest ] || longest=$grown
	done
	echo $longest
}

mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
echo "kernel $(uname -r) $(uname -v), engine $WANT"
# It never sleeps: with PREEMPT_RT nobody would wake it beside a real-time task.
hog 3 spin 999999999999999 >/dev/null &
beside=$!

# Without solocore a server takes its time from a real-time task: otherwise this test shows nothing.
hog 3 rt 999999999999999 >/dev/null &
task=$!
sleep 1
ns=$(most $beside)
[ $ns -gt 10000000 ] && pass "without solocore the program beside a real-time task runs for up to $ns ns of a second" ||
	fail "without solocore the program beside a real-time task runs for $ns ns only, so nothing is tested"
kill -9 $task
# They are stopped while a daemon starts: the emulator gives most turns to a CPU that computes.
kill -STOP $beside

hog 3 spin 999999999999999 >/dev/null &
task=$!
kill -STOP $task
engines=helper
[ "$WANT" = helper ] || engines="auto helper"
run="solocore run --partial /plans/200.json --event page-faults --no-confine"
for engine in $engines; do
	start --engine $engine --duration "60 s" --format json --attach task3=$task
	kill -CONT $task $beside
	sleep 1
	waited=$(field 2 $task)
	ns=$(most $beside)
	waited=$(($(field 2 $task) - waited))
	[ $ns -le 100000 ] && pass "$engine: the program beside runs for at most $ns ns of a second (the task waited $waited ns in all)" ||
		fail "$engine: the program beside runs for $ns ns of a second"
	kill -STOP $task $beside
	kill -TERM $daemon
	wait $daemon
	code=$?
	[ $code = 0 ] || fail "$engine: exit code $code: $(tail -n 2 /tmp/errors)"
done
kill -9 $task $beside
echo "failures: $failures"
[ $failures = 0 ]
