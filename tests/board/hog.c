/* Disturbs memory: writes one byte in each line of a buffer, again and again, until it is killed.
 *
 *   hog KIB CPU [read | stream]     reads in the place of writes, or writes whole lines past the
 *                                   caches
 */
#define _GNU_SOURCE
#include <emmintrin.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4)
		return 2;
	size_t bytes = strtoul(argv[1], 0, 0) * 1024;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[2]), &cpus);
	if (sched_setaffinity(0, sizeof cpus, &cpus))
		return 3;
	volatile char *buffer = mmap(0, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		return 4;
	const char *kind = argc == 4 ? argv[3] : "write";
	if (strcmp(kind, "write") == 0)
		for (;;)
			for (size_t i = 0; i < bytes; i += 64)
				buffer[i] = 1;
	if (strcmp(kind, "read") == 0)
		for (;;)
			for (size_t i = 0; i < bytes; i += 64)
				(void)buffer[i];
	if (strcmp(kind, "stream") != 0)
		return 2;
	for (;;)
		for (size_t i = 0; i < bytes; i += sizeof(int))
			_mm_stream_si32((int *)(buffer + i), 1);
}
