/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: programs write to pipes and sockets by several calls, libc's own streams among them.
 * Rule: libc's write, pipe and pipe2 come here by a jump (hooks.c), and the other calls by their
 * names. Calls on other descriptors go on to the kernel. So do those that pipe_send.c and
 * socket_send.c leave to it. A program that takes pages themselves out of a pipe
 * (splice, tee) marks the pipe first, and no page of it is used again. Does not cover: system calls
 * without libc, which are the kernel's; splice by io_uring or by a program without this library; a
 * thread that is cancelled while it waits in a write to a pipe.
 */
#define _GNU_SOURCE
#include "calls.h"
#include "hooks.h"
#include "pipes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <unistd.h>

/* Functions of libc, looked up before a signal's handler calls one. */
static struct {
	__typeof__(&writev) writev;
	__typeof__(&send) send;
	__typeof__(&sendto) sendto;
	__typeof__(&sendmsg) sendmsg;
	__typeof__(&splice) splice;
	__typeof__(&tee) tee;
	__typeof__(&fcntl) fcntl;
} real;
#define REAL(name) (real.name ? real.name : NEXT(name))

static void look_up(void)
{
	real.writev = NEXT(writev);
	real.send = NEXT(send);
	real.sendto = NEXT(sendto);
	real.sendmsg = NEXT(sendmsg);
	real.splice = NEXT(splice);
	real.tee = NEXT(tee);
	real.fcntl = NEXT(fcntl);
}

static int is_fifo(int fd)
{
	struct stat file;
	return !failed(raw(SYS_fstat, fd, &file)) && S_ISFIFO(file.st_mode);
}

/* Bytes of all parts; KERNELS: it is the kernel that says what is wrong with them. */
static long length_of(const struct iovec *parts, int count)
{
	size_t length = 0;
	if (count < 1 || count > IOV_MAX)
		return KERNELS;
	for (int i = 0; i < count; i++) {
		if (parts[i].iov_len > INT_MAX || (length += parts[i].iov_len) > INT_MAX)
			return KERNELS;
	}
	return length ? (long)length : KERNELS;
}

/* Can the bytes be read? For a buffer that is not mapped, the kernel answers EFAULT, and a copy
 * would end the program. rt_sigprocmask() reads 8 bytes before it refuses the operation -1. */
static int is_readable(const void *start, size_t length)
{
	uint64_t at = (uint64_t)start & ~7ul, end = (uint64_t)start + length;
	for (; length && at < end; at = (at & ~(uint64_t)(PAGE - 1)) + PAGE)
		/* The address 0 would be no set of signals. */
		if (at < PAGE || raw(SYS_rt_sigprocmask, -1, at, 0, 8) == -EFAULT)
			return 0;
	return 1;
}

static int are_readable(const struct iovec *parts, int count)
{
	for (int i = 0; i < count; i++)
		if (!is_readable(parts[i].iov_base, parts[i].iov_len))
			return 0;
	return 1;
}

/* Sends to a pipe or socket: the number of bytes, -errno, or KERNELS. `flags` are those of send();
 * -1: it is a write. */
static long pass(int fd, const struct iovec *parts, int count, int flags)
{
	struct stat file;
	if (failed(raw(SYS_fstat, fd, &file)))
		return KERNELS;
	int is_pipe = S_ISFIFO(file.st_mode) && (pipes_are_on || fifos_are_on) && flags < 0;
	if (!is_pipe && !(S_ISSOCK(file.st_mode) && sockets_are_on))
		return KERNELS;
	long length = length_of(parts, count), result = KERNELS;
	int can_be = length != KERNELS && are_readable(parts, count);
	struct stream *s = can_be ? stream_take(fd, &file) : 0;
	if (!s)
		return KERNELS;
	struct gather gather = {parts, 0, (size_t)length};
	gather_skip(&gather, 0);
	if (s->kind == STREAM_SOCKET)
		result = socket_send(s, fd, gather, flags < 0 ? 0 : flags);
	else if (is_pipe)
		result = pipe_send(s, fd, gather);
	stream_give(s);
	return result;
}

static ssize_t hook_write(int fd, const void *data, size_t length)
{
	struct iovec part = {(void *)data, length};
	long result = pass(fd, &part, 1, -1);
	if (result != KERNELS)
		return answer(result);
	/* A thread may be cancelled in it. A write of no bytes is a message on some sockets. */
	if (!__libc_single_threaded && length && length <= SSIZE_MAX)
		return REAL(writev)(fd, &part, 1);
	return answer(raw(SYS_write, fd, data, length));
}

EXPORTED ssize_t writev(int fd, const struct iovec *parts, int count)
{
	int on = pipes_are_on || fifos_are_on || sockets_are_on;
	long result = on && count > 0 && count <= IOV_MAX &&
				      is_readable(parts, (size_t)count * sizeof *parts)
			      ? pass(fd, parts, count, -1)
			      : KERNELS;
	return result == KERNELS ? REAL(writev)(fd, parts, count) : answer(result);
}

static long pass_to_socket(int fd, const struct iovec *parts, int count, int flags)
{
	return sockets_are_on && flags >= 0 ? pass(fd, parts, count, flags) : KERNELS;
}

