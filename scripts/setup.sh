#!/usr/bin/env bash
# Installs what building, the demo and the tests need on Debian 12. Does nothing the second time.
# Usage: scripts/setup.sh demo|lint|test|aarch64|package|package-arm64       lint: as test, without the Python packages
set -euo pipefail
cd "$(dirname "$0")/.."
want=${1:-test}

# clang, libbpf, libelf and zlib: solocore carries BPF programs (crates/linux); libclang reads what they share with it.
packages=(qemu-user gcc libc6-dev make sqlite3 xz-utils clang libclang1-14 libbpf-dev libelf-dev zlib1g-dev pkg-config)
if [ "$want" = test ] || [ "$want" = lint ]; then
	packages+=(gcc-aarch64-linux-gnu gcc-powerpc-linux-gnu libc6-dev-arm64-cross libc6-dev-powerpc-cross
		clang-format g++ valgrind chromium python3 python3-venv
		clang-19 libclang-rt-14-dev frama-c-base
		qemu-system-x86 busybox-static cpio curl)
fi

if [ "$want" = aarch64 ]; then
	packages+=(qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross cpio curl python3)
fi

if [ "$want" = package ] || [ "$want" = package-arm64 ]; then
	packages+=(debhelper dh-python dpkg-dev lintian debootstrap buildah openssh-client python3 qemu-system-x86 cpio curl)
fi

# Debian builds for another architecture with that one's libraries beside its own.
if [ "$want" = package-arm64 ]; then
	packages+=(crossbuild-essential-arm64 libc6-dev:arm64 libelf-dev:arm64 zlib1g-dev:arm64 libgcc-s1:arm64
		qemu-system-arm cpio curl)
	[ "$(id -u)" != 0 ] || dpkg --print-foreign-architectures | grep -qx arm64 || dpkg --add-architecture arm64
fi

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
	command="apt-get install -y --no-install-recommends ${missing[*]}"
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "setup: packages are missing; run as root: $command" >&2
		exit 3
	fi
	echo "setup: installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	# The lists may be absent (a fresh machine) or old (a package has moved on): refresh once, then install.
	apt-get update -qq >/dev/null
	if ! apt-get install -y -qq --no-install-recommends "${missing[@]}" >build-setup.log 2>&1; then
		tail -20 build-setup.log >&2
		echo "setup: installation failed; run by hand: $command" >&2
		exit 3
	fi
	rm -f build-setup.log
fi

if ! command -v cargo >/dev/null; then
	echo "setup: no Rust toolchain (1.88 or newer); install it with: curl https://sh.rustup.rs -sSf | sh" >&2
	exit 3
fi

if [ "$want" = test ]; then
	stamp=build/venv/.installed
	if ! cmp -s tests/requirements.txt "$stamp"; then
		echo "setup: Python packages for the tests into build/venv"
		rm -rf build/venv
		mkdir -p build
		python3 -m venv build/venv
		# uv needs less than half of pip's time. Where it cannot be had, or cannot reach an index, pip does it.
		pip=(build/venv/bin/pip install --quiet --disable-pip-version-check)
		{ "${pip[@]}" uv==0.13.9 && VIRTUAL_ENV=$PWD/build/venv build/venv/bin/uv pip install --quiet --compile-bytecode -r tests/requirements.txt; } 2>/dev/null ||
			"${pip[@]}" -r tests/requirements.txt
		cp tests/requirements.txt "$stamp"
	fi
fi
