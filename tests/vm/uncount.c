/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Takes the counter of a CPU from a running solocore: its programs cannot read it any more, as when
 * the kernel has put a pinned counter in error.
 *
 *   uncount CPU [MAP]     exit code 0: it was taken; 1: there is none. MAP holds the counters:
 *                         counters (the default), or write_counters
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int is_named(int map, const char *name)
{
	struct bpf_map_info info;
	union bpf_attr attr;

	memset(&info, 0, sizeof(info));
	memset(&attr, 0, sizeof(attr));
	attr.info.bpf_fd = map;
	attr.info.info_len = sizeof(info);
	attr.info.info = (unsigned long)&info;
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) == 0 && strcmp(info.name, name) == 0;
}

int main(int argc, char **argv)
{
	unsigned int cpu = argc > 1 ? (unsigned int)atoi(argv[1]) : 0, id = 0;
	const char *name = argc > 2 ? argv[2] : "counters";
	union bpf_attr attr;

	for (;;) {
		int map;

		memset(&attr, 0, sizeof(attr));
		attr.start_id = id;
		if (bpf(BPF_MAP_GET_NEXT_ID, &attr) != 0)
			return 1;
		id = attr.next_id;
		memset(&attr, 0, sizeof(attr));
		attr.map_id = id;
		map = (int)bpf(BPF_MAP_GET_FD_BY_ID, &attr);
		if (map < 0)
			continue;
		if (is_named(map, name)) {
			memset(&attr, 0, sizeof(attr));
			attr.map_fd = (unsigned int)map;
			attr.key = (unsigned long)&cpu;
			return bpf(BPF_MAP_DELETE_ELEM, &attr) == 0 ? 0 : 1;
		}
		close(map);
	}
}
