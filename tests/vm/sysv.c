/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program for tests of System V message queues: says what each call answers, so that a queue of
 * the kernel and one of crates/space/preload can be compared (queues.c does that for POSIX). Does
 * not cover: MSG_COPY, ipcs.
 *
 *   sysv KEY            prints the answers
 *   sysv KEY frames     prints the pages of a mapped queue outside of the lower half of 32 colours
 *   sysv KEY send ID    sends a message of type 7 to the queue of this number
 *   sysv KEY has        says whether the key has a queue, and leaves it
 *   sysv KEY names      says which names are used of a queue of the library that others write to
 *   sysv KEY left       says what becomes of the library's queues that killed processes leave
 */
#include "answers.h"
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "../../crates/space/preload/queue.h"

static struct message {
	long type;
	char text[9000];
} m;

static long put(int q, long type, const char *text, int flags)
{
	struct message out = {.type = type};
	strcpy(out.text, text);
	return msgsnd(q, &out, strlen(text), flags);
}

static void take(const char *what, int q, size_t room, long type, int flags)
{
	memset(&m, 0, sizeof m);
	long length = msgrcv(q, &m, room, type, flags);
	say(what, length);
	if (length >= 0)
		printf("`%.40s` of %ld\n", m.text, m.type);
}

static void status(int q)
{
	struct msqid_ds s;
	say("stat", msgctl(q, IPC_STAT, &s));
	printf("mode %o, user %u, made by %u, %lu messages, %lu bytes of %lu; %s %s %s %d %d\n",
	       s.msg_perm.mode, s.msg_perm.uid, s.msg_perm.cuid, s.msg_qnum, s.__msg_cbytes,
	       s.msg_qbytes, s.msg_stime ? "sent" : "not sent", s.msg_rtime ? "taken" : "not taken",
	       s.msg_ctime ? "changed" : "not changed", s.msg_lspid == getpid(),
	       s.msg_lrpid == getpid());
}

