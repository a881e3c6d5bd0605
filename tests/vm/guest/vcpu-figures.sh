# MARACAS' figures 4 and 8 on a real kernel: background time adds progress and is shared evenly, and balancing evens it out between
# cores. After common.sh. $FIGURE_SECONDS (6): how long each case is watched; $SETS (3): sets of parameters for Fig. 8.
# spent: "name foreground background", in ns, of each VCPU.
spent() {
	solocore vcpu list --format json | tr -d ' \n' | sed 's/},{/}\n{/g' |
		sed -n 's/.*"name":"\([^"]*\)".*"foreground_ns":\([0-9]*\),"background_ns":\([0-9]*\).*/\1 \2 \3/p'
}
# begin NAME...: a thread that computes for each VCPU, all at the same time.
begin() {
	workers=
	for name in "$@"; do
		worker 1 >/dev/null &
		kill -STOP $!
		solocore vcpu bind $! $name
		workers="$workers $!"
	done
	spent >/tmp/before
	kill -CONT $workers
}
# over: what each VCPU has had since.
over() {
	spent >/tmp/after
	awk 'NR == FNR { f[$1] = $2; b[$1] = $3; next } { print $1, $2 - f[$1], $3 - b[$1] }' /tmp/before /tmp/after
	kill $workers
	kill -INT $daemon
	wait $daemon
}
seconds=${FIGURE_SECONDS:-6}

echo "kernel $(uname -r)"
for c in ${CAPACITIES:-3 6 12 18}; do
	for background in none least-time; do
		serve --background $background --overhead "500 us" --best-effort 1ms/100ms \
			$(for p in 1 2 3 4; do echo "--vcpu p$p=${c}ms/100ms@1"; done)
		begin p1 p2 p3 p4
		sleep $seconds
		over | awk '/^p/ { print $1, $2 + $3 }' >/tmp/$background
		awk -v c=$c -v b=$background '{ printf "Fig. 4: C %d ms, background %s, %s: %.1f ms\n", c, b, $1, $2 / 1e6 }' /tmp/$background
	done
	awk 'NR == FNR { none[$1] = $2; next } $2 <= none[$1] { exit 1 }' /tmp/none /tmp/least-time &&
		pass "C $c ms: background time adds progress for each" || fail "C $c ms: no progress"
	spread=$(awk '{ s += $2; if ($2 > m) m = $2; if (NR == 1 || $2 < l) l = $2 } END { printf "%.2f", (m - l) * 100 * NR / s }' /tmp/least-time)
	awk -v s=$spread 'BEGIN { exit s > 2 }' && pass "C $c ms: spread of the progress $spread %" || fail "C $c ms: spread of the progress $spread %"
done

# 16 VCPUs of 1 to 14 ms in 100 ms; 14 of them end, and two are watched throughout.
for set in $(seq 0 $((${SETS:-3} - 1))); do
	awk -v seed=$((set + 11)) -v s=$seconds 'BEGIN { srand(seed); for (i = 0; i < 16; i++) printf "t%d %dms/100ms %.2f\n", i, 1 + int(rand() * 14), s * (0.2 + rand() * 0.8) }' >/tmp/set
	for balance in static "1 ms"; do
		[ "$balance" = static ] && options= || options="--balance 1ms"
		serve --overhead "500 us" --best-effort 1ms/100ms $options $(awk '{ print "--vcpu", $1 "=" $2 }' /tmp/set)
		begin $(awk '{ print $1 }' /tmp/set)
		while read -r name _ length; do
			[ $name = t0 ] || [ $name = t1 ] && continue
			(sleep $length; solocore vcpu destroy $name; kill $(echo $workers | awk -v n=${name#t} '{ print $(n + 1) }')) &
		done </tmp/set
		sleep $seconds
		over | awk -v set=$set -v b="$balance" '$1 == "t0" || $1 == "t1" { printf "Fig. 8: k%d, %s, %s: background %.1f ms\n", set, b, $1, $3 / 1e6 }' | tee -a /tmp/fig8
		wait
	done
done
# Between all sets and both tasks: the ratio of the largest to the smallest.
for balance in static "1 ms"; do
	grep ", $balance," /tmp/fig8 | sed 's/.*background \(.*\) ms/\1/' | sort -n | awk -v b="$balance" '{ v[NR] = $1; s += $1 } END { for (i in v) q += (v[i] - s / NR) ^ 2; printf "%s: mean %.1f ms, deviation %.1f %%, largest by smallest %.2f\n", b, s / NR, 100 * sqrt(q / NR) / (s / NR), v[NR] / (v[1] > 0 ? v[1] : 1) }'
done | tee /tmp/both
awk '{ for (i = 1; i <= NF; i++) if ($i == "deviation") d[NR] = $(i + 1) } END { exit d[2] >= d[1] }' /tmp/both &&
	pass "balancing evens out background progress" || fail "balancing does not even out background progress"
echo "failures: $failures"
[ $failures = 0 ]
