/* In place of a device that writes by DMA, which the virtual board does not have: a core that fills
 * a buffer past the caches, again and again, until it is killed.
 *
 *   device KIB COLOURS CPU
 *
 * Each line is written, and then flushed. So the memory gets the traffic in the banks of the
 * buffer. A real device fetches no line before it writes it; this one does, so it makes up to two
 * accesses for each line. Says `ready` once its buffer is there.
 */
#include "frames.h"

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	size_t bytes = strtoul(argv[1], 0, 0) * 1024;
	pin(atoi(argv[3]), 0);
	unsigned char *buffer = frames(bytes, colours_of(argv[2]));
	puts("ready");
	fflush(stdout);
	for (;;)
		for (size_t i = 0; i < bytes; i += LINE) {
			((volatile unsigned char *)buffer)[i] = 1;
			__asm__ volatile("clflush (%0)" : : "r"(buffer + i) : "memory");
		}
}
