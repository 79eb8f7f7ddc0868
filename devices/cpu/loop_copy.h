/* SPDX-License-Identifier: Apache-2.0
 * Loops as keys of a store: a copy that needs nothing of its original, and equality. */
#ifndef PP_LOOP_COPY_H
#define PP_LOOP_COPY_H

#include "devices/cpu/loop.h"

/* Functions and tables included; all of it in the arena. E_NOMEM */
ppto_status pp_loop_copy(pp_arena *arena, const pp_loop *loop, pp_loop *out);
/* Whether they say the same. Functions are compared by hash, as in programs. */
bool pp_loop_equal(const pp_loop *a, const pp_loop *b);

#endif
