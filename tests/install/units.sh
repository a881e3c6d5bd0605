# What the guest of systemd.sh runs under systemd: the unit from its installation to its purge. Each step says what it found; the last
# line says how many checks failed.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/kit HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive
. /kit/common.sh
is() {
	[ "$2" = "$3" ] && pass "$1: $2" || fail "$1: $2, not $3: $(journalctl -q -n 4 -o cat -u solocore | tr '\n' ' ')"
}
of() {
	systemctl show -P "$1" solocore
}
# until_is WHAT VALUE COMMAND...: waits up to 60 s for a command to print a value.
until_is() {
	what=$1 value=$2
	shift 2
	for _ in $(seq 300); do
		[ "$("$@")" = "$value" ] && pass "$what: $value" && return
		sleep 0.2
	done
	fail "$what: $("$@"), not $value: $(journalctl -q -n 6 -o cat -u solocore | tr '\n' ' ')"
}
# 300 faults take 60 ms at 5 a millisecond and 30 at 10; without a budget some 2.
took() {
	hog 3 work 300
}
regulated() {
	ns=$(took)
	[ "$ns" -gt 20000000 ] && pass "$1: CPU 3 is regulated (300 faults take $((ns / 1000000)) ms)" || fail "$1: CPU 3 is not regulated: 300 faults take $ns ns"
}
budget() {
	solocore top --format json 2>/dev/null | grep -o '"budget": [0-9]*' | head -n 1 | grep -o '[0-9]*'
}
# All that a run may change. Groups of services that came or went are not solocore's.
state() {
	grep -sH . /proc/sys/kernel/sched_rt_runtime_us /proc/sys/kernel/perf_event_max_sample_rate /proc/irq/default_smp_affinity \
		/proc/irq/*/smp_affinity_list /sys/devices/virtual/workqueue/cpumask /sys/kernel/debug/sched/*_server/cpu*/runtime /sys/kernel/sched_ext/state
	for group in . system.slice system.slice/systemd-journald.service init.scope; do
		grep -sH . /sys/fs/cgroup/$group/cpuset.cpus /sys/fs/cgroup/$group/cgroup.subtree_control
	done
	grep -sH '^Cpus_allowed:' /proc/1/status /proc/$$/status
	ls -A /run/solocore-journal /run/solocore* 2>/dev/null
	bpfcount
}
unchanged() {
	for _ in $(seq 40); do
		state >/run/state.now
		cmp -s /run/state.before /run/state.now && pass "$1: all is as it was" && return
		sleep 0.2
	done
	fail "$1: not as it was: $(diff /run/state.before /run/state.now | tr '\n' ' ')"
}
quietly() {
	"$@" >/tmp/log 2>&1 || fail "$*: $(tail -n 5 /tmp/log)"
}

mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
echo "systemd $(systemctl --version | head -n 1), Linux $(uname -r), $(systemctl is-system-running)"
[ "$(cat /proc/1/comm)" = systemd ] || fail "the first program is $(cat /proc/1/comm)"

# Without the emulator that profiles need: a service has no use for it.
quietly dpkg --force-depends --install /debs/*.deb
quietly systemctl daemon-reload
is "enabled by its installation" "$(systemctl is-enabled solocore 2>/dev/null)" disabled
systemctl start solocore
is "without a plan" "$(of ActiveState) $(of ConditionResult)" "inactive no"
exposure=$(systemd-analyze security --no-pager solocore | sed -n 's/.*exposure level for solocore.service: \([0-9.]*\).*/\1/p')
awk -v e="${exposure:-10}" 'BEGIN { exit !(e < 4) }' && pass "exposure $exposure" || fail "exposure ${exposure:-not said}: $(systemd-analyze security --no-pager solocore 2>&1 | tail -n 2)"

# The first run makes the lock's file and the directory of journals, which stay; so do systemd's own BPF programs for a unit that is enabled.
quietly systemctl enable solocore
cp /kit/five.json /etc/solocore/plan.json
echo 'OPTIONS=--partial --event page-faults --command video=/kit/video' >/etc/solocore/options
quietly systemctl start solocore
is "first start" "$(of ActiveState)" active
quietly systemctl stop solocore
pkill -f '^sleep 1000$' 2>/dev/null
sleep 1
state >/run/state.before

