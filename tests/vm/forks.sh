#!/bin/sh
# Counts the pages of a program in its colours that forks, executes programs and ends, again and again; then others need memory, and the kernel compacts it.
#
#   tests/vm/forks.sh [COUNT]       COUNT: children, default 1000 (about a minute)
#
# Prints the number of processes and of their private pages. Exit code 1: a page was wrong, a process was not counted, or one of them
# read wrong data. 3: the machine cannot do it. The pages of a process are counted at its end. The first one ends 5 s after the compaction, within which the
# library moves back what the kernel has moved. Needs root, Linux 6.8 and a C compiler; SOLOCORE names the command. The colours are 32, by
# bits 12 to 16, on every machine.
set -eu
count=${1:-1000}
here=$(cd "$(dirname "$0")" && pwd)
solocore=$(realpath -m "${SOLOCORE:-$here/../../target/release/solocore}")
[ -x "$solocore" ] || { echo "forks.sh: $solocore is not there; build it, or name it in SOLOCORE" >&2; exit 3; }
command -v cc >/dev/null || { echo "forks.sh: no C compiler (cc) is in PATH; install gcc" >&2; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for bit in 12 13 14 15 16; do echo "# colour: $bit"; done >"$work/map.txt"
cc -O2 -Wall -Wextra -Werror -pthread -o "$work/forks" "$here/forks.c"
cc -O2 -o "$work/load" "$here/load.c"
mkfifo "$work/end"
"$solocore" exec --map "$work/map.txt" --colors 0-7 --pages "$work/pages.json" -- "$work/forks" "$count" "$work/gate" >"$work/said" 2>"$work/errors" &
program=$!
until [ -s "$work/said" ] || ! kill -0 $program 2>/dev/null; do sleep 0.1; done
if [ -s "$work/said" ]; then
	# 8 processes with 32 MiB of heap, 8 MiB of a file, and 8 full pipes each.
	"$work/load" 8 8 32 8 <"$work/end" >"$work/ready" &
	load=$!
	exec 9>"$work/end"
	until [ -s "$work/ready" ] || ! kill -0 $load 2>/dev/null; do sleep 0.1; done
	for _ in 1 2 3; do echo 1 >/proc/sys/vm/compact_memory || echo "forks.sh: the memory is not compacted here" >&2; done
	exec 9>&-
	wait $load || true
	sleep 5
	: >"$work/gate"
fi
code=0
wait $program || code=$?
if [ "$code" != 0 ]; then
	cat "$work/errors" >&2
	[ "$code" = 3 ] || { echo "forks.sh: the program ended with exit code $code" >&2; code=1; }
	exit "$code"
fi
python3 - "$work/pages.json" "$(cat "$work/said")" <<'END'
import json
import sys

found, (said, _) = json.load(open(sys.argv[1])), sys.argv[2].split()
pages = found["pages"]["anonymous"]
print(f"{found['ended']} processes, {pages['resident']} private pages, {pages['wrong']} in wrong colours; {found['moved_back']} moved back")
sys.exit(pages["wrong"] > 0 or found["ended"] != int(said) or found["failed"] > 0)
END
