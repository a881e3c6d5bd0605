/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: System V message queues lie in the kernel's memory, in frames of any colour (MC2 3.3).
 * Rule: the program's calls of msgget() and its like come here. A queue whose key the list has is a
 * file with two names (queue_file.c): one of its key, and one of its number, by which a process
 * finds it that has only the number. Both have the IPC namespace in them. Numbers end in 15 bits
 * that the kernel leaves free (kernel.msgmni is at most 32000 by default). Owner, rights, limits
 * and times lie in the queue. Other queues are the kernel's, and so is one that it has already.
 * Does not cover: MSG_COPY (ENOSYS), raising msg_qbytes above kernel.msgmnb at the creation
 * (EPERM), ipcs and ipcrm, capabilities other than those of root, queues of another user than root
 * and the caller (EACCES), a user other than root who gives a queue to another one, or removes one
 * that is another's by then (EPERM), more than 512 queues of a process (ENOMEM), programs that run
 * without this library: they get a queue of the kernel by the same key.
 */
#define _GNU_SOURCE
#include "calls.h"
#include "hooks.h"
#include "queue.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PATH_BYTES 96
#define IN_A_PLACE 48ul	     /* with its head, a line of the cache */
#define MOST_ROOM (1l << 18) /* bytes of all messages; a queue of it takes 19 MiB */
#define FIRST_INDEX 32000    /* of IPCMNI, 32768 */
#define INDEX_BITS 15
#define KERNELS (1l << 40) /* no number, and no -errno */

