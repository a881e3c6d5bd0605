/* m_jump of MARACAS (section VI-B, Code 1): writes the first 4 of every 64 bytes of an array, 8 KiB
 * apart from one write to the next, with DELAY multiplications between two writes.
 *
 *   jump DELAY FILE
 *
 * It runs until it is killed. FILE is a ring of marks: the time and the number of writes, each 512
 * writes. The paper's array has 6 MiB, as much as the shared cache, and finds its lines there once
 * the others are slowed. This one has 12 MiB, so that each write goes to memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES (12ul << 20)
#define LINE 64ul
#define JUMP 8192ul
#define MARKS (1ul << 14)
#define OF_MARK 512

struct mark {
	uint64_t ns, writes;
};

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	unsigned long delay = strtoul(argv[1], 0, 0);
	int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, MARKS * sizeof(struct mark)))
		return 3;
	volatile struct mark *marks = mmap(0, MARKS * sizeof(struct mark), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_POPULATE, fd, 0);
	volatile char *data = mmap(0, BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (marks == MAP_FAILED || data == MAP_FAILED)
		return 4;
	uint64_t writes = 0, value = 3;
	for (;;)
		for (unsigned long line = 0; line < JUMP; line += LINE)
			for (unsigned long at = line; at < BYTES; at += JUMP) {
				*(volatile uint32_t *)(data + at) = (uint32_t)value;
				for (unsigned long i = 0; i < delay; i++)
					__asm__ volatile("imul %0, %0" : "+r"(value));
				if (++writes % OF_MARK == 0) {
					struct timespec t;
					clock_gettime(CLOCK_MONOTONIC, &t);
					volatile struct mark *mark =
						&marks[writes / OF_MARK % MARKS];
					/* The time last: a mark that a kill cuts is the oldest. */
					mark->writes = writes;
					mark->ns = t.tv_sec * 1000000000ull + t.tv_nsec;
				}
			}
}
