#!/bin/sh
# Tests `solocore run` in guests: a kernel with sched_ext, and one that needs the fallback.
#
#   tests/vm/test.sh SOLOCORE [PERIODS]     PERIODS of each budget that are watched at least; default 2000
#
# The kernels are Debian's (kernel.sh); VM_KERNELS names others, as VERSION:ENGINE or VERSION-rt:ENGINE (PREEMPT_RT). VM_PARTS are scripts of guest/, each in a
# guest of its own: regulate, replace, lock, isolate, groups, writes, faults, away, vcpu and verify, servers, hours, or quick (`make vm-quick`), levels (by hand: the emulator is late
# in one run of some four, docs/scheduler-figures.md), endure, vcpu-cost, vcpu-figures, vcpu-drill, pages (with VM_MEMORY=2G), reserve (with VM_MEMORY=4G). Those of schedulers need sched_ext, and are left
# out with another engine. VM_SET sets variables of the scripts, as VM_SET="VCPU_SECONDS=60". With VM_SKIP=1 a kernel that cannot be
# fetched is skipped, and said to be; otherwise it is a failure.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
solocore=$1
periods=${2:-2000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for entry in ${VM_KERNELS:-6.19.14:sched-ext 7.2.12:helper}; do
	version=${entry%%:*}
	engine=${entry#*:}
	case $version in
	*-rt) flavour=rt-amd64 ;;
	*) flavour=amd64 ;;
	esac
	if ! kernel=$("$here/kernel.sh" "${version%-rt}" $flavour); then
		[ "${VM_SKIP:-0}" = 1 ] || exit 3
		echo "SKIPPED: Linux $version: its package cannot be fetched, so nothing was tested with it" >&2
		continue
	fi
	for part in ${VM_PARTS:-regulate replace lock isolate groups writes faults away vcpu verify}; do
		case $engine:$part in helper:vcpu* | helper:pages | helper:levels | helper:verify) continue ;; esac
		{
			echo "WANT=$engine PERIODS=$periods ${VM_SET:-}"
			cat "$here/guest/common.sh" "$here/guest/$part.sh"
		} >"$work/script"
		rm -rf "$work/root"
		"$here/root.sh" "$solocore" "$work/script" "$work/root"
		echo "== Linux $version, $engine engine, $part"
		begun=$(date +%s)
		"$here/boot.sh" "$kernel" "$work/root" "${VM_SECONDS:-900}" ||
			{ echo "FAILED: Linux $version, $part" >&2; failed=1; }
		echo "== $(($(date +%s) - begun)) s"
	done
done
exit $failed
