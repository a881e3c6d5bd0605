#!/bin/sh
# The unit in a guest that runs systemd (Debian 12): installed, started, killed, stopped dead, reloaded, upgraded, purged (units.sh).
# Usage: tests/install/systemd.sh DEBS NEWER       directories of .deb files; NEWER has a later version of the same
# Needs root, debootstrap, QEMU and the archive. Emulated, so it takes some minutes. VM_KERNEL names the guest's kernel (kernel.sh).
set -eu
name=systemd
. "$(dirname "$0")/base.sh"
kernel=$(tests/vm/kernel.sh "${VM_KERNEL:-6.19.14}")

if [ ! -f "$base" ]; then
	bootstrap --include=systemd,systemd-sysv,procps,libelf1,zlib1g
	# The guest's memory holds all of it: what no service reads stays out.
	for place in usr/share/doc usr/share/locale usr/share/man var/cache/apt/archives var/lib/apt/lists; do
		find "$root/$place" -type f -delete
	done
	keep_base
fi
unpack_base
mkdir -p "$root/debs" "$root/newer" "$root/kit" "$root/etc/solocore"
cp "$debs"/solocore_*.deb "$root/debs/" || fail "$debs has no package"
cp "$newer"/solocore_*.deb "$root/newer/" || fail "$newer has no package"
dpkg-deb -x "$root"/debs/solocore_*.deb "$work/command"
solocore=$work/command/usr/bin/solocore

# Core 1 has an analysed task, so that other programs and interrupts are kept off it; every core has a budget that a program notices.
plan() {
	{
		printf 'platform = "core-i5-2500k"\n[regulation]\npolicy = "memguard"\nperiod = "1 ms"\nshare = "explicit"\n'
		for core in 0 1 2 3; do printf '[[core]]\nid = %s\nbandwidth = "%s kB/s"\n' $core $(($2 * 64)); done
		printf '[[task]]\nname = "video"\ncore = 1\nperiod = "1 s"\nwcet = "1 ms"\nmisses = 1\n'
		for core in 0 2 3; do
			printf '[[task]]\nname = "batch%s"\ncore = %s\ncriticality = "D"\nwcet = "1 ms"\nmisses = 1\n' $core $core
		done
	} >"$work/system.toml"
	"$solocore" plan "$work/system.toml" -o "$1" >/dev/null
}
plan "$root/kit/five.json" 5
plan "$root/kit/ten.json" 10
"$solocore" plan examples/sce-table2/system.toml -o "$root/kit/board.json" >/dev/null || :
for program in hog bpfcount; do gcc -static -O2 -Wall -Werror -o "$root/kit/$program" tests/vm/$program.c; done
printf '#!/bin/sh\nexec sleep 1000\n' >"$root/kit/video"
chmod 755 "$root/kit/video"
cp tests/install/units.sh tests/vm/guest/common.sh "$root/kit/"
cat >"$root/etc/systemd/system/units.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c 'sh /kit/units.sh; echo "exit-code: $?"; echo o >/proc/sysrq-trigger; sleep 60'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
[Install]
WantedBy=multi-user.target
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../units.service "$root/etc/systemd/system/multi-user.target.wants/units.service"
: >"$root/etc/machine-id"
ln -sf /lib/systemd/systemd "$root/init"
echo "systemd: Debian 12 in a guest, Linux ${VM_KERNEL:-6.19.14}"
VM_MEMORY=${VM_MEMORY:-3G} VM_EXTRA="systemd.show_status=0 systemd.log_level=warning systemd.unit=multi-user.target ${VM_EXTRA:-}" \
	tests/vm/boot.sh "$kernel" "$root" "${VM_SECONDS:-1800}"
