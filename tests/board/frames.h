/* Memory in chosen cache colours, for programs of the virtual board's figures, and what each of
 * them needs beside it.
 *
 * Rule: a file in memory gets more pages than are needed; /proc/self/pagemap has their frames, and
 * those of the wanted colours are mapped one after the other, and locked. A colour is bits 12 to 16
 * of the address, as on the board core-i5-2500k, where bits 14 to 16 are also the bank. The frames
 * are compared once more at the end of a figure (`moved`): compaction may move locked pages, unless
 * vm.compact_unevictable_allowed is 0. The `cpuid` of `model` means nothing outside of the board.
 */
#include "cpu.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64
#define PAGE 4096ul
#define COLOURS 32
/* Pages of which those of the wanted colours are chosen, at most (256 MiB). */
#define MOST_PAGES 65536

/* Range of colours: first and last. */
struct colours {
	unsigned first, last;
};

static inline struct colours colours_of(const char *text)
{
	struct colours c;
	if (sscanf(text, "%u-%u", &c.first, &c.last) != 2 || c.first > c.last || c.last >= COLOURS)
		exit(2);
	return c;
}

/* For qsort of times. */
static inline int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Keeps the program on a CPU, before all others there. */
static inline void pin(int cpu, int first)
{
	struct sched_param param = {.sched_priority = 50};
	bind_to(cpu);
	if (first && sched_setscheduler(0, SCHED_FIFO, &param))
		exit(3);
}

/* Switches the board's memory model (crates/board-plugin/src/guest.rs). */
static inline void model(int on)
{
	uint32_t a = 0x53430000u | (on ? 1 : 0), b = 0, c = 0, d;
	__asm__ volatile("cpuid" : "+a"(a), "+b"(b), "+c"(c), "=d"(d) : : "memory");
}

static inline unsigned colour_of(uint64_t entry)
{
	return entry & (COLOURS - 1);
}

/* Frames of `pages` pages from an address on. */
static inline void entries_of(const void *at, uint64_t *entries, size_t pages)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	ssize_t bytes = (ssize_t)(pages * 8);
	if (pread(pagemap, entries, pages * 8, (off_t)((uintptr_t)at / PAGE * 8)) != bytes)
		exit(4);
	close(pagemap);
}

/* Number of pages of a range that are not in these colours. */
static inline size_t moved(const void *at, size_t bytes, struct colours wanted)
{
	size_t pages = (bytes + PAGE - 1) / PAGE, wrong = 0;
	uint64_t *entries = calloc(pages, 8);
	entries_of(at, entries, pages);
	for (size_t i = 0; i < pages; i++)
		wrong += !(entries[i] >> 63) || colour_of(entries[i]) < wanted.first ||
			 colour_of(entries[i]) > wanted.last;
	free(entries);
	return wrong;
}

/* Maps the pages of a file with frames of these colours one after the other; returns their number,
 * at most `pages`. */
static inline size_t choose(int file, size_t all, unsigned char *to, size_t pages,
			    struct colours wanted)
{
	size_t found = 0;
	uint64_t *entries = calloc(all, 8);
	unsigned char *every = mmap(0, all * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (every == MAP_FAILED)
		exit(4);
	memset(every, 0, all * PAGE);
	entries_of(every, entries, all);
	for (size_t i = 0; i < all && found < pages; i++) {
		unsigned colour = colour_of(entries[i]);
		if (!(entries[i] >> 63) || colour < wanted.first || colour > wanted.last)
			continue;
		if (mmap(to + found++ * PAGE, PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, file,
			 (off_t)(i * PAGE)) == MAP_FAILED)
			exit(4);
	}
	free(entries);
	munmap(every, all * PAGE);
	return found;
}

/* Memory of whole pages in these colours, locked. The kernel may first give frames that others have
 * freed, all of other colours; then it is asked for more. */
static inline unsigned char *frames(size_t bytes, struct colours wanted)
{
	size_t pages = (bytes + PAGE - 1) / PAGE, found = 0;
	size_t all = 2 * pages * COLOURS / (wanted.last - wanted.first + 1) + 512;
	unsigned char *to = mmap(0, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = memfd_create("frames", MFD_CLOEXEC);
	if (to == MAP_FAILED || file < 0)
		exit(4);
	for (; found < pages && all < MOST_PAGES; all *= 2) {
		if (ftruncate(file, (off_t)(all * PAGE)))
			exit(4);
		found = choose(file, all, to, pages, wanted);
	}
	close(file);
	if (found < pages)
		exit(5);
	if (mlock(to, pages * PAGE))
		exit(4);
	return to;
}

struct line {
	struct line *next;
	char rest[LINE - sizeof(struct line *)];
};

/* Circle through all lines in random order (Sattolo's shuffle). */
static inline struct line *circle(void *memory, size_t bytes)
{
	unsigned long long state = 88172645463325252ull;
	size_t n = bytes / LINE;
	struct line *lines = memory;
	for (size_t i = 0; i < n; i++)
		lines[i].next = &lines[i];
	for (size_t i = n - 1; i > 0; i--) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		size_t j = state % i;
		struct line *t = lines[i].next;
		lines[i].next = lines[j].next;
		lines[j].next = t;
	}
	return lines;
}

/* Removes the lines of a range from all caches. */
static inline void flush(const void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += LINE)
		__asm__ volatile("clflush (%0)" : : "r"((const char *)at + i) : "memory");
	__asm__ volatile("mfence" : : : "memory");
}
