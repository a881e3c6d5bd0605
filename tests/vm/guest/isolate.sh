# What a guest does to test who runs where: tasks started and attached, others and interrupts off the core of analysed
# tasks, everything put back at the end, also after kill -9 and where the kernel refuses. Runs under busybox sh.
#
# After common.sh. The plan isolate.json has an analysed task, video, on core 1, and batch, best effort, on core 0.
mask() {
	taskset -p "$1" | sed 's/.*: //'
}
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
# Everything that isolation may change.
state() {
	for file in /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask \
		/sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/a/cpuset.cpus; do
		echo "$file $(cat $file 2>/dev/null)"
	done
	for pid in 1 $$ $free $bound $grouped $attached; do
		echo "$pid $(mask $pid) $(sed 's/.*) //' /proc/$pid/stat | cut -d ' ' -f 38,39)"
	done
}
same() {
	state >/tmp/state.now
	if cmp -s /tmp/state.before /tmp/state.now; then
		pass "$1: all is as it was"
	else
		fail "$1: $(diff /tmp/state.before /tmp/state.now | tr '\n' ' ')"
	fi
}
run="solocore run --partial /plans/isolate.json --event page-faults"

mkdir -p /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/a
# Who is only looked at sleeps: the emulator works while a CPU does.
sleep 10000 & free=$!
taskset 2 sleep 10000 & bound=$!
hog -1 & attached=$!
sleep 10000 & grouped=$!
echo $grouped >/sys/fs/cgroup/a/cgroup.procs
sleep 1
state >/tmp/state.before
echo "kernel $(uname -r): $(grep -c . /tmp/state.before) things to put back"

expect 0 "cores of analysed tasks: 1" $run --dry-run --command "video=/bin/true" --attach "batch=$attached"
grep -q "task video on core 1, SCHED_FIFO 89: would be started" /tmp/said || fail "not said: video"
grep -q "control groups a; threads that are bound there and would stay: 1" /tmp/said || fail "not said: others: $(grep others /tmp/said)"
same "after a dry run"

