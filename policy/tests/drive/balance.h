/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Operations: 0 init (a: cores, b: cache_aware) -> ok, 1 colours (id: core, a: free colours) -> ok,
 * 2 add (id: vcpu, a: C, b: T, c: core, d: colours) -> ok, 3 remove (id: vcpu) -> ok, 4 rebalance
 * (id: core, a: limit) -> moves, last VCPU moved, its destination, SPV(source), SPV(destination, or
 * source if nothing moved), 5 host (id: vcpu) -> core, 6 spv (id: core) -> spv, U, count, colours
 * free, 7 trigger -> core, 8 where (id: vcpu) -> core, 9 fix (id: vcpu, a: 0 or 1) -> ok. */
#ifndef SOLOCORE_TESTS_DRIVE_BALANCE_H
#define SOLOCORE_TESTS_DRIVE_BALANCE_H

#include "../driver.h"
#include <solocore/balance.h>

#ifndef SC_WORLD_CPUS
#define SC_WORLD_CPUS 8u
#endif

struct sc_world_balance {
	sc_u64 ready; /* init has been done; it is refused from then on */
	struct sc_balance balance;
};

SC_FN void sc_drive_balance_rebalance(struct sc_balance *b, const struct sc_event *e,
				      struct sc_answer *out)
{
	struct sc_balance_move m;
	sc_u32 limit = e->a < SC_NONE ? (sc_u32)e->a : SC_NONE;

	if (!sc_balance_rebalance(b, e->id, limit, &m))
		return;
	out->word[0] = m.moves;
	out->word[1] = m.vcpu;
	out->word[2] = m.moves != 0 ? m.to : SC_NONE;
	out->word[3] = sc_balance_slack(b, m.from);
	out->word[4] = sc_balance_slack(b, m.moves != 0 ? m.to : m.from);
}

SC_FN void sc_drive_balance_spv(const struct sc_balance *b, sc_u32 core, struct sc_answer *out)
{
	if (core >= b->cores || core >= SC_MAX_CPUS)
		return;
	out->word[0] = sc_balance_slack(b, core);
	out->word[1] = b->core[SC_CPU(core)].utilization;
	out->word[2] = b->core[SC_CPU(core)].vcpus.count;
	out->word[3] = b->core[SC_CPU(core)].colours;
}

SC_FN void sc_drive_balance_host(const struct sc_balance *b, sc_u32 id, struct sc_answer *out)
{
	if (sc_balance_where(b, id) != SC_NONE)
		out->word[0] = sc_balance_host(b, id);
}

SC_FN void sc_drive_balance(struct sc_world_balance *w, const struct sc_event *e,
			    struct sc_answer *out)
{
	struct sc_balance *b = &w->balance;

	sc_answer_clear(out);
	if (e->op == 0 && !w->ready && e->a <= SC_WORLD_CPUS && e->b <= 1)
		out->word[0] = w->ready = sc_balance_init(b, (sc_u32)e->a, (sc_u32)e->b);
	if (e->op == 0 || !w->ready)
		return;
	switch (e->op) {
	case 1:
		out->word[0] = sc_balance_colours(b, e->id, e->a);
		break;
	case 2:
		if (e->c < SC_MAX_CPUS)
			out->word[0] = sc_balance_add(b, e->id, sc_utilization(e->a, e->b),
						      (sc_u32)e->c, e->d);
		break;
	case 3:
		out->word[0] = sc_balance_remove(b, e->id);
		break;
	case 4:
		sc_drive_balance_rebalance(b, e, out);
		break;
	case 5:
		sc_drive_balance_host(b, e->id, out);
		break;
	case 6:
		sc_drive_balance_spv(b, e->id, out);
		break;
	case 7:
		out->word[0] = sc_balance_trigger(b);
		break;
	case 8:
		out->word[0] = sc_balance_where(b, e->id);
		break;
	case 9:
		out->word[0] = sc_balance_fix(b, e->id, e->a != 0);
		break;
	}
}

#endif
