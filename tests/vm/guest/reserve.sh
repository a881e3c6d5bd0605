# A reserve of a quarter of the colours in a guest of 4 GB (VM_MEMORY=4G): what it gets, what the kernel still has there, and that under load
# nothing in it changes. After common.sh.
board="--platform core-i5-2500k"
colours="--colors 0-7 $board"
planned="$colours --plan /plans/mixed.json --format json"
setting=/proc/sys/vm/compact_unevictable_allowed
quiet="/proc/sys/vm/compaction_proactiveness /proc/sys/vm/extfrag_threshold"
# count SECTION KEY: of the latest census.
count() {
	awk -v section="\"$1\":" -v key="\"$2\":" '$1 == section { on = 1 } on && $1 == key { print $2 + 0; exit }' /tmp/census
}
census() {
	solocore space audit --kernel $colours --format json >/tmp/census 2>/tmp/errors || fail "census: $(cat /tmp/errors)"
}
# Frames of the kernel in a section, without those reserved at boot.
kernels() {
	echo $(($(count "$1" slab) + $(count "$1" page_table) + $(count "$1" kernel)))
}
field() {
	sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" /tmp/reserve.json | head -n 1
}
held() {
	sed -n 's/^holding \([0-9]*\) .*/\1/p' /tmp/held | tail -n 1
}
free_mib() {
	awk '/^MemFree/ { print int($2 / 1024) }' /proc/meminfo
}
# What the holder has, as others see it: pages of its colours, and all of its pages.
audit() {
	solocore space audit $reserve $colours --format json >/tmp/audit 2>/dev/null
	awk '/"resident"/ { r = $2 } /"wrong"/ { print r - $2; exit }' /tmp/audit
}
# back FRAMES WHEN: the holder has this many again after 2 s. Its own next try at free memory comes 5 s later at least.
back() {
	sleep 2
	again=$(audit)
	[ "$again" -ge "$1" ] && pass "$again of $is_held frames are held again $2" && return
	census
	fail "only $again of $is_held frames are held $2; in the chosen colours are $(sed -n '/"chosen"/,/}/p' /tmp/census | tr -d '\n ')"
}

echo "kernel $(uname -r), $(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo) MiB"
expect 3 "memory: these colours and banks" solocore reserve --colors 0-31 $board
expect 2 "there is no colour 32" solocore reserve --colors 32 $board
expect 2 "no bank functions are known" solocore reserve --banks 1
mkdir -p /sys/fs/cgroup
if mount -t cgroup2 cgroup /sys/fs/cgroup && echo +memory >/sys/fs/cgroup/cgroup.subtree_control && mkdir /sys/fs/cgroup/small; then
	echo 1G >/sys/fs/cgroup/small/memory.max
	expect 3 "cgroup: /sys/fs/cgroup/small/memory.max allows 1024" \
		sh -c "echo \$\$ >/sys/fs/cgroup/small/cgroup.procs; exec solocore reserve $colours"
fi

