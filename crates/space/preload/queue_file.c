/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: queues of POSIX and of System V need the same memory, which other processes find by a
 * name. Rule: the list (listed.c) has the names. A queue is a file in /dev/shm; its creator puts
 * its pages into frames of the creator's colours, and it appears under its names when it is whole.
 * A queue that the kernel has already stays there, and solocore is told. A queue of System V has
 * two names: what a killed process leaves of one is removed by the next process that finds it, and
 * by the next that makes a queue if no other user may write to it. Does not cover: a user with the
 * right to write who cuts the file short, which ends the other programs by SIGBUS (files with a
 * name cannot be sealed).
 */
#define _GNU_SOURCE
#include "hooks.h"
#include "queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Tells solocore of a queue that is not in this program's colours. */
void queue_stays_kernels(const char *name)
{
	char text[sizeof self->text];
	snprintf(text, sizeof text,
		 "message queue %.100s stays in the kernel, because it was made without solocore; "
		 "remove it first",
		 name);
	call_handler(REQUEST_NOTE, 0, 0, text);
}

/* Another descriptor of a file, with other rights; -errno. */
long queue_file_again(long fd, int flags)
{
	char path[48];
	snprintf(path, sizeof path, "/proc/self/fd/%ld", fd);
	return raw(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
}

/* Maps the queue of a file that any user may have made: its owner must be root or this user. */
long queue_file_map(long fd, struct view *view)
{
	struct stat file;
	if (failed(raw(SYS_fstat, fd, &file)) || !S_ISREG(file.st_mode) ||
	    file.st_size < (off_t)sizeof(struct queue))
		return -EBADF;
	if (file.st_uid != 0 && file.st_uid != (uid_t)raw(SYS_geteuid, 0))
		return -EACCES;
	long writable = queue_file_again(fd, O_RDWR);
	if (failed(writable))
		return writable;
	uint64_t size = (uint64_t)file.st_size;
	long at = raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, writable, 0);
	raw(SYS_close, writable);
	if (failed(at))
		return at;
	if (queue_view(view, (struct queue *)at, size)) {
		raw(SYS_munmap, at, size);
		return -EBADF;
	}
	view->inode = file.st_ino;
	/* A process that may not lock them leaves the pages for the kernel to move. */
	raw(SYS_mlock, at, size);
	return 0;
}

/* A file without room would end the program when a page of it is touched. */
static int has_room(long fd, uint64_t size)
{
	struct statfs system;
	return !failed(raw(SYS_fstatfs, fd, &system)) &&
	       (system.f_blocks == 0 || system.f_bavail >= size / (uint64_t)system.f_bsize);
}

/* Maps a new file of this size, with pages in this program's frames, and makes a queue there. */
static long fill(long fd, const struct limits *limits, uint64_t size, struct view *view)
{
	struct stat file;
	long result = has_room(fd, size) ? raw(SYS_ftruncate, fd, size) : -ENOSPC;
	if (!failed(result))
		result = raw(SYS_fstat, fd, &file);
	if (failed(result))
		return result;
	long at = raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (failed(at))
		return at;
	call_handler(REQUEST_PLACE, (void *)at, size, 0);
	/* Another program may have been quicker to take the room. */
	result = raw(SYS_fallocate, fd, 0, 0, size);
	if (!result &&
	    (queue_make((struct queue *)at, limits) || queue_view(view, (struct queue *)at, size)))
		result = -ENOTSUP;
	if (result)
		raw(SYS_munmap, at, size);
	view->inode = file.st_ino;
	return result;
}

/* A new queue in a file without a name: the file's descriptor, or -errno. */
long queue_file_new(const struct limits *limits, mode_t mode, struct view *view)
{
	uint64_t size = queue_size(limits);
	if (!size)
		return -EINVAL;
	long fd = raw(SYS_openat, AT_FDCWD, "/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (failed(fd))
		return fd;
	long result = fill(fd, limits, size, view);
	if (!result)
		return fd;
	raw(SYS_close, fd);
	return result;
}

/* Gives the file a name; -EEXIST: another one has it. */
long queue_file_link(long fd, const char *path)
{
	char own[48];
	snprintf(own, sizeof own, "/proc/self/fd/%ld", fd);
	return raw(SYS_linkat, AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* A descriptor (O_PATH) of the file with this name; -ENOENT: the name is not this queue's. */
long queue_file_named(const struct view *view, const char *path)
{
	struct stat file;
	long fd = raw(SYS_openat, AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (failed(fd))
		return fd;
	if (!failed(raw(SYS_fstat, fd, &file)) && S_ISREG(file.st_mode) &&
	    file.st_ino == view->inode)
		return fd;
	raw(SYS_close, fd);
	return -ENOENT;
}

/* Removes a name of this queue, with its lock held, and leaves that of another file. */
long queue_file_unlink(const struct view *view, const char *path)
{
	long fd = queue_file_named(view, path);
	if (failed(fd))
		return fd == -ENOENT ? 0 : fd;
	raw(SYS_close, fd);
	return raw(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* 0: a queue of System V has all of its names. -ENOENT: it was removed, or a process that made or
 * removed it was killed meanwhile; then this name is removed, too. -EBUSY: such a process is at
 * work; with `waits`, its end is awaited. */
long queue_file_check(const struct view *view, const char *path, int waits)
{
	struct queue *q = view->queue;
	uint64_t signals;
	if (q->whole && !q->removed)
		return 0;
	long result = waits ? queue_lock(view, &signals) : queue_try_lock(view, &signals);
	if (result)
		return result == -EBUSY ? result : -EACCES;
	if (!q->whole || q->removed)
		result = queue_file_unlink(view, path) ? -EACCES : -ENOENT;
	q->removed |= result == -ENOENT;
	queue_unlock(view, signals);
	if (result)
		queue_wake(view);
	return result;
}

/* Is this perhaps the file of a queue that is none? Without mapping it, as most are. */
static int may_be_left(const char *path)
{
	struct queue q = {.whole = 1};
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (failed(fd))
		return 0;
	long got = raw(SYS_pread64, fd, &q, sizeof q, 0);
	raw(SYS_close, fd);
	return got == (long)sizeof q && (!q.whole || q.removed);
}

/* A user with the right to write to a queue could take this process over by its lock. Programs that
 * use the queue trust that user, and remove its names themselves: queue_file_check(). */
static void tidy(const char *path)
{
	struct stat file;
	struct view view;
	long fd = raw(SYS_openat, AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (failed(fd))
		return;
	if (!failed(raw(SYS_fstat, fd, &file)) && !(file.st_mode & 022) &&
	    !queue_file_map(fd, &view)) {
		queue_file_check(&view, path, 0);
		raw(SYS_munmap, view.queue, view.size);
	}
	raw(SYS_close, fd);
}

/* Removes files that killed processes have left of queues whose paths begin so, and that no other
 * user may write to. */
void queue_files_tidy(const char *start)
{
	static const char directory[] = "/dev/shm/";
	char entries[4096] __attribute__((aligned(8))), path[NAME_MAX + sizeof directory];
	long fd = raw(SYS_openat, AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), got;
	if (failed(fd))
		return;
	while ((got = raw(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
		const struct dirent64 *entry;
		for (long at = 0; at < got; at += entry->d_reclen) {
			entry = (const struct dirent64 *)(entries + at);
			snprintf(path, sizeof path, "%s%s", directory, entry->d_name);
			if (starts_with(path, start) && may_be_left(path))
				tidy(path);
		}
	}
	raw(SYS_close, fd);
}
