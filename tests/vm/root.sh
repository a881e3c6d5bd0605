#!/bin/sh
# Lays out a guest's root directory: busybox, solocore with the libraries it needs, the hog, plans and a script.
#
#   tests/vm/root.sh SOLOCORE SCRIPT OUT     SCRIPT becomes what the guest runs; its exit code is the guest's
set -eu
here=$(cd "$(dirname "$0")" && pwd)
solocore=$1
script=$2
out=$3
mkdir -p "$out/bin" "$out/dev" "$out/proc" "$out/sys" "$out/run" "$out/tmp" "$out/plans"
cp "$(command -v busybox)" "$out/bin/busybox"
cp "$solocore" "$out/bin/solocore"
strip "$out/bin/solocore"
for library in $(ldd "$solocore" | grep -o '/[^ ]*'); do
	mkdir -p "$out$(dirname "$library")"
	cp -L "$library" "$out$library"
done
gcc -static -O2 -Wall -Werror -o "$out/bin/hog" "$here/hog.c"
client=$here/../../client/c
gcc -std=gnu11 -static -O2 -Wall -Werror -I"$client" -o "$out/bin/leveler" "$here/leveler.c" "$client/solocore.c" -pthread
gcc -std=gnu11 -static -O2 -Wall -Werror -I"$client" -o "$out/bin/locker" "$here/locker.c" "$client/solocore.c" -pthread
gcc -static -O2 -Wall -Werror -o "$out/bin/uncount" "$here/uncount.c"
gcc -static -O2 -Wall -Werror -o "$out/bin/walker" "$here/walker.c"
gcc -static -O2 -Wall -Werror -o "$out/bin/load" "$here/load.c"
gcc -O2 -Wall -Werror -o "$out/bin/coloured" "$here/coloured.c" -pthread -ldl
gcc -O2 -Wall -Werror -o "$out/bin/roamer" "$here/roamer.c"
gcc -O2 -Wall -Werror -o "$out/bin/forks" "$here/forks.c" -pthread
gcc -std=gnu11 -O2 -Wall -Werror -I"$client" -o "$out/bin/buffered" "$here/buffered.c" "$client/solocore_buffer.c"
gcc -static -O2 -Wall -Werror -o "$out/bin/bpfcount" "$here/bpfcount.c"
gcc -static -O2 -Wall -Werror -o "$out/bin/worker" "$here/worker.c" -pthread
"$here/lock.sh" "$solocore" "$out/plans"
"$here/plans.sh" "$solocore" "$out/plans/mixed.json" 5 20 50 200
for budget in 5 20 50 200; do
	"$here/plans.sh" "$solocore" "$out/plans/$budget.json" $budget $budget $budget $budget
done
"$here/plans.sh" "$solocore" "$out/plans/day.json" 20 50 50 50
"$here/plans.sh" "$solocore" "$out/plans/night.json" 50 20 50 50
PERIOD_US=500 "$here/plans.sh" "$solocore" "$out/plans/quick.json" 20 50 50 50
PERIOD_US=10000 "$here/plans.sh" "$solocore" "$out/plans/hours.json" 100 200 200 100
"$solocore" plan "$here/../../examples/sce-table2/system.toml" -o "$out/plans/board.json" >/dev/null || :
"$here/isolate.sh" "$solocore" "$out/plans/isolate.json"
"$here/ranks.sh" "$solocore" "$out/plans/ranks.json"
"$here/writes.sh" "$solocore" "$out/plans/writes.json"
"$here/levels.sh" "$solocore" "$out/plans"
mkdir -p "$out/etc"
printf 'root:x:0:0::/tmp:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\nmember:x:1001:1001::/tmp:/bin/sh\n' >"$out/etc/passwd"
printf 'root:x:0:\nsolocore:x:900:member\nuser:x:1000:\nmember:x:1001:\n' >"$out/etc/group"
cp "$script" "$out/script"
cat >"$out/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
echo 1 >/proc/sys/kernel/printk
chmod 1777 /tmp
sh /script
echo "exit-code: $?"
sync
poweroff -f
INIT
chmod +x "$out/init"
