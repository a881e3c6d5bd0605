/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Messages between this process and solocore: packets over the socket from its start. A process
 * that cannot go on in its colours sends a message and ends. Of frames that go back, the reserve
 * itself is told.
 */
#define _GNU_SOURCE
#include "space.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Connects to a name in the kernel's name space; -1: nobody listens there. */
int connect_to(const char *name, size_t length)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	long fd = raw(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (failed(fd))
		return -1;
	if (length + 1 <= sizeof address.sun_path) {
		copy_bytes(address.sun_path + 1, name, length);
		if (!failed(raw(SYS_connect, fd, &address,
				sizeof(address.sun_family) + 1 + length)))
			return (int)fd;
	}
	raw(SYS_close, fd);
	return -1;
}

int send_packet(struct state *s, uint32_t kind, const char *text)
{
	struct packet packet;
	zero_bytes(&packet, sizeof packet);
	packet.kind = kind;
	packet.pages = kind == PACKET_HELLO ? (uint32_t)s->held : (uint32_t)s->repaired;
	packet.stuck = s->stuck;
	packet.all_ns = kind == PACKET_EXIT ? s->lock_placed : 0;
	for (size_t i = 0; text && text[i] && i + 1 < sizeof packet.text; i++)
		packet.text[i] = text[i];
	/* MSG_NOSIGNAL */
	return failed(raw(SYS_sendto, s->socket, &packet, sizeof packet, 0x4000, 0, 0)) ? -1 : 0;
}

/* Returns the pages of the answer; -1: solocore has gone, which must not stop the program. The
 * answer to an earlier question for frames may come late: it is not the one to this (0: to no such
 * question). */
long wait_for_go(struct state *s, uint64_t question)
{
	struct packet packet;
	for (;;) {
		struct pollfd wait = {s->socket, POLLIN, 0};
		struct timespec {
			long seconds, nanoseconds;
		} limit = {10, 0};
		long ready = raw(SYS_ppoll, &wait, 1, &limit, 0);
		if (ready != 1)
			return -1;
		long got = raw(SYS_recvfrom, s->socket, &packet, sizeof packet, 0, 0, 0);
		if (got != (long)sizeof packet)
			return -1;
		uint64_t answers = packet.request < FIRST_QUESTION ? 0 : packet.request;
		if (packet.kind == PACKET_GO && answers == question)
			return packet.pages;
		if (packet.kind == PACKET_RECOLOUR)
			s->request = packet.request;
	}
}

/* Asks for frames of a reserve, before a search. They are free then, and come first on this CPU.
 * Returns their number; without an answer, there are none. */
uint64_t ask_for_pages(struct state *s, uint64_t pages)
{
	struct packet packet;
	unsigned cpu = ~0u;
	if (!s->config.lends || s->socket < 0)
		return 0;
	zero_bytes(&packet, sizeof packet);
	packet.kind = PACKET_NEED;
	packet.pages = pages < ~0u ? (uint32_t)pages : ~0u;
	packet.request = FIRST_QUESTION + s->asked++;
	raw(SYS_getcpu, &cpu, 0, 0);
	packet.stuck = cpu;
	if (failed(raw(SYS_sendto, s->socket, &packet, sizeof packet, 0x4000, 0, 0)))
		return 0;
	long given = wait_for_go(s, packet.request);
	return given > 0 ? (uint64_t)given : 0;
}

/* Tells the reserve that this number of pages is free on a CPU, or, `last`, will be once this
 * process has ended. 0: it has taken what it found of them; -1: it does not answer, and must not be
 * asked again, as its answer may come late. */
int tell_reserve(const struct state *s, uint64_t pages, uint32_t cpu, uint32_t last)
{
	struct give_back message = {GIVE_BACK, (uint32_t)pages, cpu, last};
	struct pollfd wait = {s->reserve, POLLIN, 0};
	long limit[2] = {10, 0};
	uint64_t taken;
	if (failed(raw(SYS_sendto, s->reserve, &message, sizeof message, 0x4000, 0, 0)))
		return -1;
	if (last)
		return 0;
	if (raw(SYS_ppoll, &wait, 1, limit, 0) != 1)
		return -1;
	long got = raw(SYS_recvfrom, s->reserve, &taken, sizeof taken, 0, 0, 0);
	return got == (long)sizeof taken ? 0 : -1;
}

/* The process must not go on in frames that are not its own. */
void give_up(struct state *s, const char *why)
{
	send_packet(s, PACKET_FAILED, why);
	for (;;)
		raw(SYS_kill, raw(SYS_getpid, 0), SIGKILL);
}
