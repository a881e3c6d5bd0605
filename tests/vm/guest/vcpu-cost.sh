# What scheduling costs: threads that wake each other, under the kernel's scheduler and under VCPUs, and with ever more VCPUs. The emulator
# counts instructions, not time, so figures repeat; the other CPUs idle meanwhile. After common.sh.
median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
# ns of a round through two pipes on one CPU; ns of a message among 16 processes on all CPUs.
pingpong() {
	# Within the budget of a VCPU, which then comes back.
	for _ in 1 2 3 4 5; do
		taskset 2 worker pingpong 500
		sleep 0.2
	done | median
}
groups() {
	for _ in 1 2 3 4 5; do worker groups 8 200; done | median
}
ratio() {
	awk -v a="$2" -v b="$3" -v what="$1" 'BEGIN { printf "%s: %.2f\n", what, a / b; exit a > 1.3 * b }' && pass "$1 below 1.3" || fail "$1: not below 1.3"
}
sleep 3
echo "kernel $(uname -r)"
own_pingpong=$(pingpong) own_groups=$(groups)
echo "the kernel's scheduler: round $own_pingpong ns, message $own_groups ns"
serve
sleep 1
best_pingpong=$(pingpong) best_groups=$(groups)
echo "best effort: round $best_pingpong ns, message $best_groups ns"
kill -INT $daemon
wait $daemon
ratio "best effort, round" "$best_pingpong" "$own_pingpong"
ratio "best effort, message" "$best_groups" "$own_groups"
serve --background none --overhead "10 us" --vcpu p=80ms/100ms@1
sleep 1
solocore vcpu bind $$ p
of_one=$(pingpong)
echo "VCPUs 5: round $of_one ns"
ratio "one VCPU, round" "$of_one" "$own_pingpong"
first=5
for last in 10 30 100 300 1000; do
	: >/tmp/filled
	worker fill $first $last 4 >/tmp/filled 2>&1 &
	for _ in $(seq 600); do
		[ -s /tmp/filled ] && break
		sleep 0.1
	done
	grep -q cannot /tmp/filled && fail "$(cat /tmp/filled)"
	first=$last
	round=$(pingpong)
	echo "VCPUs $last: round $round ns"
done
awk -v a="$round" -v b="$of_one" 'BEGIN { exit a > b * 3 }' && pass "1000 VCPUs: a round takes $round ns, with 5 $of_one ns" || fail "1000 VCPUs: $round ns"
# The guest ends here: a thousand threads that compute would let nobody else end for minutes.
echo "failures: $failures"
[ $failures = 0 ]
