/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: what a program sends through a UNIX socket lies in the kernel's frames until it is
 * received. Rule: as with pipes (pipe_send.c). It is copied into a page of the program's frames,
 * and splice() has a stream socket refer to the page, by a pipe of this library between them. The
 * kernel says how much of the socket's room is taken (SIOCOUTQ), which is no less than what is
 * unread. While a call waits for room, calls of other threads are the kernel's. Does not cover: a
 * long write that waits again after it has sent a part, and goes on after a handler with
 * SA_RESTART, where the kernel's returns the part; datagrams and SOCK_SEQPACKET, which the kernel
 * copies from any page; messages with descriptors or credentials, other flags than MSG_NOSIGNAL and
 * MSG_DONTWAIT, and MSG_DONTWAIT on a socket without O_NONBLOCK, which are the kernel's.
 */
#define _GNU_SOURCE
#include "hooks.h"
#include "pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define SIOCOUTQ_ 0x5411
#define FIRST_OWN 600 /* numbers from here on are seldom used by programs */

/* The pipe between pages and sockets: nothing is in it between two calls. */
static struct {
	volatile int lock;
	int ends[2], there;
	ino_t inode;
} between;

static int is_its_end(int fd)
{
	struct stat file;
	return !failed(raw(SYS_fstat, fd, &file)) && S_ISFIFO(file.st_mode) &&
	       file.st_ino == between.inode;
}

/* Another descriptor of a higher number. */
static int high(int fd)
{
	long other = raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FIRST_OWN);
	if (failed(other))
		return fd;
	raw(SYS_close, fd);
	return (int)other;
}

/* The program may have closed them, and have others by their numbers. */
static void close_it(void)
{
	for (int i = 0; between.there && i < 2; i++)
		if (is_its_end(between.ends[i]))
			raw(SYS_close, between.ends[i]);
	between.there = 0;
}

static int open_it(void)
{
	struct stat file;
	if (between.there && is_its_end(between.ends[0]) && is_its_end(between.ends[1]))
		return 0;
	close_it();
	if (failed(raw(SYS_pipe2, between.ends, O_CLOEXEC | O_NONBLOCK)))
		return -1;
	between.ends[0] = high(between.ends[0]);
	between.ends[1] = high(between.ends[1]);
	between.inode = failed(raw(SYS_fstat, between.ends[0], &file)) ? 0 : file.st_ino;
	between.there = 1;
	return 0;
}

/* A child makes one of its own. */
void sockets_forked(void)
{
	close_it();
	between.lock = 0;
}

/* Has the socket refer to the pages of the pieces; SIGPIPE is held back if `quiet`. */
static long splice_to(int fd, size_t bytes, int waits, int quiet)
{
	uint64_t pipe = 1ul << (SIGPIPE - 1), before = 0, pending = 0;
	if (quiet) {
		raw(SYS_rt_sigprocmask, SIG_BLOCK, &pipe, &before, 8);
		raw(SYS_rt_sigpending, &pending, 8);
	}
	long result =
		raw(SYS_splice, between.ends[0], 0, fd, 0, bytes, waits ? 0 : SPLICE_F_NONBLOCK);
	if (quiet) {
		long none[2] = {0, 0};
		if (result == -EPIPE && !(pending & pipe))
			raw(SYS_rt_sigtimedwait, &pipe, 0, none, 8);
		raw(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
	}
	return result;
}

static long pieces_length(const struct pieces *pieces)
{
	size_t bytes = 0;
	for (unsigned i = 0; i < pieces->count; i++)
		bytes += pieces->at[i].iov_len;
	return (long)bytes;
}

static long send_pieces(int fd, const struct pieces *pieces, int waits, int quiet)
{
	size_t bytes = (size_t)pieces_length(pieces);
	if (__atomic_exchange_n(&between.lock, 1, __ATOMIC_ACQUIRE)) {
		stream_stays_kernels("a UNIX socket",
				     "another call on a socket goes on; messages go "
				     "through the kernel's frames meanwhile");
		return KERNELS;
	}
	long result = open_it() ? KERNELS : 0;
	if (!result && raw(SYS_vmsplice, between.ends[1], pieces->at, pieces->count,
			   SPLICE_F_NONBLOCK) != (long)bytes)
		result = KERNELS;
	if (!result)
		result = splice_to(fd, bytes, waits, quiet);
	/* Bytes that are left in the pipe are dropped with it. */
	if (result != (long)bytes)
		close_it();
	__atomic_store_n(&between.lock, 0, __ATOMIC_RELEASE);
	return result;
}

static int has_room(struct stream *s, int fd, size_t length)
{
	int taken = 0;
	if (ring_has_room(&s->ring, length) == 2)
		return 1;
	if (failed(raw(SYS_ioctl, fd, SIOCOUTQ_, &taken)) || taken < 0)
		return 0;
	ring_read(&s->ring, (uint64_t)taken);
	return ring_has_room(&s->ring, length) != 0;
}

/* Is this a UNIX socket, and not another one with the same number of inode? */
int socket_is_unix(int fd)
{
	int domain = 0, length = sizeof domain;
	return !failed(raw(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &length)) &&
	       domain == AF_UNIX;
}

/* Sends bytes to a socket: their number, -errno, or KERNELS. */
long socket_send(struct stream *s, int fd, struct gather gather, int flags)
{
	struct pieces pieces;
	size_t done = 0;
	if (flags & ~(MSG_NOSIGNAL | MSG_DONTWAIT) || !socket_is_unix(fd))
		return KERNELS;
	long state = raw(SYS_fcntl, fd, F_GETFL);
	/* splice() asks only for the socket's own O_NONBLOCK. */
	if (failed(state) || (flags & MSG_DONTWAIT && !(state & O_NONBLOCK)))
		return KERNELS;
	int waits = !(state & O_NONBLOCK);
	while (gather.left) {
		long result = KERNELS;
		if (has_room(s, fd, gather.left)) {
			ring_fill(&s->ring, gather, &pieces);
			result = send_pieces(fd, &pieces, waits, done || flags & MSG_NOSIGNAL);
		} else {
			stream_stays_kernels("a UNIX socket",
					     "all pages for it are unread; further messages go "
					     "through the kernel's frames meanwhile");
		}
		if (!failed(result) && result != KERNELS && result > 0) {
			ring_sent(&s->ring, &pieces, (size_t)result);
			gather_skip(&gather, (size_t)result);
			done += (size_t)result;
			/* A signal, or the peer's end: the call ends with what it has sent. */
			if (result < pieces_length(&pieces))
				return (long)done;
			continue;
		}
		int is_kernels = result == KERNELS || result == -EINVAL || result == -ENOMEM ||
				 result == -EOPNOTSUPP || result == -ENOBUFS;
		if (is_kernels)
			/* Once bytes were sent, no SIGPIPE is due. */
			return done ? kernel_rest(fd, &gather, done, flags | MSG_NOSIGNAL)
				    : KERNELS;
		return done ? (long)done : result;
	}
	return (long)done;
}
