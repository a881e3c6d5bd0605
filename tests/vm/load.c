/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Makes the kernel need memory of its own and for others: processes with pipes that are full, heap
 * and a file each.
 *
 *   load PROCESSES PIPES HEAP_MIB FILE_MIB     PIPES, heap and file of each process
 *
 * Prints "ready" when all have what they want, and ends with all of it when its input ends.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void one(int number, int pipes, long heap, long file)
{
	static char block[1 << 16];
	char name[64];
	for (int i = 0; i < pipes; i++) {
		int ends[2];
		if (pipe2(ends, O_NONBLOCK))
			_exit(3);
		while (write(ends[1], block, sizeof block) > 0)
			;
	}
	char *memory = malloc(heap << 20);
	if (!memory)
		_exit(4);
	memset(memory, 1, heap << 20);
	snprintf(name, sizeof name, "/tmp/load-%d", number);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (long done = 0; done < file << 20; done += sizeof block)
		if (write(fd, block, sizeof block) != sizeof block)
			_exit(5);
	unlink(name);
}

int main(int argc, char **argv)
{
	int ready[2];
	char byte;
	if (argc != 5 || pipe(ready))
		return 2;
	int processes = atoi(argv[1]);
	pid_t *children = calloc(processes, sizeof *children);
	for (int i = 0; i < processes; i++) {
		children[i] = fork();
		if (children[i] < 0)
			return 3;
		if (!children[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			one(i, atoi(argv[2]), atol(argv[3]), atol(argv[4]));
			if (write(ready[1], "r", 1) != 1)
				_exit(6);
			for (;;)
				pause();
		}
	}
	close(ready[1]);
	for (int i = 0; i < processes; i++)
		if (read(ready[0], &byte, 1) != 1)
			return 4;
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	for (int i = 0; i < processes; i++)
		kill(children[i], SIGKILL);
	return 0;
}
