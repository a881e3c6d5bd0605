#!/bin/sh
# Frames of an imitated camera into coloured, pinned buffers, in a guest with a stock Debian kernel and its vivid module.
#
#   tests/vm/camera.sh SOLOCORE [KERNEL]       KERNEL: of trixie-backports, default 7.2.12
#
# What is checked: V4L2 takes the pages of a coloured pool as user pointers, fills every one of them, and they lie in the frames
# of their lists while it has them. What is not: pictures of a real device, whose DMA would do the writing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
solocore=$1
version=${2:-7.2.12}
kernel=$("$here/kernel.sh" "$version")
needed="mc videodev v4l2-dv-timings v4l2-tpg videobuf2-common videobuf2-memops videobuf2-v4l2 videobuf2-vmalloc \
	videobuf2-dma-contig rc-core cec vivid"
if [ ! -f "$kernel/modules/vivid.ko" ]; then
	index=$(dirname "$kernel")/Packages-amd64
	file=$(awk -v want="linux-modules-$version+deb13-amd64" '
		/^Package: / { name = $2 }
		/^Filename: / && name == want { print $2; exit }' "$index")
	[ -n "$file" ] || { echo "camera.sh: the archive has no modules for $version; name a kernel of 7.1 or newer" >&2; exit 3; }
	part=$(mktemp -d "$kernel/modules.XXXXXX")
	trap 'rm -rf "$part"' EXIT
	echo "camera.sh: fetching $file" >&2
	curl -fsSL "$("$here/archive.sh")/$file" -o "$part/modules.deb"
	# shellcheck disable=SC2046
	dpkg-deb --fsys-tarfile "$part/modules.deb" | tar -x -C "$part" --wildcards $(printf '*/%s.ko.xz ' $needed)
	for module in $needed; do
		find "$part" -name "$module.ko.xz" -exec xz -dc {} \; >"$part/$module.ko"
	done
	rm -rf "$part/modules.deb" "$part/usr"
	mv "$part" "$kernel/modules"
	trap - EXIT
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/modules"
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$solocore" "$root/bin/solocore"
strip "$root/bin/solocore"
for library in $(ldd "$solocore" | grep -o '/[^ ]*'); do
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done
for module in $needed; do
	cp "$kernel/modules/$module.ko" "$root/modules/"
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $needed; do
	options=
	[ \$module = vivid ] && options="n_devs=1 node_types=0x1"
	insmod /modules/\$module.ko \$options || { echo "exit-code: 3"; poweroff -f; }
done
check() {
	echo "+ \$*"
	"\$@"
	got=\$?
	[ \$got = \$want ] || { echo "exit code \$got in place of \$want"; failed=1; }
}
failed=0
want=0
colours="--colored --platform core-i5-2500k"
check solocore bench camera /dev/video0 --frames 6
check solocore bench camera /dev/video0 --frames 12 \$colours --level-c 50 --format csv >/tmp/out
cat /tmp/out
# Four buffers, two of each list, all of whose pages were written, and none in a wrong frame.
awk -F, '\$1 == 12 && \$4 == 4 && \$5 == 2 && \$6 > 100 && \$7 == \$6 && \$8 == 0 { ok = 1 } END { exit !ok }' /tmp/out ||
	{ echo "not as it should be"; failed=1; }
want=3
check solocore bench camera /dev/null
want=2
check solocore bench camera /dev/video9
echo "exit-code: \$failed"
poweroff -f
INIT
chmod +x "$root/init"
VM_CPUS=${VM_CPUS:-2} "$here/boot.sh" "$kernel" "$root" "${VM_SECONDS:-240}"
