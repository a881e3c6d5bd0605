/* How soon the bandwidth lock takes effect. Holds it again and again on CPU 0, beside hogs on CPUs
 * 1 to 3 that note when they write to memory.
 *
 *   effect ROUNDS
 *
 * Prints the median, the 95th percentile and the most of the rounds, in ns: `call` (bw_lock
 * itself), `effect` (from the lock to the last write of the last hog to stop), `release` (from the
 * release to the first write of a stopped hog). `lines` are the lines that the busiest hog writes
 * meanwhile. `silent` is the number of hogs that did not stop.
 */
#include "cpu.h"

#include <signal.h>
#include <solocore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HOGS 3
#define BYTES (8ul << 20)
#define LINE 64ul
/* A hog notes the time of each fourth line. */
#define OF_MARK 4u
#define MARKS 8192u
/* A pause that no wait for memory explains: the hog is stopped. */
#define PAUSE_NS 100000u
/* Free for some periods before a lock; its holder waits for the hogs to stop. */
#define FREE_NS 2000000u
#define HELD_NS 900000u

struct hog {
	volatile uint64_t made;
	volatile uint64_t at[MARKS];
};

static void wait_until(uint64_t end)
{
	while (now() < end)
		;
}

static void disturb(struct hog *hog)
{
	volatile char *buffer = mmap(0, BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		exit(4);
	for (;;)
		for (unsigned long i = 0; i < BYTES; i += LINE) {
			buffer[i] = 1;
			if (i / LINE % OF_MARK == 0) {
				hog->at[hog->made % MARKS] = now();
				hog->made++;
			}
		}
}

/* When a hog first stops after a time: its last mark before a pause. 0: it does not. `marks`: how
 * many it makes from the time on. */
static uint64_t stops(const struct hog *hog, uint64_t from, uint64_t until, uint64_t *marks)
{
	uint64_t end = hog->made, last = 0;
	*marks = 0;
	for (uint64_t i = end > MARKS ? end - MARKS + 1 : 0; i < end; i++) {
		uint64_t at = hog->at[i % MARKS];
		if (last && at > from && at - last > PAUSE_NS)
			break;
		last = at;
		*marks += at > from;
	}
	if (until - last <= PAUSE_NS)
		return 0;
	return last > from ? last : from;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void print(const char *what, uint64_t *of, long count)
{
	if (!count)
		return;
	qsort(of, count, sizeof *of, compare);
	printf("%s %llu %llu %llu\n", what, (unsigned long long)of[count / 2],
	       (unsigned long long)of[count * 95 / 100], (unsigned long long)of[count - 1]);
}

int main(int argc, char **argv)
{
	long rounds = argc == 2 ? atol(argv[1]) : 0, silent = 0;
	struct hog *hogs = mmap(0, HOGS * sizeof *hogs, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t *effect = calloc(rounds, sizeof *effect), *lines = calloc(rounds, sizeof *lines);
	uint64_t *release = calloc(rounds, sizeof *release), *call = calloc(rounds, sizeof *call);
	pid_t children[HOGS];
	if (rounds < 1 || hogs == MAP_FAILED || !effect || !lines || !release || !call)
		return 2;
	bind_to(0);
	int status = sc_attach();
	if (status != SC_OK) {
		fprintf(stderr, "not attached: %s\n", sc_strstatus(status));
		return 3;
	}
	for (int i = 0; i < HOGS; i++) {
		children[i] = fork();
		/* Without this, the end would kill all processes: their number is -1. */
		if (children[i] < 0)
			return 5;
		if (children[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			bind_to(i + 1);
			disturb(&hogs[i]);
		}
	}
	for (int i = 0; i < HOGS; i++)
		while (!hogs[i].made)
			;
	srandom(1);
	for (long round = 0; round < rounds; round++) {
		/* At any phase of the period. */
		wait_until(now() + FREE_NS + random() % 1000000);
		uint64_t before = now();
		bw_lock();
		uint64_t from = now();
		call[round] = from - before;
		wait_until(from + HELD_NS);
		uint64_t until = now(), most = from;
		for (int i = 0; i < HOGS; i++) {
			uint64_t marks, at = stops(&hogs[i], from, until, &marks);
			if (!at)
				silent++;
			most = at > most ? at : most;
			lines[round] =
				marks * OF_MARK > lines[round] ? marks * OF_MARK : lines[round];
		}
		effect[round] = most - from;
		uint64_t made = hogs[0].made;
		bw_unlock();
		from = now();
		while (hogs[0].made == made && now() - from < 5000000)
			;
		release[round] = now() - from;
	}
	for (int i = 0; i < HOGS; i++)
		kill(children[i], SIGKILL);
	print("call", call, rounds);
	print("effect", effect, rounds);
	print("lines", lines, rounds);
	print("release", release, rounds);
	printf("silent %ld\n", silent);
	return 0;
}
