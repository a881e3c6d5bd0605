/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policies under the verifier and the JIT: a program of type SYSCALL for one mechanism, chosen
 * by -DSC_MECHANISM=<name>. The world is the only entry of the map `world`; the context is an event
 * followed by room for its answer.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SC_STRING_(x) #x
#define SC_STRING(x) SC_STRING_(x)
#define SC_JOIN_(a, b) a##b
#define SC_JOIN(a, b) SC_JOIN_(a, b)
/* clang-format off */
#include SC_STRING(../drive/SC_MECHANISM.h)
/* clang-format on */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct SC_JOIN(sc_world_, SC_MECHANISM));
} world SEC(".maps");

struct call {
	struct sc_event event;
	struct sc_answer answer;
};

SEC("syscall")
int drive(struct call *call)
{
	struct SC_JOIN(sc_world_, SC_MECHANISM) * w;
	struct sc_event event;
	struct sc_answer answer;
	__u32 zero = 0;

	w = bpf_map_lookup_elem(&world, &zero);
	if (!w)
		return 1;
	event = call->event;
	SC_JOIN(sc_drive_, SC_MECHANISM)(w, &event, &answer);
	call->answer = answer;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
