# What a guest does to test the scheduler of levels and partitions: levels keep their order and budgets, partitions their windows, the
# checker finds no broken rule in what the kernel did, programs signal their jobs, real-time threads are seen, and whatever ends the
# scheduler leaves the machine to the kernel's own.
#
# After common.sh. levels.json: pilot and rudder (A), gps and radio (B) on core 0, video, map and log (C), batch (D) on core 2.
# windows.json: nav and display on core 0, every 40 ms; radio and log on core 1, every 60 ms; core 3 is for I/O.
#
# An emulator that plays CPUs by turns lets each run until the next timer of any, begins with the first that has something to do, and at
# times passes over the next: with several busy, all but the first are late by milliseconds. What must be exact runs on CPU 0.
#
# $LEVEL_SECONDS (2): how long they are watched; $LEVEL_ROUNDS (3): how often the daemon is killed.
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
# value TASK FIELD [FILE]: of a task in a summary or a plan.
value() {
	awk -v task="\"$1\"," -v field="\"$2\":" '$1 == "\"name\":" { in_it = $2 == task } in_it && $1 == field { gsub(",", "", $2); print $2; exit }' ${3:-/tmp/run.json}
}
below() {
	[ -n "$2" ] && [ "$2" -le "$3" ] && pass "$1: $2 <= $3" || fail "$1: $2, above $3"
}
above() {
	[ -n "$2" ] && [ "$2" -ge "$3" ] && pass "$1: $2 >= $3" || fail "$1: $2, below $3"
}
start() {
	: >/tmp/errors
	begun=$(cut -d ' ' -f 1 /proc/uptime)
	$run "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
	for _ in $(seq 150); do
		grep -q "^scheduling" /tmp/errors && return
		sleep 0.1
	done
	fail "the daemon does not start: $(cat /tmp/errors)"
}
state() {
	cat /sys/kernel/sched_ext/state
}
objects() {
	solocore vcpu drill --times 0 --format json 2>/dev/null | tr -d ' \n' | sed 's/.*"before":\[\([0-9,]*\)\].*/\1/'
}
# tolerance NS: what may be late in the trace, at most.
tolerance() {
	sed -i "1s/ tolerance_ns=[0-9]*//; 1s/\$/ tolerance_ns=$1/" /tmp/t.csv
}
# checked NAME NS: the trace, with that tolerance.
checked() {
	tolerance $2
	solocore check-trace /tmp/t.csv && pass "$1: no rule is broken" || fail "$1: a rule is broken"
}
shown() {
	for task in "$@"; do
		echo "$task: jobs $(value $task jobs) done $(value $task completed) skipped $(value $task skipped) overruns $(value $task overruns) late $(value $task late), start $(value $task max_start_late_ns) ns, response $(value $task max_response_ns) ns, tardy $(value $task max_tardiness_ns) ns"
	done
}
# finished TASK: every job but the last one, which the end may have cut, and none late.
finished() {
	above "$1: jobs done" "$(value $1 completed)" $(($(value $1 jobs) - 1))
	is "$1: overruns and late jobs" "$(value $1 overruns) $(value $1 late)" "0 0"
}
# back NAME PROGRAMS: the kernel's scheduler is at work, and so many programs are alive.
back() {
	sleep 0.3
	is "$1: sched_ext" "$(state)" disabled
	is "$1: programs alive" "$(pidof leveler | wc -w)" $(($2 + ticks))
}
# refused SED TEXT: a plan that was changed so.
refused() {
	sed "$1" /plans/levels.json >/tmp/changed.json
	cmp -s /plans/levels.json /tmp/changed.json && fail "nothing is changed by $1"
	expect 2 "$2" solocore run --partial /tmp/changed.json --scheduler levels
}
ticks=0
seconds=${LEVEL_SECONDS:-2}
run="solocore run --partial /plans/levels.json --scheduler levels --format json"
if [ "$WANT" != sched-ext ]; then
	expect 3 "sched_ext" $run --duration "1 s"
	echo "failures: $failures"
	exit $failures
