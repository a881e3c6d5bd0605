# Sourced by the tests of packages in a guest, after name=NAME and with the directories of packages as arguments: paths, a scratch
# directory that is gone at the end, and the tree of Debian 12, which is made once and kept in build/install.
debs=$(realpath "$1") newer=$(realpath "$2")
cd "$(dirname "$0")/../.."
fail() { echo "$name: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "$name: needs root" >&2; exit 3; }
base=$PWD/build/install/bookworm-$name.tar
archive=$(tests/vm/archive.sh)
work=$(mktemp -d "${TMPDIR:-/tmp}/solocore-$name.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
# bootstrap OPTIONS...: a minimal Debian 12 in $root.
bootstrap() {
	mkdir -p "$(dirname "$base")"
	debootstrap --variant=minbase "$@" bookworm "$root" "$archive" >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "debootstrap"; }
}
# keep_base: the next run finds this tree; unpack_base: as it was kept.
keep_base() {
	tar -C "$root" -cf "$base.new" . && mv "$base.new" "$base"
	rm -rf --one-file-system "$root"
}
unpack_base() {
	mkdir -p "$root"
	tar -C "$root" -xpf "$base"
}
