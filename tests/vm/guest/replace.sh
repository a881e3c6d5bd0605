# Another plan for a run that goes on, under load: day.json and night.json by turns, $TIMES times (20). No period has more accesses than
# its own budget, which is that of the plan in force or the smaller one of both. Then the same with budgets beside the bandwidth lock,
# while it is held by turns, and with dynamic budgets, while jobs begin and end. WANT is the engine that should run.

# The values of a key in a file.
field() {
	grep -o "\"$1\": [^,}]*" "$2" | sed 's/.*: //; s/"//g'
}
# present: the budgets now, by CPU. Those of handovers follow in the file.
present() {
	solocore top --format json >/tmp/top.json && field budget /tmp/top.json | head -n 4 | xargs
}

echo "kernel $(uname -r), engine $WANT"
hogs=""
for cpu in 0 1 2 3; do
	hog $cpu &
	hogs="$hogs $!"
	[ $cpu != 1 ] || hog=$!
done
sleep 2
run="solocore run --partial --event page-faults --format json"
start /plans/day.json
[ "$(present)" = "20 50 50 50" ] || fail "budgets of day.json: $(present)"

took=0
for turn in $(seq "${TIMES:-20}"); do
	if [ $((turn % 2)) = 1 ]; then plan=night; else plan=day; fi
	solocore run /plans/$plan.json --replace >/tmp/said 2>&1 || fail "turn $turn: $(tail -n 1 /tmp/said)"
	took="$took $(sed -n 's/.*the handover took \(.*\) ms$/\1/p' /tmp/said)"
done
echo "handovers took ms:$took"
solocore run /plans/night.json --replace >/tmp/said 2>&1 || fail "the last: $(tail -n 1 /tmp/said)"
[ "$(present)" = "50 20 50 50" ] && pass "the budgets are those of night.json" || fail "budgets of night.json: $(present)"

# Refusals change nothing.
expect 3 "regulation.period_ns" solocore run /plans/quick.json --replace
expect 3 "run as root" su user -c "solocore run /plans/day.json --replace"
echo '{' >/tmp/cut.json
expect 2 "cut.json" solocore run /tmp/cut.json --replace
[ "$(present)" = "50 20 50 50" ] && pass "refused plans change nothing" || fail "budgets after refusals: $(present)"
kill -0 $daemon 2>/dev/null || fail "the daemon died: $(tail -n 1 /tmp/errors)"
sleep 1
kill -TERM $daemon
wait $daemon
code=$?
[ $code = 0 ] || fail "the run ends with $code: $(tail -n 1 /tmp/errors)"

out=/tmp/run.json
engine=$(field engine $out)
over=$(field periods_over_budget $out | awk '{ s += $1 } END { print s + 0 }')
periods=$(field periods $out | awk '{ s += $1 } END { print s + 0 }')
throttled=$(field throttled_periods $out | sort -n | head -n 1)
most=$(field max_accesses_per_period $out | sort -n | tail -n 1)
echo "$engine: periods $periods, throttled $(field throttled_periods $out | xargs), max $(field max_accesses_per_period $out | xargs), over $over"
[ "$engine" = "$WANT" ] || fail "engine $engine runs, not $WANT"
[ "${throttled:-0}" -gt 0 ] || fail "a CPU was never throttled, so nothing was tested"
[ "$(field ended_ns $out | wc -l)" = $((${TIMES:-20} + 1)) ] || fail "handovers in the file: $(field ended_ns $out | xargs)"
if [ "$engine" = sched-ext ]; then
	[ "$over" = 0 ] || fail "$over periods over the budget in force"
else
	# A hole like that of the fair server is one period in twenty.
	[ $((over * 200)) -le "$periods" ] || fail "$over periods over the budget in force"
fi
[ $failures = 0 ] && pass "$periods periods kept the budget in force, at most $most accesses"

# The bandwidth lock, held by turns meanwhile: beside it 20 accesses are allowed in a period, or 7.
for other in $hogs; do
	[ $other = $hog ] || kill $other
done
start /plans/lock.json
locker 0 turns 40 400 >/dev/null &
turns=$!
for turn in $(seq "${TIMES:-20}"); do
	if [ $((turn % 2)) = 1 ]; then plan=lock-less; else plan=lock; fi
	solocore run /plans/$plan.json --replace >/tmp/said 2>&1 || fail "lock, turn $turn: $(tail -n 1 /tmp/said)"
done
solocore run /plans/lock-less.json --replace >/tmp/said 2>&1 || fail "lock, the last: $(tail -n 1 /tmp/said)"
kill $turns 2>/dev/null
locker 0 hold 1500 >/dev/null &
holder=$!
sleep 0.3
faults=$(locker -1 faults $hog 600)
wait $holder
[ "$faults" -le 9000 ] && [ "$faults" -ge 2500 ] && pass "beside a held lock the hog makes $faults faults a second, 7 in a period" ||
	fail "beside a held lock the hog makes $faults faults a second: $(tail -n 3 /tmp/said)"
expect 3 "differs from the present one" solocore run /plans/day.json --replace
kill -TERM $daemon
wait $daemon || fail "the run with the lock ends with $?: $(tail -n 1 /tmp/errors)"
over=$(field periods_over_budget $out | awk '{ s += $1 } END { print s + 0 }')
periods=$(field held_periods $out | awk '{ s += $1 } END { print s + 0 }')
[ "$periods" -gt 500 ] || fail "only $periods periods under a lock"
[ $((over * 200)) -le "$periods" ] && pass "of $periods periods with a lock, $over are over the budget in force" ||
	fail "of $periods periods with a lock, $over are over the budget in force"

# Dynamic budgets, while jobs begin and end: each soft core makes 100 accesses in a job, or 40. A job keeps what it began with.
start /plans/dynamic.json
kill $hog
sleep 0.2
locker 0 jobs video 1 60 >/tmp/jobs &
jobs=$!
for turn in $(seq "${TIMES:-20}"); do
	if [ $((turn % 2)) = 1 ]; then plan=dynamic-less; else plan=dynamic; fi
	solocore run /plans/$plan.json --replace >/tmp/said 2>&1 || fail "dynamic, turn $turn: $(tail -n 1 /tmp/said)"
done
wait $jobs || fail "jobs: $(cat /tmp/jobs)"
most=$(sed -n 's/^faults in a job: most \([0-9]*\);.*/\1/p' /tmp/jobs)
[ "$most" -gt 50 ] && [ "$most" -le 100 ] && pass "jobs by turns: $(cat /tmp/jobs)" || fail "jobs by turns: $(cat /tmp/jobs)"
solocore run /plans/dynamic-less.json --replace >/tmp/said 2>&1 || fail "dynamic, the last: $(tail -n 1 /tmp/said)"
grep -q "^video *100 *40" /tmp/said && pass "$(grep ^video /tmp/said)" || fail "the change of video: $(cat /tmp/said)"
locker 0 jobs video 1 15 >/tmp/jobs || fail "jobs: $(cat /tmp/jobs)"
most=$(sed -n 's/^faults in a job: most \([0-9]*\);.*/\1/p' /tmp/jobs)
[ "$most" -gt 20 ] && [ "$most" -le 40 ] && pass "with less: $(cat /tmp/jobs)" || fail "with less: $(cat /tmp/jobs)"
kill -TERM $daemon
wait $daemon || fail "the run with dynamic budgets ends with $?: $(tail -n 1 /tmp/errors)"

echo "failures: $failures"
[ $failures = 0 ]
