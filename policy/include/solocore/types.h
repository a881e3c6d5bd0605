/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Types, limits and arithmetic shared by the policies.
 *
 * Freestanding C99: no libc, no globals, no floats, no recursion, bounded loops. State and time are
 * arguments, so the same source runs in the kernel (BPF), in the simulator, in an RTOS and in
 * tests.
 *
 * Time is in nanoseconds and never wraps. A clock is read as at most SC_MAX_TIME (146 years). A
 * period, capacity or budget in time is at most SC_MAX_SPAN (73 minutes), and their sum fits 64
 * bits.
 */
#ifndef SOLOCORE_TYPES_H
#define SOLOCORE_TYPES_H

#ifdef __VMLINUX_H__
/* The kernel's types are already there. */
typedef __u64 sc_u64;
typedef __u32 sc_u32;
#else
#include <stdint.h>
typedef uint64_t sc_u64;
typedef uint32_t sc_u32;
#endif

/* Specifiers of the functions of these headers. A build that wants symbols defines it empty. */
#ifndef SC_FN
#define SC_FN static inline __attribute__((unused))
#endif

/*
 * A function with loops that the BPF verifier should look at once, by itself, and not again with
 * all that each caller knows: global there (returns a number, checks its pointers for null), SC_FN
 * elsewhere.
 */
#ifdef __BPF__
#define SC_SUBPROGRAM __attribute__((noinline))
#else
#define SC_SUBPROGRAM SC_FN
#endif

/* The build may lower these, or raise them within the ranges that the checks below allow. */
#ifndef SC_MAX_CPUS
#define SC_MAX_CPUS 256u
#endif
#ifndef SC_MAX_TASKS
#define SC_MAX_TASKS 4096u
#endif
#ifndef SC_MAX_REPLENISHMENTS
#define SC_MAX_REPLENISHMENTS 16u
#endif
#if SC_MAX_CPUS < 1 || SC_MAX_CPUS > 256
#error "SC_MAX_CPUS is 1 to 256"
#endif
#if SC_MAX_TASKS < 1 || SC_MAX_TASKS > 4096
#error "SC_MAX_TASKS is 1 to 4096"
#endif
#if SC_MAX_REPLENISHMENTS < 1 || SC_MAX_REPLENISHMENTS > 64
#error "SC_MAX_REPLENISHMENTS is 1 to 64"
#endif

#define SC_NONE 0xffffffffu		   /* no task, no core */
#define SC_UNLIMITED 0xffffffffffffffffull /* no limit */
#define SC_MAX_TIME 0x4000000000000000ull  /* 2^62 ns */
#define SC_MAX_SPAN 0x40000000000ull	   /* 2^42 ns */
#define SC_MAX_ACCESSES 0xffffffffull	   /* accesses per period */
#define SC_MAX_SAMPLE 0x7fffffffull	   /* largest number that every counter can count down */

/* Verdicts. */
#define SC_STOP 0u /* the core must not run (regulated tasks) until the policy allows it again */
#define SC_GO 1u   /* the core goes on */
#define SC_GO_ALL                                                                                  \
	2u /* every core, this one too, must ask again: spent budgets are granted again \ */

static inline __attribute__((unused)) sc_u64 sc_add(sc_u64 a, sc_u64 b)
{
	return a <= SC_UNLIMITED - b ? a + b : SC_UNLIMITED;
}

/* a - b, or 0 where b is larger. */
static inline __attribute__((unused)) sc_u64 sc_sub(sc_u64 a, sc_u64 b)
{
	return a > b ? a - b : 0;
}

static inline __attribute__((unused)) sc_u64 sc_min(sc_u64 a, sc_u64 b)
{
	return a < b ? a : b;
}

static inline __attribute__((unused)) sc_u64 sc_max(sc_u64 a, sc_u64 b)
{
	return a > b ? a : b;
}

static inline __attribute__((unused)) sc_u64 sc_time(sc_u64 now_ns)
{
	return sc_min(now_ns, SC_MAX_TIME);
}

/* A counter's sample period for a number of accesses: never 0, which hardware reads as "never". */
static inline __attribute__((unused)) sc_u64 sc_sample(sc_u64 accesses)
{
	return accesses == 0 ? 1 : sc_min(accesses, SC_MAX_SAMPLE);
}

/* Is `span` a period, capacity or budget that the arithmetic above can hold? */
static inline __attribute__((unused)) sc_u32 sc_span_valid(sc_u64 span_ns)
{
	return span_ns >= 1 && span_ns <= SC_MAX_SPAN;
}

/*
 * An index that the caller has checked. A compiler drops a second check of a proved fact, and the
 * BPF verifier forgets the first when a register is copied or spilled. In BPF builds a mask that
 * the compiler cannot drop stands at the access. The limits must be powers of two there.
 */
#ifdef __BPF__
#define SC_MASKED(i, limit)                                                                        \
	({                                                                                         \
		sc_u64 masked_ = (i);                                                              \
		__asm__ volatile("%0 &= %1" : "+r"(masked_) : "i"((limit)-1));                     \
		masked_;                                                                           \
	})
#if (SC_MAX_TASKS & (SC_MAX_TASKS - 1)) != 0 || (SC_MAX_CPUS & (SC_MAX_CPUS - 1)) != 0 ||          \
	(SC_MAX_REPLENISHMENTS & (SC_MAX_REPLENISHMENTS - 1)) != 0
#error "for BPF, the limits are powers of two"
#endif
#else
#define SC_MASKED(i, limit) (i)
#endif
#define SC_TASK(i) SC_MASKED(i, SC_MAX_TASKS)
#define SC_CPU(i) SC_MASKED(i, SC_MAX_CPUS)

/*
 * Words that several cores change. A build for one core, or for cores that hold a lock around the
 * policies, may define SC_SINGLE; a machine without 64-bit atomics must.
 * SC_CAS_TRIES bounds the loops that change such a word by compare and swap.
 */
#ifndef SC_CAS_TRIES
#define SC_CAS_TRIES 16u
#endif
#ifdef SC_SINGLE
static inline __attribute__((unused)) sc_u32 sc_cas(sc_u64 *word, sc_u64 old, sc_u64 new_value)
{
	if (*word != old)
		return 0;
	*word = new_value;
	return 1;
}

static inline __attribute__((unused)) sc_u64 sc_exchange(sc_u64 *word, sc_u64 value)
{
	sc_u64 old = *word;

	*word = value;
	return old;
}

static inline __attribute__((unused)) sc_u64 sc_fetch_add(sc_u64 *word, sc_u64 value)
{
	sc_u64 old = *word;

	*word = old + value;
	return old;
}
#else
static inline __attribute__((unused)) sc_u32 sc_cas(sc_u64 *word, sc_u64 old, sc_u64 new_value)
{
	return __sync_val_compare_and_swap(word, old, new_value) == old;
}

static inline __attribute__((unused)) sc_u64 sc_exchange(sc_u64 *word, sc_u64 value)
{
#ifdef __BPF__
	return __sync_lock_test_and_set(word, value);
#else
	return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL);
#endif
}

static inline __attribute__((unused)) sc_u64 sc_fetch_add(sc_u64 *word, sc_u64 value)
{
	return __sync_fetch_and_add(word, value);
}
#endif

static inline __attribute__((unused)) sc_u64 sc_load(const sc_u64 *word)
{
	return *(const volatile sc_u64 *)word;
}

#endif
