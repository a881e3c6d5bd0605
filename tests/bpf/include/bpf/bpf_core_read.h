/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See bpf_helpers.h. */
