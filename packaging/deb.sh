#!/bin/sh
# Makes the Debian packages into build/deb, of what cargo has built; `make deb` builds first.
# Usage: packaging/deb.sh [ARCHITECTURE]       amd64 (this machine's, when nothing is said) or arm64
# Environment:
#   BIN        target/release: the command, the plugins and, as lib_solocore.so, the Python extension
#   EXTENSION  BIN/lib_solocore.so
#   OUT        build/deb
#   VERSION    of the packages, in the place of the changelog's
set -eu
cd "$(dirname "$0")/.."
root=$PWD
# The flags of Debian hold for what is compiled here.
unset CFLAGS RUSTFLAGS
architecture=${1:-$(dpkg --print-architecture)}
SOLOCORE_BIN=$(realpath "${BIN:-target/release}")
SOLOCORE_EXTENSION=$(realpath "${EXTENSION:-$SOLOCORE_BIN/lib_solocore.so}")
SOLOCORE_PAGES=${PAGES:-$SOLOCORE_BIN/solocore}
SOLOCORE_SOURCE=$root
export SOLOCORE_BIN SOLOCORE_EXTENSION SOLOCORE_PAGES SOLOCORE_SOURCE
# Dates in the packages are the source's, so that two builds are equal.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

out=${OUT:-build/deb}
tree=$out/tree
# Only the packages of this run are there.
rm -rf "$out"
mkdir -p "$tree"
cp -r packaging/debian "$tree/debian"
[ -z "${VERSION:-}" ] || sed -i "1s/([^)]*)/($VERSION)/" "$tree/debian/changelog"
# -d: cargo comes from rustup, as Debian 12's is too old.
(cd "$tree" && dpkg-buildpackage --build=binary --unsigned-source --unsigned-changes --no-check-builddeps \
	--host-arch "$architecture" >../build.log 2>&1) || { tail -30 "$out/build.log" >&2; exit 1; }
rm -rf "$tree"
ls "$out"/*.deb
