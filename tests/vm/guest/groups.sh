# What a guest does to test that limits of time of control groups (cpu.max) hold while solocore regulates, whichever engine runs: a limit set
# before and during the run, one above a group, one of several CPUs, beside tasks without a limit, with a CPU that goes offline, and a limit so
# small that its tasks wait for long. Shares of CPU time are measured by the kernel's own account (cpu.stat). After common.sh.
G=/sys/fs/cgroup
mount -t cgroup2 cgroup $G 2>/dev/null
echo +cpu >$G/cgroup.subtree_control || fail "no controller of time"
group() {
	mkdir -p $G/$1
	[ -z "${2:-}" ] || echo "$2" >$G/$1/cpu.max
}
# computing GROUP NUMBER [CPUS]: that many loops in a group.
computing() {
	for _ in $(seq $2); do
		sh -c "echo 0 >$G/$1/cgroup.procs; exec taskset ${3:-f} sh -c 'while :; do :; done'" &
		loops="$loops $!"
	done
}
used() {
	sed -n 's/^usage_usec //p' $G/$1/cpu.stat
}
now() {
	awk '{ printf "%d", $1 * 1000000 }' /proc/uptime
}
# within WHAT GROUP LOW HIGH [SECONDS]: its part of a CPU in per cent, measured for some seconds.
within() {
	at=$(now) before=$(used $2)
	sleep ${5:-2}
	part=$((($(used $2) - before) * 1000 / ($(now) - at)))
	[ $part -ge $(($3 * 10)) ] && [ $part -le $(($4 * 10)) ] && pass "$1: $((part / 10)).$((part % 10)) % of a CPU" ||
		fail "$1: $((part / 10)).$((part % 10)) % of a CPU, not $3 to $4"
}
stop_all() {
	kill -9 $loops 2>/dev/null
	wait $loops 2>/dev/null
	loops=
}
loops=
run="solocore run --partial /plans/200.json --event page-faults --no-confine"
echo "kernel $(uname -r), engine $WANT"

group small "10000 100000"
computing small 4
within "before the run" small 8 13
start --duration "600 s" --format json
grep -q "with the $WANT engine" /tmp/errors || fail "another engine: $(cat /tmp/errors)"
within "10 % for four tasks" small 7 12
group free
computing free 4
within "beside four without a limit" small 7 12
within "those without a limit" free 330 395
echo "40000 100000" >$G/small/cpu.max
sleep 0.2
within "raised meanwhile to 40 %" small 36 43
echo "5000 20000" >$G/small/cpu.max
sleep 0.2
within "25 % in shorter periods" small 22 28
stop_all

group several "200000 100000"
computing several 4
sleep 0.2
within "two CPUs for four tasks" several 180 205
echo max >$G/several/cpu.max
sleep 0.2
within "lifted meanwhile" several 350 400
stop_all

group outer "20000 100000"
echo +cpu >$G/outer/cgroup.subtree_control
group outer/inner "50000 100000"
computing outer/inner 2
group outer/other
computing outer/other 2
sleep 0.2
within "a limit above two groups" outer 18 22
echo max >$G/outer/cpu.max
sleep 0.2
within "that of one of them" outer/inner 45 53
stop_all

# Tasks wait on a CPU that goes offline, and two may run there only. Without it for two seconds the run would end.
group small "10000 100000"
computing small 2 8
computing small 2
# They bind themselves to it before it goes.
sleep 0.2
offline
within "with a CPU offline" small 7 13 1
online
within "with the CPU back" small 7 12
# A task that leaves its group goes on at once.
one=${loops##* }
echo $one >$G/cgroup.procs
at=$(cut -d ' ' -f 14 /proc/$one/stat)
sleep 1
[ $(($(cut -d ' ' -f 14 /proc/$one/stat) - at)) -gt 80 ] && pass "a task that left the group has a CPU" || fail "a task that left the group has $(($(cut -d ' ' -f 14 /proc/$one/stat) - at)) ticks of 100"
stop_all

# The smallest limit: each turn is an excess of several periods. The kernel ends a scheduler that lets a task wait for 20 s.
group small "1000 1000000"
computing small 4
begun=$(used small)
within "0.1 %" small 0 2 30
[ $(($(used small) - begun)) -gt 5000 ] && pass "they had some turns: $(($(used small) - begun)) us" || fail "they had $(($(used small) - begun)) us in 30 s"
# The excess of a few turns is some seconds of such a limit; without one, the tasks go on.
echo max >$G/small/cpu.max
sleep 1.2
within "lifted from 0.1 %" small 330 400
stop_all
[ "$WANT" = helper ] || [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || fail "the scheduler ended: $(cat /tmp/errors)"
kill -TERM $daemon
wait $daemon
code=$?
[ $code = 0 ] && pass "exit code 0" || fail "exit code $code: $(tail -n 3 /tmp/errors)"
grep "do not hold" /tmp/errors && fail "a limit was said not to hold"
# Shares do not hold under the sched-ext engine, and the run says so.
if [ "$WANT" = sched-ext ]; then
	echo max >$G/small/cpu.max
	echo 20 >$G/small/cpu.weight
	computing small 1
	start --duration "300 ms" --format json
	wait $daemon
	grep -q "do not hold under the sched-ext engine: small (cpu.weight 20)" /tmp/errors && pass "said: shares do not hold" || fail "not said that shares do not hold: $(cat /tmp/errors)"
	stop_all
fi
echo "failures: $failures, after $(cut -d ' ' -f 1 /proc/uptime) s"
[ $failures = 0 ]
