/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that does nothing but fork, exec and exit, for an audit of its pages (forks.sh).
 *
 * Rule: COUNT children, one after the other, in four turns: one that ends at once, one that writes
 * to shared pages, one that becomes this program again, and one with threads and a child of its own
 * beside it. Each checks what it reads; the parent checks that no write of a child is in its own
 * pages. Prints the number of processes that end by exit. With GATE it then waits until there is a
 * file of this name, and checks its pages again. Exit code 9: data are wrong; 8: a child did not
 * end as it should.
 *
 *   forks [COUNT [GATE]]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (256u << 10)

static unsigned char data[BYTES], *heap;

static void must(int holds, int code)
{
	if (!holds)
		_exit(code);
}

/* Every page has the mark of its number. */
static int is_whole(const unsigned char *memory, unsigned char mark)
{
	for (unsigned at = 0; at < BYTES; at += 512)
		if (memory[at] != (unsigned char)(mark + at / 512))
			return 0;
	return 1;
}

static void fill(unsigned char *memory, unsigned char mark)
{
	for (unsigned at = 0; at < BYTES; at += 512)
		memory[at] = (unsigned char)(mark + at / 512);
}

static void *write_heap(void *unused)
{
	fill(heap, 3);
	return unused;
}

static void await(pid_t child)
{
	int status;
	must(child > 0 && waitpid(child, &status, 0) == child, 8);
	if (WIFSIGNALED(status))
		fprintf(stderr, "forks: child %d was ended by signal %d\n", child,
			WTERMSIG(status));
	must(WIFEXITED(status), 8);
	must(WEXITSTATUS(status) == 0, WEXITSTATUS(status));
}

static void with_thread_and_child(void)
{
	pthread_t thread;
	must(!pthread_create(&thread, 0, write_heap, 0), 8);
	pid_t child = fork();
	if (!child) {
		fill(data, 4);
		exit(is_whole(data, 4) ? 0 : 9);
	}
	await(child);
	pthread_join(thread, 0);
	must(is_whole(data, 1) && is_whole(heap, 3), 9);
	exit(0);
}

static void be_child(long turn, char *program)
{
	must(is_whole(data, 1) && is_whole(heap, 1), 9);
	switch (turn) {
	case 1:
		fill(data, 2);
		fill(heap, 2);
		must(is_whole(data, 2) && is_whole(heap, 2), 9);
		break;
	case 2:
		/* By its file: the name may be one that a search path found. */
		execl("/proc/self/exe", program, "1", (char *)0);
		_exit(8);
	case 3:
		with_thread_and_child();
		break;
	default:
		break;
	}
	exit(0);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1000, processes = 1;
	heap = malloc(BYTES);
	must(heap != 0, 8);
	fill(data, 1);
	fill(heap, 1);
	for (long i = 0; i < count; i++) {
		long turn = count == 1 ? 1 : i % 4;
		pid_t child = fork();
		if (!child)
			be_child(turn, argv[0]);
		await(child);
		/* A program that is started again has a child of its own. */
		processes += turn >= 2 ? 2 : 1;
	}
	must(is_whole(data, 1) && is_whole(heap, 1), 9);
	if (count > 1) {
		printf("%ld processes\n", processes);
		fflush(stdout);
	}
	while (argc > 2 && access(argv[2], F_OK))
		usleep(10000);
	must(is_whole(data, 1) && is_whole(heap, 1), 9);
	return 0;
}
