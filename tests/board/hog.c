/* Disturbs memory: writes one word in each line of a buffer, again and again, until it is killed.
 *
 *   hog KIB CPU
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	if (argc != 3)
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
	for (;;)
		for (size_t i = 0; i < bytes; i += 64)
			buffer[i] = 1;
}
