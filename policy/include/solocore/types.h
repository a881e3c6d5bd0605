/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Types and limits shared by the policies.
 *
 * Freestanding C99: no libc, no globals, no floats, no recursion, bounded loops. State and time are
 * arguments, so the same source runs in the kernel, in the simulator and in tests.
 */
#ifndef SOLOCORE_TYPES_H
#define SOLOCORE_TYPES_H

#ifdef __VMLINUX_H__
/* The kernel's types are already there. */
typedef __u64 sc_u64;
typedef __u32 sc_u32;
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t sc_u64;
typedef uint32_t sc_u32;
#endif

#ifndef SC_MAX_TASKS
#define SC_MAX_TASKS 4096u
#endif

#endif
