# What a guest does to test the scheduler of levels and partitions: levels keep their order and budgets, the checker finds no
# broken rule, real-time threads are seen, and whatever ends the scheduler leaves the machine to the kernel's own.
#
# After common.sh. levels.json: pilot and rudder (A), gps and radio (B) on core 1, video, map and log (C), batch (D) on core 2.
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
# value TASK FIELD: of a task in the summary.
value() {
	awk -v task="\"$1\"," -v field="\"$2\":" '$1 == "\"name\":" { in_it = $2 == task } in_it && $1 == field { gsub(",", "", $2); print $2; exit }' /tmp/run.json
}
below() {
	[ -n "$2" ] && [ "$2" -le "$3" ] && pass "$1: $2 <= $3" || fail "$1: $2, above $3"
}
start() {
	: >/tmp/errors
	$run "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
	for _ in $(seq 150); do
		grep -q "^scheduling" /tmp/errors && return
		sleep 0.1
	done
	fail "the daemon does not start: $(cat /tmp/errors)"
}
back() {
	is "$1: sched_ext" "$(cat /sys/kernel/sched_ext/state)" disabled
	[ "$(pidof leveler | wc -w)" = "$2" ] && pass "$1: $2 programs alive" || fail "$1: programs alive: $(pidof leveler)"
}
run="solocore run /plans/levels.json --scheduler levels --format json"
if [ "$WANT" != sched-ext ]; then
	expect 3 "sched_ext" $run --duration "1 s"
	echo "failures: $failures"
	exit $failures
fi

# All levels at once; log needs more than it may.
start --duration "600 ms" --sched-trace /tmp/t.csv --trace /tmp/t.pftrace --command "pilot=/bin/leveler 1000 yield" \
	--command "rudder=/bin/leveler 2000 sleep" --command "gps=/bin/leveler 2500 yield" \
	--command "video=/bin/leveler 5000 yield" --command "log=/bin/leveler 20000 yield"
wait $daemon
is "exit code" $? 0
solocore check-trace /tmp/t.csv && pass "no rule is broken" || fail "a rule is broken"
[ -s /tmp/t.pftrace ] && pass "a Perfetto trace" || fail "no Perfetto trace"
for task in pilot rudder gps video log; do
	echo "$task: jobs $(value $task jobs) done $(value $task completed) overruns $(value $task overruns) start $(value $task max_start_late_ns) ns, tardy $(value $task max_tardiness_ns) ns"
done
[ "$(value pilot completed)" -ge 15 ] && pass "level A works" || fail "level A: $(value pilot completed) jobs"
[ "$(value log overruns)" -ge 3 ] && pass "a budget of level C is kept" || fail "level C: $(value log overruns) overruns"
below "tardiness of video" "$(value video max_tardiness_ns)" 48744097
back "at the end" 0

# A real-time thread beside the levels is reported.
leveler fifo 50 3000 & rude=$!
start --duration "300 ms" --command "pilot=/bin/leveler 1000 yield"
wait $daemon
grep -q '"policy": "SCHED_FIFO"' /tmp/run.json && grep -q '"priority": 50' /tmp/run.json && pass "the intruder is named" ||
	fail "no intruder: $(grep -A 9 intruders /tmp/run.json | tr '\n' ' ')"
kill -9 $rude

# Whatever ends it: the kernel's scheduler goes on, and nothing stays. Attached programs live on.
maps() {
	ls /proc/*/fdinfo/* 2>/dev/null | wc -l >/dev/null
	grep -h "^map_id\|^prog_id\|^link_id" /proc/[0-9]*/fdinfo/* 2>/dev/null | wc -l
}
leveler 500 yield & attached=$!
before=$(maps)
for round in $(seq ${LEVEL_ROUNDS:-3}); do
	start --attach "batch=$attached" --command "pilot=/bin/leveler 1000 yield"
	kill -9 $daemon
	wait $daemon 2>/dev/null
	sleep 0.1
	kill -9 $(pidof leveler | tr ' ' '\n' | grep -v "^$attached$") 2>/dev/null
	back "killed ($round)" 1
done
start --attach "batch=$attached"
echo 0 >/sys/devices/system/cpu/cpu3/online
wait $daemon
is "exit code after a CPU went away" $? 3
grep -q "the kernel unloaded the scheduler" /tmp/errors && pass "$(tail -n 1 /tmp/errors)" || fail "not said: $(tail -n 1 /tmp/errors)"
echo 1 >/sys/devices/system/cpu/cpu3/online
back "a CPU went away" 1
is "maps, programs and links" "$(maps)" "$before"
kill -9 $attached

echo "failures: $failures"
[ $failures = 0 ]
