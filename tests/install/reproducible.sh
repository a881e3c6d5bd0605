#!/bin/sh
# Two builds of this commit in two directories are equal to the byte: the plugins, and the command that carries them.
# Usage: tests/install/reproducible.sh [PROFILE]       release; takes two whole builds and 5 GB for a while
# Environment:
#   PARTS      carried: targets of the Makefile, like "carried deb" for the Debian packages as well
set -eu
cd "$(dirname "$0")/../.."
profile=${1:-release}
parts=${PARTS:-carried}
dir=$(mktemp -d "${TMPDIR:-/tmp}/solocore-build.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "reproducible: $*" >&2; exit 1; }
# Paths of different lengths, so that a path in a file moves what follows it.
for place in one another/and-longer; do
	mkdir -p "$dir/$place"
	git archive HEAD | tar -x -C "$dir/$place"
	export SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
	make --no-print-directory -C "$dir/$place" $parts PROFILE="$profile" >"$dir/log" 2>&1 || { tail -20 "$dir/log" >&2; fail "build"; }
	rm -rf "$dir/$place/target"
	! grep -q -F "$dir" -r "$dir/$place/build/carried" || fail "a file names the directory where it was built"
	# The build's log and list of files have dates.
	mkdir "$dir/$place/out" && mv "$dir/$place/build/carried" "$dir/$place/out/"
	for package in "$dir/$place"/build/deb/*.deb; do [ ! -e "$package" ] || mv "$package" "$dir/$place/out/"; done
done
for file in $(cd "$dir/one/out" && find . -type f); do
	other=$dir/another/and-longer/out/$file
	bytes=$(cmp -l "$dir/one/out/$file" "$other" 2>/dev/null | wc -l)
	cmp "$dir/one/out/$file" "$other" || fail "$file differs in $bytes bytes"
	echo "reproducible: $(cd "$dir/one/out" && sha256sum "$file") twice"
done