static int exit_code(pid_t child)
{
	int state;
	waitpid(child, &state, 0);
	return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

static void limits(key_t key)
{
	struct msqid_ds s;
	say("none", msgget(key, 0600));
	int q = msgget(key, IPC_CREAT | 0640);
	say("made", q >= 0);
	say("again", msgget(key, 0) == q && msgget(key, IPC_CREAT | 0600) == q);
	say("alone", msgget(key, IPC_CREAT | IPC_EXCL | 0600));
	status(q);
	take("empty", q, 100, 0, IPC_NOWAIT);
	say("type 0", put(q, 0, "x", 0));
	say("type -1", put(q, -1, "x", 0));
	m.type = 1;
	say("too long", msgsnd(q, &m, 8193, 0));
	say("negative", msgsnd(q, &m, (size_t)-1, 0));
	take("negative room", q, (size_t)-1, 0, 0);
	say("nothing", put(q, 5, "", 0));
	take("nothing", q, 0, 0, 0);
	say("ten", put(q, 5, "0123456789", 0));
	take("small room", q, 4, 0, 0);
	status(q);
	take("cut", q, 4, 0, MSG_NOERROR);
	take("gone", q, 4, 0, MSG_NOERROR | IPC_NOWAIT);
	m.type = 1;
	for (int i = 0; i < 8192; i++)
		m.text[i] = (char)(i * 7 % 251);
	say("longest", msgsnd(q, &m, 8192, 0) + msgsnd(q, &m, 8191, IPC_NOWAIT));
	say("full", put(q, 1, "xy", IPC_NOWAIT));
	say("fits", put(q, 1, "x", IPC_NOWAIT));
	status(q);
	static struct message back;
	say("longest back", msgrcv(q, &back, 8192, 1, 0));
	say("the same", memcmp(&back, &m, 8 + 8192));
	say("longest back", msgrcv(q, &back, 100, 1, MSG_NOERROR));
	say("the same", memcmp(&back, &m, 8 + 100));
	take("the last", q, 100, 0, 0);
	long empty = 0;
	while (put(q, 1, "", IPC_NOWAIT) == 0)
		empty++;
	say("empty ones", empty);
	status(q);
	while (msgrcv(q, &back, 100, 0, IPC_NOWAIT) >= 0)
		;
	say("other limit", msgctl(q, IPC_STAT, &s));
	s.msg_qbytes = 10;
	s.msg_perm.mode = 0600;
	say("set", msgctl(q, IPC_SET, &s));
	say("too many", put(q, 1, "01234567890", IPC_NOWAIT));
	say("as many", put(q, 1, "0123456789", IPC_NOWAIT));
	status(q);
	say("remove", msgctl(q, IPC_RMID, 0));
	say("remove again", msgctl(q, IPC_RMID, 0));
	say("send", put(q, 1, "x", 0));
	take("receive", q, 1, 0, 0);
	say("none", msgget(key, 0));
	say("no queue", put(77, 1, "x", 0));
	say("no number", put(-1, 1, "x", 0));
	say("unknown command", msgctl(-1, 99, 0));
}

static void types(key_t key)
{
	int q = msgget(key, IPC_CREAT | 0600);
	const char *texts[] = {"c3", "a1", "b2", "c3 again", "a1 again", "e5"};
	for (int i = 0; i < 6; i++)
		put(q, texts[i][1] - '0', texts[i], 0);
	take("of 2", q, 100, 2, 0);
	take("of 4", q, 100, 4, IPC_NOWAIT);
	take("not 3", q, 100, 3, MSG_EXCEPT);
	take("up to 4", q, 100, -4, 0);
	take("up to all", q, 100, (long)(1ul << 63), 0);
	take("the first", q, 100, 0, MSG_EXCEPT);
	put(q, 4, "d4", 0);
	take("up to 9", q, 100, -9, MSG_EXCEPT);
	take("not 5", q, 100, 5, MSG_EXCEPT | IPC_NOWAIT);
	take("the last", q, 100, 0, 0);
	unsigned seed = 3;
	for (int round = 0; round < 300; round++) {
		char text[2000];
		size_t length = rand_r(&seed) % sizeof text;
		memset(text, 'a' + round % 26, length);
		text[length ? length - 1 : 0] = 0;
		put(q, 1 + rand_r(&seed) % 4, text, IPC_NOWAIT);
		long choice = (long)(rand_r(&seed) % 9) - 4;
		memset(&m, 0, sizeof m);
		long got = round % 3 ? msgrcv(q, &m, sizeof m.text, choice,
					      IPC_NOWAIT | (round % 5 ? 0 : MSG_EXCEPT))
				     : -2;
		printf("%ld/%ld/%.3s ", got, m.type, m.text);
	}
	puts("");
	status(q);
	msgctl(q, IPC_RMID, 0);
}

/* A child sends, blocked at times, and the parent receives; and the other way round. */
static void across_fork(key_t key)
{
	int q = msgget(key, IPC_CREAT | 0600);
	struct msqid_ds s;
	msgctl(q, IPC_STAT, &s);
	s.msg_qbytes = 64;
	msgctl(q, IPC_SET, &s);
	for (int turn = 0; turn < 2; turn++) {
		pid_t child = fork();
		int sends = (child == 0) == (turn == 0);
		struct {
			long type, number;
		} n;
		for (long i = 0; i < 5000; i++) {
			n.type = 1 + i % 3;
			n.number = i;
			if (sends && msgsnd(q, &n, sizeof n.number, 0))
				_exit(9);
			if (!sends &&
			    (msgrcv(q, &n, sizeof n.number, 1 + i % 3, 0) != 8 || n.number != i))
				_exit(8);
		}
		if (child == 0)
			_exit(5);
		say("child", exit_code(child));
	}
	msgctl(q, IPC_RMID, 0);
	/* A queue without a key, for children. */
	q = msgget(IPC_PRIVATE, 0600);
	int other = msgget(IPC_PRIVATE, 0600);
	say("private", q != other && msgctl(other, IPC_RMID, 0) == 0);
	pid_t child = fork();
	if (child == 0)
		_exit(put(q, 9, "child", 0) ? 1 : 4);
	take("of the child", q, 100, 9, 0);
	say("child", exit_code(child));
	char number[16], name[16];
	snprintf(number, sizeof number, "%d", q);
	snprintf(name, sizeof name, "%d", key);
	child = fork();
	if (child == 0)
		execl("/proc/self/exe", "sysv", name, "send", number, (char *)0);
	take("of another program", q, 100, 7, 0);
	say("program", exit_code(child));
	msgctl(q, IPC_RMID, 0);
}

static void caught(int signal)
{
	(void)signal;
}

static void waiting(key_t key)
{
	int q = msgget(key, IPC_CREAT | 0600);
	struct msqid_ds s;
	msgctl(q, IPC_STAT, &s);
	s.msg_qbytes = 4;
	msgctl(q, IPC_SET, &s);
	/* Interrupted by a handler, with and without SA_RESTART; sent, and received. */
	for (int turn = 0; turn < 4; turn++) {
		struct sigaction action = {.sa_handler = caught,
					   .sa_flags = turn % 2 ? SA_RESTART : 0};
		sigaction(SIGUSR1, &action, 0);
		if (turn == 2)
			put(q, 2, "full", 0);
		pid_t parent = getpid(), child = fork();
		if (child == 0) {
			await_sleep(parent);
			_exit(kill(parent, SIGUSR1) != 0);
		}
		if (turn < 2)
			take("interrupted", q, 10, 0, 0);
		else
			say("interrupted", put(q, 1, "more", 0));
		exit_code(child);
	}
	/* Stopped, and continued: it goes on to wait. */
	pid_t child = fork();
	if (child == 0)
		_exit(put(q, 3, "next", 0) ? 1 : 6);
	await_sleep(child);
	kill(child, SIGSTOP);
	waitpid(child, 0, WUNTRACED);
	kill(child, SIGCONT);
	await_sleep(child);
	take("full", q, 10, 2, 0);
	say("child", exit_code(child));
	take("next", q, 10, 3, 0);
	/* A wait for a type goes on beside other messages; a larger limit wakes a sender. */
	child = fork();
	if (child == 0)
		_exit(msgrcv(q, &m, 10, 8, 0) == 1 ? 3 : 1);
	await_sleep(child);
	put(q, 7, "no", 0);
	put(q, 8, "y", 0);
	say("child", exit_code(child));
	child = fork();
	if (child == 0)
		_exit(put(q, 9, "long", 0) ? 1 : 2);
	await_sleep(child);
	s.msg_qbytes = 100;
	say("larger", msgctl(q, IPC_SET, &s));
	say("child", exit_code(child));
	/* Removed under a receiver and a sender. */
	s.msg_qbytes = 6;
	msgctl(q, IPC_SET, &s);
	pid_t children[2];
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			long got = i ? put(q, 1, "x", 0) : msgrcv(q, &m, 10, 99, 0);
			_exit(got < 0 && errno == EIDRM ? 7 : 1);
		}
		await_sleep(children[i]);
	}
	say("removed", msgctl(q, IPC_RMID, 0));
	say("receiver", exit_code(children[0]));
	say("sender", exit_code(children[1]));
}

