# What the guests' scripts share. $run is the command that regulates.
failures=0
fail() {
	echo "FAIL: $*"
	failures=$((failures + 1))
}
pass() {
	echo "ok: $*"
}
# What a busy host leaves too little of, also in a longer try; the run says it at its end.
unjudged=0
not_judged() {
	echo "not judged: $*"
	unjudged=$((unjudged + 1))
}
# expect CODE TEXT COMMAND...: its exit code, and something that it must say.
expect() {
	code=$1 text=$2
	shift 2
	"$@" >/tmp/said 2>&1
	got=$?
	if [ $got != "$code" ]; then
		fail "exit code $got, not $code: $*: $(head -n 3 /tmp/said)"
	elif ! grep -q "$text" /tmp/said; then
		fail "not said: $text: $*: $(head -n 3 /tmp/said)"
	else
		pass "exit code $code, \"$text\": $*"
	fi
}
# start ARGUMENTS...: a daemon in the background, and until it regulates.
start() {
	: >/tmp/errors
	$run "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
	for _ in $(seq 150); do
		grep -q "^regulating" /tmp/errors && return
		sleep 0.1
	done
	fail "the daemon does not start: $(cat /tmp/errors)"
}
# hold ARGUMENTS...: a reserve in the background, and until it has what it gets.
hold() {
	: >/tmp/held
	solocore reserve "$@" >/tmp/reserve.json 2>/tmp/held &
	reserve=$!
	for _ in $(seq 600); do
		grep -q "^holding" /tmp/held && return
		kill -0 $reserve 2>/dev/null || break
		sleep 0.1
	done
	fail "no reserve: $(cat /tmp/held)"
}
# serve ARGUMENTS...: a scheduler of VCPUs in the background, and until it schedules.
serve() {
	: >/tmp/errors
	solocore vcpu serve "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
	for _ in $(seq 300); do
		grep -q "^scheduling" /tmp/errors && return
		sleep 0.1
	done
	fail "the scheduler does not start: $(cat /tmp/errors)"
}
# state: all that a run may change, with the threads of the programs $watched (numbers of processes); few programs, as a guest starts some
# 50 a second. What a kernel lacks is left out.
state() {
	grep -sH . /proc/sys/kernel/sched_rt_runtime_us /proc/sys/kernel/perf_event_max_sample_rate /proc/sys/kernel/perf_cpu_time_max_percent \
		/proc/irq/default_smp_affinity /proc/irq/*/smp_affinity_list /sys/devices/virtual/workqueue/cpumask \
		/sys/kernel/debug/sched/*_server/cpu*/runtime /sys/kernel/sched_ext/state /sys/fs/resctrl/schemata
	find /sys/fs/cgroup \( -name cpuset.cpus -o -name cgroup.subtree_control -o -name cpu.max -o -name cpu.weight \) -exec grep -sH . {} + 2>/dev/null
	find /run /sys/fs/bpf /sys/fs/cgroup /sys/fs/resctrl -type d -o -path '/run/*' -print 2>/dev/null
	for process in $watched; do
		grep -sH '^Cpus_allowed:' /proc/$process/task/*/status
		cat /proc/$process/cgroup
		# Priority and policy of each thread.
		cat /proc/$process/task/*/stat | cut -d ' ' -f 1,40,41
	done
	bpfcount
}
# remember: the state to compare with. What a run before it left to the kernel to free is gone by then.
bpf_at_boot=$(bpfcount 2>/dev/null)
remember() {
	for _ in $(seq 100); do
		[ "$(bpfcount)" != "$bpf_at_boot" ] || break
		sleep 0.1
	done
	state >/tmp/state.before
}
# unchanged WHAT: compares it with the state before, byte by byte. What the kernel frees later has two seconds.
unchanged() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		state >/tmp/state.now
		cmp -s /tmp/state.before /tmp/state.now && return
		sleep 0.1
	done
	fail "$1: not as it was: $(diff /tmp/state.before /tmp/state.now | tr '\n' ' ')"
	return 1
}
# in_group COMMAND...: in a control group of its own, so that all of a run can be killed at once.
in_group() {
	echo 0 >/sys/fs/cgroup/run/cgroup.procs
	exec "$@"
}
# starve: a task of CPU 3 that waits until the kernel's watchdog ends the scheduler; the exit code of the daemon. For a plan that gives CPU 3
# a budget. The daemon is stopped and its counter taken, so that the CPU stays throttled.
starve() {
	start --engine sched-ext --duration "600 s"
	hog 3 &
	starved=$!
	sleep 0.1
	kill -STOP $daemon
	uncount 3 || fail "no counter was taken"
	for _ in $(seq 60); do
		sleep 1
		[ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || break
	done
	kill -9 $starved
	kill -CONT $daemon
	wait $starved 2>/dev/null
	wait $daemon
}
# Since the boot, in hundredths of a second.
hundredths() {
	cut -d ' ' -f 1 /proc/uptime | tr -d .
}
# walkers N: programs that may run on CPU 3 only, and are in the kernel most of the time; their numbers are in $beside.
walkers() {
	beside=
	for _ in $(seq $1); do
		walker 3 &
		beside="$beside $!"
	done
}
# offline: CPU 3 goes, within a second. A CPU that has to wait for a task that nobody runs takes 20 s.
offline() {
	at=$(hundredths)
	echo 0 >/sys/devices/system/cpu/cpu3/online || fail "CPU 3 does not go offline"
	[ $(($(hundredths) - at)) -le 100 ] || fail "CPU 3 took $(($(hundredths) - at)) hundredths of a second to go offline"
}
online() {
	echo 1 >/sys/devices/system/cpu/cpu3/online || fail "CPU 3 does not come back"
}
