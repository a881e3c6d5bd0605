# What a guest does to test VCPUs: refusals, supply, moves, the end of the scheduler however it comes. After common.sh.
#
# $VCPU_SECONDS (5): how long random VCPUs are watched; $DRILLS (6): how often the scheduler fails.
#
# The emulator runs its CPUs by turns of up to some ms, and time goes on in all of them meanwhile: timers come late by as much, which
# admission is told of (--overhead).

state() {
	cat /sys/kernel/sched_ext/state
}
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
# value NAME KEY: of a VCPU, as it is listed.
value() {
	solocore vcpu list --format json | tr -d ' \n' | sed 's/},{/}\n{/g' | sed -n "s/.*\"name\":\"$1\",.*\"$2\":\"\{0,1\}\([a-z0-9]*\).*/\1/p"
}

mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
echo "kernel $(uname -r)"
expect 3 "no solocore schedules" solocore vcpu list
expect 2 "below 10 us" solocore vcpu serve --vcpu a=1us/10ms
expect 2 "more than a whole core" solocore vcpu serve --vcpu a=11ms/10ms
expect 2 "is negative" solocore vcpu serve --vcpu a=-1ms/10ms
expect 2 "is negative" solocore vcpu create a -1ms/10ms
is "after refusals" "$(state)" disabled

serve --overhead "1 ms" --vcpu a=40ms/100ms@1 --sched-trace /tmp/trace.csv
is "scheduler" "$(state)" enabled
expect 2 "does not fit on core 1: with it the utilisation is 1.08" solocore vcpu create b 60ms/100ms --core 1
expect 2 "more than a whole core" solocore vcpu create b 20ms/10ms
expect 2 "above 10 s, the kernel.s limit" solocore vcpu create b 10ms/100s
expect 2 "there is no VCPU .c." solocore vcpu move c 2
expect 2 "best effort and stays" solocore vcpu destroy best-effort/1
expect 2 "there is no core 9" solocore vcpu create b 6ms/100ms --core 9
expect 2 "there is a VCPU .a. already" solocore vcpu create a 1ms/100ms
expect 3 "does it still run" solocore vcpu bind 999999 a
expect 2 "is the solocore that schedules the VCPUs" solocore vcpu bind $daemon a
expect 2 "is the solocore that schedules the VCPUs" solocore vcpu create c 1ms/100ms --pid $daemon
is "VCPUs after refusals" "$(solocore vcpu list | grep -c ms)" 1
expect 0 "on core" solocore vcpu create b 10ms/50ms --core 2
worker 1 >/tmp/rounds &
worker=$!
solocore vcpu bind $worker a
sleep 0.3
[ "$(value a foreground_ns)" -gt 0 ] && pass "a runs: $(value a foreground_ns) ns" || fail "a does not run: $(solocore vcpu list)"
solocore vcpu move a 3
sleep 0.3
is "a has moved to core" "$(value a core)" 3
is "moves" "$(value a moves)" 1
solocore vcpu destroy a
sleep 0.3
kill -0 $worker && pass "the thread of a VCPU that is destroyed lives on" || fail "a thread died with its VCPU"
kill -TERM $daemon
wait $daemon
is "exit code" $? 0
is "at the end" "$(state)" disabled
expect 0 "no violation" solocore check-trace /tmp/trace.csv
kill -0 $worker || fail "a thread died with the scheduler"
kill $worker

# A control group as a whole: a process that is there, and one that comes later from outside of every VCPU.
mkdir -p /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
group=/sys/fs/cgroup/test.slice/load.service
mkdir -p $group
serve --overhead "1 ms" --vcpu a=40ms/100ms@1
expect 2 "no unit of this name runs" solocore vcpu bind --unit none a
expect 2 "root group" solocore vcpu bind --cgroup / a
worker >/dev/null &
worker=$!
echo $worker >$group/cgroup.procs
expect 0 "/test.slice/load.service is bound; threads now: 1" solocore vcpu bind --unit load a
sleep 0.5
[ "$(value a foreground_ns)" -gt 0 ] && pass "a runs the group" || fail "a does not run the group: $(solocore vcpu list)"
kill $worker
wait $worker
worker >/dev/null &
worker=$!
echo $worker >$group/cgroup.procs
sleep 0.5
before=$(value a foreground_ns)
sleep 0.5
[ "$(value a foreground_ns)" -gt "$before" ] && pass "a runs a later process of the group" || fail "a does not run a later process: $(solocore vcpu list)"
expect 0 "threads now: 1" solocore vcpu bind --cgroup /test.slice/load.service
sleep 0.5
before=$(value a foreground_ns)
sleep 0.5
is "foreground time of a after its group is best effort" "$(value a foreground_ns)" "$before"
kill -TERM $daemon
wait $daemon
is "exit code" $? 0
kill $worker
wait $worker
rmdir $group /sys/fs/cgroup/test.slice

