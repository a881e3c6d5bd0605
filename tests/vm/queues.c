/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program for tests of message queues: says what each call answers, so that a queue of the kernel
 * and one of crates/space/preload can be compared. Does not cover: mq_notify.
 *
 *   queues NAME            prints the answers
 *   queues NAME frames     prints the pages of a mapped queue outside of the lower half of 32
 * colours
 */
#include "answers.h"
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static int handled[2];

static void caught(int signal)
{
	(void)signal;
	if (write(handled[1], "", 1) != 1)
		_exit(2);
}

static struct timespec soon(long milliseconds)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += milliseconds * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void attributes(mqd_t q)
{
	struct mq_attr a;
	say("getattr", mq_getattr(q, &a));
	printf("flags %ld, %ld messages of %ld, %ld in it\n", a.mq_flags, a.mq_maxmsg, a.mq_msgsize,
	       a.mq_curmsgs);
}

static void limits(const char *name)
{
	struct mq_attr bad = {.mq_maxmsg = 0, .mq_msgsize = 1},
		       few = {.mq_maxmsg = 3, .mq_msgsize = 16};
	struct timespec t = soon(30), wrong = {0, 1000000000}, past = {1, 0};
	char text[64];
	unsigned priority = 99;
	mq_unlink(name);
	say("open none", mq_open(name, O_RDWR));
	say("bad limits", mq_open(name, O_RDWR | O_CREAT, 0600, &bad));
	say("slash within", mq_open("/a/b", O_RDWR));
	mqd_t q = mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0640, &few);
	say("open", q >= 0);
	say("again", mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &few));
	say("close on exec", fcntl(q, F_GETFD));
	attributes(q);
	say("empty", mq_receive(q, text, sizeof text, &priority));
	say("too large", mq_send(q, text, 17, 0));
	say("priority", mq_send(q, text, 1, 32768));
	say("buffer", mq_receive(q, text, 15, 0));
	say("nothing", mq_send(q, "", 0, 7));
	say("low", mq_send(q, "low", 4, 0));
	say("high", mq_send(q, "high", 5, 32767));
	say("full", mq_send(q, "more", 5, 1));
	attributes(q);
	for (int i = 0; i < 3; i++) {
		memset(text, 0, sizeof text);
		say("receive", mq_receive(q, text, sizeof text, &priority));
		printf("`%s` of %u\n", text, priority);
	}
	struct mq_attr blocking = {0}, other = {.mq_flags = O_APPEND}, before;
	say("other flags", mq_setattr(q, &other, 0));
	say("blocks", mq_setattr(q, &blocking, &before));
	say("was", before.mq_flags == O_NONBLOCK);
	say("until", mq_timedreceive(q, text, sizeof text, 0, &t));
	say("past", mq_timedreceive(q, text, sizeof text, 0, &past));
	say("wrong time", mq_timedreceive(q, text, sizeof text, 0, &wrong));
	say("wrong time, room", mq_timedsend(q, text, 1, 0, &wrong));
	mqd_t in = mq_open(name, O_RDONLY), out = mq_open(name, O_WRONLY);
	say("send in", mq_send(in, "x", 1, 0));
	say("receive out", mq_receive(out, text, sizeof text, 0));
	say("send out", mq_send(out, "x", 2, 3));
	say("receive in", mq_receive(in, text, sizeof text, 0));
	int copy = dup(in);
	say("a copy", mq_close(in) + mq_send(out, "y", 2, 3));
	say("receive by the copy", mq_receive(copy, text, sizeof text, 0));
	close(copy);
	say("closed", mq_receive(copy, text, sizeof text, 0));
	int pipes[2];
	say("a pipe", pipe(pipes) + mq_send(pipes[1], "x", 1, 0));
	say("unlink", mq_unlink(name));
	say("unlink again", mq_unlink(name));
	say("still there", mq_send(q, "z", 2, 0) + mq_receive(out, text, sizeof text, 0) * 0);
	say("close", mq_close(q));
	say("close again", mq_close(q));
	mq_close(out);
}

static void order(const char *name)
{
	struct mq_attr a = {.mq_maxmsg = 10, .mq_msgsize = 8};
	mqd_t q = mq_open(name, O_RDWR | O_CREAT, 0600, &a);
	unsigned priority, seed = 5;
	char text[8];
	for (int round = 0; round < 200; round++) {
		int n = (int)(rand_r(&seed) % 10) + 1;
		for (int i = 0; i < n; i++) {
			int length = snprintf(text, sizeof text, "%d", i);
			mq_send(q, text, (size_t)length + 1, rand_r(&seed) % 4);
		}
		for (int i = 0; i < n; i++) {
			long length = mq_receive(q, text, sizeof text, &priority);
			printf("%s/%u/%ld ", text, priority, length);
		}
	}
	puts("");
	mq_close(q);
	mq_unlink(name);
}

