#!/bin/sh
# Boots the virtual board's plugin and compares what a guest sees with what the model must give.
#
#   tests/board/model.sh [PLUGIN]        default: target/release/libsolocore_board_plugin.so
#
# QEMU is the one that `solocore board` keeps (any run of it fetches one), or SOLOCORE_TEST_QEMU: a directory with Debian's packages unpacked. Exit
# code 3 when there is none. Three boots, each under a limit of SOLOCORE_TEST_LIMIT seconds (300).
#   1  chases: each level within 2 % of its latency, DRAM beside three hogs at least 1.8 times slower; samples of misses: none lost; a mask of resctrl holds
#   2  a trace with page walks and prefetches: an independent replay counts the same events of every core
#   3  the same again: the same truth to the byte
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
plugin=$(realpath "${1:-$root/target/release/libsolocore_board_plugin.so}")
limit=${SOLOCORE_TEST_LIMIT:-300}
cache=${SOLOCORE_BOARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/solocore/board}
qemu=${SOLOCORE_TEST_QEMU:-$(find "$cache/qemu" -maxdepth 1 -name '11.*' 2>/dev/null | sort | tail -n 1)}
[ -x "$qemu/usr/bin/qemu-system-x86_64" ] || { echo "model.sh: no QEMU 11 in $cache/qemu; run \`solocore board run\` once, or set SOLOCORE_TEST_QEMU" >&2; exit 3; }
[ -f "$plugin" ] || { echo "model.sh: $plugin is missing; cargo build --release -p solocore-board-plugin" >&2; exit 3; }
kernel=$("$here/../vm/kernel.sh" 6.19.14) || exit 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
	echo "model.sh: FAILED: $1"
	failed=1
}

# root SCRIPT: the script becomes what the guest runs.
root() {
	rm -rf "$work/root"
	mkdir -p "$work/root/bin" "$work/root/dev" "$work/root/proc" "$work/root/sys" "$work/root/tmp"
	cp "$(command -v busybox)" "$work/root/bin/busybox"
	cp "$work/probe" "$work/root/bin/probe"
	cat >"$work/root/script"
	cat >"$work/root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
echo 1 >/proc/sys/kernel/printk
sh /script
echo "exit-code: $?"
poweroff -f
INIT
	chmod +x "$work/root/init"
	(cd "$work/root" && find . | cpio -o -H newc --quiet) >"$work/initramfs"
}

# boot NAME MORE: boots with a configuration that MORE is added to; the console is NAME.out, the truth NAME.json.
boot() {
	cat >"$work/$1.config" <<CONFIG
{"platform": "$root/platforms/xeon-w3530.toml", "cpus": 4, "seed": 1, "cpi_ps": 1000, "truth": "$work/$1.json" $2}
CONFIG
	libraries=$qemu/usr/lib/x86_64-linux-gnu
	loader=$libraries/ld-linux-x86-64.so.2
	[ -f "$loader" ] || loader=$qemu/usr/lib64/ld-linux-x86-64.so.2
	status=0
	timeout -s KILL "$limit" "$loader" --library-path "$libraries" "$qemu/usr/bin/qemu-system-x86_64" \
		-L "$qemu/usr/share/qemu" -L "$qemu/usr/share/seabios" \
		-machine q35 -accel tcg,thread=multi -cpu EPYC,-x2apic,-hypervisor -smp 4 -m 768M -seed 1 -rtc base=2026-01-01,clock=vm \
		-nic none -vga none -display none -no-reboot -kernel "$kernel/vmlinuz" -initrd "$work/initramfs" -serial stdio -monitor none \
		-append "console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=reliable cryptomgr.notests initcall_blacklist=load_system_certificate_list,jent_mod_init,sha1_mod_init,bpf_tcp_ca_kfunc_init" \
		-plugin "$plugin,config=$work/$1.config" </dev/null >"$work/$1.out" 2>"$work/$1.errors" || status=$?
	tr -d '\r' <"$work/$1.out" | sed "s/^/$1: /"
	if [ "$status" != 0 ] || ! grep -q '^exit-code: 0' "$work/$1.out"; then
		grep -v "TCG doesn't support" "$work/$1.errors" >&2 || :
		fail "the boot \`$1\` ended with $status"
	fi
}

# number NAME LABEL: the figure behind a label of the guest's script.
number() {
	tr -d '\r' <"$work/$1.out" | sed -n "s/^$2: .*: \([0-9.]*\) .*/\1/p" | head -n 1
}

