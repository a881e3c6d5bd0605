/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: POSIX message queues lie in the kernel's memory, in frames of any colour (MC2 3.3).
 * Rule: the program's calls of mq_open() and its like come here. A queue of the list is a file
 * (queue_file.c). Names, rights and lifetime are those of the file. A descriptor is one of the
 * file, so that fork, dup and close do what they do with the kernel's queues. Other queues are the
 * kernel's, and so is one that the kernel has already. Does not cover: mq_notify (ENOTSUP), poll
 * and select on a descriptor, descriptors from 1024 on (EMFILE), a limit on a user's queues, users
 * who may only read the file or only write to it (EACCES), SA_RESTART of a wait with a limit (the
 * kernel ends a futex's with EINTR), programs that run without this library: they get a queue of
 * the kernel by the same name.
 */
#define _GNU_SOURCE
#include <sys/cdefs.h>
/* Programs may pass null where the kernel takes it, whatever <mqueue.h> says. */
#undef __nonnull
#define __nonnull(parameters)
#include "calls.h"
#include "hooks.h"
#include "queue.h"

#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define DESCRIPTORS 1024
#define DIRECTORY "/dev/shm/"
#define PREFIX "solocore-queue-"
#define USUAL_MESSAGES 10
#define USUAL_BYTES 8192
#define MOST_MESSAGES 65536ul
#define KERNELS (1l << 40) /* no descriptor */

/* What this process has mapped, by descriptor. It is a queue's only while the file is the same:
 * close() and dup2() are not seen. */
static struct opened {
	struct view view;
	dev_t device;
	ino_t inode;
	int rights; /* O_ACCMODE */
	int users;  /* calls; more, after a fork cut some off */
} opened[DESCRIPTORS];

static int is_ours(const char *name)
{
	return name && name[0] == '/' && queue_is_listed(name);
}

/* The path of a queue; -errno as the kernel has it. */
static long path_of(char path[NAME_MAX + sizeof DIRECTORY], const char *name)
{
	int length = snprintf(path, NAME_MAX + sizeof DIRECTORY, DIRECTORY PREFIX "%s", name + 1);
	for (const char *c = name + 1; *c; c++)
		if (*c == '/')
			return -EACCES;
	if (!name[1])
		return -ENOENT;
	return length < (int)(NAME_MAX + sizeof DIRECTORY) ? 0 : -ENAMETOOLONG;
}

static void let_go(int fd)
{
	__atomic_fetch_sub(&opened[fd].users, 1, __ATOMIC_SEQ_CST);
}

/* For a call that uses the entry: if another one does, the queue stays mapped for good. */
static void forget(struct opened *entry)
{
	uint64_t size = entry->view.size;
	struct queue *q = __atomic_exchange_n(&entry->view.queue, 0, __ATOMIC_SEQ_CST);
	if (q && __atomic_load_n(&entry->users, __ATOMIC_SEQ_CST) == 1)
		raw(SYS_munmap, q, size);
}

/* Copies the entry; 0: it is not that of this file, or another thread is changing it. */
static int copy_of(const struct opened *entry, const struct stat *file, struct opened *own)
{
	struct queue *q = __atomic_load_n(&entry->view.queue, __ATOMIC_SEQ_CST);
	copy_bytes(own, entry, sizeof *own);
	own->view.queue = q;
	return q && q == __atomic_load_n(&entry->view.queue, __ATOMIC_SEQ_CST) &&
	       own->device == file->st_dev && own->inode == file->st_ino;
}

/* Maps the queue of this file, for the entry and for a call. */
static long map(int fd, const struct stat *file, struct opened *own)
{
	struct opened *entry = &opened[fd];
	long flags = raw(SYS_fcntl, fd, F_GETFL);
	forget(entry);
	long result = failed(flags) ? -EBADF : queue_file_map(fd, &own->view);
	if (result)
		return result;
	entry->device = own->device = file->st_dev;
	entry->inode = own->inode = file->st_ino;
	entry->rights = own->rights = (int)flags & O_ACCMODE;
	entry->view.size = own->view.size;
	entry->view.places = own->view.places;
	entry->view.piece = own->view.piece;
	entry->view.bytes = own->view.bytes;
	/* Another thread may look at it. */
	__atomic_store_n(&entry->view.queue, own->view.queue, __ATOMIC_SEQ_CST);
	return 0;
}

/* The queue of a descriptor, which may be a copy of another one, in `own` until let_go(): another
 * thread may close the descriptor meanwhile. Null, with `error`: it has none. */
static struct opened *find(int fd, struct opened *own, long *error)
{
	struct stat file;
	*error = -EBADF;
	if (!queues_text[0] || fd < 0 || fd >= DESCRIPTORS || failed(raw(SYS_fstat, fd, &file)))
		return 0;
	__atomic_fetch_add(&opened[fd].users, 1, __ATOMIC_SEQ_CST);
	*error = copy_of(&opened[fd], &file, own) ? 0 : map(fd, &file, own);
	if (!*error)
		return own;
	let_go(fd);
	return 0;
}

/* A new queue under this path: a descriptor, or -errno. */
static long create(const char *path, int flags, mode_t mode, const struct mq_attr *wanted)
{
	struct mq_attr usual = {.mq_maxmsg = USUAL_MESSAGES, .mq_msgsize = USUAL_BYTES};
	const struct mq_attr *attributes = wanted ? wanted : &usual;
	uint64_t messages = (uint64_t)attributes->mq_maxmsg,
		 bytes = (uint64_t)attributes->mq_msgsize;
	struct limits limits = {messages, bytes, bytes, messages, ~0ul};
	struct view view;
	if (attributes->mq_maxmsg <= 0 || attributes->mq_msgsize <= 0 || messages > MOST_MESSAGES)
		return -EINVAL;
	long made = queue_file_new(&limits, mode, &view);
	if (failed(made))
		return made;
	long result = queue_file_link(made, path);
	if (!failed(result))
		result = queue_file_again(made, flags & (O_ACCMODE | O_NONBLOCK));
	raw(SYS_munmap, view.queue, view.size);
	raw(SYS_close, made);
	return result;
}

/* Does a program use a queue of the kernel by this name? */
static int is_kernels(const char *name)
{
	mqd_t fd = NEXT(mq_open)(name, O_RDONLY | O_NONBLOCK);
	if (fd >= 0)
		NEXT(mq_close)(fd);
	return fd >= 0 || errno == EACCES;
}

/* A descriptor, -errno, or KERNELS: the name is one of a queue of the kernel. */
static long open_queue(const char *name, int flags, mode_t mode, const struct mq_attr *limits)
{
	char path[NAME_MAX + sizeof DIRECTORY];
	long result = path_of(path, name);
	if (result)
		return result;
	for (;;) {
		int keep = flags & (O_ACCMODE | O_NONBLOCK);
		result = -ENOENT;
		if (!(flags & O_CREAT && flags & O_EXCL))
			/* Another user's FIFO of this name would wait here. */
			result = raw(SYS_openat, AT_FDCWD, path,
				     keep | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
		if (result == -ENOENT && is_kernels(name))
			return KERNELS;
		if (result == -ENOENT && flags & O_CREAT)
			result = create(path, flags, mode, limits);
		/* Another process may have made it, or removed it, in between. */
		if (result != -EEXIST || flags & O_EXCL)
			break;
	}
	long error;
	struct opened own;
	if (failed(result))
		return result;
	if (result < DESCRIPTORS && find((int)result, &own, &error)) {
		let_go((int)result);
		if (!(flags & O_NONBLOCK))
			raw(SYS_fcntl, result, F_SETFL, 0);
		return result;
	}
	if (result >= DESCRIPTORS)
		error = -EMFILE;
	raw(SYS_close, result);
	return error;
}

EXPORTED mqd_t mq_open(const char *name, int flags, ...)
{
	va_list more;
	mode_t mode = 0;
	struct mq_attr *limits = 0;
	if (flags & O_CREAT) {
		va_start(more, flags);
		mode = va_arg(more, mode_t);
		limits = va_arg(more, struct mq_attr *);
		va_end(more);
	}
	long result = is_ours(name) ? open_queue(name, flags, mode, limits) : KERNELS;
	if (result != KERNELS)
		return (mqd_t)answer(result);
	if (is_ours(name))
		queue_stays_kernels(name);
	return NEXT(mq_open)(name, flags, mode, limits);
}

/* mq_open() of programs that are compiled with _FORTIFY_SOURCE. */
EXPORTED mqd_t __mq_open_2(const char *name, int flags)
{
	return mq_open(name, flags);
}

EXPORTED int mq_unlink(const char *name)
{
	char path[NAME_MAX + sizeof DIRECTORY];
	if (is_ours(name)) {
		long result = path_of(path, name);
		result = result ? result : raw(SYS_unlinkat, AT_FDCWD, path, 0);
		if (result != -ENOENT)
			return (int)answer(result);
	}
	return NEXT(mq_unlink)(name);
}

EXPORTED int mq_close(mqd_t fd)
{
	long error;
	struct opened own;
	if (!find(fd, &own, &error))
		return NEXT(mq_close)(fd);
	forget(&opened[fd]);
	let_go(fd);
	return (int)answer(raw(SYS_close, fd));
}

/* May a descriptor be used so, and for this time? -errno: it may not. */
static long allowed(const struct opened *entry, int refused, const struct timespec *until)
{
	if (until && (until->tv_sec < 0 || until->tv_nsec < 0 || until->tv_nsec >= 1000000000))
		return -EINVAL;
	return entry->rights == refused ? -EBADF : 0;
}

static long send_to(const struct opened *entry, int fd, const char *data, size_t length,
		    unsigned priority, const struct timespec *until)
{
	struct patience patience = {fd, until};
	struct call call = {.sends = 1, .message = data, .length = length, .priority = priority};
	if (priority >= QUEUE_PRIORITIES)
		return -EINVAL;
	long error = allowed(entry, O_RDONLY, until);
	if (error)
		return error;
	if (length > entry->view.bytes)
		return -EMSGSIZE;
	return queue_pass(&entry->view, &call, patience);
}

static long receive_from(const struct opened *entry, int fd, char *data, size_t room,
			 unsigned *priority, const struct timespec *until)
{
	struct patience patience = {fd, until};
	struct call call = {.data = data, .length = room};
	long error = allowed(entry, O_WRONLY, until);
	if (error)
		return error;
	if (room < entry->view.bytes)
		return -EMSGSIZE;
	long result = queue_pass(&entry->view, &call, patience);
	if (!failed(result) && priority)
		*priority = call.priority;
	return result;
}

EXPORTED int mq_timedsend(mqd_t fd, const char *data, size_t length, unsigned priority,
			  const struct timespec *until)
{
	long error;
	struct opened own;
	const struct opened *entry = find(fd, &own, &error);
	if (!entry)
		return NEXT(mq_timedsend)(fd, data, length, priority, until);
	error = send_to(entry, fd, data, length, priority, until);
	let_go(fd);
	return (int)answer(error);
}

EXPORTED int mq_send(mqd_t fd, const char *data, size_t length, unsigned priority)
{
	return mq_timedsend(fd, data, length, priority, 0);
}

EXPORTED ssize_t mq_timedreceive(mqd_t fd, char *restrict data, size_t room,
				 unsigned *restrict priority, const struct timespec *restrict until)
{
	long result;
	struct opened own;
	const struct opened *entry = find(fd, &own, &result);
	if (!entry)
		return NEXT(mq_timedreceive)(fd, data, room, priority, until);
	result = receive_from(entry, fd, data, room, priority, until);
	let_go(fd);
	return answer(result);
}

EXPORTED ssize_t mq_receive(mqd_t fd, char *data, size_t room, unsigned *priority)
{
	return mq_timedreceive(fd, data, room, priority, 0);
}

EXPORTED int mq_setattr(mqd_t fd, const struct mq_attr *restrict wanted,
			struct mq_attr *restrict before)
{
	long error;
	struct opened own;
	const struct opened *entry = find(fd, &own, &error);
	if (!entry)
		return NEXT(mq_setattr)(fd, wanted, before);
	long flags = raw(SYS_fcntl, fd, F_GETFL);
	if (wanted && wanted->mq_flags & ~O_NONBLOCK)
		flags = -EINVAL;
	else if (before)
		*before = (struct mq_attr){.mq_flags = flags & O_NONBLOCK,
					   .mq_maxmsg = (long)entry->view.places,
					   .mq_msgsize = (long)entry->view.bytes,
					   .mq_curmsgs = (long)queue_held(&entry->view)};
	if (wanted && !failed(flags))
		flags = raw(SYS_fcntl, fd, F_SETFL, (flags & ~O_NONBLOCK) | wanted->mq_flags);
	let_go(fd);
	return failed(flags) ? (int)answer(flags) : 0;
}

EXPORTED int mq_getattr(mqd_t fd, struct mq_attr *before)
{
	return mq_setattr(fd, 0, before);
}

EXPORTED int mq_notify(mqd_t fd, const struct sigevent *how)
{
	long error;
	struct opened own;
	if (!find(fd, &own, &error))
		return NEXT(mq_notify)(fd, how);
	let_go(fd);
	return (int)answer(-ENOTSUP);
}