fi
ifconfig lo 127.0.0.1 up

# What does not fit is refused with its numbers.
refused 's/"period_ns": 20000000/"period_ns": 21000000/' "not harmonic: 21 ms does not divide 40 ms"
# The plan's own numbers: the end of the first slot, which is all of the pilot's A-PET, and the B-PET of gps.
end=$(sed -n 's/^ *"end_ns": \([0-9]*\),$/\1/p' /plans/levels.json | head -n 1)
pet=$(sed -n '/"task": "gps"/,$s/^ *"b_ns": \([0-9]*\),$/\1/p' /plans/levels.json | head -n 1)
refused "s/\"end_ns\": $end/\"end_ns\": $((end + 1000000))/" "slots that overlap: one ends at $((end + 1000000)) ns, the next starts at $end ns"
refused 's/"start_ns": 0,/"start_ns": 1000,/' "starts at 0.001 ms, not at 0"
refused "s/\"b_ns\": $pet/\"b_ns\": 39000000/" "levels A and B take 14[0-9.]* % of core 0"
refused "s/\"a_ns\": $end/\"a_ns\": 0/" "task .pilot. has no provisioned execution times or no period: each must be above 0 ns"
refused 's/"period_ns": 20000000/"period_ns": -1/' "changed.json"
expect 2 "nobody" $run --command "nobody=/bin/true"
expect 2 "process does not exist" $run --attach "gps=999999"
expect 2 "leave one of them out" $run --reclaim
expect 2 "leave one of them out" $run --no-confine
is "after refusals" "$(state)" disabled
# The kernel frees what nobody has any more a little later.
sleep 1
objects=$(objects)
[ -n "$objects" ] || fail "BPF's objects are not counted"

# Level A alone, then beside B on its core, of which one never ends a job by itself.
start --duration "1 s" --command "pilot=/bin/leveler 1500 yield" --command "rudder=/bin/leveler 3000 yield"
echo "loaded in $(echo "$begun $(cut -d ' ' -f 1 /proc/uptime)" | awk '{ printf "%.1f", $2 - $1 }') s"
wait $daemon
is "exit code" $? 0
shown pilot rudder
alone=$(value pilot max_start_late_ns)
for try in 1 2 3; do
	start --duration "$seconds s" --sched-trace /tmp/t.csv --command "pilot=/bin/leveler 1500 yield" --command "rudder=/bin/leveler 3000 yield" \
		--command "gps=/bin/leveler 4000 yield" --command "radio=/bin/leveler 9999999 yield"
	wait $daemon
	is "exit code" $? 0
	tolerance 500000
	# The emulator is late now and then.
	solocore check-trace /tmp/t.csv >/tmp/said && break
	echo "try $try: $(cat /tmp/said)"
done
checked "levels A and B" 500000
shown pilot rudder gps radio
for task in pilot rudder gps; do
	finished $task
done
for task in pilot rudder; do
	below "$task: longest time from slot to first instruction, ns" "$(value $task max_start_late_ns)" $((alone + 200000))
done
above "radio, of level B, is held to its budget: overruns" "$(value radio overruns)" 10

# All levels: one of C never ends a job either, and D computes for ever. Every CPU is busy. The turns of the emulator become shorter by
# timers that go off often.
leveler tick 300 &
tick=$!
ticks=1
start --duration "$seconds s" --sched-trace /tmp/t.csv --trace /tmp/t.pftrace --metrics 127.0.0.1:9184 --command "pilot=/bin/leveler 500 yield" \
	--command "rudder=/bin/leveler 1000 job" --command "gps=/bin/leveler 2000 yield" --command "radio=/bin/leveler 9999999 yield" \
	--command "video=/bin/leveler 8000 yield" --command "map=/bin/leveler 15000 job" --command "log=/bin/leveler 9999999 yield" \
	--command "batch=/bin/leveler 2000 yield"