# within LABEL WANT: a figure of the first boot, 2 % around what it must be.
within() {
	got=$(number levels "$1")
	awk -v got="${got:-0}" -v want="$2" -v label="$1" 'BEGIN { off = (got - want) / want
		printf "model.sh: %s: %s ns a step, the model gives %s: %+.2f %%\n", label, got, want, 100 * off
		exit !(off > -0.02 && off < 0.02) }' || fail "$1 is off by more than 2 %"
}

gcc -O2 -Wall -Wextra -Werror -static-pie -o "$work/probe" "$here/probe.c"
gcc -O2 -Wall -Wextra -Werror -o "$work/replay" "$here/replay.c"

root <<'SCRIPT'
echo 10000000 >/proc/sys/kernel/perf_event_max_sample_rate
mount -t resctrl resctrl /sys/fs/resctrl || exit 1
probe model on
for i in 1 2 3 4 5 6 7 8; do probe reset || exit 1; done
say() { label=$1; shift; echo "$label: $("$@")"; }
say first probe chase 16 1000064 0
say second probe chase 128 1000064 0
say shared probe chase 1024 200064 0
say alone probe chase 65536 50048 0
probe hog 32768 1500 1 & probe hog 32768 1500 2 & probe hog 32768 1500 3 &
say beside probe chase 65536 50048 0
killall -9 probe 2>/dev/null || kill -9 $(pidof probe)
wait
probe samples 65536 100 10100000 0 || exit 1
cd /sys/fs/resctrl
mkdir own
echo "L3:0=f" >own/schemata || exit 1
sh -c 'echo $$ >own/tasks; exec probe chase 4096 100032 2'
echo "occupancy $(cat own/mon_data/*/llc_occupancy)"
probe model off
SCRIPT
boot levels ', "allocation": true'
# 64 loads and three other instructions a round; 6 and 36 cycles of 2.8 GHz; in the shared cache 1.5 % of the steps find their line in L2.
within first 1.047
within second 3.190
within shared 13.74
awk -v alone="$(number levels alone)" -v beside="$(number levels beside)" 'BEGIN {
	printf "model.sh: DRAM: %s ns a step alone, %s beside three hogs: %.2f times\n", alone, beside, beside / (alone + 0.001)
	exit !(alone > 0 && beside >= 1.8 * alone) }' || fail "three hogs slow a chase by less than 1.8 times"
occupancy=$(tr -d '\r' <"$work/levels.out" | sed -n 's/^occupancy \([0-9]*\)$/\1/p')
# Four of sixteen ways of 8 MiB.
[ "${occupancy:-0}" -gt 1900000 ] && [ "$occupancy" -le 2097152 ] || fail "a mask of four ways holds ${occupancy:-0} bytes, not nearly 2 MiB"

root <<'SCRIPT'
probe model on
probe hog 4096 3 1 &
probe hog 12000 3 2 &
probe chase 1024 10048 0
wait
probe model off
SCRIPT
boot trace ", \"page_walks\": true, \"prefetcher\": \"stride\", \"trace\": \"$work/trace\""
"$work/replay" "$work/trace" 128x4 64x8 512x8 8192x16 4 | python3 "$here/compare.py" "$work/trace.json" || fail "the replay counts other events"
mv "$work/trace.json" "$work/first.json"
boot trace ", \"page_walks\": true, \"prefetcher\": \"stride\", \"trace\": \"$work/trace\""
python3 "$here/compare.py" --same "$work/first.json" "$work/trace.json" || fail "two runs differ"

for wrong in '' ', "cpus": 3' ', "modle": "on"'; do
	echo "{\"platform\": \"/nowhere.toml\", \"cpus\": 4 $wrong}" >"$work/wrong"
	status=0
	"$loader" --library-path "$libraries" "$qemu/usr/bin/qemu-system-x86_64" -L "$qemu/usr/share/qemu" -L "$qemu/usr/share/seabios" -machine q35 -accel tcg,thread=multi \
		-smp 4 -display none -plugin "$plugin,config=$work/wrong" </dev/null >/dev/null 2>"$work/errors" || status=$?
	[ "$status" = 3 ] && [ "$(grep -c '^solocore-board: ' "$work/errors")" = 1 ] || fail "a wrong configuration ends with $status"
done
[ "$failed" = 0 ] && echo "model.sh: passed"
exit "$failed"
