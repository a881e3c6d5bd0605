/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The program's side of the preloaded library.
 */
#ifndef SOLOCORE_PRELOAD_HOOKS_H
#define SOLOCORE_PRELOAD_HOOKS_H

#include "space.h"

/* The page that threads and handler share; null while there is no handler. */
extern struct shared *self;
/* LD_PRELOAD=..., SOLOCORE_SPACE=... and SOLOCORE_QUEUES=... as this program was given them. */
extern char preload_text[128], space_text[192], queues_text[1024];

/* hooks.c */
void call_handler(uint32_t kind, const void *start, size_t length, const char *text);
int install_hooks(void);
int hook_function(const char *name, void *hook);

/* hold.c */
void hold_until_release(char **environment);
void hold_end(void);
int hold_asked(char **environment);
void hold_forget(void);

/* environment.c */
int why_uncoloured(const char *path, char *reason, size_t size);
void colour_environment(char *const *environment, char **with, char *preload);

#endif
