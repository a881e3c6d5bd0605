/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: messages between programs of a plan lie in the kernel's memory, in frames of any colour
 * (MC2 3.3). Rule: a queue lies in memory that the processes share. A lock that the kernel frees
 * when its owner dies protects it; a message is there, or gone, by one store of its first place's
 * key. A key is larger for a message that comes out earlier: by priority, then by age. A long
 * message goes on in other places; after a death, they are found again from the messages that are
 * there. Signals are blocked while the lock is held: a handler may use the queue, or never return.
 * All waiting threads are woken, as one that is killed would take the wake with it. Does not cover:
 * buffers that are not mapped (the process ends, where the kernel says EFAULT); a sender that is
 * killed between its message and the wake (it is seen with the next one); a program that is stopped
 * with the lock (others wait for it, and signals do not end that wait); programs that write to the
 * queue's memory in other ways; the order of threads that wait.
 */
#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define MAGIC 0x3371636du /* "mcq3" */
#define LINE 64ul
#define MOST_PLACES (1ul << 20)
#define MOST_SIZE (64ul << 20)
#define NUMBERS (1ul << 48)
#define CONTINUES 1ul /* the key of a place that a message goes on in */
#define FUTEX_WAIT_BITSET_REALTIME (9 | 256)
#define FUTEX_WAIT_BITSET_MONOTONIC 9
#define FUTEX_WAKE_ 1

struct place {
	uint32_t length; /* of the message; in its first place only */
	uint32_t next;	 /* where it goes on */
	int64_t type;
	char data[];
};

/* Bytes from one place to the next. */
static uint64_t stride(uint64_t piece)
{
	return (sizeof(struct place) + piece + LINE - 1) & ~(LINE - 1);
}

static uint64_t first_place(uint64_t places)
{
	return (sizeof(struct queue) + places * 8 + LINE - 1) & ~(LINE - 1);
}

static struct place *place(const struct view *view, uint64_t at)
{
	return (struct place *)((char *)view->queue + first_place(view->places) +
				at * stride(view->piece));
}

/* Bytes of memory that a queue needs; 0: there is none of this size. */
uint64_t queue_size(const struct limits *limits)
{
	if (!limits->places || !limits->piece || limits->places > MOST_PLACES ||
	    limits->piece > MOST_BYTES || limits->bytes > MOST_BYTES)
		return 0;
	uint64_t size = first_place(limits->places) + limits->places * stride(limits->piece);
	return size <= MOST_SIZE ? (size + PAGE - 1) & ~(PAGE - 1) : 0;
}

/* Makes a queue in memory that is zero and that no other process has; -1: there are no such locks.
 */
int queue_make(struct queue *q, const struct limits *limits)
{
	pthread_mutexattr_t kind;
	q->limits.places = limits->places;
	q->limits.piece = limits->piece;
	q->limits.bytes = limits->bytes;
	q->limits.most = limits->most;
	q->limits.most_bytes = limits->most_bytes;
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
	struct limits limits = {
		.places = q->limits.places, .piece = q->limits.piece, .bytes = q->limits.bytes};
	view->queue = q;
	view->size = size;
	view->places = limits.places;
	view->piece = limits.piece;
	view->bytes = limits.bytes;
	return q->magic == MAGIC && queue_size(&limits) == size ? 0 : -1;
}

uint64_t queue_held(const struct view *view)
{
	return __atomic_load_n(&view->queue->held, __ATOMIC_RELAXED);
}

/* The places that are searched. */
static uint64_t searched(const struct view *view)
{
	uint64_t high = view->queue->high;
	return high < view->places ? high : view->places;
}

/* A free place from here on; the number of places: none is. */
static uint64_t find_free(const struct view *view, uint64_t at)
{
	uint64_t high = searched(view);
	while (at < high && view->queue->keys[at])
		at++;
	return at;
}

/* Is a message of this type wanted? `lowest`: the lowest type of those that were found. */
static int is_wanted(const struct call *call, int64_t type, int64_t lowest)
{
	switch (call->choice) {
	case CHOICE_TYPE:
		return type == call->type;
	case CHOICE_NOT_TYPE:
		return type != call->type;
	case CHOICE_UP_TO:
		return type <= lowest;
	default:
		return 1;
	}
}

