/* SPDX-License-Identifier: Apache-2.0
 * Object files of the generator: checked, and made runnable in memory. No LLVM is needed for that. */
#ifndef PP_OBJECT_H
#define PP_OBJECT_H

#include "base/base.h"

/* Whether the object can be loaded: well formed, of this machine, defining `name`, and referring to nothing
 * outside. E_UNSUPPORTED: it needs something from outside; E_INTERNAL: it is damaged. */
ppto_status pp_object_check(const void *object, size_t bytes, const char *name, pp_error *err);

typedef struct pp_object_code pp_object_code;
/* Copies code and constants into pages of their own. *entry: the address of `name`, until unload. */
ppto_status pp_object_load(const void *object, size_t bytes, const char *name, pp_object_code **out,
                           void **entry, pp_error *err);
void pp_object_unload(pp_object_code *code); /* NULL is fine */

#endif
