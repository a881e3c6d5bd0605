/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See bpf_helpers.h. */
#define BPF_PROG(name, ...) name(__VA_ARGS__)