static void rights(key_t key)
{
	int q = msgget(key, IPC_CREAT | 0622);
	put(q, 1, "root's", 0);
	pid_t child = fork();
	if (child == 0) {
		struct msqid_ds s;
		if (setgid(65534) || setuid(65534))
			_exit(1);
		say("send", put(q, 1, "x", 0));
		take("receive", q, 10, 0, 0);
		say("open", msgget(key, 0200) == q);
		say("open to read", msgget(key, 0400));
		say("stat", msgctl(q, IPC_STAT, &s));
		say("remove", msgctl(q, IPC_RMID, 0));
		_exit(0);
	}
	exit_code(child);
	struct msqid_ds s;
	msgctl(q, IPC_STAT, &s);
	s.msg_perm.uid = 65534;
	s.msg_perm.mode = 0400;
	say("give", msgctl(q, IPC_SET, &s));
	status(q);
	msgctl(q, IPC_RMID, 0);
}

static void kills(key_t key)
{
	int q = msgget(key, IPC_CREAT | 0600);
	char text[300];
	memset(text, 'k', sizeof text);
	text[299] = 0;
	for (int i = 0; i < 60; i++) {
		pid_t child = fork();
		if (child == 0)
			for (;;)
				i % 2 ? msgrcv(q, &m, 400, 0, 0) : put(q, 1, text, 0);
		for (int k = 0; k < 200; k++)
			if (i % 2)
				put(q, 2, text, 0);
			else
				msgrcv(q, &m, 400, 0, 0);
		kill(child, SIGKILL);
		exit_code(child);
	}
	/* So that this process takes the last one, if the children left none. */
	put(q, 1, text, IPC_NOWAIT);
	while (msgrcv(q, &m, 400, 0, IPC_NOWAIT) >= 0)
		;
	say("emptied", -1);
	long count = 0;
	while (put(q, 1, text, IPC_NOWAIT) == 0)
		count++;
	say("filled", count);
	status(q);
	msgctl(q, IPC_RMID, 0);
}

