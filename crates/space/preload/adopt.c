/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: pages that are mapped already lie in frames of any colour, and other threads use it.
 * Rule: an anonymous page is taken out with UFFDIO_MOVE, copied, and the copy is put in its place;
 * a thread that touches it meanwhile waits for its fault to be served. A page that fork has shared
 * cannot be taken out: it is write-protected, copied, dropped and replaced. An area that cannot be
 * written to, or is a private mapping of a file, is rebuilt beside its place and moved over it by
 * mremap, which is atomic. Does not cover: shared mappings, mappings of files that are only read
 * and hold no program, pages of the kernel.
 */
#define _GNU_SOURCE
#include "space.h"
#include "uffd.h"

#include <sys/mman.h>

#define EXCLUSIVE (1ul << 56)
/* PG_anon_exclusive shares its number with the former PG_mappedtodisk, now PG_owner_2. */
#define KPF_ANON_EXCLUSIVE 34

static void write_protect(const struct state *s, uint64_t start, uint64_t length, int on)
{
	struct uffdio_protect_ range = {{start, length}, on ? PROTECT_WP : 0};
	raw(SYS_ioctl, s->uffd, UFFDIO_PROTECT_, &range);
}

static void wake(const struct state *s, uint64_t start, uint64_t length)
{
	struct uffd_range range = {start, length};
	raw(SYS_ioctl, s->uffd, UFFDIO_WAKE_, &range);
}

static void drop(uint64_t start, uint64_t length)
{
	if (failed(raw(SYS_madvise, start, length, MADV_DONTNEED_LOCKED_)))
		raw(SYS_madvise, start, length, MADV_DONTNEED);
}

/* Replaces a page that others may share by a copy of this process's own. The page is
 * write-protected, so no thread writes to it between the copy and its end; it is read through
 * /proc/self/mem, which fails where it has gone, and does not wait. */
static int unshare_page(struct state *s, uint64_t page)
{
	uint64_t frame = pool_frame(s, page);
	long moved = 0;
	if (raw(SYS_pread64, s->memory, frame, PAGE, page) == (long)PAGE) {
		drop(page, PAGE);
		moved = pool_place(s, page, 1);
	}
	if (moved <= 0)
		pool_drop(s, frame);
	wake(s, page, PAGE);
	return moved > 0 ? 0 : -1;
}

/* May a device be writing to this page? It is then this process's alone; the others are shared by
 * fork, or were. */
static int pinned(const struct state *s, uint64_t entry)
{
	uint64_t flags;
	if (!s->forked)
		return 1;
	if (!(entry & EXCLUSIVE))
		return 0;
	if (s->kpageflags < 0 ||
	    raw(SYS_pread64, s->kpageflags, &flags, 8, (entry & FRAME_MASK) * 8) != 8)
		return 1;
	return flags >> KPF_ANON_EXCLUSIVE & 1;
}

/* A write to a page that was protected after fork. */
void write_fault(struct state *s, uint64_t page)
{
	uint64_t entry;
	if (raw(SYS_pread64, s->pagemap, &entry, 8, page / PAGE * 8) == 8 && entry & PRESENT &&
	    page_right(s, page, entry & FRAME_MASK) && pinned(s, entry))
		write_protect(s, page, PAGE, 0);
	else
		unshare_page(s, page);
}

/* Pages that could be taken out lie at `out` now: copies of them go where they were. They are held
 * a while, or the kernel would give them again as raw pages. */
static void put_copies(struct state *s, uint64_t page, uint64_t pages)
{
	uint64_t from = pool_frame(s, page), placed = 0;
	copy_bytes((void *)from, (void *)s->out, pages * PAGE);
	while (placed < pages) {
		long n = pool_place(s, page + placed * PAGE, pages - placed);
		if (n > 0) {
			placed += (uint64_t)n;
			continue;
		}
		/* The program has unmapped it, or mapped other pages there: the copies are useless.
		 * */
		pool_drop(s, from + placed * PAGE);
		wake(s, page + placed * PAGE, PAGE);
		placed++;
	}
	s->out += pages * PAGE;
	s->release_at = now_ns() + HOLD_NS;
}

