/* SPDX-License-Identifier: Apache-2.0
 * Call stacks, captured as raw return addresses and kept once each. Names are found when a report is printed
 * (docs/decisions/005-memcheck.md). Where the C library cannot unwind every stack is empty. */
#ifndef PP_STACK_H
#define PP_STACK_H

#include "base/base.h"

enum { PP_STACK_FRAMES = 24 };

typedef struct pp_stacks pp_stacks;
pp_stacks *pp_stacks_create(void);         /* NULL: out of memory */
void pp_stacks_destroy(pp_stacks *stacks); /* NULL is fine */
/* The number of the calling thread's stack, without the innermost `skip` callers; 0: none (stacks is NULL,
 * out of memory, or more than a million of them). Any thread; not from a signal handler. */
uint32_t pp_stacks_here(pp_stacks *stacks, int skip);
/* Innermost first. 0 frames for number 0. The memory lives as long as the stacks. */
size_t pp_stacks_frames(pp_stacks *stacks, uint32_t stack, void *const **frames);

/* Where an address lies. Strings live as long as the module is loaded; NULL and 0 when unknown. */
typedef struct pp_frame_info {
    const char *module, *function;
    uint64_t offset; /* in the module as a file */
} pp_frame_info;
pp_frame_info pp_stack_frame(void *address);

#endif
