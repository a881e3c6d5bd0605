/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See bpf_helpers.h. */
#define bpf_core_field_exists(field) 1
#define SC_READ_1(p, a) ((p)->a)
#define SC_READ_3(p, a, b, c) ((p)->a->b->c)
#define SC_READ_OF(_1, _2, _3, name, ...) name
#define BPF_CORE_READ(p, ...) SC_READ_OF(__VA_ARGS__, SC_READ_3, , SC_READ_1)(p, __VA_ARGS__)