/* Takes a run of wrong pages out, and puts copies in their place. */
void replace_run(struct state *s, uint64_t page, const uint64_t *entries, uint64_t pages)
{
	pool_need(s, pages);
	uint64_t began = now_ns();
	for (uint64_t done = 0; done < pages;) {
		uint64_t n = lock_run(s, page + done * PAGE, pages - done);
		/* A search for a frame may give back pages that lie at `out`. */
		pool_frame(s, page + done * PAGE);
		if (s->out + n * PAGE > s->end)
			pool_release(s, 0);
		long out = move_pages(s, s->out, page + done * PAGE, n);
		if (out == -EINVAL_) {
			/* A locked area: its pages move between locked areas only. */
			raw(SYS_mlock2, s->out, PAGE, 1);
			out = move_pages(s, s->out, page + done * PAGE, 1);
			raw(SYS_munlock, s->out, PAGE);
		}
		if (out > 0) {
			put_copies(s, page + done * PAGE, (uint64_t)out);
			s->moved += (uint64_t)out;
			done += (uint64_t)out;
			continue;
		}
		if (out == -EBUSY_ && !pinned(s, entries[done])) {
			write_protect(s, page + done * PAGE, PAGE, 1);
			if (!unshare_page(s, page + done * PAGE))
				s->moved++;
		} else if (out != -ENOENT_) {
			/* A page that has gone meanwhile does not count. */
			s->stuck++;
		}
		done++;
	}
	s->move_ns += now_ns() - began;
}

/* The kernel's page of zeroes belongs to no colour: a write to it would get a copy from the kernel.
 * */
static int sweep_present(struct state *s, uint64_t start, uint64_t end, int zero)
{
	for (uint64_t at = start; at < end;) {
		uint64_t entries[128];
		uint64_t n = (end - at) / PAGE < 128 ? (end - at) / PAGE : 128;
		if (raw(SYS_pread64, s->pagemap, entries, n * 8, at / PAGE * 8) != (long)(n * 8))
			return -1;
		for (uint64_t i = 0; i < n;) {
			uint64_t run = 0;
			while (i + run < n && entries[i + run] & PRESENT &&
			       (zero || !page_right(s, at + (i + run) * PAGE,
						    entries[i + run] & FRAME_MASK)))
				run++;
			if (run)
				replace_run(s, at + i * PAGE, entries + i, run);
			i += run ? run : 1;
		}
		at += n * PAGE;
	}
	return 0;
}

/* Moves every page of an anonymous, writable area to the right colour. */
int sweep_range(struct state *s, uint64_t start, uint64_t end)
{
	while (start < end) {
		struct pagemap_scan scan = {.size = sizeof scan,
					    .start = start,
					    .end = end,
					    .regions = (uint64_t)s->regions,
					    .region_count = 64,
					    .mask = SCAN_PRESENT,
					    .wanted = SCAN_PRESENT | SCAN_ZERO};
		long n = raw(SYS_ioctl, s->pagemap, PAGEMAP_SCAN_, &scan);
		if (failed(n))
			return -1;
		for (long i = 0; i < n; i++)
			sweep_present(s, s->regions[i].start, s->regions[i].end,
				      (s->regions[i].categories & SCAN_ZERO) != 0);
		if (scan.walk_end <= start)
			break;
		start = scan.walk_end;
	}
	return 0;
}

