/* SPDX-License-Identifier: Apache-2.0
 * Planted faults: places in the runtime that can be told to be wrong, so that the tests prove that the fuzzer
 * would find such a fault. Compiled to `false` unless PP_FAULTS is defined (meson: -Dfaults=true); no release
 * has them. The reference device has none. */
#ifndef PP_FAULT_H
#define PP_FAULT_H

#include <stdbool.h>

typedef enum pp_fault_kind {
    PP_FAULT_NONE,
    PP_FAULT_LOST_EDGE,       /* a step does not wait for another one it depends on */
    PP_FAULT_EARLY_REUSE,     /* memory is given to another value one step too early */
    PP_FAULT_DROPPED_TAIL,    /* the last elements of a block are not stored */
    PP_FAULT_SWAPPED_JOIN,    /* a join gets its sides exchanged */
    PP_FAULT_WRONG_GUARD,     /* a guard against the border is one off */
    PP_FAULT_NAN_RULE,        /* a stored NaN keeps its payload and sign */
    PP_FAULT_NEGATIVE_STRIDE, /* a negative stride is taken as positive */
    PP_FAULT_STALE_SCALAR,    /* a bound number is remembered from the first run */
    PP_FAULT_OVERLAPPING_OUT, /* an output is written over an input still to be read */
    PP_FAULT_SWAPPED_BLOCKS,  /* blocks of k of a contraction add in another order */
    /* in machine code alone: */
    PP_FAULT_CODE_TAIL,  /* the last of seven elements is not stored */
    PP_FAULT_CODE_NAN,   /* a stored NaN keeps its payload and sign */
    PP_FAULT_CODE_LANES, /* a lane too many takes part in joining */
    PP_FAULT_CODE_PITCH, /* every row lies where the first one does */
    PP_FAULT_CODE_JOIN,  /* a join gets its sides exchanged */
    PP_FAULT_KINDS
} pp_fault_kind;

#ifdef PP_FAULTS
/* The fault that is on; set by the test before contexts exist. The generator of machine code has a switch of
 * its own, which is set before it compiles (devices/cpu/loop.h). */
extern int pp_fault_active;
static inline int pp_fault_now(void)
{
    return pp_fault_active;
}
static inline bool pp_fault(pp_fault_kind kind)
{
    return pp_fault_active == (int)kind;
}
#else
static inline int pp_fault_now(void)
{
    return PP_FAULT_NONE;
}
static inline bool pp_fault(pp_fault_kind kind)
{
    return (void)kind, false;
}
#endif

#endif
