# What a guest does to survive faults by the hundred: the daemon is killed at any moment, alone or with its whole control group; the kernel
# takes the scheduler away, as asked (sysrq) and by its watchdog; the daemon is ended and started again; another plan comes, also from a sender that
# is killed. Each time the whole state is compared with that before, byte by byte. After
# common.sh; $TIMES: of each kind under each engine (default 100); $ALONE: of the kinds that only one of them has (default $TIMES); $FIRST: number of the first one, as moments follow the numbers (default 1). Hotplug, sleep
# and failing counters: away.sh with the same variables. A thousand of each kind, in pieces: ../endure.sh.
TIMES=${TIMES:-100}
FIRST=${FIRST:-1}
ALONE=${ALONE:-$TIMES}
is() {
	[ "$2" = "$3" ] || fail "$1: $2, not $3; the latest run said: $(tail -n 2 /tmp/errors)"
}
# The processes of a run: its keepers, and the tasks that it started.
of_run() {
	for process in /proc/[0-9]*; do
		case $({ tr '\0' ' ' <$process/cmdline; } 2>/dev/null) in
		*keep-settings*) [ $1 = keepers ] && echo ${process#/proc/} ;;
		"/bin/sleep 1000 "*) [ $1 = tasks ] && echo ${process#/proc/} ;;
		esac
	done
}
begin() {
	: >/tmp/errors
	$run "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
}
begin_in_group() {
	: >/tmp/errors
	in_group $run "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
}
# The moment of a fault: while it starts, as it begins, in the midst of a run. A thousand numbers have a thousand moments.
moment() {
	sleep 0.$(printf %03d $((number * 617 % 1000)))
}
# The budget of CPU 0 in force.
present() {
	solocore top --format json 2>/dev/null | grep -o '"budget": [0-9]*' | head -n 1 | grep -o '[0-9]*'
}
survived() {
	now=$failures times=${1:-$TIMES}
	echo "ok: $kind, $engine: $((times - now + before)) of $times left nothing behind, after $(cut -d ' ' -f 1 /proc/uptime) s"
}


mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
mkdir /sys/fs/cgroup/run
sleep 100000 &
watched="$! $$"
run="solocore run --partial /plans/isolate.json --event page-faults"
# The first run makes the directory of journals and the lock's file, which stay.
start --duration "100 ms" --format json
wait $daemon
remember
engines=helper
[ "$WANT" = helper ] || engines="auto helper"
for engine in $engines; do
	kind="daemon killed" before=$failures
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		begin --engine $engine --duration "60 s" --command "video=/bin/sleep 1000"
		moment
		kill -9 $daemon
		wait $daemon 2>/dev/null
		# Its tasks run on; the next start ends them.
		unchanged "$kind, $engine, $number"
	done
	survived

	kind="control group killed" before=$failures
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		begin_in_group --engine $engine --duration "60 s" --command "video=/bin/sleep 1000"
		moment
		echo 1 >/sys/fs/cgroup/run/cgroup.kill
		wait $daemon 2>/dev/null
		# The next start, and restore, know the way back from the journal.
		if [ $((number % 2)) = 0 ]; then
			solocore restore >/tmp/said 2>&1
		else
			begin --engine $engine --duration "10 ms" --format json
			wait $daemon
			is "$kind, $engine, $number: exit code" $? 0
			is "$kind, $engine, $number: tasks of killed runs" "$(of_run tasks)" ""
		fi
		unchanged "$kind, $engine, $number"
	done
	survived

	kind="ended and started again" before=$failures
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		begin --engine $engine --duration "60 s" --command "video=/bin/sleep 1000"
		moment
		kill -TERM $daemon
		wait $daemon
		code=$?
		[ $code = 0 ] || [ $code = 130 ] || [ $code = 143 ] || fail "$kind, $engine, $number: exit code $code: $(tail -n 2 /tmp/errors)"
		unchanged "$kind, $engine, $number"
	done
	survived

	# The budgets are those of one of the two plans, whatever became of the sender; a sender that is not killed has its plan taken.
	kind="another plan" before=$failures
	run="solocore run --partial --event page-faults --no-confine /plans/day.json"
	for number in $(seq $FIRST $((FIRST + TIMES - 1))); do
		start --engine $engine --duration "60 s" --format json
		if [ $((number % 2)) = 0 ]; then
			solocore run /plans/night.json --replace >/tmp/said 2>&1 &
			sender=$!
			sleep 0.$(printf %03d $((number * 617 % 400)))
			kill -9 $sender 2>/dev/null
			wait $sender 2>/dev/null
			sleep 0.1
			budget=$(present)
			[ "$budget" = 20 ] || is "$kind, $engine, $number: budget after its sender was killed" "$budget" 50
		else
			solocore run /plans/night.json --replace >/tmp/said 2>&1 || fail "$kind, $engine, $number: $(tail -n 1 /tmp/said)"
			is "$kind, $engine, $number: budget" "$(present)" 50
		fi
		kill -TERM $daemon
		wait $daemon
		is "$kind, $engine, $number: exit code" $? 0
		unchanged "$kind, $engine, $number"
	done
	survived
	run="solocore run --partial /plans/isolate.json --event page-faults"

	if [ $engine = auto ]; then
		# The daemon is stopped and a counter lost, so that CPU 3 stays throttled with a task that wants it: after 20 s the watchdog ends the
		# scheduler. Nobody computes meanwhile, so it costs the emulator little.
		kind="watchdog" before=$failures
		run="solocore run --partial /plans/5.json --event page-faults --no-confine"
		for number in $(seq $FIRST $((FIRST + ALONE - 1))); do
			starve
			is "$kind, $number: exit code" $? 3
			grep -q "the kernel unloaded the scheduler: .*stall" /tmp/errors || fail "$kind, $number: not said: $(tail -n 1 /tmp/errors)"
			unchanged "$kind, $number"
		done
		run="solocore run --partial /plans/isolate.json --event page-faults"
		survived $ALONE

		# What the kernel does when its watchdog finds a stalled task: it ends the scheduler. The daemon says so and ends.
		kind="scheduler taken away" before=$failures
		for number in $(seq $FIRST $((FIRST + ALONE - 1))); do
			start --duration "60 s" --command "video=/bin/sleep 1000"
			sleep 0.0$((number % 10))
			echo S >/proc/sysrq-trigger
			wait $daemon
			is "$kind, $number: exit code" $? 3
			grep -q "the kernel unloaded the scheduler" /tmp/errors || fail "$kind, $number: not said: $(tail -n 1 /tmp/errors)"
			unchanged "$kind, $number"
		done
		survived $ALONE
	fi
done
for pid in $(of_run tasks); do
	kill -9 $pid
done
echo "failures: $failures, after $(cut -d ' ' -f 1 /proc/uptime) s"
[ $failures = 0 ]
