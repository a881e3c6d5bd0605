/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a message costs an unmodified program: the time of sending it and of receiving it.
 *
 * Rule: two processes, a sender and a receiver. The sender sends a batch that fits into the queue,
 * so that no call waits, and each call is timed; then the receiver receives it in the same way. The
 * kinds take turns with each batch. Does not cover: waking up a receiver that waits.
 * Usage: queues BATCHES BYTES...; prints a line "KIND BYTES SEND RECEIVE" for each kind and size:
 * medians in ns. Exit code 3: this machine has no such queues.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KINDS = 4, MOST_BYTES = 8192, BATCH = 8, ROOM = 16384 };

static const char *const names[KINDS] = {"posix", "sysv", "pipe", "socket"};

static struct message {
	long type;
	char text[MOST_BYTES];
} message = {.type = 1};

static mqd_t queue;
static int number, ends[2], pair[2], turns[2][2];

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "queues: %s: %s\n", what, strerror(errno));
	exit(3);
}

static double pass(int kind, int sends, size_t bytes)
{
	double begun = now_ns();
	ssize_t done;

	if (kind == 0)
		done = sends ? mq_send(queue, message.text, bytes, 0)
			     : mq_receive(queue, message.text, MOST_BYTES, 0);
	else if (kind == 1)
		done = sends ? msgsnd(number, &message, bytes, 0)
			     : msgrcv(number, &message, bytes, 0, 0);
	else if (kind == 2)
		done = sends ? write(ends[1], message.text, bytes)
			     : read(ends[0], message.text, bytes);
	else
		done = sends ? write(pair[1], message.text, bytes)
			     : read(pair[0], message.text, bytes);
	begun = now_ns() - begun;
	must(done >= 0, names[kind]);
	return begun;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The messages of one side; its medians of all kinds. */
static void take_part(int sends, long batches, size_t bytes, double medians[KINDS])
{
	long batch = ROOM / (long)bytes < BATCH ? ROOM / (long)bytes : BATCH,
	     count = batches * batch;
	double *times = malloc(sizeof *times * KINDS * (size_t)count);
	char turn = 0;

	must(times != 0, "no memory for the times");
	for (long i = 0; i < batches; i++) {
		for (int kind = 0; kind < KINDS; kind++) {
			must(sends || read(turns[0][0], &turn, 1) == 1, "the sender has ended");
			for (long k = 0; k < batch; k++)
				times[kind * count + i * batch + k] = pass(kind, sends, bytes);
			must(write(turns[!sends][1], &turn, 1) == 1, "the other has ended");
			must(!sends || read(turns[1][0], &turn, 1) == 1, "the receiver has ended");
		}
	}
	for (int kind = 0; kind < KINDS; kind++) {
		qsort(times + kind * count, (size_t)count, sizeof *times, compare);
		medians[kind] = times[kind * count + count / 2];
	}
	free(times);
}

static void measure(long batches, size_t bytes)
{
	double sent[KINDS], received[KINDS];
	int results[2], status = 1;

	must(!pipe(results), "pipe");
	pid_t child = fork();
	must(child >= 0, "fork");
	if (!child) {
		take_part(0, batches, bytes, received);
		_exit(write(results[1], received, sizeof received) != sizeof received);
	}
	take_part(1, batches, bytes, sent);
	must(read(results[0], received, sizeof received) == sizeof received,
	     "the receiver's times");
	waitpid(child, &status, 0);
	close(results[0]);
	close(results[1]);
	for (int kind = 0; kind < KINDS; kind++)
		printf("%s %zu %.0f %.0f\n", names[kind], bytes, sent[kind], received[kind]);
}

int main(int argc, char **argv)
{
	struct mq_attr limits = {.mq_maxmsg = BATCH, .mq_msgsize = MOST_BYTES};
	long batches = argc > 2 ? atol(argv[1]) : 0;
	char name[64];

	if (batches < 1)
		return 2;
	for (int i = 2; i < argc; i++)
		if (atol(argv[i]) < 1 || atol(argv[i]) > MOST_BYTES)
			return 2;
	snprintf(name, sizeof name, "/solocore-bench-%d", getpid());
	queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &limits);
	must(queue != (mqd_t)-1, "mq_open");
	mq_unlink(name);
	number = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	must(number >= 0, "msgget");
	must(!pipe(ends) && !pipe(turns[0]) && !pipe(turns[1]), "pipe");
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	for (int i = 2; i < argc; i++)
		measure(batches, (size_t)atol(argv[i]));
	msgctl(number, IPC_RMID, 0);
	return 0;
}
