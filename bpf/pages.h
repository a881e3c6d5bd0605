/* SPDX-License-Identifier: GPL-2.0-only */
/* A client's page (client/c/solocore_page.h) as a map, found in a map of such maps. */
#ifndef SOLOCORE_PAGES_H
#define SOLOCORE_PAGES_H

#include "../client/c/solocore_page.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct client_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	/* The compiler tells no more than the name of a type that is named inside another map. */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct sc_page));
};

/* The page with this index in `pages`; 0: there is none. */
static __always_inline struct sc_page *page_at(void *pages, __u32 at)
{
	void *map = bpf_map_lookup_elem(pages, &at);
	__u32 zero = 0;

	return map ? bpf_map_lookup_elem(map, &zero) : 0;
}

#endif
