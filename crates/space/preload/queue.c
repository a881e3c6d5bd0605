/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: messages between programs of a plan lie in the kernel's memory, in frames of any colour
 * (MC2 3.3). Rule: a queue lies in memory that the processes share. A lock that the kernel frees
 * when its owner dies protects it; a message is there, or gone, by one store of its place's key. A
 * key is larger for a message that comes out earlier: by priority, then by age. Signals are blocked
 * while the lock is held: a handler may use the queue, or never return. All waiting threads are
 * woken, as one that is killed would take the wake with it. Does not cover: buffers that are not
 * mapped (the process ends, where the kernel says EFAULT); a sender that is killed between its
 * message and the wake (it is seen with the next one); programs that write to the queue's memory in
 * other ways.
 */
#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>
#include <fcntl.h>

#define MAGIC 0x3171636du /* "mcq1" */
#define LINE 64ul
#define MOST_MESSAGES 65536ul
#define MOST_BYTES (16ul << 20)
#define MOST_SIZE (64ul << 20)
#define NUMBERS (1ul << 48)
#define FUTEX_WAIT_BITSET_REALTIME (9 | 256)
#define FUTEX_WAKE_ 1

/* Bytes of a place: the message's length, and the message. */
static uint64_t place_bytes(uint64_t bytes)
{
	return (8 + bytes + LINE - 1) & ~(LINE - 1);
}

static uint64_t first_place(uint64_t messages)
{
	return (sizeof(struct queue) + messages * 8 + LINE - 1) & ~(LINE - 1);
}

/* Bytes of memory that a queue needs; 0: there is none of this size. */
uint64_t queue_size(uint64_t messages, uint64_t bytes)
{
	if (!messages || !bytes || messages > MOST_MESSAGES || bytes > MOST_BYTES)
		return 0;
	uint64_t size = first_place(messages) + messages * place_bytes(bytes);
	return size <= MOST_SIZE ? (size + PAGE - 1) & ~(PAGE - 1) : 0;
}

/* Makes a queue in memory that is zero and nobody else has; -1: there are no such locks. */
int queue_make(struct queue *q, uint64_t messages, uint64_t bytes)
{
	pthread_mutexattr_t kind;
	q->messages = messages;
	q->bytes = bytes;
	if (pthread_mutexattr_init(&kind) ||
	    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED) ||
	    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) ||
	    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT) ||
	    pthread_mutex_init(&q->lock, &kind))
		return -1;
	q->magic = MAGIC;
	return 0;
}

/* -1: this memory has no queue of this size. */
int queue_view(struct view *view, struct queue *q, uint64_t size)
{
	*view = (struct view){q, size, q->messages, q->bytes};
	return q->magic == MAGIC && queue_size(view->messages, view->bytes) == size ? 0 : -1;
}

uint64_t queue_held(const struct view *view)
{
	return __atomic_load_n(&view->queue->held, __ATOMIC_RELAXED);
}

static char *place(const struct view *view, uint64_t at)
{
	return (char *)view->queue + first_place(view->messages) + at * place_bytes(view->bytes);
}

/* A free place, or the one of the message that comes out next; the number of places: none is. */
static uint64_t find(const struct view *view, int free)
{
	uint64_t found = view->messages, best = 0;
	for (uint64_t at = 0; at < view->messages; at++) {
		uint64_t key = view->queue->keys[at];
		if (free && !key)
			return at;
		if (!free && key > best) {
			best = key;
			found = at;
		}
	}
	return found;
}

static long take_lock(const struct view *view)
{
	struct queue *q = view->queue;
	int error = pthread_mutex_lock(&q->lock);
	if (error != EOWNERDEAD)
		return -error;
	/* The keys say which messages are there. */
	uint64_t held = 0;
	for (uint64_t at = 0; at < view->messages; at++)
		held += q->keys[at] != 0;
	q->held = held;
	return -pthread_mutex_consistent(&q->lock);
}

static void wake(uint32_t *word, const uint32_t *waiting)
{
	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(waiting, __ATOMIC_SEQ_CST))
		raw(SYS_futex, word, FUTEX_WAKE_, 0x7fffffff);
}