quietly systemctl start solocore
is "enabled" "$(systemctl is-enabled solocore) $(of ActiveState) $(of NotifyAccess)" "enabled active main"
regulated "started"
state | cmp -s - /run/state.before && fail "the run changes nothing, so nothing is tested" || pass "the run changes the machine"
is "systemd may run on CPU 1" "$(sed -n 's/^Cpus_allowed:.*\(.\)$/\1/p' /proc/1/status)" d

# The main process alone, and the whole control group with the keeper and the tasks, as the out-of-memory killer may end it.
for whom in main all; do
	for number in 1 2 3; do
		before=$(of MainPID) restarts=$(of NRestarts)
		systemctl kill --kill-whom=$whom -s KILL solocore
		until_is "killed ($whom, $number): restarts" $((restarts + 1)) of NRestarts
		until_is "killed ($whom, $number)" active of ActiveState
		[ "$(of MainPID)" != "$before" ] || fail "killed ($whom, $number): the same process"
		regulated "killed ($whom, $number)"
		# The limit of starts is five a minute.
		systemctl reset-failed solocore
	done
done
is "tasks of all these runs" "$(pgrep -cf '^sleep 1000$')" 1

# One that hangs misses its watchdog.
restarts=$(of NRestarts)
kill -STOP "$(of MainPID)"
until_is "hung: restarts" $((restarts + 1)) of NRestarts
until_is "hung" active of ActiveState
regulated "hung"
systemctl reset-failed solocore

quietly systemctl restart solocore
is "restarted" "$(of ActiveState)" active
is "budget" "$(budget)" 5
before=$(of MainPID)
cp /kit/ten.json /etc/solocore/plan.json
quietly systemctl reload solocore
is "reloaded: budget" "$(budget)" 10
echo '{' >/etc/solocore/plan.json
systemctl reload solocore 2>/dev/null && fail "a broken plan is taken"
is "a broken plan: the same run goes on" "$(of MainPID) $(of ActiveState) $(budget)" "$before active 10"
cp /kit/five.json /etc/solocore/plan.json

# An upgrade ends no plan that runs; the next start is the new version's.
version=$(dpkg-query -W -f '${Version}' solocore)
quietly dpkg --force-depends --install /newer/*.deb
[ "$(dpkg-query -W -f '${Version}' solocore)" != "$version" ] || fail "not upgraded from $version"
is "upgraded: the same run goes on" "$(of MainPID) $(of ActiveState)" "$before active"
regulated "upgraded"
quietly systemctl restart solocore
is "upgraded and restarted" "$(of ActiveState) $(budget)" "active 5"
regulated "upgraded and restarted"

quietly systemctl stop solocore
is "stopped" "$(of ActiveState) $(of Result)" "inactive success"
pkill -f '^sleep 1000$' 2>/dev/null
unchanged "stopped"

# What another start does not mend: a broken plan ends with 2 and is not started again; another machine's, five times at most.
echo '{' >/etc/solocore/plan.json
systemctl start solocore 2>/dev/null && fail "a broken plan starts"
sleep 3
is "broken plan" "$(of ActiveState) $(of ExecMainStatus) $(of NRestarts)" "failed 2 0"
systemctl reset-failed solocore
cp /kit/board.json /etc/solocore/plan.json
echo 'OPTIONS=--partial --event page-faults' >/etc/solocore/options
systemctl start solocore 2>/dev/null && fail "another machine's plan starts"
until_is "another machine's plan: starts end" failed of ActiveState
is "another machine's plan" "$(of ExecMainStatus)" 3
[ "$(of NRestarts)" -le 5 ] && pass "$(of NRestarts) restarts" || fail "$(of NRestarts) restarts"
unchanged "after plans that were refused"

quietly systemctl disable solocore
quietly dpkg --purge solocore
systemctl daemon-reload
is "purged" "$(of LoadState)" not-found
left=$(find / -xdev \( -path /proc -o -path /sys -o -path /kit -o -path /debs -o -path /newer -o -path /var/log -o -path /var/lib/dpkg \
	-o -path /var/lib/systemd \) -prune -o -name '*solocore*' -print | tr '\n' ' ')
is "files with its name" "$left" "/etc/solocore "
echo "failures: $failures, after $(cut -d ' ' -f 1 /proc/uptime) s"
[ $failures = 0 ]
