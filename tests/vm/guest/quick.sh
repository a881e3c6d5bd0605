# What a guest does in `make test`: the shortest run that would notice a broken engine, a budget that is not kept, or a machine that
# is not put back; with sched_ext, also VCPUs that get their capacities. After common.sh; $WANT is the engine that must run by itself.
mask() {
	taskset -p "$1" | sed 's/.*: //'
}
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3; the latest run said: $(tail -n 1 /tmp/errors 2>/dev/null)"
}
sum() {
	sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" /tmp/run.json | awk '{ s += $1 } END { print s + 0 }'
}
state() {
	cat /proc/sys/kernel/sched_rt_runtime_us /proc/irq/default_smp_affinity /proc/irq/*/smp_affinity_list
	cat /sys/kernel/debug/sched/fair_server/cpu*/runtime /sys/kernel/sched_ext/state 2>/dev/null
	mask $free
	find /run -type s
}
# Under the smallest budget of mixed.json, 5 a millisecond, 1000 faults take 200 ms.
same() {
	state >/tmp/state.now
	cmp -s /tmp/state.before /tmp/state.now && pass "$1: all is as it was" ||
		fail "$1: $(diff /tmp/state.before /tmp/state.now | tr '\n' ' ')"
	took=$(hog 0 work 1000)
	[ "$took" -lt 100000000 ] && pass "$1: CPU 0 is free" || fail "$1: 1000 faults take $took ns"
}

mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
echo "kernel $(uname -r), engine $WANT"
# The emulator works while a CPU does: hogs run only where something is to be throttled.
hogs=
for cpu in 0 1 2 3; do
	hog $cpu &
	hogs="$hogs $!"
done
kill -STOP $hogs
free=$$
state >/tmp/state.before

run="solocore run --partial /plans/mixed.json --event page-faults"
start --duration "1 s" --format json
kill -CONT $hogs
wait $daemon
is "exit code" $? 0
kill -STOP $hogs
is "engine" "$(sed -n 's/^ *"engine": "\(.*\)",$/\1/p' /tmp/run.json)" "$WANT"
echo "periods $(sum periods), throttled $(sum throttled_periods), over $(sum periods_over_budget)"
[ "$(sum throttled_periods)" -gt 500 ] || fail "hardly a period was throttled, so nothing was tested"
if [ "$WANT" = sched-ext ]; then
	is "periods over budget" "$(sum periods_over_budget)" 0
else
	# A hole like that of the fair server is one period in twenty.
	[ $(($(sum periods_over_budget) * 200)) -le "$(sum periods)" ] || fail "too many periods over budget"
fi
same "regulated"

start
kill -CONT $hogs
sleep 0.2
kill -9 $daemon
wait $daemon 2>/dev/null
sleep 0.2
kill -9 $hogs
same "killed"

run="solocore run --partial /plans/isolate.json --event page-faults"
start --command "video=/bin/true" --duration "1 s" --format json
is "others are kept off core 1" "$(mask $free)" d
is "later interrupts" "$(tr -d , </proc/irq/default_smp_affinity)" 1
wait $daemon
is "exit code" $? 0
[ "$(sum jobs)" -gt 3 ] && pass "$(sum jobs) jobs" || fail "$(sum jobs) jobs in a second: $(tail -n 2 /tmp/errors)"
grep -q "put back" /tmp/errors && fail "$(grep "put back" /tmp/errors)"
same "isolated"

