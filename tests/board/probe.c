/*
 * Loads for guests of the virtual board, and requests to its plugin.
 *
 *   probe model on|off
 *   probe name NAME COMMAND...
 *   probe snapshot LABEL
 *   probe reset
 *   probe chase KIB STEPS CPU
 *       a chase of pointers in random order: ns a step after two rounds
 *   probe hog KIB MS CPU
 *       reads and writes lines in order: lines a microsecond
 *   probe read KIB MS CPU
 *       the same, reads only
 *   probe samples KIB PERIOD N CPU
 *       N steps of a chase with an interrupt every PERIOD misses: misses,
 *       samples, lost
 *
 * Requests are `cpuid` with EAX = 0x53430000 + operation
 * (crates/board-plugin/src/guest.rs).
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("probe: sched_setaffinity");
		exit(1);
	}
}

static int ask(uint32_t operation, const char *text)
{
	uint32_t a = 0x53430000 | operation, c = 0, d;
	uint64_t b = 0;
	memcpy(&b, text, strnlen(text, 8));
	asm volatile("cpuid" : "+a"(a), "+b"(b), "+c"(c), "=d"(d) : : "memory");
	return a == 0x53430001;
}

static uint64_t state = 88172645463325252ull;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static char *memory(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (at == MAP_FAILED) {
		perror("probe: mmap");
		exit(1);
	}
	return at;
}

/* One cycle over all lines, in random order. */
static void **cycle(size_t bytes)
{
	size_t lines = bytes / 64;
	char *at = memory(bytes);
	uint32_t *order = malloc(lines * sizeof(*order));
	for (size_t i = 0; i < lines; i++)
		order[i] = i;
	for (size_t i = lines - 1; i > 0; i--) {
		size_t j = draw() % i;
		uint32_t t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	for (size_t i = 0; i < lines; i++)
		*(void **)(at + (size_t)order[i] * 64) = at + (size_t)order[(i + 1) % lines] * 64;
	free(order);
	return (void **)at;
}

/* 64 steps: one instruction each. */
static void **steps64(void **at)
{
	asm volatile(".rept 64\n\tmov (%0), %0\n\t.endr" : "+r"(at) : : "memory");
	return at;
}

static void **walk(void **at, long steps)
{
	for (long i = 0; i < steps; i += 64)
		at = steps64(at);
	return at;
}

static int chase(size_t bytes, long steps)
{
	void **at = cycle(bytes);
	at = walk(at, 2 * (long)(bytes / 64));
	uint64_t begin = now();
	at = walk(at, steps);
	uint64_t end = now();
	printf("chase %zu KiB: %.3f ns a step%s\n", bytes / 1024, (double)(end - begin) / steps,
	       at ? "" : "!");
	return 0;
}

static int hog(size_t bytes, uint64_t ms, int write)
{
	volatile char *at = memory(bytes);
	size_t lines = bytes / 64, line = 0;
	uint64_t begin = now(), end = begin + ms * 1000000, done = 0, t;
	do {
		for (int i = 0; i < 1024; i++) {
			if (write)
				at[line * 64]++;
			else
				(void)at[line * 64];
			line = line + 1 == lines ? 0 : line + 1;
		}
		done += 1024;
		t = now();
	} while (t < end);
	printf("hog: %.2f lines a microsecond\n", done * 1000.0 / (t - begin));
	return 0;
}

/* Misses of the last level: AMD's or Intel's event. */
static uint64_t misses_event(void)
{
	uint32_t a = 0, b, c, d;
	asm volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
	return b == 0x756e6547 ? 0x412e : 0x4843;
}

static int samples(size_t bytes, uint64_t period, long misses)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_RAW,
		.size = sizeof(attr),
		.config = misses_event(),
		.sample_period = period,
		.sample_type = PERF_SAMPLE_IP,
		.exclude_kernel = 1,
		.wakeup_events = 1,
		.disabled = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0) {
		perror("probe: perf_event_open");
		return 1;
	}
	size_t pages = 4096;
	struct perf_event_mmap_page *page =
		mmap(NULL, (pages + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		perror("probe: mmap of samples");
		return 1;
	}
	void **at = cycle(bytes);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	at = walk(at, misses);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	uint64_t count = 0, seen = 0, lost = 0, head = page->data_head, tail = 0;
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		return 1;
	char *data = (char *)page + 4096;
	while (tail < head) {
		struct perf_event_header *h = (void *)(data + tail % (pages * 4096));
		seen += h->type == PERF_RECORD_SAMPLE;
		if (h->type == PERF_RECORD_LOST)
			lost += *(uint64_t *)((char *)h + 16);
		if (h->type == PERF_RECORD_THROTTLE)
			printf("samples: throttled\n");
		tail += h->size;
	}
	printf("samples: %lu misses, %lu samples of %lu, %lu lost%s\n", count, seen, count / period,
	       lost, at ? "" : "!");
	return seen == count / period && !lost ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (argc == 3 && !strcmp(what, "model"))
		return !ask(!strcmp(argv[2], "on"), "");
	if (argc > 3 && !strcmp(what, "name")) {
		/* The address space changes with the program: it must say the name itself. */
		setenv("PROBE_NAME", argv[2], 1);
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		return 127;
	}
	if (argc == 3 && !strcmp(what, "snapshot"))
		return !ask(3, argv[2]);
	if (argc == 2 && !strcmp(what, "reset"))
		return !ask(4, "");
	const char *name = getenv("PROBE_NAME");
	if (argc < 5) {
		fprintf(stderr, "probe: see the head of tests/board/probe.c\n");
		return 2;
	}
	ask(2, name ? name : what);
	size_t bytes = strtoul(argv[2], NULL, 10) * 1024;
	long number = strtol(argv[3], NULL, 10);
	pin(atoi(argv[argc - 1]));
	if (!strcmp(what, "chase"))
		return chase(bytes, number);
	if (!strcmp(what, "hog") || !strcmp(what, "read"))
		return hog(bytes, number, *what == 'h');
	if (argc == 6 && !strcmp(what, "samples"))
		return samples(bytes, number, strtol(argv[4], NULL, 10));
	fprintf(stderr, "probe: no load `%s`\n", what);
	return 2;
}
