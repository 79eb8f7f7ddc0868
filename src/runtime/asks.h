/* SPDX-License-Identifier: Apache-2.0
 * Who asks for the most memory: what a refusal names when no operator as such prevents pieces. */
#ifndef PP_ASKS_H
#define PP_ASKS_H

#include "runtime/runtime.h"

typedef struct pp_asks {
    uint64_t bytes;
    uint32_t origin; /* of the plan, and of the plans of its parts; PP_NONE: nobody asks */
} pp_asks;

static inline pp_asks pp_asks_more(pp_asks a, pp_asks b)
{
    return b.bytes > a.bytes ? b : a;
}
pp_asks pp_asks_of_prim(const pp_flat *flat, uint32_t prim, uint64_t bytes);
/* The kernel with the most bytes: what it stores, its partial states and its scratch. */
pp_asks pp_asks_of_instance(const pp_instance *instance);
/* "; most is for NAME (PLACE), N bytes", or nothing. program: the one the user compiled */
void pp_asks_text(const ppto_program *program, pp_asks asks, pp_text *out);

#endif
