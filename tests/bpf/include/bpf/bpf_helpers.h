/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the headers of bpf/ need of libbpf, for a program of this machine: maps and most
 * helpers are those of the tests that include this (nested.c, groups.c).
 */
#ifndef SOLOCORE_TEST_BPF_HELPERS_H
#define SOLOCORE_TEST_BPF_HELPERS_H

#define SEC(name)
#define __ksym
#define __weak __attribute__((weak))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define barrier() __asm__ volatile("" ::: "memory")
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __array(name, value) __typeof__(value) *name[]

struct bpf_perf_event_data;
struct task_struct;

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
long bpf_perf_event_read_value(void *map, __u64 flags, struct bpf_perf_event_value *value,
			       __u32 size);
long bpf_perf_prog_read_value(struct bpf_perf_event_data *context,
			      struct bpf_perf_event_value *value, __u32 size);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_smp_processor_id(void);
struct task_struct *bpf_get_current_task_btf(void);

static inline long bpf_loop(__u32 count, void *function, void *context, __u64 flags)
{
	long (*call)(__u32, void *) = (long (*)(__u32, void *))function;

	(void)flags;
	for (__u32 i = 0; i < count; i++)
		if (call(i, context) != 0)
			return i + 1;
	return count;
}

#endif
