/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A queue between threads, for ThreadSanitizer and the other sanitizers, and its refusals.
 *
 * Prints "ok" and ends with 0, or says the line that does not hold. Does not cover processes that
 * are killed (crash.c) and weakly ordered memory (interleave.c).
 */
#define _GNU_SOURCE
#include "../solocore_ipc.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MESSAGES 5000
#define SENDERS 3
#define LONGEST 200

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what);   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static unsigned char *memory;
static size_t bytes;
/* A sender that has closed leaves its lane, with its count, to the next that opens. */
static pthread_barrier_t all_open;

static void *map(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* Message n of a sender: n, the sender, and a number of bytes that depends on n. */
static size_t fill(unsigned char *message, unsigned sender, unsigned n)
{
	size_t length = 8 + n % (LONGEST - 8);

	memset(message, (int)(n + sender), length);
	memcpy(message, &n, 4);
	memcpy(message + 4, &sender, 4);
	return length;
}

static void *sender(void *argument)
{
	unsigned me = (unsigned)(uintptr_t)argument;
	unsigned char message[LONGEST];
	struct sc_queue q;

	CHECK(sc_queue_open_sender(&q, memory, bytes) == SC_QUEUE_OK);
	pthread_barrier_wait(&all_open);
	for (unsigned n = 0; n < MESSAGES;) {
		int status = sc_queue_send(&q, message, fill(message, me, n));

		CHECK(status == SC_QUEUE_OK || status == SC_QUEUE_FULL);
		n += status == SC_QUEUE_OK;
		if (status == SC_QUEUE_FULL)
			sched_yield();
	}
	CHECK(sc_queue_count(&q) == MESSAGES);
	sc_queue_close(&q);
	return NULL;
}

static void between_threads(enum sc_queue_place place, unsigned senders)
{
	unsigned char got[LONGEST], expected[LONGEST];
	unsigned next[SENDERS] = {0};
	pthread_t threads[SENDERS];
	struct sc_queue q;

	bytes = sc_queue_bytes(senders, 16, LONGEST);
	memory = map(bytes);
	CHECK(sc_queue_create(memory, bytes, senders, 16, LONGEST, place) == SC_QUEUE_OK);
	CHECK(sc_queue_open_receiver(&q, memory, bytes) == SC_QUEUE_OK);
	CHECK(pthread_barrier_init(&all_open, NULL, senders) == 0);
	for (unsigned s = 0; s < senders; s++)
		CHECK(pthread_create(&threads[s], NULL, sender, (void *)(uintptr_t)s) == 0);
	for (unsigned left = senders * MESSAGES; left;) {
		size_t length = 0;
		unsigned from;
		int status = sc_queue_receive(&q, got, sizeof(got), &length);

		CHECK(status == SC_QUEUE_OK || status == SC_QUEUE_EMPTY);
		if (status == SC_QUEUE_EMPTY) {
			sched_yield();
			continue;
		}
		CHECK(length >= 8);
		memcpy(&from, got + 4, 4);
		CHECK(from < senders && length == fill(expected, from, next[from]));
		CHECK(memcmp(got, expected, length) == 0);
		next[from]++;
		left--;
	}
	for (unsigned s = 0; s < senders; s++)
		pthread_join(threads[s], NULL);
	pthread_barrier_destroy(&all_open);
	CHECK(sc_queue_count(&q) == senders * MESSAGES);
	sc_queue_close(&q);
	munmap(memory, bytes);
}

static void refusals(void)
{
	unsigned char data[64] = {1}, *at = map(1 << 16);
	struct sc_queue in, out, more;
	size_t length = 0, size = sc_queue_bytes(1, 2, 64);

	CHECK(sc_queue_bytes(0, 2, 64) == 0 && sc_queue_bytes(257, 2, 64) == 0 &&
	      sc_queue_bytes(1, 3, 64) == 0);
	CHECK(sc_queue_bytes(1, 0, 64) == 0 && sc_queue_bytes(1, 2, 0) == 0 &&
	      sc_queue_bytes(1, 2, (16u << 20) + 1) == 0);
	CHECK(sc_queue_create(at + 64, size, 1, 2, 64, SC_PLACE_CACHED) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_create(at, size - 1, 1, 2, 64, SC_PLACE_CACHED) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_create(NULL, size, 1, 2, 64, SC_PLACE_CACHED) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_create(at, size, 1, 2, 64, (enum sc_queue_place)3) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_open_sender(&in, at, size) == SC_QUEUE_BAD);
	CHECK(sc_queue_create(at, size, 1, 2, 64, SC_PLACE_CACHED) == SC_QUEUE_OK);
	CHECK(sc_queue_open_sender(&in, at, size - 1) == SC_QUEUE_BAD);
	CHECK(sc_queue_open_sender(&in, at, size) == SC_QUEUE_OK);
	CHECK(sc_queue_open_sender(&more, at, size) == SC_QUEUE_BUSY);
	CHECK(sc_queue_send(&more, data, 1) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_open_receiver(&out, at, size) == SC_QUEUE_OK);
	CHECK(sc_queue_open_receiver(&more, at, size) == SC_QUEUE_BUSY);
	CHECK(sc_queue_send(&out, data, 1) == SC_QUEUE_ARGUMENT &&
	      sc_queue_receive(&in, data, 64, &length) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_receive(&out, data, 64, &length) == SC_QUEUE_EMPTY);
	CHECK(sc_queue_send(&in, data, 65) == SC_QUEUE_TOO_LONG);
	CHECK(sc_queue_send(&in, NULL, 0) == SC_QUEUE_OK &&
	      sc_queue_send(&in, data, 64) == SC_QUEUE_OK);
	CHECK(sc_queue_send(&in, data, 1) == SC_QUEUE_FULL);
	CHECK(sc_queue_receive(&out, NULL, 0, &length) == SC_QUEUE_OK && length == 0);
	CHECK(sc_queue_receive(&out, data, 63, &length) == SC_QUEUE_TOO_LONG && length == 64);
	CHECK(sc_queue_receive(&out, data, 64, &length) == SC_QUEUE_OK && length == 64 &&
	      data[0] == 1);
	CHECK(sc_queue_done(&out) == SC_QUEUE_ARGUMENT && sc_queue_done(&in) == SC_QUEUE_ARGUMENT);
	data[0] = 7;
	CHECK(sc_queue_send(&in, data, 1) == SC_QUEUE_OK);
	for (int twice = 0; twice < 2; twice++, data[0] = 0)
		CHECK(sc_queue_peek(&out, data, 64, &length) == SC_QUEUE_OK && length == 1 &&
		      data[0] == 7);
	CHECK(sc_queue_done(&out) == SC_QUEUE_OK && sc_queue_done(&out) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_peek(&out, data, 64, &length) == SC_QUEUE_EMPTY);
	/* The counters, or a length, were overwritten. */
	CHECK(sc_queue_send(&in, data, 8) == SC_QUEUE_OK);
	for (size_t word = 0; word < 4096 / 8; word++) {
		uint64_t *p = (uint64_t *)(void *)at + word, old = *p;

		*p = ~0ull - 7;
		(void)sc_queue_send(&in, data, 8);
		(void)sc_queue_receive(&out, data, 64, &length);
		*p = old;
	}
	*(uint64_t *)(void *)(at + 4096) = *(uint64_t *)(void *)(at + 4096 + 128) = 65;
	(void)sc_queue_send(&in, data, 8);
	sc_queue_close(&in);
	sc_queue_close(&in);
	CHECK(sc_queue_send(&in, data, 1) == SC_QUEUE_ARGUMENT);
	CHECK(sc_queue_open_sender(&more, at, size) == SC_QUEUE_OK);
	for (int s = -1; s < 10; s++)
		CHECK(sc_strqueue(s) && *sc_strqueue(s));
	munmap(at, 1 << 16);
}

int main(void)
{
	refusals();
	between_threads(SC_PLACE_CACHED, 1);
	between_threads(SC_PLACE_CACHED, SENDERS);
	between_threads(SC_PLACE_BYPASS, SENDERS);
	puts("ok");
	return 0;
}