/* The place of the message that comes out next; the number of places: none is wanted. */
static uint64_t find(const struct view *view, const struct call *call)
{
	uint64_t found = view->places, best = CONTINUES, high = searched(view);
	int64_t lowest = call->type;
	for (uint64_t at = 0; at < high; at++) {
		uint64_t key = view->queue->keys[at];
		if (key <= CONTINUES)
			continue;
		int64_t type = place(view, at)->type;
		int lower = call->choice == CHOICE_UP_TO && type < lowest;
		if (!is_wanted(call, type, lowest) || (key <= best && !lower))
			continue;
		lowest = type;
		best = key;
		found = at;
	}
	return found;
}

static uint64_t length_at(const struct view *view, uint64_t at)
{
	uint64_t length = place(view, at)->length;
	return length < view->bytes ? length : view->bytes;
}

/* Sets the key of the places that a message goes on in. */
static void set_further(const struct view *view, uint64_t at, uint64_t key)
{
	for (uint64_t left = length_at(view, at); left > view->piece; left -= view->piece) {
		at = place(view, at)->next;
		if (at >= view->places)
			return;
		view->queue->keys[at] = key;
	}
}

/* After a process died with the lock: the keys of first places say which messages are there. */
static void recover(const struct view *view)
{
	struct queue *q = view->queue;
	q->held = q->held_bytes = 0;
	q->high = view->places;
	for (uint64_t at = 0; at < view->places; at++)
		if (q->keys[at] == CONTINUES)
			q->keys[at] = 0;
	for (uint64_t at = 0; at < view->places; at++)
		if (q->keys[at] > CONTINUES) {
			q->held++;
			q->held_bytes += length_at(view, at);
			set_further(view, at, CONTINUES);
		}
}

/* Takes the lock, and blocks signals until queue_unlock(); -errno: it did neither. */
static long lock_by(int (*take)(pthread_mutex_t *), const struct view *view, uint64_t *signals)
{
	struct queue *q = view->queue;
	uint64_t all = ~0ul;
	raw(SYS_rt_sigprocmask, 0, &all, signals, 8);
	int error = take(&q->lock);
	if (error == EOWNERDEAD) {
		recover(view);
		error = pthread_mutex_consistent(&q->lock);
	}
	if (error)
		raw(SYS_rt_sigprocmask, 2, signals, 0, 8);
	return -error;
}

long queue_lock(const struct view *view, uint64_t *signals)
{
	return lock_by(pthread_mutex_lock, view, signals);
}

/* -EBUSY: another thread holds it. */
long queue_try_lock(const struct view *view, uint64_t *signals)
{
	return lock_by(pthread_mutex_trylock, view, signals);
}

void queue_unlock(const struct view *view, uint64_t signals)
{
	pthread_mutex_unlock(&view->queue->lock);
	raw(SYS_rt_sigprocmask, 2, &signals, 0, 8);
}

static void wake(uint32_t *word, const uint32_t *waiting)
{
	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(waiting, __ATOMIC_SEQ_CST))
		raw(SYS_futex, word, FUTEX_WAKE_, 0x7fffffff);
}

/* Threads that wait look at the queue again. */
void queue_wake(const struct view *view)
{
	wake(&view->queue->sent, &view->queue->receivers);
	wake(&view->queue->received, &view->queue->senders);
}

/* Waits until a word is no longer what it was; -errno if that takes too long. */
static long wait_for_change(const uint32_t *word, uint32_t seen, struct patience patience)
{
	/* A wait with a limit is not restarted. */
	static const struct timespec century = {.tv_sec = 1l << 32};
	long result =
		patience.fd == PATIENCE_UNTIL_SIGNAL
			? raw(SYS_futex, word, FUTEX_WAIT_BITSET_MONOTONIC, seen, &century, 0, ~0u)
			: raw(SYS_futex, word, FUTEX_WAIT_BITSET_REALTIME, seen, patience.until, 0,
			      ~0u);
	return result == -EAGAIN ? 0 : failed(result) ? result : 0;
}

/* The process and the time of a call that wants them to be kept. */
static void note(struct queue *q, const struct call *call)
{
	struct timespec time = {0, 0};
	if (!call->process)
		return;
	clock_gettime(CLOCK_REALTIME, &time);
	if (call->sends) {
		q->facts.msg_lspid = call->process;
		q->facts.msg_stime = time.tv_sec;
	} else {
		q->facts.msg_lrpid = call->process;
		q->facts.msg_rtime = time.tv_sec;
	}
}

