# Budgets of writes: a second counter on each CPU. Minor faults are the writes, all faults the reads, so the hogs spend both at one pace
# and must stop at the 20 writes, far below the 980 reads. WANT is the engine that should run.

# The values of a key in a file.
field() {
	grep -o "\"$1\": [^,}]*" "$2" | sed 's/.*: //; s/"//g'
}

echo "kernel $(uname -r), engine $WANT"
for cpu in 0 1 2 3; do
	hog $cpu &
done
sleep 2
run="solocore run --partial /plans/writes.json --event page-faults"
expect 3 "no-write-budgets" $run --dry-run

out=/tmp/run.json
$run --write-event minor-faults --duration "2 s" --format json >$out 2>/tmp/errors || fail "run: $(tail -n 1 /tmp/errors)"
engine=$(field engine $out)
[ "$engine" = "$WANT" ] || fail "engine $engine runs, not $WANT: $(tail -n 3 /tmp/errors)"
over=$(field periods_over_write_budget $out | awk '{ s += $1 } END { print s + 0 }')
throttled=$(field throttled_periods $out | sort -n | head -n 1)
writes=$(field writes $out | sort -n | head -n 1)
echo "$engine: periods $(field periods $out | xargs), throttled $(field throttled_periods $out | xargs), most writes $(field max_writes_per_period $out | xargs), over $over"
[ "${throttled:-0}" -gt 0 ] || fail "a CPU was never throttled, so nothing was tested"
[ "${writes:-0}" -gt 0 ] || fail "no writes were counted"
[ "$engine" = helper ] || [ "$over" = 0 ] || fail "$over periods over write budget and sample"
[ "$over" -le $(($(field periods $out | awk '{ s += $1 } END { print s + 0 }') / 10)) ] || fail "$over periods over write budget"
pass "writes have budgets of their own"

# Without them, the event counts against the whole budget: the hogs make more than 22.
$run --no-write-budgets --duration "1 s" --format json >$out 2>/tmp/errors || fail "run: $(tail -n 1 /tmp/errors)"
most=$(field max_accesses_per_period $out | sort -n | tail -n 1)
[ "$most" -gt 22 ] || fail "at most $most accesses in a period, although writes are not limited"
grep -q max_writes_per_period $out && fail "writes are counted although nobody asked"
pass "--no-write-budgets leaves them out"

echo "failures: $failures"
[ $failures = 0 ]
