#!/bin/sh
# Programs in their colours on aarch64: the preloaded library in a guest of that architecture.
#
#   tests/vm/colours.sh [KERNEL]       KERNEL: of trixie-backports, default 7.2.12
#
# Needs qemu-system-arm and gcc-aarch64-linux-gnu; no solocore for aarch64 is built: tests/vm/colours.c stands in for it.
# Without the library, pages must be counted as wrong: the count is the stand-in's own.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${1:-7.2.12}
compiler=aarch64-linux-gnu-gcc
for program in qemu-system-aarch64 $compiler; do
	command -v $program >/dev/null ||
		{ echo "colours.sh: $program is missing; install it: apt-get install qemu-system-arm gcc-aarch64-linux-gnu" >&2; exit 3; }
done
kernel=$("$here/kernel.sh" "$version" arm64)
cache=$(dirname "$kernel")
if [ ! -f "$cache/busybox-arm64" ]; then
	archive=$("$here/archive.sh")
	work=$(mktemp -d "$cache/unpack.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	file=$(curl -fsSL "$archive/dists/bookworm/main/binary-arm64/Packages.xz" | xz -dc |
		awk '/^Package: /{ name = $2 } /^Filename: / && name == "busybox-static" && !found { print $2; found = 1 }')
	curl -fsSL "$archive/$file" -o "$work/package.deb"
	dpkg-deb -x "$work/package.deb" "$work/root"
	mv "$work/root/bin/busybox" "$cache/busybox-arm64"
	rm -rf "$work"
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/lib" "$root/dev" "$root/proc" "$root/sys" "$root/tmp"
cp "$cache/busybox-arm64" "$root/bin/busybox"
make -s -C "$here/../../crates/space/preload" CC=$compiler OUT="$root/lib"
$compiler -static -O2 -Wall -Wextra -Werror -o "$root/bin/colours" "$here/colours.c"
$compiler -O2 -Wall -Wextra -Werror -o "$root/bin/coloured" "$here/coloured.c" -pthread -ldl
for name in ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libgcc_s.so.1; do
	cp -L "/usr/aarch64-linux-gnu/lib/$name" "$root/lib/"
done
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
library=/lib/libsolocore-colours.so
failed=0
# Before others have left pages of their colours behind.
echo "+ without the library"
colours - plain coloured || failed=1
for what in stay move lock; do
	echo "+ $what"
	colours $library $what coloured || failed=1
done
echo "exit-code: $failed"
poweroff -f
INIT
chmod +x "$root/init"
VM_ARCH=aarch64 VM_CPUS=${VM_CPUS:-2} VM_MEMORY=${VM_MEMORY:-1200M} "$here/boot.sh" "$kernel" "$root" "${VM_SECONDS:-300}"
