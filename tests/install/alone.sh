#!/bin/sh
# A command that was copied alone profiles, also programs that start programs; one that carries no plugin is refused.
# Usage: tests/install/alone.sh CARRIED PLAIN PLUGIN      two commands, and a plugin to compare with
set -eu
carried=$(realpath "$1") plain=$(realpath "$2") plugin=$(realpath "$3")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/plain" "$dir/work" "$dir/home"
cp "$carried" "$dir/bin/solocore"
cp "$plain" "$dir/plain/solocore"
cd "$dir/work"
unset SOLOCORE_PLUGIN SOLOCORE_BOARD_PLUGIN
export HOME="$dir/home" XDG_CACHE_HOME="$dir/home/cache"
fail() { echo "alone: $*" >&2; exit 1; }

code=0
"$dir/plain/solocore" profile -o p.json -- true >/dev/null 2>errors || code=$?
[ $code = 3 ] && grep -q libsolocore_qemu.so errors || fail "one without a plugin gave $code: $(cat errors)"
echo "alone: a command without its plugin is refused: $(tail -n 1 errors)"

profile() { "$dir/bin/solocore" profile --platform core-i5-2500k -o "$@" >/dev/null 2>said || fail "profile: $(cat said)"; }
instructions() { sed -n 's/.*"instructions": *\([0-9]*\).*/\1/p' "$1" | head -n 1; }
# A program of exactly 200,004 instructions.
printf '.globl _start\n_start: mov $100000, %%ecx\n1: dec %%ecx\njnz 1b\nmov $60, %%eax\nxor %%edi, %%edi\nsyscall\n' |
	gcc -x assembler -nostdlib -static -o loop -
profile one.json -- ./loop
SOLOCORE_PLUGIN=$plugin profile two.json -- ./loop
[ "$(instructions one.json)" = 200004 ] || fail "$(instructions one.json) instructions of 200004"
[ "$(instructions two.json)" = 200004 ] || fail "$(instructions two.json) instructions of 200004 by $plugin"
echo "alone: 200004 instructions are 200004, by its own plugin and by the one that is named"

# A program that starts another and goes on: the plugin is loaded again, by the emulator's child.
profile shell.json -- sh -c ':; :'
profile child.json -- sh -c './loop; :'
[ "$(instructions child.json)" -gt $(($(instructions shell.json) + 200004)) ] || fail "a child was not counted"
echo "alone: $(instructions shell.json) in a shell alone, $(instructions child.json) with the program that it starts"

# Whoever may write beside the command does not choose its plugin.
echo "no library" >"$dir/bin/libsolocore_qemu.so"
profile three.json -- ./loop
echo "alone: a file beside it that has its plugin's name changes nothing"

rm -f "$dir/bin/libsolocore_qemu.so"
[ "$(ls -A "$dir/bin")" = solocore ] || fail "something was left beside it: $(ls -A "$dir/bin")"
ls -A "$dir/work" | grep -v -x -e loop -e errors -e said -e '.*\.json' -e '.*\.json\.trace' &&
	fail "something was left where it ran"
# It is static: in a directory where nothing else is, no loader and no library, it runs.
mkdir "$dir/empty"
cp "$carried" "$dir/empty/solocore"
version=$(unshare --map-root-user chroot "$dir/empty" /solocore --version) || fail "it needs more than itself: $(ldd "$carried" 2>&1)"
unshare --map-root-user chroot "$dir/empty" /solocore platforms core-i5-2500k >board.toml
"$dir/plain/solocore" platforms core-i5-2500k | cmp - board.toml || fail "another file of a board"
echo "alone: $version runs where no other file is"
