/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A message queue in memory that processes share, for POSIX (messages.c) and System V (sysv.c).
 * The program's side: libc may be used.
 */
#ifndef SOLOCORE_PRELOAD_QUEUE_H
#define SOLOCORE_PRELOAD_QUEUE_H

#include "raw.h"

#include <pthread.h>
#include <sys/msg.h>
#include <time.h>

#define QUEUE_PRIORITIES 32768u /* MQ_PRIO_MAX */
#define MOST_BYTES (16ul << 20) /* of a message */

/* A message takes a place, or several if it is longer than a piece. */
struct limits {
	uint64_t places, piece;	   /* of memory, and bytes of a message in each */
	uint64_t bytes;		   /* of the largest message */
	uint64_t most, most_bytes; /* messages that it holds, and bytes of all of them */
};

struct queue {
	uint32_t magic, removed; /* removed: calls end with EIDRM */
	uint32_t whole; /* System V: it has its names; not so with a free lock: its maker, or the
			   process that removed it, was killed meanwhile */
	struct limits limits;
	pthread_mutex_t lock;
	uint64_t held, held_bytes;   /* messages that are in it */
	uint64_t number;	     /* messages that ever were */
	uint64_t high;		     /* the places from here on are free */
	uint32_t sent, received;     /* change with each message; threads wait for that */
	uint32_t senders, receivers; /* threads that wait; more, after some were killed */
	int id, named;		     /* System V: its number; does its key's name belong to it? */
	struct msqid_ds facts;	     /* System V: owner, rights, times, processes */
	uint64_t keys[];	     /* of each place; 0: it is free */
};

/* A queue as a process has mapped it. What does not change is this process's own copy. */
struct view {
	struct queue *queue;
	uint64_t size, places, piece, bytes;
	uint64_t inode; /* of its file */
};

/* The time that a call waits. */
struct patience {
	int fd;			      /* not at all, if this descriptor is O_NONBLOCK */
	const struct timespec *until; /* CLOCK_REALTIME; null: for ever */
};
#define PATIENCE_NONE -1	 /* in place of a descriptor: not at all */
#define PATIENCE_UNTIL_SIGNAL -2 /* until a handler has run, also with SA_RESTART */

/* The message that a receiver wants. */
enum choice {
	CHOICE_FIRST,	 /* the highest priority; of these, the oldest */
	CHOICE_TYPE,	 /* the oldest of the type */
	CHOICE_NOT_TYPE, /* the oldest of another type */
	CHOICE_UP_TO,	 /* the oldest of the lowest type, which is at most `type` */
};

struct call {
	int sends;
	const char *message; /* to send */
	char *data;	     /* room for a message */
	size_t length;	     /* of either */
	unsigned priority;   /* given, or answered */
	long type;	     /* given, or answered */
	enum choice choice;
	int cuts;    /* a longer message is cut; otherwise it stays, and the call ends with E2BIG */
	int process; /* kept with the time as that of the last sender or receiver; 0: neither is */
};

uint64_t queue_size(const struct limits *limits);
int queue_make(struct queue *q, const struct limits *limits);
int queue_view(struct view *view, struct queue *q, uint64_t size);
uint64_t queue_held(const struct view *view);
long queue_lock(const struct view *view, uint64_t *signals);
long queue_try_lock(const struct view *view, uint64_t *signals);
void queue_unlock(const struct view *view, uint64_t signals);
void queue_wake(const struct view *view);
long queue_pass(const struct view *view, struct call *call, struct patience patience);

/* A System V queue that this process has mapped. */
struct mapped {
	int id; /* 0, or less: there is none */
	int users;
	struct view view;
};

/* mapped.c */
struct mapped *mapped_use(int id);
void mapped_let_go(struct mapped *place);
long mapped_keep(int id, const struct view *view);

/* listed.c */
int queue_is_listed(const char *name);
int queue_fifo(unsigned number, char *path, size_t room);

/* queue_file.c */
void queue_stays_kernels(const char *name);
long queue_file_again(long fd, int flags);
long queue_file_map(long fd, struct view *view);
long queue_file_new(const struct limits *limits, mode_t mode, struct view *view);
long queue_file_link(long fd, const char *path);
long queue_file_named(const struct view *view, const char *path);
long queue_file_unlink(const struct view *view, const char *path);
long queue_file_check(const struct view *view, const char *path, int waits);
void queue_files_tidy(const char *start);

#endif
