/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Functions of libc that this library answers, in front of libc's own.
 */
#ifndef SOLOCORE_PRELOAD_CALLS_H
#define SOLOCORE_PRELOAD_CALLS_H

#include "raw.h"

#include <dlfcn.h>
#include <errno.h>

#define EXPORTED __attribute__((visibility("default")))

static inline long answer(long result)
{
	if (!failed(result))
		return result;
	errno = (int)-result;
	return -1;
}

static inline int no_function(void)
{
	return (int)answer(-ENOSYS);
}

/* The function of libc. */
#define NEXT(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&name) next;                                                     \
		void *found = next ? (void *)next : dlsym(RTLD_NEXT, #name);                       \
		next = (__typeof__(&name))(found ? found : (void *)no_function);                   \
	})

#endif