/* A child sends, blocked at times, and the parent receives; and the other way round. */
static void across_fork(const char *name)
{
	struct mq_attr a = {.mq_maxmsg = 4, .mq_msgsize = sizeof(long)};
	mqd_t q = mq_open(name, O_RDWR | O_CREAT, 0600, &a);
	long sum = 0, number;
	int status;
	for (int turn = 0; turn < 2; turn++) {
		pid_t child = fork();
		int sends = (child == 0) == (turn == 0);
		sum = 0;
		for (long i = 0; i < 5000; i++) {
			if (sends && mq_send(q, (char *)&i, sizeof i, 1))
				_exit(9);
			if (!sends &&
			    (mq_receive(q, (char *)&number, sizeof number, 0) != sizeof number ||
			     number != i))
				_exit(8);
			sum += sends ? 0 : number;
		}
		if (child == 0)
			_exit(sum == (sends ? 0 : 12497500) ? 5 : 6);
		waitpid(child, &status, 0);
		say("child", WEXITSTATUS(status));
		say("sum", sum);
	}
	mq_close(q);
	mq_unlink(name);
}

static void signals(const char *name)
{
	struct mq_attr a = {.mq_maxmsg = 4, .mq_msgsize = 8};
	mqd_t q = mq_open(name, O_RDWR | O_CREAT, 0600, &a);
	int status;
	if (pipe(handled))
		_exit(2);
	/* Interrupted, and restarted. */
	for (int restart = 0; restart < 2; restart++) {
		struct sigaction action = {.sa_handler = caught,
					   .sa_flags = restart ? SA_RESTART : 0};
		sigaction(SIGUSR1, &action, 0);
		pid_t parent = getpid(), child = fork();
		if (child == 0) {
			char byte;
			await_sleep(parent);
			kill(parent, SIGUSR1);
			_exit(read(handled[0], &byte, 1) != 1 || mq_send(q, "after", 6, 0));
		}
		char text[16];
		say("interrupted", mq_receive(q, text, sizeof text, 0));
		waitpid(child, &status, 0);
		if (!restart)
			say("after", mq_receive(q, text, sizeof text, 0));
	}
	/* Killed in a receive. */
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();
		if (child == 0)
			for (char text[16];;)
				mq_receive(q, text, sizeof text, 0);
		for (int k = 0; k < 200; k++)
			mq_send(q, "k", 1, 0);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
	}
	struct timespec t = soon(0);
	char text[16];
	while (mq_timedreceive(q, text, sizeof text, 0, &t) >= 0)
		;
	say("emptied", -1);
	say("send", mq_send(q, "k", 1, 0));
	attributes(q);
	mq_close(q);
	mq_unlink(name);
}

static mqd_t shared;
static void *work(void *argument)
{
	long me = (long)argument, sum = 0, number;
	for (long i = 0; i < 3000; i++)
		if (me % 2)
			mq_send(shared, (char *)&i, sizeof i, (unsigned)i % 3);
		else
			mq_receive(shared, (char *)&number, sizeof number, 0), sum += number;
	return (void *)sum;
}

static void threads(const char *name)
{
	struct mq_attr a = {.mq_maxmsg = 5, .mq_msgsize = sizeof(long)};
	pthread_t t[6];
	long sum = 0;
	shared = mq_open(name, O_RDWR | O_CREAT, 0600, &a);
	for (long i = 0; i < 6; i++)
		pthread_create(&t[i], 0, work, (void *)i);
	for (int i = 0; i < 6; i++) {
		void *part;
		pthread_join(t[i], &part);
		sum += (long)part;
	}
	say("threads", sum);
	attributes(shared);
	mq_close(shared);
	mq_unlink(name);
}

static pid_t receiver;
static void *receive_one(void *unused)
{
	char text[8];
	(void)unused;
	__atomic_store_n(&receiver, gettid(), __ATOMIC_SEQ_CST);
	return (void *)mq_receive(shared, text, sizeof text, 0);
}

/* A thread waits, and another one closes its descriptor. */
static void closed_meanwhile(const char *name)
{
	struct mq_attr a = {.mq_maxmsg = 5, .mq_msgsize = 8};
	pthread_t thread;
	void *length;
	shared = mq_open(name, O_RDWR | O_CREAT, 0600, &a);
	mqd_t other = mq_open(name, O_RDWR);
	pthread_create(&thread, 0, receive_one, 0);
	while (!__atomic_load_n(&receiver, __ATOMIC_SEQ_CST))
		usleep(1000);
	await_sleep(receiver);
	say("close", mq_close(shared));
	say("send", mq_send(other, "after", 6, 0));
	pthread_join(thread, &length);
	say("receive", (long)length);
	mq_close(other);
	mq_unlink(name);
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		struct mq_attr a = {.mq_maxmsg = 10, .mq_msgsize = 8192};
		struct mq_attr huge = {.mq_maxmsg = 65536, .mq_msgsize = 1 << 20};
		say("huge", mq_open(argv[1], O_RDWR | O_CREAT, 0600, &huge));
		mqd_t q = mq_open(argv[1], O_RDWR | O_CREAT, 0600, &a);
		say("notify", mq_notify(q, 0));
		say("wrong pages", wrong_pages());
		mq_close(q);
		say("mapped", wrong_pages());
		return mq_unlink(argv[1]);
	}
	limits(argv[1]);
	order(argv[1]);
	across_fork(argv[1]);
	signals(argv[1]);
	threads(argv[1]);
	closed_meanwhile(argv[1]);
	return 0;
}