/* Waits until a word is no longer what it was; -errno if that takes too long. */
static long wait_for_change(const uint32_t *word, uint32_t seen, const struct timespec *until)
{
	long result = raw(SYS_futex, word, FUTEX_WAIT_BITSET_REALTIME, seen, until, 0, ~0u);
	return result == -EAGAIN ? 0 : failed(result) ? result : 0;
}

static void put(const struct view *view, uint64_t at, const char *data, size_t length,
		unsigned priority)
{
	struct queue *q = view->queue;
	char *to = place(view, at);
	*(uint64_t *)to = length;
	copy_bytes(to + 8, data, length);
	q->number++;
	/* The message is there from here on, also if this process ends. */
	__atomic_store_n(&q->keys[at],
			 (uint64_t)(priority + 1) << 48 | (NUMBERS - 1 - q->number % NUMBERS),
			 __ATOMIC_RELEASE);
	q->held++;
}

static long get(const struct view *view, uint64_t at, char *data, unsigned *priority)
{
	struct queue *q = view->queue;
	const char *from = place(view, at);
	uint64_t length = *(const uint64_t *)from;
	length = length < view->bytes ? length : view->bytes;
	copy_bytes(data, from + 8, length);
	if (priority)
		*priority = (unsigned)(q->keys[at] >> 48) - 1;
	__atomic_store_n(&q->keys[at], 0, __ATOMIC_RELEASE);
	q->held--;
	return (long)length;
}

/* A message of one direction or the other. */
struct call {
	int sends;
	char *data;
	const char *message;
	size_t length;
	unsigned priority, *answer;
};

/* One try, with the lock held; -EAGAIN: the queue is full, or empty. */
static long act(const struct view *view, const struct call *call)
{
	struct queue *q = view->queue;
	uint64_t at = view->messages;
	if (call->sends ? q->held < view->messages : q->held > 0)
		at = find(view, call->sends);
	if (at >= view->messages)
		return -EAGAIN;
	if (!call->sends)
		return get(view, at, call->data, call->answer);
	put(view, at, call->message, call->length, call->priority);
	return 0;
}

static int is_nonblocking(int fd)
{
	long flags = raw(SYS_fcntl, fd, F_GETFL);
	return failed(flags) || flags & O_NONBLOCK;
}

static long until_done(const struct view *view, const struct call *call, struct patience patience)
{
	struct queue *q = view->queue;
	uint32_t *mine = call->sends ? &q->sent : &q->received;
	uint32_t *theirs = call->sends ? &q->received : &q->sent;
	uint32_t *waiting = call->sends ? &q->senders : &q->receivers;
	const uint32_t *others = call->sends ? &q->receivers : &q->senders;
	for (;;) {
		uint64_t all = ~0ul, before;
		raw(SYS_rt_sigprocmask, 0, &all, &before, 8);
		uint32_t seen = 0;
		long result = take_lock(view);
		if (!result) {
			result = act(view, call);
			/* A change after this one wakes. */
			seen = __atomic_load_n(theirs, __ATOMIC_SEQ_CST);
			pthread_mutex_unlock(&q->lock);
		}
		raw(SYS_rt_sigprocmask, 2, &before, 0, 8);
		if (!failed(result))
			wake(mine, others);
		if (result != -EAGAIN || is_nonblocking(patience.fd))
			return result;
		__atomic_fetch_add(waiting, 1, __ATOMIC_SEQ_CST);
		result = wait_for_change(theirs, seen, patience.until);
		__atomic_fetch_sub(waiting, 1, __ATOMIC_SEQ_CST);
		if (result)
			return result;
	}
}

/* 0, or -errno. */
long queue_send(const struct view *view, const char *data, size_t length, unsigned priority,
		struct patience patience)
{
	struct call call = {.sends = 1, .message = data, .length = length, .priority = priority};
	return until_done(view, &call, patience);
}

/* The length of the message, or -errno. `data` has room for the largest. */
long queue_receive(const struct view *view, char *data, unsigned *priority,
		   struct patience patience)
{
	struct call call = {.data = data, .answer = priority};
	return until_done(view, &call, patience);
}
