/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages between a program and `solocore reserve` about a buffer.
 *
 * Rule: one connection for each buffer (SOCK_SEQPACKET, an address in the kernel's name space), one
 * request, one answer; with SC_BUFFER_OK the answer brings the file (SCM_RIGHTS). The reserve takes
 * the frames back when the connection closes. crates/space/src/buffers.rs is the other side, and
 * compares its numbers with these.
 */
#ifndef SOLOCORE_RESERVE_H
#define SOLOCORE_RESERVE_H

#include <stdint.h>

/* Name of the socket. SOLOCORE_RESERVE in the environment of a client has another name. */
#define SC_RESERVE_SOCKET "solocore-reserve"
#define SC_RESERVE_REQUEST 0x66756273u /* "sbuf": no other request begins so */
#define SC_RESERVE_PROTOCOL 1u
#define SC_TASK_BYTES 64u

struct sc_buffer_request {
	uint32_t request; /* SC_RESERVE_REQUEST */
	uint32_t protocol;
	uint64_t bytes;
	char task[SC_TASK_BYTES]; /* ends with a zero */
};

struct sc_buffer_answer {
	uint32_t protocol;
	uint32_t status; /* enum sc_buffer_status */
	uint64_t bytes;	 /* size of the file */
};

_Static_assert(sizeof(struct sc_buffer_request) == 80, "the layout of a request");
_Static_assert(sizeof(struct sc_buffer_answer) == 16, "the layout of an answer");

#endif
