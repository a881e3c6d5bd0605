/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Buffers in frames of a task's cache colours and DRAM banks.
 *
 * Problem: devices and other tasks write into buffers. A buffer in any frames evicts the lines of
 * other tasks and closes the rows of their banks, and a program cannot choose its frames. Rule: a
 * running `solocore reserve --plan` holds the frames of the plan's tasks. It makes a file in
 * memory, with every page in a frame of the named task, and keeps the pages in place until the
 * buffer is freed or its process has ended. Where none serves the program, one that solocore has
 * started in colours as this very task (solocore run --colors, solocore exec --plan --task) gets
 * memory of its own, which the library in it places. In all other cases there is no buffer: no page
 * comes from elsewhere. Source: mc2-os-isolation, section 3.2 (lists of pages by task).
 *
 *	struct sc_memory frame;
 *	if (sc_buffer(&frame, "video", 400 << 10) == SC_BUFFER_OK) {
 *		read(camera, frame.at, frame.bytes);
 *		sc_buffer_free(&frame);
 *	}
 *
 * A page of it can be written by devices (O_DIRECT, io_uring's registered buffers, user pointers of
 * V4L2, memory of AF_XDP), and a message queue (solocore_ipc.h) can lie in it: another process maps
 * `file`. After fork() the child has the buffer as well, and the frames go back when both have
 * freed it or ended.
 *
 * Does not cover: growing a buffer; a reserve that ends: the buffer stays, and its frames are no
 * longer kept in place. A page that the program punches out of the file comes back in any frame.
 */
#ifndef SOLOCORE_BUFFER_H
#define SOLOCORE_BUFFER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results of the calls. */
enum sc_buffer_status {
	SC_BUFFER_OK = 0,
	SC_BUFFER_NONE = 1,	/* no reserve has a plan here, and the program does not run in
				   colours as this task */
	SC_BUFFER_DENIED = 2,	/* the reserve serves root alone */
	SC_BUFFER_UNKNOWN = 3,	/* the plan has no such task, or no frames of its own for it */
	SC_BUFFER_FEW = 4,	/* the reserve holds too few frames of the task */
	SC_BUFFER_ARGUMENT = 5, /* no name, one of more than 63 bytes, or an impossible size */
	SC_BUFFER_REFUSED = 6,	/* the reserve is of another version, or does not answer in
				   time */
	SC_BUFFER_SYSTEM = 7,	/* a system call failed (no memory, no descriptors), or the kernel
				   gave other frames than those that were freed */
};

/* A buffer. Read its members, and leave them as they are. */
struct sc_memory {
	void *at;     /* zero at first, from a page's beginning on */
	size_t bytes; /* whole pages, at least as many bytes as were asked for */
	int file;     /* for other processes to map, shared; -1: the memory is the process's own */
	int connection; /* the reserve takes the frames back when it closes; -1: there is none */
};

/*
 * Gets at least this number of bytes in frames of a task of the plan. Takes some 10 us a page, and
 * up to some seconds while the reserve is looking for frames. On failure *memory is empty.
 */
int sc_buffer(struct sc_memory *memory, const char *task, size_t bytes);

/* Gives it back, and makes *memory empty; nothing happens to one that is empty. */
void sc_buffer_free(struct sc_memory *memory);

/* Text of a status, in English. Never fails. */
const char *sc_strbuffer(int status);

#ifdef __cplusplus
}
#endif

#endif
