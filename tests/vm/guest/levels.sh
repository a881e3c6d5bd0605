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
run="solocore run /plans/levels.json --format json"

# All levels at once; log needs more than it may.
start --duration "800 ms" --sched-trace /tmp/t.csv --trace /tmp/t.pftrace --command "pilot=/bin/leveler 1000 yield" \
	--command "rudder=/bin/leveler 2000 sleep" --command "gps=/bin/leveler 2500 yield" --command "radio=/bin/leveler 3000 once" \
	--command "video=/bin/leveler 6000 yield" --command "log=/bin/leveler 20000 yield"
wait $daemon
is "exit code" $? 0
solocore check-trace /tmp/t.csv && pass "no rule is broken" || fail "a rule is broken"
[ -s /tmp/t.pftrace ] && pass "a Perfetto trace" || fail "no Perfetto trace"
for task in pilot rudder gps radio video log; do
	echo "$task: jobs $(value $task jobs) done $(value $task completed) overruns $(value $task overruns) start $(value $task max_start_late_ns) ns, tardy $(value $task max_tardiness_ns) ns"
done
[ "$(value pilot completed)" -ge 25 ] && pass "level A works" || fail "level A: $(value pilot completed) jobs"
[ "$(value log overruns)" -ge 5 ] && pass "a budget of level C is kept" || fail "level C: $(value log overruns) overruns"
is "level B is not late" "$(value gps late) $(value radio late)" "0 0"
below "tardiness of video" "$(value video max_tardiness_ns)" 48744097
back "at the end" 0
