/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the programs for tests of message queues have in common (queues.c, sysv.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Says what each call answers. */
static void say(const char *what, long result)
{
	printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
	fflush(stdout);
}

/* Until a process waits, and goes on doing so. */
static void await_sleep(pid_t process)
{
	char path[64], state;
	snprintf(path, sizeof path, "/proc/%d/stat", process);
	for (int seen = 0; seen < 20; usleep(1000)) {
		FILE *file = fopen(path, "r");
		if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
			_exit(2);
		fclose(file);
		seen = state == 'S' ? seen + 1 : 0;
	}
}

/* Pages of mapped queues in frames outside of the lower half of 32 colours; -1: no queue is mapped.
 */
static int wrong_pages(void)
{
	char line[4096];
	unsigned long start, end;
	int wrong = 0, pages = 0, pagemap = open("/proc/self/pagemap", O_RDONLY);
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps)) {
		if (!strstr(line, "/dev/shm/") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		for (; start < end; start += 4096, pages++) {
			uint64_t entry = 0;
			if (pread(pagemap, &entry, 8, (long)(start / 4096 * 8)) != 8)
				exit(2);
			wrong += !(entry >> 63) || (entry & 31) >= 16;
		}
	}
	fclose(maps);
	close(pagemap);
	return pages ? wrong : -1;
}