static long put(const struct view *view, const struct call *call)
{
	struct queue *q = view->queue;
	uint64_t head = find_free(view, 0), at = head, left = call->length, used = searched(view);
	const char *from = call->message;
	if (head >= view->places)
		return -EAGAIN;
	place(view, head)->length = (uint32_t)call->length;
	place(view, head)->type = call->type;
	for (;;) {
		uint64_t piece = left < view->piece ? left : view->piece;
		memcpy(place(view, at)->data, from, piece);
		from += piece;
		left -= piece;
		used = used > at ? used : at + 1;
		if (!left)
			break;
		uint64_t next = find_free(view, at + 1);
		if (next >= view->places) {
			/* There is always room but after a program wrote to it in other ways. */
			recover(view);
			return -EAGAIN;
		}
		place(view, at)->next = (uint32_t)next;
		at = next;
		q->keys[at] = CONTINUES;
	}
	q->high = used;
	q->number++;
	/* The message is there from here on, also if this process ends. */
	__atomic_store_n(&q->keys[head],
			 (uint64_t)(call->priority + 1) << 48 | (NUMBERS - 1 - q->number % NUMBERS),
			 __ATOMIC_RELEASE);
	q->held++;
	q->held_bytes += call->length;
	return 0;
}

static long get(const struct view *view, uint64_t head, struct call *call)
{
	struct queue *q = view->queue;
	uint64_t length = length_at(view, head), at = head;
	if (length > call->length && !call->cuts)
		return -E2BIG;
	uint64_t wanted = length < call->length ? length : call->length;
	for (uint64_t done = 0; done < wanted && at < view->places; at = place(view, at)->next) {
		uint64_t piece = wanted - done < view->piece ? wanted - done : view->piece;
		memcpy(call->data + done, place(view, at)->data, piece);
		done += piece;
	}
	call->priority = (unsigned)(q->keys[head] >> 48) - 1;
	call->type = place(view, head)->type;
	__atomic_store_n(&q->keys[head], 0, __ATOMIC_RELEASE);
	set_further(view, head, 0);
	q->held--;
	q->held_bytes -= length;
	for (q->high = searched(view); q->high && !q->keys[q->high - 1];)
		q->high--;
	return (long)wanted;
}

/* One try, with the lock held; -EAGAIN: the queue is full, or has no such message. */
static long act(const struct view *view, struct call *call)
{
	struct queue *q = view->queue;
	if (q->removed)
		return -EIDRM;
	if (call->sends) {
		if (q->held >= q->limits.most ||
		    q->held_bytes + call->length > q->limits.most_bytes)
			return -EAGAIN;
		return put(view, call);
	}
	uint64_t at = q->held ? find(view, call) : view->places;
	return at < view->places ? get(view, at, call) : -EAGAIN;
}

static int never_waits(struct patience patience)
{
	if (patience.fd < 0)
		return patience.fd == PATIENCE_NONE;
	long flags = raw(SYS_fcntl, patience.fd, F_GETFL);
	return failed(flags) || flags & O_NONBLOCK;
}

/* Sends or receives a message: its length, 0 for a sender, or -errno. */
long queue_pass(const struct view *view, struct call *call, struct patience patience)
{
	struct queue *q = view->queue;
	uint32_t *mine = call->sends ? &q->sent : &q->received;
	uint32_t *theirs = call->sends ? &q->received : &q->sent;
	uint32_t *waiting = call->sends ? &q->senders : &q->receivers;
	const uint32_t *others = call->sends ? &q->receivers : &q->senders;
	for (;;) {
		uint64_t signals;
		long result = queue_lock(view, &signals);
		if (result)
			return result;
		result = act(view, call);
		if (!failed(result))
			note(q, call);
		/* A change after this one wakes. */
		uint32_t seen = __atomic_load_n(theirs, __ATOMIC_SEQ_CST);
		queue_unlock(view, signals);
		if (!failed(result))
			wake(mine, others);
		if (result != -EAGAIN || never_waits(patience))
			return result;
		__atomic_fetch_add(waiting, 1, __ATOMIC_SEQ_CST);
		result = wait_for_change(theirs, seen, patience);
		__atomic_fetch_sub(waiting, 1, __ATOMIC_SEQ_CST);
		if (result)
			return result;
	}
}