EXPORTED ssize_t send(int fd, const void *data, size_t length, int flags)
{
	struct iovec part = {(void *)data, length};
	long result = pass_to_socket(fd, &part, 1, flags);
	return result == KERNELS ? REAL(send)(fd, data, length, flags) : answer(result);
}

EXPORTED ssize_t sendto(int fd, const void *data, size_t length, int flags,
			const struct sockaddr *to, socklen_t to_length)
{
	struct iovec part = {(void *)data, length};
	long result = to ? KERNELS : pass_to_socket(fd, &part, 1, flags);
	return result == KERNELS ? REAL(sendto)(fd, data, length, flags, to, to_length)
				 : answer(result);
}

EXPORTED ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	long result = KERNELS;
	if (sockets_are_on && message && !message->msg_name && !message->msg_controllen &&
	    message->msg_iovlen <= IOV_MAX &&
	    is_readable(message->msg_iov, message->msg_iovlen * sizeof(struct iovec)))
		result = pass_to_socket(fd, message->msg_iov, (int)message->msg_iovlen, flags);
	return result == KERNELS ? REAL(sendmsg)(fd, message, flags) : answer(result);
}

/* Makes a new pipe one of this library's. */
static void prepare(int fd, int flags)
{
	if (!pipes_are_on || flags & O_DIRECT)
		return;
	if (raw(SYS_fcntl, fd, F_GETPIPE_SZ) != (long)PIPE_BYTES_USUAL ||
	    failed(raw(SYS_fcntl, fd, F_SETPIPE_SZ, PIPE_SLOTS * PAGE)) ||
	    stream_mark(fd, MARK_OURS))
		stream_stays_kernels("a pipe", "it cannot be made larger (fs.pipe-user-pages-soft, "
					       "fs.pipe-max-size), so it stays in the kernel's "
					       "frames");
}

static int hook_pipe2(int ends[2], int flags)
{
	long result = raw(SYS_pipe2, ends, flags);
	if (!failed(result))
		prepare(ends[0], flags);
	return (int)answer(result);
}

static int hook_pipe(int ends[2])
{
	return hook_pipe2(ends, 0);
}

/* 0: no page that leaves this pipe is used again by its writer. */
static int keep_pages(int fd)
{
	if (!(pipes_are_on || fifos_are_on) || !is_fifo(fd) ||
	    stream_is_marked(fd) == (int)MARK_KERNELS)
		return 0;
	stream_stays_kernels("a pipe", "a program takes whole pages out of it (splice, tee), so "
				       "it stays in the kernel's frames");
	return stream_mark(fd, MARK_KERNELS);
}

static int is_socket(int fd)
{
	struct stat file;
	return sockets_are_on && !failed(raw(SYS_fstat, fd, &file)) && S_ISSOCK(file.st_mode) &&
	       socket_is_unix(fd);
}

EXPORTED ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t length,
			unsigned flags)
{
	/* As for files that have no pages to give; programs then read and write. */
	if (is_socket(in) || keep_pages(in))
		return answer(-EINVAL);
	return REAL(splice)(in, in_at, out, out_at, length, flags);
}

EXPORTED ssize_t tee(int in, int out, size_t length, unsigned flags)
{
	return keep_pages(in) ? answer(-EINVAL) : REAL(tee)(in, out, length, flags);
}

/* A pipe of this library's has the size that programs know. One whose size a program sets is the
 * kernel's from then on. */
static int is_larger(int fd)
{
	struct stat file;
	return !failed(raw(SYS_fstat, fd, &file)) && S_ISFIFO(file.st_mode) &&
	       raw(SYS_fcntl, fd, F_GETPIPE_SZ) == (long)(PIPE_SLOTS * PAGE) &&
	       (stream_is_marked(fd) == (int)MARK_OURS ||
		(fifos_are_on && stream_is_marked(fd) != (int)MARK_KERNELS &&
		 stream_fifo_is_listed(&file)));
}

static int control(int fd, int command, void *argument)
{
	int on = pipes_are_on || fifos_are_on;
	if (on && command == F_GETPIPE_SZ && is_larger(fd))
		return (int)PIPE_BYTES_USUAL;
	if (on && command == F_SETPIPE_SZ && is_larger(fd)) {
		stream_stays_kernels("a pipe", "a program sets its size, so it stays in the "
					       "kernel's frames");
		stream_mark(fd, MARK_KERNELS);
	}
	return REAL(fcntl)(fd, command, argument);
}

EXPORTED int fcntl(int fd, int command, ...)
{
	va_list more;
	va_start(more, command);
	void *argument = va_arg(more, void *);
	va_end(more);
	return control(fd, command, argument);
}

EXPORTED int fcntl64(int fd, int command, ...)
{
	va_list more;
	va_start(more, command);
	void *argument = va_arg(more, void *);
	va_end(more);
	return control(fd, command, argument);
}

/* -1: libc's functions cannot be replaced. */
int pipe_hooks(void)
{
	look_up();
	if (streams_begin())
		return 0;
	return hook_function("write", (void *)hook_write) ||
			       hook_function("pipe", (void *)hook_pipe) ||
			       hook_function("pipe2", (void *)hook_pipe2)
		       ? -1
		       : 0;
}
