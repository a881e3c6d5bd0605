#!/bin/sh
# The container file makes an image whose solocore profiles. Its base is the Debian that chroot.sh has fetched, so that no registry is asked.
# Usage: tests/install/container.sh DEBS
set -eu
debs=$(realpath "$1")
cd "$(dirname "$0")/../.."
base=$PWD/build/install/bookworm.tar
[ -f "$base" ] || { echo "container: $base is not there; run tests/install/chroot.sh first" >&2; exit 3; }
dir=$(mktemp -d)
trap 'rm -rf --one-file-system "$dir"' EXIT
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
b() { command=$1; shift; buildah --root "$dir/root" --runroot "$dir/run" "$command" "$@"; }
scratch=$(b from scratch)
b add -q "$scratch" "$base" / >/dev/null
b commit -q "$scratch" localhost/base >/dev/null
b bud -q --network host --build-arg BASE=localhost/base -t localhost/solocore -f packaging/Containerfile "$debs" >"$dir/log" 2>&1 ||
	{ tail -20 "$dir/log" >&2; exit 1; }
container=$(b from localhost/solocore)
version=$(b run "$container" -- solocore --version)
b run "$container" -- sh -c 'seq 1 100 >words && solocore profile -o p.json -- sort words >sorted 2>said || { cat said; exit 1; }
	sort words | cmp - sorted && grep -q "\"instructions\"" p.json' >&2
echo "container: $version is built by packaging/Containerfile, and profiles"
