/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A message queue in memory that processes share. The program's side: libc may be used.
 */
#ifndef SOLOCORE_PRELOAD_QUEUE_H
#define SOLOCORE_PRELOAD_QUEUE_H

#include "raw.h"

#include <pthread.h>
#include <time.h>

#define QUEUE_PRIORITIES 32768u /* MQ_PRIO_MAX */

struct queue {
	uint32_t magic, zero;
	uint64_t messages, bytes; /* most messages, and bytes of the largest */
	pthread_mutex_t lock;
	uint64_t held, number;	     /* messages that are in it, and that ever were */
	uint32_t sent, received;     /* change with each message; threads wait for that */
	uint32_t senders, receivers; /* threads that wait; more, after some were killed */
	uint64_t keys[];	     /* of each place; 0: it is free */
};

/* A queue as a process has mapped it. Its limits are this process's own copy. */
struct view {
	struct queue *queue;
	uint64_t size, messages, bytes;
};

/* How long a call waits. */
struct patience {
	int fd;			      /* not at all, if this descriptor is O_NONBLOCK */
	const struct timespec *until; /* CLOCK_REALTIME; null: for ever */
};

uint64_t queue_size(uint64_t messages, uint64_t bytes);
int queue_make(struct queue *q, uint64_t messages, uint64_t bytes);
int queue_view(struct view *view, struct queue *q, uint64_t size);
uint64_t queue_held(const struct view *view);
long queue_send(const struct view *view, const char *data, size_t length, unsigned priority,
		struct patience patience);
long queue_receive(const struct view *view, char *data, unsigned *priority,
		   struct patience patience);

#endif
