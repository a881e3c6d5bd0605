/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Receives an answer with the descriptor that comes with it. Internal: not installed.
 */
#ifndef SOLOCORE_RECEIVE_H
#define SOLOCORE_RECEIVE_H

#include <string.h>
#include <sys/socket.h>

/* Bytes of the answer, as recvmsg() returns them. *fd is the descriptor, closed on exec; it stays
 * unchanged where none came. */
static inline ssize_t receive_with_file(int socket, void *answer, size_t size, int *fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {.iov_base = answer, .iov_len = size};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *first = got < 0 ? NULL : CMSG_FIRSTHDR(&message);

	if (first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS &&
	    first->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(first), sizeof(*fd));
	return got;
}

#endif
