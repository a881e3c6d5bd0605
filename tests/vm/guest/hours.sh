# What a guest does to run solocore for two hours of its time ($SPAN seconds, default 7200), with a job a second, and a reader and some load
# every minute: memory, descriptors and threads of the daemon and of its keeper stay as they were after a tenth of it,
# and so does the kernel's memory. The emulator skips the time in which no CPU works. After common.sh.
SPAN=${SPAN:-7200}
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3; the run said: $(tail -n 2 /tmp/errors)"
}
# A process: KiB of memory of its own, threads, descriptors. The kernel counts the pages one by one here; its count in `status` may be off by some.
of() {
	echo "$(awk '/^Anonymous:/ { print $2 }' /proc/$1/smaps_rollup) $(awk '/^Threads:/ { print $2 }' /proc/$1/status) $(ls /proc/$1/fd | wc -l)"
}
# The kernel: KiB that it cannot give back.
kernel() {
	awk '/^(SUnreclaim|KernelStack|PageTables|VmallocUsed|Percpu):/ { sum += $2 } END { print sum }' /proc/meminfo
}
keeper() {
	for process in /proc/[0-9]*; do
		case $({ tr '\0' ' ' <$process/cmdline; } 2>/dev/null) in *keep-settings*) echo ${process#/proc/} ;; esac
	done
}
# flat WHAT BEFORE NOW SLACK: a number of KiB that has not grown by more.
flat() {
	[ "$3" -le $(($2 + $4)) ] && pass "$1: $2 KiB, then $3" || fail "$1 grows: $2 KiB, then $3"
}

mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
watched=$$
run="solocore run --partial /plans/hours.json --event page-faults --no-confine"
start --duration "100 ms" --format json
wait $daemon
remember
begun=$(cut -d . -f 1 /proc/uptime)
start --duration "$((SPAN + 600)) s" --format json --command "task1=/bin/true"
tenth=$((SPAN / 10))
next=$tenth
while [ $(($(cut -d . -f 1 /proc/uptime) - begun)) -lt $SPAN ]; do
	sleep 60
	solocore top --format json >/dev/null 2>/tmp/said || fail "top: $(cat /tmp/said)"
	hog 3 work 3000 >/dev/null
	now=$(($(cut -d . -f 1 /proc/uptime) - begun))
	if [ $now -ge $next ]; then
		next=$((next + tenth))
		echo "after $now s: daemon $(of $daemon) (KiB, threads, descriptors), keeper $(of $(keeper)), kernel $(kernel) KiB"
		[ -n "${daemon_then:-}" ] || { daemon_then=$(of $daemon) keeper_then=$(of $(keeper)) kernel_then=$(kernel); }
	fi
done
daemon_now=$(of $daemon) keeper_now=$(of $(keeper)) kernel_now=$(kernel)
# The record of jobs has its memory from the start, and the text of a look goes back to the kernel. A page that a rare path touches for the first
# time is left: 64 KiB are 10 bytes for each of the 6,480 jobs that end between the two looks.
flat "the daemon's memory" ${daemon_then%% *} ${daemon_now%% *} 64
flat "the keeper's memory" ${keeper_then%% *} ${keeper_now%% *} 128
flat "the kernel's memory" $kernel_then $kernel_now 4096
is "the daemon's threads and descriptors" "${daemon_now#* }" "${daemon_then#* }"
is "the keeper's threads and descriptors" "${keeper_now#* }" "${keeper_then#* }"
kill -TERM $daemon
wait $daemon
is "exit code" $? 0
jobs=$(sed -n 's/^ *"jobs": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json | awk '{ s += $1 } END { print s + 0 }')
[ "$jobs" -gt $((SPAN * 9 / 10)) ] && pass "$jobs jobs" || fail "$jobs jobs in $SPAN s"
least=$(sed -n 's/^ *"periods": \([0-9]*\),\{0,1\}$/\1/p' /tmp/run.json | sort -n | head -n 1)
[ "${least:-0}" -gt $((SPAN * 90)) ] && pass "at least $least periods of 10 ms on each CPU" || fail "$least periods of 10 ms on a CPU in $SPAN s"
unchanged "after $SPAN s" && pass "all is as it was"
echo "failures: $failures, after $(cut -d ' ' -f 1 /proc/uptime) s"
[ $failures = 0 ]
