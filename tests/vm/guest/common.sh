# What the guests' scripts share. $run is the command that regulates.
failures=0
fail() {
	echo "FAIL: $*"
	failures=$((failures + 1))
}
pass() {
	echo "ok: $*"
}
# expect CODE TEXT COMMAND...: its exit code, and something that it must say.
expect() {
	code=$1 text=$2
	shift 2
	"$@" >/tmp/said 2>&1
	got=$?
	if [ $got != "$code" ]; then
		fail "exit code $got, not $code: $*: $(head -n 3 /tmp/said)"
	elif ! grep -q "$text" /tmp/said; then
		fail "not said: $text: $*: $(head -n 3 /tmp/said)"
	else
		pass "exit code $code, \"$text\": $*"
	fi
}
# start ARGUMENTS...: a daemon in the background, and until it regulates.
start() {
	: >/tmp/errors
	$run "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
	for _ in $(seq 150); do
		grep -q "^regulating" /tmp/errors && return
		sleep 0.1
	done
	fail "the daemon does not start: $(cat /tmp/errors)"
}
# serve ARGUMENTS...: a scheduler of VCPUs in the background, and until it schedules.
serve() {
	: >/tmp/errors
	solocore vcpu serve "$@" >/tmp/run.json 2>/tmp/errors &
	daemon=$!
	for _ in $(seq 300); do
		grep -q "^scheduling" /tmp/errors && return
		sleep 0.1
	done
	fail "the scheduler does not start: $(cat /tmp/errors)"
}
