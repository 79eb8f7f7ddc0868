/* SPDX-License-Identifier: Apache-2.0
 * Tensors of a launch that share memory. */
#ifndef PP_INTERP_ALIAS_H
#define PP_INTERP_ALIAS_H

#include "devices/cpu/interp.h"

/* Notes which tensors share memory, once they are bound. */
void pp_interp_find_aliases(pp_launch *launch);
/* Whether a body writes the output over the same elements of the input after its last look at them, so that
 * nothing need be copied where the two begin at one place. The launch has been sized. */
bool pp_interp_takes_over(const pp_launch *launch, uint32_t output, uint32_t input);

#endif
