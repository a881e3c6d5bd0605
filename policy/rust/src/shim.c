/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The policies are inline so that BPF programs can hold them; here each gets a symbol. */
#define SC_FN
#include <solocore/heap.h>
#include <solocore/time_table.h>
#include <solocore/memguard.h>
#include <solocore/levels.h>
#include <solocore/sporadic_server.h>
#include <solocore/vcpu.h>
#include <solocore/bwlock.h>
#include <solocore/dynamic_budget.h>
#include <solocore/ready_set.h>
#include <solocore/units.h>
#include <solocore/throttle.h>
#include <solocore/admission.h>
#include <solocore/balance.h>

/* Sizes, for the tests of the Rust side's layouts. */
const sc_u64 sc_size_heap = sizeof(struct sc_heap);
const sc_u64 sc_size_table = sizeof(struct sc_table);
const sc_u64 sc_size_memguard = sizeof(struct sc_memguard);
const sc_u64 sc_size_memguard_core = sizeof(struct sc_memguard_core);
const sc_u64 sc_size_levels = sizeof(struct sc_levels);
const sc_u64 sc_size_level_core = sizeof(struct sc_level_core);
const sc_u64 sc_size_server = sizeof(struct sc_server);
const sc_u64 sc_size_server_config = sizeof(struct sc_server_config);
const sc_u64 sc_size_vcpu = sizeof(struct sc_vcpu);
const sc_u64 sc_size_vcpu_core = sizeof(struct sc_vcpu_core);
const sc_u64 sc_size_bwlock = sizeof(struct sc_bwlock);
const sc_u64 sc_size_bwlock_core = sizeof(struct sc_bwlock_core);
const sc_u64 sc_size_bwlock_task = sizeof(struct sc_bwlock_task);
const sc_u64 sc_size_dynamic_budget = sizeof(struct sc_dynamic);
const sc_u64 sc_size_dynamic_decision = sizeof(struct sc_dynamic_decision);
const sc_u64 sc_size_ready_set = sizeof(struct sc_ready_set);
const sc_u64 sc_size_throttle = sizeof(struct sc_throttle);
const sc_u64 sc_size_admission = sizeof(struct sc_admission);
const sc_u64 sc_size_response = sizeof(struct sc_response);
const sc_u64 sc_size_balance = sizeof(struct sc_balance);
const sc_u64 sc_size_balance_move = sizeof(struct sc_balance_move);
