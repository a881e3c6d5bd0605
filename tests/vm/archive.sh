#!/bin/sh
# Prints the address of the Debian archive that this machine's apt uses, or what SOLOCORE_DEBIAN names. No / at its end.
set -eu
archive=${SOLOCORE_DEBIAN:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep '/debian/*$' | head -n 1)}
[ -n "$archive" ] || { echo "archive.sh: apt knows no Debian archive; set SOLOCORE_DEBIAN to a mirror's address" >&2; exit 3; }
echo "${archive%/}"
