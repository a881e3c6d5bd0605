/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: a page that a pipe or socket refers to must not change before it is read, and nobody
 * tells the sender of that. Rule: the kernel says how many bytes are unread, by whomever they were
 * sent. They come out in the order in which they went in, so of this process's own bytes at most
 * that many are unread, and they are its latest ones. All pages that were filled before are free.
 * A page whose pieces are short takes the next ones behind them, each from a line of the cache on.
 * Memory that a fork copies is not shared: a child has no ring. Dropping a ring is always right: a
 * page stays until the pipe that refers to it has lost it. Does not cover: readers that keep a page
 * itself (splice, tee), which mark the pipe before (pipe_calls.c).
 */
#define _GNU_SOURCE
#include "hooks.h"
#include "pipes.h"

#include <string.h>
#include <sys/mman.h>

#define LINE 64ul

/* -1: there is no memory. */
int ring_make(struct ring *ring)
{
	uint64_t size = RING_PAGES * PAGE;
	if (ring->pages)
		return 0;
	long at =
		raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return -1;
	raw(SYS_madvise, at, size, MADV_DONTFORK);
	raw(SYS_madvise, at, size, MADV_NOHUGEPAGE);
	name_memory((uint64_t)at, size, "solocore-pipe");
	call_handler(REQUEST_REGISTER, (void *)at, size, 0);
	zero_bytes(ring, sizeof *ring);
	ring->fill = PAGE;
	ring->pages = (char *)at;
	return 0;
}

void ring_drop(struct ring *ring)
{
	if (ring->pages)
		raw(SYS_munmap, ring->pages, RING_PAGES * PAGE);
	ring->pages = 0;
}

/* So many bytes are unread. */
void ring_read(struct ring *ring, uint64_t unread)
{
	uint64_t gone = unread < ring->sent ? ring->sent - unread : 0;
	ring->gone = gone > ring->gone ? gone : ring->gone;
}

/* May another short piece be sent? */
int ring_room_for_short(const struct ring *ring)
{
	return ring->ends[ring->shorts] <= ring->gone;
}

static int is_free(const struct ring *ring, unsigned page)
{
	return ring->last[page] <= ring->gone;
}

static int fits(const struct ring *ring, size_t length)
{
	return ring->fill + length <= PAGE;
}

/* Pages that are needed for bytes, at most AT_ONCE. */
static unsigned pages_for(size_t length)
{
	size_t pages = (length + PAGE - 1) / PAGE;
	return pages < AT_ONCE ? (unsigned)pages : AT_ONCE;
}

/* 2: there is room for these bytes, or for AT_ONCE pages of them, in pages that were used before;
 * 1: in others; 0: there is none. */
unsigned ring_has_room(const struct ring *ring, size_t length)
{
	unsigned wanted = pages_for(length), found = 0;
	if (wanted == 1 && fits(ring, length))
		return 2;
	for (unsigned page = 0; page < RING_PAGES; page++) {
		found += (unsigned)is_free(ring, page);
		if (found == wanted)
			return page < ring->made ? 2 : 1;
	}
	return 0;
}

static void copy(struct gather *from, char *to, size_t bytes)
{
	while (bytes) {
		size_t here = from->part->iov_len - from->in_part;
		here = here < bytes ? here : bytes;
		memcpy(to, (const char *)from->part->iov_base + from->in_part, here);
		gather_skip(from, here);
		to += here;
		bytes -= here;
	}
}

/* Goes on behind these bytes, to the next part that has any. */
void gather_skip(struct gather *gather, size_t bytes)
{
	gather->left -= bytes;
	for (;;) {
		size_t here = gather->part->iov_len - gather->in_part;
		if (bytes < here) {
			gather->in_part += bytes;
			return;
		}
		bytes -= here;
		if (!gather->left)
			return;
		gather->part++;
		gather->in_part = 0;
	}
}

/* Copies the next bytes into pieces, for which there is room. Up to a page, they are one piece. */
void ring_fill(struct ring *ring, struct gather from, struct pieces *pieces)
{
	unsigned wanted = pages_for(from.left), page = 0;
	pieces->count = 0;
	if (wanted == 1 && fits(ring, from.left)) {
		pieces->at[0].iov_base = ring->pages + ring->page * PAGE + ring->fill;
		pieces->at[0].iov_len = from.left;
		pieces->pages[0] = ring->page;
		pieces->count = 1;
		copy(&from, pieces->at[0].iov_base, from.left);
		return;
	}
	for (; page < RING_PAGES && pieces->count < wanted; page++) {
		if (!is_free(ring, page))
			continue;
		struct iovec *at = &pieces->at[pieces->count];
		at->iov_base = ring->pages + page * PAGE;
		at->iov_len = from.left < PAGE ? from.left : PAGE;
		pieces->pages[pieces->count++] = page;
		copy(&from, at->iov_base, at->iov_len);
		ring->made = ring->made > page ? ring->made : page + 1;
	}
}

/* The first bytes of the pieces are sent. */
void ring_sent(struct ring *ring, const struct pieces *pieces, size_t bytes)
{
	for (unsigned i = 0; i < pieces->count && bytes; i++) {
		const struct iovec *at = &pieces->at[i];
		unsigned page = pieces->pages[i];
		size_t piece = at->iov_len < bytes ? at->iov_len : bytes;
		size_t end = ((size_t)at->iov_base & (PAGE - 1)) + piece;
		ring->sent += piece;
		ring->last[page] = ring->sent;
		ring->page = page;
		ring->fill = (unsigned)((end + LINE - 1) & ~(LINE - 1));
		if (piece < SHORT_PIECE) {
			ring->ends[ring->shorts] = ring->sent;
			ring->shorts = (ring->shorts + 1) % MOST_SHORT;
		}
		bytes -= piece;
	}
}
