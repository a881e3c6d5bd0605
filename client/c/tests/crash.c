/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Both sides of a queue are killed, again and again: no committed message may get lost, and no
 * other may come.
 *
 *	crash KILLS SEED PLACE
 *
 * Rule: a sender sends 1, 2, 3, ... and writes down each number whose send has returned; its
 * successor goes on with the number of messages published. A receiver writes each message down when
 * it has it. Each process is killed after a random time (SIGKILL) and replaced. Then the numbers
 * written down must be 1, 2, 3, ... without a gap, but for repetitions of the last one right after
 * a receiver was killed, contents must be whole, and every number that the sender wrote down must
 * be among them.
 */
#define _GNU_SOURCE
#include "../solocore_ipc.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST (1u << 22)
#define LENGTH 1024

struct record {
	uint64_t sent;	   /* the highest number with a send that returned */
	uint64_t received; /* number of entries */
	uint32_t numbers[MOST];
};

static struct record *record;
static unsigned char *memory;
static size_t bytes;

static void fill(unsigned char *message, uint64_t n)
{
	for (size_t at = 0; at < LENGTH; at += 8) {
		uint64_t word = n * 0x9e3779b97f4a7c15ull + at;

		memcpy(message + at, &word, 8);
	}
	memcpy(message, &n, 8);
}

static void send_for_ever(void)
{
	unsigned char message[LENGTH];
	struct sc_queue q;
	uint64_t n;

	if (sc_queue_open_sender(&q, memory, bytes) != SC_QUEUE_OK)
		_exit(3);
	for (n = sc_queue_count(&q) + 1;; n++) {
		int status;

		fill(message, n);
		while ((status = sc_queue_send(&q, message, LENGTH - n % 64)) == SC_QUEUE_FULL)
			;
		if (status != SC_QUEUE_OK)
			_exit(4);
		__atomic_store_n(&record->sent, n, __ATOMIC_RELEASE);
	}
}

static int receive_some(int for_ever)
{
	unsigned char message[LENGTH], expected[LENGTH];
	struct sc_queue q;

	if (sc_queue_open_receiver(&q, memory, bytes) != SC_QUEUE_OK)
		_exit(5);
	for (;;) {
		size_t length = 0;
		uint64_t n, at = record->received;
		int status = sc_queue_peek(&q, message, LENGTH, &length);

		if (status == SC_QUEUE_EMPTY && !for_ever)
			return 0;
		if (status == SC_QUEUE_EMPTY)
			continue;
		memcpy(&n, message, 8);
		fill(expected, n);
		if (status != SC_QUEUE_OK || length != LENGTH - n % 64 ||
		    memcmp(message, expected, length) != 0)
			_exit(6);
		if (at >= MOST)
			_exit(7);
		record->numbers[at] = (uint32_t)n;
		__atomic_store_n(&record->received, at + 1, __ATOMIC_RELEASE);
		if (sc_queue_done(&q) != SC_QUEUE_OK)
			_exit(8);
	}
}

static pid_t begin(int sender)
{
	pid_t pid = fork();

	if (pid == 0) {
		/* No process is left over when the test fails. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (sender)
			send_for_ever();
		receive_some(1);
		_exit(0);
	}
	return pid;
}

static unsigned long long state;

static unsigned random_below(unsigned n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % n;
}

static void *map(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(2);
	return at;
}

static int verdict(unsigned receivers_killed)
{
	uint64_t last = 0, repeats = 0;

	for (uint64_t at = 0; at < record->received; at++) {
		uint32_t n = record->numbers[at];

		if (n == last)
			repeats++;
		else if (n != last + 1)
			return fprintf(stderr, "message %u came after %llu\n", n,
				       (unsigned long long)last),
			       1;
		last = n;
	}
	if (last < record->sent)
		return fprintf(stderr, "message %llu was committed and lost\n",
			       (unsigned long long)record->sent),
		       1;
	if (repeats > receivers_killed)
		return fprintf(stderr, "%llu messages came twice\n", (unsigned long long)repeats),
		       1;
	printf("ok: %llu messages, %llu came twice, %u receivers killed\n",
	       (unsigned long long)last, (unsigned long long)repeats, receivers_killed);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned kills = argc > 1 ? (unsigned)atoi(argv[1]) : 100, receivers_killed = 0;
	enum sc_queue_place place = argc > 3 ? (enum sc_queue_place)atoi(argv[3]) : SC_PLACE_CACHED;
	pid_t side[2];

	state = argc > 2 ? (unsigned long long)atoll(argv[2]) : 1;
	record = map(sizeof(*record));
	bytes = sc_queue_bytes(1, 8, LENGTH);
	memory = map(bytes);
	if (sc_queue_create(memory, bytes, 1, 8, LENGTH, place) != SC_QUEUE_OK)
		return 2;
	side[0] = begin(0);
	side[1] = begin(1);
	for (unsigned k = 0; k < kills; k++) {
		struct timespec pause = {.tv_nsec = (long)random_below(2000000)};
		int which = (int)random_below(2), status;

		nanosleep(&pause, NULL);
		kill(side[which], SIGKILL);
		waitpid(side[which], &status, 0);
		if (!WIFSIGNALED(status))
			return fprintf(stderr, "side %d ended by itself with %d\n", which,
				       WEXITSTATUS(status)),
			       1;
		receivers_killed += which == 0;
		side[which] = begin(which);
	}
	for (int which = 1; which >= 0; which--) {
		kill(side[which], SIGKILL);
		waitpid(side[which], NULL, 0);
	}
	receivers_killed++;
	receive_some(0);
	return verdict(receivers_killed);
}
