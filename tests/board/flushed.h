/* In the place of client/c/solocore_ipc_memory.h, for programs on the virtual board.
 *
 * Problem: the board takes stores past the caches for ordinary ones, so they would leave the
 * message in the caches. Rule: a slot that bypasses the caches is written and then flushed, as
 * solocore_ipc_memory.h has it for aarch64. All else is as there.
 */
#include "solocore_ipc_memory.h"

static inline void slot_write_flushed(unsigned char *slot, const void *data, uint64_t length,
				      int bypass)
{
	slot_write(slot, data, length, 0);
	if (bypass) {
		flush_lines(slot, SC_LINE + length);
		_mm_mfence();
	}
}

#define slot_write slot_write_flushed