static int shared;
static void *work(void *argument)
{
	long me = (long)argument, sum = 0;
	struct {
		long type, number;
	} n = {1, 0};
	for (long i = 0; i < 3000; i++)
		if (me % 2) {
			n.type = 1 + i % 3;
			n.number = i;
			msgsnd(shared, &n, sizeof n.number, 0);
		} else {
			msgrcv(shared, &n, sizeof n.number, 0, 0);
			sum += n.number;
		}
	return (void *)sum;
}

static void threads(key_t key)
{
	pthread_t t[6];
	long sum = 0;
	shared = msgget(key, IPC_CREAT | 0600);
	for (long i = 0; i < 6; i++)
		pthread_create(&t[i], 0, work, (void *)i);
	for (int i = 0; i < 6; i++) {
		void *part;
		pthread_join(t[i], &part);
		sum += (long)part;
	}
	say("threads", sum);
	say("empty", msgrcv(shared, &m, 10, 0, IPC_NOWAIT));
	msgctl(shared, IPC_RMID, 0);
	/* More queues than a process keeps, one after the other. */
	for (int i = 0; i < 600; i++) {
		int q = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
		if (put(q, 1, "x", 0) || msgrcv(q, &m, 1, 0, 0) != 1 || msgctl(q, IPC_RMID, 0))
			say("round", i);
	}
}

/* The path of a queue's file in the library; another file has been put there if it is a link. */
static const char *file_of(const char *kind, unsigned number)
{
	static char path[256];
	char pattern[64];
	glob_t found;
	snprintf(pattern, sizeof pattern, "/dev/shm/solocore-messages-*-%s-%x", kind, number);
	if (glob(pattern, 0, 0, &found))
		return "";
	snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
	globfree(&found);
	return path;
}

/* Programs that may write to a queue mark it as removed, and put a link in the place of its file.
 */
