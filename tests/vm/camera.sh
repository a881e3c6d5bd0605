#!/bin/sh
# Frames of an imitated camera and blocks of a virtio disk into coloured buffers, in a guest with a stock Debian kernel and its modules.
#
#   tests/vm/camera.sh SOLOCORE [KERNEL]       KERNEL: of trixie-backports, default 7.2.12
#
# What is checked: V4L2 takes the pages of a coloured pool as user pointers, fills every one of them, and they lie in the frames
# of their lists while it has them. The same holds for the buffers of a reserve that the programs of examples/buffers get; the disk, which writes
# to the guest's memory by itself, fills such a buffer with all bytes of its file. What is not: pictures of a real device, whose DMA would do the
# writing (the kernel's imitated camera, vivid, writes by the CPU).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
solocore=$1
version=${2:-7.2.12}
kernel=$("$here/kernel.sh" "$version")
needed="mc videodev v4l2-dv-timings v4l2-tpg videobuf2-common videobuf2-memops videobuf2-v4l2 videobuf2-vmalloc \
	videobuf2-dma-contig rc-core cec vivid virtio_blk"
missing=
for module in $needed; do
	[ -s "$kernel/modules/$module.ko" ] || missing=1
done
if [ -n "$missing" ]; then
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
		[ -s "$part/$module.ko" ] || { echo "camera.sh: $file has no module $module" >&2; exit 3; }
	done
	rm -rf "$part/modules.deb" "$part/usr" "$kernel/modules"
	mv "$part" "$kernel/modules"
	trap - EXIT
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/run" "$root/tmp" "$root/etc" "$root/modules"
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$solocore" "$root/bin/solocore"
strip "$root/bin/solocore"
make -s -C "$here/../../examples/buffers" OUT="$root/bin" CFLAGS="-O2 -Werror"
for library in $(ldd "$solocore" "$root/bin/camera" "$root/bin/disk" | grep -o '/[^ ]*\.so[^ :]*' | sort -u); do
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done
for module in $needed; do
	cp "$kernel/modules/$module.ko" "$root/modules/"
done
"$solocore" plan "$here/../../examples/buffers/system.toml" -o "$root/plan.json" >/dev/null
printf 'root:x:0:0::/tmp:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' >"$root/etc/group"
# Its last block of 400 KiB is not whole.
head -c $((20 * 409600 + 1536)) /dev/urandom >"$work/disk"
sum=$(od -An -v -tu1 "$work/disk" | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { printf "%.0f", sum }')
{
	echo "SUM=$sum BYTES=$(stat -c %s "$work/disk")"
	cat "$here/guest/common.sh" "$here/guest/camera.sh"
} >"$root/script"
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
chmod 1777 /tmp
for module in $needed; do
	options=
	[ \$module = vivid ] && options="n_devs=1 node_types=0x1"
	insmod /modules/\$module.ko \$options || { echo "exit-code: 3"; poweroff -f; }
done
sh /script
echo "exit-code: \$?"
poweroff -f
INIT
chmod +x "$root/init"
VM_CPUS=${VM_CPUS:-2} VM_MEMORY=${VM_MEMORY:-1G} VM_DISK=$work/disk "$here/boot.sh" "$kernel" "$root" "${VM_SECONDS:-600}"