/* Builds an area again in allowed frames, and moves it over the old one at once. */
static int rebuild(struct state *s, const struct area *area)
{
	uint64_t pages = (area->end - area->start) / PAGE;
	pool_need(s, pages);
	long at = raw(SYS_mmap, 0, pages * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(at))
		return -1;
	register_range(s, (uint64_t)at, (uint64_t)at + pages * PAGE);
	uint64_t began = now_ns();
	for (uint64_t done = 0; done < pages;) {
		long moved = pool_place_for(s, (uint64_t)at + done * PAGE,
					    area->start + done * PAGE, pages - done);
		if (moved <= 0) {
			raw(SYS_munmap, at, pages * PAGE);
			return -1;
		}
		done += (uint64_t)moved;
	}
	/* Reads end at a page that cannot be read, as behind the end of a file. */
	for (uint64_t i = 0; i < pages;) {
		long got = raw(SYS_pread64, s->memory, at + (long)(i * PAGE), (pages - i) * PAGE,
			       area->start + i * PAGE);
		i += got >= (long)PAGE ? (uint64_t)got / PAGE : 1;
	}
	raw(SYS_mprotect, at, pages * PAGE, area->protection);
	long moved = raw(SYS_mremap, at, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			 area->start);
	if (failed(moved)) {
		raw(SYS_munmap, at, pages * PAGE);
		return -1;
	}
	s->moved += pages;
	s->move_ns += now_ns() - began;
	return register_range(s, area->start, area->end);
}

int has_wrong_page(struct state *s, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end;) {
		uint64_t n = (end - at) / PAGE < 512 ? (end - at) / PAGE : 512;
		if (raw(SYS_pread64, s->pagemap, s->entries, n * 8, at / PAGE * 8) != (long)(n * 8))
			return 1;
		for (uint64_t i = 0; i < n; i++)
			if (s->entries[i] & PRESENT &&
			    !page_right(s, at + i * PAGE, s->entries[i] & FRAME_MASK))
				return 1;
		at += n * PAGE;
	}
	return 0;
}

struct range {
	uint64_t start, end;
	int only_objects;
};

static void note_object(struct state *s, const struct area *area, void *argument)
{
	(void)argument;
	if (area->inode && area->private_ && area->protection & PROT_EXEC && s->object_count < 1024)
		s->objects[s->object_count++] = area->inode;
}

static int is_object(const struct state *s, uint64_t inode)
{
	for (uint32_t i = 0; i < s->object_count; i++)
		if (s->objects[i] == inode)
			return 1;
	return 0;
}

static void adopt_area(struct state *s, const struct area *whole, void *argument)
{
	const struct range *range = argument;
	struct area area = *whole;
	if (area.start < range->start)
		area.start = range->start;
	if (area.end > range->end)
		area.end = range->end;
	if (area.start >= area.end || !area.private_ || area.kernel || area.hugetlb ||
	    (area.start >= s->base && area.end <= s->limit))
		return;
	if (!area.anonymous) {
		/* Files that are only read stay in the page cache, which is not the program's. */
		if (is_object(s, area.inode) ? area.protection
					     : area.protection & PROT_WRITE || !range->only_objects)
			rebuild(s, &area);
		return;
	}
	if (area.protection & PROT_WRITE) {
		if (!failed(register_range(s, area.start, area.end)))
			sweep_range(s, area.start, area.end);
	} else if (area.protection && has_wrong_page(s, area.start, area.end)) {
		rebuild(s, &area);
	} else {
		/* A page of such an area is moved when its rights change. */
		register_range(s, area.start, area.end);
	}
}

/* Registers all areas of a range, and moves them to allowed frames. `only_objects`: among the files
 * that cannot be written to, only programs and libraries. */
int adopt_range(struct state *s, uint64_t start, uint64_t end, int only_objects)
{
	struct range range = {start, end, only_objects};
	s->object_count = 0;
	each_area_or_end(s, note_object, 0);
	each_area_or_end(s, adopt_area, &range);
	return 0;
}

/* Registers a new anonymous mapping. It has no pages yet, except after mlockall(MCL_FUTURE). */
void adopt_new(struct state *s, uint64_t start, uint64_t end)
{
	if (!failed(register_range(s, start, end)))
		sweep_range(s, start, end);
}

static void protect_area(struct state *s, const struct area *area, void *argument)
{
	(void)argument;
	/* In a child, no area is registered yet. */
	if (area->private_ && area->anonymous && !area->kernel && area->protection & PROT_WRITE &&
	    !(area->start >= s->base && area->end <= s->limit) &&
	    !register_range(s, area->start, area->end))
		write_protect(s, area->start, area->end - area->start, 1);
}

/* After fork: the first write to a page must not get a copy from the kernel. */
void protect_all(struct state *s)
{
	each_area_or_end(s, protect_area, 0);
}
