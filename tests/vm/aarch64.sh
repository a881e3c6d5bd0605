#!/bin/sh
# Builds solocore for aarch64 and tests it in a guest of that architecture, whose PMU counts cycles and really interrupts.
#
#   tests/vm/aarch64.sh HOST_SOLOCORE [ENGINE]     HOST_SOLOCORE plans; ENGINE must run by itself (sched-ext)
#
# Needs qemu-system-arm and gcc-aarch64-linux-gnu; scripts/aarch64-rustc.sh finds or fetches the compiler. Libraries and busybox
# for aarch64 are Debian 12's, unpacked into the cache of kernel.sh and not installed. The plan is an ordinary one with its budgets
# replaced: a count of cycles has nothing to do with a board's bandwidth.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
host=$1
engine=${2:-sched-ext}
version=${VM_AARCH64_KERNEL:-6.19.14}
cache=${SOLOCORE_VM_CACHE:-$here/../../build/vm}
archive=$("$here/archive.sh")
triple=aarch64-unknown-linux-gnu
for program in qemu-system-aarch64 aarch64-linux-gnu-gcc; do
	command -v $program >/dev/null ||
		{ echo "aarch64.sh: $program is missing; install it: apt-get install qemu-system-arm gcc-aarch64-linux-gnu" >&2; exit 3; }
done
mkdir -p "$cache"
sysroot=$cache/sysroot-arm64
if [ ! -d "$sysroot" ]; then
	work=$(mktemp -d "$cache/unpack.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	curl -fsSL "$archive/dists/bookworm/main/binary-arm64/Packages.xz" | xz -dc >"$work/Packages"
	for package in libelf-dev libelf1 zlib1g-dev zlib1g libzstd1 busybox-static; do
		file=$(awk -v want=$package '/^Package: /{ name = $2 } /^Filename: / && name == want { print $2; exit }' "$work/Packages")
		curl -fsSL "$archive/$file" -o "$work/package.deb"
		dpkg-deb -x "$work/package.deb" "$work/root"
	done
	mv "$work/root" "$sysroot"
	rm -rf "$work"
fi
sysroot=$(cd "$sysroot" && pwd)
libraries=$sysroot/usr/lib/aarch64-linux-gnu
cd "$here/../.."
rustc=$(scripts/aarch64-rustc.sh)
env RUSTC="$rustc" CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
	LIBBPF_SYS_EXTRA_CFLAGS="-I$sysroot/usr/include" LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu="$libraries" \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-L $libraries -C link-arg=-Wl,-rpath-link,$libraries" \
	CARGO_PROFILE_DEV_DEBUG=0 \
	cargo build --quiet --locked -p solocore-cli --target $triple --target-dir "${VM_AARCH64_TARGET:-target/aarch64}"
built=${VM_AARCH64_TARGET:-target/aarch64}/$triple/debug/solocore

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/run" "$root/tmp" "$root/plans" "$root/lib" "$root/etc"
cp "$sysroot/bin/busybox" "$root/bin/busybox"
cp "$built" "$root/bin/solocore"
aarch64-linux-gnu-strip "$root/bin/solocore"
aarch64-linux-gnu-gcc -static -O2 -Wall -Werror -o "$root/bin/hog" "$here/hog.c"
aarch64-linux-gnu-gcc -static -O2 -Wall -Werror -o "$root/bin/counts" "$here/counts.c"
for name in ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libgcc_s.so.1 libpthread.so.0 libdl.so.2 librt.so.1; do
	cp -L "/usr/aarch64-linux-gnu/lib/$name" "$root/lib/"
done
find "$sysroot" -name 'libelf.so.1' -o -name 'libz.so.1' -o -name 'libzstd.so.1' | while read -r library; do
	cp -L "$library" "$root/lib/"
done
"$host" platforms core-i5-2500k | sed 's/^isa = "x86_64"/isa = "aarch64"/' >"$work/board.toml"
cat >"$work/system.toml" <<'TOML'
platform = "board.toml"
[regulation]
policy = "memguard"
share = "even"
period = "1 ms"
[[task]]
name = "t"
core = 1
period = "1 s"
wcet = "1 ms"
misses = 1
TOML
"$host" plan "$work/system.toml" -o "$work/plan.json" >/dev/null
python3 - "$work/plan.json" "$root/plans/counter.json" <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1]))
for core, budget in zip(plan["cores"], (None, 200_000, 100_000, None)):
    core["budget_accesses"] = budget
json.dump(plan, open(sys.argv[2], "w"))
PYTHON
{
	echo "WANT=$engine"
	cat "$here/guest/common.sh" "$here/guest/counter.sh"
} >"$root/script"
sed -n '/<<.INIT.$/,/^INIT$/p' "$here/root.sh" | sed '1d;$d' >"$root/init"
chmod +x "$root/init"
kernel=$("$here/kernel.sh" "$version" arm64)
echo "== Linux $version, aarch64, $engine engine, cycles"
VM_ARCH=aarch64 "$here/boot.sh" "$kernel" "$root" "${VM_SECONDS:-900}"
