/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: a call has a number of a descriptor, and any of them may be closed, copied or inherited
 * unseen. Rule: what a process knows of a pipe or socket is kept by the inode, which each call asks
 * for. A lock is only tried: who does not get it, also a signal's handler, leaves the call to the
 * kernel. Whether a pipe was made by a program with this library, and whether its pages may no
 * longer be used again, is known to all of its processes by a mark on its inode (F_SET_RW_HINT),
 * which means nothing to the kernel's pipes. Does not cover: programs that set this hint of a pipe
 * themselves.
 */
#define _GNU_SOURCE
#include "hooks.h"
#include "pipes.h"
#include "queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef F_GET_RW_HINT
#define F_GET_RW_HINT 1035
#define F_SET_RW_HINT 1036
#endif
#define SETS 32u
#define WAYS 4u
#define SPINS 200

int pipes_are_on, fifos_are_on, sockets_are_on;

static struct stream streams[SETS * WAYS];
static dev_t pipe_device;
static uint64_t calls;
/* Reasons that a program can have. */
enum { REASONS = 8 };
static volatile int told[REASONS];

/* Tells solocore once of each kind of reason. */
void stream_stays_kernels(const char *what, const char *why)
{
	static const char *seen[REASONS];
	char text[sizeof self->text];
	for (int i = 0; i < REASONS; i++) {
		if (seen[i] == why)
			return;
		if (told[i] || __atomic_exchange_n(&told[i], 1, __ATOMIC_SEQ_CST))
			continue;
		seen[i] = why;
		snprintf(text, sizeof text, "%s: %s", what, why);
		call_handler(REQUEST_NOTE, 0, 0, text);
		return;
	}
}

int stream_is_marked(int fd)
{
	uint64_t mark = 0;
	return failed(raw(SYS_fcntl, fd, F_GET_RW_HINT, &mark)) ? 0 : (int)mark;
}

/* -1: only the owner may. */
int stream_mark(int fd, uint64_t mark)
{
	return failed(raw(SYS_fcntl, fd, F_SET_RW_HINT, &mark)) ? -1 : 0;
}

/* Does a pipe refer to the page that is put into it, so that what is read lies in its frame? And
 * can it be marked? */
static int try_a_pipe(char *page)
{
	int ends[2];
	char found = 0;
	struct stat file;
	struct iovec piece = {page, 1};
	if (failed(raw(SYS_pipe2, ends, O_CLOEXEC)))
		return 0;
	*page = 'a';
	int right = !stream_mark(ends[0], MARK_OURS) && stream_is_marked(ends[1]) == MARK_OURS &&
		    !failed(raw(SYS_fstat, ends[0], &file)) &&
		    raw(SYS_vmsplice, ends[1], &piece, 1, SPLICE_F_NONBLOCK) == 1;
	*(volatile char *)page = 'b';
	right = right && raw(SYS_read, ends[0], &found, 1) == 1 && found == 'b';
	pipe_device = file.st_dev;
	raw(SYS_close, ends[0]);
	raw(SYS_close, ends[1]);
	return right;
}

/* -1: no stream of this program can be in its frames. */
int streams_begin(void)
{
	char path[512];
	pipes_are_on = queue_is_listed("pipes");
	sockets_are_on = queue_is_listed("sockets");
	fifos_are_on = queue_fifo(0, path, sizeof path);
	if (!pipes_are_on && !sockets_are_on && !fifos_are_on)
		return -1;
	long page =
		raw(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int right = !failed(page) && try_a_pipe((char *)page);
	if (!failed(page))
		raw(SYS_munmap, page, PAGE);
	if (right)
		return 0;
	stream_stays_kernels("pipes and sockets", "this kernel copies what vmsplice gives it, so "
						  "they stay in the kernel's frames");
	pipes_are_on = fifos_are_on = sockets_are_on = 0;
	return -1;
}

/* A child has its parent's pipes, and none of its rings. */
void streams_forked(void)
{
	zero_bytes(streams, sizeof streams);
	sockets_forked();
}

int stream_fifo_is_listed(const struct stat *file)
{
	char path[512];
	struct stat named;
	for (unsigned i = 0; queue_fifo(i, path, sizeof path); i++)
		if (!failed(raw(SYS_newfstatat, AT_FDCWD, path, &named, 0)) &&
		    named.st_dev == file->st_dev && named.st_ino == file->st_ino)
			return 1;
	return 0;
}

static int kind_of_socket(int fd)
{
	int type = 0, length = sizeof type;
	if (!sockets_are_on || failed(raw(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &length)))
		return STREAM_KERNELS;
	return type == SOCK_STREAM ? STREAM_SOCKET : STREAM_KERNELS;
}

static int kind_of(int fd, const struct stat *file)
{
	if (S_ISSOCK(file->st_mode))
		return kind_of_socket(fd);
	int mark = stream_is_marked(fd);
	if (mark == (int)MARK_KERNELS)
		return STREAM_KERNELS;
	if (file->st_dev == pipe_device)
		return pipes_are_on && mark == (int)MARK_OURS ? STREAM_PIPE : STREAM_KERNELS;
	return fifos_are_on && stream_fifo_is_listed(file) ? STREAM_FIFO : STREAM_KERNELS;
}

static int take(struct stream *s)
{
	for (int i = 0; i < SPINS; i++)
		if (!s->lock && !__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE))
			return 1;
	return 0;
}

void stream_give(struct stream *s)
{
	__atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

static int is_of(const struct stream *s, const struct stat *file)
{
	return s->kind && s->inode == file->st_ino && s->device == file->st_dev;
}

/* The entry of this file, or the one to be used for it. */
static struct stream *entry_for(const struct stat *file)
{
	struct stream *set = &streams[file->st_ino % SETS * WAYS], *oldest = set;
	for (unsigned i = 0; i < WAYS; i++)
		if (is_of(&set[i], file))
			return &set[i];
	for (unsigned i = 1; i < WAYS; i++)
		if (oldest->lock || (!set[i].lock && set[i].used < oldest->used))
			oldest = &set[i];
	return oldest;
}

/* What this process knows of a pipe or socket, for stream_give(); null: the kernel does the call.
 */
struct stream *stream_take(int fd, const struct stat *file)
{
	struct stream *s = entry_for(file);
	if ((is_of(s, file) && s->kind == STREAM_KERNELS) || !take(s))
		return 0;
	s->used = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	if (!is_of(s, file)) {
		ring_drop(&s->ring);
		s->kind = STREAM_NONE;
		s->device = file->st_dev;
		s->inode = file->st_ino;
		s->kind = kind_of(fd, file);
	}
	if (s->kind != STREAM_KERNELS && !ring_make(&s->ring))
		return s;
	stream_give(s);
	return 0;
}

/* All later calls are the kernel's. */
void stream_leave(struct stream *s)
{
	ring_drop(&s->ring);
	s->kind = STREAM_KERNELS;
}
