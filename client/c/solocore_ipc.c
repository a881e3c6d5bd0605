/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Message queues (solocore_ipc.h describes their purpose).
 *
 * Rule: a lane has a ring of slots and two counters, of messages published and of messages taken.
 * Only its sender writes the first, only the receiver the second, each in a line of its own: no
 * side ever retries. Slots between the two hold messages, the others are the sender's. A sender
 * fills a slot and then publishes it; a sender that is killed in between leaves a slot that its
 * successor fills again. The owner of a lane is named by its process and start time, so that a
 * reused number is not taken for the ended process. Values in shared memory are read once and
 * checked: sizes when the queue is opened, numbers and lengths each time.
 */
#define _GNU_SOURCE
#include "solocore_ipc.h"

#ifdef SC_IPC_MEMORY
#include SC_IPC_MEMORY
#else
#include "solocore_ipc_memory.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAGIC 0x3165756575516353ull /* "ScQueue1" */
#define PAGE 4096u
#define MOST_LANES 256u
#define MOST_SLOTS (1u << 20)
#define MOST_BYTES (16u << 20)

struct header {
	uint64_t magic; /* last, when all else is there */
	uint32_t lanes, slots, message_bytes, place;
	_Alignas(64) uint64_t receiver; /* the receiver's name; 0: none */
};

struct lane {
	_Alignas(64) uint64_t published; /* the sender's */
	_Alignas(64) uint64_t taken;	 /* the receiver's */
	_Alignas(64) uint64_t owner;	 /* the sender's name; 0: none */
};

static size_t slot_bytes(size_t message_bytes)
{
	return SC_LINE + (message_bytes + SC_LINE - 1) / SC_LINE * SC_LINE;
}

/* Slots begin a page, behind header and lanes. */
static size_t head_bytes(unsigned lanes)
{
	return (sizeof(struct header) + lanes * sizeof(struct lane) + PAGE - 1) / PAGE * PAGE;
}

size_t sc_queue_bytes(unsigned lanes, unsigned slots, size_t message_bytes)
{
	if (lanes < 1 || lanes > MOST_LANES || slots < 1 || slots > MOST_SLOTS ||
	    (slots & (slots - 1)) != 0 || message_bytes < 1 || message_bytes > MOST_BYTES)
		return 0;
	return (head_bytes(lanes) + (size_t)lanes * slots * slot_bytes(message_bytes) + PAGE - 1) /
	       PAGE * PAGE;
}

static struct lane *lane_of(const struct sc_queue *q, uint32_t lane)
{
	return (struct lane *)(void *)(q->memory + sizeof(struct header)) + lane;
}

static unsigned char *slot_of(const struct sc_queue *q, uint32_t lane, uint64_t number)
{
	size_t at = (size_t)lane * q->slots + (size_t)(number & (q->slots - 1));

	return q->memory + head_bytes(q->lanes) + at * q->slot_bytes;
}

int sc_queue_create(void *memory, size_t bytes, unsigned lanes, unsigned slots,
		    size_t message_bytes, enum sc_queue_place place)
{
	size_t needed = sc_queue_bytes(lanes, slots, message_bytes);
	struct header *h = memory;

	if (!memory || (uintptr_t)memory % PAGE != 0 || !needed || bytes < needed ||
	    (unsigned)place > SC_PLACE_LOCKED)
		return SC_QUEUE_ARGUMENT;
	if (place == SC_PLACE_BYPASS && !can_bypass())
		return SC_QUEUE_UNSUPPORTED;
	memset(memory, 0, head_bytes(lanes));
	h->lanes = lanes;
	h->slots = slots;
	h->message_bytes = (uint32_t)message_bytes;
	h->place = place;
	counter_store(&h->magic, MAGIC);
	return SC_QUEUE_OK;
}

