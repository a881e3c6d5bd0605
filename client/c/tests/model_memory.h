/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * In the place of solocore_ipc_memory.h: every access of shared memory is a step of interleave.c's
 * model.
 */
#include <stddef.h>
#include <stdint.h>

#define SC_LINE 64u

uint64_t model_load(const void *word);
/* ordered: after everything that the agent stored before. */
void model_store(void *word, uint64_t value, int ordered);

static inline uint64_t counter_load(const uint64_t *counter)
{
	return model_load(counter);
}

static inline void counter_store(uint64_t *counter, uint64_t value)
{
#ifdef MUTANT_UNORDERED
	model_store(counter, value, 0);
#else
	model_store(counter, value, 1);
#endif
}

static inline int owner_swap(uint64_t *owner, uint64_t old, uint64_t new)
{
	return model_load(owner) == old ? (*owner = new, 1) : 0;
}

static inline int can_bypass(void)
{
	return 1;
}

static inline void slot_write(unsigned char *slot, const void *data, uint64_t length, int bypass)
{
	(void)bypass;
	model_store(slot, length, 0);
	model_store(slot + SC_LINE, *(const uint64_t *)data, 0);
}

static inline uint64_t slot_length(const unsigned char *slot)
{
	return model_load(slot);
}

static inline void slot_read(const unsigned char *slot, void *data, uint64_t length, int bypass)
{
	(void)length;
	(void)bypass;
	*(uint64_t *)data = model_load(slot + SC_LINE);
}
