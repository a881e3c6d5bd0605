#!/bin/sh
# The packages for arm64 in a guest of that architecture, with Debian 12: installed, used, upgraded, purged; nothing is left.
# Usage: tests/install/arm64.sh DEBS NEWER       directories of arm64 .deb files (make deb-arm64); NEWER has a later version of the same
# Needs root, debootstrap, qemu-system-arm and the archive. Emulated, so it takes some minutes.
set -eu
name=arm64
. "$(dirname "$0")/base.sh"

# The base is unpacked here and configured in the guest, as this machine cannot run its programs. What the packages depend on is
# fetched here, as the guest has no network.
if [ ! -f "$base" ]; then
	bootstrap --arch=arm64 --foreign
	mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial"
	: >"$work/apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive bookworm main" >"$work/apt/sources.list"
	cat >"$work/apt/conf" <<END
Dir::State "$work/apt";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt";
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
END
	fetch() { APT_CONFIG=$work/apt/conf apt-get -qq -y "$@" >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "apt-get $*"; }; }
	fetch update
	fetch --download-only install "$debs"/solocore_*_arm64.deb "$debs"/libsolocore0_*_arm64.deb "$debs"/python3-solocore_*_arm64.deb
	mkdir "$root/needs"
	for package in "$work"/apt/archives/*.deb; do
		file=${package##*/}
		ls "$root/var/cache/apt/archives" | grep -q "^${file%%_*}_" || cp "$package" "$root/needs/"
	done
	keep_base
	rm -rf "$work/apt"
fi
unpack_base
# Where debootstrap may not mount, it leaves a link to itself.
for place in proc sys dev; do
	[ ! -L "$root/$place" ] || { rm "$root/$place" && mkdir "$root/$place"; }
done
mkdir "$root/debs" "$root/newer" "$root/kit"
for package in solocore libsolocore0 libsolocore-dev python3-solocore; do
	cp "$debs/${package}"_*_arm64.deb "$root/debs/" || fail "$debs has no $package for arm64"
	cp "$newer/${package}"_*_arm64.deb "$root/newer/" || fail "$newer has no $package for arm64"
done
cp tests/install/guest.sh "$root/kit/guest.sh"
cat >"$root/init" <<'INIT'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
echo 1 >/proc/sys/kernel/printk
sh /kit/guest.sh
echo "exit-code: $?"
sync
echo o >/proc/sysrq-trigger
sleep 60
INIT
chmod +x "$root/init"
kernel=$(tests/vm/kernel.sh "${VM_AARCH64_KERNEL:-6.19.14}" arm64)
echo "arm64: Debian 12 in a guest"
VM_ARCH=aarch64 VM_CPUS=2 VM_MEMORY=4G tests/vm/boot.sh "$kernel" "$root" "${VM_SECONDS:-2400}"