census
cp /tmp/census /tmp/census.before
echo "before: chosen $(count chosen free) free of which the reserve may get, kernel $(kernels chosen), reserved $(count chosen reserved)"
before=$(cat $setting) loud=$(cat $quiet)
cat /sys/kernel/mm/transparent_hugepage/hugepages-*kB/enabled >/tmp/blocks.before
free=$(free_mib)
hold $planned
cat /tmp/held
expect 3 "another solocore reserve" solocore reserve $colours
census
sed -n '/"chosen"/,/}/p' /tmp/census
is_held=$(held)
seen=$(audit)
[ "$seen" -ge "$is_held" ] && pass "$seen pages of the holder lie in its colours, as others see" || fail "the holder has $seen pages of its colours, not $is_held"
# Blocks between a few pages and a huge page: without passes for them 1.4 to 2.2 % of the frames stay free.
all=$(awk '$1 == "\"chosen\":" { on = 1 } on && /}/ { print s; exit } on && !/mapped/ && $2 + 0 { s += $2 }' /tmp/census)
left=$(count chosen free)
[ $((left * 200)) -le "$all" ] && pass "$left of $all frames stay free" || fail "$left of $all frames stay free"
cat /sys/kernel/mm/transparent_hugepage/hugepages-*kB/enabled >/tmp/blocks.now
cmp -s /tmp/blocks.before /tmp/blocks.now && pass "blocks of any size are given as before" || fail "sizes of blocks: $(cat /tmp/blocks.now)"
[ "$(cat $setting)" = 0 ] && pass "locked pages stay where they are" || fail "$setting is $(cat $setting)"
[ "$(cat $quiet)" = "0
1000" ] && pass "the kernel compacts for small blocks only" || fail "$quiet: $(cat $quiet)"

# Load: what the kernel and programs need comes from the other colours.
kernel=$(kernels chosen) others=$(kernels others) spare=$(count chosen free)
pages=$(($(count others shared_memory) + $(count others anonymous)))
mkfifo /tmp/end
load 40 40 4 3 </tmp/end >/tmp/ready &
loader=$!
exec 9>/tmp/end
until grep -q ready /tmp/ready; do
	kill -0 $loader || { fail "the load ends by itself"; break; }
	sleep 0.1
done
census
more=$(($(kernels others) - others)) more_here=$(($(kernels chosen) - kernel))
more_pages=$(($(count others shared_memory) + $(count others anonymous) - pages))
echo "under load: kernel's frames +$more in other colours, +$more_here in the chosen ones ($spare were free); programs +$more_pages in other colours"
[ $more -gt 20000 ] || fail "the load needs $more frames of the kernel, so nothing was tested"
[ $more_here -le $spare ] || fail "the kernel took $more_here frames of the chosen colours, and $spare were free"
# Compaction, and forks: nothing that is held changes.
echo 1 >/proc/sys/vm/compact_memory
i=0
while [ $i -lt ${FORKS:-500} ]; do
	/bin/busybox true
	i=$((i + 1))
done
dd if=/dev/zero of=/tmp/copy bs=1M count=64 2>/dev/null && cat /tmp/copy | cat >/tmp/copy2
rm -f /tmp/copy /tmp/copy2
# Copies of files and pipes for $COPY seconds: the kernel gets none of the frames that are held.
seconds() {
	cut -d . -f 1 /proc/uptime
}
copied=0 until=$(($(seconds) + ${COPY:-20})) minute=$(($(seconds) + 60))
while [ $(seconds) -lt $until ]; do
	dd if=/dev/zero of=/tmp/copy bs=1M count=96 2>/dev/null && cp /tmp/copy /tmp/copy2 && cat /tmp/copy2 | cat >/dev/null || { fail "no copy"; break; }
	rm -f /tmp/copy /tmp/copy2
	copied=$((copied + 96))
	[ $(seconds) -lt $minute ] && continue
	minute=$((minute + 60))
	[ "$(audit)" -ge "$is_held" ] || fail "after $copied MiB $(audit) of $is_held frames are held"
done
census
more_here=$(($(kernels chosen) - kernel))
[ $more_here -le $spare ] && pass "$copied MiB copied: the kernel's frames +$more_here in the chosen colours, where $spare were free" ||
	fail "$copied MiB copied: the kernel took $more_here frames of the chosen colours, and $spare were free"
[ "$(audit)" -ge "$is_held" ] && pass "all $is_held frames are held under load" || fail "under load $(audit) of $is_held frames are held"
exec 9>&-
wait $loader

# A program of these colours gets its frames from the reserve.
solocore exec --colors 0-7 $board --pages /tmp/pages -- coloured >/tmp/said 2>&1 || fail "exec in the reserve: $(tail -n 3 /tmp/said)"
wrong=$(awk '/"anonymous"/ { on = 1 } on && /"wrong"/ { print $2 + 0; exit }' /tmp/pages)
echo "exec: $(tail -n 1 /tmp/said)"
[ "$wrong" = 0 ] && pass "a program in the reserve has no wrong page" || fail "$wrong wrong pages"
# Its heir and the reserve bring its frames back as it ends.
back $((is_held - 600)) "after its end"

# Programs that fork, execute and end again and again, all in frames of the reserve; the guest's memory is compacted before the last ends.
solocore exec --colors 0-7 $board --pages /tmp/pages -- forks ${FORKED:-60} /tmp/gate >/tmp/said 2>/tmp/errors &
forks=$!
until [ -s /tmp/said ] || ! kill -0 $forks 2>/dev/null; do sleep 0.5; done
echo 1 >/proc/sys/vm/compact_memory
sleep 5
: >/tmp/gate
wait $forks || fail "forks in the reserve: $? $(grep -v "note: " /tmp/errors | tail -n 8)"
wrong=$(awk '/"anonymous"/ { on = 1 } on && /"wrong"/ { print $2 + 0; exit }' /tmp/pages)
[ "$wrong" = 0 ] && grep -q "processes" /tmp/said && pass "$(cat /tmp/said) in the reserve have no wrong page" || fail "$wrong wrong pages of $(cat /tmp/said)"
back $((is_held - 1000)) "after all of them"

# Buffers of the plan: task0 is on core 0, which has colours 0 to 7; nothing of task1 is held. Compaction moves none.
buffered task0 2000 0 8 3 >/tmp/said 2>&1 &
buffer=$!
sleep 1
echo 1 >/proc/sys/vm/compact_memory
wait $buffer || fail "a buffer: $? $(cat /tmp/said)"
[ "$(sort -u /tmp/said)" = "2000 pages, 0 wrong, reserved" ] && pass "a buffer of the reserve has no wrong page" || fail "a buffer: $(cat /tmp/said)"
expect 4 "too few frames" buffered task1 10 8 8
expect 3 "no such task" buffered nobody 10 0 8
expect 2 "root alone" su user -c "buffered task0 10 0 8"

kill -INT $reserve
wait $reserve || fail "the reserve ends with $?"
cat /tmp/reserve.json
share=$(field held_percent) took=$(field filled_ns)
awk -v p="$share" 'BEGIN { exit !(p >= 90) }' && pass "$share % of the frames were held at the end" || fail "only $share % are held"
# at_least PERCENT PATTERN: the first report has this much.
at_least() {
	awk -v p="$(sed -n "s/^holding $2.*/\\1/p" /tmp/held | head -n 1)" -v least="$1" 'BEGIN { print p; exit !(p >= least) }'
}
at_least 90 '.*(\([0-9.]*\) %;' >/dev/null || fail "too few at first"
awk -v p="$(field held_of_others_percent)" 'BEGIN { exit !(p > 0 && p <= 100) }' || fail "$(field held_of_others_percent) % of the frames that are not the kernel's: more than there are"
others=$(at_least 97 '.*; \([0-9.]*\) % of the frames that are not') && pass "$others % of those that are not the kernel's" || fail "only $others % of those that are not the kernel's"
[ "$took" -lt 60000000000 ] && pass "after $((took / 1000000)) ms" || fail "it took $((took / 1000000)) ms"
[ "$(field lost)" = 0 ] && pass "none was lost" || fail "$(field lost) frames were lost"
[ "$(field lent)" -gt 0 ] || fail "none was lent"
[ "$(field back)" -gt 2000 ] && pass "$(field back) frames came back from programs" || fail "$(field back) frames came back from programs"
[ "$(cat $setting)" = "$before" ] && pass "the setting is put back" || fail "$setting is $(cat $setting)"
[ "$(cat $quiet)" = "$loud" ] && pass "compaction is as before" || fail "$quiet: $(cat $quiet)"
[ $(free_mib) -ge $((free - 64)) ] && pass "all memory is given back" || fail "$(free_mib) MiB of $free are free"

# Without a reserve, a program that runs as the task has memory of its own.
expect 1 "no reserve with a plan" buffered task0 10 0 8
solocore exec --plan /plans/mixed.json --task task0 $board -- buffered task0 2000 0 8 >/tmp/said 2>/tmp/errors || fail "a buffer in colours: $? $(cat /tmp/said /tmp/errors)"
[ "$(cat /tmp/said)" = "2000 pages, 0 wrong, own" ] && pass "a buffer of a program in its colours has no wrong page" || fail "a buffer in colours: $(cat /tmp/said)"

# The check above can fail: with the setting changed under it, compaction takes frames. And a kill gives all back.
hold $planned --no-drop
# A page that moves before its first look is not counted.
sleep 2
echo 1 >$setting
echo 1 >/proc/sys/vm/compact_memory
sleep 3
grep -q "has moved" /tmp/held || fail "without the setting no held page has moved, so the checks above test nothing"
echo "without the setting: $(grep -c 'has moved' /tmp/held) looks found moved pages: $(grep 'has moved' /tmp/held | head -n 1)"
echo 0 >$setting
kill -9 $reserve
wait $reserve 2>/dev/null
for _ in $(seq 50); do
	[ "$(cat $setting)" = "$before" ] && break
	sleep 0.1
done
[ "$(cat $setting)" = "$before" ] && pass "killed: the setting is put back" || fail "killed: $setting is $(cat $setting)"
[ "$(cat $quiet)" = "$loud" ] && pass "killed: compaction is as before" || fail "killed: $quiet: $(cat $quiet)"
[ $(free_mib) -ge $((free - 64)) ] && pass "killed: all memory is given back" || fail "killed: $(free_mib) MiB of $free are free"
[ -z "$(ls /run/solocore-journal)" ] || fail "a journal is left: $(ls /run/solocore-journal)"

echo "failures: $failures"
[ $failures = 0 ]
