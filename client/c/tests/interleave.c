/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every interleaving of a sender, a receiver, a memory that makes stores visible late and out of
 * order, and kills: in none may a message be lost, torn, or out of turn.
 *
 *	interleave SLOTS MESSAGES KILLS
 *
 * Rule: solocore_ipc.c is compiled against model_memory.h, so that each access is a step here. A
 * store goes to the agent's buffer; at any later step any of its entries may become visible, but
 * one that is ordered only after all before it, and entries of one word in their order (the stores
 * of weakly ordered CPUs). An agent may be killed before any step; its successor begins when
 * its stores have become visible, as the kernel has it. All choices are tried, depth first, each
 * run from the beginning; a state that was seen before is not tried again. Does not cover: loads
 * that overtake each other (ThreadSanitizer looks at what orders them), several lanes.
 */
#define _GNU_SOURCE
#include "../solocore_ipc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define DEPTH 4096
#define ENTRIES 32
#define STACK (128 * 1024)
#define SEEN (1u << 22)
#define FACTOR 1000003u

struct entry {
	uint64_t *word, value;
	int ordered;
};

struct agent {
	ucontext_t context;
	struct entry buffer[ENTRIES];
	int entries, begun, finished, killed, waits;
	uint64_t version; /* of the memory, at the start of its wait */
	uint64_t history; /* of what it has read, as far as that is still in it */
	char stack[STACK];
};

enum kind { STEP, COMMIT, KILL };

struct action {
	enum kind kind;
	int agent, entry;
};

static struct agent agents[2];
static int current = -1; /* none: the making of the queue is not a part of the model */
static ucontext_t scheduler;
static unsigned char *memory;
static size_t bytes;
static struct sc_queue sides[2];
static uint64_t version, messages;
static int kills, kills_left, failed;
static uint64_t last; /* the last message that the receiver has handled */
static struct {
	int index, count;
} choices[DEPTH];
static int depth, known;
static uint64_t *seen, runs, states;

static void step(void)
{
	swapcontext(&agents[current].context, &scheduler);
}

uint64_t model_load(const void *word)
{
	struct agent *a;
	uint64_t value;

	if (current < 0)
		return *(const uint64_t *)word;
	step();
	a = &agents[current];
	value = *(const uint64_t *)word;
	for (int e = 0; e < a->entries; e++)
		if (a->buffer[e].word == word)
			value = a->buffer[e].value;
	a->history = (a->history ^ value) * 0x100000001b3ull + 1;
	return value;
}

void model_store(void *word, uint64_t value, int ordered)
{
	struct agent *a;

	if (current < 0) {
		*(uint64_t *)word = value;
		return;
	}
	step();
	a = &agents[current];
	if (a->entries == ENTRIES)
		abort();
	a->buffer[a->entries++] = (struct entry){word, value, ordered};
	a->history = a->history * 0x100000001b3ull + 7;
}

static void fail(const char *what, uint64_t n)
{
	if (!failed)
		fprintf(stderr, "%s: message %llu after %llu; slots %u, run %llu\n", what,
			(unsigned long long)n, (unsigned long long)last, sides[0].slots,
			(unsigned long long)runs);
	failed = 1;
}

/* Nothing changes until a store of another agent becomes visible. */
static void wait_for_a_change(void)
{
	agents[current].version = version;
	agents[current].waits = 1;
	step();
	agents[current].waits = 0;
}

static void sender(void)
{
	struct sc_queue q = sides[0];
	uint64_t n = sc_queue_count(&q) + 1;

	while (n <= messages) {
		uint64_t message = n * FACTOR;
		int status;

		agents[0].history = n * 31 + q.other;
		status = sc_queue_send(&q, &message, 8);
		if (status == SC_QUEUE_OK)
			n++;
		else if (status == SC_QUEUE_FULL)
			wait_for_a_change();
		else
			fail("the sender fails", n);
	}
	agents[0].finished = 1;
	step();
}

static void receiver(void)
{
	struct sc_queue q = sides[1];
	int began = 1;

	while (last < messages && !failed) {
		uint64_t message = 0;
		size_t length = 0;
		int status;

		agents[1].history = (uint64_t)began;
		status = sc_queue_peek(&q, &message, 8, &length);
		if (status == SC_QUEUE_EMPTY) {
			wait_for_a_change();
			continue;
		}
		if (status != SC_QUEUE_OK || length != 8 || message % FACTOR != 0)
			fail("a torn message", message);
		else if (message / FACTOR != last + 1 && !(began && message / FACTOR == last))
			fail("out of turn", message / FACTOR);
		last = message / FACTOR;
		began = 0;
		if (sc_queue_done(&q) != SC_QUEUE_OK)
			fail("cannot be done", last);
	}
	agents[1].finished = 1;
	step();
}

static void start(int which)
{
	struct agent *a = &agents[which];

	getcontext(&a->context);
	a->context.uc_stack.ss_sp = a->stack;
	a->context.uc_stack.ss_size = STACK;
	a->context.uc_link = &scheduler;
	a->begun = a->finished = a->killed = a->waits = 0;
	a->history = 0;
	makecontext(&a->context, which ? receiver : sender, 0);
}

