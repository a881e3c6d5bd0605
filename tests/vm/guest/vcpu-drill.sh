# The scheduler of VCPUs fails a thousand times, in five ways by turns: does the kernel's own take over each time, do threads live on, and
# is nothing left behind? After common.sh. $DRILLS (1000): how often; $FAULTS: which, by turns. A stall takes the kernel's watchdog a
# second to notice, a CPU that goes off and on again the emulator one, so these come once in thirty.
cheap=error,exit,error,exit,error,exit,error,exit,error
faults=${FAULTS:-$cheap,stall,$cheap,offline,$cheap,refused}

echo "kernel $(uname -r)"
workers=
pids=
for n in 1 2 3; do
	# One that computes, two that compute and sleep by turns.
	if [ $n = 1 ]; then worker $n >/tmp/rounds$n & else worker $n 1000 9000 >/tmp/rounds$n & fi
	workers="$workers $!"
	pids="$pids --pid $!"
done
dmesg -c >/dev/null
# shellcheck disable=SC2086
solocore vcpu drill --times "${DRILLS:-1000}" --faults "$faults" $pids >/tmp/said 2>/tmp/errors
got=$?
cat /tmp/said /tmp/errors
[ $got = 0 ] && pass "it failed ${DRILLS:-1000} times, and no object is left behind" || fail "drill: exit code $got"
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ] && pass "the kernel's scheduler has every thread" ||
	fail "sched_ext is $(cat /sys/kernel/sched_ext/state)"
# Nothing but what sched_ext says of each end.
dmesg | grep -iE "BUG|WARNING|leak|Oops|lockup" >/tmp/log && fail "the kernel's log: $(head -n 3 /tmp/log)"
kill $workers 2>/dev/null
for n in 1 2 3; do
	for _ in $(seq 50); do
		[ -s /tmp/rounds$n ] && break
		sleep 0.1
	done
	[ "$(cat /tmp/rounds$n)" -gt 0 ] && pass "thread $n: $(cat /tmp/rounds$n) rounds" || fail "thread $n has not survived"
done
echo "failures: $failures"
[ $failures = 0 ]
