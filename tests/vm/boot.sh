#!/bin/sh
# Boots a guest whose first program is /init of a directory, waits for its end, and prints what it said.
#
#   tests/vm/boot.sh KERNEL_DIR ROOT_DIR [SECONDS]
#
# ROOT_DIR becomes the initramfs. The guest ends itself (poweroff -f); its console goes to stdout. Exit code: what the guest
# wrote as `exit-code: N`, or 124 when it did not end in time.
#
# Emulated, so it needs no KVM; icount makes guest time follow instructions, so the host's other work does not show in
# it. VM_CPUS (4), VM_MEMORY (768M) and VM_EXTRA add to it. VM_DISK is a file that the guest has as a virtio disk, to read only. VM_ARCH=aarch64 boots
# QEMU's `virt` machine of that architecture.
set -eu
kernel=$1
root=$2
limit=${3:-120}
[ -x "$root/init" ] || { echo "boot.sh: $root/init is missing or cannot be executed" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Not compressed: the guest would take longer to unpack it than the host to copy it.
(cd "$root" && find . | cpio -o -H newc --quiet) >"$work/initramfs"
# What takes the emulator seconds and no test needs: keys of modules, self-tests of random numbers and hashes.
skipped=load_system_certificate_list,jent_mod_init,sha1_mod_init,bpf_tcp_ca_kfunc_init
machine=
console=ttyS0
if [ "${VM_ARCH:-x86_64}" = aarch64 ]; then
	machine="-machine virt"
	console=ttyAMA0
fi
# QEMU 7.2 may compute the flags after a cmpxchg16b without a lock from a stale operation; an interrupt right there ends
# in a double fault, or in a call of nowhere. No processor has flags above bit 21: such a guest is booted once more, any other panic counts.
# (The guest must keep cmpxchg16b: without it the kernel gives BPF no memory.)
boot() {
	: >"$work/errors"
	status=0
	# shellcheck disable=SC2086
	timeout "$limit" "qemu-system-${VM_ARCH:-x86_64}" $machine \
		-accel tcg,thread=single -icount "${VM_ICOUNT:-shift=1,sleep=off}" -cpu max \
		-smp "${VM_CPUS:-4}" -m "${VM_MEMORY:-768M}" -nic none -vga none -display none -no-reboot ${VM_DISK:+-drive "file=$VM_DISK,format=raw,if=virtio,readonly=on"} \
		-kernel "$kernel/vmlinuz" -initrd "$work/initramfs" \
		-append "console=$console quiet panic=-1 nokaslr mitigations=off initcall_blacklist=$skipped ${VM_EXTRA:-}" \
		-serial stdio -monitor none </dev/null >"$work/console" 2>"$work/errors" || status=$?
}
boot
if grep -qE 'PANIC: double fault|Oops: ' "$work/console" && grep -E 'EFLAGS: [0-9a-f]{8}' "$work/console" | grep -qvE 'EFLAGS: 00[0-3]'; then
	cat "$work/console"
	echo "boot.sh: the emulator broke the guest's flags; it boots once more" >&2
	boot
fi
cat "$work/console"
if [ "$status" != 0 ]; then
	cat "$work/errors" >&2
	echo "boot.sh: the guest did not end within $limit s, or QEMU failed ($status)" >&2
	exit 124
fi
code=$(sed -n 's/^exit-code: \([0-9]*\).*/\1/p' "$work/console" | tail -n 1)
exit "${code:-125}"
