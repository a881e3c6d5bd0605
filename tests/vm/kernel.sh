#!/bin/sh
# Fetches a stock Debian kernel and unpacks what a guest needs of it.
#
#   tests/vm/kernel.sh 6.19.14        -> prints the directory that holds vmlinuz
#   tests/vm/kernel.sh 6.12           -> the latest release of 6.12 that the archive has
#
# The packages are those of trixie-backports, then of trixie (6.12) and bookworm (6.1); the first suite that has the version is
# taken. Kept in $SOLOCORE_VM_CACHE (default: build/vm of the checkout), so that only the first run needs the archive.
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
arch=amd64
[ "$flavour" = arm64 ] && arch=arm64
# index SUITE: the file that lists its packages, fetched once. That of backports has the name without a suite.
index() {
	index=$cache/Packages-$1-$flavour
	[ "$1" != trixie-backports ] || index=$cache/Packages-$flavour
	[ ! -s "$index" ] || return 0
	# Others may do the same at this moment.
	part=$(mktemp "$index.XXXXXX")
	curl -fsSL "$archive/dists/$1/main/binary-$arch/Packages.xz" | xz -dc >"$part" || { rm -f "$part"; exit 3; }
	mv "$part" "$index"
}
# versions KIND: packages linux-KIND-VERSION+deb13-FLAVOUR (bookworm: linux-image-6.1.0-50-amd64), as "version path", oldest first.
versions() {
	awk -v kind="linux-$1-" -v end="-$flavour" '
		/^Package: / { name = $2 }
		/^Filename: / && index(name, kind) == 1 && substr(name, length(name) - length(end) + 1) == end {
			version = substr(name, length(kind) + 1, length(name) - length(kind) - length(end))
			sub(/[+]deb[0-9]+$/, "", version)
			if (version ~ /^[0-9.]+(-[0-9]+)?$/) print version, $2
		}' "$index" | sort -V
}
# The kernel itself lies in linux-binary-6.19.14+deb13-amd64, before 6.18 or so in linux-image-...
file=
for suite in trixie-backports trixie bookworm; do
	index $suite
	for kind in binary image; do
		file=$(versions $kind | awk -v want="$version" '
			$1 == want { exact = $2 }
			index($1, want ".") == 1 || index($1, want "-") == 1 { latest = $2 }
			END { print exact ? exact : latest }')
		[ -z "$file" ] || break 2
	done
done
if [ -z "$file" ]; then
	echo "kernel.sh: the archive has no kernel $version for $flavour; it has:" >&2
	for suite in trixie-backports trixie bookworm; do
		index $suite
		versions image | sed 's/ .*//; s/^/  /' >&2
	done
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