solocore top --count 1 --every "500 ms" >/tmp/top
wget -qO- http://127.0.0.1:9184/metrics >/tmp/metrics
wait $daemon
is "exit code" $? 0
checked "all levels" 20000000
[ -s /tmp/t.pftrace ] && pass "a Perfetto trace" || fail "no Perfetto trace"
shown pilot rudder gps radio video map log batch
above "log, of level C, is held to its budget: overruns" "$(value log overruns)" 10
for task in video map; do
	below "$task: tardiness within the analysis's bound, ns" "$(value $task max_tardiness_ns)" "$(value $task tardiness_ns /plans/levels.json)"
	above "$task: jobs done" "$(value $task completed)" $(($(value $task jobs) * 9 / 10 - 1))
done
above "batch, of level D, runs: ns" "$(value batch ran_ns)" 100000000
grep -q "^level A .* A " /tmp/top && grep -q "^pilot " /tmp/top && pass "top: $(grep '^level A' /tmp/top)" || fail "top: $(cat /tmp/top)"
grep -q '^solocore_level_jobs_total{task="pilot",level="A"} [1-9]' /tmp/metrics && pass "metrics" || fail "metrics: $(head -n 5 /tmp/metrics)"
back "at the end" 0

# Level C alone, five tasks for four CPUs: late, and within the analysis's bound.
run="solocore run --partial /plans/tardy.json --scheduler levels --format json"
start --duration "$seconds s" --sched-trace /tmp/t.csv --command "one=/bin/leveler 35000 yield" --command "two=/bin/leveler 35000 yield" \
	--command "three=/bin/leveler 35000 yield" --command "four=/bin/leveler 35000 yield" --command "five=/bin/leveler 35000 yield"
wait $daemon
is "exit code" $? 0
checked "level C" 20000000
shown one two three four five
worst=0
for task in one two three four five; do
	below "$task: tardiness within the analysis's bound, ns" "$(value $task max_tardiness_ns)" "$(value $task tardiness_ns /plans/tardy.json)"
	[ "$(value $task max_tardiness_ns)" -gt $worst ] && worst=$(value $task max_tardiness_ns)
done
above "level C is late, so the bound was tested, ns" $worst 1000000
back "after level C" 0

# Windows of partitions; draw never ends its job, and display keeps to its windows.
run="solocore run --partial /plans/windows.json --scheduler levels --format json"
start --duration "$seconds s" --sched-trace /tmp/t.csv --command "steer=/bin/leveler 1000 yield" --command "chart=/bin/leveler 1000 job" \
	--command "draw=/bin/leveler 9999999 yield"
wait $daemon
is "exit code" $? 0
is "major frames, ms" "$(awk -F , '$3 == "level-table" { print $2 ":" $5 / 1000000 }' /tmp/t.csv | tr '\n' ' ')" "0:40 1:60 3:20 "
checked "windows of a core" 20000000
shown steer chart draw
for task in steer chart; do
	finished $task
	below "$task: response within the plan's bound, ns" "$(value $task max_response_ns)" "$(value $task wcrt_ns /plans/windows.json)"
done
start --duration "$seconds s" --sched-trace /tmp/t.csv --command "steer=/bin/leveler 1000 yield" --command "chart=/bin/leveler 1000 job" \
	--command "draw=/bin/leveler 3000 yield" --command "receive=/bin/leveler 2000 yield" --command "archive=/bin/leveler 4000 yield"
wait $daemon
is "exit code" $? 0
checked "windows of two cores" 20000000
shown steer chart draw receive archive
for task in steer chart draw receive archive; do
	finished $task
done
back "after windows" 0

