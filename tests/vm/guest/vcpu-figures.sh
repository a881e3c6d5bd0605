# MARACAS' figures 2, 4 and 8 on a real kernel: budgets that are used up together, background time that adds progress and is shared
# evenly, balancing that evens it out between cores. After common.sh. $FIGURES (2 4 8): which; $FIGURE_SECONDS (10): how long each case
# is watched; $SETS (5): sets of parameters for Fig. 8.
#
# Commands of this script are best effort and may take a while, so progress is by the second from when the threads went on until
# their end. Progress is what a thread that computes has counted, where all of them are on one core. Between cores it is the VCPU's time as the policy
# accounts it: the emulator's CPUs take turns, and how many turns a CPU gets has nothing to do with scheduling.
FIGURES=${FIGURES:-2 4 8}
seconds=${FIGURE_SECONDS:-10}

# spent: "name foreground background moves longest-move", times in ns, of each VCPU.
spent() {
	solocore vcpu list --format json | tr -d ' \n' | sed 's/},{/}\n{/g' |
		sed -n 's/.*"name":"\([^"]*\)".*"foreground_ns":\([0-9]*\),"background_ns":\([0-9]*\),"moves":\([0-9]*\),"longest_move_ns":\([0-9]*\).*/\1 \2 \3 \4 \5/p'
}
# begin NAME...: a thread that computes for each VCPU, all at the same time. What it has counted goes to /tmp/rounds-NAME at its end. NAME=MS:
# it ends after so long, and its VCPU with it.
begin() {
	workers=
	for name in "$@"; do
		length=${name#*=}
		name=${name%=*}
		: >"/tmp/rounds-$name"
		[ "$length" = "$name" ] && what="worker 1" || what="worker until $length $name"
		# Stopped before it counts anything.
		sh -c "kill -STOP \$\$; exec $what" >"/tmp/rounds-$name" &
		until grep -q "^State:.T" /proc/$!/status; do sleep 0.01; done
		solocore vcpu bind $! "$name"
		workers="$workers $!"
	done
	spent >/tmp/before
	begun=$(cut -d ' ' -f 1 /proc/uptime)
	kill -CONT $workers
}
# over: ends the threads; what each VCPU has had since, as spent says it. /tmp/window: for how long, in s.
over() {
	kill $workers 2>/dev/null
	awk -v b="$begun" '{ print $1 - b }' /proc/uptime >/tmp/window
	spent >/tmp/after
	awk 'NR == FNR { f[$1] = $2; b[$1] = $3; next } { print $1, $2 - f[$1], $3 - b[$1], $4, $5 }' /tmp/before /tmp/after
}
# end: of the scheduler, after the threads have said what they counted.
end() {
	for worker in $workers; do
		for _ in $(seq 50); do
			kill -0 "$worker" 2>/dev/null || break
			sleep 0.1
		done
	done
	kill -INT $daemon
	wait $daemon
}
# spread FILE COLUMN: largest less smallest, in hundredths of the mean.
spread() {
	awk -v c="$2" '{ s += $c; if (NR == 1 || $c > m) m = $c; if (NR == 1 || $c < l) l = $c } END { printf "%.2f", (m - l) * 100 * NR / s }' "$1"
}

# Time of cores 1 and 2 by how many of them run a VCPU of ours (those above the best-effort ones), from when both have begun.
together() {
	awk -F, '($2 == 1 || $2 == 2) && $3 == "runs" { print $1, $2, ($5 > 4) } ($2 == 1 || $2 == 2) && $3 == "stops" { print $1, $2, 0 }' "$1" | sort -n |
		awk '{ if (seen[1] && seen[2]) s[on[1] + on[2]] += $1 - t; t = $1; on[$2] = $3; if ($3) seen[$2] = 1 }
			END { all = s[0] + s[1] + s[2]; printf "%.1f %.1f %.1f\n", (s[1] + 2 * s[2]) * 50 / all, 200 * s[2] / (s[1] + 2 * s[2]), 100 * s[0] / all }'
}
figure2() {
	for case in "in phase" apart background; do
		background=none
		[ "$case" = background ] && background=least-time
		# Lenient: each budget comes back at whole periods from when its VCPU woke, however late the emulator lets it in.
		serve --background $background --lenient --overhead "500 us" --best-effort 10ms/100ms --sched-trace /tmp/trace.csv --vcpu p1=40ms/100ms@1 --vcpu p2=40ms/100ms@2
		begin p1 p2
		if [ "$case" = apart ]; then
			# Half a period later.
			kill -STOP ${workers##* }
			sleep 0.35
			kill -CONT ${workers##* }
		fi
		sleep "$seconds"
		over >/dev/null
		end
		# shellcheck disable=SC2046
		set -- $(together /tmp/trace.csv)
		echo "Fig. 2: $case: each core runs $1 % of the time, $2 % of that beside the other; both idle $3 % of the time"
		echo "$1 $2 $3" >"/tmp/fig2-${case% *}"
		solocore check-trace /tmp/trace.csv >/tmp/said && pass "Fig. 2, $case: no violation" || fail "Fig. 2, $case: $(head -n 3 /tmp/said)"
	done
	# Both use their budgets at once: the rate is beside the other's, but for what a late timer of either shifts (some ms of 40). Apart, at the same
	# rate, none is. Background time leaves no core idle.
	cat /tmp/fig2-in /tmp/fig2-apart /tmp/fig2-background | awk '{ rate[NR] = $1; beside[NR] = $2; idle[NR] = $3 } END { exit !(beside[1] > 60 && idle[1] > 45 && beside[2] < 10 && idle[2] < 30 && rate[2] > rate[1] - 2 && rate[2] < rate[1] + 2 && idle[3] < 5) }' &&
		pass "Fig. 2: budgets that are used up together are contended for as if there were none" || fail "Fig. 2: no sync effect"
}

figure4() {
	for c in ${CAPACITIES:-3 6 12 18}; do
		for background in none least-time; do
			serve --background $background --overhead "500 us" --best-effort 10ms/100ms \
				$(for p in 1 2 3 4; do echo "--vcpu p$p=${c}ms/100ms@1"; done)
			begin p1 p2 p3 p4
			sleep "$seconds"
			over | grep "^p" >/tmp/times
			end
			for p in 1 2 3 4; do
				echo "p$p $(awk -v r="$(cat /tmp/rounds-p$p)" '{ print r / $1 }' /tmp/window)"
			done >/tmp/$background
			awk -v c="$c" -v b=$background -v w="$(cat /tmp/window)" 'NR == FNR { rounds[$1] = $2; next } { printf "Fig. 4: C %d ms, background %s, %s: %.0f rounds a second; of the time %.1f %% foreground, %.1f %% background\n", c, b, $1, rounds[$1], $2 / 1e7 / w, $3 / 1e7 / w }' /tmp/$background /tmp/times
		done
		awk 'NR == FNR { none[$1] = $2; next } $2 <= none[$1] { exit 1 }' /tmp/none /tmp/least-time &&
			pass "C $c ms: background time adds progress for each" || fail "C $c ms: no progress"
		s=$(spread /tmp/least-time 2)
		awk -v s="$s" 'BEGIN { exit s > 2 }' && pass "C $c ms: spread of the progress $s %" || fail "C $c ms: spread of the progress $s %"
	done
}

# 16 VCPUs of 1 to 14 ms in 100 ms; 14 of them end, and two are watched throughout.
figure8() {
	: >/tmp/fig8
	for set in $(seq 0 $((${SETS:-5} - 1))); do
		awk -v seed=$((set + 11)) -v s="$seconds" 'BEGIN { srand(seed); for (i = 0; i < 16; i++) printf "t%d %dms/100ms %d\n", i, 1 + int(rand() * 14), 1000 * s * (0.2 + rand() * 0.9) }' >/tmp/set
		for balance in static "1 ms"; do
			options=
			[ "$balance" = static ] || options="--balance 1ms"
			serve --overhead "500 us" --best-effort 10ms/100ms $options --sched-trace /tmp/trace.csv $(awk '{ print "--vcpu", $1 "=" $2 }' /tmp/set)
			begin $(awk '{ print (NR > 2 ? $1 "=" $3 : $1) }' /tmp/set)
			sleep "$seconds"
			over >/tmp/times
			awk '/^t/ { m += $4; if ($5 > l) l = $5 } END { printf "%d moves of those that are left, the longest %.1f us", m, l / 1e3 }' /tmp/times >/tmp/moved
			grep -E "^t[01] " /tmp/times | awk -v set="$set" -v b="$balance" -v moved="$(cat /tmp/moved)" -v w="$(cat /tmp/window)" '{ printf "Fig. 8: k%d, %s, %s: background %.1f ms a second (%s)\n", set, b, $1, $3 / 1e6 / w, moved }' | tee -a /tmp/fig8
			end
			solocore check-trace /tmp/trace.csv >/tmp/said && pass "Fig. 8, k$set, $balance: no violation" || fail "Fig. 8, k$set, $balance: $(head -n 3 /tmp/said)"
		done
	done
	# Between all sets and both tasks: the ratio of the largest to the smallest.
	for balance in static "1 ms"; do
		grep ", $balance," /tmp/fig8 | sed 's/.*background \(.*\) ms a second (.*/\1/' | sort -n | awk -v b="$balance" '{ v[NR] = $1; s += $1 } END { for (i in v) q += v[i] > s / NR ? v[i] - s / NR : s / NR - v[i]; printf "%s: mean %.1f ms a second, mean deviation %.1f %%, largest by smallest %.2f\n", b, s / NR, 100 * q / s, v[NR] / (v[1] > 0 ? v[1] : 1) }'
	done | tee /tmp/both
	awk '{ for (i = 1; i <= NF; i++) if ($i == "deviation") d[NR] = $(i + 1) } END { exit d[2] >= d[1] }' /tmp/both &&
		pass "balancing evens out background progress" || fail "balancing does not even out background progress"
}

echo "kernel $(uname -r)"
for figure in $FIGURES; do
	figure$figure
done
echo "failures: $failures"
[ $failures = 0 ]