/* Field 22 of /proc/N/stat, and whether the task is there at all; -1: it cannot be told. */
static int start_of(uint32_t task, uint32_t *start)
{
	char path[40], text[1024], *at;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Other users' tasks may be hidden there (hidepid), but answer to signals. */
	if (fd < 0)
		return kill((pid_t)task, 0) != 0 && errno == ESRCH ? 0 : -1;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return got < 0 && errno == ESRCH ? 0 : -1;
	text[got] = 0;
	/* The name may hold anything, and ends with the last bracket. */
	at = strrchr(text, ')');
	if (!at || at[1] == 0 || at[2] == 'Z' || at[2] == 'X')
		return at && at[1] ? 0 : -1;
	for (int field = 2; field < 22 && at; field++)
		at = strchr(at + 1, ' ');
	*start = at ? (uint32_t)strtoull(at, NULL, 10) : 0;
	return at ? 1 : -1;
}

static uint64_t my_name(void)
{
	uint32_t task = (uint32_t)syscall(SYS_gettid), start = 0;

	(void)start_of(task, &start);
	return (uint64_t)task << 32 | start;
}

/* A process that cannot be examined is taken to live. */
static int has_ended(uint64_t name)
{
	uint32_t start = 0;
	int there = start_of((uint32_t)(name >> 32), &start);

	return there == 0 || (there > 0 && (uint32_t)name != 0 && start != (uint32_t)name);
}

static int claim(uint64_t *owner, uint64_t me)
{
	uint64_t before = counter_load(owner);

	if (before && !has_ended(before))
		return 0;
	return owner_swap(owner, before, me);
}

static int open_queue(struct sc_queue *q, void *memory, size_t bytes)
{
	const struct header *h = memory;
	size_t needed;

	memset(q, 0, sizeof(*q));
	if (!memory || (uintptr_t)memory % PAGE != 0 || bytes < PAGE)
		return SC_QUEUE_ARGUMENT;
	if (counter_load(&h->magic) != MAGIC)
		return SC_QUEUE_BAD;
	q->lanes = *(const volatile uint32_t *)&h->lanes;
	q->slots = *(const volatile uint32_t *)&h->slots;
	q->message_bytes = *(const volatile uint32_t *)&h->message_bytes;
	q->place = *(const volatile uint32_t *)&h->place;
	needed = sc_queue_bytes(q->lanes, q->slots, q->message_bytes);
	if (!needed || needed > bytes || q->place > SC_PLACE_LOCKED)
		return SC_QUEUE_BAD;
	if (q->place == SC_PLACE_BYPASS && !can_bypass())
		return SC_QUEUE_UNSUPPORTED;
	q->slot_bytes = (uint32_t)slot_bytes(q->message_bytes);
	q->owner = my_name();
	q->memory = memory;
	return SC_QUEUE_OK;
}

int sc_queue_open_sender(struct sc_queue *q, void *memory, size_t bytes)
{
	int status;

	if (!q)
		return SC_QUEUE_ARGUMENT;
	status = open_queue(q, memory, bytes);
	if (status != SC_QUEUE_OK)
		return status;
	q->sender = 1;
	for (q->lane = 0; q->lane < q->lanes; q->lane++) {
		struct lane *lane = lane_of(q, q->lane);

		if (claim(&lane->owner, q->owner)) {
			q->other = counter_load(&lane->taken);
			return SC_QUEUE_OK;
		}
	}
	q->memory = NULL;
	return SC_QUEUE_BUSY;
}

int sc_queue_open_receiver(struct sc_queue *q, void *memory, size_t bytes)
{
	int status;

	if (!q)
		return SC_QUEUE_ARGUMENT;
	status = open_queue(q, memory, bytes);
	if (status == SC_QUEUE_OK && !claim(&((struct header *)memory)->receiver, q->owner)) {
		q->memory = NULL;
		return SC_QUEUE_BUSY;
	}
	return status;
}

int sc_queue_send(struct sc_queue *q, const void *data, size_t length)
{
	struct lane *lane;
	uint64_t published;

	if (!q || !q->memory || !q->sender || (!data && length))
		return SC_QUEUE_ARGUMENT;
	if (length > q->message_bytes)
		return SC_QUEUE_TOO_LONG;
	lane = lane_of(q, q->lane);
	published = counter_load(&lane->published);
	if (published - q->other >= q->slots) {
		q->other = counter_load(&lane->taken);
		if (published - q->other > q->slots)
			return SC_QUEUE_BAD;
		if (published - q->other == q->slots)
			return SC_QUEUE_FULL;
	}
	slot_write(slot_of(q, q->lane, published), data, length, q->place == SC_PLACE_BYPASS);
	counter_store(&lane->published, published + 1);
	return SC_QUEUE_OK;
}

