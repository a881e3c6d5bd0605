/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Problem: the handler is a thread of the program, and anything in the program can write to its
 * memory. Were it to stay root when the program gives up being root, the program could take root
 * back through it. Rule: the handler gives up its own before the program's first instruction, while
 * it has all descriptors that it needs: its user and group are nobody else's, and of all
 * capabilities it keeps CAP_IPC_LOCK, without which pages of locked areas could not be moved within
 * a small limit of locked memory. Credentials are a thread's own where no libc changes those of all
 * threads. Sources: credentials(7), capabilities(7), prctl(2). Does not cover: the handler's
 * descriptors, which whoever takes over the handler can use (CAVEATS.md).
 */
#define _GNU_SOURCE
#include "space.h"

#include <linux/capability.h>
#include <sys/prctl.h>

/* Users from here on belong to no system of users, containers or services; one for each number of a
 * process. */
#define FIRST_USER 0x70000000u

static int is_root(void)
{
	uint32_t user[3] = {0, 0, 0};
	raw(SYS_getresuid, &user[0], &user[1], &user[2]);
	return !user[0] || !user[1] || !user[2];
}

void drop_privileges(struct state *s)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	zero_bytes(data, sizeof data);
	/* A change of user makes the memory of all threads one that may not be dumped. */
	long dumpable = raw(SYS_prctl, PR_GET_DUMPABLE);
	if (is_root()) {
		uint32_t own = FIRST_USER + (uint32_t)s->shared->pid;
		raw(SYS_prctl, PR_SET_KEEPCAPS, 1);
		raw(SYS_setgroups, 0, 0);
		raw(SYS_setresgid, own, own, own);
		raw(SYS_setresuid, own, own, own);
	}
	raw(SYS_capget, &header, data);
	uint32_t kept = data[0].permitted & 1u << CAP_IPC_LOCK;
	zero_bytes(data, sizeof data);
	data[0].permitted = data[0].effective = kept;
	if (failed(raw(SYS_capset, &header, data)) || is_root())
		give_up(s, "the thread that moves its pages cannot give up being root; start "
			   "solocore with CAP_SETUID and CAP_SETGID");
	if (dumpable == 1)
		raw(SYS_prctl, PR_SET_DUMPABLE, 1);
}
