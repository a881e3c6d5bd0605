/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the kernel gives any frame; the program may have only those of its colours and banks
 * (MC2 3.2, MARACAS IV-D). Rule: take more pages than are needed, read their frames from
 * /proc/self/pagemap, move those that are allowed (UFFDIO_MOVE, Linux 6.8) into a queue, and give
 * the rest back. A page is put where a thread faulted by moving it again. A reserve, if there is
 * one, frees frames on the CPU of this thread, which stays there: they are what the kernel gives
 * next. Does not cover: frames that the kernel changes later (compaction); see CAVEATS.md.
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <fcntl.h>
#include <sys/mman.h>

/* Pages that a fault may make the pool get beyond its own. */
#define MOST_AT_ONCE 2048
/* Most pages between two checks of the remaining memory; fewer if the search should take fewer. */
#define STEP 8192
/* Most frames that a reserve frees at a time: of more, some would leave the list of this CPU, and
 * others would get them. Then the times that most of them may not come here. */
#define LENT_AT_ONCE PIECE
#define TRIES 8

static uint32_t frame_class(const struct config *config, uint64_t frame)
{
	uint32_t class = 0;
	for (uint32_t i = 0; i < config->functions; i++)
		class |= (uint32_t)__builtin_parityl((frame * PAGE) & config->masks[i]) << i;
	return class;
}

static int class_allowed(const struct config *config, uint32_t class)
{
	return config->classes[class / 8] >> (class % 8) & 1;
}

int frame_allowed(const struct config *config, uint64_t frame)
{
	return class_allowed(config, frame_class(config, frame));
}

/* May a locked page of this colour have a frame of this class? */
static int class_locks(const struct config *config, uint32_t class, uint32_t colour)
{
	uint32_t mask = (uint32_t)config->lock_mask;
	return (class & mask) == colour &&
	       class_allowed(config, (class & ~mask) | (uint32_t)config->lock_rest);
}

/* Is this the right frame for the page at an address? */
int page_right(const struct state *s, uint64_t page, uint64_t frame)
{
	long at = lock_at(s, page);
	return at < 0 ? frame_allowed(&s->config, frame)
		      : class_locks(&s->config, frame_class(&s->config, frame),
				    s->locks[at].page.colour);
}

int config_read(struct config *config, int fd)
{
	long got = raw(SYS_pread64, fd, config, sizeof *config, 0);
	return got == (long)sizeof *config && config->magic == CONFIG_MAGIC &&
			       config->functions <= MAX_FUNCTIONS && config->allowed_classes > 0
		       ? 0
		       : -1;
}

int register_range(const struct state *s, uint64_t start, uint64_t end)
{
	struct uffdio_register range = {{start, end - start}, REGISTER_MISSING | REGISTER_WP, 0};
	/* Huge pages would span all colours. */
	raw(SYS_madvise, start, end - start, MADV_NOHUGEPAGE);
	return (int)raw(SYS_ioctl, s->uffd, UFFDIO_REGISTER_, &range);
}

/* Moves pages to addresses without pages; returns their number, or -errno if the first fails. */
long move_pages(const struct state *s, uint64_t to, uint64_t from, uint64_t pages)
{
	struct uffdio_move_ move = {to, from, pages * PAGE, 0, 0};
	for (int tries = 0; tries < 64; tries++) {
		long result = raw(SYS_ioctl, s->uffd, UFFDIO_MOVE_, &move);
		if (!failed(result))
			return (long)pages;
		if (move.moved > 0)
			return move.moved / (long)PAGE;
		if (result != -EAGAIN_ && move.moved != -EAGAIN_)
			return failed(move.moved) && move.moved ? move.moved : result;
		move.moved = 0;
	}
	return -EAGAIN_;
}

/* The queue moves up as it is used; before its room ends, the rest goes to the start again. */
static void rewind_queue(struct state *s, uint64_t pages)
{
	if (s->head == s->tail)
		s->head = s->tail = s->floor;
	if (s->tail + pages * PAGE <= s->outside || s->head == s->floor)
		return;
	uint64_t to = s->floor;
	while (s->head < s->tail && to < s->head) {
		uint64_t n = (s->tail - s->head) / PAGE;
		n = n < (s->head - to) / PAGE ? n : (s->head - to) / PAGE;
		long moved = move_pages(s, to, s->head, n);
		if (moved <= 0)
			give_up(s, "the queue of free pages cannot be moved; this is a mistake of "
				   "solocore's");
		to += (uint64_t)moved * PAGE;
		s->head += (uint64_t)moved * PAGE;
	}
	s->head = s->floor;
	s->tail = to;
}