# Budgets bind analysed tasks as well: 1000 faults at 20 a millisecond take 50 ms, where a real-time task took 1 or 2.
of_task() {
	awk -F '[:,]' -v task="$1" -v field="$2" '
		/"name"/ { gsub(/[ "]/, "", $2); at = $2 }
		index($0, "\"" field "\"") && at == task { print $2 + 0; exit }' /tmp/run.json
}
run="solocore run --partial /plans/ranks.json --event page-faults"
start --command "low=/bin/hog -1 work 1000" --duration "2 s" --format json
wait $daemon
is "exit code" $? 0
mean=$(of_task low mean_response_ns)
[ "${mean:-0}" -gt 45000000 ] && pass "an analysed task keeps to its budget: a job takes $mean ns" ||
	fail "an analysed task passes by its budget: a job takes ${mean:-no} ns"
[ "$(sum throttled_periods)" -gt 100 ] || fail "hardly a period was throttled, so nothing was tested"
if [ "$WANT" = sched-ext ]; then
	is "periods over budget" "$(sum periods_over_budget)" 0
else
	[ $(($(sum periods_over_budget) * 50)) -le "$(sum throttled_periods)" ] || fail "too many periods over budget"
fi
# And they keep their priorities: a short job does not wait for one of 300 ms.
took=$(hog 1 spin 40000000)
start --command "high=/bin/true" --command "low=/bin/hog -1 spin $((300000000 / (took / 40000000 + 1)))" --duration "3 s" --format json
wait $daemon
is "exit code" $? 0
high=$(of_task high mean_response_ns) low=$(of_task low mean_response_ns)
[ "${low:-0}" -gt 40000000 ] || fail "the long job took ${low:-no} ns, so nothing was tested"
[ "$(of_task high jobs)" -gt 10 ] || fail "$(of_task high jobs) short jobs in 3 s"
[ $((${high:-0} * 4)) -lt "${low:-0}" ] && pass "the short job goes first: $high ns beside $low ns" || fail "the short job took ${high:-no} ns beside $low ns"
same "ranked"

# Dynamic budgets beside an unmodified program: solocore signals the jobs that it starts, so the soft cores are held down in them. Without
# signals nobody is ever throttled; how many jobs there are is up to the emulator, which may starve a CPU that computes (throttled in 2 s: 0 to
# 279 periods), so a run may be repeated.
hog 1 &
hogs=$!
run="solocore run --partial /plans/dynamic.json --event page-faults"
for seconds in 2 4 8; do
	start --command "video=/bin/hog -1 spin $((40000000 / (took / 40000000 + 1)))" --duration "$seconds s" --format json
	wait $daemon
	is "exit code" $? 0
	[ "$(sum throttled_periods)" -le 10 ] || break
done
[ "$(sum throttled_periods)" -gt 10 ] && pass "jobs of a started program hold soft cores down: $(sum throttled_periods) periods" ||
	fail "jobs of a started program hold nobody down: $(sum throttled_periods) periods throttled of $(sum periods)"
[ "$(of_task video jobs)" -gt 0 ] || fail "$(of_task video jobs) jobs in $seconds s"
kill -9 $hogs
same "signalled"

# Daemon and keepers killed together, as with their control group: the journal knows the way back.
killed_whole() {
	start --command "video=/bin/sleep 1000" --duration "60 s"
	sleep 0.5
	kill -STOP $daemon
	for process in /proc/[0-9]*; do
		tr '\0' ' ' <$process/cmdline 2>/dev/null | grep -q keep-settings && kill -9 ${process#/proc/}
	done
	kill -9 $daemon
	wait $daemon 2>/dev/null
	sleep 0.2
	state >/tmp/state.now
	cmp -s /tmp/state.before /tmp/state.now && fail "nothing was left behind, so nothing was tested"
}
sleepers() {
	cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -o "/bin/slee[p] 1000" | wc -l
}
run="solocore run --partial /plans/isolate.json --event page-faults"
killed_whole
expect 0 "put back" solocore restore
same "restored"
expect 0 "no settings were left" solocore restore
is "jobs of the killed run" "$(sleepers)" 1
killed_whole
start --duration "300 ms" --format json
wait $daemon
is "exit code" $? 0
grep -q "put back settings that an earlier solocore" /tmp/errors && pass "the next start says so" || fail "not said: $(cat /tmp/errors)"
is "jobs of killed runs after the next start" "$(sleepers)" 0
same "repaired by the next start"

# A CPU that is offline for a moment comes back without its timer and counter: it is regulated again, and the run says so (away.sh).
# 5 faults a millisecond let 300 take 60 ms; without a budget they take some 2 ms.
run="solocore run --partial /plans/5.json --event page-faults"
start --duration "60 s" --format json
echo 0 >/sys/devices/system/cpu/cpu3/online && echo 1 >/sys/devices/system/cpu/cpu3/online || fail "CPU 3 does not go offline"
sleep 0.1
took=$(hog 3 work 300)
[ "$took" -gt 40000000 ] && pass "CPU 3 is regulated again: 300 faults take $took ns" || fail "CPU 3 is not regulated: 300 faults take $took ns"
kill -TERM $daemon
wait $daemon
is "exit code after a moment offline" $? 0
[ "$(sum lapses)" -gt 0 ] && pass "$(sum lapses) lapses were counted" || fail "no lapse was counted: $(tail -n 2 /tmp/errors)"
same "after a moment offline"

# A task that last ran on a throttled CPU wakes on an idle one. There it would wait for the next period, 5 ms on average.
if [ "$WANT" = sched-ext ]; then
	hog 3 &
	hogs=$!
	run="solocore run --partial /plans/hours.json --event page-faults --no-confine"
	start --duration "60 s" --format json
	late=$(hog 3 wake 40)
	kill -9 $hogs
	kill -TERM $daemon
	wait $daemon
	[ "$late" -lt 1500000 ] && pass "a task wakes beside a throttled CPU after $late ns" || fail "a task wakes beside a throttled CPU after $late ns"
	[ "$(sum throttled_periods)" -gt 10 ] || fail "no CPU was throttled, so nothing was tested"
	same "woken"
fi

# PREEMPT_RT refuses the timers of BPF programs, which schedulers need, and doctor says so.
schedulers=$WANT
if uname -v | grep -q PREEMPT_RT; then
	schedulers=none
	expect 0 "^no   schedulers: this kernel (PREEMPT_RT) refuses" solocore doctor
	expect 3 "cannot be used for PREEMPT_RT" solocore vcpu serve
	same "refused"
fi

# VCPUs: one that does not fit is refused, two that compute have their capacities, and the trace says so.
if [ "$schedulers" = sched-ext ]; then
	# A busy host leaves few periods that may be judged: then more are watched.
	for seconds in 1 2 4 8; do
		serve --overhead "1 ms" --vcpu a=30ms/100ms@1 --vcpu b=10ms/50ms@1 --sched-trace /tmp/trace.csv
		expect 2 "does not fit on core 1: with it the utilisation is 1.1" solocore vcpu create c 50ms/100ms --core 1
		workers=
		for name in a b; do
			worker 1 >/dev/null &
			solocore vcpu bind $! $name
			workers="$workers $!"
		done
		sleep $seconds
		kill -INT $daemon
		wait $daemon
		is "exit code" $? 0
		kill $workers || fail "a thread died with its VCPU"
		expect 0 "no violation" solocore check-trace /tmp/trace.csv
		judged=$(sed -n 's/^  supply: \([0-9]*\) times$/\1/p' /tmp/said)
		[ "${judged:-0}" -le 10 ] || break
	done
	[ "${judged:-0}" -gt 10 ] && pass "$judged periods of VCPUs were judged" || not_judged "the supply of VCPUs: only ${judged:-no} periods could be"
	is "the kernel's scheduler" "$(cat /sys/kernel/sched_ext/state)" disabled
fi

# Criticality levels: one task of level A, and one of level C that never ends a job by itself.
if [ "$schedulers" = sched-ext ]; then
	solocore run --partial /plans/levels.json --scheduler levels --format json --duration "500 ms" --sched-trace /tmp/t.csv \
		--command "pilot=/bin/leveler 1500 yield" --command "log=/bin/leveler 9999999 yield" >/tmp/run.json 2>/tmp/errors
	is "exit code" $? 0
	# The emulator lets CPUs wait for milliseconds (levels.sh).
	sed -i '1s/$/ tolerance_ns=50000000/' /tmp/t.csv
	solocore check-trace /tmp/t.csv || fail "a rule of the levels is broken"
	[ "$(sum overruns)" -gt 3 ] && pass "a budget of level C is kept: $(sum overruns) overruns" || fail "$(sum overruns) overruns in 500 ms"
	[ "$(sum completed)" -gt 10 ] && pass "$(sum completed) jobs of level A" || fail "$(sum completed) jobs of level A: $(tail -n 2 /tmp/errors)"
	same "levels"
fi

# A limit of time of a control group holds meanwhile (groups.sh). Without it two loops have two CPUs.
if [ "$WANT" = sched-ext ]; then
	mount -t cgroup2 cgroup /sys/fs/cgroup
	echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
	mkdir /sys/fs/cgroup/small
	echo "10000 100000" >/sys/fs/cgroup/small/cpu.max
	run="solocore run --partial /plans/200.json --event page-faults --no-confine"
	start --duration "60 s"
	for _ in 1 2; do
		sh -c 'echo 0 >/sys/fs/cgroup/small/cgroup.procs; exec sh -c "while :; do :; done"' &
		hogs="$hogs $!"
	done
	usage() {
		sed -n 's/^usage_usec //p' /sys/fs/cgroup/small/cpu.stat
	}
	sleep 0.3
	used=$(usage)
	sleep 2
	used=$(($(usage) - used))
	[ $used -gt 150000 ] && [ $used -lt 250000 ] && pass "a group limited to 10 % had $used us in 2 s" || fail "a group limited to 10 % had $used us in 2 s"
	kill -9 $hogs 2>/dev/null
	kill -TERM $daemon
	wait $daemon
	is "exit code" $? 0
fi

echo "failures: $failures, not judged: $unjudged, after $(cut -d ' ' -f 1 /proc/uptime) s"
[ $failures = 0 ]
