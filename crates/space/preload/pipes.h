/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a program sends through pipes and UNIX sockets: in pages of its own frames, which the
 * kernel's pipe or socket refers to. The program's side: libc may be used.
 */
#ifndef SOLOCORE_PRELOAD_PIPES_H
#define SOLOCORE_PRELOAD_PIPES_H

#include "raw.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* Slots of a pipe: each holds one piece, which lies in one page. The kernel has 16 by default. */
#define PIPE_SLOTS 64ul
#define PIPE_BYTES_USUAL (16 * PAGE)
/* Pages of a ring: one for each slot, and some for pieces that are being read. */
#define RING_PAGES 80u
/* Pieces shorter than this take slots from others: at most some of them are unread at a time. With
 * longer ones, a full pipe has at least 16 pages, as the kernel's has. */
#define SHORT_PIECE 2048ul
#define MOST_SHORT 16u
#define AT_ONCE 16u
#ifndef F_SETPIPE_SZ
#define F_SETPIPE_SZ 1031
#define F_GETPIPE_SZ 1032
#endif
/* No length, and no -errno: the kernel does the call. */
#define KERNELS (1l << 40)

/* Bytes that a call sends, and how far it is. */
struct gather {
	const struct iovec *part;
	size_t in_part; /* bytes of it that are sent */
	size_t left;	/* bytes of all parts */
};

/* Pages for pieces. The bytes of a stream are read in their order, so a page is free again once as
 * many were read as had been sent with its last piece. */
struct ring {
	char *pages;
	unsigned made;		   /* pages that were ever used */
	unsigned page, fill;	   /* where the next short piece goes */
	uint64_t sent, gone;	   /* bytes so far; of them, those that are read, at least */
	uint64_t last[RING_PAGES]; /* `sent` after the last piece of each page */
	uint64_t ends[MOST_SHORT]; /* `sent` after each of the latest short pieces */
	unsigned shorts;	   /* of them, the next */
};

/* A piece: a part of a page. */
struct pieces {
	struct iovec at[AT_ONCE];
	unsigned pages[AT_ONCE], count;
};

/* pipe_ring.c */
int ring_make(struct ring *ring);
void ring_drop(struct ring *ring);
void ring_read(struct ring *ring, uint64_t unread);
int ring_room_for_short(const struct ring *ring);
unsigned ring_has_room(const struct ring *ring, size_t length);
void ring_fill(struct ring *ring, struct gather from, struct pieces *pieces);
void ring_sent(struct ring *ring, const struct pieces *pieces, size_t bytes);
void gather_skip(struct gather *gather, size_t bytes);

enum stream_kind { STREAM_NONE, STREAM_KERNELS, STREAM_PIPE, STREAM_FIFO, STREAM_SOCKET };

/* A pipe or socket that this process has written to. */
struct stream {
	volatile int lock;
	volatile int kind;
	dev_t device;
	ino_t inode;
	uint64_t used; /* number of the latest call */
	struct ring ring;
};

/* streams.c */
extern int pipes_are_on, fifos_are_on, sockets_are_on;
int streams_begin(void);
void streams_forked(void);
void stream_stays_kernels(const char *what, const char *why);
struct stream *stream_take(int fd, const struct stat *file);
void stream_give(struct stream *s);
void stream_leave(struct stream *s);
int stream_is_marked(int fd);
int stream_mark(int fd, uint64_t mark);
int stream_fifo_is_listed(const struct stat *file);
#define MARK_OURS 2ul	 /* RWH_WRITE_LIFE_SHORT: a pipe that a program with this library made */
#define MARK_KERNELS 5ul /* RWH_WRITE_LIFE_EXTREME */

/* pipe_send.c, socket_send.c */
void sockets_forked(void);
long kernel_rest(int fd, struct gather *gather, size_t done, int flags);
long pipe_send(struct stream *s, int fd, struct gather gather);
long socket_send(struct stream *s, int fd, struct gather gather, int flags);
int socket_is_unix(int fd);

/* pipe_calls.c */
int pipe_hooks(void);

#endif
