#!/bin/sh
# Fetches a stock Debian kernel and unpacks what a guest needs of it.
#
#   tests/vm/kernel.sh 6.19.14        -> prints the directory that holds vmlinuz
#
# The packages are those of trixie-backports; whatever release of that version the archive has is taken. Kept in
# $SOLOCORE_VM_CACHE (default: build/vm of the checkout), so that only the first run needs the archive.
set -eu
version=$1
flavour=${2:-amd64}
here=$(cd "$(dirname "$0")" && pwd)
cache=${SOLOCORE_VM_CACHE:-$here/../../build/vm}
out=$cache/$version-$flavour
if [ -f "$out/vmlinuz" ]; then
	echo "$out"
	exit 0
fi
archive=$("$here/archive.sh")
mkdir -p "$cache"
index=$cache/Packages-$flavour
arch=amd64
[ "$flavour" = arm64 ] && arch=arm64
if [ ! -s "$index" ]; then
	# Others may do the same at this moment.
	part=$(mktemp "$index.XXXXXX")
	curl -fsSL "$archive/dists/trixie-backports/main/binary-$arch/Packages.xz" | xz -dc >"$part" || { rm -f "$part"; exit 3; }
	mv "$part" "$index"
fi
# The kernel itself lies in linux-binary-6.19.14+deb13-amd64, before 6.18 or so in linux-image-...
find_package() {
	awk -v want="$1-$version+deb13-$flavour" '
		/^Package: / { name = $2 }
		/^Filename: / && name == want { print $2; exit }' "$index"
}
file=$(find_package linux-binary)
[ -n "$file" ] || file=$(find_package linux-image)
if [ -z "$file" ]; then
	echo "kernel.sh: the archive has no linux-image-$version+deb13-$flavour; it has:" >&2
	sed -n 's/^Package: linux-image-\([0-9.]*\)+deb13-'"$flavour"'$/  \1/p' "$index" | sort -uV >&2
	exit 3
fi
work=$(mktemp -d "$cache/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "kernel.sh: fetching $file" >&2
curl -fsSL "$archive/$file" -o "$work/kernel.deb"
dpkg-deb -x "$work/kernel.deb" "$work/root"
mkdir -p "$work/out"
# In /boot, or from 7.1 or so on below /usr/lib.
image=$(find "$work/root" -type f -name 'vmlinuz*' | head -n 1)
[ -n "$image" ] || { echo "kernel.sh: $file holds no vmlinuz" >&2; exit 3; }
cp "$image" "$work/out/vmlinuz"
rm -rf "$out"
mv "$work/out" "$out"
echo "$out"
