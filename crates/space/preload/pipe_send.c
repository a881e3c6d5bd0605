/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: what a program writes to a pipe lies in the kernel's frames until it is read, in any
 * colour (MC2 3.3). Rule: it is copied into a page of the program's own frames, and vmsplice() has
 * the pipe refer to this page. So the pipe is the kernel's in all else: order, end of file,
 * SIGPIPE, waiting, poll and epoll, fork, exec, descriptors that are passed on, kills, and readers
 * without this library. A piece of at most a page is one slot of the pipe, so a write up to
 * PIPE_BUF is whole. The pipe has more slots than usual, as short pieces do not share one. The
 * kernel writes a message for which there is no page or no slot. Does not cover: packets
 * (O_DIRECT); a pipe whose size the program chooses; memory that another thread unmaps meanwhile
 * (the process ends, where the kernel says EFAULT).
 */
#define _GNU_SOURCE
#include "hooks.h"
#include "pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>

/* Asks how much is unread; -1: the pages may not be used again. In this order: a reader marks the
 * pipe before it takes pages out. */
static int look(struct stream *s, int fd)
{
	int unread = 0;
	if (failed(raw(SYS_ioctl, fd, FIONREAD, &unread)) || unread < 0 ||
	    stream_is_marked(fd) == (int)MARK_KERNELS) {
		stream_leave(s);
		return -1;
	}
	ring_read(&s->ring, (uint64_t)unread);
	return 0;
}

/* A named pipe is a new one, with the usual size, whenever all have closed it. */
static int has_slots(const struct stream *s, int fd)
{
	const long wanted = (long)(PIPE_SLOTS * PAGE);
	if (s->kind != STREAM_FIFO)
		return 1;
	long size = raw(SYS_fcntl, fd, F_GETPIPE_SZ);
	if (size == (long)PIPE_BYTES_USUAL)
		size = raw(SYS_fcntl, fd, F_SETPIPE_SZ, wanted);
	if (size != wanted)
		stream_stays_kernels("a named pipe", "its size cannot be changed, or was, so it "
						     "stays in the kernel's frames");
	return size == wanted;
}

/* 1: there are pages and slots for the next pieces. */
static int has_room(struct stream *s, int fd, size_t length)
{
	int is_short = length < SHORT_PIECE;
	int enough = (!is_short || ring_room_for_short(&s->ring)) &&
		     ring_has_room(&s->ring, length) == 2;
	if (!enough && look(s, fd))
		return 0;
	return (!is_short || ring_room_for_short(&s->ring)) && ring_has_room(&s->ring, length);
}

/* The kernel sends the rest, after some of the call's bytes were sent. `flags` are those of send();
 * -1: it is a write. */
long kernel_rest(int fd, struct gather *gather, size_t done, int flags)
{
	while (gather->left) {
		size_t here = gather->part->iov_len - gather->in_part;
		const char *from = (const char *)gather->part->iov_base + gather->in_part;
		long result = flags < 0 ? raw(SYS_write, fd, from, here)
					: raw(SYS_sendto, fd, from, here, flags, 0, 0);
		if (failed(result))
			break;
		done += (size_t)result;
		if ((size_t)result < here)
			break;
		gather_skip(gather, here);
	}
	return (long)done;
}

/* Has the pipe refer to the pieces; waits for a slot. The first wait of a call is the kernel's,
 * which goes on after a signal's handler with SA_RESTART. A later one ends with any handler, as
 * there are bytes to be told of. */
static long give(int fd, const struct pieces *pieces, int waits, int first)
{
	struct pollfd slot = {fd, POLLOUT, 0};
	for (;;) {
		long result = raw(SYS_vmsplice, fd, pieces->at, pieces->count,
				  waits && first ? 0 : SPLICE_F_NONBLOCK);
		if (result != -EAGAIN || !waits)
			return result;
		result = raw(SYS_ppoll, &slot, 1, 0, 0, 0);
		if (failed(result))
			return result;
	}
}

/* Sends bytes to a pipe: their number, -errno, or KERNELS. */
long pipe_send(struct stream *s, int fd, struct gather gather)
{
	struct pieces pieces;
	size_t done = 0;
	long flags = raw(SYS_fcntl, fd, F_GETFL);
	if (failed(flags) || flags & O_DIRECT || (flags & O_ACCMODE) == O_RDONLY ||
	    !has_slots(s, fd))
		return KERNELS;
	while (gather.left) {
		if (!has_room(s, fd, gather.left)) {
			stream_stays_kernels(
				"a pipe", "more than 16 short messages, or all pages, are unread; "
					  "further ones go through the kernel's frames meanwhile");
			return done ? kernel_rest(fd, &gather, done, -1) : KERNELS;
		}
		ring_fill(&s->ring, gather, &pieces);
		long result = give(fd, &pieces, !(flags & O_NONBLOCK), !done);
		if (!failed(result) && result > 0) {
			ring_sent(&s->ring, &pieces, (size_t)result);
			gather_skip(&gather, (size_t)result);
			done += (size_t)result;
			continue;
		}
		if (done)
			return (long)done;
		return result == -EAGAIN || result == -EPIPE || result == -EINTR ? result : KERNELS;
	}
	return (long)done;
}