static void names(key_t key)
{
	const uint32_t removed = 1;
	char victim[] = "/tmp/solocore-victim-XXXXXX";
	struct msqid_ds s;
	struct stat file;
	int q = msgget(key, IPC_CREAT | 0600), fd = open(file_of("key", (unsigned)key), O_RDWR);
	say("marked", pwrite(fd, &removed, sizeof removed, 4));
	int other = msgget(key, IPC_CREAT | 0600);
	say("another", other >= 0 && other != q);
	unlink(file_of("id", (unsigned)q));
	msgctl(other, IPC_STAT, &s);
	s.msg_qbytes = ~0ul / 49 * 48 + 48;
	say("no such limit", msgctl(other, IPC_SET, &s));
	msgctl(other, IPC_STAT, &s);
	s.msg_perm.uid = (uid_t)-1;
	say("no user", msgctl(other, IPC_SET, &s));
	close(fd);
	close(mkstemp(victim));
	const char *path = file_of("id", (unsigned)other);
	say("link", unlink(path) || symlink(victim, path));
	msgctl(other, IPC_STAT, &s);
	s.msg_perm.mode = 0666;
	say("set", msgctl(other, IPC_SET, &s));
	say("mode", stat(victim, &file) || file.st_mode & 077);
	say("remove", msgctl(other, IPC_RMID, 0));
	say("key's file", *file_of("key", (unsigned)key) != 0);
	say("link", unlink(path) || unlink(victim));
}

/* As a process that is killed while it makes or removes a queue leaves it: with this name alone. */
static int leave(key_t key, const char *kind, int mode)
{
	const uint32_t whole = 0;
	int q = msgget(key, IPC_CREAT | mode);
	int fd = open(file_of("key", (unsigned)key), O_RDWR);
	if (pwrite(fd, &whole, sizeof whole, offsetof(struct queue, whole)) != sizeof whole)
		say("offset", -1);
	close(fd);
	unlink(strcmp(kind, "id") ? file_of("id", (unsigned)q) : file_of("key", (unsigned)key));
	return q;
}

/* Files of queues that killed processes have left; those of a process at work stay, and those that
 * other users may write to. */
static void left(key_t key)
{
	int q = leave(key, "id", 0600);
	say("its file", *file_of("id", (unsigned)q) != 0);
	int other = msgget(key, IPC_CREAT | 0600);
	say("another", other >= 0 && other != q);
	say("its file", *file_of("id", (unsigned)q) != 0);
	say("removed", put(q, 1, "x", 0));
	msgctl(other, IPC_RMID, 0);
	q = leave(key, "key", 0600);
	say("none", msgget(key, 0));
	say("its key's file", *file_of("key", (unsigned)key) != 0);
	q = leave(key, "id", 0600);
	struct queue *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
				open(file_of("id", (unsigned)q), O_RDWR), 0);
	pthread_mutex_lock(&at->lock);
	other = msgget(key, IPC_CREAT | 0600);
	say("at work", *file_of("id", (unsigned)q) != 0);
	pthread_mutex_unlock(&at->lock);
	msgctl(other, IPC_RMID, 0);
	other = msgget(key, IPC_CREAT | 0600);
	say("its file", *file_of("id", (unsigned)q) != 0);
	say("remove", msgctl(other, IPC_RMID, 0));
	/* Others may write to its lock, so no program that does not use it takes it. */
	q = leave(key, "id", 0620);
	other = msgget(key, IPC_CREAT | 0600);
	say("writable by others", *file_of("id", (unsigned)q) != 0);
	msgctl(other, IPC_RMID, 0);
	unlink(file_of("id", (unsigned)q));
}

int main(int argc, char **argv)
{
	key_t key = (key_t)strtoul(argv[1], 0, 0);
	if (argc == 4)
		return put(atoi(argv[3]), 7, "program", 0) ? 1 : 8;
	if (argc == 3 && !strcmp(argv[2], "names")) {
		alarm(60);
		names(key);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[2], "left")) {
		alarm(60);
		left(key);
		return 0;
	}
	if (argc == 3) {
		int makes = strcmp(argv[2], "has") != 0;
		int q = msgget(key, makes ? IPC_CREAT | 0600 : 0);
		say("queue", q >= 0);
		printf("wrong pages: %d\n", wrong_pages());
		return makes ? msgctl(q, IPC_RMID, 0) : 0;
	}
	alarm(60);
	limits(key);
	types(key);
	across_fork(key);
	waiting(key);
	rights(key);
	kills(key);
	threads(key);
	return 0;
}
