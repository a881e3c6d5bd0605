/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Prints how many BPF programs, maps and links the kernel holds.
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int count(int command)
{
	unsigned int id = 0;
	int found = 0;

	for (;;) {
		union bpf_attr attr;

		memset(&attr, 0, sizeof(attr));
		attr.start_id = id;
		if (syscall(SYS_bpf, command, &attr, sizeof(attr)) != 0)
			return found;
		id = attr.next_id;
		found++;
	}
}

int main(void)
{
	printf("BPF programs %d, maps %d, links %d\n", count(BPF_PROG_GET_NEXT_ID),
	       count(BPF_MAP_GET_NEXT_ID), count(BPF_LINK_GET_NEXT_ID));
	return 0;
}
