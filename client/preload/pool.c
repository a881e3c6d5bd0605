/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the kernel gives any frame; the program may have only those of its colours and banks (MC2 3.2,
 * MARACAS IV-D). Rule: take more pages than are needed, look at their frames in /proc/self/pagemap, move
 * those that are allowed (UFFDIO_MOVE, Linux 6.8) into a queue, and give the rest back. A page is put where a
 * thread faulted by moving it again. Does not cover: frames that the kernel changes later (compaction); see
 * CAVEATS.md.
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

/* Pages that a fault may make the pool get beyond its own. */
#define MOST_AT_ONCE 8192
#define FRAME_MASK ((1ul << 55) - 1)

int frame_allowed(const struct config *config, uint64_t frame)
{
	uint32_t class = 0;
	for (uint32_t i = 0; i < config->functions; i++)
		class |= (uint32_t)__builtin_parityl((frame * PAGE) & config->masks[i]) << i;
	return config->classes[class / 8] >> (class % 8) & 1;
}

int config_read(struct config *config, const char *path)
{
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (failed(fd))
		return -1;
	long got = raw(SYS_read, fd, config, sizeof *config);
	raw(SYS_close, fd);
	return got == (long)sizeof *config && config->magic == CONFIG_MAGIC &&
			       config->functions <= MAX_FUNCTIONS && config->allowed_classes > 0
		       ? 0
		       : -1;
}

/* The process must not go on in frames that are not its own. */
void give_up(struct state *s, const char *why)
{
	send_packet(s, PACKET_FAILED, why);
	for (;;)
		raw(SYS_kill, raw(SYS_getpid, 0), SIGKILL);
}

int register_range(const struct state *s, uint64_t start, uint64_t end)
{
	struct uffdio_register range = {{start, end - start}, REGISTER_MISSING | REGISTER_WP, 0};
	/* Huge pages would span all colours. */
	raw(SYS_madvise, start, end - start, MADV_NOHUGEPAGE);
	return (int)raw(SYS_ioctl, s->uffd, UFFDIO_REGISTER_, &range);
}

/* Moves pages to where none are: how many, or -errno if not even the first. */
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

static uint64_t available_bytes(void)
{
	/* The line is the third. */
	char text[256];
	long fd = raw(SYS_openat, AT_FDCWD, "/proc/meminfo", O_RDONLY | O_CLOEXEC);
	if (failed(fd))
		return 0;
	long got = raw(SYS_read, fd, text, sizeof text - 1);
	raw(SYS_close, fd);
	text[got > 0 ? got : 0] = 0;
	for (const char *p = text; *p; p++) {
		if ((p == text || p[-1] == '\n') && starts_with(p, "MemAvailable:")) {
			uint64_t kib = 0;
			for (p += 13; *p == ' '; p++)
				;
			for (; *p >= '0' && *p <= '9'; p++)
				kib = kib * 10 + (uint64_t)(*p - '0');
			return kib * 1024;
		}
	}
	return 0;
}

/* The queue moves up as it is used; before its room ends, what is left goes to the start again. */
static void rewind_queue(struct state *s, uint64_t pages)
{
	if (s->head == s->tail)
		s->head = s->tail = s->floor;
	if (s->tail + pages * PAGE <= s->end || s->head == s->floor)
		return;
	uint64_t to = s->floor;
	while (s->head < s->tail && to < s->head) {
		uint64_t n = (s->tail - s->head) / PAGE;
		n = n < (s->head - to) / PAGE ? n : (s->head - to) / PAGE;
		long moved = move_pages(s, to, s->head, n);
		if (moved <= 0)
			give_up(s,
				"the queue of free pages cannot be moved; this is a mistake of solocore's");
		to += (uint64_t)moved * PAGE;
		s->head += (uint64_t)moved * PAGE;
	}
	s->head = s->floor;
	s->tail = to;
}

/* Moves the allowed pages of a raw area to the queue. */
static int keep_allowed(struct state *s, uint64_t start, uint64_t pages)
{
	for (uint64_t at = 0; at < pages;) {
		uint64_t n = pages - at < 512 ? pages - at : 512;
		long got = raw(SYS_pread64, s->pagemap, s->entries, n * 8, (start / PAGE + at) * 8);
		if (got <= 0)
			return -1;
		n = (uint64_t)got / 8;
		for (uint64_t i = 0; i < n;) {
			uint64_t run = 0;
			while (i + run < n && frame_allowed(&s->config, s->entries[i + run] & FRAME_MASK))
				run++;
			if (!run) {
				i++;
				continue;
			}
			long moved = move_pages(s, s->tail, start + (at + i) * PAGE, run);
			if (moved == -EEXIST_) {
				/* Nothing lies beyond the queue that anybody needs. */
				raw(SYS_madvise, s->tail, run * PAGE, MADV_DONTNEED_LOCKED_);
				moved = move_pages(s, s->tail, start + (at + i) * PAGE, run);
			}
			if (moved > 0)
				s->tail += (uint64_t)moved * PAGE;
			/* A page that does not move (pinned by nobody knows whom) goes back with the rest. */
			i += moved > 0 ? (uint64_t)moved : 1;
		}
		at += n;
	}
	return 0;
}

