/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Jobs and sections of the bandwidth lock of unmodified programs: calls of their functions, and
 * wakeups.
 *
 * Problem: a client signals with a store to its page (client/c/solocore_page.h), and an unmodified
 * program stores nothing. Rule: a uprobe at the entry of a function and one at its return make the
 * same stores in its place. So regulators read pages as before, and need not know their writer.
 * Only calls of the probed program count: a process that solocore's thread started (or that
 * solocore exec became), and its descendants. Other processes with the same file are ignored.
 *
 * Recursion and nesting: a thread is in the function from its outermost entry until the frame of
 * that entry returns, which the stack pointer tells; the kernel calls no return probe for more than
 * 64 frames of a thread, and none is needed for the inner ones. An entry above the outermost frame
 * means that longjmp() left that frame. The end of a thread and execve() end its calls.
 *
 * By wakeup: a job lasts from the wakeup of the first thread of the program's process until this
 * thread goes to an interruptible sleep. Waiting for a disk or for a page is part of the job.
 * Source: bwlock, section 4.2 (which asks for a changed line where this needs none);
 * dynamic-budgeting, section IV (signals of jobs).
 *
 * Does not cover: entries on another stack (sigaltstack, coroutines) within a call: one that lies
 * higher counts as a new call. Jobs of several threads of one program at the same time.
 */
#include <linux/ptrace.h>

#include "functions_intf.h"
#include "kfuncs.h"
#include "pages.h"

/* Sleeping until a signal or an event. */
#define TASK_INTERRUPTIBLE 1u

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUN_WATCHED);
	__type(key, __u32);
	__type(value, struct run_watched);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RUN_WATCHED);
	__type(key, __u32);
	__array(values, struct client_page);
} watched_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUN_WATCHED);
	__type(key, __u32);
	__type(value, struct run_seen);
} watched_seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} ended_jobs SEC(".maps");

/* A thread of a program: the outermost call of each kind that it is in. */
struct watched_thread {
	__u64 stack[RUN_CALLS]; /* the stack pointer at its entry; 0: in none */
	__u64 since_ns[RUN_CALLS];
	__u32 program; /* plus 1 */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct watched_thread);
} watched_threads SEC(".maps");

/* A search for the program among a process and its parents. */
struct family {
	struct task_struct *leader;
	__u32 program; /* plus 1 */
};

static __noinline __u32 program_of(__u32 number, __u64 start_ns)
{
	struct run_watched *w = bpf_map_lookup_elem(&watched, &number);

	return w && w->started == start_ns / 10000000 ? w->program + 1 : 0;
}

/* A process: it is named itself, or the thread that started it is. Its parent is next. */
static long generation(__u32 step, struct family *f)
{
	struct task_struct *leader = f->leader, *parent = leader->real_parent;

	f->program = program_of(leader->pid, leader->start_boottime);
	if (f->program == 0)
		f->program = program_of(parent->pid, parent->start_boottime);
	f->leader = parent->group_leader;
	return f->program != 0;
}

static __always_inline struct sc_page *page_of(__u32 program)
{
	return page_at(&watched_pages, program);
}

static __always_inline void begin_section(struct sc_page *page)
{
	__sync_fetch_and_add(&page->sections, 1ull << 32 | 1);
}

static __always_inline void end_section(struct sc_page *page)
{
	__sync_fetch_and_add(&page->sections, -1ull);
}

static __always_inline void begin_job(struct sc_page *page)
{
	page->jobs = ((page->jobs >> 1) + 1) << 1 | 1;
}

static __always_inline void end_job(struct sc_page *page, __u32 program, __u64 begun, __u64 now)
{
	struct run_ended_job job = {.begun_ns = begun, .ended_ns = now, .program = program};

	page->jobs &= ~1ull;
	/* No room: the daemon did not read for long; the counts know of the job. */
	bpf_ringbuf_output(&ended_jobs, &job, sizeof(job), BPF_RB_NO_WAKEUP);
}

/* Counts one more call of this kind, with its time. */
static __always_inline void count_call(__u32 program, __u32 kind, __u64 took, __u32 abandoned)
{
	struct run_seen *seen = bpf_map_lookup_elem(&watched_seen, &program);
	struct run_calls *calls;

	if (!seen)
		return;
	calls = &seen->calls[kind & 1];
	__sync_fetch_and_add(&calls->made, 1);
	__sync_fetch_and_add(&calls->sum_ns, took);
	if (abandoned)
		__sync_fetch_and_add(&calls->abandoned, 1);
	if (took > calls->longest_ns)
		calls->longest_ns = took;
}

/* The thread leaves its outermost call of this kind. */
static __always_inline void leave(struct watched_thread *t, __u32 kind, __u64 now, __u32 abandoned)
{
	__u32 program = t->program - 1;
	struct sc_page *page = page_of(program);
	__u64 since = t->since_ns[kind & 1];

	t->stack[kind & 1] = 0;
	count_call(program, kind, now - since, abandoned);
	if (!page)
		return;
	if (kind == RUN_CALL_JOB)
		end_job(page, program, since, now);
	else
		end_section(page);
}