# Random VCPUs on four CPUs, threads that compute and sleep for random times, and one that always computes on each CPU besides.
serve --overhead "1 ms" --sched-trace /tmp/trace.csv --format json
awk -v seed="${SEED:-7}" 'BEGIN { srand(seed); for (i = 0; i < 80; i++) {
	t = int(20 + rand() * 100); c = int(t * (0.05 + rand() * 0.2) * 10) / 10
	printf "v%d %sms/%dms %d %d\n", i, c, t, 1 + rand() * 30000, 1 + rand() * 20000 } }' >/tmp/list
count=0
workers=
while read -r name times run pause; do
	solocore vcpu create "$name" "$times" >/tmp/said 2>&1 || continue
	# Every fourth never blocks.
	[ $((count % 4)) = 3 ] && run=0
	worker $count $run $pause >/dev/null &
	solocore vcpu bind $! "$name"
	workers="$workers $!"
	count=$((count + 1))
	[ $count = 16 ] && break
done </tmp/list
is "VCPUs" $count 16
for _ in 1 2 3 4; do
	worker >/dev/null &
	workers="$workers $!"
done
sleep ${VCPU_SECONDS:-5}
kill -INT $daemon
wait $daemon
is "exit code" $? 0
kill $workers
solocore check-trace /tmp/trace.csv >/tmp/said
got=$?
cat /tmp/said
[ $got = 0 ] && pass "random VCPUs: no violation" || fail "random VCPUs: $(cat /tmp/said)"
judged=$(sed -n 's/^  supply: \([0-9]*\) times$/\1/p' /tmp/said)
[ "${judged:-0}" -gt 20 ] || fail "hardly a period was judged, so nothing was tested"

# Balancing: six VCPUs begin on core 1. One of them is fixed; core 2 has not one page colour left.
serve --balance "1 ms" --core-colors 8 --overhead "1 ms" --best-effort 1ms/100ms --sched-trace /tmp/trace.csv
solocore vcpu create full 1ms/100ms --core 2 --colors 8 --fixed >/tmp/said || fail "$(cat /tmp/said)"
workers=
for n in 0 1 2 3 4 5; do
	fixed=
	[ $n = 0 ] && fixed=--fixed
	# shellcheck disable=SC2086
	solocore vcpu create b$n 8ms/100ms --core 1 --colors 1 $fixed >/tmp/said || fail "$(cat /tmp/said)"
	worker $n 20000 20000 >/dev/null &
	solocore vcpu bind $! b$n
	workers="$workers $!"
done
sleep 3
solocore vcpu list
moved=0 on1=0
for n in 1 2 3 4 5; do
	moved=$((moved + $(value b$n moves)))
	[ "$(value b$n core)" = 1 ] && on1=$((on1 + 1))
	[ "$(value b$n core)" = 2 ] && fail "b$n went where its colours are not free"
	[ "$(value b$n moves)" = 0 ] || [ "$(value b$n longest_move_ns)" -gt 0 ] || fail "b$n moved, and it took no time"
done
[ $moved -gt 0 ] && [ $on1 -lt 5 ] && pass "balancing moved VCPUs $moved times; $on1 of 5 are on core 1" || fail "balancing moved $moved times, $on1 of 5 are on core 1"
is "a fixed VCPU: core and moves" "$(value b0 core) $(value b0 moves)" "1 0"
kill -INT $daemon
wait $daemon
is "exit code" $? 0
kill $workers
expect 0 "no violation" solocore check-trace /tmp/trace.csv

# Background time by use of memory. The VCPU with the lower number makes page faults: without measured intensities it would have it all.
serve --background least-memory --event page-faults --overhead "1 ms" --vcpu loud=10ms/100ms@1 --vcpu quiet=10ms/100ms@1 --sched-trace /tmp/trace.csv
hog 1 &
loud=$!
worker 1 >/dev/null &
quiet=$!
solocore vcpu bind $loud loud
solocore vcpu bind $quiet quiet
sleep 1
before=$(value loud background_ns)
sleep 3
list=$(solocore vcpu list)
echo "$list"
had=$(($(value loud background_ns) - before))
had_quiet=$(value quiet background_ns)
[ "${had_quiet:-0}" -gt 500000000 ] && [ $((had * 4)) -lt "$had_quiet" ] && pass "background time: quiet $had_quiet ns, loud $had ns" ||
	fail "background time: quiet ${had_quiet:-none}, loud $had ns"