# A job notes where it runs and how.
cat >/bin/job <<'JOB'
#!/bin/sh
echo "$(taskset -p $$ | sed 's/.*: //') $(sed 's/.*) //' /proc/$$/stat | cut -d ' ' -f 38,39)" >>/tmp/jobs
JOB
chmod +x /bin/job
start --command "video=/bin/job" --attach "batch=$attached" --duration "5 s" --format json
sleep 1
# A newcomer, and one that lets itself run everywhere.
sleep 10000 & newcomer=$!
taskset f sleep 10000 & wide=$!
is "a free program" "$(mask $free)" d
is "a bound program stays" "$(mask $bound)" 2
is "a program in a control group" "$(mask $grouped)" d
is "the attached task" "$(mask $attached)" 1
is "the control group" "$(cat /sys/fs/cgroup/a/cpuset.cpus)" "0,2-3"
is "later interrupts" "$(cat /proc/irq/default_smp_affinity | tr -d ,)" 1
is "unbound kernel work" "$(cat /sys/devices/virtual/workqueue/cpumask | tr -d ,)" d
sleep 3
is "a newcomer" "$(mask $newcomer)" d
is "one that let itself run everywhere" "$(mask $wide)" d
moved=0
for list in /proc/irq/*/smp_affinity_list; do
	[ "$(cat $list)" = 0 ] && moved=$((moved + 1))
done
[ $moved -gt 0 ] && pass "interrupts of CPU 0 only: $moved" || fail "no interrupt was moved"
wait $daemon
is "exit code" $? 0
grep -q "cannot be put back" /tmp/errors && fail "$(grep -m 1 "put back" /tmp/errors)"
echo "refused: $(grep "cannot be moved" /tmp/errors)"
# The sched-ext engine orders them by rank: ordinary tasks for the kernel, so that budgets bind them.
[ "$WANT" = sched-ext ] && scheduled="2 0 0" || scheduled="2 89 1"
is "jobs on core 1: priority and policy" "$(sort /tmp/jobs | uniq -c | sed 's/^ *[0-9]* //')" "$scheduled"
jobs=$(grep -c . /tmp/jobs)
[ "$jobs" -ge 20 ] && pass "$jobs jobs" || fail "only $jobs jobs in 5 s"
same "at the end"
is "the newcomer is let go" "$(mask $newcomer)" f
is "so is the other" "$(mask $wide)" f
kill -9 $newcomer $wide

# Killed: while it starts, and at moments that differ.
for moment in start 0.3 2.5; do
	if [ $moment = start ]; then
		$run --command "video=/bin/job" --attach "batch=$attached" >/dev/null 2>/tmp/errors &
		daemon=$!
		sleep 0.6
	else
		start --command "video=/bin/job" --attach "batch=$attached"
		sleep 10000 & newcomer=$!
		sleep $moment
	fi
	kill -9 $daemon
	wait $daemon 2>/dev/null
	sleep 1.5
	same "killed ($moment)"
	[ $moment = start ] || { is "its newcomer is let go" "$(mask $newcomer)" f; kill -9 $newcomer; }
done

start --no-move-irqs --no-confine --no-fifo --attach "video=$attached"
is "no option: a free program" "$(mask $free)" f
is "no option: the attached task" "$(mask $attached) $(sed 's/.*) //' /proc/$attached/stat | cut -d ' ' -f 38,39)" "2 0 0"
is "no option: the control group" "$(cat /sys/fs/cgroup/a/cpuset.cpus)" ""
kill -TERM $daemon
wait $daemon
same "without options"

# A control group in which cpuset was on before, with a list of its own and without one.
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
for list in "" 0-2; do
	[ -z "$list" ] || echo "$list" >/sys/fs/cgroup/a/cpuset.cpus
	start --duration "1 s"
	is "the control group" "$(cat /sys/fs/cgroup/a/cpuset.cpus)" "0,2-3"
	wait $daemon
	is "the control group afterwards" "$(cat /sys/fs/cgroup/a/cpuset.cpus)" "${list:-0-3}"
	grep -q "cannot be put back" /tmp/errors && fail "$(grep -m 1 "put back" /tmp/errors)"
done
echo -cpuset >/sys/fs/cgroup/cgroup.subtree_control

# Another program enables cpuset below a group that solocore has limited: the kernel keeps the group's controller then. The group gets all
# CPUs, at the end of a run, and by the next start after a kill of daemon and keeper. Later runs limit it again.
mkdir /sys/fs/cgroup/run
for end in TERM kill; do
	if [ $end = TERM ]; then
		start --duration "600 s"
	else
		run="in_group $run"
		start --duration "600 s"
		run=${run#in_group }
	fi
	is "the control group" "$(cat /sys/fs/cgroup/a/cpuset.cpus)" "0,2-3"
	mkdir /sys/fs/cgroup/a/below
	echo +cpuset >/sys/fs/cgroup/a/cgroup.subtree_control
	if [ $end = TERM ]; then
		kill -TERM $daemon
		wait $daemon
		is "cpuset enabled below: exit code" $? 0
	else
		echo 1 >/sys/fs/cgroup/run/cgroup.kill
		wait $daemon 2>/dev/null
		is "cpuset enabled below, killed: the control group" "$(cat /sys/fs/cgroup/a/cpuset.cpus)" "0,2-3"
		start --duration "100 ms"
		wait $daemon
		is "cpuset enabled below, the next run: exit code" $? 0
	fi
	is "cpuset enabled below, $end: the control group afterwards" "$(cat /sys/fs/cgroup/a/cpuset.cpus)" "0-3"
	is "cpuset enabled below, $end: its program" "$(mask $grouped)" f
	echo -cpuset >/sys/fs/cgroup/a/cgroup.subtree_control
	rmdir /sys/fs/cgroup/a/below
	echo -cpuset >/sys/fs/cgroup/cgroup.subtree_control
done
rmdir /sys/fs/cgroup/run
same "after cpuset was enabled below"

# Another program changes control groups and affinities meanwhile: a look of two seconds finds it, repairs what solocore set, and says so.
groups=/sys/fs/cgroup
said() {
	grep -q "$1" /tmp/errors && pass "said: $1" || fail "not said: $1: $(tail -n 3 /tmp/errors)"
}
mkdir $groups/b
echo $attached >$groups/b/cgroup.procs
start --command "video=/bin/job" --attach "batch=$attached" --duration "600 s" --format json
echo 0-3 >$groups/a/cpuset.cpus
taskset -p f $attached >/dev/null
sleep 4
is "a widened group" "$(cat $groups/a/cpuset.cpus)" "0,2-3"
said "control group /a: another program allowed it CPUs 1 as well; it is limited again"
is "an attached task that was let go" "$(mask $attached)" 1
echo -cpuset >$groups/cgroup.subtree_control
sleep 4
is "a group without its controller" "$(cat $groups/a/cpuset.cpus)" "0,2-3"
said "control group /a: another program turned its cpuset off; it is limited again"
for list in 0-2 0-3; do
	echo $list >$groups/a/cpuset.cpus
	sleep 4
done
is "a group that was widened too often" "$(cat $groups/a/cpuset.cpus)" "0-3"
said "it was changed 4 times"
is "its program" "$(mask $grouped)" d
is "messages of the group" "$(grep -c "control group /a" /tmp/errors)" 4
echo 1 >$groups/b/cgroup.freeze
sleep 4
said "task .batch.: its control group /b was frozen"
echo 0 >$groups/b/cgroup.freeze
mkdir $groups/run
echo $daemon >$groups/run/cgroup.procs
echo 0,2-3 >$groups/run/cpuset.cpus
sleep 4
said "task .video.: its control group /run has CPUs 0,2-3 but not its core, CPU 1"
kill -TERM $daemon
wait $daemon
is "exit code after changes of control groups" $? 0
grep -A9 '"broken"' /tmp/run.json | grep -q '"place:task-video"' && pass "the broken promise is named" || fail "not broken: $(grep -A9 '"broken"' /tmp/run.json)"
echo $attached >$groups/cgroup.procs
rmdir $groups/b $groups/run
same "after changes of control groups"

# A task that goes away, a task that is stopped, and one that fails.
start --command "video=/bin/false" --duration "2 s" --format json
wait $daemon
grep -q "failed 3 times in a row" /tmp/run.json && pass "a failing task is given up" || fail "nothing is said of a failing task"
hog -1 & gone=$!
start --attach "video=$gone" --duration "2 s"
kill -9 $gone
wait $daemon
is "the attached task has gone" $? 0
start --attach "video=$attached" --duration "2 s"
kill -STOP $attached
wait $daemon
is "the attached task is stopped" $? 0
kill -CONT $attached
same "after that"

expect 2 "process does not exist" $run --attach video=99999
expect 2 "the kernel's" $run --attach video=2
expect 2 "not a number of a process" $run --attach video=me
expect 2 "the plan has no such task" $run --attach nobody=1
expect 2 "there is no program" $run --command "video=/bin/nothing"
expect 2 "named twice" $run --attach video=1 --command video=/bin/true
expect 2 "name one of them" $run --irq-cpu 9
expect 2 "no task of the plan has a command" $run --start
expect 2 "there is no such directory" $run --directory /nowhere
same "after refusals"

echo "failures: $failures"
[ $failures = 0 ]
