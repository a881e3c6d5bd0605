/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The policies are inline so that BPF programs can hold them; here each gets a symbol. */
#include <solocore/fixed_priority.h>
#include <solocore/regulate.h>

_Static_assert(sizeof(struct sc_regulator) == 40, "crates/policy/src/lib.rs mirrors this layout");

sc_u32 sc_regulator_init(struct sc_regulator *r, sc_u64 budget, sc_u64 period_ns, sc_u64 now_ns)
{
	return regulator_init(r, budget, period_ns, now_ns);
}

sc_u32 sc_regulator_account(struct sc_regulator *r, sc_u64 accesses)
{
	return regulator_account(r, accesses);
}

sc_u32 sc_regulator_replenish(struct sc_regulator *r, sc_u64 now_ns)
{
	return regulator_replenish(r, now_ns);
}

sc_u32 sc_fixed_priority_pick(const sc_u32 *priority, sc_u32 count)
{
	return fixed_priority_pick(priority, count);
}
