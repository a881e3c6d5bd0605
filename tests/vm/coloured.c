/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program for tests of programs in their colours: threads, large and small blocks, rights that
 * change, a library that is loaded later, a file's private copy, a child; what it wrote must be
 * there two seconds later. Its first mapping and the first pages of its heap stay.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES (4u << 20)

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "BAD: %s\n", what);
	_exit(9);
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Counts up in every line of its memory, whatever becomes of the pages. */
static void *count_up(void *argument)
{
	unsigned char *book = malloc(BYTES), round = 0;
	memset(book, 0, BYTES);
	for (double end = seconds() + *(double *)argument; seconds() < end; round++)
		for (unsigned i = 0; i < BYTES; i += 64)
			must(book[i]++ == round, "a count was lost");
	free(book);
	return 0;
}

static void change_rights(void)
{
	char *p = mmap(0, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(!mprotect(p + 8192, 8192, PROT_READ | PROT_WRITE), "mprotect");
	p[8192] = 7;
	p = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p[8192] = 7;
	p = mremap(p, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
	must(p != MAP_FAILED && p[8192] == 7, "mremap");
	int file = open("/proc/self/exe", O_RDONLY);
	char *copy = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	must(copy[1] == 'E', "a file's page");
	copy[1] = 'X';
	must(copy[1] == 'X' && copy[2] == 'L', "a file's private page");
}

/* Small blocks and a mapping that stay, with numbers in each line. */
static unsigned char *stays[2];
#define STAYS (8u * 4096)

static void fill_those_that_stay(void)
{
	stays[0] = malloc(STAYS);
	stays[1] = mmap(0, STAYS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < STAYS; i++)
		stays[0][i] = stays[1][i] = (unsigned char)(i / 64);
}

static void check_those_that_stay(void)
{
	for (unsigned i = 0; i < STAYS; i++)
		must(stays[0][i] == (unsigned char)(i / 64) && stays[1][i] == stays[0][i],
		     "a page that stays");
}

int main(void)
{
	double time = 2;
	pthread_t threads[2];
	fill_those_that_stay();
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, count_up, &time);
	change_rights();
	void *library = dlopen("libm.so.6", RTLD_NOW);
	double (*root)(double) = library ? (double (*)(double))dlsym(library, "sqrt") : 0;
	must(root && root(9.0) == 3.0, "a library that is loaded later");
	char *shared = malloc(BYTES);
	memset(shared, 1, BYTES);
	int status = 0, child = fork();
	if (child == 0) {
		memset(shared, 2, BYTES / 2);
		exit(shared[0] == 2 && shared[BYTES - 1] == 1 ? 5 : 6);
	}
	waitpid(child, &status, 0);
	must(WEXITSTATUS(status) == 5 && shared[0] == 1, "a child's pages");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	check_those_that_stay();
	puts("good");
	return 0;
}