/* Writes to all pages of a range; a signal, or memory that is being freed, only delays it. */
static int populate(uint64_t start, uint64_t bytes)
{
	for (int tries = 0; tries < 100; tries++) {
		long result = raw(SYS_madvise, start, bytes, MADV_POPULATE_WRITE_);
		if (!failed(result))
			return 0;
		if (result != -EINTR_ && result != -EAGAIN_)
			break;
	}
	return -1;
}

/* Moves a run to the queue; pages that lie there already are not needed. */
static uint64_t keep_run(struct state *s, uint64_t from, uint64_t pages)
{
	long moved = move_pages(s, s->tail, from, pages);
	if (moved == -EEXIST_) {
		raw(SYS_madvise, s->tail, pages * PAGE, MADV_DONTNEED_LOCKED_);
		moved = move_pages(s, s->tail, from, pages);
	}
	if (moved <= 0)
		return 0;
	s->tail += (uint64_t)moved * PAGE;
	return (uint64_t)moved;
}

/* Takes raw pages from the kernel, and reads their frames; -1: the kernel gives none. */
static int take_raw(struct state *s, uint64_t start)
{
	return populate(start, PIECE * PAGE) || raw(SYS_pread64, s->pagemap, s->entries, PIECE * 8,
						    start / PAGE * 8) != PIECE * 8
		       ? -1
		       : 0;
}

/* Takes raw pages from the kernel, and moves the allowed ones to the queue; returns their number,
 * or -1 if the kernel gives none. */
static long look_through(struct state *s, uint64_t start)
{
	long kept = 0;
	if (take_raw(s, start))
		return -1;
	for (uint64_t i = 0; i < PIECE;) {
		uint64_t run = 0;
		while (i + run < PIECE && s->entries[i + run] & PRESENT &&
		       frame_allowed(&s->config, s->entries[i + run] & FRAME_MASK))
			run++;
		/* A page that does not move (pinned by an unknown user) stays in its place. */
		uint64_t moved = run ? keep_run(s, start + i * PAGE, run) : 0;
		kept += (long)moved;
		i += moved ? moved : 1;
	}
	return kept;
}

/* Gives back the held pages, except for `most` of each kind; with 0, also direct.c's. */
void pool_release(struct state *s, uint64_t most)
{
	/* In pieces, as threads of the program that map memory have to wait meanwhile. */
	while (s->raw > s->end + most * PAGE) {
		s->raw -= PIECE * PAGE;
		raw(SYS_madvise, s->raw, PIECE * PAGE, MADV_DONTNEED_LOCKED_);
	}
	while (s->out > s->outside + most * PAGE) {
		uint64_t pages = (s->out - s->outside) / PAGE;
		pages = pages < PIECE ? pages : PIECE;
		s->out -= pages * PAGE;
		raw(SYS_madvise, s->out, pages * PAGE, MADV_DONTNEED_LOCKED_);
	}
	if (s->zeroes_there && !most)
		raw(SYS_madvise, s->zeroes, ZEROES_PAGES * PAGE, MADV_DONTNEED_LOCKED_);
	s->zeroes_there = s->zeroes_there && most;
}

int pool_holds(const struct state *s)
{
	return s->raw > s->end || s->out > s->outside || s->zeroes_there;
}

/* Keeps this thread on a CPU, or (0) on the one where it runs; returns the bytes of `cpus`, where
 * it might run before, or -1. */
long stay_on(const uint32_t *cpu, unsigned long *cpus, size_t size)
{
	unsigned long only[MOST_CPUS / 64];
	unsigned at = 0;
	long bytes = raw(SYS_sched_getaffinity, 0, size, cpus);
	if (failed(bytes) || (!cpu && failed(raw(SYS_getcpu, &at, 0, 0))))
		return -1;
	at = cpu ? *cpu : at;
	if (at >= MOST_CPUS)
		return -1;
	zero_bytes(only, sizeof only);
	only[at / 64] = 1ul << at % 64;
	return failed(raw(SYS_sched_setaffinity, 0, bytes, only)) ? -1 : bytes;
}

/* One search of pool_fill(). */
struct search {
	uint64_t pages;		/* that the queue is to have at least */
	uint64_t looked, found; /* raw pages so far, and of these the allowed ones */
	uint64_t most;		/* raw pages after which there are none, if none was found */
	uint64_t allowance;	/* raw pages that may be taken before the next check */
	uint64_t given, before; /* frames that the reserve freed last; found before that */
	uint64_t last;		/* allowed ones of the last PIECE */
	int tries;		/* times that the reserve may still free some in vain */
};

static uint64_t queued(const struct state *s)
{
	return (s->tail - s->head) / PAGE;
}

/* May this number of further raw pages be taken? If not, `why` has the reason. `patient`: even if
 * the last ones gave no page. `others`: bytes that are left to others. */
