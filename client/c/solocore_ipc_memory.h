/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Accesses of a queue to shared memory: two kinds for counters, and copies into and out of slots.
 *
 * Rule: the load of a counter is ordered before later accesses, the store of a counter after
 * earlier ones. A copy that bypasses the caches is done when it returns: its stores are ordered
 * before all later stores. Slots are whole lines, so a store past the caches never has to read a
 * line first. Apart from solocore_ipc.c so that tests can put a model of memory in its place
 * (tests/interleave.c). Does not cover: CPUs on which programs may not flush lines.
 */
#ifndef SOLOCORE_IPC_MEMORY_H
#define SOLOCORE_IPC_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SC_LINE 64u

static inline uint64_t counter_load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static inline void counter_store(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

static inline int owner_swap(uint64_t *owner, uint64_t old, uint64_t new)
{
	return __atomic_compare_exchange_n(owner, &old, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

static inline int can_bypass(void)
{
	return 1;
}

/* The faster instruction may be reordered with others of its kind; a fence follows either. */
static inline int has_clflushopt(void)
{
	static int known; /* 1: no, 2: yes; every thread finds the same */
	int known_now = __atomic_load_n(&known, __ATOMIC_RELAXED);
	unsigned a, b, c, d;

	if (!known_now) {
		known_now = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 23 & 1 ? 2 : 1;
		__atomic_store_n(&known, known_now, __ATOMIC_RELAXED);
	}
	return known_now == 2;
}

__attribute__((target("clflushopt"))) static inline void flush_fast(const unsigned char *line)
{
	_mm_clflushopt((void *)line);
}

static inline void flush_lines(const unsigned char *from, size_t bytes)
{
	int fast = has_clflushopt();

	for (size_t at = 0; at < bytes; at += SC_LINE) {
		if (fast)
			flush_fast(from + at);
		else
			_mm_clflush(from + at);
	}
	_mm_sfence();
}

static inline void copy_past(unsigned char *to, const unsigned char *from, size_t length)
{
	for (size_t at = 0; at < length; at += SC_LINE) {
		long long words[SC_LINE / 8] = {0};
		size_t left = length - at;

		memcpy(words, from + at, left < SC_LINE ? left : SC_LINE);
		for (size_t w = 0; w < SC_LINE / 8; w++)
			_mm_stream_si64((long long *)(void *)(to + at) + w, words[w]);
	}
	_mm_sfence();
}
#elif defined(__aarch64__)
static inline int can_bypass(void)
{
	return 1;
}

/* Linux lets programs clean and invalidate lines, at the granularity that the CPU states. */
static inline void flush_lines(const unsigned char *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += SC_LINE)
		__asm__ volatile("dc civac, %0" ::"r"(from + at) : "memory");
	__asm__ volatile("dsb ish" ::: "memory");
}

static inline void copy_past(unsigned char *to, const unsigned char *from, size_t length)
{
	memcpy(to, from, length);
	flush_lines(to, length);
}
#else
static inline int can_bypass(void)
{
	return 0;
}

static inline void flush_lines(const unsigned char *from, size_t bytes)
{
	(void)from;
	(void)bytes;
}

static inline void copy_past(unsigned char *to, const unsigned char *from, size_t length)
{
	memcpy(to, from, length);
}
#endif

/* Into a slot: the length in its first line, the message from the second on. */
static inline void slot_write(unsigned char *slot, const void *data, uint64_t length, int bypass)
{
	if (bypass) {
		copy_past(slot, (const unsigned char *)&length, sizeof(length));
		copy_past(slot + SC_LINE, data, length);
		return;
	}
	memcpy(slot, &length, sizeof(length));
	if (length)
		memcpy(slot + SC_LINE, data, length);
}

static inline uint64_t slot_length(const unsigned char *slot)
{
	uint64_t length;

	memcpy(&length, slot, sizeof(length));
	return length;
}

/* Out of a slot; lines that were read do not stay. */
static inline void slot_read(const unsigned char *slot, void *data, uint64_t length, int bypass)
{
	if (length)
		memcpy(data, slot + SC_LINE, length);
	if (bypass)
		flush_lines(slot, SC_LINE + length);
}

#endif
