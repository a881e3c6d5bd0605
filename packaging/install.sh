#!/bin/sh
# Installs what is built below PREFIX, or takes it away again; `make install` and `make uninstall` call it.
#   packaging/install.sh install|uninstall
# Environment:
#   PREFIX   /usr/local      DESTDIR  empty: what goes before PREFIX, for packages
#   LIBDIR   $PREFIX/lib: libraries for programs (Debian: $PREFIX/lib/x86_64-linux-gnu)
#   ZSHDIR   $PREFIX/share/zsh/site-functions: completions of zsh (Debian: vendor-completions)
#   BIN      target/release: where cargo has put the command and the plugins
#   CLIENT   build/client: where the C library is built
#   PAGES    BIN/solocore: a command that runs on this machine and writes pages and completions
set -eu
umask 022
cd "$(dirname "$0")/.."
what=${1:?install or uninstall}
PREFIX=${PREFIX:-/usr/local} DESTDIR=${DESTDIR:-} BIN=${BIN:-target/release}
LIBDIR=${LIBDIR:-$PREFIX/lib} ZSHDIR=${ZSHDIR:-$PREFIX/share/zsh/site-functions} PAGES=${PAGES:-$BIN/solocore}
case $PREFIX in /*) ;; *) echo "install: PREFIX is \`$PREFIX\`; give an absolute path" >&2; exit 2 ;; esac
for file in solocore libsolocore_qemu.so libsolocore_board_plugin.so; do
	[ -f "$BIN/$file" ] || { echo "install: $BIN/$file is not there; run \`make build\` first" >&2; exit 3; }
done

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage$PREFIX

install -d "$root/bin" "$root/lib/solocore" "$root/lib/systemd/system" "$root/lib/sysusers.d"
install -m 755 "$BIN/solocore" "$root/bin/"
install -m 644 "$BIN/libsolocore_qemu.so" "$BIN/libsolocore_board_plugin.so" "$root/lib/solocore/"
sed "s|/usr/local/bin/solocore|$PREFIX/bin/solocore|" packaging/solocore.service >"$root/lib/systemd/system/solocore.service"
sed "s|/usr/local/bin/solocore|$PREFIX/bin/solocore|" packaging/solocore-reserve.service >"$root/lib/systemd/system/solocore-reserve.service"
install -m 644 packaging/solocore.sysusers.conf "$root/lib/sysusers.d/solocore.conf"
install -d "$root/share/doc/solocore/licences"
install -m 644 packaging/tasks.conf README.md CAVEATS.md "$root/share/doc/solocore/"
install -m 644 LICENSES/* "$root/share/doc/solocore/licences/"

"$PAGES" man -o "$root/share/man/man1"
install -d "$root/share/bash-completion/completions" "$stage$ZSHDIR" "$root/share/fish/vendor_completions.d"
"$PAGES" completions bash >"$root/share/bash-completion/completions/solocore"
"$PAGES" completions zsh >"$stage$ZSHDIR/_solocore"
"$PAGES" completions fish >"$root/share/fish/vendor_completions.d/solocore.fish"

make -s -C client/c install OUT="${CLIENT:-$PWD/build/client}" PREFIX="$PREFIX" LIBDIR="$LIBDIR" DESTDIR="$stage"

(cd "$stage" && find . ! -type d | cut -c2-) >"$stage.files"
trap 'rm -rf "$stage" "$stage.files"' EXIT
case $what in
install)
	# Each file is replaced as a whole: a solocore that runs keeps the one that it has open.
	while read -r file; do
		install -d "$DESTDIR$(dirname "$file")"
		cp -dp --remove-destination "$stage$file" "$DESTDIR$file"
	done <"$stage.files"
	[ "$(id -u)" = 0 ] && (cd "$DESTDIR/" && sed 's|^/||' "$stage.files" | xargs -d '\n' chown -h 0:0)
	[ -n "$DESTDIR" ] || ! command -v ldconfig >/dev/null || ldconfig 2>/dev/null || true
	echo "installed $(wc -l <"$stage.files") files below $DESTDIR$PREFIX"
	;;
uninstall)
	while read -r file; do rm -f "$DESTDIR$file"; done <"$stage.files"
	for directory in lib/solocore share/doc/solocore/licences share/doc/solocore; do
		rmdir "$DESTDIR$PREFIX/$directory" 2>/dev/null || true
	done
	[ -n "$DESTDIR" ] || ! command -v ldconfig >/dev/null || ldconfig 2>/dev/null || true
	;;
*)
	echo "install: \`$what\`; say install or uninstall" >&2
	exit 2
	;;
esac