/* Writes to so many pages; a signal, or memory that is being freed, only delays it. */
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

/* One more raw area: what is allowed of it goes to the queue, the rest is kept in `areas`. */
static int take_area(struct state *s, uint64_t pages)
{
	if (available_bytes() < s->config.reserve + pages * PAGE) {
		s->why = "less memory is free than it would have to look through for frames of its colours "
			 "and banks; "
			 "give it more of them, or end other programs";
		return -1;
	}
	rewind_queue(s, pages);
	s->why = "no memory is left in its colours and banks; give it more of them, or end other programs";
	if (s->tail + pages * PAGE > s->end || s->area_count == RAW_AREAS)
		return -1;
	long area = raw(SYS_mmap, 0, pages * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(area)) {
		s->why = "no more memory can be mapped; raise vm.max_map_count or the limit on addresses "
			 "(ulimit -v)";
		return -1;
	}
	s->areas[s->area_count].start = (uint64_t)area;
	s->areas[s->area_count++].length = pages * PAGE;
	raw(SYS_madvise, area, pages * PAGE, MADV_NOHUGEPAGE);
	if (populate((uint64_t)area, pages * PAGE)) {
		s->why = "the kernel has no memory for it; end other programs, or raise the limit of its "
			 "memory cgroup";
		return -1;
	}
	return keep_allowed(s, (uint64_t)area, pages);
}

/* At least so many pages in the queue; -1, and the reason in `why`, if there are not. What is not allowed is
 * kept until the end, or the kernel would give the same frames again. */
int pool_fill(struct state *s, uint64_t pages)
{
	uint64_t classes = 1ul << s->config.functions, looked = 0;
	uint64_t before = (s->tail - s->head) / PAGE;
	while ((s->tail - s->head) / PAGE < pages) {
		uint64_t want = pages - (s->tail - s->head) / PAGE;
		uint64_t found = (s->tail - s->head) / PAGE - before;
		/* As many as its share of all frames says; later, as the yield so far says: what others have
		 * just given back comes first, and may be all of one colour. */
		uint64_t take = want * classes / s->config.allowed_classes;
		if (looked)
			take = found * 16 > looked * s->config.allowed_classes / classes
				       ? want * looked / found
				       : looked * 2;
		take = (take + take / 8 + 511) & ~511ul;
		take = take < 65536 ? take : 65536;
		/* Not one in 1 GiB, and 64 times what it should take: there are none, whatever is left of
		 * the memory. */
		if (looked >= 262144 + 64 * classes / s->config.allowed_classes && !found) {
			s->why = "no frame that the kernel gives has its colours and banks; does the map "
				 "belong to this "
				 "machine? Choose others";
			break;
		}
		if (take_area(s, take))
			break;
		looked += take;
	}
	for (uint32_t i = 0; i < s->area_count; i++)
		raw(SYS_munmap, s->areas[i].start, s->areas[i].length);
	s->area_count = 0;
	return (s->tail - s->head) / PAGE >= pages ? 0 : -1;
}

/* So many pages in the queue, and more if it has to be filled, as it will have to be again. */
void pool_need(struct state *s, uint64_t pages)
{
	if ((s->tail - s->head) / PAGE >= pages)
		return;
	uint64_t more = pages > s->grow ? pages : s->grow;
	s->grow = s->grow * 2 < MOST_AT_ONCE ? s->grow * 2 : MOST_AT_ONCE;
	if (pool_fill(s, more) && pool_fill(s, pages))
		give_up(s, s->why);
}

/* One page into an area that the pool's own differs from: locked, or with other rights. */
static long place_in_other_area(struct state *s, uint64_t to)
{
	struct area area;
	uint64_t from = s->head;
	long moved;
	raw(SYS_mlock2, from, PAGE, 1 /* MLOCK_ONFAULT */);
	moved = move_pages(s, to, from, 1);
	raw(SYS_munlock, from, PAGE);
	if (moved != -EINVAL_ || area_at(s, to, &area))
		return moved;
	int writable = PROT_READ | PROT_WRITE;
	if ((area.protection & writable) == writable) {
		raw(SYS_mprotect, from, PAGE, area.protection);
		moved = move_pages(s, to, from, 1);
		raw(SYS_mprotect, from, PAGE, writable);
		return moved;
	}
	/* Pages move between writable areas only. */
	raw(SYS_mprotect, to, PAGE, writable);
	moved = move_pages(s, to, from, 1);
	raw(SYS_mprotect, to, PAGE, area.protection);
	return moved;
}

/* Puts up to so many pages of the queue where none are, and wakes who waits: how many (0: there was one), or
 * -errno. */
long pool_place(struct state *s, uint64_t to, uint64_t pages)
{
	pool_need(s, pages);
	long moved = move_pages(s, to, s->head, pages);
	if (moved < 0 && moved != -EEXIST_ && pages > 1)
		moved = move_pages(s, to, s->head, 1);
	if (moved == -EINVAL_)
		moved = place_in_other_area(s, to);
	if (moved == -EEXIST_)
		return 0;
	if (moved > 0)
		s->head += (uint64_t)moved * PAGE;
	return moved;
}