/* The start of all paths. */
static long start_of_path(char path[PATH_BYTES])
{
	struct stat namespace;
	long result = raw(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/ipc", &namespace, 0);
	if (failed(result))
		return result;
	snprintf(path, PATH_BYTES, "/dev/shm/solocore-messages-%lu-",
		 (unsigned long)namespace.st_ino);
	return 0;
}

static long path_of(char path[PATH_BYTES], const char *kind, unsigned number)
{
	long result = start_of_path(path);
	if (result)
		return result;
	size_t length = text_length(path);
	snprintf(path + length, PATH_BYTES - length, "%s-%x", kind, number);
	return 0;
}

static int is_ours(key_t key)
{
	char name[16];
	snprintf(name, sizeof name, "0x%x", (unsigned)key);
	return queue_is_listed(name);
}

/* Has the key a queue of the kernel? */
static int is_kernels(key_t key)
{
	return key != IPC_PRIVATE && (NEXT(msgget)(key, 0) >= 0 || errno == EACCES);
}

/* A number of the kernel's files; `usual` where it has none. */
static uint64_t setting(const char *path, uint64_t usual)
{
	char text[32];
	uint64_t value = 0;
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	long got = failed(fd) ? 0 : raw(SYS_read, fd, text, sizeof text);
	if (!failed(fd))
		raw(SYS_close, fd);
	for (long i = 0; i < got && text[i] >= '0' && text[i] <= '9' && value < INT_MAX; i++)
		value = value * 10 + (uint64_t)(text[i] - '0');
	return value ? value : usual;
}

/* Places for all messages that fit: empty ones take one, and long ones one for each piece. */
static uint64_t places_for(uint64_t room)
{
	return room + room / IN_A_PLACE + 1;
}

/* A user who may do something with a queue needs a file that can be mapped. */
static mode_t file_mode(unsigned mode)
{
	mode_t all = 0;
	for (int class = 0; class <= 6; class += 3)
		all |= mode >> class & 6 ? 6u << class : 0;
	return all;
}

static int in_group(gid_t group)
{
	gid_t groups[256];
	long count = raw(SYS_getgroups, 256, groups);
	for (long i = 0; i < count; i++)
		if (groups[i] == group)
			return 1;
	return (gid_t)raw(SYS_getegid, 0) == group;
}

/* May this process do that: 4, receive; 2, send? */
static int may(const struct queue *q, unsigned wanted)
{
	const struct ipc_perm *owner = &q->facts.msg_perm;
	uid_t me = (uid_t)raw(SYS_geteuid, 0);
	unsigned mode = owner->mode;
	if (me == 0)
		return 1;
	if (me == owner->uid || me == owner->cuid)
		mode >>= 6;
	else if (in_group(owner->gid) || in_group(owner->cgid))
		mode >>= 3;
	return !(wanted & ~mode & 7);
}

static int is_owner(const struct queue *q)
{
	uid_t me = (uid_t)raw(SYS_geteuid, 0);
	return me == 0 || me == q->facts.msg_perm.uid || me == q->facts.msg_perm.cuid;
}

/* Maps the queue of a path; -ENOENT: there is none. */
static long map(const char *path, struct view *view)
{
	long fd = raw(SYS_openat, AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (failed(fd))
		return fd;
	long result = queue_file_map(fd, view);
	raw(SYS_close, fd);
	if (result)
		return result;
	result = queue_file_check(view, path, 1);
	if (result)
		raw(SYS_munmap, view->queue, view->size);
	return result;
}

/* The place of a queue, for mapped_let_go(); null, with `error`; KERNELS: it has no file. */
static struct mapped *find(int id, long *error)
{
	char path[PATH_BYTES];
	struct view view;
	*error = KERNELS;
	if (!self || !queues_text[0] || id <= 0 || (id & ((1 << INDEX_BITS) - 1)) < FIRST_INDEX)
		return 0;
	for (;;) {
		struct mapped *place = mapped_use(id);
		if (place && !place->view.queue->removed)
			return place;
		if (place)
			mapped_let_go(place);
		if (place || path_of(path, "id", (unsigned)id)) {
			*error = -EINVAL;
			return 0;
		}
		long result = map(path, &view);
		if (result == -ENOENT)
			return 0;
		*error = result ? result : mapped_keep(id, &view);
		if (*error)
			return 0;
	}
}

static long now(void)
{
	long time[2] = {0, 0};
	raw(SYS_clock_gettime, CLOCK_REALTIME, time);
	return time[0];
}

/* Owner, rights and limits of a new queue. */
static void describe(struct queue *q, key_t key, int flags)
{
	struct ipc_perm *owner = &q->facts.msg_perm;
	owner->__key = key;
	owner->uid = owner->cuid = (uid_t)raw(SYS_geteuid, 0);
	owner->gid = owner->cgid = (gid_t)raw(SYS_getegid, 0);
	owner->mode = (unsigned short)(flags & 0777);
	q->facts.msg_ctime = now();
}

/* Gives a new queue a number, and a name by it. */
static long number(long fd, struct queue *q, char path[PATH_BYTES])
{
	for (;;) {
		uint32_t random = 0;
		if (raw(SYS_getrandom, &random, sizeof random, 0) != sizeof random)
			random = (uint32_t)now_ns() * 2654435761u;
		uint32_t index =
			FIRST_INDEX + (random & 0xffff) % ((1u << INDEX_BITS) - FIRST_INDEX);
		q->id = (int)((random >> 16 << INDEX_BITS | index) & INT_MAX);
		q->facts.msg_perm.__seq = (unsigned short)(random >> 16);
		long result = path_of(path, "id", (unsigned)q->id);
		result = result ? result : queue_file_link(fd, path);
		if (result != -EEXIST)
			return result;
	}
}

/* Gives a new queue its names. It is whole with the last one, and its lock is held until then: a
 * process that is killed leaves a queue that others know to be none. */
static long give_names(long fd, const struct view *view, key_t key, const char *key_path)
{
	struct queue *q = view->queue;
	char path[PATH_BYTES];
	uint64_t signals;
	long result = queue_lock(view, &signals);
	if (result)
		return result;
	result = number(fd, q, path);
	if (!result && key != IPC_PRIVATE) {
		result = queue_file_link(fd, key_path);
		if (result)
			raw(SYS_unlinkat, AT_FDCWD, path, 0);
		q->named = !result;
	}
	q->whole = !result;
	queue_unlock(view, signals);
	return result;
}

/* A new queue: its number, or -errno; -EEXIST: another process was quicker. */
static long create(key_t key, int flags, const char *key_path)
{
	uint64_t room = setting("/proc/sys/kernel/msgmnb", 16384);
	uint64_t bytes = setting("/proc/sys/kernel/msgmax", 8192);
	room = room < MOST_ROOM ? room : MOST_ROOM;
	bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
	struct limits limits = {places_for(room), IN_A_PLACE, bytes, room, room};
	char path[PATH_BYTES];
	struct view view;
	if (!start_of_path(path))
		queue_files_tidy(path);
	long fd = queue_file_new(&limits, 0600, &view);
	if (failed(fd))
		return fd == -EINVAL ? -ENOSPC : fd;
	describe(view.queue, key, flags);
	long result = raw(SYS_fchmod, fd, file_mode((unsigned)flags));
	if (!result)
		result = give_names(fd, &view, key, key_path);
	raw(SYS_close, fd);
	if (result) {
		raw(SYS_munmap, view.queue, view.size);
		return result;
	}
	raw(SYS_mlock, view.queue, view.size);
	int id = view.queue->id;
	result = mapped_keep(id, &view);
	/* No process can find a queue without a key. */
	if (result && key == IPC_PRIVATE && !path_of(path, "id", (unsigned)id))
		raw(SYS_unlinkat, AT_FDCWD, path, 0);
	return result ? result : id;
}

/* The number of the queue that a key has, which is mapped then; -ENOENT: it has none. */
static long existing(const char *path, int flags)
{
	struct view view;
	long result = map(path, &view);
	if (result)
		return result;
	int id = view.queue->id;
	unsigned asked = (unsigned)flags >> 6 | (unsigned)flags >> 3 | (unsigned)flags;
	if (flags & IPC_CREAT && flags & IPC_EXCL)
		result = -EEXIST;
	else if (!may(view.queue, asked & 7))
		result = -EACCES;
	else if (id <= 0 || (id & ((1 << INDEX_BITS) - 1)) < FIRST_INDEX)
		result = -EBADF;
	struct mapped *place = result ? 0 : mapped_use(id);
	if (place)
		mapped_let_go(place);
	else if (!result)
		return (result = mapped_keep(id, &view)) ? result : id;
	raw(SYS_munmap, view.queue, view.size);
	return result ? result : id;
}

static long get(key_t key, int flags)
{
	char path[PATH_BYTES] = "";
	for (;;) {
		if (key != IPC_PRIVATE) {
			long result = path_of(path, "key", (unsigned)key);
			result = result ? result : existing(path, flags);
			if (result != -ENOENT)
				return result;
			if (is_kernels(key) || !(flags & IPC_CREAT))
				return KERNELS;
		}
		long result = create(key, flags, path);
		if (result != -EEXIST)
			return result;
	}
}

EXPORTED int msgget(key_t key, int flags)
{
	long result = is_ours(key) ? get(key, flags) : KERNELS;
	if (result != KERNELS)
		return (int)answer(result);
	int id = NEXT(msgget)(key, flags);
	if (is_ours(key) && (id >= 0 || errno == EACCES || errno == EEXIST)) {
		int error = errno;
		char name[16];
		snprintf(name, sizeof name, "0x%x", (unsigned)key);
		queue_stays_kernels(name);
		errno = error;
	}
	return id;
}

static struct patience patience_of(int flags)
{
	struct patience patience = {flags & IPC_NOWAIT ? PATIENCE_NONE : PATIENCE_UNTIL_SIGNAL, 0};
	return patience;
}

EXPORTED int msgsnd(int id, const void *message, size_t length, int flags)
{
	long result;
	struct mapped *place = find(id, &result);
	if (!place)
		return result == KERNELS ? NEXT(msgsnd)(id, message, length, flags)
					 : (int)answer(result);
	struct call call = {.sends = 1,
			    .message = (const char *)message + sizeof(long),
			    .length = length,
			    .type = *(const long *)message,
			    .process = (int)raw(SYS_getpid, 0)};
	if (length > place->view.bytes || call.type < 1)
		result = -EINVAL;
	else if (!may(place->view.queue, 2))
		result = -EACCES;
	else
		result = queue_pass(&place->view, &call, patience_of(flags));
	mapped_let_go(place);
	return (int)answer(result);
}

/* The messages that msgrcv() asks for. */
static void choose(struct call *call, long type, int flags)
{
	call->type = type;
	if (type < 0) {
		call->choice = CHOICE_UP_TO;
		call->type = type == LONG_MIN ? LONG_MAX : -type;
	} else if (type) {
		call->choice = flags & MSG_EXCEPT ? CHOICE_NOT_TYPE : CHOICE_TYPE;
	}
}

static long receive_from(const struct mapped *place, void *message, size_t room, long type,
			 int flags)
{
	struct call call = {.data = (char *)message + sizeof(long),
			    .length = room,
			    .cuts = (flags & MSG_NOERROR) != 0,
			    .process = (int)raw(SYS_getpid, 0)};
	if ((ssize_t)room < 0)
		return -EINVAL;
	if (flags & MSG_COPY)
		return -ENOSYS;
	if (!may(place->view.queue, 4))
		return -EACCES;
	choose(&call, type, flags);
	long result = queue_pass(&place->view, &call, patience_of(flags));
	if (!failed(result))
		*(long *)message = call.type;
	return result == -EAGAIN ? -ENOMSG : result;
}

EXPORTED ssize_t msgrcv(int id, void *message, size_t room, long type, int flags)
{
	long result;
	struct mapped *place = find(id, &result);
	if (!place)
		return result == KERNELS ? NEXT(msgrcv)(id, message, room, type, flags)
					 : answer(result);
	result = receive_from(place, message, room, type, flags);
	mapped_let_go(place);
	return answer(result);
}

static long status(const struct view *view, struct msqid_ds *facts)
{
	struct queue *q = view->queue;
	uint64_t signals;
	if (!may(q, 4))
		return -EACCES;
	long result = queue_lock(view, &signals);
	if (result)
		return result;
	copy_bytes(facts, &q->facts, sizeof *facts);
	facts->__msg_cbytes = q->held_bytes;
	facts->msg_qnum = q->held;
	facts->msg_qbytes = q->limits.most;
	queue_unlock(view, signals);
	return 0;
}

/* Gives the file of a queue, and the queue, another owner, other rights and another limit. */
static long set(const struct view *view, const struct msqid_ds *wanted)
{
	struct queue *q = view->queue;
	const struct ipc_perm *owner = &wanted->msg_perm;
	char path[PATH_BYTES];
	uint64_t signals;
	if (!is_owner(q) || wanted->msg_qbytes > view->places ||
	    places_for(wanted->msg_qbytes) > view->places)
		return -EPERM;
	if (owner->uid == (uid_t)-1 || owner->gid == (gid_t)-1)
		return -EINVAL;
	long result = path_of(path, "id", (unsigned)q->id);
	long fd = result ? result : queue_file_named(view, path);
	if (failed(fd))
		return fd == -ENOENT ? -EIDRM : fd;
	/* The file itself: its former owner may have given the name to another file. */
	snprintf(path, PATH_BYTES, "/proc/self/fd/%ld", fd);
	result = raw(SYS_fchownat, AT_FDCWD, path, owner->uid, owner->gid, 0);
	if (!result)
		result = raw(SYS_fchmodat, AT_FDCWD, path, file_mode(owner->mode));
	raw(SYS_close, fd);
	result = result ? result : queue_lock(view, &signals);
	if (result)
		return result;
	q->facts.msg_perm.uid = owner->uid;
	q->facts.msg_perm.gid = owner->gid;
	q->facts.msg_perm.mode = owner->mode & 0777;
	q->limits.most = q->limits.most_bytes = wanted->msg_qbytes;
	q->facts.msg_ctime = now();
	queue_unlock(view, signals);
	return 0;
}

/* The lock is held meanwhile: the key's name may be another queue's as soon as it is free. */
static long remove_queue(const struct view *view)
{
	struct queue *q = view->queue;
	char path[PATH_BYTES];
	uint64_t signals;
	if (!is_owner(q))
		return -EPERM;
	long result = queue_lock(view, &signals);
	if (result)
		return result;
	if (q->removed)
		result = -EIDRM;
	/* If this process is killed now, others know that the queue is none. */
	q->whole = 0;
	if (!result && q->named) {
		result = path_of(path, "key", (unsigned)q->facts.msg_perm.__key);
		result = result ? result : queue_file_unlink(view, path);
		q->named = result != 0;
	}
	result = result ? result : path_of(path, "id", (unsigned)q->id);
	result = result ? result : queue_file_unlink(view, path);
	q->removed |= !result;
	q->whole = result != 0;
	queue_unlock(view, signals);
	return result;
}

EXPORTED int msgctl(int id, int command, struct msqid_ds *facts)
{
	int known = command == IPC_STAT || command == IPC_SET || command == IPC_RMID;
	long result = KERNELS;
	struct mapped *place = known ? find(id, &result) : 0;
	if (!place)
		return result == KERNELS ? NEXT(msgctl)(id, command, facts) : (int)answer(result);
	if (command == IPC_STAT)
		result = status(&place->view, facts);
	else if (command == IPC_SET)
		result = set(&place->view, facts);
	else
		result = remove_queue(&place->view);
	if (command != IPC_STAT)
		queue_wake(&place->view);
	mapped_let_go(place);
	return (int)answer(result);
}
