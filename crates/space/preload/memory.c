/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the search for frames takes more memory for a while than the program has. Without a
 * check, the kernel could kill a program for it. Rule: before more is taken, the available memory
 * is read, for all (/proc/meminfo) and for this process's memory cgroup and those above it (both
 * versions); cached files count as available. Does not cover: cgroups outside the usual mount
 * points of distributions.
 */
#define _GNU_SOURCE
#include "space.h"

#include <fcntl.h>

#define UNLIMITED (1ul << 62)

static long read_text(const char *path, char *text, size_t size)
{
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (failed(fd))
		return -1;
	long got = raw(SYS_read, fd, text, size - 1);
	raw(SYS_close, fd);
	text[got > 0 ? got : 0] = 0;
	return got;
}

/* The number at this place; `none` without a number, as in "max". */
uint64_t number_at(const char *text, uint64_t none)
{
	uint64_t value = 0;
	while (*text == ' ')
		text++;
	if (*text < '0' || *text > '9')
		return none;
	for (; *text >= '0' && *text <= '9' && value < UNLIMITED / 10; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

/* The number of the line that begins with `name`; 0 if there is none. */
static uint64_t field(const char *text, const char *name)
{
	for (const char *p = text; *p; p++)
		if ((p == text || p[-1] == '\n') && starts_with(p, name))
			return number_at(p + text_length(name), 0);
	return 0;
}

static size_t append(char *to, size_t at, size_t size, const char *text)
{
	while (*text && at + 1 < size)
		to[at++] = *text++;
	to[at] = 0;
	return at;
}

/* Bytes that the cgroup of a directory, a path of `length` bytes, has left. `need`: an answer above
 * it need not be exact. */
static uint64_t room_of(char *path, size_t length, size_t size, int second, uint64_t need)
{
	char text[4096];
	append(path, length, size, second ? "/memory.max" : "/memory.limit_in_bytes");
	uint64_t limit =
		read_text(path, text, sizeof text) > 0 ? number_at(text, UNLIMITED) : UNLIMITED;
	if (limit >= UNLIMITED)
		return UNLIMITED;
	append(path, length, size, second ? "/memory.current" : "/memory.usage_in_bytes");
	uint64_t used = read_text(path, text, sizeof text) > 0 ? number_at(text, 0) : 0;
	if (used + need <= limit)
		return limit - used;
	append(path, length, size, "/memory.stat");
	uint64_t files = 0;
	if (read_text(path, text, sizeof text) > 0)
		files = second ? field(text, "inactive_file ") + field(text, "active_file ")
			       : field(text, "total_inactive_file ") +
					 field(text, "total_active_file ");
	return limit + files > used ? limit + files - used : 0;
}

/* A line of /proc/self/cgroup: "0::/PATH", or "NUMBER:memory:/PATH"; its own directory and those
 * above it. */
static uint64_t room_of_line(const char *line, uint64_t need)
{
	int second = starts_with(line, "0::");
	char path[512];
	const char *from = line;
	for (int colons = 0; *from && *from != '\n' && colons < 2; from++)
		colons += *from == ':';
	const char *controllers = line;
	while (*controllers >= '0' && *controllers <= '9')
		controllers++;
	if (*from != '/' || (!second && !starts_with(controllers, ":memory:")))
		return UNLIMITED;
	size_t root =
		append(path, 0, sizeof path, second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
	size_t length = root;
	while (*from && *from != '\n' && length + 32 < sizeof path)
		path[length++] = *from++;
	uint64_t least = UNLIMITED;
	for (;;) {
		while (length > root && path[length - 1] == '/')
			length--;
		uint64_t room = room_of(path, length, sizeof path, second, need);
		least = room < least ? room : least;
		if (length <= root)
			return least;
		while (length > root && path[length - 1] != '/')
			length--;
	}
}

/* Bytes that this process may take; not exact where there are more than `need`. `reserve`: left to
 * others. */
uint64_t memory_room(uint64_t need, uint64_t reserve)
{
	char text[2048];
	uint64_t all = read_text("/proc/meminfo", text, sizeof text) > 0
			       ? field(text, "MemAvailable:") * 1024
			       : 0;
	uint64_t least = all > reserve ? all - reserve : 0;
	if (read_text("/proc/self/cgroup", text, sizeof text) <= 0)
		return least;
	for (const char *p = text; *p; p++) {
		if (p != text && p[-1] != '\n')
			continue;
		uint64_t room = room_of_line(p, need);
		least = room < least ? room : least;
	}
	return least;
}