[ "$(value loud requests_per_ms)" -gt "$(value quiet requests_per_ms)" ] && pass "requests a ms: $(value loud requests_per_ms) and $(value quiet requests_per_ms)" ||
	fail "requests a ms: $(value loud requests_per_ms) and $(value quiet requests_per_ms)"
kill -INT $daemon
wait $daemon
is "exit code" $? 0
grep -q "fewest page-faults" /tmp/errors && pass "the event is told" || fail "not told what is counted: $(cat /tmp/errors)"
kill $loud $quiet
grep -q ",vcpu-intensity," /tmp/trace.csv && pass "intensities are in the trace" || fail "no intensity in the trace"
expect 0 "no violation" solocore check-trace /tmp/trace.csv
expect 2 "is for --threshold or --background least-memory" solocore vcpu serve --event page-faults

# Real-time threads are held to nothing, but seen.
serve --vcpu a=40ms/100ms@1 --format json
worker 1 >/dev/null &
worker=$!
solocore vcpu bind $worker a
taskset 2 leveler fifo 50 3000 &
rude=$!
sleep 0.5
kill -KILL $rude
kill -INT $daemon
wait $daemon
kill $worker
tr -d ' \n' </tmp/run.json | grep -q "\"intruders\":\[{\"thread\":$rude,.*SCHED_FIFO.*\"priority\":50" && pass "a real-time thread is reported" || fail "no real-time thread is reported: $(grep -A12 intruders /tmp/run.json)"
lost=$(sed -n 's/^ *"lost_foreground_ns": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json)
[ "${lost:-0}" -gt 1000000 ] && pass "it took $lost ns from VCPUs with budget" || fail "it took ${lost:-nothing} from VCPUs with budget"

# A plan's throttle: more page faults than it allows take background time from cores.
cat >/tmp/system.toml <<'TOML'
platform = "imx6q"
[regulation]
policy = "maracas"
[maracas]
overhead = "1 ms"
throttle = { max_rate = "100 kB/s", period = "200 ms" }
[[vcpu]]
name = "work"
capacity = "20 ms"
period = "100 ms"
core = 1
tasks = ["work"]
[[task]]
name = "work"
criticality = "C"
period = "100 ms"
wcet = "1 ms"
misses = 10
TOML
solocore plan /tmp/system.toml -o /tmp/plan.json >/dev/null || fail "no plan"
expect 0 "background time is throttled while" solocore run --partial /tmp/plan.json --dry-run --event page-faults
hog 2 &
worker=$!
solocore run --partial /tmp/plan.json --event page-faults --duration "3 s" --format json >/tmp/run.json 2>/tmp/errors
is "exit code" $? 0
kill $worker
contended=$(sed -n 's/^ *"contended": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json)
most=$(sed -n 's/^ *"most_throttled": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json)
[ "${contended:-0}" -gt 2 ] && [ "${most:-0}" -gt 0 ] && pass "a plan's throttle: contended in $contended periods, up to $most cores throttled" ||
	fail "a plan's throttle: contended in ${contended:-no} periods, ${most:-no} cores throttled; $(cat /tmp/errors)"
# Its monitor ran, in its VCPU.
ran=$(tr -d ' \n' </tmp/run.json | sed 's/},{/}\n{/g' | sed -n 's/.*"name":"memory-monitor",.*"foreground_ns":\([0-9]*\),.*/\1/p')
[ "${ran:-0}" -gt 0 ] && pass "the monitor ran $ran ns in its VCPU" || fail "the monitor ran outside of its VCPU: $(cat /tmp/errors)"

# A job waits for its VCPU from its fork on, and the thread that starts it does not. `burn` uses the VCPU's budget up, so each start of `late`
# waits for the next one. Looks are answered meanwhile, and no job gets more than the VCPU has.
cat >/tmp/system.toml <<'TOML'
platform = "imx6q"
[regulation]
policy = "maracas"
[maracas]
background = "none"
overhead = "1 ms"
best_effort = { capacity = "50 ms", period = "100 ms" }
[[vcpu]]
name = "work"
capacity = "20 ms"
period = "8 s"
core = 1
tasks = ["burn", "late"]
[[task]]
name = "burn"
criticality = "C"
period = "8 s"
wcet = "10 ms"
misses = 10
[[task]]
name = "late"
criticality = "C"
period = "2 s"
wcet = "1 ms"
misses = 10
TOML
# It says that deadlines may be missed, which is what is wanted here.
expect 1 "NOT schedulable" solocore plan /tmp/system.toml -o /tmp/plan.json
cp /bin/worker /tmp/burner
: >/tmp/errors
solocore run --partial /tmp/plan.json --command burn=/tmp/burner --command late=/bin/true --format json >/tmp/run.json 2>/tmp/errors &
daemon=$!
for _ in $(seq 150); do
	burning=$(pidof burner) && break
	sleep 0.1
done
[ -n "$burning" ] || fail "no job was started: $(cat /tmp/errors)"
sleep 3
slow=0
for _ in 1 2 3 4; do
	begun=$(cut -d . -f 1 /proc/uptime)
	solocore vcpu list >/tmp/said 2>&1 && grep -q work /tmp/said || fail "no answer: $(cat /tmp/said)"
	took=$(($(cut -d . -f 1 /proc/uptime) - begun))
	[ $took -le $slow ] || slow=$took
	sleep 1
done
[ $slow -lt 4 ] && pass "looks took up to $slow s while a job waited to be started" || fail "a look waited $slow s for the start of a job"
before=$(cut -d ' ' -f 1 /proc/${burning:-self}/schedstat)
sleep 10
used=$(($(cut -d ' ' -f 1 /proc/${burning:-self}/schedstat) - before))
# Two budgets at most, and a late end of each.
[ $used -le 60000000 ] && [ $used -gt 0 ] && pass "the job ran $used ns of its VCPU's time" || fail "the job ran $used ns, and its VCPU has 20 ms in 8 s"
kill -INT $daemon
wait $daemon
is "exit code" $? 0

# The monitor's VCPU: admitted, a place for its thread, and held to its budget. Work with budget comes before it by rate.
serve --vcpu a=20ms/100ms@1 --threshold 1 --rule rate --event page-faults --memory-period "50 ms" --monitor 3ms/30ms@1 --overhead "1 ms" \
	--background none --format json --sched-trace /tmp/trace.csv
worker 1 >/dev/null &
worker=$!
solocore vcpu bind $worker a
grep -q "monitor runs in a VCPU of its own on core 1" /tmp/errors && pass "the monitor's place is told" || fail "no place of the monitor: $(cat /tmp/errors)"
expect 2 "belongs to solocore's monitor of the memory" solocore vcpu move memory-monitor 2
expect 2 "belongs to solocore's monitor of the memory" solocore vcpu destroy memory-monitor
expect 2 "there is a VCPU" solocore vcpu create memory-monitor 1ms/10ms
sleep 3
is "core of the monitor's VCPU" "$(value memory-monitor core)" 1
ran=$(value memory-monitor foreground_ns)
[ "${ran:-0}" -gt 0 ] && pass "the monitor ran $ran ns with budget" || fail "the monitor did not run in its VCPU"
is "its background time" "$(value memory-monitor background_ns)" 0
kill -INT $daemon
wait $daemon
is "exit code" $? 0
kill $worker
periods=$(sed -n 's/^ *"periods": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json)
[ "${periods:-0}" -gt 20 ] && pass "$periods readings in its VCPU, at most $(sed -n 's/^ *"latest_ns": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json) ns late" ||
	fail "${periods:-no} readings: $(cat /tmp/errors)"
expect 0 "no violation" solocore check-trace /tmp/trace.csv
expect 2 "does not fit" solocore vcpu serve --vcpu a=95ms/100ms@1 --threshold 1 --rule rate --event page-faults --monitor 10ms/100ms@1 --best-effort 1ms/100ms

# However the scheduler ends, the kernel's own goes on with every thread.
for how in KILL TERM; do
	serve --vcpu a=40ms/100ms@1
	worker 1 >/dev/null &
	worker=$!
	solocore vcpu bind $worker a
	kill -$how $daemon
	wait $daemon
	sleep 0.5
	is "after SIG$how" "$(state)" disabled
	kill -0 $worker && pass "threads live on" || fail "a thread died with the scheduler"
	kill $worker
done
serve --vcpu a=40ms/100ms@1
worker 1 >/dev/null &
worker=$!
solocore vcpu bind $worker a
walkers 2
sleep 1
offline
wait $daemon
code=$?
kill -9 $beside
[ $code = 3 ] && grep -q "unloaded the scheduler" /tmp/errors && pass "a CPU goes offline: $(tail -n 1 /tmp/errors)" ||
	fail "a CPU goes offline: exit code $code, $(cat /tmp/errors)"
online
kill $worker
expect 2 "give a process that computes" solocore vcpu drill --faults stall
expect 3 "does it still run" solocore vcpu drill --pid 999999
worker 1 >/dev/null &
worker=$!
solocore vcpu drill --times ${DRILLS:-6} --faults error,exit,stall,offline,refused --pid $worker >/tmp/said 2>&1
got=$?
cat /tmp/said
[ $got = 0 ] && pass "it failed ${DRILLS:-6} times, and nothing is left" || fail "drill: $(cat /tmp/said)"
kill $worker || fail "a thread died in the drill"
is "after the drill" "$(state)" disabled

echo "failures: $failures"
[ $failures = 0 ]
