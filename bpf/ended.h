/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reason for the end of a scheduler.
 *
 * Problem: the kernel unloads a sched_ext scheduler at any time (an error of its own, the watchdog,
 * a CPU that goes offline, a request), and solocore must report the reason. Rule: the callback
 * `exit` writes the reason that the kernel gives; crates/linux/src/regulate/bpf.rs reads it
 * (check_ended), and knows the layout. `kind` is written last: a reader that sees it sees the
 * texts.
 */
#ifndef SOLOCORE_ENDED_H
#define SOLOCORE_ENDED_H

#include "kfuncs.h"
#include "sched_intf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run_exit);
} ended SEC(".maps");

static __always_inline void exit_written(struct scx_exit_info *info)
{
	__u32 zero = 0;
	struct run_exit *e = bpf_map_lookup_elem(&ended, &zero);

	if (!e)
		return;
	bpf_probe_read_kernel_str(e->reason, sizeof(e->reason), info->reason);
	bpf_probe_read_kernel_str(e->message, sizeof(e->message), info->msg);
	e->code = info->exit_code;
	e->kind = info->kind;
}

#endif
