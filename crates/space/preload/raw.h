/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * System calls without libc. The handler thread has no thread-local storage of its own and must
 * touch no memory of the program, whose pages may be on the move: neither errno nor libc's memcpy
 * (which reads variables of libc) may be used by it.
 */
#ifndef SOLOCORE_PRELOAD_RAW_H
#define SOLOCORE_PRELOAD_RAW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define PAGE 4096ul

#if defined(__x86_64__)
static inline long raw6(long n, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline void copy_bytes(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
#elif defined(__aarch64__)
static inline long raw6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

/* Compiled with -fno-tree-loop-distribute-patterns, so that it does not become a call of memcpy. */
static inline void copy_bytes(void *to, const void *from, size_t bytes)
{
	volatile char *out = to;
	const char *in = from;
	while (bytes--)
		*out++ = *in++;
}
#else
#error "the preloaded library knows x86-64 and aarch64"
#endif

#define raw(n, ...) RAW_SIX(n, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_SIX(n, a, b, c, d, e, f, ...)                                                          \
	raw6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* A system call's answer that is an error (-errno). */
static inline int failed(long result)
{
	return (unsigned long)result > -4096ul;
}

static inline void zero_bytes(void *to, size_t bytes)
{
	volatile char *out = to;
	while (bytes--)
		*out++ = 0;
}

static inline size_t text_length(const char *text)
{
	size_t n = 0;
	while (text[n])
		n++;
	return n;
}

static inline int starts_with(const char *text, const char *prefix)
{
	while (*prefix)
		if (*text++ != *prefix++)
			return 0;
	return 1;
}

static inline uint64_t now_ns(void)
{
	long time[2] = {0, 0};
	raw(SYS_clock_gettime, 1, time);
	return (uint64_t)time[0] * 1000000000u + (uint64_t)time[1];
}

/* A name for memory in /proc/PID/maps, on kernels with CONFIG_ANON_VMA_NAME. */
static inline void name_memory(uint64_t start, uint64_t size, const char *name)
{
	raw(SYS_prctl, 0x53564d41 /* PR_SET_VMA */, 0 /* PR_SET_VMA_ANON_NAME */, start, size,
	    name);
}

#endif
