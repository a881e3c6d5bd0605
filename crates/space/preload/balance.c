/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the kernel gives the frames again that were freed last. If those are of a few of the
 * program's colours, as after a program of these colours alone, the program would lie in a small
 * part of its cache, and miss more often than its profile says. Rule: no colour gets much more than
 * an equal share of the frames. Of a large program only the first frames are chosen strictly: its
 * data do not fit into the cache, and each choice costs time. Frames beyond a share are not taken,
 * as if they were of other colours. The library is patient for a number of such frames, which grows
 * with each frame that it takes. After these it takes any frame: others may have the rest, and the
 * search must end. Shares are of the first bits of a class, which are its colour
 * (crates/space/src/map.rs). Does not cover: frames that a reserve lends, which it chooses; an
 * order of the pages among the frames.
 */
#define _GNU_SOURCE
#include "space.h"

/* Frames beyond their share that are not taken, and that a taken one adds. */
#define PATIENCE 32768ul
#define MORE_PATIENCE 2
/* Frames beyond the equal share that a colour may have; and the same as a part of it. */
#define SLACK 16
#define SLACK_PART 2
/* Frames over which shares are counted, at least; the same behind the first frames of a program,
 * where a colour may have three times its share. */
#define WINDOW PIECE
#define FIRST 8192ul
#define LATER_WINDOW 8192ul

static uint32_t colour_of(uint32_t class)
{
	return class % COLOURS;
}

/* Begins to count: there is a configuration, or a new one. */
void balance_begin(struct state *s)
{
	s->patience = PATIENCE;
	s->taken_all = 0;
	s->colours = 0;
	for (uint32_t colour = 0; colour < COLOURS; colour++) {
		int allowed = 0;
		for (uint32_t class = colour; class < 1u << s->config.functions; class += COLOURS)
			allowed |= s->config.classes[class / 8] >> class % 8 & 1;
		s->colours += (uint32_t)allowed;
	}
	balance_for(s, 0);
}

/* Begins to count for this number of frames. */
void balance_for(struct state *s, uint64_t pages)
{
	uint64_t least = s->taken_all < FIRST ? WINDOW : LATER_WINDOW;
	s->window = pages > least ? pages : least;
	uint64_t equal = s->window / (s->colours ? s->colours : 1);
	s->share = s->taken_all < FIRST ? equal + equal / SLACK_PART + SLACK : 3 * equal;
	if (s->config.lends)
		s->share = ~0ul;
	zero_bytes(s->taken, sizeof s->taken);
	s->refused = 0;
}

/* Is a frame of this class to be taken? */
int balance_takes(const struct state *s, uint32_t class)
{
	return !s->patience || s->taken[colour_of(class)] < s->share;
}

/* A frame of the program's colours was not taken. */
void balance_refused(struct state *s)
{
	s->patience -= s->patience > 0;
	s->refused++;
}

/* Takes any of the frames that are counted for: there is no memory for a choice. Returns whether
 * that changes anything. */
int balance_gives_up(struct state *s)
{
	int changes = s->refused > 0 && s->share != ~0ul;
	s->share = ~0ul;
	return changes;
}

/* A frame of this class was taken; returns whether its colour has its share now. */
int balance_took(struct state *s, uint32_t class)
{
	s->taken_all++;
	if (s->patience + MORE_PATIENCE <= PATIENCE)
		s->patience += MORE_PATIENCE;
	return ++s->taken[colour_of(class)] >= s->share;
}
