/*
 * Runs a trace of the virtual board's references through plain LRU caches and
 * prints what it counted.
 *
 *   replay TRACE L1I L1D L2 LLC SLICES
 *
 * Each cache is SETSxWAYS, with the sets of all slices; L2 is 0x0 for none. It
 * shares no code with the model: a set is a list of lines with the time of
 * their last use. Records and the order of fills and write-backs are those of
 * crates/board-plugin/src/trace.rs and machine.rs: a fill asks L2, then the
 * LLC; then L2's victim is written back, then L1's. A prefetch fills L2 and the
 * LLC. Output: a line `core event count` for each; names are the truth's.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORES 64

struct entry {
	uint64_t line, used;
	int valid, dirty;
};

struct cache {
	uint64_t sets;
	int ways, slices;
	struct entry *entries;
};

enum event {
	L1I,
	L1D,
	L2M,
	REFERENCES,
	MISSES,
	FETCHES,
	L2WB,
	LLCWB,
	PREFETCHES,
	PREFETCH_MISSES,
	EVENTS
};

static const char *const names[EVENTS] = {
	"l1i_misses",	    "l1d_misses",    "l2_misses",      "llc_references", "llc_misses",
	"llc_fetch_misses", "l2_writebacks", "llc_writebacks", "prefetch_fills", "prefetch_misses",
};

static uint64_t counts[CORES][EVENTS], now;
static struct cache l1i[CORES], l1d[CORES], l2[CORES], llc;

static struct cache make(const char *text, int slices)
{
	struct cache c = {.slices = slices};
	if (sscanf(text, "%lux%d", &c.sets, &c.ways) != 2) {
		fprintf(stderr, "replay: `%s` is not SETSxWAYS\n", text);
		exit(2);
	}
	c.entries = calloc(c.sets * c.ways + 1, sizeof(*c.entries));
	return c;
}

static uint64_t set_of(const struct cache *c, uint64_t line)
{
	uint64_t within = c->sets / c->slices, slice = 0;
	if (c->slices == 1)
		return line % c->sets;
	for (uint64_t rest = line; rest; rest /= c->slices)
		slice ^= rest % c->slices;
	return slice * within + line % within;
}

static struct entry *find(struct cache *c, uint64_t line)
{
	struct entry *set = c->entries + set_of(c, line) * c->ways;
	for (int i = 0; i < c->ways; i++)
		if (set[i].valid && set[i].line == line)
			return set + i;
	return NULL;
}

/* Puts a line in; returns whether a dirty one left, and which. */
static int put(struct cache *c, uint64_t line, int dirty, uint64_t *victim)
{
	struct entry *set = c->entries + set_of(c, line) * c->ways, *oldest = set;
	for (int i = 0; i < c->ways; i++)
		if (!set[i].valid || (oldest->valid && set[i].used < oldest->used))
			oldest = set[i].valid && !oldest->valid ? oldest : set + i;
	int left = oldest->valid && oldest->dirty;
	*victim = oldest->line;
	*oldest = (struct entry){.line = line, .used = ++now, .valid = 1, .dirty = dirty};
	return left;
}

/* An access; returns whether it hit. */
static int access_line(struct cache *c, uint64_t line, int write, int *left, uint64_t *victim)
{
	struct entry *e = find(c, line);
	*left = 0;
	if (e) {
		e->used = ++now;
		e->dirty |= write;
		return 1;
	}
	*left = put(c, line, write, victim);
	return 0;
}

static void to_llc(int core, uint64_t line)
{
	int left;
	uint64_t victim;
	access_line(&llc, line, 1, &left, &victim);
	counts[core][LLCWB] += left;
}

static void from_llc(int core, uint64_t line, int fetch, int prefetch)
{
	int left;
	uint64_t victim;
	int hit = access_line(&llc, line, 0, &left, &victim);
	counts[core][REFERENCES] += !prefetch;
	counts[core][MISSES] += !hit && !prefetch;
	counts[core][FETCHES] += !hit && fetch;
	counts[core][PREFETCH_MISSES] += !hit && prefetch;
	counts[core][LLCWB] += left;
}

static void to_l2(int core, uint64_t line)
{
	int left;
	uint64_t victim;
	if (!l2[core].ways) {
		to_llc(core, line);
		return;
	}
	access_line(&l2[core], line, 1, &left, &victim);
	if (left) {
		counts[core][L2WB]++;
		to_llc(core, victim);
	}
}

static void from_l2(int core, uint64_t line, int fetch, int prefetch)
{
	int left = 0;
	uint64_t victim;
	if (l2[core].ways) {
		if (access_line(&l2[core], line, 0, &left, &victim))
			return;
		counts[core][L2M] += !prefetch;
	}
	from_llc(core, line, fetch, prefetch);
	if (left) {
		counts[core][L2WB]++;
		to_llc(core, victim);
	}
}

static void reference(int core, uint64_t line, int kind)
{
	int left, write = kind == 1, fetch = kind == 2;
	uint64_t victim;
	if (kind == 4) {
		counts[core][PREFETCHES]++;
		from_l2(core, line, 0, 1);
		return;
	}
	if (access_line(fetch ? &l1i[core] : &l1d[core], line, write, &left, &victim))
		return;
	counts[core][fetch ? L1I : L1D]++;
	from_l2(core, line, fetch, 0);
	if (left)
		to_l2(core, victim);
}

int main(int argc, char **argv)
{
	if (argc != 7) {
		fprintf(stderr, "replay: see the head of tests/board/replay.c\n");
		return 2;
	}
	FILE *file = fopen(argv[1], "rb");
	if (!file) {
		perror(argv[1]);
		return 2;
	}
	for (int i = 0; i < CORES; i++) {
		l1i[i] = make(argv[2], 1);
		l1d[i] = make(argv[3], 1);
		l2[i] = make(argv[4], 1);
	}
	llc = make(argv[5], atoi(argv[6]));
	static uint64_t records[1 << 16];
	uint64_t all = 0;
	size_t n;
	while ((n = fread(records, sizeof(*records), 1 << 16, file)) > 0) {
		for (size_t i = 0; i < n; i++)
			reference(records[i] >> 48 & 0xff, records[i] & ((1ull << 48) - 1),
				  records[i] >> 56);
		all += n;
	}
	fprintf(stderr, "replay: %lu references\n", all);
	for (int core = 0; core < CORES; core++)
		for (int event = 0; event < EVENTS; event++)
			if (counts[core][L1I] + counts[core][L1D])
				printf("%d %s %lu\n", core, names[event], counts[core][event]);
	return 0;
}
