#!/bin/sh
# The Debian packages in a clean Debian 12: installed, used, upgraded, purged; the tree is then as it was before.
# Usage: tests/install/chroot.sh DEBS NEWER       directories of .deb files; NEWER has a later version of the same
# Needs root, debootstrap and the archive that this machine's apt uses. The helper engine regulates page faults for a second.
set -eu
debs=$(realpath "$1") newer=$(realpath "$2")
cd "$(dirname "$0")/../.."
base=$PWD/build/install/bookworm.tar
[ "$(id -u)" = 0 ] || { echo "chroot: needs root" >&2; exit 3; }
if [ -z "${SOLOCORE_CHROOT_MOUNTS:-}" ]; then
	# Mounts of its own: they are gone when this ends, however it ends.
	export SOLOCORE_CHROOT_MOUNTS=1
	exec unshare --mount --propagation private "$0" "$debs" "$newer"
fi
work=$(mktemp -d)
root=$work/root
trap 'umount -R -l "$root/proc" "$root/sys" "$root/dev" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
fail() { echo "chroot: $*" >&2; exit 1; }

if [ ! -f "$base" ]; then
	mkdir -p "$(dirname "$base")"
	debootstrap --variant=minbase bookworm "$root" "$(tests/vm/archive.sh)" >"$work/debootstrap.log" 2>&1 ||
		{ tail "$work/debootstrap.log" >&2; fail "debootstrap"; }
	tar -C "$root" -cf "$base.new" . && mv "$base.new" "$base"
	rm -rf "$root"
fi
mkdir -p "$root"
tar -C "$root" -xpf "$base"
cp /etc/resolv.conf "$root/etc/resolv.conf"
for place in proc sys dev; do mount --rbind /$place "$root/$place"; done
# Nothing is started in a chroot.
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/work/home LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
apt() { inside apt-get -qq -y --no-install-recommends "$@" >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log" >&2; fail "apt-get $*"; }; }
# Every file with its content, without what apt and dpkg note down, and without caches that are made again.
state() {
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./debs -o -path ./newer \
		-o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log -o -path ./etc/ld.so.cache \
		-o -path './etc/*-' \) -prune -o \( -type f -exec sha256sum {} + -o -printf '%y %p\n' \)) | LC_ALL=C sort
}
apt update
# Every Debian 12 that is booted has it, and it leaves users and directories when it goes.
apt install systemd
state >"$work/before"
# sed reads to the end: a pipe that closes early would hide a failure of the left side.
packages="solocore libsolocore0 libsolocore-dev python3-solocore"
put() { # DIRECTORY NAME
	mkdir -p "$root/$2"
	for package in $packages; do cp "$1/${package}"_*_amd64.deb "$root/$2/"; done
	apt install $(cd "$root" && ls -d $2/*.deb | sed 's|^|/|')
}
put "$debs" debs
version=$(inside dpkg-query -W -f '${Version}' solocore)
echo "chroot: solocore $version is installed; the tree has $(state | wc -l) entries, $(wc -l <"$work/before") before"
inside getent group solocore >/dev/null || fail "the group solocore is missing"
for unit in solocore solocore-reserve; do
	[ -s "$root/lib/systemd/system/$unit.service" ] || fail "the unit $unit is missing"
done
[ -z "$(find "$root/etc/systemd/system" -name 'solocore*')" ] || fail "the unit was enabled without a plan"
[ "$(inside solocore man plan | wc -l)" -gt 20 ] && gzip -t "$root/usr/share/man/man1/solocore-plan.1.gz" || fail "manual pages"
inside python3 -c 'import solocore, solocore.client; print("chroot: python3-solocore", solocore.__version__)'

# A program of the -dev package, compiled outside, as the compiler would bring much else.
mkdir -p "$root/tmp/work/home"
lib=$(dirname "$(find "$root/usr/lib" -name solocore.pc)")
printf '#include <solocore.h>\nint main(void) { return sc_attach() == 0; }\n' >"$work/a.c"
gcc -o "$root/tmp/work/a" "$work/a.c" $(PKG_CONFIG_LIBDIR=$lib PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags --libs solocore)
inside env SOLOCORE_SOCKET=/tmp/work/none /tmp/work/a || fail "the library attaches where nothing runs"
echo "chroot: a program finds libsolocore by pkg-config, and runs"

cpus=$(nproc)
cat >"$root/tmp/work/use.sh" <<'USE'
set -eu
cd /tmp/work
seq 1 5000 >words
solocore platforms core-i5-2500k | sed "s/^cores = 4/cores = $1/" >machine.toml
cat >system.toml <<END
platform = "machine.toml"
[regulation]
policy = "memguard"
period = "1 ms"
[[task]]
name = "sort"
core = 0
period = "100 ms"
command = ["sort", "words"]
[[task]]
name = "batch"
core = $(($1 - 1))
criticality = "D"
wcet = "1 ms"
misses = 1
END
solocore profile --platform machine.toml -o sort.json -- sort words >sorted
cmp words.sorted sorted 2>/dev/null || sort words | cmp - sorted
solocore plan system.toml -o plan.json >plan.txt
solocore sim plan.json --duration "500 ms" -o sim.json >sim.txt
solocore report plan.json sim.json -o report.html
solocore run plan.json --engine helper --event page-faults --partial --no-move-irqs --no-confine --duration "1 s" --format json >run.json
USE
inside sh /tmp/work/use.sh "$cpus" >"$work/use.log" 2>&1 || { cat "$work/use.log" >&2; fail "profile, plan, sim, report or run"; }
python3 - "$root/tmp/work" <<'CHECK'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
profile, run = json.loads((work / "sort.json").read_text()), json.loads((work / "run.json").read_text())
report = (work / "report.html").read_text()
assert "sort" in report and "</html>" in report, "the report is not whole"
periods = [core["periods"] for core in run["cores"]]
assert run["engine"] == "helper" and min(periods) > 500, (run["engine"], periods)
print(f"chroot: profile, plan, sim and report of sort; run --engine helper: {periods} periods of 1 ms in 1 s")
CHECK

put "$newer" newer
after=$(inside dpkg-query -W -f '${Version}' solocore)
inside dpkg --compare-versions "$after" gt "$version" || fail "upgraded from $version to $after"
inside sh -c 'cd /tmp/work && solocore profile --platform machine.toml -o again.json -- sort words >/dev/null 2>&1' ||
	fail "it does not profile after the upgrade"
echo "chroot: upgraded from $version to $after, and profiles"

inside dpkg --audit | grep . && fail "dpkg finds faults"
apt purge $packages
apt autoremove --purge
rm -rf "$root/tmp/work" "$root/debs" "$root/newer"
state >"$work/after"
diff "$work/before" "$work/after" >"$work/difference" || { cat "$work/difference" >&2; fail "the tree is not as it was"; }
[ -z "$(inside dpkg-query -W -f '${Package}\n' '*solocore*' 2>/dev/null)" ] || fail "dpkg still knows a package"
[ -z "$(ls -A "$root/tmp")" ] || fail "/tmp has $(ls -A "$root/tmp")"
echo "chroot: purged; all $(wc -l <"$work/after") entries are as they were"