# Real-time threads beside the levels are reported, and whom they cost what.
run="solocore run --partial /plans/levels.json --scheduler levels --format json"
taskset 1 leveler fifo 50 3000 & rude=$!
start --duration "500 ms" --command "pilot=/bin/leveler 1500 yield"
wait $daemon
grep -q '"policy": "SCHED_FIFO"' /tmp/run.json && grep -q '"priority": 50' /tmp/run.json && pass "the intruder is named" ||
	fail "no intruder: $(grep -A 9 intruders /tmp/run.json | tr '\n' ' ')"
above "what it cost level A, ns" "$(sed -n '/"intruders"/,$s/^ *"a_ns": \([0-9]*\),.*/\1/p' /tmp/run.json | head -n 1)" 1000000
kill -9 $rude

# A program that goes on: it is started once, and its jobs are its wakeups.
sed 's/"name": "gps",/& "program": {"job": "wakeup"},/' /plans/levels.json >/tmp/wakes.json
run="solocore run --partial /tmp/wakes.json --scheduler levels --format json"
start --duration "1 s" --command "gps=/bin/leveler 1500 sleep"
wait $daemon
is "exit code" $? 0
above "jobs of a program that goes on" "$(value gps completed)" 10
is "its overruns" "$(value gps overruns)" 0
above "wakeups that probes have seen" "$(sed -n 's/^ *"calls": \([0-9]*\),$/\1/p' /tmp/run.json)" 10
run="solocore run --partial /plans/levels.json --scheduler levels --format json"

# Programs attach themselves, and end their jobs by sc_job_end().
start --duration "1 s"
leveler 1500 join gps &
sleep 0.2
expect 1 "the running plan has no such task" leveler 100 join nobody
wait $daemon
is "exit code" $? 0
grep "belongs to task .gps." /tmp/errors || fail "not said who attached: $(cat /tmp/errors)"
above "jobs of a program that attached itself" "$(value gps completed)" 10
is "its overruns" "$(value gps overruns)" 0
back "attached programs live on" 1
kill -9 $(pidof leveler | tr ' ' '\n' | grep -v "^$tick$")

# Whatever ends it: the kernel's scheduler goes on, programs live on, and the reason is said.
leveler 500 yield & attached=$!
for round in $(seq ${LEVEL_ROUNDS:-3}); do
	start --attach "batch=$attached" --command "pilot=/bin/leveler 1500 yield"
	kill -9 $daemon
	wait $daemon 2>/dev/null
	back "killed ($round)" 2
	kill -9 $(pidof leveler | tr ' ' '\n' | grep -v "^$attached$\|^$tick$")
done
start --attach "batch=$attached" --command "pilot=/bin/leveler 1500 yield"
kill -TERM $daemon
wait $daemon
is "exit code after SIGTERM" $? 0
back "SIGTERM" 1
# ended NAME TEXT: by the kernel, and this is what it said.
ended() {
	wait $daemon
	is "$1: exit code" $? 3
	grep -q "the kernel unloaded the scheduler.*$2" /tmp/errors && pass "$1: $(tail -n 1 /tmp/errors)" || fail "$1: not said: $(tail -n 2 /tmp/errors)"
	back "$1" 1
}
start --attach "batch=$attached"
echo 1 >/proc/sys/kernel/sysrq
echo S >/proc/sysrq-trigger
ended "sysrq" "sysrq"
start --attach "batch=$attached"
walkers 2
sleep 0.5
offline
ended "a CPU went offline" "cpu 3 going offline"
online
kill -9 $beside
kill -9 $tick
ticks=0
expect 2 "thread $attached may not run" sh -c "taskset -p 2 $attached >/dev/null; $run --attach gps=$attached"
taskset -p f $attached >/dev/null
start --attach "gps=$attached"
taskset -p 2 $attached >/dev/null
ended "a thread that is not run" "stall"
kill -9 $attached
sleep 1
is "programs, maps and links of BPF" "$(objects)" "$objects"

echo "failures: $failures, after $(cut -d ' ' -f 1 /proc/uptime) s"
[ $failures = 0 ]
