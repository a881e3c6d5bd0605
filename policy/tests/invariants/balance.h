/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SOLOCORE_TESTS_INVARIANTS_BALANCE_H
#define SOLOCORE_TESTS_INVARIANTS_BALANCE_H

#include "ready_set.h"

static inline const char *sc_check_balance(const struct sc_world_balance *w,
					   const struct sc_event *e, const struct sc_answer *out)
{
	const struct sc_balance *b = &w->balance;
	sc_u64 utilization[SC_WORLD_CPUS] = {0};
	sc_u32 count[SC_WORLD_CPUS] = {0}, i;

	(void)e;
	(void)out;
	for (i = 0; i < SC_MAX_TASKS; i++) {
		sc_u32 core = sc_balance_where(b, i);

		if (core == SC_NONE)
			continue;
		if (core >= b->cores || !sc_ready_contains(&b->core[core].vcpus, i))
			return "core of a VCPU";
		utilization[core] += b->vcpu[i].utilization;
		count[core]++;
	}
	for (i = 0; i < b->cores; i++) {
		const char *broken = sc_ready_broken(&b->core[i].vcpus);

		if (broken)
			return broken;
		if (count[i] > SC_MAX_CORE_VCPUS)
			return "too many VCPUs on a core";
		if (b->core[i].room != (count[i] < SC_MAX_CORE_VCPUS
						? sc_sub(sc_rms_bound(count[i] + 1), utilization[i])
						: 0))
			return "room of a core";
		if (b->core[i].utilization != utilization[i] ||
		    b->core[i].vcpus.count != count[i] ||
		    b->core[i].slack != sc_slack(utilization[i], count[i]))
			return "sums of a core";
	}
	return b->zero == 0 ? 0 : "zero";
}

#endif
