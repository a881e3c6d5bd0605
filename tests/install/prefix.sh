#!/bin/sh
# `make install` puts all in its place, and what is installed works; `make uninstall` takes all of it away, and nothing else.
# Usage: tests/install/prefix.sh BIN       (target/release: the command and its plugins)
set -eu
bin=$(realpath "$1")
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "prefix: $*" >&2; exit 1; }
prefix=$dir/place
mkdir -p "$prefix/bin" "$prefix/share/man/man1"
echo theirs >"$prefix/bin/other"
before=$(cd "$prefix" && find . ! -type d | sort)

make --no-print-directory install BIN="$bin" PREFIX="$prefix"
for file in bin/solocore lib/solocore/libsolocore_qemu.so lib/solocore/libsolocore_board_plugin.so lib/systemd/system/solocore.service \
	lib/systemd/system/solocore-reserve.service \
	lib/sysusers.d/solocore.conf lib/libsolocore.so lib/pkgconfig/solocore.pc include/solocore.h share/man/man1/solocore.1 \
	share/bash-completion/completions/solocore share/zsh/site-functions/_solocore share/fish/vendor_completions.d/solocore.fish; do
	[ -s "$prefix/$file" ] || fail "$file is missing"
done
grep -q "^ExecStart=$prefix/bin/solocore " "$prefix/lib/systemd/system/solocore.service" || fail "the unit starts another command"

# A page for each command that help knows, and for nothing else.
commands() {
	"$prefix/bin/solocore" $1 --help | sed -n '/^[A-Z].*:$/,/^$/{s/^  \([a-z][a-z-]*\)  .*/\1/p}' | grep -v -x help | sort -u
}
expected=$(echo solocore; for name in $(commands ""); do
	echo "solocore-$name"
	"$prefix/bin/solocore" "$name" --help | grep -q '^Commands:' || continue
	for inner in $(commands "$name"); do echo "solocore-$name-$inner"; done
done)
pages=$(cd "$prefix/share/man/man1" && ls | sed 's/\.1$//' | sort)
[ "$(echo "$expected" | sort)" = "$pages" ] || { echo "$expected" | sort >"$dir/e"; echo "$pages" | diff "$dir/e" - >&2; fail "pages"; }
echo "prefix: $(echo "$pages" | wc -l) manual pages, one for each command"

mkdir "$dir/work"
(cd "$dir/work" && seq 1 500 >words && env -u SOLOCORE_PLUGIN XDG_CACHE_HOME="$dir/work" "$prefix/bin/solocore" profile -o p.json -- \
	sort words >/dev/null 2>&1) || fail "the installed command does not profile"
printf '#include <solocore.h>\nint main(void) { return sc_attach() == 0; }\n' >"$dir/work/a.c"
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
gcc -o "$dir/work/a" "$dir/work/a.c" $(pkg-config --cflags --libs solocore) -Wl,-rpath,"$prefix/lib"
SOLOCORE_SOCKET=$dir/none "$dir/work/a" || fail "a program that is linked to the library attaches where nothing runs"

make --no-print-directory uninstall BIN="$bin" PREFIX="$prefix"
after=$(cd "$prefix" && find . ! -type d | sort)
[ "$before" = "$after" ] || fail "left after uninstall: $after"
[ ! -e "$prefix/lib/solocore" ] && [ ! -e "$prefix/share/doc/solocore" ] || fail "directories are left"
echo "prefix: installed, tried, and nothing left"
