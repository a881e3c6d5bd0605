#!/bin/sh
# Prints the path of a Rust compiler that builds for this machine and for aarch64.
# Usage: RUSTC=$(scripts/aarch64-rustc.sh) cargo build --target aarch64-unknown-linux-gnu ...
# rustup's compiler, where `rustup target add aarch64-unknown-linux-gnu` was run. Else the one of Debian 13's backports, unpacked
# below build/aarch64-rust and not installed: its own C library runs it, and Debian 12's cross compiler links.
set -eu
cd "$(dirname "$0")/.."
triple=aarch64-unknown-linux-gnu
if rustc=$(command -v rustc) && [ -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ]; then
	echo "$rustc"
	exit
fi
place=$PWD/build/aarch64-rust
if [ ! -x "$place/rustc" ]; then
	[ "$(dpkg --print-architecture)" = amd64 ] ||
		{ echo "aarch64-rustc.sh: builds on amd64 only; run: rustup target add $triple" >&2; exit 3; }
	archive=$(tests/vm/archive.sh)
	mkdir -p build
	work=$(mktemp -d "$PWD/build/aarch64-rust.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	# A database of packages of its own: apt finds what the compiler depends on, as if nothing were installed.
	mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/root"
	: >"$work/apt/status"
	for suite in trixie trixie-backports; do
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main"
	done >"$work/apt/sources.list"
	cat >"$work/apt/conf" <<END
Dir::State "$work/apt";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt";
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
END
	fetch() { APT_CONFIG=$work/apt/conf apt-get -qq -y "$@" >"$work/log" 2>&1 || { tail "$work/log" >&2; exit 3; }; }
	fetch update
	fetch -t trixie-backports --download-only install rustc libstd-rust-dev:arm64
	for package in "$work"/apt/archives/*.deb; do
		# The C compiler that rustc depends on stays out: the machine's own links.
		case ${package##*/} in
		rustc_* | libstd-rust-dev_* | lib*_amd64.deb | zlib1g_*_amd64.deb) dpkg-deb -x "$package" "$work/root" ;;
		esac
	done
	rm -rf "$work/apt" "$work/log"
	cat >"$work/rustc" <<'END'
#!/bin/sh
root=$(dirname "$0")/root/usr
exec "$root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$root/lib/x86_64-linux-gnu" --argv0 rustc \
	"$root/bin/rustc" --sysroot "$root" "$@"
END
	chmod +x "$work/rustc"
	chmod 755 "$work"
	rm -rf "$place"
	mv "$work" "$place"
	trap - EXIT
fi
echo "$place/rustc"