/* Reads the next message of one lane, without taking it. */
static int look(struct sc_queue *q, uint32_t number, void *data, size_t capacity, size_t *length)
{
	struct lane *lane = lane_of(q, number);
	uint64_t taken = counter_load(&lane->taken), published = counter_load(&lane->published),
		 bytes;
	const unsigned char *slot = slot_of(q, number, taken);

	if (published == taken)
		return SC_QUEUE_EMPTY;
	if (published - taken > q->slots)
		return SC_QUEUE_BAD;
	bytes = slot_length(slot);
	if (bytes > q->message_bytes)
		return SC_QUEUE_BAD;
	*length = (size_t)bytes;
	if (bytes > capacity)
		return SC_QUEUE_TOO_LONG;
	slot_read(slot, data, bytes, q->place == SC_PLACE_BYPASS);
	return SC_QUEUE_OK;
}

int sc_queue_peek(struct sc_queue *q, void *data, size_t capacity, size_t *length)
{
	if (!q || !q->memory || q->sender || !length || (!data && capacity))
		return SC_QUEUE_ARGUMENT;
	for (uint32_t turn = 0; turn < q->lanes; turn++) {
		int status = look(q, q->lane, data, capacity, length);

		q->peeked = status == SC_QUEUE_OK;
		if (status == SC_QUEUE_OK || status == SC_QUEUE_TOO_LONG)
			return status;
		/* A lane that its sender spoilt does not stop the others. */
		q->lane = q->lane + 1 == q->lanes ? 0 : q->lane + 1;
		if (status == SC_QUEUE_BAD)
			return status;
	}
	return SC_QUEUE_EMPTY;
}

int sc_queue_done(struct sc_queue *q)
{
	struct lane *lane;

	if (!q || !q->memory || q->sender || !q->peeked)
		return SC_QUEUE_ARGUMENT;
	lane = lane_of(q, q->lane);
	counter_store(&lane->taken, counter_load(&lane->taken) + 1);
	q->lane = q->lane + 1 == q->lanes ? 0 : q->lane + 1;
	q->peeked = 0;
	return SC_QUEUE_OK;
}

int sc_queue_receive(struct sc_queue *q, void *data, size_t capacity, size_t *length)
{
	int status = sc_queue_peek(q, data, capacity, length);

	return status == SC_QUEUE_OK ? sc_queue_done(q) : status;
}

uint64_t sc_queue_count(const struct sc_queue *q)
{
	uint64_t count = 0;

	if (!q || !q->memory)
		return 0;
	if (q->sender)
		return counter_load(&lane_of(q, q->lane)->published);
	for (uint32_t lane = 0; lane < q->lanes; lane++)
		count += counter_load(&lane_of(q, lane)->taken);
	return count;
}

void sc_queue_close(struct sc_queue *q)
{
	if (!q || !q->memory)
		return;
	if (q->sender)
		(void)owner_swap(&lane_of(q, q->lane)->owner, q->owner, 0);
	else
		(void)owner_swap(&((struct header *)(void *)q->memory)->receiver, q->owner, 0);
	q->memory = NULL;
}

const char *sc_strqueue(int status)
{
	static const char *const texts[] = {
		[SC_QUEUE_OK] = "success",
		[SC_QUEUE_EMPTY] = "there is no message",
		[SC_QUEUE_FULL] = "the queue is full: the receiver has to take messages first",
		[SC_QUEUE_TOO_LONG] =
			"the message is longer than the queue's messages, or than the receiver's "
			"memory",
		[SC_QUEUE_BAD] =
			"the memory holds no queue of this version, or somebody wrote over it",
		[SC_QUEUE_BUSY] =
			"every lane has a living sender, or there is a living receiver already",
		[SC_QUEUE_ARGUMENT] =
			"an impossible argument: memory too small or not at a page's beginning, "
			"slots not a power of two, or the wrong side of a queue",
		[SC_QUEUE_UNSUPPORTED] = "this CPU does not let programs flush cache lines",
	};

	return status >= 0 && status <= SC_QUEUE_UNSUPPORTED ? texts[status]
							     : "no status of a queue";
}
