#!/bin/sh
# lintian finds no error and no warning in the packages of a directory.
# Usage: tests/install/lintian.sh DIR
set -eu
changes=$(ls "$1"/*.changes)
# Both tags are of uploads to Debian, which these packages are not made for.
lintian --fail-on error,warning --allow-root --suppress-tags initial-upload-closes-no-bugs,bad-distribution-in-changes-file "$changes"
echo "lintian: no error and no warning in $(ls "$1"/*.deb | wc -l) packages"
