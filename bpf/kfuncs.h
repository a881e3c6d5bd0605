/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations of the kernel for the programs, in place of a vmlinux.h of 100,000 lines.
 *
 * Rule: a struct names only the members that are read; libbpf finds their offsets in the running
 * kernel (CO-RE). Kernel functions are declared weak: crates/linux looks for them in the kernel's
 * type information before it loads anything, and names a missing one.
 * Source: include/linux/sched/ext.h and kernel/sched/ext.c of Linux 6.14 to 7.3; the numbers are
 * the same in all of them.
 */
#ifndef SOLOCORE_KFUNCS_H
#define SOLOCORE_KFUNCS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/*
 * Not only declared: libbpf compares the types of a kernel function's arguments. The compiler tells
 * of a type that is only pointed to no more than its name, unless a program asks for it
 * (solocore_init).
 */
struct cpumask {
	unsigned long bits[1];
};

struct sched_ext_entity {
	__u32 flags;
	__u32 weight;
	__u64 slice;
	__u64 dsq_vtime;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

/* Times in ns. */
struct cfs_bandwidth {
	__s64 period;
	__u64 quota;
	__u64 burst;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

struct task_struct {
	unsigned int flags;
	int prio;
	int pid;
	int tgid;
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	int nr_cpus_allowed;
	unsigned short migration_disabled;
	int rcu_read_lock_nesting;
	const struct cpumask *cpus_ptr;
	struct task_group *sched_task_group;
	struct sched_ext_entity scx;
};

struct scx_init_task_args {
	_Bool fork;
};

struct scx_cpu_release_args {
	int reason;
};

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

/* The kernel's iterator over the tasks of a queue. */
struct bpf_iter_scx_dsq {
	__u64 __opaque[6];
} __attribute__((aligned(8)));

/* The callbacks that are used; libbpf matches them by name. */
struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags);
	void (*enqueue)(struct task_struct *p, __u64 enq_flags);
	void (*dispatch)(__s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, _Bool runnable);
	void (*enable)(struct task_struct *p);
	void (*cpu_online)(__s32 cpu);
	void (*cpu_offline)(__s32 cpu);
	void (*cpu_release)(__s32 cpu, struct scx_cpu_release_args *args);
	__s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

#define PF_KTHREAD 0x00200000u
/* Lowest `prio` of a task that is not real-time. */
#define MAX_RT_PRIO 100
#define SCX_DSQ_LOCAL 0x8000000000000002ull
#define SCX_DSQ_LOCAL_ON 0xc000000000000000ull
#define SCX_ENQ_WAKEUP 1ull
#define SCX_ENQ_PREEMPT (1ull << 32)
#define SCX_ENQ_LAST (1ull << 41)
#define SCX_KICK_IDLE 1ull
#define SCX_KICK_PREEMPT 2ull
#define SCX_OPS_ENQ_LAST 2ull
#define SCX_OPS_ENQ_EXITING 4ull
/* Tasks that may not leave their CPU come to `enqueue` as well. */
#define SCX_OPS_ENQ_MIGRATION_DISABLED 16ull
#define SCX_TASK_QUEUED 1u

extern __s32 scx_bpf_create_dsq(__u64 dsq, __s32 node) __ksym __weak;
extern __s32 scx_bpf_select_cpu_dfl(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags,
				    _Bool *is_idle) __ksym __weak;
extern __s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, __u64 flags) __ksym __weak;
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 dsq, __u64 slice,
			       __u64 enq_flags) __ksym __weak;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, __u64 dsq, __u64 slice, __u64 vtime,
				     __u64 enq_flags) __ksym __weak;
extern void scx_bpf_error_bstr(char *format, unsigned long long *data, __u32 size) __ksym __weak;
extern __s32 scx_bpf_dsq_nr_queued(__u64 dsq) __ksym __weak;
extern _Bool scx_bpf_test_and_clear_cpu_idle(__s32 cpu) __ksym __weak;
extern _Bool bpf_cpumask_test_cpu(__u32 cpu, const struct cpumask *mask) __ksym __weak;
extern _Bool scx_bpf_dsq_move_to_local(__u64 dsq) __ksym __weak;
extern _Bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 dsq,
			      __u64 enq_flags) __ksym __weak;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, __u64 dsq, __u64 flags) __ksym __weak;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym __weak;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym __weak;
extern void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) __ksym __weak;
extern __s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym __weak;

/*
 * Is the task in a section of the kernel in which it may not leave its CPU? The running task is in
 * one while it runs a program of BPF: that does not count.
 */
static __always_inline __u32 stays_here(struct task_struct *p)
{
	unsigned short sections = p->migration_disabled;

	return sections > 1 || (sections == 1 && p->pid != bpf_get_current_task_btf()->pid);
}

/* The same of sections that read by RCU: the kernel waits for the end of one wherever it changes.
 */
static __always_inline __u32 reads_by_rcu(const struct task_struct *p)
{
	int sections;

	if (!bpf_core_field_exists(p->rcu_read_lock_nesting))
		return 0;
	sections = p->rcu_read_lock_nesting;
	return sections > (p->pid == bpf_get_current_task_btf()->pid);
}

#endif