/* The running thread, if it belongs to this program (plus 1). */
static __always_inline struct watched_thread *thread_of(__u32 program)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct watched_thread *t = bpf_task_storage_get(&watched_threads, p, 0, 0);
	struct family f = {.leader = p->group_leader};

	if (t && t->program == program)
		return t;
	bpf_loop(RUN_FAMILY, generation, &f, 0);
	if (f.program != program)
		return 0;
	t = bpf_task_storage_get(&watched_threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t)
		t->program = program;
	return t;
}

/* A function is entered. */
SEC("uprobe")
int entered(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now, stack = PT_REGS_SP(ctx);
	__u32 kind = cookie & 1, program = (__u32)(cookie >> 1);
	struct watched_thread *t = thread_of(program + 1);
	struct run_seen *seen;
	struct sc_page *page;

	if (!t)
		return 0;
	if (t->stack[kind] != 0 && stack <= t->stack[kind]) {
		seen = bpf_map_lookup_elem(&watched_seen, &program);
		if (seen)
			__sync_fetch_and_add(&seen->calls[kind].nested, 1);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (t->stack[kind] != 0)
		leave(t, kind, now, 1);
	page = page_of(program);
	if (!page)
		return 0;
	t->stack[kind] = stack;
	t->since_ns[kind] = now;
	if (kind == RUN_CALL_JOB)
		begin_job(page);
	else
		begin_section(page);
	return 0;
}

/* A function has returned. */
SEC("uretprobe")
int returned(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), stack = PT_REGS_SP(ctx);
	struct task_struct *p = bpf_get_current_task_btf();
	struct watched_thread *t = bpf_task_storage_get(&watched_threads, p, 0, 0);
	__u32 kind = cookie & 1;

	if (t && t->program == (cookie >> 1) + 1 && t->stack[kind] != 0 && stack >= t->stack[kind])
		leave(t, kind, bpf_ktime_get_ns(), 0);
	return 0;
}

static __always_inline void forget(struct task_struct *p)
{
	struct watched_thread *t = bpf_task_storage_get(&watched_threads, p, 0, 0);
	__u64 now = bpf_ktime_get_ns();

	if (!t)
		return;
	if (t->stack[RUN_CALL_SECTION] != 0)
		leave(t, RUN_CALL_SECTION, now, 1);
	if (t->stack[RUN_CALL_JOB] != 0)
		leave(t, RUN_CALL_JOB, now, 1);
}

/* A thread ends. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(ends, struct task_struct *p)
{
	forget(p);
	return 0;
}

/* A thread becomes another program. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(becomes, struct task_struct *p)
{
	forget(p);
	return 0;
}

/* A program with wakeups as jobs. */
struct waking {
	struct run_seen *seen;
	struct sc_page *page;
	__u32 program;
};

/*
 * The entry of this task, if it has one: of the first thread of a named process, or of one that a
 * named thread started. 0: it has none.
 */
static __always_inline __u32 waking_of(struct task_struct *p, struct waking *w)
{
	struct run_watched *whose;
	__u32 number = p->pid;

	if (p->pid != p->tgid)
		return 0;
	whose = bpf_map_lookup_elem(&watched, &number);
	if (!whose || whose->started != p->start_boottime / 10000000) {
		p = p->real_parent;
		number = p->pid;
		whose = bpf_map_lookup_elem(&watched, &number);
	}
	if (!whose || !whose->wakeups || whose->started != p->start_boottime / 10000000)
		return 0;
	w->program = whose->program;
	w->seen = bpf_map_lookup_elem(&watched_seen, &w->program);
	w->page = page_of(w->program);
	return w->seen && w->page;
}

/* The task wakes, or runs and was not seen waking. */
static __always_inline void wake(struct task_struct *p)
{
	struct waking w = {};

	if (!waking_of(p, &w) || w.seen->woken_ns != 0)
		return;
	w.seen->woken_ns = bpf_ktime_get_ns();
	begin_job(w.page);
}

/* The task goes to sleep, or ends. */
static __always_inline void settle(struct task_struct *p)
{
	struct waking w = {};
	__u64 now, since;

	if (!waking_of(p, &w) || w.seen->woken_ns == 0)
		return;
	now = bpf_ktime_get_ns();
	since = w.seen->woken_ns;
	w.seen->woken_ns = 0;
	count_call(w.program, RUN_CALL_JOB, now - since, 0);
	end_job(w.page, w.program, since, now);
}

/* Loaded where jobs are wakeups, like the next program. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct *p)
{
	wake(p);
	return 0;
}

/* A thread that runs next without a seen wakeup has just begun. */
SEC("tp_btf/sched_switch")
int BPF_PROG(slept, _Bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	if (!preempt && (prev_state & TASK_INTERRUPTIBLE) != 0)
		settle(prev);
	wake(next);
	return 0;
}

/* The process ends: so does its job. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(job_ends, struct task_struct *p)
{
	settle(p);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