static void reset(void)
{
	memset(memory, 0, bytes);
	if (sc_queue_create(memory, bytes, 1, sides[0].slots, 8, SC_PLACE_CACHED) != SC_QUEUE_OK)
		abort();
}

static int can_commit(const struct agent *a, int e)
{
	for (int before = 0; before < e; before++)
		if (a->buffer[e].ordered || a->buffer[before].word == a->buffer[e].word)
			return 0;
	return 1;
}

static int actions(struct action *list)
{
	int count = 0;

	for (int w = 0; w < 2; w++) {
		struct agent *a = &agents[w];

		for (int e = 0; e < a->entries; e++)
			if (can_commit(a, e))
				list[count++] = (struct action){COMMIT, w, e};
		if (a->finished || (a->killed && a->entries))
			continue;
		if (!(a->waits && a->version == version))
			list[count++] = (struct action){STEP, w, 0};
		if (kills_left && !a->killed)
			list[count++] = (struct action){KILL, w, 0};
	}
	return count;
}

static void act(struct action action)
{
	struct agent *a = &agents[action.agent];

	if (action.kind == COMMIT) {
		*a->buffer[action.entry].word = a->buffer[action.entry].value;
		a->entries--;
		memmove(&a->buffer[action.entry], &a->buffer[action.entry + 1],
			(size_t)(a->entries - action.entry) * sizeof(struct entry));
		version++;
	} else if (action.kind == KILL) {
		a->killed = 1;
		kills_left--;
	} else {
		if (a->killed)
			start(action.agent);
		a->begun = 1;
		current = action.agent;
		swapcontext(&scheduler, &a->context);
		current = -1;
	}
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 12) + (hash >> 4);
	return hash * 0xff51afd7ed558ccdull;
}

static uint64_t hash_state(void)
{
	uint64_t hash = last * 8 + (uint64_t)kills_left;

	for (size_t at = 0; at < bytes; at += 64)
		hash = mix(hash, *(const uint64_t *)(const void *)(memory + at));
	for (int w = 0; w < 2; w++) {
		const struct agent *a = &agents[w];

		hash = mix(hash, a->history * 8 +
					 (uint64_t)(a->finished | a->killed << 1 | a->begun << 2));
		hash = mix(hash, (uint64_t)(a->waits && a->version == version));
		hash = mix(hash, (uint64_t)a->waits * 2 + 1);
		for (int e = 0; e < a->entries; e++) {
			hash = mix(hash, (uint64_t)((unsigned char *)a->buffer[e].word - memory));
			hash = mix(hash, a->buffer[e].value * 2 + (uint64_t)a->buffer[e].ordered);
		}
		hash = mix(hash, (uint64_t)a->entries);
	}
	return hash ? hash : 1;
}

/* Is it new? */
static int remember(uint64_t hash)
{
	for (uint64_t at = hash % SEEN;; at = (at + 1) % SEEN) {
		if (seen[at] == hash)
			return 0;
		if (!seen[at]) {
			seen[at] = hash;
			if (++states > SEEN / 4 * 3)
				abort();
			return 1;
		}
	}
}

static void run(void)
{
	struct action list[2 * ENTRIES + 4];

	reset();
	kills_left = kills;
	last = version = 0;
	for (int w = 0; w < 2; w++) {
		agents[w].entries = 0;
		start(w);
	}
	for (depth = 0; !failed; depth++) {
		int count = actions(list);

		if (!count) {
			if (last < messages)
				fail("nobody goes on", last + 1);
			return;
		}
		if (depth == DEPTH)
			abort();
		if (depth == known) {
			if (!remember(hash_state()))
				return;
			choices[known].index = 0;
			choices[known++].count = count;
		}
		if (choices[depth].count != count)
			abort();
		act(list[choices[depth].index]);
	}
}

int main(int argc, char **argv)
{
	unsigned slots = argc > 1 ? (unsigned)atoi(argv[1]) : 2;

	messages = argc > 2 ? (uint64_t)atoi(argv[2]) : 3;
	kills = argc > 3 ? atoi(argv[3]) : 1;
	bytes = sc_queue_bytes(1, slots, 8);
	memory = aligned_alloc(4096, bytes ? bytes : 4096);
	seen = calloc(SEEN, sizeof(*seen));
	if (!bytes || !memory || !seen)
		return 2;
	for (int w = 0; w < 2; w++)
		sides[w] = (struct sc_queue){.memory = memory,
					     .lanes = 1,
					     .slots = slots,
					     .message_bytes = 8,
					     .slot_bytes = 128,
					     .sender = w == 0};
	do {
		runs++;
		run();
		while (known && choices[known - 1].index + 1 == choices[known - 1].count)
			known--;
		if (known)
			choices[known - 1].index++;
	} while (known && !failed);
	if (failed)
		return 1;
	printf("ok: %llu runs, %llu states\n", (unsigned long long)runs,
	       (unsigned long long)states);
	return 0;
}
