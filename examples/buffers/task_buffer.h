/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Buffers of a task for the examples: one call that takes a buffer and explains a failure, and a
 * count of pages that lie in other colours than the plan has for the task.
 *
 * Problem: a buffer in any frames evicts the cache lines of other tasks, and no output of a program
 * shows its frames. Rule: sc_buffer() (solocore_buffer.h) gives frames of the task or none at all.
 * The kernel shows the frame of each page in /proc/self/pagemap to root, and the low bits of a
 * frame's number are its colour. Source: Documentation/admin-guide/mm/pagemap.rst of Linux.
 *
 * Does not cover: colours that are not the low bits of a frame's number, and banks. `solocore space
 * audit` looks these up from outside of a program.
 */
#ifndef TASK_BUFFER_H
#define TASK_BUFFER_H

#include <stddef.h>

#include "solocore_buffer.h"

/* Bytes of a page of this machine. */
size_t page_bytes(void);

/* Exit codes of the examples. A status of sc_buffer() is added to the last one. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_WRONG = 1,	  /* a page was not written, or lies in another colour */
	EXIT_USAGE = 2,	  /* an argument is wrong */
	EXIT_DEVICE = 3,  /* the device or the file does not do what is asked, or shows no frames */
	EXIT_BUFFER = 10, /* 11: no reserve; 12: not root; 13: no such task; 14: too few frames */
};

/* Colours of a task: from `first` to `last`, of `all`. With `all` zero no page is looked up. */
struct colours {
	unsigned first, last, all;
};

/* Reads text like "0-7/32". Returns 0, or -1 if it is not of this form. */
int colours_read(struct colours *colours, const char *text);

/* Reads a number of at least 1 and at most `most`. Returns it, or -1 if the text is none. */
long number_read(const char *text, long most);

/* Gets a buffer of a task. Returns 0, or an exit code after a message on stderr. */
int buffer_take(struct sc_memory *memory, const char *task, size_t bytes);

/* Where it lies: in frames of a reserve, or in memory that the program's own colours place. */
const char *buffer_place(const struct sc_memory *memory);

/* Number of its pages in other colours, or -1 if the kernel does not show the frames. */
long buffer_wrong(const struct sc_memory *memory, const struct colours *colours);

#endif
