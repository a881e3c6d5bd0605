/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the pages to move, and the method, depend on the mappings. Rule: ask the kernel each
 * time (/proc/self/maps), as the program may map and unmap without this library. No state is kept,
 * and no memory is allocated.
 */
#define _GNU_SOURCE
#include "space.h"

#include <fcntl.h>
#include <sys/mman.h>

static const char *number(const char *p, unsigned base, uint64_t *value)
{
	for (*value = 0;; p++) {
		unsigned digit = *p >= '0' && *p <= '9'	  ? (unsigned)(*p - '0')
				 : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
							  : 99;
		if (digit >= base)
			return p;
		*value = *value * base + digit;
	}
}

static void parse_line(const char *p, struct area *area)
{
	uint64_t unused;
	p = number(p, 16, &area->start);
	p = number(p + 1, 16, &area->end);
	p++;
	area->protection = (p[0] == 'r' ? PROT_READ : 0) | (p[1] == 'w' ? PROT_WRITE : 0) |
			   (p[2] == 'x' ? PROT_EXEC : 0);
	area->private_ = p[3] == 'p';
	p = number(p + 5, 16, &unused);
	p = number(p + 1, 16, &unused);
	uint64_t device = unused;
	p = number(p + 1, 16, &unused);
	device = device << 8 ^ unused;
	p = number(p + 1, 10, &area->inode);
	while (*p == ' ')
		p++;
	area->anonymous = area->inode == 0;
	area->inode = area->inode ? area->inode ^ device << 40 : 0;
	/* [vdso], [vvar] and their like, [uprobes]; but [heap], [stack] and [anon:NAME] are the
	 * program's. */
	area->kernel = starts_with(p, "[v") || starts_with(p, "[u");
	area->hugetlb = starts_with(p, "/anon_hugepage");
}

/* Calls `act` for the lines of /proc/self/maps. `act` may change mappings: the kernel goes on by
 * address. -1: the file cannot be read. */
int each_area(struct state *s, void (*act)(struct state *, const struct area *, void *),
	      void *argument)
{
	long fd = raw(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char lines[4096];
	size_t have = 0;
	int skipping = 0;
	if (failed(fd))
		return -1;
	for (;;) {
		long got = raw(SYS_read, fd, lines + have, sizeof lines - 1 - have);
		if (got <= 0)
			break;
		have += (size_t)got;
		size_t start = 0;
		for (size_t i = 0; i < have; i++) {
			if (lines[i] != '\n')
				continue;
			lines[i] = 0;
			if (!skipping) {
				struct area area;
				parse_line(lines + start, &area);
				act(s, &area, argument);
			}
			skipping = 0;
			start = i + 1;
		}
		copy_bytes(lines, lines + start, have - start);
		have -= start;
		if (have == sizeof lines - 1) {
			/* A path that is longer than the buffer: its front is sufficient. */
			struct area area;
			parse_line(lines, &area);
			act(s, &area, argument);
			skipping = 1;
			have = 0;
		}
	}
	raw(SYS_close, fd);
	return 0;
}

/* The same for the handler, which ends the process if it fails. */
void each_area_or_end(struct state *s, void (*act)(struct state *, const struct area *, void *),
		      void *argument)
{
	if (each_area(s, act, argument))
		give_up(s, "/proc/self/maps cannot be read; is /proc mounted?");
}

struct seek {
	uint64_t address;
	struct area *found;
	int done;
};

static void seek_area(struct state *s, const struct area *area, void *argument)
{
	struct seek *seek = argument;
	(void)s;
	if (area->start <= seek->address && seek->address < area->end) {
		*seek->found = *area;
		seek->done = 1;
	}
}

/* The area at an address; -1 if there is none. */
int area_at(struct state *s, uint64_t address, struct area *area)
{
	struct seek seek = {address, area, 0};
	each_area_or_end(s, seek_area, &seek);
	return seek.done ? 0 : -1;
}