static int may_take(struct state *s, uint64_t pages, int patient, uint64_t others)
{
	uint64_t need = pages * PAGE, room = memory_room(need, others);
	rewind_queue(s, pages);
	s->why = "no memory is left in its colours and banks; give it more of them, or end other "
		 "programs";
	if (s->tail + need > s->outside)
		return 0;
	if (room < need || s->raw + need > s->zeroes) {
		/* Pages that were given back come again, possibly in another order; the search must
		 * end. */
		int barren = !patient && s->found * 16 * (1ul << s->config.functions) <
						 s->looked * s->config.allowed_classes;
		pool_release(s, 0);
		s->looked = s->found = 0;
		room = barren ? 0 : memory_room(need, others);
	}
	s->hold = room / PAGE < HOLD_MOST ? room / PAGE / PIECE * PIECE : HOLD_MOST;
	s->why = "less memory is free, or left to its cgroup, than it would have to look through "
		 "for frames "
		 "of its colours and banks; give it more of them, or end other programs";
	return room >= need;
}

/* Asks the reserve for the missing pages; returns the number of frames that it has freed. */
static uint64_t borrow(struct state *s, struct search *search, uint64_t missing)
{
	/* Another program may have been quicker. The reserve has more, but not for ever. */
	if (search->given && (search->found - search->before) * 2 < search->given)
		search->tries--;
	if (search->tries <= 0)
		return 0;
	search->before = search->found;
	/* Whole pieces are looked through in any case: frames beyond the missing ones wait. */
	missing = (missing + PIECE - 1) / PIECE * PIECE;
	search->given = ask_for_pages(s, missing < LENT_AT_ONCE ? missing : LENT_AT_ONCE);
	if (!search->given)
		search->tries = 0;
	return search->given;
}

/* Begins the next step of a search; 0: there must be none, for the reason in `why`. */
static int next_step(struct state *s, struct search *search)
{
	uint64_t missing = search->pages - queued(s), given = borrow(s, search, missing);
	uint64_t want = missing * (1ul << s->config.functions) / s->config.allowed_classes;
	/* What the reserve has freed is the program's: the others have as much as before. */
	uint64_t others = given ? 0 : s->config.reserve;
	want = given ? (given + PIECE - 1) / PIECE * PIECE : (want + PIECE) / PIECE * PIECE;
	search->allowance = want < STEP ? want : STEP;
	return may_take(s, search->allowance, given || search->looked < search->most / 4, others);
}

static const char no_memory[] = "the kernel has no memory for it; end other programs, or raise the "
				"limit of its memory cgroup";

/* Searches until the queue has enough pages, or there are no more. */
static void look_for(struct state *s, struct search *search)
{
	while (queued(s) < search->pages) {
		if (search->looked >= search->most && !search->found) {
			s->why = "no frame that the kernel gives has its colours and banks; does "
				 "the map "
				 "belong to this machine? Choose others";
			return;
		}
		if (!search->allowance && !next_step(s, search))
			return;
		long kept = look_through(s, s->raw);
		s->raw += PIECE * PAGE;
		if (kept < 0) {
			s->why = no_memory;
			return;
		}
		search->last = (uint64_t)kept;
		search->found += (uint64_t)kept;
		search->looked += PIECE;
		s->found += (uint64_t)kept;
		s->looked += PIECE;
		search->allowance -= PIECE;
	}
}

/* Raw pages after which there are none of this number of classes, if none was found: 1 GiB, and 64
 * times the expected number, even if memory is left. Pages that others have just given back come
 * first, and may all be of one colour. A start with a smaller share of the classes than a quarter
 * has given back more; it looks at most four times through the memory that it may take. */
static uint64_t most_looked(const struct state *s, uint64_t classes)
{
	uint64_t share = (1ul << s->config.functions) / classes, least = 262144 + 64 * share;
	if (share <= 4)
		return least;
	uint64_t more = 262144 * (share / 4) + 64 * share;
	uint64_t most = 4 * memory_room(s->end - s->outside, s->config.reserve) / PAGE;
	more = more < most ? more : most;
	return more > least ? more : least;
}

/* Fills the queue to at least `pages` pages; -1, with the reason in `why`, if it fails. Pages that
 * are not allowed are held for a while, or the kernel would give the same frames again. */
int pool_fill(struct state *s, uint64_t pages)
{
	struct search search = {.pages = pages, .tries = s->config.lends ? TRIES : 0};
	search.most = most_looked(s, s->config.allowed_classes);
	unsigned long cpus[MOST_CPUS / 64];
	long size = s->config.lends ? stay_on(0, cpus, sizeof cpus) : -1;
	s->looked = s->found = 0;
	look_for(s, &search);
	if (size > 0)
		raw(SYS_sched_setaffinity, 0, size, cpus);
	s->direct = search.last * 4 >= PIECE * 3;
	pool_release(s, s->hold);
	s->release_at = now_ns() + HOLD_NS;
	return queued(s) >= pages ? 0 : -1;
}

