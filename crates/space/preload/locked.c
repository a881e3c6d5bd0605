/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: a plan counts on hits in some pages of a program, and the lines of other pages must not
 * push theirs out (single-core-equivalence, section 2.3, Colored Lockdown). Rule: these pages get
 * frames of colours that no other page has, each of the colour that solocore names. Their addresses
 * are known at the start; those of the program's own anonymous mappings follow from the order in
 * which it makes them. The table here says which addresses these are; pool.c finds the frames. A
 * mapping at the address of an earlier one ends that one's entries. Does not cover: a forked child,
 * whose copies of these pages are ordinary ones; mappings made without libc.
 */
#define _GNU_SOURCE
#include "space.h"

static uint64_t address_of(const struct state *s, uint32_t place)
{
	return s->locks[s->lock_order[place]].address;
}

/* The place in the order of the first locked page at an address or behind it. */
static uint32_t first_from(const struct state *s, uint64_t page)
{
	uint32_t low = 0, high = s->lock_known;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (address_of(s, middle) < page)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The number of the locked page at an address; -1: no page is locked there. */
long lock_at(const struct state *s, uint64_t page)
{
	uint32_t place = first_from(s, page);
	return place < s->lock_known && address_of(s, place) == page ? s->lock_order[place] : -1;
}

/* The number of pages from an address on that get frames of the same kind: a locked one is alone,
 * others end before the next locked one. */
uint64_t lock_run(const struct state *s, uint64_t page, uint64_t pages)
{
	uint32_t place = first_from(s, page);
	if (place >= s->lock_known || address_of(s, place) >= page + pages * PAGE)
		return pages;
	uint64_t before = (address_of(s, place) - page) / PAGE;
	return before ? before : 1;
}

static void know(struct state *s, uint32_t at, uint64_t address)
{
	uint32_t place = first_from(s, address);
	if (place < s->lock_known && address_of(s, place) == address)
		return;
	for (uint32_t i = s->lock_known++; i > place; i--)
		s->lock_order[i] = s->lock_order[i - 1];
	s->lock_order[place] = (uint16_t)at;
	s->locks[at].address = address;
}

/* Reads the locked pages of this process behind the configuration; -1: they are not there. */
int lock_read(struct state *s, long pages)
{
	if (pages > MOST_LOCKED)
		return -1;
	for (long i = 0; i < pages; i++) {
		struct lock *lock = &s->locks[i];
		long at = (long)(sizeof s->config + (size_t)i * sizeof lock->page);
		if (raw(SYS_pread64, s->chosen, &lock->page, sizeof lock->page, at) !=
		    (long)sizeof lock->page)
			return -1;
		s->lock_count++;
		if (!lock->page.number)
			know(s, (uint32_t)i, lock->page.where);
	}
	return 0;
}

/* The program has made a mapping, the one of this number (0: it has none). Returns the number of
 * locked pages that came, or went with an earlier mapping. */
int lock_mapped(struct state *s, uint64_t start, uint64_t end, uint32_t number)
{
	int changed = 0;
	uint32_t from = first_from(s, start), to = first_from(s, end);
	for (uint32_t i = from; number && i < to; i++, changed++) {
		s->locks[s->lock_order[i]].address = 0;
		s->locks[s->lock_order[i]].state = LOCK_OVER;
	}
	if (changed) {
		for (uint32_t i = to; i < s->lock_known; i++)
			s->lock_order[i - (to - from)] = s->lock_order[i];
		s->lock_known -= to - from;
	}
	for (uint32_t i = 0; number && i < s->lock_count; i++) {
		const struct lock *lock = &s->locks[i];
		if (lock->page.number == number && lock->state != LOCK_OVER && !lock->address &&
		    lock->page.where < end - start) {
			know(s, i, start + lock->page.where);
			changed++;
		}
	}
	return changed;
}
