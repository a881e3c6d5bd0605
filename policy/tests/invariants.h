/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Invariants of a world after every event: invariants/<mechanism>.h defines sc_check_<mechanism>,
 * which returns the broken one, or 0. A mechanism without such a file is only run.
 */
#ifndef SOLOCORE_TESTS_INVARIANTS_H
#define SOLOCORE_TESTS_INVARIANTS_H

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STRING_(a) #a
#define STRING(a) STRING_(a)
#define MECHANISM_NAME STRING(MECHANISM)

#ifdef INVARIANTS
#include INVARIANTS
#define CHECK(world, event, answer) JOIN(sc_check_, MECHANISM)(world, event, answer)
#else
#define CHECK(world, event, answer) ((const char *)0)
#endif

#endif