/* The first locked page that waits for a frame of this class; -1: none does. */
static long waits_for(const struct state *s, uint32_t class)
{
	for (uint32_t i = 0; i < s->lock_count; i++)
		if (s->locks[i].state == LOCK_WAITS &&
		    class_locks(&s->config, class, s->locks[i].page.colour))
			return (long)i;
	return -1;
}

static uint32_t waiting(const struct state *s)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < s->lock_count; i++)
		count += s->locks[i].state == LOCK_WAITS;
	return count;
}

/* Classes of each colour that may be for locked pages. */
static uint64_t classes_of_colour(const struct config *config)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < 1u << config->functions; i++)
		count += (uint64_t)class_locks(config, i, (uint32_t)config->lock_rest);
	return count ? count : 1;
}

/* Moves raw pages for which locked pages wait to the stash; returns their number. */
static uint64_t keep_locked(struct state *s, uint64_t start)
{
	uint64_t kept = 0;
	for (uint64_t i = 0; i < PIECE; i++) {
		long at =
			s->entries[i] & PRESENT
				? waits_for(s, frame_class(&s->config, s->entries[i] & FRAME_MASK))
				: -1;
		if (at < 0)
			continue;
		uint64_t place = s->stash + (uint64_t)at * PAGE;
		raw(SYS_madvise, place, PAGE, MADV_DONTNEED_LOCKED_);
		if (move_pages(s, place, start + i * PAGE, 1) == 1) {
			s->locks[at].state = LOCK_READY;
			kept++;
		}
	}
	return kept;
}

static int look_for_locked(struct state *s)
{
	uint64_t most = most_looked(s, classes_of_colour(&s->config)), looked = 0, vain = 0;
	while (waiting(s)) {
		if (vain >= most) {
			s->why = "no frame that the kernel gives has the colours of its locked "
				 "pages; end other programs, or lock fewer pages";
			return -1;
		}
		if (looked % STEP == 0) {
			uint64_t given = ask_for_pages(s, LENT_AT_ONCE);
			if (!may_take(s, STEP, 1, given ? 0 : s->config.reserve))
				return -1;
		}
		if (take_raw(s, s->raw)) {
			s->why = no_memory;
			return -1;
		}
		vain = keep_locked(s, s->raw) ? 0 : vain + PIECE;
		s->raw += PIECE * PAGE;
		looked += PIECE;
	}
	return 0;
}

/* Finds a frame for each locked page that waits; -1, with the reason in `why`, if it fails. */
int pool_fill_locked(struct state *s)
{
	unsigned long cpus[MOST_CPUS / 64];
	if (!waiting(s))
		return 0;
	long size = s->config.lends ? stay_on(0, cpus, sizeof cpus) : -1;
	int result = look_for_locked(s);
	if (size > 0)
		raw(SYS_sched_setaffinity, 0, size, cpus);
	pool_release(s, s->hold);
	s->release_at = now_ns() + HOLD_NS;
	return result;
}

/* Frames of the stash that the kernel has moved are given up, and others are looked for. The
 * program does not use these pages yet: without a frame, it ends when it does. */
void pool_check_locked(struct state *s)
{
	for (uint32_t i = 0; i < s->lock_count; i++) {
		uint64_t entry = 0, place = s->stash + i * PAGE;
		if (s->locks[i].state != LOCK_READY)
			continue;
		raw(SYS_pread64, s->pagemap, &entry, 8, place / PAGE * 8);
		if (!(entry & PRESENT) ||
		    !class_locks(&s->config, frame_class(&s->config, entry & FRAME_MASK),
				 s->locks[i].page.colour))
			s->locks[i].state = LOCK_WAITS;
	}
	pool_fill_locked(s);
}

/* Makes sure that the queue has this number of pages. */
void pool_need(struct state *s, uint64_t pages)
{
	if (queued(s) < pages && pool_fill(s, pages))
		give_up(s, s->why);
}

/* Pages to get at once if a fault needs this number: twice as many each time, as further faults are
 * likely. */
uint64_t pool_ahead(struct state *s, uint64_t pages)
{
	uint64_t more = pages > s->grow ? pages : s->grow;
	uint64_t most = s->config.lends ? LENT_AT_ONCE : MOST_AT_ONCE;
	s->grow = s->grow * 2 < most ? s->grow * 2 : most;
	return more;
}

int pool_has(const struct state *s, uint64_t pages)
{
	return queued(s) >= pages;
}

/* The same for a fault; more pages if the queue has to be filled, as further faults are likely. */
void pool_expect(struct state *s, uint64_t pages)
{
	if (pool_has(s, pages))
		return;
	if (pool_fill(s, pool_ahead(s, pages)))
		pool_need(s, pages);
}
