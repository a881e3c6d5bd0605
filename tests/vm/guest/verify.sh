# What a guest does to test `solocore verify` on plans of levels, windows and VCPUs, whose tasks the kernel schedules. After common.sh.
#
# levels.json and windows.json: see levels.sh. The emulator is late by milliseconds: who keeps its bound has much less to do than it may.
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3"
}
# of TASK KEY: of a task among the others.
of() {
	tr -d ' \n' </tmp/verify.json | sed 's/.*"together"://; s/{"name"/\n{"name"/g' | grep "^{\"name\":\"$1\"," | sed "s/\"$2\":/\n/" | sed -n 2p | sed 's/[,}].*//'
}
[ "$WANT" = sched-ext ] || exit 0
# Timers that go off often make the emulator's turns shorter.
leveler tick 300 &
tick=$!
verify="solocore verify --partial --event page-faults --memory 8MiB -n 1 --enemy write --format json"

# One task of level B never ends a job by itself, and is found; the others hold.
$verify /plans/levels.json --scheduler levels --together "2 s" --command "pilot=/bin/leveler 500 yield" --command "rudder=/bin/leveler 1000 yield" \
	--command "gps=/bin/leveler 1000 yield" --command "radio=/bin/leveler 9999999 yield" >/tmp/verify.json 2>/tmp/errors
is "levels: exit code" $? 1
is "pilot" "$(of pilot exceeded)" "[]"
is "gps" "$(of gps exceeded)" "[]"
case $(of radio exceeded) in *demand*) pass "radio exceeds its demand" ;; *) fail "radio: $(of radio exceeded): $(head -n 5 /tmp/errors)" ;; esac
[ "$(of gps jobs)" -ge 20 ] && pass "gps: $(of gps jobs) jobs" || fail "gps: $(of gps jobs) jobs: $(head -n 5 /tmp/errors)"
is "sched_ext is over" "$(cat /sys/kernel/sched_ext/state)" disabled

$verify /plans/windows.json --scheduler levels --together "2 s" --command "steer=/bin/leveler 1000 yield" --command "chart=/bin/leveler 1000 yield" \
	>/tmp/verify.json 2>/tmp/errors
code=$?
# With enemies on other CPUs the emulator is late by whole frames: what is seen here is that responses are measured and judged.
seen=$(of steer max_response_ns) bound=$(of steer promise_ns)
is "steer's bound" "$bound" "$(sed -n '/"name": "steer"/,$s/^ *"wcrt_ns": \([0-9]*\),$/\1/p' /plans/windows.json | head -n 1)"
above=0
[ "$seen" -gt "$bound" ] && above=1
[ "$seen" -ge 1000000 ] && [ "$(of steer jobs)" -ge 20 ] && pass "steer: $seen of $bound ns in $(of steer jobs) jobs" || fail "steer: $seen: $(head -n 5 /tmp/errors)"
case $above:$(of steer exceeded) in 1:*response* | 0:"[]"*) pass "judged by its bound" ;; *) fail "seen $seen of $bound: $(of steer exceeded)" ;; esac
[ $above = 0 ] || is "windows: exit code" $code 1
is "sched_ext is over" "$(cat /sys/kernel/sched_ext/state)" disabled

cat >/tmp/vcpus.toml <<'TOML'
platform = "core-i5-2500k"
[regulation]
policy = "maracas"
[maracas]
overhead = "1 ms"
[[task]]
name = "control"
period = "200 ms"
wcet = "80 ms"
misses = 10
command = ["/bin/sleep", "0.01"]
[[vcpu]]
name = "v"
capacity = "60 ms"
period = "100 ms"
core = 1
tasks = ["control"]
TOML
solocore plan /tmp/vcpus.toml -o /tmp/vcpus.json >/dev/null 2>/tmp/errors || fail "no plan: $(cat /tmp/errors)"
$verify /tmp/vcpus.json --together "2 s" >/tmp/verify.json 2>/tmp/errors
is "VCPUs: exit code" $? 0
is "control" "$(of control exceeded)" "[]"
[ "$(of control max_response_ns)" -ge 10000000 ] && pass "control: $(of control max_response_ns) of $(of control promise_ns) ns in $(of control jobs) jobs" ||
	fail "control: $(of control max_response_ns): $(head -n 5 /tmp/errors)"
kill $tick
pidof solocore >/dev/null && fail "enemies are left" || pass "no enemy is left"
echo "failures: $failures"
exit $failures
