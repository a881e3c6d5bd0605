# What the guest of arm64.sh runs: the base is configured, then the packages are installed, used, upgraded and purged.
set -eu
fail() { echo "guest: $*" >&2; exit 1; }
quietly() { "$@" >/tmp/log 2>&1 || { tail -n 20 /tmp/log; fail "$*"; }; }
[ -e /proc/self/exe ] || fail "/proc is not mounted"
quietly /debootstrap/debootstrap --second-stage
# It takes away what is mounted.
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sysfs /sys
# apt finds the order in which packages need each other.
quietly apt-get -y --no-install-recommends install /needs/*.deb
echo "guest: $(uname -m), Debian $(cat /etc/debian_version), $(dpkg-query -W | wc -l) packages"
# Every file with its content, without dpkg's notes and caches that are made again.
state() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /kit -o -path /run -o -path /var/lib/dpkg -o -path /var/cache \
		-o -path /var/log -o -path /etc/ld.so.cache -o -path '/etc/*-' -o -path /root \) -prune -o \
		\( -type f -exec sha256sum {} + -o -printf '%y %p\n' \) | sort
}
state >/kit/before
quietly dpkg --install /debs/*.deb
version=$(dpkg-query -W -f '${Version}' solocore)
echo "guest: solocore $version $(dpkg-query -W -f '${Architecture}' solocore) is installed"
solocore --version
getent group solocore >/dev/null || fail "the group solocore is missing"
[ -s /lib/systemd/system/solocore.service ] || fail "the unit is missing"
[ "$(solocore man plan | wc -l)" -gt 20 ] && gzip -t /usr/share/man/man1/solocore-plan.1.gz || fail "manual pages"
python3 -c 'import solocore, solocore.client; print("guest: python3-solocore", solocore.__version__)'
mkdir -p /tmp/work
cd /tmp/work
seq 1 2000 >words
solocore platforms raspberry-pi-4 | sed 's/^cores = 4/cores = 2/' >machine.toml
cat >system.toml <<'END'
platform = "machine.toml"
[regulation]
policy = "memguard"
period = "1 ms"
[[task]]
name = "sort"
core = 0
period = "1 s"
command = ["sort", "words"]
[[task]]
name = "batch"
core = 1
criticality = "D"
wcet = "1 ms"
misses = 1
END
quietly solocore profile --platform machine.toml -o sort.json -- sort words
echo "guest: profiled: $(sed -n 's/.*\("instructions": *[0-9]*\).*/\1/p' sort.json | head -n 1)"
quietly solocore plan system.toml -o plan.json
quietly solocore sim plan.json --duration "500 ms" -o sim.json
quietly solocore report plan.json sim.json -o report.html
grep -q '</html>' report.html || fail "the report is not whole"
solocore run plan.json --engine helper --event page-faults --no-write-budgets --partial --no-move-irqs --no-confine --duration "1 s" --format json >run.json 2>/tmp/log ||
	{ cat /tmp/log; fail "run"; }
python3 - <<'CHECK'
import json
run = json.load(open("run.json"))
periods = [core["periods"] for core in run["cores"]]
assert run["engine"] == "helper" and min(periods) > 500, (run["engine"], periods)
print(f"guest: profile, plan, sim and report of sort; run --engine helper: {periods} periods of 1 ms in 1 s")
CHECK
quietly dpkg --install /newer/*.deb
after=$(dpkg-query -W -f '${Version}' solocore)
dpkg --compare-versions "$after" gt "$version" || fail "upgraded from $version to $after"
quietly solocore profile --platform machine.toml -o again.json -- sort words
[ -z "$(dpkg --audit)" ] || fail "dpkg finds faults"
echo "guest: upgraded from $version to $after, and profiles"
cd /
rm -rf /tmp/work
quietly dpkg --purge solocore libsolocore0 libsolocore-dev python3-solocore
state >/kit/after
diff /kit/before /kit/after || fail "the tree is not as it was"
[ -z "$(dpkg-query -W -f '${Package}\n' '*solocore*' 2>/dev/null)" ] || fail "dpkg still knows a package"
rm -f /tmp/log
[ -z "$(ls -A /tmp)" ] || fail "/tmp has $(ls -A /tmp)"
echo "guest: purged; all $(wc -l </kit/after) entries are as they were"
