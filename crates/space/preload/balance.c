/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the kernel gives the frames again that were freed last. If those are of a few of the
 * program's colours, as after a program of these colours alone, the program would lie in a small
 * part of its cache, and miss more often than its profile says. Rule: frames are counted by colour,
 * over a window of frames that grows with the program. No colour gets much more than an equal share
 * of a window. Of a large program only the first frames are chosen strictly: its data do not fit
 * into the cache, and each choice costs time. Frames beyond a share are not taken, as if they were
 * of other colours. The library is patient for a number of such frames, which grows with each frame
 * that it takes. After these it takes any frame: others may have the rest, and the search must end.
 * Shares are of the first 8 bits of a class: its colour, and some bits of its bank if there are
 * fewer bits of colour (crates/space/src/map.rs). Does not cover: frames that a reserve lends,
 * which it chooses; an order of the pages among the frames.
 */
#define _GNU_SOURCE
#include "space.h"

/* Frames beyond their share that are not taken, and that a taken one adds. */
#define PATIENCE 131072ul
#define MORE_PATIENCE 2
/* Frames beyond the equal share that a colour may have; and the same as a part of it. */
#define SLACK 16
#define SLACK_PART 2
/* Frames of a window: as many as the program has, between these. */
#define LEAST_WINDOW PIECE
#define MOST_WINDOW 2048ul
/* Frames that are chosen strictly; later, a colour may have three times its share of this window.
 */
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
	s->window = 0;
	balance_for(s, 0);
}

/* Begins a new window if this number of frames does not fit into what is left of the old one. */
void balance_for(struct state *s, uint64_t pages)
{
	uint64_t least = s->taken_all < MOST_WINDOW ? s->taken_all : MOST_WINDOW;
	uint64_t colours = s->colours ? s->colours : 1, equal;
	if (s->window > pages)
		return;
	least = least > LEAST_WINDOW ? least : LEAST_WINDOW;
	least = s->taken_all < FIRST ? least : LATER_WINDOW;
	s->window = pages > least ? pages : least;
	equal = s->window / colours;
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
	s->window -= s->window > 0;
	if (s->patience + MORE_PATIENCE <= PATIENCE)
		s->patience += MORE_PATIENCE;
	return ++s->taken[colour_of(class)] >= s->share;
}

/* The frame was not taken after all. */
void balance_left(struct state *s, uint32_t class)
{
	s->taken_all--;
	s->window++;
	s->taken[colour_of(class)]--;
}
