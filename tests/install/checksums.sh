#!/bin/sh
# Signed checksums hold, and do not hold once a file, the list, the signature or the key is another.
set -eu
cd "$(dirname "$0")/../.."
sums=$PWD/packaging/checksums.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "checksums test: $*" >&2; exit 1; }
for name in ours theirs; do
	ssh-keygen -q -t ed25519 -N '' -f "$dir/$name" -C releases
	echo "releases@solocore $(cat "$dir/$name.pub")" >"$dir/$name.signers"
done
fresh() {
	rm -rf "$dir/out"
	mkdir "$dir/out"
	echo one >"$dir/out/solocore"
	echo two >"$dir/out/a file.deb"
	"$sums" sign "$dir/out" "$dir/ours"
}
refused() {
	code=0
	"$sums" check "$dir/out" "$dir/$2.signers" 2>"$dir/said" || code=$?
	[ $code = 1 ] || fail "$1: exit code $code"
	echo "checksums: refused: $1"
}
fresh
"$sums" check "$dir/out" "$dir/ours.signers"
echo "checksums: what was signed holds"
refused "the key of somebody else" theirs
echo onf >"$dir/out/solocore"; refused "a changed file" ours
fresh; rm "$dir/out/a file.deb"; refused "a missing file" ours
fresh; echo three >"$dir/out/more"; refused "a file that was not signed" ours
fresh; echo onf >"$dir/out/solocore"; (cd "$dir/out" && sha256sum solocore "a file.deb" >SHA256SUMS)
refused "a changed file with a list that fits" ours
fresh; mv "$dir/out/SHA256SUMS.sig" "$dir/kept"; echo x >>"$dir/out/solocore"; "$sums" sign "$dir/out" "$dir/theirs"
refused "all signed again by somebody else" ours
rm "$dir/out/SHA256SUMS.sig"; refused "no signature" ours
