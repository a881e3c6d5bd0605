/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: start and end of a program in its colours take longer than any plan counts with, and a
 * job that is one run of a program has both. Rule: solocore may start the process before the job's
 * release (crates/linux/src/schedule/jobs/prepared.rs). SOLOCORE_HOLD is then SOCKET:PAGES, the
 * number of a socket, and the pages that a job touches. The library says there that all is in its
 * place, with frames for these pages, and waits for one byte; what follows is the job. As the
 * program ends, the library says so before its last look at the pages. Programs that the program
 * starts do not get the variable, and its children not the socket. A process whose solocore has
 * gone was never released, and ends. Does not cover: constructors of the other libraries, which run
 * after the release, as in the run that was profiled.
 */
#include "hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

static const char name[] = "SOLOCORE_HOLD=";
/* Pages that are ready at a release, at least. */
enum { LEAST_HELD = 256 };

/* Whether this process will be held. */
int hold_asked(char **environment)
{
	for (char **entry = environment; entry && *entry; entry++)
		if (starts_with(*entry, name))
			return 1;
	return 0;
}

/* Takes the variable out of the environment; its value, or 0. */
static const char *take(char **environment)
{
	for (char **entry = environment; entry && *entry; entry++) {
		if (!starts_with(*entry, name))
			continue;
		const char *value = *entry + sizeof name - 1;
		for (; *entry; entry++)
			entry[0] = entry[1];
		return value;
	}
	return 0;
}

/* The socket, and the kernel's number of it: the program may close all descriptors, and use the
 * numbers again. */
static int held = -1;
static uint64_t cookie;

static uint64_t cookie_of(int socket)
{
	uint64_t found = 0;
	uint32_t size = sizeof found;
	return failed(raw(SYS_getsockopt, socket, SOL_SOCKET, SO_COOKIE, &found, &size)) ? 0
											 : found;
}

/* The program may have closed the socket. */
static void say(char what)
{
	if (held >= 0 && cookie_of(held) == cookie)
		raw(SYS_sendto, held, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
}

void hold_until_release(char **environment)
{
	const char *value = take(environment);
	char byte;
	long got;
	if (!value)
		return;
	held = (int)number_at(value, (uint64_t)-1);
	while (*value && *value != ':')
		value++;
	/* Its handler keeps the frames ready as long as it waits. */
	self->held_pages = number_at(value + (*value == ':'), 0);
	if (self->held_pages < LEAST_HELD)
		self->held_pages = LEAST_HELD;
	call_handler(REQUEST_HELD, 0, 0, 0);
	cookie = cookie_of(held);
	if (!cookie) {
		held = -1;
		self->held_pages = 0;
		return;
	}
	say('r');
	raw(SYS_fcntl, held, F_SETFD, FD_CLOEXEC);
	do
		got = raw(SYS_read, held, &byte, 1);
	while (got == -EINTR);
	if (got != 1)
		for (;;)
			raw(SYS_exit_group, 0);
	self->held_pages = 0;
}

/* The program has done its work. */
void hold_end(void)
{
	say('d');
}

/* This process is a child of the one that was held. */
void hold_forget(void)
{
	if (held >= 0 && cookie_of(held) == cookie)
		raw(SYS_close, held);
	held = -1;
}
