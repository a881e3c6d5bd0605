/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions that an engine gives the regulators: it defines the way to stop a CPU.
 *
 * Rule: the regulators decide and call these; sched_ext.bpf.c and helper.bpf.c each define all
 * five.
 */
#ifndef SOLOCORE_ENGINE_H
#define SOLOCORE_ENGINE_H

#include "intf.h"

#include <linux/types.h>

/* Keeps regulated tasks off this CPU, which is the one that calls. */
static void cpu_stop(__u32 cpu, struct run_core *c);
/* As cpu_stop, where the program may not wait. */
static void cpu_stop_soon(__u32 cpu, struct run_core *c);
/* The CPU is throttled no longer. */
static void cpu_go(__u32 cpu);
/* A shared round begins: each throttled CPU must ask again whether it may go on. */
static void cpu_go_all(void);
/* The timer of a CPU went off. */
static void cpu_ticked(__u64 now);
/* A program of a counter begins on this CPU, perhaps in an interrupt that interrupts all. */
static void counted_begins(__u32 cpu);
/* It ends. 1: the kernel shall raise an interrupt in which the engine does the rest. */
static int counted_ends(__u32 cpu);

#endif
